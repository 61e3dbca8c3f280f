/* At a set: whether the regions of the ranks fit together (see shapes.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A vote compares a checksum of the list of regions.  If it differs, rank 0 tells its list, and
 * each rank compares its own with it.  The blocks of the arrays go to all ranks; array i is looked
 * at by rank i alone (modulo the number of ranks), in n log n steps (tiles.h).  With replicas
 * plane 0 stands for the others: they are compared byte by byte anyway. */
#include "shapes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "detect/sure.h"
#include "region.h"
#include "replica/planes.h"
#include "tiles.h"

/* What must be the same on all ranks. */
struct entry {
    char name[64];
    uint32_t kind, basic;
    uint64_t item, count; /* count: of a replicated region, else 0 */
    uint64_t ndims, global[FTKIT_DIMS_MAX];
};

/* What a rank has found.  The worst code of all ranks counts, then the lowest rank. */
struct finding {
    int rc;
    bool warns;
    char text[384];
};

#define RULE ". Rule: all ranks register the same replicated regions and arrays"
#define OWN ": each rank gets back what it has saved"

enum { WORD_ERROR, WORD_ERROR_RANK, WORD_WARNING_RANK, WORD_SAME };

int64_t ftk_shapes_ask(const struct ftkit_ctx *ctx)
{
    return ctx->regions.compared ? INT64_MAX : 0;
}

/* ---- the list of regions ----------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

/* The regions of the program, in the order of their names; to be freed.  NULL: no memory. */
static struct entry *list_regions(const struct ftkit_ctx *ctx, int *n)
{
    struct entry *all = calloc((size_t)ctx->regions.n + 1, sizeof *all);
    *n = 0;
    for (int i = 0; all && i < ctx->regions.n; i++) {
        const struct ftk_region *r = &ctx->regions.list[i];
        struct entry *e = &all[*n];
        if (ftk_region_is_own(r) || ftk_region_is_note(r) || r->output)
            continue; /* files are of the ranks that write them */
        memcpy(e->name, r->name, sizeof e->name);
        e->kind = r->kind;
        e->basic = r->type.basic;
        e->item = r->type.item_bytes;
        e->count = r->kind == FTK_KIND_REPLICATED ? r->count : 0;
        e->ndims = (uint64_t)r->ndims;
        for (int d = 0; d < r->ndims; d++)
            e->global[d] = r->global[d];
        (*n)++;
    }
    if (all)
        qsort(all, (size_t)*n, sizeof *all, by_name);
    return all;
}

static bool is_shared(const struct entry *e)
{
    return e->kind == FTK_KIND_REPLICATED || e->kind == FTK_KIND_ARRAY;
}

/* "replicated, 3 f64" */
static void describe(const struct entry *e, char *text, size_t bytes)
{
    static const char *const kinds[] = { "", "per rank", "replicated", "a global array", "growing",
        "an object of callbacks" };
    int n = snprintf(text, bytes, "%s, ", kinds[e->kind]);
    if (e->count > 0)
        n += snprintf(text + n, bytes - (size_t)n, "%" PRIu64 " ", e->count);
    n += snprintf(text + n, bytes - (size_t)n, "%s", ftk_basic_name(e->basic));
    for (uint64_t d = 0; d < e->ndims && (size_t)n < bytes; d++)
        n += snprintf(text + n, bytes - (size_t)n, "%s%" PRIu64, d ? " x " : " ", e->global[d]);
}

/* A region differs from that of rank 0; NULL: one of them has no such region.  An error replaces a
 * warning, and the first of each kind stays. */
static void found(const struct ftkit_ctx *ctx, struct finding *f, const struct entry *first,
    const struct entry *own)
{
    char a[80], b[80];
    const bool error = (first && is_shared(first)) || (own && is_shared(own));
    if (f->rc != FTKIT_OK || (f->warns && !error))
        return;
    f->warns = !error;
    f->rc = error ? FTKIT_ERR_MISMATCH : FTKIT_OK;
    if (!first || !own) {
        snprintf(f->text, sizeof f->text,
            "region '%s' is registered on rank %d and not on rank %d%s",
            own ? own->name : first->name, own ? ctx->rank : 0, own ? 0 : ctx->rank,
            error ? RULE : OWN);
        return;
    }
    describe(first, a, sizeof a);
    describe(own, b, sizeof b);
    snprintf(f->text, sizeof f->text, "region '%s' is %s on rank %d and %s on rank 0%s", own->name,
        b, ctx->rank, a, error ? RULE : OWN);
}

/* Compare the lists, both in the order of names. */
static void compare(const struct ftkit_ctx *ctx, const struct entry *first, int n,
    const struct entry *own, int m, struct finding *f)
{
    for (int i = 0, k = 0; i < n || k < m;) {
        const int order = i == n ? 1 : k == m ? -1 : by_name(&first[i], &own[k]);
        if (order != 0 || memcmp(&first[i], &own[k], sizeof *own) != 0)
            found(ctx, f, order <= 0 ? &first[i] : NULL, order >= 0 ? &own[k] : NULL);
        i += order <= 0;
        k += order >= 0;
    }
}

/* Rank 0 tells its list, and each rank compares. */
static int compare_lists(struct ftk_chan *ch, const struct entry *own, int m, struct finding *f)
{
    const struct ftk_sure s = { ch->comm, ch, "comparing the regions of the ranks" };
    int32_t n = m;
    int rc = ftk_sure_bcast(&s, 0, &n, sizeof n);
    if (rc != FTKIT_OK)
        return rc;
    struct entry *first = calloc((size_t)n + 1, sizeof *first);
    if (!first)
        return ftk_chan_break(ch, MPI_ERR_NO_MEM, s.what);
    if (ch->ctx->rank == 0)
        memcpy(first, own, (size_t)m * sizeof *own);
    rc = ftk_sure_bcast(&s, 0, first, (size_t)n * sizeof *first);
    if (rc == FTKIT_OK)
        compare(ch->ctx, first, n, own, m, f);
    free(first);
    return rc;
}

/* ---- the blocks of arrays ------------------------------------------------------------------ */

static size_t words_of(const struct entry *all, int n)
{
    size_t words = 0;
    for (int i = 0; i < n; i++)
        words += all[i].kind == FTK_KIND_ARRAY ? 2 * all[i].ndims : 0;
    return words;
}

static void write_blocks(struct ftkit_ctx *ctx, const struct entry *all, int n, uint64_t *words)
{
    for (int i = 0; i < n; i++) {
        const struct ftk_region *r = ftk_region_find(ctx, all[i].name);
        if (all[i].kind != FTK_KIND_ARRAY)
            continue;
        for (int d = 0; d < r->ndims; d++) {
            words[d] = r->start[d];
            words[r->ndims + d] = r->local[d];
        }
        words += 2 * (ptrdiff_t)r->ndims;
    }
}

/* "(3, 0)" */
static void name_cell(const struct ftk_tiles_place *at, uint64_t ndims, char *text, size_t bytes)
{
    int n = 0;
    for (uint64_t d = 0; d < ndims && (size_t)n < bytes; d++)
        n += snprintf(text + n, bytes - (size_t)n, "%s%" PRIu64, d ? ", " : "", at->cell[d]);
}

static void look_at_array(const struct entry *e, const struct ftk_tiles *t, struct finding *f)
{
    enum ftk_tiles_fault fault;
    struct ftk_tiles_place at;
    char cell[80] = "";
    int rc = ftk_tiles_check(t, e->global, &fault, &at);
    name_cell(&at, e->ndims, cell, sizeof cell);
    if (rc != FTKIT_OK) {
        f->rc = rc;
        snprintf(f->text, sizeof f->text, "array '%s': %s", e->name, ftk_detail_text());
    } else if (fault == FTK_TILES_OVERLAP) {
        f->rc = FTKIT_ERR_MISMATCH;
        snprintf(f->text, sizeof f->text,
            "array '%s': the blocks of ranks %d and %d overlap, at cell (%s). Rule: each cell is "
            "in the block of one rank",
            e->name, at.a, at.b, cell);
    } else if (fault == FTK_TILES_GAP && !f->warns) {
        f->warns = true;
        snprintf(f->text, sizeof f->text,
            "array '%s': %" PRIu64 " cell%s in no block, the first one at (%s): a restart on "
            "another number of ranks needs blocks without %s",
            e->name, at.missing, at.missing == 1 ? " is" : "s are", cell,
            at.missing == 1 ? "it" : "them");
    }
}

/* All ranks have the same arrays. */
static int compare_blocks(struct ftk_chan *ch, const struct entry *all, int n, struct finding *f)
{
    const struct ftk_sure s = { ch->comm, ch, "comparing the blocks of arrays" };
    struct ftkit_ctx *ctx = ch->ctx;
    const size_t words = words_of(all, n);
    const size_t ranks = (size_t)ctx->nranks;
    if (words == 0)
        return FTKIT_OK;
    uint64_t *table = malloc((ranks + 1) * words * sizeof *table);
    if (!table)
        return ftk_chan_break(ch, MPI_ERR_NO_MEM, s.what);
    uint64_t *own = table + ranks * words;
    write_blocks(ctx, all, n, own);
    int rc = ftk_sure_allgather(&s, own, words * sizeof *table, table);
    int array = 0;
    struct ftk_tiles t = { .n = ftk_plane_size(ctx), .stride = words, .words = table };
    for (int i = 0; rc == FTKIT_OK && i < n; i++) {
        if (all[i].kind != FTK_KIND_ARRAY)
            continue;
        t.ndims = (int)all[i].ndims;
        if (array++ % ctx->nranks == ctx->rank && f->rc == FTKIT_OK)
            look_at_array(&all[i], &t, f);
        t.words += 2 * all[i].ndims;
    }
    free(table);
    return rc;
}

/* ---- the result ------------------------------------------------------------------------------ */

/* All ranks get the finding of one: of the lowest rank with an error, else of the lowest rank with
 * a warning.  same: whether `value` is the same on all ranks. */
static int agree(struct ftk_chan *ch, struct finding *f, uint64_t value, bool *same)
{
    const struct ftk_sure s = { ch->comm, ch, "comparing the regions of the ranks" };
    struct ftk_vote v;
    ftk_vote_init(&v);
    v.min[WORD_ERROR] = f->rc;
    if (f->rc != FTKIT_OK)
        v.min[WORD_ERROR_RANK] = ch->ctx->rank;
    if (f->warns)
        v.min[WORD_WARNING_RANK] = ch->ctx->rank;
    ftk_vote_same(&v, WORD_SAME, value);
    int rc = ftk_vote(ch, ch->ctx->nranks, &v);
    if (rc != FTKIT_OK)
        return rc;
    *same = ftk_vote_is_same(&v, WORD_SAME);
    const int64_t from =
        v.min[WORD_ERROR] != FTKIT_OK ? v.min[WORD_ERROR_RANK] : v.min[WORD_WARNING_RANK];
    if (from >= ch->ctx->nranks)
        return FTKIT_OK;
    rc = ftk_sure_bcast(&s, (int)from, f->text, sizeof f->text);
    f->rc = (int)v.min[WORD_ERROR];
    f->warns = f->rc == FTKIT_OK;
    return rc;
}

static int compare_all(struct ftk_chan *ch, const struct entry *own, int n, struct finding *f)
{
    bool same = false;
    int rc = agree(ch, f, ftk_xxh3(own, (size_t)n * sizeof *own), &same);
    if (rc == FTKIT_OK && !same) {
        rc = compare_lists(ch, own, n, f);
        if (rc == FTKIT_OK)
            rc = agree(ch, f, 0, &same);
    }
    if (rc != FTKIT_OK || f->rc != FTKIT_OK)
        return rc;
    const bool told = f->warns;
    struct finding blocks = { .rc = FTKIT_OK };
    rc = compare_blocks(ch, own, n, &blocks);
    if (rc == FTKIT_OK)
        rc = agree(ch, &blocks, 0, &same);
    if (!told || blocks.rc != FTKIT_OK)
        *f = blocks;
    return rc;
}

int ftk_shapes_check(struct ftk_chan *ch)
{
    struct ftkit_ctx *ctx = ch->ctx;
    struct finding f = { .rc = FTKIT_OK };
    int n = 0;
    struct entry *own = list_regions(ctx, &n);
    if (!own)
        return ftk_chan_break(ch, MPI_ERR_NO_MEM, "comparing the regions of the ranks");
    int rc = compare_all(ch, own, n, &f);
    free(own);
    if (rc != FTKIT_OK)
        return rc;
    ctx->regions.compared = f.rc == FTKIT_OK;
    if (ctx->rank == 0 && f.rc != FTKIT_OK && !ctx->regions.told)
        ftk_report(FTKIT_ERROR, "context %s: no set is written: %s", ctx->cfg.name, f.text);
    else if (ctx->rank == 0 && f.warns)
        ftk_report(FTKIT_WARNING, "context %s: %s", ctx->cfg.name, f.text);
    ctx->regions.told = f.rc != FTKIT_OK;
    return f.rc == FTKIT_OK ? FTKIT_OK : ftk_fail(f.rc, "no set is written: %s", f.text);
}
