/* At a set: whether the regions of the ranks fit together (see shapes.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A vote compares a checksum of the list of regions.  If it differs, rank 0 sends its list, and
 * each rank compares its own with it.  The blocks of the arrays go to all ranks; array i is looked
 * at by rank i alone (modulo the number of ranks), in n log n steps (tiles.h).  With replicas
 * plane 0 stands for the others: they are compared byte by byte anyway.  If the lists of several
 * programs differ, each program has regions of its own, and its first rank stands for rank 0. */
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

/* ---- programs ---------------------------------------------------------------------------- */

/* Whether a rank is of a program of the job. */
static bool runs(const struct ftkit_ctx *ctx, int rank, int program)
{
    return ctx->programs.n == 0 || ctx->programs.of[rank] == program;
}

/* The first rank of a program; -1: it has none. */
static int first_of(const struct ftkit_ctx *ctx, int program)
{
    for (int r = 0; r < ctx->nranks; r++)
        if (runs(ctx, r, program))
            return r;
    return -1;
}

/* The rank that has number i among the ranks of this program; apart: each program has its own
 * regions, else all ranks count. */
static int rank_number(const struct ftkit_ctx *ctx, bool apart, int i)
{
    for (int r = 0; apart && r < ctx->nranks; r++)
        if (runs(ctx, r, ctx->programs.own) && i-- == 0)
            return r;
    return i;
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
        if (r->system && r->system->differs_in_ranks)
            continue;
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

/* A region differs from that of the first rank; NULL: one of them has no such region.  An error
 * replaces a warning, and the first of each kind stays. */
static void found(const struct ftkit_ctx *ctx, struct finding *f, const struct entry *first,
    const struct entry *own)
{
    char a[80], b[80];
    const int to = first_of(ctx, ctx->programs.own);
    const bool error = (first && is_shared(first)) || (own && is_shared(own));
    if (f->rc != FTKIT_OK || (f->warns && !error))
        return;
    f->warns = !error;
    f->rc = error ? FTKIT_ERR_MISMATCH : FTKIT_OK;
    if (!first || !own) {
        snprintf(f->text, sizeof f->text,
            "region '%s' is registered on rank %d and not on rank %d%s",
            own ? own->name : first->name, own ? ctx->rank : to, own ? to : ctx->rank,
            error ? RULE : OWN);
        return;
    }
    describe(first, a, sizeof a);
    describe(own, b, sizeof b);
    snprintf(f->text, sizeof f->text, "region '%s' is %s on rank %d and %s on rank %d%s", own->name,
        b, ctx->rank, a, to, error ? RULE : OWN);
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

/* The lists of the programs differ.  An array of two of them would be one dataset in master.h5. */
static void look_for_names(
    struct ftkit_ctx *ctx, const struct entry *first, int n, int program, struct finding *f)
{
    for (int i = 0; i < n && f->rc == FTKIT_OK; i++) {
        const struct ftk_region *own = ftk_region_find(ctx, first[i].name);
        if (first[i].kind != FTK_KIND_ARRAY || !own || own->kind != FTK_KIND_ARRAY)
            continue;
        f->rc = FTKIT_ERR_MISMATCH;
        snprintf(f->text, sizeof f->text,
            "array '%s' is registered by programs %d and %d of the job, whose other regions "
            "differ. Rule: arrays of such programs have different names",
            first[i].name, program, ctx->programs.own);
    }
}

/* The first rank of a program sends its list, and each rank of the program compares.  Collective
 * over all ranks. */
static int compare_with(
    struct ftk_chan *ch, int program, const struct entry *own, int m, struct finding *f)
{
    const struct ftk_sure s = { ch->comm, ch, "comparing the regions of the ranks" };
    const int root = first_of(ch->ctx, program);
    int32_t n = m;
    if (root < 0)
        return FTKIT_OK;
    int rc = ftk_sure_bcast(&s, root, &n, sizeof n);
    if (rc != FTKIT_OK)
        return rc;
    struct entry *first = calloc((size_t)n + 1, sizeof *first);
    if (!first)
        return ftk_chan_break(ch, MPI_ERR_NO_MEM, s.what);
    if (ch->ctx->rank == root)
        memcpy(first, own, (size_t)m * sizeof *own);
    rc = ftk_sure_bcast(&s, root, first, (size_t)n * sizeof *first);
    if (rc == FTKIT_OK && runs(ch->ctx, ch->ctx->rank, program))
        compare(ch->ctx, first, n, own, m, f);
    else if (rc == FTKIT_OK)
        look_for_names(ch->ctx, first, n, program, f);
    free(first);
    return rc;
}

static int compare_lists(struct ftk_chan *ch, const struct entry *own, int m, struct finding *f)
{
    int rc = FTKIT_OK;
    for (int k = 0; rc == FTKIT_OK && k < ftk_programs_count(&ch->ctx->programs); k++)
        rc = compare_with(ch, k, own, m, f);
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

static void look_at_array(const struct ftkit_ctx *ctx, bool apart, const struct entry *e,
    const struct ftk_tiles *t, struct finding *f)
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
            e->name, rank_number(ctx, apart, at.a), rank_number(ctx, apart, at.b), cell);
    } else if (fault == FTK_TILES_GAP && !f->warns) {
        f->warns = true;
        snprintf(f->text, sizeof f->text,
            "array '%s': %" PRIu64 " cell%s in no block, the first one at (%s): a restart on "
            "another number of ranks needs blocks without %s",
            e->name, at.missing, at.missing == 1 ? " is" : "s are", cell,
            at.missing == 1 ? "it" : "them");
    }
}

/* Keep the blocks of the ranks of this program, in place; all: bytes[r] of each rank r.  Return
 * their number. */
static int keep_own(const struct ftkit_ctx *ctx, char *all, const size_t *bytes)
{
    int n = 0;
    size_t at = 0, from = 0;
    for (int r = 0; r < ctx->nranks; from += bytes[r++]) {
        if (!runs(ctx, r, ctx->programs.own))
            continue;
        memmove(all + at, all + from, bytes[r]);
        at += bytes[r];
        n++;
    }
    return n;
}

/* Let the ranks exchange their blocks: *table [*n][words], in the order of the ranks; to be
 * freed.  apart: the ranks of each program have their own arrays, and the table is of this program;
 * else all ranks have the same arrays.  NULL: there is no block. */
static int exchange_blocks(
    struct ftk_chan *ch, bool apart, const uint64_t *own, size_t words, uint64_t **table, int *n)
{
    const struct ftk_sure s = { ch->comm, ch, "comparing the blocks of arrays" };
    const size_t ranks = (size_t)ch->ctx->nranks, mine = words * sizeof *own;
    size_t *bytes = malloc((ranks + 1) * sizeof *bytes), total = 0;
    if (!bytes)
        return ftk_chan_break(ch, MPI_ERR_NO_MEM, s.what);
    for (size_t r = 0; r < ranks; r++)
        bytes[r] = mine;
    int rc = apart ? ftk_sure_allgather(&s, &mine, sizeof mine, bytes) : FTKIT_OK;
    for (size_t r = 0; rc == FTKIT_OK && r < ranks; r++)
        total += bytes[r];
    char *all = rc == FTKIT_OK && total > 0 ? malloc(total) : NULL;
    if (rc == FTKIT_OK && total > 0)
        rc = all ? ftk_sure_allgatherv(&s, own, bytes, all)
                 : ftk_chan_break(ch, MPI_ERR_NO_MEM, s.what);
    if (rc == FTKIT_OK && all)
        *n = apart ? keep_own(ch->ctx, all, bytes) : (int)ranks;
    *table = (void *)all;
    free(bytes);
    return rc;
}

/* Each rank looks at some of the arrays. */
static void look_at_blocks(const struct ftkit_ctx *ctx, bool apart, const struct entry *all, int n,
    struct ftk_tiles *t, struct finding *f)
{
    const int listed = t->n;
    const int planes = ctx->cfg.replicas > 1 ? ctx->cfg.replicas : 1;
    t->n = listed / planes;
    for (int i = 0, array = 0; i < n && listed > 0; i++) {
        if (all[i].kind != FTK_KIND_ARRAY)
            continue;
        t->ndims = (int)all[i].ndims;
        if (rank_number(ctx, apart, array++ % listed) == ctx->rank && f->rc == FTKIT_OK)
            look_at_array(ctx, apart, &all[i], t, f);
        t->words += 2 * all[i].ndims;
    }
}

static int compare_blocks(
    struct ftk_chan *ch, bool apart, const struct entry *all, int n, struct finding *f)
{
    const size_t words = words_of(all, n);
    uint64_t *table = NULL;
    int listed = 0;
    if (words == 0 && !apart)
        return FTKIT_OK;
    uint64_t *own = malloc((words + 1) * sizeof *own);
    if (!own)
        return ftk_chan_break(ch, MPI_ERR_NO_MEM, "comparing the blocks of arrays");
    write_blocks(ch->ctx, all, n, own);
    int rc = exchange_blocks(ch, apart, own, words, &table, &listed);
    struct ftk_tiles t = { .n = listed, .stride = words, .words = table };
    if (rc == FTKIT_OK && table)
        look_at_blocks(ch->ctx, apart, all, n, &t, f);
    free(own);
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
    const bool apart = ch->ctx->regions.by_program = !same && ch->ctx->programs.n > 0;
    if (rc == FTKIT_OK && !same) {
        rc = compare_lists(ch, own, n, f);
        if (rc == FTKIT_OK)
            rc = agree(ch, f, 0, &same);
    }
    if (rc != FTKIT_OK || f->rc != FTKIT_OK)
        return rc;
    const bool warned = f->warns;
    struct finding blocks = { .rc = FTKIT_OK };
    rc = compare_blocks(ch, apart, own, n, &blocks);
    if (rc == FTKIT_OK)
        rc = agree(ch, &blocks, 0, &same);
    if (!warned || blocks.rc != FTKIT_OK)
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
    if (ctx->rank == 0 && f.rc != FTKIT_OK && !ctx->regions.warned)
        ftk_report(FTKIT_ERROR, "context %s: no set is written: %s", ctx->cfg.name, f.text);
    else if (ctx->rank == 0 && f.warns)
        ftk_report(FTKIT_WARNING, "context %s: %s", ctx->cfg.name, f.text);
    ctx->regions.warned = f.rc != FTKIT_OK;
    return f.rc == FTKIT_OK ? FTKIT_OK : ftk_fail(f.rc, "no set is written: %s", f.text);
}
