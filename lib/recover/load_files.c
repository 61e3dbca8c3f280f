/* Loading sets from files (see load.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "detect/detect.h"
#include "load.h"
#include "replica/planes.h"
#include "set/checkpoint.h"
#include "set/flush.h"
#include "start.h"
#include "store/durable/sets.h"

/* Whether as many ranks of the program wrote the set. */
static bool is_of_as_many(const struct ftkit_ctx *ctx, const struct ftk_manifest *m)
{
    return (int)m->nranks == ftk_plane_size(ctx);
}

static int report_source(const struct ftkit_ctx *ctx, uint64_t set, const char *source)
{
    ftk_report(FTKIT_DEBUG, "context %s: set %llu: rank %d from %s", ctx->cfg.name,
        (unsigned long long)set, ctx->rank, source);
    return FTKIT_OK;
}

/* Whether a segment in memory is of the set in the files.  The numbers of the set and the run are
 * no proof: two jobs may have continued from the same older set, on different nodes, and have used
 * the same number.  So the checksums of the heads are compared. */
static bool is_that_of(
    const struct ftkit_ctx *ctx, const struct ftk_manifest *m, const struct ftk_mem_seg *s)
{
    const struct ftk_seg_header *h = (const void *)s->buf;
    uint64_t sum = 0;
    return h->run == m->run
           && m->level->sum(ctx->cfg.h5_dir, m, ftk_plane_home(ctx, s->rank), &sum) == FTKIT_OK
           && sum == h->head_xxh;
}

/* Return the segment of a rank if it is in memory and undamaged; else NULL.  A damaged segment, and
 * one of another set with this number, is released: otherwise ftk_mem_find() would return that
 * segment and not the one from the file. */
static struct ftk_mem_seg *find_in_memory(
    struct ftkit_ctx *ctx, const struct ftk_manifest *m, int rank)
{
    struct ftk_mem_seg *s = ftk_mem_find(&ctx->level[FTK_LEVEL_MEMORY].mem, m->set, rank);
    if (!s)
        return NULL;
    if (FTK_FAULT("durable.corrupt")) {
        s->buf[s->bytes - 1] ^= 1;
        s->verified = false;
    }
    if (ftk_mem_verify(s, "a copy in memory") != FTKIT_OK)
        ftk_report(FTKIT_WARNING, "context %s: rank %d: %s; using the file", ctx->cfg.name, rank,
            ftk_detail_text());
    else if (is_that_of(ctx, m, s))
        return s;
    ftk_mem_release(s);
    return NULL;
}

/* A segment that is read into memory. */
struct reading {
    struct ftk_mem *mem;
    const struct ftk_manifest *m;
    int rank, nranks;        /* in memory; with replicas the file has other numbers */
    struct ftk_mem_seg *seg; /* NULL: none is taken */
};

static int take_segment(void *arg, size_t bytes, void **at)
{
    struct reading *r = arg;
    int rc = ftk_mem_take(r->mem, r->m->set, r->rank, r->nranks, bytes, &r->seg);
    *at = rc == FTKIT_OK ? r->seg->buf : NULL;
    return rc;
}

/* Read the segment of a rank from the file into memory. */
static int read_segment(struct ftkit_ctx *ctx, const struct ftk_manifest *m, int rank)
{
    const bool same = is_of_as_many(ctx, m);
    struct reading r = { &ctx->level[FTK_LEVEL_MEMORY].mem, m, rank,
        same ? ctx->nranks : (int)m->nranks, NULL };
    const int in_file = same ? ftk_plane_home(ctx, rank) : rank;
    int rc = m->level->read(ctx->cfg.h5_dir, m, in_file, take_segment, &r);
    if (rc == FTKIT_OK) {
        r.seg->verified = true;
        rc = ftk_mem_seal(r.seg);
    }
    if (rc != FTKIT_OK && r.seg)
        ftk_mem_release(r.seg);
    return rc;
}

/* Return the rank that takes segment q of a set of n ranks. */
static int share_of(const struct ftkit_ctx *ctx, int q, int n)
{
    return (int)((int64_t)q * ctx->nranks / n);
}

/* Load this rank's share of a set of another number of ranks; ftk_redistribute() distributes it. */
static int load_share(struct ftkit_ctx *ctx, const struct ftk_manifest *m)
{
    int rc = FTKIT_OK;
    int n = (int)m->nranks;
    for (int q = 0; rc == FTKIT_OK && q < n; q++)
        if (share_of(ctx, q, n) == ctx->rank && !find_in_memory(ctx, m, q))
            rc = read_segment(ctx, m, q);
    return rc;
}

/* Make l->source, if another number of ranks wrote the set. */
static int list_shares(const struct ftkit_ctx *ctx, struct ftk_loaded *l)
{
    if (l->nranks == ctx->nranks)
        return FTKIT_OK;
    l->source = malloc((size_t)l->nranks * sizeof *l->source);
    if (!l->source)
        return ftk_fail(FTKIT_ERR_NOMEM, "sources of %d segments", l->nranks);
    for (int q = 0; q < l->nranks; q++)
        l->source[q] = share_of(ctx, q, l->nranks);
    return FTKIT_OK;
}

/* Load the segments that this rank needs into memory. */
static int load_segment(struct ftkit_ctx *ctx, const struct ftk_manifest *m)
{
    if (!is_of_as_many(ctx, m) && ctx->cfg.replicas > 1)
        return ftk_fail(FTKIT_ERR_UNSUPPORTED,
            "set %llu is of %u ranks: with replicas only a job of as many ranks goes on",
            (unsigned long long)m->set, m->nranks);
    if (!is_of_as_many(ctx, m))
        return load_share(ctx, m);
    if (find_in_memory(ctx, m, ctx->rank))
        return report_source(ctx, m->set, "its own memory");
    int rc = read_segment(ctx, m, ctx->rank);
    return rc == FTKIT_OK ? report_source(ctx, m->set, "the file system") : rc;
}

static void release_set(struct ftkit_ctx *ctx, uint64_t set)
{
    for (int i = 0; i < ctx->level[FTK_LEVEL_MEMORY].mem.nsegs; i++)
        if (ctx->level[FTK_LEVEL_MEMORY].mem.segs[i]->set == set)
            ftk_mem_release(ctx->level[FTK_LEVEL_MEMORY].mem.segs[i]);
}

/* The words of the votes.  WORD_ERROR is in every vote; WORD_SAME takes two words. */
enum { WORD_ERROR, WORD_SET, WORD_NEWEST, WORD_SAME = 1, WORD_RUN = 1 };

/* ftk_start_pick() on rank 0, with the result on all ranks.  Collective; all ranks return the same
 * code. */
static int newest_below(struct ftkit_ctx *ctx, struct ftk_chan *ch, uint64_t below, bool must,
    uint64_t *set, uint64_t *newest)
{
    uint64_t picked = 0, all = 0;
    int rc = FTKIT_OK;
    struct ftk_vote v;
    ftk_vote_init(&v);
    if (ctx->rank == 0) {
        rc = ftk_durable_own(ctx, ctx->repair.pending == FTK_PENDING_LOAD);
        if (rc == FTKIT_OK)
            rc = ftk_start_pick(ctx, below, must, &picked, &all);
        v.min[WORD_SET] = rc == FTKIT_OK ? (int64_t)picked : 0;
        v.min[WORD_NEWEST] = (int64_t)all;
    }
    v.min[WORD_ERROR] = rc;
    int voted = ftk_vote(ch, ctx->nranks, &v);
    if (voted != FTKIT_OK)
        return voted;
    *set = (uint64_t)v.min[WORD_SET];
    *newest = (uint64_t)v.min[WORD_NEWEST];
    if (rc == FTKIT_OK && v.min[WORD_ERROR] != FTKIT_OK)
        rc = ftk_fail((int)v.min[WORD_ERROR], "rank 0 cannot use the sets in %s: %s",
            ctx->cfg.h5_dir, ftkit_strerror((int)v.min[WORD_ERROR]));
    return rc;
}

/* Checksum of the facts of a manifest that must be the same on all ranks. */
static uint64_t sum_of(const struct ftk_manifest *m)
{
    uint64_t sum = m->run ^ m->nranks;
    for (uint32_t i = 0; i < m->nparts; i++)
        sum = ftk_xxh3_seed(&m->parts[i].heads_xxh, sizeof sum, sum);
    return sum;
}

/* A set that all ranks try to use. */
struct trial {
    struct ftk_manifest m;
    int rc, worst; /* result of this rank; most severe result of all ranks */
    bool good;     /* no rank has an error, and all ranks saw the same set */
};

/* Call fn on all ranks for a set, and vote on the results.  The caller frees t->m, also after an
 * error.  An error: the vote has failed. */
static int try_on_all(struct ftkit_ctx *ctx, struct ftk_chan *ch, uint64_t set,
    int (*fn)(struct ftkit_ctx *ctx, const struct ftk_manifest *m), struct trial *t)
{
    struct ftk_vote v;
    *t = (struct trial){ .good = false };
    t->rc = ftk_sets_open(ctx->cfg.h5_dir, ctx->cfg.name, set, &t->m);
    if (t->rc == FTKIT_OK)
        t->rc = fn(ctx, &t->m);
    if (t->rc != FTKIT_OK)
        ftk_report(FTKIT_WARNING, "context %s: rank %d cannot use set %llu: %s", ctx->cfg.name,
            ctx->rank, (unsigned long long)set, ftk_detail_text());
    ftk_vote_init(&v);
    v.min[WORD_ERROR] = t->rc;
    ftk_vote_same(&v, WORD_SAME, sum_of(&t->m));
    int voted = ftk_vote(ch, ctx->nranks, &v);
    t->worst = (int)v.min[WORD_ERROR];
    t->good = voted == FTKIT_OK && t->worst == FTKIT_OK && ftk_vote_is_same(&v, WORD_SAME);
    return voted;
}

/* Load a set on all ranks.  *good false: some rank cannot use the set; then *bad is the error.  An
 * error that is returned is of the vote. */
static int try_set(struct ftkit_ctx *ctx, struct ftk_chan *ch, uint64_t set, struct ftk_loaded *l,
    bool *good, int *bad)
{
    struct trial t;
    int voted = try_on_all(ctx, ch, set, load_segment, &t);
    *good = t.good;
    if (t.good)
        *l = (struct ftk_loaded){ .set = set,
            .run = t.m.run,
            .nranks = is_of_as_many(ctx, &t.m) ? ctx->nranks : (int)t.m.nranks,
            .from = FTK_LINE_FILES,
            .bare = is_of_as_many(ctx, &t.m),
            .newest = l->newest,
            .durable = set };
    else if (voted == FTKIT_OK)
        *bad =
            t.worst != FTKIT_OK
                ? ftk_fail(t.worst, "set %llu cannot be used and no other is complete: %s",
                    (unsigned long long)set, t.rc != FTKIT_OK ? ftk_detail_text() : "another rank")
                : ftk_fail(FTKIT_ERR_MISMATCH, "ranks see different sets of number %llu",
                    (unsigned long long)set);
    if (voted == FTKIT_OK && !t.good)
        release_set(ctx, set);
    ftk_manifest_free(&t.m);
    return voted;
}

/* The newest set that all ranks can use; l->set stays 0 when there is none. */
static int find_set(struct ftkit_ctx *ctx, struct ftk_chan *ch, struct ftk_loaded *l)
{
    uint64_t set = 0, newest = 0;
    bool good = false;
    int bad = FTKIT_OK;
    do {
        int rc = newest_below(ctx, ch, set, true, &set, &newest);
        if (rc != FTKIT_OK)
            return rc;
        l->newest = newest > l->newest ? newest : l->newest;
        if (set == 0)
            return bad; /* if sets exist and none can be used, the start fails */
        rc = try_set(ctx, ch, set, l, &good, &bad);
        if (rc != FTKIT_OK)
            return rc;
    } while (!good);
    return list_shares(ctx, l);
}

int ftk_load_files(struct ftkit_ctx *ctx, struct ftk_loaded *l)
{
    struct ftk_chan ch = ftk_chan_of(ctx);
    bool start = ctx->repair.pending == FTK_PENDING_LOAD;
    ch.broken = ctx->detect.failed;
    /* a set that is still being written may become the newest, and its pruning may remove others */
    int rc = ftk_flush_drain(ctx, &ch, FTK_DRAIN_INSIDE);
    if (rc == FTKIT_OK)
        rc = find_set(ctx, &ch, l);
    if (rc == FTKIT_ERR_CORRUPT && !start)
        rc = ftk_fail(FTKIT_ERR_LOST, "%s", ftk_detail_text()); /* another repair cannot help */
    if (rc != FTKIT_OK || l->set == 0)
        return rc;
    if (ctx->rank == 0)
        ftk_report(FTKIT_INFO, "context %s: restored set %llu from files in %s%s%s", ctx->cfg.name,
            (unsigned long long)l->set, ctx->cfg.h5_dir,
            l->nranks != ctx->nranks ? ", of another number of ranks" : "",
            start ? " (ftkit run --fresh begins anew)" : "");
    return rc;
}

/* Read the segments that this rank would load, to verify the files. */
static int read_through(struct ftkit_ctx *ctx, const struct ftk_manifest *m)
{
    int rc = FTKIT_OK;
    int n = (int)m->nranks;
    for (int q = 0; rc == FTKIT_OK && q < n; q++) {
        void *seg = NULL;
        size_t bytes;
        if (share_of(ctx, q, n) != ctx->rank) /* if n is nranks, the share is the own segment */
            continue;
        rc = ftk_sets_read(ctx->cfg.h5_dir, m, q, &seg, &bytes);
        free(seg);
    }
    return rc;
}

/* Set *good to whether the ranks can read all of the set. */
static int prove(struct ftkit_ctx *ctx, struct ftk_chan *ch, uint64_t set, bool *good)
{
    struct trial t;
    int rc = try_on_all(ctx, ch, set, read_through, &t);
    *good = t.good;
    ftk_manifest_free(&t.m);
    return rc;
}

/* Return the run of a set, as rank 0 sees it; *set becomes 0 if rank 0 cannot open the set. */
static int run_of(struct ftkit_ctx *ctx, struct ftk_chan *ch, uint64_t *set, uint64_t *run)
{
    struct ftk_manifest m = { 0 };
    struct ftk_vote v;
    ftk_vote_init(&v);
    if (ctx->rank == 0) {
        v.min[WORD_ERROR] = ftk_sets_open(ctx->cfg.h5_dir, ctx->cfg.name, *set, &m);
        memcpy(&v.min[WORD_RUN], &m.run, sizeof m.run);
        ftk_manifest_free(&m);
    }
    int rc = ftk_vote(ch, ctx->nranks, &v);
    memcpy(run, &v.min[WORD_RUN], sizeof *run);
    if (v.min[WORD_ERROR] != FTKIT_OK)
        *set = 0;
    return rc;
}

int ftk_durable_newest(
    struct ftkit_ctx *ctx, uint64_t than, uint64_t than_run, uint64_t *set, uint64_t *run)
{
    struct ftk_chan ch = ftk_chan_of(ctx);
    uint64_t below = 0, newest = 0;
    bool good = false;
    ch.broken = ctx->detect.failed;
    do {
        *run = 0;
        int rc = newest_below(ctx, &ch, below, false, set, &newest);
        if (rc != FTKIT_OK || *set == 0)
            return rc;
        below = *set;
        rc = run_of(ctx, &ch, set, run);
        if (rc == FTKIT_OK && *set > 0 && (*set > than || *run != than_run))
            rc = prove(ctx, &ch, *set, &good);
        else if (rc == FTKIT_OK && *set > 0)
            good = true; /* the set is not newer than `than`: it is not read */
        if (rc != FTKIT_OK)
            return rc;
    } while (!good);
    return FTKIT_OK;
}
