/* Census: everyone tells everyone who it is and which segments it has in memory.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "../detect.h"
#include "../region.h"
#include "recover.h"

/* On the wire: one fixed record per process, then its segments. */
enum { WORDS = 17, SEG_WORDS = 3 };

static void write_record(const struct ftkit_ctx *ctx, int nsegs, int64_t *w)
{
    int i = 0;
    w[i++] = ctx->rank;
    w[i++] = ctx->nranks;
    w[i++] = ctx->node;
    w[i++] = ctx->where;
    w[i++] = ctx->app_errors;
    w[i++] = ctx->repair_fn != NULL;
    w[i++] = ctx->trouble;
    w[i++] = ctx->pending;
    w[i++] = (int64_t)ctx->committed;
    w[i++] = (int64_t)ctx->line;
    w[i++] = (int64_t)ctx->next_set;
    w[i++] = (int64_t)ctx->run;
    w[i++] = ctx->epoch;
    w[i++] = ctx->repeats;
    w[i++] = ftk_region_progressed(ctx);
    w[i++] = ctx->spawn_failed;
    w[i++] = nsegs;
}

static void read_record(const int64_t *w, struct ftk_census_entry *e)
{
    int i = 0;
    e->rank = (int)w[i++];
    e->nranks = (int)w[i++];
    e->node = (int)w[i++];
    e->where = (int)w[i++];
    e->app_errors = (int)w[i++];
    e->has_callback = (int)w[i++];
    e->trouble = (int)w[i++];
    e->pending = (int)w[i++];
    e->committed = (uint64_t)w[i++];
    e->line = (uint64_t)w[i++];
    e->next_set = (uint64_t)w[i++];
    e->run = (uint64_t)w[i++];
    e->epoch = (int)w[i++];
    e->repeats = (int)w[i++];
    e->progressed = (int)w[i++];
    e->spawn_failed = (int)w[i++];
    e->nsegs = (int)w[i++];
}

/* Sealed segments of this process.  Whether they hold shows when they are used: what does
 * not is released then, and a further repair takes another copy. */
static int list_own(const struct ftkit_ctx *ctx, int64_t *out)
{
    int n = 0;
    for (int i = 0; i < ctx->mem.nsegs; i++) {
        const struct ftk_mem_seg *s = ctx->mem.segs[i];
        if (s->set == 0 || !s->sealed)
            continue;
        int64_t *words = out + (ptrdiff_t)n * SEG_WORDS;
        words[0] = (int64_t)s->set;
        words[1] = s->rank;
        words[2] = s->nranks;
        n++;
    }
    return n;
}

static int gather_segs(MPI_Comm s, struct ftk_census *c, const int64_t *mine, int nmine)
{
    int total = 0;
    int *counts = calloc((size_t)c->n * 2, sizeof *counts);
    if (!counts)
        return ftk_fail(FTKIT_ERR_NOMEM, "census");
    int *displs = counts + c->n;
    for (int i = 0; i < c->n; i++) {
        counts[i] = c->entries[i].nsegs * SEG_WORDS;
        displs[i] = total;
        total += counts[i];
    }
    int64_t *all = malloc(((size_t)total + 1) * sizeof *all);
    struct ftk_census_seg *segs = malloc(((size_t)total + 1) * sizeof *segs);
    c->storage = segs;
    int rc = all && segs ? MPI_Allgatherv(mine, nmine * SEG_WORDS, MPI_INT64_T, all, counts,
                               displs, MPI_INT64_T, s)
                         : MPI_ERR_NO_MEM;
    for (int i = 0; rc == MPI_SUCCESS && i < total / SEG_WORDS; i++) {
        const int64_t *words = all + (ptrdiff_t)i * SEG_WORDS;
        segs[i] = (struct ftk_census_seg){ (uint64_t)words[0], (int)words[1],
            (int)words[2] };
    }
    for (int i = 0; rc == MPI_SUCCESS && i < c->n; i++)
        c->entries[i].segs = segs + displs[i] / SEG_WORDS;
    free(all);
    free(counts);
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "census of segments");
}

int ftk_census_take(struct ftkit_ctx *ctx, MPI_Comm s, struct ftk_census *c)
{
    int64_t mine[WORDS];
    memset(c, 0, sizeof *c);
    int rc = MPI_Comm_size(s, &c->n);
    if (rc != MPI_SUCCESS)
        return ftk_fail_mpi(rc, "census");
    c->entries = calloc((size_t)c->n, sizeof *c->entries);
    int64_t *all = malloc((size_t)c->n * sizeof mine);
    int64_t *segs = malloc(((size_t)ctx->mem.nsegs + 1) * SEG_WORDS * sizeof *segs);
    int result = FTKIT_OK;
    if (!c->entries || !all || !segs) {
        result = ftk_fail(FTKIT_ERR_NOMEM, "census");
        goto out;
    }
    int nsegs = list_own(ctx, segs);
    write_record(ctx, nsegs, mine);
    rc = MPI_Allgather(mine, WORDS, MPI_INT64_T, all, WORDS, MPI_INT64_T, s);
    if (rc != MPI_SUCCESS) {
        result = ftk_fail_mpi(rc, "census");
        goto out;
    }
    for (int i = 0; i < c->n; i++)
        read_record(all + (size_t)i * WORDS, &c->entries[i]);
    result = gather_segs(s, c, segs, nsegs);
out:
    free(all);
    free(segs);
    if (result != FTKIT_OK)
        ftk_census_free(c);
    return result;
}

void ftk_census_free(struct ftk_census *c)
{
    free(c->entries);
    free(c->storage);
    memset(c, 0, sizeof *c);
}
