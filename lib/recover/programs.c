/* Jobs of several programs (see programs.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "detect/sure.h"
#include "set/pack.h"
#include "supply.h"

void ftk_programs_free(struct ftkit_ctx *ctx)
{
    struct ftk_programs *p = &ctx->programs;
    free(p->list);
    free(p->of);
    free(p->commands);
    memset(p, 0, sizeof *p);
}

void ftk_programs_install(struct ftkit_ctx *ctx, int *of, int n)
{
    free(ctx->programs.of);
    ctx->programs.of = of;
    ctx->programs.nof = of ? n : 0;
}

int ftk_programs_appnum(void)
{
    int *number = NULL, flag = 0;
    int rc = PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, (void *)&number, &flag);
    return rc == MPI_SUCCESS && flag && *number > 0 ? *number : 0;
}

int ftk_programs_started(void)
{
    const char *n = getenv("OMPI_NUM_APP_CTX");
    return n ? atoi(n) : 0;
}

/* ---- the opening ----------------------------------------------------------------------- */

/* What each process sends to the others. */
struct fact {
    int32_t appnum, spares;
};

/* One program in words of mpirun. */
struct part {
    int processes; /* with the dead ones */
    int spares;
    int first;   /* its first live process, -1: none */
    int program; /* its number here */
    size_t at;   /* of its command */
};

/* What the processes have exchanged; the same on all of them. */
struct meeting {
    MPI_Comm s;
    int n, me;         /* live processes; this one */
    struct fact *fact; /* [n] */
    struct part *part; /* [nparts] */
    int nparts;
    char *commands; /* of the first processes */
    size_t bytes;
};

/* Count the processes of each part, with the dead ones, as mpirun has started them.  false: mpirun
 * does not say, or the communicator is not MPI_COMM_WORLD. */
static bool count_started(struct meeting *m, int size)
{
    const char *text = getenv("OMPI_APP_CTX_NUM_PROCS"); /* "2 2" */
    char *rest = (char *)text;                           /* for strtol() */
    int world = 0, all = 0;
    if (!text || PMPI_Comm_size(MPI_COMM_WORLD, &world) != MPI_SUCCESS || world != size)
        return false;
    for (int k = 0; k < m->nparts; k++) {
        m->part[k].processes = (int)strtol(rest, &rest, 10);
        all += m->part[k].processes;
    }
    return all == size && *rest == '\0';
}

/* Fill m->part, but for the commands. */
static int count(struct meeting *m, int size)
{
    m->nparts = ftk_programs_started();
    for (int i = 0; i < m->n; i++)
        m->nparts = m->fact[i].appnum >= m->nparts ? m->fact[i].appnum + 1 : m->nparts;
    m->part = calloc((size_t)m->nparts + 1, sizeof *m->part);
    if (!m->part)
        return ftk_fail(FTKIT_ERR_NOMEM, "programs");
    const bool known = count_started(m, size);
    for (int k = 0; k < m->nparts; k++) {
        m->part[k].first = -1;
        m->part[k].processes = known ? m->part[k].processes : 0;
    }
    for (int i = 0; i < m->n; i++) {
        struct part *p = &m->part[m->fact[i].appnum];
        p->processes += !known;
        if (p->first < 0) {
            p->first = i;
            p->spares = m->fact[i].spares;
        }
        if (m->fact[i].spares != p->spares)
            return ftk_fail(FTKIT_ERR_MISMATCH,
                "the processes of program %d (mpirun a : b, the first one is 0) have spares.count "
                "= %d and %d",
                m->fact[i].appnum, p->spares, m->fact[i].spares);
    }
    return known || m->n == size
               ? FTKIT_OK
               : ftk_fail(FTKIT_ERR_PEER,
                   "a process of a job of several programs was lost before it could tell its "
                   "program: the job has to be relaunched");
}

/* Each program has a process, and more processes than spares. */
static int check_parts(const struct meeting *m)
{
    for (int k = 0; k < m->nparts; k++) {
        const struct part *p = &m->part[k];
        if (p->first < 0 && p->processes > 0)
            return ftk_fail(FTKIT_ERR_PEER,
                "all processes of program %d of the job (the first one is 0) were lost before they "
                "opened the context: the job has to be relaunched",
                k);
        if (p->processes > 0 && p->processes <= p->spares)
            return ftk_fail(FTKIT_ERR_CONFIG,
                "program %d has %d process%s and spares.count = %d: spares.count is the number of "
                "spares of each program",
                k, p->processes, p->processes == 1 ? "" : "es", p->spares);
    }
    return FTKIT_OK;
}

/* Gather the commands of the first processes. */
static int gather_commands(struct meeting *m)
{
    static const char unknown[] = "0 0\0\0"; /* no memory: this program cannot be spawned */
    const struct ftk_sure exchange = { m->s, NULL, "exchanging the commands of the programs" };
    size_t own = 0;
    char *command = ftk_command_write(&own);
    const bool first = m->part[m->fact[m->me].appnum].first == m->me;
    int64_t mine = !first ? 0 : command ? (int64_t)own : (int64_t)sizeof unknown;
    int64_t *lengths = malloc((size_t)m->n * sizeof *lengths);
    size_t *bytes = calloc((size_t)m->n, sizeof *bytes);
    int rc = lengths && bytes ? FTKIT_OK : ftk_fail(FTKIT_ERR_NOMEM, "programs");
    if (rc == FTKIT_OK)
        rc = ftk_sure_allgather(&exchange, &mine, sizeof mine, lengths);
    for (int i = 0; rc == FTKIT_OK && i < m->n; i++) {
        if (m->part[m->fact[i].appnum].first == i)
            m->part[m->fact[i].appnum].at = m->bytes;
        bytes[i] = (size_t)lengths[i];
        m->bytes += bytes[i];
    }
    if (rc == FTKIT_OK && !(m->commands = malloc(m->bytes + 1)))
        rc = ftk_fail(FTKIT_ERR_NOMEM, "programs");
    if (rc == FTKIT_OK)
        rc = ftk_sure_allgatherv(&exchange, command ? command : unknown, bytes, m->commands);
    free(lengths);
    free(bytes);
    free(command);
    return rc;
}

/* The number of the program of part k, among those of the parts before; -1: it is a new one. */
static int find_same(const struct meeting *m, int k, const struct ftk_command *c)
{
    for (int j = 0; j < k; j++) {
        struct ftk_command other;
        if (m->part[j].first < 0)
            continue;
        (void)ftk_command_read(m->commands + m->part[j].at, m->bytes - m->part[j].at, &other);
        const bool same = ftk_command_same(&other, c);
        ftk_command_free(&other);
        if (same)
            return m->part[j].program;
    }
    return -1;
}

/* Make the tables of the programs.  Parts with the same command are one program. */
static int make_tables(struct meeting *m, struct ftk_programs *p)
{
    p->list = calloc((size_t)m->nparts + 1, sizeof *p->list);
    p->commands = malloc(m->bytes + 1);
    if (!p->list || !p->commands)
        return ftk_fail(FTKIT_ERR_NOMEM, "programs");
    for (int k = 0; k < m->nparts; k++) {
        struct ftk_command c;
        struct part *part = &m->part[k];
        if (part->first < 0)
            continue;
        const size_t bytes = ftk_command_read(m->commands + part->at, m->bytes - part->at, &c);
        part->program = bytes > 0 ? find_same(m, k, &c) : -1;
        if (bytes > 0 && part->program < 0) {
            part->program = p->n++;
            memcpy(p->commands + p->bytes, m->commands + part->at, bytes);
            p->bytes += bytes;
            p->list[part->program] = (struct ftk_program){ .appnum = k,
                .executable = ftk_command_executable(&c),
                .command = ftk_command_hash(&c) };
        }
        ftk_command_free(&c);
        if (bytes == 0)
            return ftk_fail(FTKIT_ERR_NOMEM, "programs");
        p->list[part->program].ranks += part->processes - part->spares;
    }
    for (int i = 1; i < m->n; i++)
        p->mixed =
            p->mixed || m->part[m->fact[i].appnum].program < m->part[m->fact[i - 1].appnum].program;
    p->own = m->part[m->fact[m->me].appnum].program;
    for (int i = 0; i < m->me; i++)
        p->position += m->part[m->fact[i].appnum].program == p->own;
    return FTKIT_OK;
}

static int meet(struct meeting *m, struct ftk_programs *p, int spares, int size)
{
    const struct ftk_sure exchange = { m->s, NULL, "exchanging the programs of the job" };
    const struct fact mine = { ftk_programs_appnum(), spares };
    if (MPI_Comm_size(m->s, &m->n) != MPI_SUCCESS || MPI_Comm_rank(m->s, &m->me) != MPI_SUCCESS)
        return ftk_fail(FTKIT_ERR_MPI, "%s", exchange.what);
    m->fact = malloc((size_t)m->n * sizeof *m->fact);
    if (!m->fact)
        return ftk_fail(FTKIT_ERR_NOMEM, "programs");
    int rc = ftk_sure_allgather(&exchange, &mine, sizeof mine, m->fact);
    if (rc == FTKIT_OK)
        rc = count(m, size);
    if (rc == FTKIT_OK)
        rc = check_parts(m);
    if (rc == FTKIT_OK)
        rc = gather_commands(m);
    if (rc == FTKIT_OK)
        rc = make_tables(m, p);
    if (rc != FTKIT_OK)
        return rc;
    if (m->me == 0 && !getcwd(p->directory, sizeof p->directory))
        p->directory[0] = '\0';
    return ftk_sure_bcast(&exchange, 0, p->directory, sizeof p->directory);
}

int ftk_programs_gather(struct ftkit_ctx *ctx, MPI_Comm s, int size, int *spares)
{
    struct meeting m = { .s = s };
    struct ftk_programs *p = &ctx->programs;
    ftk_programs_free(ctx);
    int rc = meet(&m, p, ctx->cfg.spares, size);
    *spares = 0;
    for (int k = 0; rc == FTKIT_OK && k < m.nparts; k++)
        *spares += m.part[k].spares;
    if (rc != FTKIT_OK || p->n == 1)
        ftk_programs_free(ctx);
    free(m.fact);
    free(m.part);
    free(m.commands);
    return rc;
}

void ftk_programs_join(struct ftkit_ctx *ctx)
{
    struct ftk_programs *p = &ctx->programs;
    const int own = ftk_supply_program();
    p->own = own > 0 ? own : 0;
    snprintf(p->directory, sizeof p->directory, "%s", ftk_supply_directory());
}

/* ---- repairs --------------------------------------------------------------------------- */

/* The first process that has the tables: one with a rank, else any.  -1: none has. */
static int reporter(const struct ftk_census *c)
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

/* The tables as one block: list, programs of the ranks, commands. */
enum { HEAD_N, HEAD_MIXED, HEAD_RANKS, HEAD_BYTES, HEAD_WORDS };

static size_t block_bytes(const int64_t *head)
{
    return sizeof(struct ftk_program) * (size_t)head[HEAD_N]
           + sizeof(int) * (size_t)head[HEAD_RANKS] + (size_t)head[HEAD_BYTES];
}

static char *write_block(const struct ftk_programs *p, const int64_t *head)
{
    char *all = malloc(block_bytes(head) + 1);
    const size_t a = (size_t)p->n * sizeof *p->list, b = (size_t)p->nof * sizeof *p->of;
    if (!all)
        return NULL;
    memcpy(all, p->list, a);
    if (b > 0)
        memcpy(all + a, p->of, b);
    memcpy(all + a + b, p->commands, p->bytes);
    return all;
}

static int read_block(struct ftk_programs *p, const int64_t *head, const char *all)
{
    const size_t a = (size_t)head[HEAD_N] * sizeof *p->list;
    const size_t b = (size_t)head[HEAD_RANKS] * sizeof *p->of;
    struct ftk_program *list = malloc(a + 1);
    int *of = malloc(b + 1);
    char *commands = malloc((size_t)head[HEAD_BYTES] + 1);
    if (!list || !of || !commands) {
        free(list);
        free(of);
        free(commands);
        return ftk_fail(FTKIT_ERR_NOMEM, "programs");
    }
    free(p->list);
    free(p->of);
    free(p->commands);
    p->n = (int)head[HEAD_N];
    p->mixed = head[HEAD_MIXED] != 0;
    p->nof = (int)head[HEAD_RANKS];
    p->bytes = (size_t)head[HEAD_BYTES];
    p->list = list;
    p->of = of;
    p->commands = commands;
    memcpy(list, all, a);
    memcpy(of, all + a, b);
    memcpy(commands, all + a + b, p->bytes);
    return FTKIT_OK;
}

int ftk_programs_share(struct ftkit_ctx *ctx, MPI_Comm s, const struct ftk_census *c)
{
    const struct ftk_sure sharing = { s, NULL, "sharing the programs of the job" };
    struct ftk_programs *p = &ctx->programs;
    const int root = reporter(c);
    int me = 0;
    if (root < 0)
        return FTKIT_OK;
    if (MPI_Comm_rank(s, &me) != MPI_SUCCESS)
        return ftk_fail(FTKIT_ERR_MPI, "%s", sharing.what);
    int64_t head[HEAD_WORDS] = { p->n, p->mixed, p->nof, (int64_t)p->bytes };
    int rc = ftk_sure_bcast(&sharing, root, head, sizeof head);
    if (rc != FTKIT_OK)
        return rc;
    char *all = me == root ? write_block(p, head) : malloc(block_bytes(head) + 1);
    if (!all)
        return ftk_fail(FTKIT_ERR_NOMEM, "programs");
    rc = ftk_sure_bcast(&sharing, root, all, block_bytes(head));
    if (rc == FTKIT_OK && me != root)
        rc = read_block(p, head, all);
    if (rc == FTKIT_OK && me != root && ctx->repair.spawned && p->n > 0)
        p->appnum = p->list[p->own].appnum; /* the MPI says 0 */
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

static int other_numbering(unsigned long long set)
{
    return ftk_fail(FTKIT_ERR_UNSUPPORTED,
        "set %llu was written by an older ftkit, which numbered the ranks of several programs as "
        "mpirun did, and this one numbers them program by program: a rank would get the data of "
        "another program; end this run with the older ftkit, or begin anew with --fresh",
        set);
}

/* Whether a segment that is not of this rank's program is of another program of the job. */
static bool is_of(
    const struct ftk_program *other, const struct ftk_program *own, const struct ftk_seg_header *h)
{
    if (h->executable != own->executable && h->executable == other->executable)
        return true;
    return h->command != own->command && h->command == other->command;
}

static int check_program(const struct ftkit_ctx *ctx, const struct ftk_seg_header *h)
{
    const struct ftk_programs *p = &ctx->programs;
    for (int k = 0; k < p->n; k++)
        if (is_of(&p->list[k], &p->list[p->own], h))
            return ftk_fail(FTKIT_ERR_UNSUPPORTED,
                "set %llu: rank %d was of program %d of this job (the first one is 0), and is of "
                "program %d: start the same programs in the same order, with as many ranks of each",
                (unsigned long long)h->set, ctx->rank, k, p->own);
    if (h->executable == p->list[p->own].executable || ctx->cfg.program[0])
        return FTKIT_OK;
    return ftk_fail(FTKIT_ERR_UNSUPPORTED,
        "set %llu: rank %d was of another program than in this job: start the same programs in the "
        "same order; if executables have new names, set context.program",
        (unsigned long long)h->set, ctx->rank);
}

int ftk_programs_check(const struct ftkit_ctx *ctx, const struct ftk_seg_header *h)
{
    const struct ftk_programs *p = &ctx->programs;
    const int now = ftk_programs_count(p), was = h->nprograms;
    const unsigned long long set = h->set;
    if (now == 1 && was <= 1)
        return FTKIT_OK; /* 0: an older ftkit wrote the set */
    if (was == 0)
        return p->mixed || h->nranks != (uint32_t)ctx->nranks
                       || !ftk_identity_fits(&ctx->identity, h->program, 0)
                   ? other_numbering(set)
                   : FTKIT_OK;
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
    return check_program(ctx, h);
}
