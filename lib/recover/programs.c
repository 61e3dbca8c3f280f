/* Jobs of several programs (see programs.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "programs.h"

#include <stdlib.h>
#include <string.h>

#include "detect/sure.h"
#include "set/pack.h"

/* What each process tells the others at the opening. */
struct fact {
    int32_t program, spares;
};

void ftk_programs_free(struct ftk_programs *p)
{
    free(p->ranks);
    free(p->of);
    free(p->starts);
    memset(p, 0, sizeof *p);
}

int ftk_programs_number(void)
{
    int *number = NULL, flag = 0;
    if (ftk_supply_program() >= 0)
        return ftk_supply_program();
    int rc = PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, (void *)&number, &flag);
    return rc == MPI_SUCCESS && flag ? *number : 0;
}

/* ---- the opening ----------------------------------------------------------------------- */

static void forget(struct ftk_programs *p)
{
    const int own = p->own;
    ftk_programs_free(p);
    p->own = own;
}

/* Count programs, ranks and spares. */
static int count(struct ftk_programs *p, const struct fact *all, int n)
{
    for (int i = 0; i < n; i++)
        p->n = all[i].program >= p->n ? all[i].program + 1 : p->n;
    p->ranks = calloc((size_t)p->n, sizeof *p->ranks);
    if (!p->ranks)
        return ftk_fail(FTKIT_ERR_NOMEM, "programs");
    for (int k = 0; k < p->n; k++) {
        int first = -1;
        for (int i = 0; i < n; i++) {
            if (all[i].program != k)
                continue;
            first = first < 0 ? i : first;
            p->ranks[k]++;
            if (all[i].spares != all[first].spares)
                return ftk_fail(FTKIT_ERR_MISMATCH,
                    "the processes of program %d have spares.count = %d and %d", k,
                    all[first].spares, all[i].spares);
        }
        if (first < 0)
            continue; /* all its processes are dead: p->unknown ends the job */
        p->ranks[k] -= all[first].spares;
        p->spares += all[first].spares;
        if (p->ranks[k] < 1 && p->unknown == 0)
            return ftk_fail(FTKIT_ERR_CONFIG,
                "program %d has %d process%s and spares.count = %d: spares.count is the number of "
                "spares of each program",
                k, p->ranks[k] + all[first].spares,
                p->ranks[k] + all[first].spares == 1 ? "" : "es", all[first].spares);
    }
    return FTKIT_OK;
}

/* Gather how to start each program, from its first process; all [n]. */
static int gather_starts(struct ftk_programs *p, MPI_Comm s, const struct fact *all, int n, int me)
{
    const struct ftk_sure telling = { s, NULL, "telling the command lines of the programs" };
    size_t own = 0;
    char *start = ftk_supply_start(&own); /* NULL: no memory, so this program cannot be spawned */
    int64_t mine = (int64_t)own;
    int64_t *lengths = malloc((size_t)n * sizeof *lengths);
    size_t *bytes = calloc((size_t)n, sizeof *bytes);
    int rc = lengths && bytes ? FTKIT_OK : ftk_fail(FTKIT_ERR_NOMEM, "programs");
    for (int k = me - 1; k >= 0; k--)
        if (all[k].program == all[me].program)
            mine = 0; /* another process tells */
    if (rc == FTKIT_OK)
        rc = ftk_sure_allgather(&telling, &mine, sizeof mine, lengths);
    for (int i = 0; rc == FTKIT_OK && i < n; i++) {
        bytes[i] = (size_t)lengths[i];
        p->bytes += bytes[i];
    }
    if (rc == FTKIT_OK && !(p->starts = malloc(p->bytes + 1)))
        rc = ftk_fail(FTKIT_ERR_NOMEM, "programs");
    if (rc == FTKIT_OK)
        rc = ftk_sure_allgatherv(&telling, start, bytes, p->starts);
    free(lengths);
    free(bytes);
    free(start);
    return rc;
}

int ftk_programs_gather(struct ftkit_ctx *ctx, MPI_Comm s, int size)
{
    const struct ftk_sure telling = { s, NULL, "telling the programs of the job" };
    const struct fact mine = { ftk_programs_number(), ctx->cfg.spares };
    struct ftk_programs *p = &ctx->programs;
    int n = 0, me = 0;
    ftk_programs_free(p);
    if (MPI_Comm_size(s, &n) != MPI_SUCCESS || MPI_Comm_rank(s, &me) != MPI_SUCCESS)
        return ftk_fail(FTKIT_ERR_MPI, "%s", telling.what);
    struct fact *all = malloc((size_t)n * sizeof *all);
    if (!all)
        return ftk_fail(FTKIT_ERR_NOMEM, "programs");
    int rc = ftk_sure_allgather(&telling, &mine, sizeof mine, all);
    p->own = mine.program;
    p->unknown = size - n;
    if (rc == FTKIT_OK)
        rc = count(p, all, n);
    if (rc == FTKIT_OK)
        rc = gather_starts(p, s, all, n, me);
    free(all);
    if (rc != FTKIT_OK)
        forget(p);
    return rc;
}

/* ---- repairs --------------------------------------------------------------------------- */

/* The first process that has the tables: one with a rank, else any.  -1: none has. */
static int teller(const struct ftk_census *c)
{
    int any = -1;
    for (int i = 0; i < c->n; i++) {
        if (c->entries[i].nprograms == 0)
            continue;
        if (c->entries[i].rank >= 0)
            return i;
        any = any < 0 ? i : any;
    }
    return any;
}

/* The tables as one block: numbers, then the command lines. */
enum { HEAD_N, HEAD_UNKNOWN, HEAD_RANKS, HEAD_BYTES, HEAD_WORDS };

static size_t block_bytes(const int64_t *head)
{
    return sizeof(int) * (size_t)(head[HEAD_N] + head[HEAD_RANKS]) + (size_t)head[HEAD_BYTES];
}

static char *write_block(const struct ftk_programs *p, const int64_t *head)
{
    char *all = malloc(block_bytes(head) + 1);
    const size_t a = (size_t)p->n * sizeof *p->ranks, b = (size_t)p->nof * sizeof *p->of;
    if (!all)
        return NULL;
    memcpy(all, p->ranks, a);
    if (b > 0)
        memcpy(all + a, p->of, b);
    memcpy(all + a + b, p->starts, p->bytes);
    return all;
}

static int read_block(struct ftk_programs *p, const int64_t *head, const char *all)
{
    forget(p);
    p->ranks = malloc((size_t)head[HEAD_N] * sizeof *p->ranks);
    p->of = malloc((size_t)(head[HEAD_RANKS] + 1) * sizeof *p->of);
    p->starts = malloc((size_t)head[HEAD_BYTES] + 1);
    if (!p->ranks || !p->of || !p->starts) {
        forget(p);
        return ftk_fail(FTKIT_ERR_NOMEM, "programs");
    }
    p->n = (int)head[HEAD_N];
    p->unknown = (int)head[HEAD_UNKNOWN];
    p->nof = (int)head[HEAD_RANKS];
    p->bytes = (size_t)head[HEAD_BYTES];
    const size_t a = (size_t)p->n * sizeof *p->ranks, b = (size_t)p->nof * sizeof *p->of;
    memcpy(p->ranks, all, a);
    memcpy(p->of, all + a, b);
    memcpy(p->starts, all + a + b, p->bytes);
    return FTKIT_OK;
}

int ftk_programs_share(struct ftkit_ctx *ctx, MPI_Comm s, const struct ftk_census *c)
{
    const struct ftk_sure sharing = { s, NULL, "sharing the programs of the job" };
    struct ftk_programs *p = &ctx->programs;
    const int root = teller(c);
    int me = 0;
    if (root < 0)
        return FTKIT_OK;
    if (MPI_Comm_rank(s, &me) != MPI_SUCCESS)
        return ftk_fail(FTKIT_ERR_MPI, "%s", sharing.what);
    int64_t head[HEAD_WORDS] = { p->n, p->unknown, p->nof, (int64_t)p->bytes };
    int rc = ftk_sure_bcast(&sharing, root, head, sizeof head);
    if (rc != FTKIT_OK)
        return rc;
    char *all = me == root ? write_block(p, head) : malloc(block_bytes(head) + 1);
    if (!all)
        return ftk_fail(FTKIT_ERR_NOMEM, "programs");
    rc = ftk_sure_bcast(&sharing, root, all, block_bytes(head));
    if (rc == FTKIT_OK && me != root)
        rc = read_block(p, head, all);
    free(all);
    return rc;
}

int ftk_programs_list(const struct ftk_programs *programs, const struct ftk_census *c,
    const struct ftk_plan *p, int **of)
{
    *of = NULL;
    if (programs->n == 0)
        return FTKIT_OK;
    *of = malloc((size_t)p->nranks * sizeof **of);
    if (!*of)
        return ftk_fail(FTKIT_ERR_NOMEM, "programs");
    for (int r = 0; r < p->nranks; r++)
        (*of)[r] = c->entries[p->proc_of[r]].program;
    return FTKIT_OK;
}

/* ---- sets ------------------------------------------------------------------------------ */

int ftk_programs_check(const struct ftkit_ctx *ctx, const struct ftk_seg_header *h)
{
    const struct ftk_programs *p = &ctx->programs;
    const int now = p->n > 0 ? p->n : 1, was = (int)h->nprograms;
    const unsigned long long set = h->set;
    if (was == 0 || (was == 1 && now == 1))
        return FTKIT_OK; /* 0: an older ftkit wrote the set */
    if (was != now)
        return ftk_fail(FTKIT_ERR_UNSUPPORTED,
            "set %llu is of a job of %d program%s, and this job has %d: start the same programs, "
            "with as many ranks of each",
            set, was, FTK_S(was), now);
    if (h->nranks != (uint32_t)ctx->nranks || h->programs_sum != ftk_programs_sum(ctx))
        return ftk_fail(FTKIT_ERR_UNSUPPORTED,
            "set %llu is of %u ranks of %d programs, with another number of ranks of a program "
            "than in this job: start as many ranks of each program",
            set, h->nranks, was);
    return FTKIT_OK;
}
