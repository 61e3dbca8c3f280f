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
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/log_ops.h"
#include "core/memory_kind.h"
#include "core/tags.h"
#include "detect/sure.h"
#include "recover.h"
#include "set/policy.h"
#include "set/region.h"

#define PIECE_BYTES ((size_t)1 << 20) /* most bytes of a message with cells of an array */
#define BCAST_BYTES ((size_t)1 << 30) /* most bytes of a broadcast */
enum { WINDOW = 4 };                  /* pieces in flight, each way */

/* A box of cells of a global array. */
struct box {
    size_t start[FTKIT_DIMS_MAX];
    size_t len[FTKIT_DIMS_MAX];
};

/* A block in memory, with its halo. */
struct place {
    char *data;
    enum ftk_memory_kind memory;
    size_t item;
    int ndims;
    size_t first[FTKIT_DIMS_MAX];  /* index of the cell at data; wraps, as halos begin below 0 */
    size_t stride[FTKIT_DIMS_MAX]; /* bytes */
};

struct array {
    const struct ftk_region *region;
    int ndims;
    size_t at;  /* index of the array's words in a block */
    size_t got; /* cells that are written to the region */
};

/* The pieces that this rank sends, or receives, in the order (array, old block, new block, cells).
 * All ranks keep this order.  So the first of all pieces that are not received is in the windows of
 * both its sender and its receiver, and there is no deadlock. */
struct flow {
    bool send;
    bool done;
    int array, q, r; /* the present array, old block and new block */
    struct box box;
    size_t cells; /* of the box */
    size_t next;  /* the first cell of the box that is not posted */
    struct piece {
        struct box box;
        size_t first;
        size_t cells;
        int array;
        char *buf;
    } piece[WINDOW];
    MPI_Request req[WINDOW];
    int first;
    int npending;
};

enum { OWN_RECORDS, OWN_ARRAYS, OWN_TABLE, OWN_COUNTS, OWN_AT_OLD, OWN_PIECES, OWN_SHARE, OWN_MAX };

/* Memory of one redistribution.  The rest of operations that ended with an error may still write
 * into the memory: after a failure it is kept until a later redistribution has succeeded. */
struct scratch {
    struct scratch *next;
    const struct ftkit_ctx *ctx;
    void *own[OWN_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the list */
static struct scratch *abandoned;

struct redist {
    struct ftkit_ctx *ctx;
    struct ftk_chan ch;
    struct scratch *mem;
    const int *source; /* [nold] rank that has the segment of each old rank */
    int nold;
    int nrecs;
    struct ftk_seg_region *recs; /* [nrecs] of old rank 0: the order of all regions */
    int narrays;
    struct array *arrays; /* [narrays] */
    size_t words;         /* of the blocks of one rank in all arrays: start and length of each */
    char *share;          /* [share_bytes] for broadcasts */
    size_t share_bytes;
    uint64_t *table; /* for each rank its new blocks, then the old blocks that it has */
    int *counts;     /* [nranks] words of each rank in the table */
    int *displs;     /* [nranks] first word of each rank in the table */
    int *hits;       /* [nranks or nold], working space */
    size_t *at_old;  /* [nold] first word of each old rank in the table */
    struct flow flows[2];
    uint64_t replicated; /* checksum of what was broadcast */
    int copy_error;      /* the first error of a copy between a region and a piece */
};

/* ---- memory -------------------------------------------------------------------------- */

static void *take(struct redist *d, int what, size_t n, size_t bytes)
{
    d->mem->own[what] = calloc(n > 0 ? n : 1, bytes);
    return d->mem->own[what];
}

static void free_scratch(struct scratch *s)
{
    for (int i = 0; s && i < OWN_MAX; i++)
        free(s->own[i]);
    free(s);
}

static void keep_scratch(struct scratch *s)
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
    for (struct scratch **p = &abandoned; *p;) {
        struct scratch *s = *p;
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
static int agree(struct redist *d, int local, struct ftk_vote *v)
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

static int agree_same(struct redist *d, int local, uint64_t value, const char *what)
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
static int broadcast(struct redist *d, void *buf, size_t bytes)
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

static bool is_root(const struct redist *d)
{
    return d->source[0] == d->ctx->rank;
}

static const struct ftk_mem_seg *segment(const struct redist *d, int q)
{
    return ftk_mem_find(&d->ctx->level[FTK_LEVEL_MEMORY].mem, d->ctx->repair.line, q);
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

static int check_segments(const struct redist *d)
{
    int worst = FTKIT_OK;
    for (int q = 0; q < d->nold; q++) {
        int rc = d->source[q] == d->ctx->rank ? check_segment(d->ctx, q) : FTKIT_OK;
        worst = rc < worst ? rc : worst;
    }
    return worst;
}

/* ---- RECORDS ------------------------------------------------------------------------- */

static const struct ftk_seg_region *find_record(const struct redist *d, const char *name)
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

static int compare(const struct redist *d, const struct ftk_region *r)
{
    const struct ftk_seg_region *rec = find_record(d, r->name);
    if (ftk_log_of(d->ctx))
        return ftk_fail(FTKIT_ERR_SIZE,
            "with the message log (log.enabled) a set of %d ranks cannot be restored on %d: start "
            "with %d ranks",
            d->nold, d->ctx->nranks, d->nold);
    if (r->kind != FTK_KIND_REPLICATED && r->kind != FTK_KIND_ARRAY)
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
static int compare_source(const struct redist *d, const struct ftk_region *r, int q)
{
    const struct ftk_seg_region *a = find_record(d, r->name);
    const struct ftk_seg_region *b = ftk_seg_find(segment(d, q)->buf, r->name);
    if (!a && !b)
        return FTKIT_OK;
    if (!a || !b || a->kind != b->kind || a->basic != b->basic || a->elem_bytes != b->elem_bytes
        || (a->kind == FTK_KIND_REPLICATED && a->count != b->count)
        || (a->kind == FTK_KIND_ARRAY && !same_global(r, b)))
        return ftk_fail(FTKIT_ERR_MISMATCH,
            "region '%s' was saved by rank %d otherwise than by rank 0", r->name, q);
    return FTKIT_OK;
}

static int compare_all(const struct redist *d)
{
    const struct ftkit_ctx *ctx = d->ctx;
    int rc = FTKIT_OK;
    for (int i = 0; rc == FTKIT_OK && i < ctx->regions.n; i++) {
        if (ftk_region_is_note(&ctx->regions.list[i]))
            continue;
        rc = compare(d, &ctx->regions.list[i]);
        for (int q = 0; rc == FTKIT_OK && q < d->nold; q++)
            if (d->source[q] == ctx->rank)
                rc = compare_source(d, &ctx->regions.list[i], q);
    }
    return rc;
}

/* Checksum of the records, and of which records have a region on this rank.  If ranks differed in
 * these, they would wait in vain for broadcasts. */
static uint64_t regions_sum(const struct redist *d)
{
    uint64_t sum = ftk_xxh3(d->recs, (size_t)d->nrecs * sizeof *d->recs);
    for (int i = 0; i < d->nrecs; i++)
        if (ftk_region_find(d->ctx, d->recs[i].name))
            sum = ftk_xxh3_seed(&i, sizeof i, sum);
    return sum;
}

static int share_records(struct redist *d)
{
    struct ftk_vote v;
    int rc = d->mem ? check_segments(d) : ftk_fail(FTKIT_ERR_NOMEM, "redistribution");
    ftk_vote_init(&v);
    if (rc == FTKIT_OK && is_root(d)) {
        const struct ftk_seg_header *h = (const void *)segment(d, 0)->buf;
        v.min[WORD_CALLER] = h->nregions;
    }
    rc = agree(d, rc, &v);
    if (rc != FTKIT_OK)
        return rc;
    d->nrecs = (int)v.min[WORD_CALLER];
    d->recs = take(d, OWN_RECORDS, (size_t)d->nrecs, sizeof *d->recs);
    ftk_vote_init(&v);
    rc = agree(d, d->recs ? FTKIT_OK : ftk_fail(FTKIT_ERR_NOMEM, "list of regions"), &v);
    if (rc != FTKIT_OK)
        return rc;
    size_t bytes = (size_t)d->nrecs * sizeof *d->recs;
    if (is_root(d))
        memcpy(d->recs, ftk_seg_regions_c(segment(d, 0)->buf), bytes);
    return broadcast(d, d->recs, bytes);
}

/* ---- BLOCKS -------------------------------------------------------------------------- */

static void list_arrays(struct redist *d)
{
    d->share_bytes = PIECE_BYTES;
    for (int i = 0; i < d->nrecs; i++) {
        const struct ftk_region *r = ftk_region_find(d->ctx, d->recs[i].name);
        if (r && r->type.item_bytes > d->share_bytes) /* an item is not split between messages */
            d->share_bytes = r->type.item_bytes;
        if (!r || r->kind != FTK_KIND_ARRAY)
            continue;
        d->arrays[d->narrays++] = (struct array){ .region = r, .ndims = r->ndims, .at = d->words };
        d->words += 2 * (size_t)r->ndims;
    }
}

/* Lay out the table: for each rank its new blocks, then the old blocks that it has, by old rank. */
static int lay_out_table(struct redist *d)
{
    int n = d->ctx->nranks;
    size_t total = 0;
    if (d->words * ((size_t)n + (size_t)d->nold) > INT_MAX)
        return ftk_fail(FTKIT_ERR_SIZE, "too many arrays and ranks");
    for (int r = 0; r < n; r++) {
        d->displs[r] = (int)total;
        total += d->words;
        for (int q = 0; q < d->nold; q++) {
            if (d->source[q] != r)
                continue;
            d->at_old[q] = total;
            total += d->words;
        }
        d->counts[r] = (int)(total - (size_t)d->displs[r]);
    }
    d->table = take(d, OWN_TABLE, total, sizeof *d->table);
    return d->table ? FTKIT_OK : ftk_fail(FTKIT_ERR_NOMEM, "table of blocks");
}

static int prepare_tables(struct redist *d)
{
    size_t n = (size_t)d->ctx->nranks;
    size_t nold = (size_t)d->nold;
    d->arrays = take(d, OWN_ARRAYS, (size_t)d->nrecs, sizeof *d->arrays);
    d->counts = take(d, OWN_COUNTS, 3 * n + nold, sizeof *d->counts);
    d->at_old = take(d, OWN_AT_OLD, nold, sizeof *d->at_old);
    if (!d->arrays || !d->counts || !d->at_old)
        return ftk_fail(FTKIT_ERR_NOMEM, "tables of %zu ranks", n);
    d->displs = d->counts + n;
    d->hits = d->displs + n;
    list_arrays(d);
    int rc = lay_out_table(d);
    char *pieces = take(d, OWN_PIECES, (size_t)2 * WINDOW, PIECE_BYTES);
    d->share = take(d, OWN_SHARE, 1, d->share_bytes);
    if (rc == FTKIT_OK && (!pieces || !d->share))
        rc = ftk_fail(FTKIT_ERR_NOMEM, "buffers of %zu bytes", d->share_bytes);
    for (int f = 0; rc == FTKIT_OK && f < 2; f++) {
        d->flows[f] = (struct flow){ .send = f == 0, .r = -1 };
        for (int i = 0; i < WINDOW; i++) {
            d->flows[f].req[i] = MPI_REQUEST_NULL;
            d->flows[f].piece[i].buf = pieces + (size_t)(f * WINDOW + i) * PIECE_BYTES;
        }
    }
    return rc;
}

static void write_blocks(struct redist *d)
{
    uint64_t *w = d->table + d->displs[d->ctx->rank];
    for (int a = 0; a < d->narrays; a++) {
        const struct ftk_region *r = d->arrays[a].region;
        for (int i = 0; i < r->ndims; i++)
            *w++ = r->start[i];
        for (int i = 0; i < r->ndims; i++)
            *w++ = r->local[i];
    }
    for (int q = 0; q < d->nold; q++) {
        if (d->source[q] != d->ctx->rank)
            continue;
        for (int a = 0; a < d->narrays; a++) {
            const struct ftk_seg_region *rec =
                ftk_seg_find(segment(d, q)->buf, d->arrays[a].region->name);
            size_t n = rec->ndims;
            memcpy(w, rec->start, n * sizeof *w);
            memcpy(w + n, rec->local, n * sizeof *w);
            w += 2 * n;
        }
    }
}

static int share_blocks(struct redist *d)
{
    const struct ftk_sure s = { d->ch.comm, &d->ch, "sharing the blocks of arrays" };
    int n = d->ctx->nranks;
    size_t *bytes = malloc((size_t)n * sizeof *bytes);
    if (!bytes) {
        (void)ftk_chan_break(&d->ch, MPI_ERR_NO_MEM, s.what);
        return ftk_fail(FTKIT_ERR_NOMEM, "%s", s.what);
    }
    for (int r = 0; r < n; r++)
        bytes[r] = (size_t)d->counts[r] * sizeof *d->table;
    write_blocks(d);
    int rc = ftk_sure_allgatherv(&s, d->table + d->displs[d->ctx->rank], bytes, d->table);
    free(bytes);
    return rc;
}

static struct box block_of(const struct redist *d, int array, bool old, int k)
{
    const struct array *a = &d->arrays[array];
    const uint64_t *w = d->table + (old ? d->at_old[k] : (size_t)d->displs[k]) + a->at;
    struct box b = { { 0 }, { 0 } };
    for (int i = 0; i < a->ndims; i++) {
        b.start[i] = (size_t)w[i];
        b.len[i] = (size_t)w[a->ndims + i];
    }
    return b;
}

static size_t volume(int ndims, const struct box *b)
{
    size_t n = 1;
    for (int i = 0; i < ndims; i++)
        n *= b->len[i];
    return n;
}

/* Set *out to the intersection of two boxes, and return its number of cells. */
static size_t intersect(int ndims, const struct box *a, const struct box *b, struct box *out)
{
    for (int i = 0; i < ndims; i++) {
        size_t lo = a->start[i] > b->start[i] ? a->start[i] : b->start[i];
        size_t a_end = a->start[i] + a->len[i];
        size_t b_end = b->start[i] + b->len[i];
        size_t hi = a_end < b_end ? a_end : b_end;
        if (lo >= hi)
            return 0;
        out->start[i] = lo;
        out->len[i] = hi - lo;
    }
    return volume(ndims, out);
}

/* Check that each cell of new block k is in exactly one old block (of_old), or each cell of old
 * block k in exactly one new block. */
static int check_tiles(const struct redist *d, int array, int k, bool of_old)
{
    const char *name = d->arrays[array].region->name;
    int ndims = d->arrays[array].ndims;
    int n = of_old ? d->nold : d->ctx->nranks;
    int nhits = 0;
    struct box target = block_of(d, array, !of_old, k);
    size_t cells = volume(ndims, &target);
    size_t found = 0;
    for (int i = 0; i < n; i++) {
        struct box b = block_of(d, array, of_old, i);
        struct box common;
        struct box twice;
        size_t here = intersect(ndims, &target, &b, &common);
        for (int h = 0; here > 0 && h < nhits; h++) {
            struct box other = block_of(d, array, of_old, d->hits[h]);
            if (intersect(ndims, &common, &other, &twice) > 0)
                return ftk_fail(FTKIT_ERR_SIZE, "array '%s': the blocks of ranks %d and %d %s",
                    name, d->hits[h], i, of_old ? "overlapped when it was saved" : "overlap");
        }
        if (here > 0)
            d->hits[nhits++] = i;
        found += here;
    }
    if (found == cells)
        return FTKIT_OK;
    if (of_old)
        return ftk_fail(FTKIT_ERR_SIZE,
            "array '%s': only %zu of the %zu cells of the block of rank %d were saved", name, found,
            cells, k);
    return ftk_fail(FTKIT_ERR_SIZE,
        "array '%s': only %zu of the %zu cells that rank %d of %d saved are in a block "
        "of the %d ranks now (register the array again in the callback of "
        "ftkit_on_repair)",
        name, found, cells, k, d->nold, d->ctx->nranks);
}

static int check_blocks(const struct redist *d)
{
    int rc = FTKIT_OK;
    for (int a = 0; rc == FTKIT_OK && a < d->narrays; a++) {
        for (int q = 0; rc == FTKIT_OK && q < d->nold; q++)
            if (d->source[q] == d->ctx->rank)
                rc = check_tiles(d, a, q, false);
        if (rc == FTKIT_OK)
            rc = check_tiles(d, a, d->ctx->rank, true);
    }
    return rc;
}

/* ---- WRITE: replicated regions ------------------------------------------------------- */

/* Broadcast a replicated region and unpack it.  from: the data on the root, else NULL.  A local
 * error goes to *local and does not stop the broadcasts, because the other ranks wait for them. */
static int write_replicated(
    struct redist *d, const struct ftk_region *r, const char *from, int *local)
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

static int write_all_replicated(struct redist *d)
{
    int local = FTKIT_OK;
    int rc = FTKIT_OK;
    for (int i = 0; rc == FTKIT_OK && i < d->nrecs; i++) {
        const struct ftk_region *r = ftk_region_find(d->ctx, d->recs[i].name);
        const char *from = NULL;
        if (!r || r->kind != FTK_KIND_REPLICATED)
            continue;
        if (is_root(d))
            from = ftk_seg_data_c(segment(d, 0)->buf) + d->recs[i].offset;
        rc = write_replicated(d, r, from, &local);
    }
    return rc == FTKIT_OK ? local : rc;
}

/* ---- WRITE: arrays ------------------------------------------------------------------- */

static void set_strides(struct place *p, const size_t *len)
{
    size_t stride = p->item;
    for (int i = p->ndims - 1; i >= 0; i--) {
        p->stride[i] = stride;
        stride *= len[i];
    }
}

static struct place new_place(const struct redist *d, int array)
{
    const struct ftk_region *r = d->arrays[array].region;
    struct place p = {
        .data = r->data, .memory = r->memory, .item = r->type.item_bytes, .ndims = r->ndims
    };
    size_t len[FTKIT_DIMS_MAX] = { 0 };
    for (int i = 0; i < r->ndims; i++) {
        p.first[i] = r->start[i] - r->halo[i];
        len[i] = r->local[i] + 2 * r->halo[i];
    }
    set_strides(&p, len);
    return p;
}

static struct place old_place(const struct redist *d, int array, int q)
{
    const struct ftk_region *r = d->arrays[array].region;
    char *seg = segment(d, q)->buf;
    const struct ftk_seg_region *rec = ftk_seg_find(seg, r->name);
    struct place p = {
        .data = ftk_seg_data(seg) + rec->offset, .item = r->type.item_bytes, .ndims = r->ndims
    };
    size_t len[FTKIT_DIMS_MAX] = { 0 };
    for (int i = 0; i < r->ndims; i++) {
        p.first[i] = (size_t)(rec->start[i] - rec->halo[i]);
        len[i] = (size_t)(rec->local[i] + 2 * rec->halo[i]);
    }
    set_strides(&p, len);
    return p;
}

/* Copy cells first, first+1, ... of a box, counted in C order: from a place into msg (out), or from
 * msg into the place.  In msg the cells are contiguous. */
static int copy_cells(
    const struct place *p, const struct box *b, size_t first, size_t cells, char *msg, bool out)
{
    size_t at[FTKIT_DIMS_MAX];
    int last = p->ndims - 1;
    for (int i = last; i >= 0; i--) {
        at[i] = first % b->len[i];
        first /= b->len[i];
    }
    while (cells > 0) {
        size_t run = b->len[last] - at[last];
        char *mem = p->data;
        run = run < cells ? run : cells;
        for (int i = 0; i <= last; i++)
            mem += (b->start[i] + at[i] - p->first[i]) * p->stride[i];
        int rc = out ? ftk_memory_copy_out(p->memory, msg, mem, run * p->item)
                     : ftk_memory_copy_in(p->memory, mem, msg, run * p->item);
        if (rc != FTKIT_OK)
            return rc;
        msg += run * p->item;
        cells -= run;
        at[last] += run;
        for (int i = last; i > 0 && at[i] == b->len[i]; i--) {
            at[i] = 0;
            at[i - 1]++;
        }
    }
    return FTKIT_OK;
}

/* A copy that fails does not stop the exchange, because the other ranks wait for the pieces. */
static void note(struct redist *d, int rc)
{
    if (d->copy_error == FTKIT_OK)
        d->copy_error = rc;
}

static size_t cells_per_piece(const struct redist *d, int array)
{
    return PIECE_BYTES / d->arrays[array].region->type.item_bytes;
}

/* Copy the cells whose old and new block are both on this rank. */
static void copy_own(struct redist *d)
{
    char *buf = d->flows[0].piece[0].buf;
    for (int a = 0; a < d->narrays; a++) {
        struct place to = new_place(d, a);
        struct box mine = block_of(d, a, false, d->ctx->rank);
        for (int q = 0; q < d->nold; q++) {
            struct box old = block_of(d, a, true, q);
            struct box b;
            size_t cells = d->source[q] == d->ctx->rank ? intersect(to.ndims, &mine, &old, &b) : 0;
            if (cells == 0)
                continue;
            struct place from = old_place(d, a, q);
            for (size_t i = 0; i < cells;) {
                size_t n = cells_per_piece(d, a);
                n = n < cells - i ? n : cells - i;
                note(d, copy_cells(&from, &b, i, n, buf, true));
                note(d, copy_cells(&to, &b, i, n, buf, false));
                i += n;
            }
            d->arrays[a].got += cells;
        }
    }
}

/* Go to the next pair of an old and a new block with cells that this rank sends or receives.
 * False: there is none. */
static bool next_box(const struct redist *d, struct flow *f)
{
    int me = d->ctx->rank;
    for (; f->array < d->narrays; f->array++, f->q = 0, f->r = -1) {
        int ndims = d->arrays[f->array].ndims;
        for (; f->q < d->nold; f->q++, f->r = -1) {
            bool have = d->source[f->q] == me;
            while (have == f->send && ++f->r < d->ctx->nranks) {
                if (f->send ? f->r == me : f->r != me)
                    continue;
                struct box old = block_of(d, f->array, true, f->q);
                struct box now = block_of(d, f->array, false, f->r);
                f->cells = intersect(ndims, &old, &now, &f->box);
                f->next = 0;
                if (f->cells > 0)
                    return true;
            }
        }
    }
    f->done = true;
    return false;
}

static int post(struct redist *d, struct flow *f)
{
    int slot = (f->first + f->npending) % WINDOW;
    struct piece *p = &f->piece[slot];
    size_t item = d->arrays[f->array].region->type.item_bytes;
    size_t n = cells_per_piece(d, f->array);
    p->box = f->box;
    p->array = f->array;
    p->first = f->next;
    p->cells = f->cells - f->next < n ? f->cells - f->next : n;
    int bytes = (int)(p->cells * item);
    int mrc;
    (void)FTK_FAULT("redistribute.piece");
    if (f->send) {
        struct place from = old_place(d, f->array, f->q);
        note(d, copy_cells(&from, &p->box, p->first, p->cells, p->buf, true));
        mrc = MPI_Isend(p->buf, bytes, MPI_BYTE, f->r, FTK_TAG_PIECE, d->ch.comm, &f->req[slot]);
    } else {
        mrc = MPI_Irecv(
            p->buf, bytes, MPI_BYTE, d->source[f->q], FTK_TAG_PIECE, d->ch.comm, &f->req[slot]);
    }
    if (mrc != MPI_SUCCESS) {
        f->req[slot] = MPI_REQUEST_NULL;
        return ftk_chan_break(&d->ch, mrc, "moving cells of an array");
    }
    f->npending++;
    f->next += p->cells;
    return FTKIT_OK;
}

/* Post pieces until the window is full, then finish the pieces that are complete, in order. */
static int advance(struct redist *d, struct flow *f, bool *moved)
{
    while (f->npending < WINDOW && !f->done) {
        if (f->next == f->cells && !next_box(d, f))
            break;
        int rc = post(d, f);
        if (rc != FTKIT_OK)
            return rc;
        *moved = true;
    }
    while (f->npending > 0) {
        struct piece *p = &f->piece[f->first];
        int done = 0;
        int mrc = MPI_Test(&f->req[f->first], &done, MPI_STATUS_IGNORE);
        if (mrc != MPI_SUCCESS) {
            f->req[f->first] = MPI_REQUEST_NULL;
            return ftk_chan_break(&d->ch, mrc, "moving cells of an array");
        }
        if (!done)
            break;
        if (!f->send) {
            struct place to = new_place(d, p->array);
            note(d, copy_cells(&to, &p->box, p->first, p->cells, p->buf, false));
            d->arrays[p->array].got += p->cells;
        }
        f->first = (f->first + 1) % WINDOW;
        f->npending--;
        *moved = true;
    }
    return FTKIT_OK;
}

static bool is_over(const struct flow *f)
{
    return f->done && f->npending == 0;
}

static int write_arrays(struct redist *d)
{
    struct flow *out = &d->flows[0];
    struct flow *in = &d->flows[1];
    unsigned turns = 0;
    int rc = FTKIT_OK;
    copy_own(d);
    while (rc == FTKIT_OK && !(is_over(out) && is_over(in))) {
        bool moved = false;
        rc = advance(d, out, &moved);
        if (rc == FTKIT_OK)
            rc = advance(d, in, &moved);
        if (!moved)
            ftk_chan_progress(&d->ch, &turns);
    }
    for (int f = 0; rc != FTKIT_OK && f < 2; f++) /* end the requests that are left */
        (void)ftk_chan_wait(&d->ch, d->flows[f].req, WINDOW, "moving cells of an array");
    for (int a = 0; rc == FTKIT_OK && a < d->narrays; a++) {
        struct box mine = block_of(d, a, false, d->ctx->rank);
        size_t cells = volume(d->arrays[a].ndims, &mine);
        if (d->arrays[a].got != cells)
            rc = ftk_fail(FTKIT_ERR_SIZE, "array '%s': %zu of %zu cells have come",
                d->arrays[a].region->name, d->arrays[a].got, cells);
    }
    return rc == FTKIT_OK ? d->copy_error : rc;
}

/* ---- all of it ----------------------------------------------------------------------- */

static int write_regions(struct redist *d)
{
    int rc = write_all_replicated(d);
    (void)FTK_FAULT("redistribute.mid");
    if (rc == FTKIT_ERR_PEER)
        return rc;
    int moved = write_arrays(d);
    (void)FTK_FAULT("redistribute.end");
    return agree_same(
        d, moved < rc ? moved : rc, d->replicated, "the contents of replicated regions");
}

static int run(struct redist *d)
{
    int rc = share_records(d);
    if (rc != FTKIT_OK)
        return rc;
    rc = compare_all(d);
    if (rc == FTKIT_OK)
        rc = prepare_tables(d);
    rc = agree_same(d, rc, regions_sum(d), "which regions there are");
    if (rc == FTKIT_OK)
        rc = share_blocks(d);
    if (rc != FTKIT_OK)
        return rc;
    int n = d->ctx->nranks;
    size_t words = (size_t)d->displs[n - 1] + (size_t)d->counts[n - 1];
    rc = check_blocks(d);
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
    struct redist d = { .ctx = ctx,
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
    rc = run(&d);
    (void)FTK_FAULT("redistribute.voted");
    if (rc == FTKIT_ERR_PEER) {
        keep_scratch(d.mem);
        return rc;
    }
    free_scratch(d.mem);
    if (rc != FTKIT_OK)
        return rc;
    free_abandoned(ctx);
    ctx->restored = ctx->repair.line;
    make_set_due(ctx);
    return FTKIT_OK;
}
