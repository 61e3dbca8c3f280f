/* Redistribution: the line of one number of ranks into the regions of another number of ranks.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The program has registered its global arrays with the present ("new") blocks; the segments of
 * the line have the old blocks.  The cells that an old and a new block have in common go from the
 * rank that has the old block's segment to the rank with the new block.
 *
 *     CHECK     the segments of the line are verified
 *     RECORDS   the region records of old rank 0 go to all ranks; the regions must fit them
 *     BLOCKS    the old and new blocks go to all ranks; each old cell must be in exactly one new
 *               block, and each new cell in exactly one old block
 *     WRITE     replicated regions are broadcast, arrays are sent piece by piece
 *     AGREE     did every step succeed on every rank?
 *
 * A vote ends CHECK, RECORDS and BLOCKS, too.  So no region is written before all ranks can write.
 * Only corrupt segments are released: until the next set is committed, another failure returns to
 * the line, and the redistribution is done again. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/log_ops.h"
#include "detect/sure.h"
#include "redistribute.h"
#include "restore.h"
#include "set/device.h"
#include "set/files.h"
#include "set/flush.h"
#include "set/number.h"
#include "set/policy.h"
#include "store/durable/sets.h"
#include "transfer.h"

#define BCAST_BYTES ((size_t)1 << 30) /* most bytes of a broadcast */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the list */
static struct ftk_redist_memory *abandoned;

/* ---- memory -------------------------------------------------------------------------- */

static void free_scratch(struct ftk_redist_memory *s)
{
    for (int i = 0; s && i < FTK_OWN_MAX; i++)
        free(s->own[i]);
    free(s);
}

static void keep_scratch(struct ftk_redist_memory *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&lock);
    s->next = abandoned;
    abandoned = s;
    pthread_mutex_unlock(&lock);
}

static void free_abandoned(const struct ftkit_ctx *ctx)
{
    pthread_mutex_lock(&lock);
    for (struct ftk_redist_memory **p = &abandoned; *p;) {
        struct ftk_redist_memory *s = *p;
        if (s->ctx != ctx) {
            p = &s->next;
            continue;
        }
        *p = s->next;
        free_scratch(s);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- steps of all ranks -------------------------------------------------------------- */

/* The words of the votes of agree(); the caller uses the words from WORD_CALLER to 5. */
enum { WORD_ERROR, WORD_CALLER, WORD_RANK = 6 };

/* Vote on the results of all ranks: return the most severe error of all.  A rank without an error
 * of its own gets a detail that names a rank with an error. */
static int agree(struct ftk_redist *d, int local, struct ftk_vote *v)
{
    if (local == FTKIT_ERR_PEER)
        return local;
    v->min[WORD_ERROR] = local;
    if (local != FTKIT_OK)
        v->min[WORD_RANK] = d->ctx->rank;
    int rc = ftk_vote(&d->ch, d->ctx->nranks, v);
    if (rc != FTKIT_OK)
        return rc;
    if (v->min[WORD_ERROR] != FTKIT_OK && local == FTKIT_OK)
        return ftk_fail((int)v->min[WORD_ERROR], "set %llu cannot be distributed: rank %d: %s",
            (unsigned long long)d->ctx->repair.line, (int)v->min[WORD_RANK],
            ftkit_strerror((int)v->min[WORD_ERROR]));
    return (int)v->min[WORD_ERROR];
}

static int agree_same(struct ftk_redist *d, int local, uint64_t value, const char *what)
{
    struct ftk_vote v;
    ftk_vote_init(&v);
    ftk_vote_same(&v, WORD_CALLER, value);
    int rc = agree(d, local, &v);
    if (rc == FTKIT_OK && !ftk_vote_is_same(&v, WORD_CALLER))
        rc = ftk_fail(FTKIT_ERR_MISMATCH, "the ranks disagree on %s", what);
    return rc;
}

/* Broadcast from the rank that has the segment of old rank 0. */
static int broadcast(struct ftk_redist *d, void *buf, size_t bytes)
{
    const struct ftk_sure s = { d->ch.comm, &d->ch, "sharing replicated regions" };
    int rc = FTKIT_OK;
    for (size_t done = 0; rc == FTKIT_OK && done < bytes;) {
        size_t n = bytes - done < BCAST_BYTES ? bytes - done : BCAST_BYTES;
        rc = ftk_sure_bcast(&s, d->source[0], (char *)buf + done, n);
        done += n;
    }
    return rc;
}

/* ---- CHECK --------------------------------------------------------------------------- */

static bool is_root(const struct ftk_redist *d)
{
    return d->source[0] == d->ctx->rank;
}

/* Check that each segment of the line has a source.  The result is the same on every rank. */
static int check_complete(const struct ftkit_ctx *ctx)
{
    for (int q = 0; q < ctx->repair.line_nranks; q++)
        if (ctx->repair.line_source[q] < 0)
            return ftk_fail(FTKIT_ERR_LOST,
                "set %llu: the segment of rank %d (of %d) and its copy are both lost",
                (unsigned long long)ctx->repair.line, q, ctx->repair.line_nranks);
    if (ctx->repair.line_nranks == 0)
        return ftk_fail(FTKIT_ERR_LOST, "set %llu: no rank has a segment of it",
            (unsigned long long)ctx->repair.line);
    return FTKIT_OK;
}

static int check_segment(struct ftkit_ctx *ctx, int q)
{
    char what[64];
    struct ftk_mem_seg *s = ftk_mem_find(&ctx->level[FTK_LEVEL_MEMORY].mem, ctx->repair.line, q);
    snprintf(what, sizeof what, "segment of rank %d", q);
    if (!s)
        return ftk_fail(FTKIT_ERR_INTERNAL, "set %llu: %s is not in memory",
            (unsigned long long)ctx->repair.line, what);
    if (FTK_FAULT("redistribute.corrupt")) {
        s->buf[s->bytes - 1] ^= 1;
        s->verified = false;
    }
    if (ftk_mem_verify(s, what) != FTKIT_OK)
        return ftk_drop_own(ctx, s);
    return ftk_check_line(ctx, s);
}

static int check_segments(const struct ftk_redist *d)
{
    int worst = FTKIT_OK;
    for (int q = 0; q < d->nold; q++) {
        int rc = d->source[q] == d->ctx->rank ? check_segment(d->ctx, q) : FTKIT_OK;
        worst = rc < worst ? rc : worst;
    }
    return worst;
}

/* ---- RECORDS ------------------------------------------------------------------------- */

static const struct ftk_seg_region *find_record(const struct ftk_redist *d, const char *name)
{
    for (int i = 0; i < d->nrecs; i++)
        if (strcmp(d->recs[i].name, name) == 0)
            return &d->recs[i];
    return NULL;
}

static bool same_global(const struct ftk_region *r, const struct ftk_seg_region *rec)
{
    bool same = rec->ndims == (uint32_t)r->ndims;
    for (int i = 0; same && i < r->ndims; i++)
        same = rec->global[i] == r->global[i];
    return same;
}

static int compare(const struct ftk_redist *d, const struct ftk_region *r)
{
    const struct ftk_seg_region *rec = find_record(d, r->name);
    if (ftk_log_of(d->ctx))
        return ftk_fail(FTKIT_ERR_SIZE,
            "with the message log (log.enabled) a set of %d ranks cannot be restored on %d: start "
            "with %d ranks",
            d->nold, d->ctx->nranks, d->nold);
    if (ftk_files_are(r) && !ftk_files_any_ranks(r))
        return ftk_fail(FTKIT_ERR_SIZE,
            "files '%s' are of each rank: they cannot be restored on %d ranks from %d (start with "
            "%d ranks, or call ftkit_files_any_ranks)",
            r->name, d->ctx->nranks, d->nold, d->nold);
    if (r->kind != FTK_KIND_REPLICATED && r->kind != FTK_KIND_ARRAY && !ftk_files_are(r))
        return ftk_fail(FTKIT_ERR_SIZE,
            "region '%s' is per rank: it cannot be restored on %d ranks from %d "
            "(start with %d ranks, or register it as replicated or as a global array)",
            r->name, d->ctx->nranks, d->nold, d->nold);
    if (!rec && ftk_region_may_lack(r))
        return FTKIT_OK;
    if (!rec)
        return ftk_fail(FTKIT_ERR_NOT_FOUND, "the set has no region '%s'", r->name);
    if (rec->kind != r->kind || rec->basic != r->type.basic
        || rec->elem_bytes != r->type.item_bytes)
        return ftk_fail(FTKIT_ERR_TYPE, "region '%s' was saved with another kind or type", r->name);
    if (r->kind == FTK_KIND_REPLICATED && rec->count != r->count)
        return ftk_fail(FTKIT_ERR_SIZE, "region '%s' was saved with %llu items and has %zu now",
            r->name, (unsigned long long)rec->count, r->count);
    if (r->kind == FTK_KIND_ARRAY && !same_global(r, rec))
        return ftk_fail(FTKIT_ERR_SIZE, "array '%s' was saved with another global shape", r->name);
    return FTKIT_OK;
}

/* Check that old rank q has saved the region with the same kind, type and shape as old rank 0. */
static int compare_source(const struct ftk_redist *d, const struct ftk_region *r, int q)
{
    const struct ftk_seg_region *a = find_record(d, r->name);
    const struct ftk_seg_region *b = ftk_seg_find(ftk_redist_segment(d, q)->buf, r->name);
    if (!a && !b)
        return FTKIT_OK;
    if (!a || !b || a->kind != b->kind || a->basic != b->basic || a->elem_bytes != b->elem_bytes
        || (a->kind == FTK_KIND_REPLICATED && a->count != b->count)
        || (a->kind == FTK_KIND_ARRAY && !same_global(r, b)))
        return ftk_fail(FTKIT_ERR_MISMATCH,
            "region '%s' was saved by rank %d otherwise than by rank 0", r->name, q);
    return FTKIT_OK;
}

static int compare_all(const struct ftk_redist *d)
{
    const struct ftkit_ctx *ctx = d->ctx;
    int rc = FTKIT_OK;
    for (int i = 0; rc == FTKIT_OK && i < ctx->regions.n; i++) {
        if (ftk_region_is_note(&ctx->regions.list[i]))
            continue;
        rc = compare(d, &ctx->regions.list[i]);
        if (rc == FTKIT_OK)
            rc = ftk_device_done(ctx, ftk_region_look_again(&ctx->regions.list[i]));
        for (int q = 0; rc == FTKIT_OK && q < d->nold; q++)
            if (d->source[q] == ctx->rank)
                rc = compare_source(d, &ctx->regions.list[i], q);
    }
    return rc;
}

/* Checksum of the records, and of which records have a region on this rank.  If ranks differed in
 * these, they would wait in vain for broadcasts. */
static uint64_t regions_sum(const struct ftk_redist *d)
{
    uint64_t sum = ftk_xxh3(d->recs, (size_t)d->nrecs * sizeof *d->recs);
    for (int i = 0; i < d->nrecs; i++)
        if (ftk_region_find(d->ctx, d->recs[i].name))
            sum = ftk_xxh3_seed(&i, sizeof i, sum);
    return sum;
}

static int share_records(struct ftk_redist *d)
{
    struct ftk_vote v;
    int rc = d->mem ? check_segments(d) : ftk_fail(FTKIT_ERR_NOMEM, "redistribution");
    ftk_vote_init(&v);
    if (rc == FTKIT_OK && is_root(d)) {
        const struct ftk_seg_header *h = (const void *)ftk_redist_segment(d, 0)->buf;
        v.min[WORD_CALLER] = h->nregions;
    }
    rc = agree(d, rc, &v);
    if (rc != FTKIT_OK)
        return rc;
    d->nrecs = (int)v.min[WORD_CALLER];
    d->recs = ftk_redist_take(d, FTK_OWN_RECORDS, (size_t)d->nrecs, sizeof *d->recs);
    ftk_vote_init(&v);
    rc = agree(d, d->recs ? FTKIT_OK : ftk_fail(FTKIT_ERR_NOMEM, "list of regions"), &v);
    if (rc != FTKIT_OK)
        return rc;
    size_t bytes = (size_t)d->nrecs * sizeof *d->recs;
    if (is_root(d))
        memcpy(d->recs, ftk_seg_regions_c(ftk_redist_segment(d, 0)->buf), bytes);
    return broadcast(d, d->recs, bytes);
}

/* ---- files of the program ------------------------------------------------------------ */

/* The first region of files, which the program reads from the set on the file system; NULL: there
 * is none.  Whether there is one is the same on all ranks: they have agreed on the regions, and no
 * other region of that kind has passed compare(). */
static const struct ftk_region *first_files(const struct ftk_redist *d)
{
    for (int i = 0; i < d->nrecs; i++) {
        const struct ftk_region *r = ftk_region_find(d->ctx, d->recs[i].name);
        if (r && ftk_files_are(r))
            return r;
    }
    return NULL;
}

/* Check that the set on the file system has the segments of this rank: any rank reads the files of
 * any old rank there. */
static int check_files(const struct ftk_redist *d, const struct ftk_region *r)
{
    const struct ftkit_ctx *ctx = d->ctx;
    const char *dir = ctx->cfg.h5_dir;
    struct ftk_manifest m = { 0 };
    int rc = ctx->cfg.h5_enabled ? ftk_sets_open(dir, ctx->cfg.name, ctx->repair.line, &m)
                                 : FTKIT_ERR_NOT_FOUND;
    bool same = rc == FTKIT_OK && m.nranks == (uint32_t)d->nold;
    for (int q = 0; same && q < d->nold; q++) {
        uint64_t sum = 0;
        if (d->source[q] != ctx->rank)
            continue;
        const struct ftk_seg_header *h = (const void *)ftk_redist_segment(d, q)->buf;
        rc = m.level->sum(dir, &m, q, &sum);
        same = rc == FTKIT_OK && sum == h->head_xxh;
    }
    ftk_manifest_free(&m);
    if (same || (rc != FTKIT_OK && rc != FTKIT_ERR_NOT_FOUND))
        return rc;
    return ftk_fail(FTKIT_ERR_LOST,
        "files '%s': set %llu of %d ranks is in memory alone: files go to another number of ranks "
        "from the file system",
        r->name, (unsigned long long)ctx->repair.line, d->nold);
}

/* Wait for the set, if it is still being written.  An error is the same on all ranks; *local is of
 * this rank. */
static int find_files(struct ftk_redist *d, int *local)
{
    const struct ftk_region *r = first_files(d);
    *local = FTKIT_OK;
    if (!r)
        return FTKIT_OK;
    int rc = d->ctx->cfg.h5_enabled ? ftk_flush_drain(d->ctx, &d->ch, FTK_DRAIN_INSIDE) : FTKIT_OK;
    if (rc == FTKIT_OK)
        *local = check_files(d, r);
    return rc;
}

/* ---- BLOCKS -------------------------------------------------------------------------- */

static int prepare_tables(struct ftk_redist *d)
{
    size_t n = (size_t)d->ctx->nranks;
    size_t nold = (size_t)d->nold;
    d->arrays = ftk_redist_take(d, FTK_OWN_ARRAYS, (size_t)d->nrecs, sizeof *d->arrays);
    d->counts = ftk_redist_take(d, FTK_OWN_COUNTS, 3 * n + nold, sizeof *d->counts);
    d->at_old = ftk_redist_take(d, FTK_OWN_AT_OLD, nold, sizeof *d->at_old);
    if (!d->arrays || !d->counts || !d->at_old)
        return ftk_fail(FTKIT_ERR_NOMEM, "tables of %zu ranks", n);
    d->displs = d->counts + n;
    d->hits = d->displs + n;
    ftk_redist_list_arrays(d);
    int rc = ftk_redist_lay_out(d);
    char *pieces = ftk_redist_take(d, FTK_OWN_PIECES, (size_t)2 * FTK_WINDOW, FTK_PIECE_BYTES);
    d->share = ftk_redist_take(d, FTK_OWN_SHARE, 1, d->share_bytes);
    if (rc == FTKIT_OK && (!pieces || !d->share))
        rc = ftk_fail(FTKIT_ERR_NOMEM, "buffers of %zu bytes", d->share_bytes);
    for (int f = 0; rc == FTKIT_OK && f < 2; f++) {
        d->flows[f] = (struct ftk_flow){ .send = f == 0, .r = -1 };
        for (int i = 0; i < FTK_WINDOW; i++) {
            d->flows[f].req[i] = MPI_REQUEST_NULL;
            d->flows[f].piece[i].buf = pieces + (size_t)(f * FTK_WINDOW + i) * FTK_PIECE_BYTES;
        }
    }
    return rc;
}

/* ---- WRITE: replicated regions ------------------------------------------------------- */

/* Broadcast a replicated region and unpack it.  from: the data on the root, else NULL.  A local
 * error goes to *local and does not stop the broadcasts, because the other ranks wait for them. */
static int write_replicated(
    struct ftk_redist *d, const struct ftk_region *r, const char *from, int *local)
{
    size_t item = r->type.item_bytes;
    size_t most = d->share_bytes / item;
    for (size_t i = 0; i < r->count;) {
        size_t n = r->count - i < most ? r->count - i : most;
        if (from)
            memcpy(d->share, from + i * item, n * item);
        int rc = broadcast(d, d->share, n * item);
        if (rc != FTKIT_OK)
            return rc;
        d->replicated = ftk_xxh3_seed(d->share, n * item, d->replicated);
        if (*local == FTKIT_OK)
            *local = ftk_type_unpack(
                &r->type, r->memory, d->share, n, (char *)r->data + (ptrdiff_t)i * r->type.extent);
        i += n;
    }
    return FTKIT_OK;
}

static int write_all_replicated(struct ftk_redist *d)
{
    int local = FTKIT_OK;
    int rc = FTKIT_OK;
    for (int i = 0; rc == FTKIT_OK && i < d->nrecs; i++) {
        const struct ftk_region *r = ftk_region_find(d->ctx, d->recs[i].name);
        const char *from = NULL;
        if (!r || r->kind != FTK_KIND_REPLICATED)
            continue;
        if (is_root(d))
            from = ftk_seg_data_c(ftk_redist_segment(d, 0)->buf) + d->recs[i].offset;
        rc = write_replicated(d, r, from, &local);
    }
    return rc == FTKIT_OK ? local : rc;
}

/* ---- all of it ----------------------------------------------------------------------- */

static int write_regions(struct ftk_redist *d)
{
    int rc = write_all_replicated(d);
    (void)FTK_FAULT("redistribute.mid");
    if (rc == FTKIT_ERR_PEER)
        return rc;
    int moved = ftk_redist_write_arrays(d);
    if (moved == FTKIT_OK && rc == FTKIT_OK)
        rc = ftk_files_restore_others(d->ctx);
    (void)FTK_FAULT("redistribute.end");
    return agree_same(
        d, moved < rc ? moved : rc, d->replicated, "the contents of replicated regions");
}

static int run(struct ftk_redist *d)
{
    int files = FTKIT_OK;
    int rc = share_records(d);
    if (rc != FTKIT_OK)
        return rc;
    rc = compare_all(d);
    if (rc == FTKIT_OK)
        rc = prepare_tables(d);
    rc = agree_same(d, rc, regions_sum(d), "which regions there are");
    if (rc == FTKIT_OK)
        rc = find_files(d, &files);
    if (rc == FTKIT_OK)
        rc = ftk_redist_share_blocks(d);
    if (rc != FTKIT_OK)
        return rc;
    int n = d->ctx->nranks;
    size_t words = (size_t)d->displs[n - 1] + (size_t)d->counts[n - 1];
    rc = ftk_redist_check_blocks(d);
    rc = files != FTKIT_OK ? files : rc;
    rc = agree_same(d, rc, ftk_xxh3(d->table, words * sizeof *d->table), "the blocks of arrays");
    (void)FTK_FAULT("redistribute.agreed");
    return rc == FTKIT_OK ? write_regions(d) : rc;
}

/* Make a set due at call 2: there is no set for the present number of ranks, and copies of the line
 * are missing.  Survivors are inside call 1, and replacements come to it; so call 2 is the first
 * that all ranks begin. */
static void make_set_due(struct ftkit_ctx *ctx)
{
    ftk_policy_set_due(ctx, 2);
}

int ftk_redistribute(struct ftkit_ctx *ctx)
{
    struct ftk_redist d = { .ctx = ctx,
        .ch = ftk_chan_of(ctx),
        .source = ctx->repair.line_source,
        .nold = ctx->repair.line_nranks };
    (void)FTK_FAULT("redistribute.begin");
    int rc = check_complete(ctx);
    if (rc != FTKIT_OK)
        return rc;
    d.mem = calloc(1, sizeof *d.mem);
    if (d.mem)
        d.mem->ctx = ctx;
    rc = ftk_device_done(ctx, run(&d));
    (void)FTK_FAULT("redistribute.voted");
    if (rc == FTKIT_ERR_PEER) {
        keep_scratch(d.mem);
        return rc;
    }
    free_scratch(d.mem);
    if (rc != FTKIT_OK)
        return rc;
    free_abandoned(ctx);
    ftk_set_number_restored(ctx, ctx->repair.line);
    make_set_due(ctx);
    return FTKIT_OK;
}
