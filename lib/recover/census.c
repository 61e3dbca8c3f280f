/* Census: each process sends to all its rank, its state, and the list of its segments in memory.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "census.h"
#include "core/log_ops.h"
#include "core/mpi_notify.h"
#include "detect/detect.h"
#include "detect/sure.h"
#include "set/pack.h"

/* In messages, in words of 64 bits: first one record of WORDS per process.  Then the list of each
 * process: the teams that a rank of a silent team has sent to, and the segments, with SEG_WORDS per
 * segment, and the members of its group for a parity. */
enum { WORDS = 29, SEG_WORDS = 6 };

static enum ftk_sets sets_of(const struct ftkit_ctx *ctx)
{
    if (ctx->policy.next_event == FTK_HALTED || ctx->where >= FTK_IN_CLOSE)
        return FTK_SETS_OVER;
    return ctx->replica.sets == FTK_SETS_COME && ftk_log_repeats(ctx) ? FTK_SETS_LATER
                                                                      : ctx->replica.sets;
}

static int world_rank(void)
{
    int rank = -1;
    return MPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS ? rank : -1;
}

/* What a process lists. */
struct list {
    int64_t *w;      /* [teams + segs] */
    int teams, segs; /* words */
};

static void write_record(const struct ftkit_ctx *ctx, const struct list *l, int64_t *w)
{
    int i = 0;
    w[i++] = ctx->rank;
    w[i++] = ctx->nranks;
    w[i++] = ctx->node;
    w[i++] = ctx->programs.own | (int64_t)ctx->programs.n << 32;
    w[i++] = ctx->where;
    w[i++] = ctx->detect.app_errors;
    w[i++] = ctx->callback.fn != NULL;
    w[i++] = ctx->repair.local_error;
    w[i++] = ctx->repair.differs;
    w[i++] = sets_of(ctx);
    w[i++] = ctx->repair.ambiguous;
    w[i++] = ftk_log_of_earlier_job(ctx);
    w[i++] = ctx->repair.pending;
    w[i++] =
        (int64_t)(ctx->repair.announced > ctx->committed ? ctx->repair.announced : ctx->committed);
    w[i++] = (int64_t)ctx->next_set;
    w[i++] = (int64_t)ctx->policy.calls;
    w[i++] = (int64_t)ctx->run;
    w[i++] = ctx->epoch;
    w[i++] = (int64_t)ctx->repair.repeats.of;
    w[i++] = ctx->repair.repeats.weight;
    w[i++] = ctx->repair.repeats.deaths;
    w[i++] = ctx->repair.repeats.rank;
    w[i++] = (int64_t)ctx->repair.repeats.calls;
    w[i++] = ftk_region_progressed(ctx);
    w[i++] = ctx->repair.spawn_failed;
    w[i++] = (int64_t)ctx->repair.unusable;
    w[i++] = (int64_t)((uint64_t)(uint32_t)ftk_mpi_job() << 32 | (uint32_t)world_rank());
    w[i++] = (int64_t)ftk_run_node();
    w[i++] = l->segs | (int64_t)l->teams << 32;
}

/* Returns the sizes of the process's list. */
static struct list read_record(const int64_t *w, struct ftk_census_entry *e)
{
    int i = 0;
    e->rank = (int)w[i++];
    e->nranks = (int)w[i++];
    e->node = (int)w[i++];
    e->program = (int)(w[i] & INT32_MAX);
    e->nprograms = (int)(w[i++] >> 32);
    e->where = (int)w[i++];
    e->app_errors = (int)w[i++];
    e->has_callback = (int)w[i++];
    e->local_error = (int)w[i++];
    e->differs = (int)w[i++];
    e->sets = (int)w[i++];
    e->ambiguous = w[i++] != 0;
    e->of_earlier_job = w[i++] != 0;
    e->pending = (int)w[i++];
    e->committed = (uint64_t)w[i++];
    e->next_set = (uint64_t)w[i++];
    e->calls = (uint64_t)w[i++];
    e->run = (uint64_t)w[i++];
    e->epoch = (int)w[i++];
    e->repeats.of = (uint64_t)w[i++];
    e->repeats.weight = (int)w[i++];
    e->repeats.deaths = (int)w[i++];
    e->repeats.rank = (int)w[i++];
    e->repeats.calls = (uint64_t)w[i++];
    e->progressed = (int)w[i++];
    e->spawn_failed = (int)w[i++];
    e->unusable = (uint64_t)w[i++];
    e->process.job = (int)(w[i] >> 32);
    e->process.world_rank = (int)(w[i++] & UINT32_MAX);
    e->process.node = (uint64_t)w[i++];
    return (struct list){ .teams = (int)(w[i] >> 32), .segs = (int)(w[i] & INT32_MAX) };
}

static int64_t *write_seg(const struct ftk_mem_seg *s, int64_t *w)
{
    const struct ftk_seg_header *h = (const void *)s->buf;
    *w++ = (int64_t)s->set;
    *w++ = s->rank;
    *w++ = s->nranks;
    *w++ = (int64_t)h->run;
    *w++ = (int64_t)h->epoch_id;
    if (!s->parity) {
        *w++ = 0;
        return w;
    }
    const struct ftk_group *g = ftk_parity_group(s->buf);
    *w++ = g->n | (int64_t)g->m << 32;
    for (uint32_t i = 0; i < g->n; i++)
        *w++ = g->rank[i];
    return w;
}

/* List the teams that this rank has sent to, if its own is silent, and the sealed segments and
 * parities of this process.  The caller frees w of the result; NULL: no memory.  The data of a
 * segment are verified when they are used: a damaged segment is released then, and a further repair
 * takes another copy.  The heads of parities are verified here, because their groups go to all
 * processes. */
static struct list list_own(const struct ftkit_ctx *ctx, struct ftk_mem *mem)
{
    const size_t most = SEG_WORDS + FTK_GROUP_MAX;
    const int teams = ctx->rank < 0 ? 0 : (ctx->nranks + 63) / 64;
    struct list l = { calloc((size_t)teams + (size_t)mem->nsegs * most + 1, sizeof *l.w), 0, 0 };
    if (l.w && ctx->rank >= 0 && ftk_log_sent_to(ctx, (uint64_t *)l.w))
        l.teams = teams;
    int64_t *at = l.w + l.teams;
    for (int i = 0; l.w && i < mem->nsegs; i++) {
        struct ftk_mem_seg *s = mem->segs[i];
        if (s->set == 0 || !s->sealed)
            continue;
        if (s->parity
            && (ftk_mem_verify_head(s, "parity") != FTKIT_OK || !ftk_parity_group(s->buf))) {
            ftk_report(FTKIT_WARNING, "context %s: rank %d: %s", ctx->cfg.name, ctx->rank,
                ftk_detail_text());
            ftk_mem_release(s);
            continue;
        }
        at = write_seg(s, at);
    }
    l.segs = l.w ? (int)(at - l.w) - l.teams : 0;
    return l;
}

static const int64_t *read_seg(const int64_t *w, struct ftk_census_seg *s)
{
    s->set = (uint64_t)w[0];
    s->rank = (int)w[1];
    s->nranks = (int)w[2];
    s->run = (uint64_t)w[3];
    s->epoch_id = (uint64_t)w[4];
    s->n = (int)(w[5] & INT32_MAX);
    s->m = (int)(w[5] >> 32);
    s->members = w + SEG_WORDS;
    return w + SEG_WORDS + s->n;
}

/* Read the lists of all processes, of these sizes [c->n], into c. */
static int read_lists(struct ftk_census *c, const int64_t *all, const struct list *sizes)
{
    size_t total = 0;
    for (int i = 0; i < c->n; i++)
        total += (size_t)sizes[i].segs;
    struct ftk_census_seg *segs = malloc((total / SEG_WORDS + 1) * sizeof *segs);
    c->segs = segs;
    if (!segs)
        return ftk_fail(FTKIT_ERR_NOMEM, "census");
    for (int i = 0; i < c->n; i++) {
        struct ftk_census_entry *e = &c->entries[i];
        if (sizes[i].teams > 0 && sizes[i].teams == (e->nranks + 63) / 64)
            e->sent_to = all;
        all += sizes[i].teams;
        const int64_t *end = all + sizes[i].segs;
        e->segs = segs;
        while (all < end)
            all = read_seg(all, segs++);
        e->nsegs = (int)(segs - e->segs);
    }
    return FTKIT_OK;
}

static int gather_lists(
    MPI_Comm comm, struct ftk_census *c, const int64_t *mine, const struct list *sizes)
{
    const struct ftk_sure s = { comm, NULL, "census of segments" };
    size_t total = 0, *bytes = malloc((size_t)c->n * sizeof *bytes);
    for (int i = 0; bytes && i < c->n; i++) {
        bytes[i] = (size_t)(sizes[i].teams + sizes[i].segs) * sizeof *mine;
        total += bytes[i];
    }
    c->words = malloc(total + sizeof *c->words);
    int rc = bytes && c->words ? ftk_sure_allgatherv(&s, mine, bytes, c->words)
                               : ftk_fail(FTKIT_ERR_NOMEM, "census of segments");
    free(bytes);
    return rc == FTKIT_OK ? read_lists(c, c->words, sizes) : rc;
}

int ftk_census_take(struct ftkit_ctx *ctx, struct ftk_mem *mem, MPI_Comm comm, struct ftk_census *c)
{
    const struct ftk_sure s = { comm, NULL, "census" };
    int64_t mine[WORDS];
    memset(c, 0, sizeof *c);
    int rc = MPI_Comm_size(comm, &c->n);
    if (rc != MPI_SUCCESS)
        return ftk_fail_mpi(rc, "census");
    c->entries = calloc((size_t)c->n, sizeof *c->entries);
    int64_t *all = malloc((size_t)c->n * sizeof mine);
    struct list *sizes = malloc((size_t)c->n * sizeof *sizes);
    const struct list own = list_own(ctx, mem);
    int result = FTKIT_OK;
    if (!c->entries || !all || !own.w || !sizes) {
        result = ftk_fail(FTKIT_ERR_NOMEM, "census");
        goto out;
    }
    write_record(ctx, &own, mine);
    result = ftk_sure_allgather(&s, mine, sizeof mine, all);
    if (result != FTKIT_OK)
        goto out;
    for (int i = 0; i < c->n; i++)
        sizes[i] = read_record(all + (size_t)i * WORDS, &c->entries[i]);
    result = gather_lists(comm, c, own.w, sizes);
out:
    free(all);
    free(sizes);
    free(own.w);
    if (result != FTKIT_OK)
        ftk_census_free(c);
    return result;
}

void ftk_census_free(struct ftk_census *c)
{
    free(c->entries);
    free(c->segs);
    free(c->words);
    memset(c, 0, sizeof *c);
}
