/* Whether the blocks of an array cover each cell exactly once (see tiles.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Blocks that do not overlap cover the array when their cells add up to those of the array.  To
 * find two blocks that overlap, a plane cuts the array in two: both blocks are then on the same
 * side of the plane, or the plane cuts both.  So each side is looked at alone, with the blocks
 * that reach into it, until few blocks are left. */
#include "tiles.h"

#include <stdlib.h>
#include <string.h>

enum { FEW = 16 }; /* blocks that are compared one by one */

static uint64_t start_of(const struct ftk_tiles *t, int k, int d)
{
    return t->words[(size_t)k * t->stride + (size_t)d];
}

static uint64_t end_of(const struct ftk_tiles *t, int k, int d)
{
    return start_of(t, k, d) + t->words[(size_t)k * t->stride + (size_t)(t->ndims + d)];
}

/* ---- overlaps ------------------------------------------------------------------------- */

static bool overlap(const struct ftk_tiles *t, int a, int b, struct ftk_tiles_place *at)
{
    for (int d = 0; d < t->ndims; d++) {
        const uint64_t x = start_of(t, a, d), y = start_of(t, b, d);
        at->cell[d] = x > y ? x : y;
        if (at->cell[d] >= end_of(t, a, d) || at->cell[d] >= end_of(t, b, d))
            return false;
    }
    at->a = a < b ? a : b;
    at->b = a < b ? b : a;
    return true;
}

static bool compare_all(
    const struct ftk_tiles *t, const int *list, int n, struct ftk_tiles_place *at)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            if (overlap(t, list[k], list[i], at))
                return true;
    return false;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* A plane in front of index `at` of dimension d. */
struct cut {
    int d;
    uint64_t at;
    int below, above; /* blocks that reach into each side */
};

/* Find the plane that leaves the fewest blocks on its larger side.  false: every plane leaves
 * nearly all blocks on a side, or cuts more than half of them.  work [n]. */
static bool find_cut(
    const struct ftk_tiles *t, const int *list, int n, uint64_t *work, struct cut *best)
{
    int most = n;
    for (int d = 0; d < t->ndims; d++) {
        struct cut c = { .d = d };
        for (int i = 0; i < n; i++)
            work[i] = start_of(t, list[i], d);
        qsort(work, (size_t)n, sizeof *work, by_value);
        c.at = work[n / 2];
        for (int i = 0; i < n; i++) {
            c.below += start_of(t, list[i], d) < c.at;
            c.above += end_of(t, list[i], d) > c.at;
        }
        const int larger = c.below > c.above ? c.below : c.above;
        if (larger >= most || c.below + c.above > n + n / 2)
            continue;
        most = larger;
        *best = c;
    }
    return most < n;
}

/* Look for an overlap among the blocks in list [n].  Each level of the recursion has fewer
 * blocks. */
static int find_overlap(
    const struct ftk_tiles *t, const int *list, int n, struct ftk_tiles_place *at, bool *found)
{
    struct cut c;
    if (n <= FEW) {
        *found = compare_all(t, list, n, at);
        return FTKIT_OK;
    }
    uint64_t *work = malloc((size_t)n * sizeof *work);
    int *side = malloc((size_t)n * sizeof *side);
    int rc = work && side ? FTKIT_OK : ftk_fail(FTKIT_ERR_NOMEM, "blocks of %d ranks", n);
    c = (struct cut){ .d = 0 };
    const bool cut = rc == FTKIT_OK && find_cut(t, list, n, work, &c);
    free(work);
    if (rc == FTKIT_OK && !cut)
        *found = compare_all(t, list, n, at);
    for (int above = 0; cut && rc == FTKIT_OK && !*found && above < 2; above++) {
        int m = 0;
        for (int i = 0; i < n; i++)
            if (above ? end_of(t, list[i], c.d) > c.at : start_of(t, list[i], c.d) < c.at)
                side[m++] = list[i];
        rc = find_overlap(t, side, m, at, found);
    }
    free(side);
    return rc;
}

/* ---- gaps ----------------------------------------------------------------------------- */

/* A part of the array: lo <= index < hi. */
struct part {
    uint64_t lo[FTKIT_DIMS_MAX], hi[FTKIT_DIMS_MAX];
};

/* Cells of the part that block k has, or with k = -1 all its cells; at most UINT64_MAX. */
static uint64_t cells_of(const struct ftk_tiles *t, int k, const struct part *p)
{
    uint64_t n = 1;
    for (int d = 0; d < t->ndims; d++) {
        uint64_t lo = p->lo[d], hi = p->hi[d];
        if (k >= 0 && start_of(t, k, d) > lo)
            lo = start_of(t, k, d);
        if (k >= 0 && end_of(t, k, d) < hi)
            hi = end_of(t, k, d);
        if (lo >= hi)
            return 0;
        if (__builtin_mul_overflow(n, hi - lo, &n))
            n = UINT64_MAX;
    }
    return n;
}

/* Cells of the part that are in no block; the blocks do not overlap.  *some: a block that has cells
 * of the part; -1: none has. */
static uint64_t missing_in(const struct ftk_tiles *t, const struct part *p, int *some)
{
    uint64_t left = cells_of(t, -1, p);
    *some = -1;
    for (int k = 0; k < t->n; k++) {
        const uint64_t here = cells_of(t, k, p);
        left -= here < left ? here : left;
        *some = here > 0 ? k : *some;
    }
    return left;
}

/* The part has cells that are in no block: find one.  A part that a block has cells of is cut along
 * the sides of this block; a piece outside of the block must have the missing cells. */
static void find_gap(const struct ftk_tiles *t, struct part p, struct ftk_tiles_place *at)
{
    int block = 0, other;
    for (;;) {
        (void)missing_in(t, &p, &block);
        bool smaller = false;
        for (int d = 0; block >= 0 && !smaller && d < t->ndims; d++) {
            const uint64_t edge[2] = { start_of(t, block, d), end_of(t, block, d) };
            struct part piece = p;
            piece.hi[d] = edge[0] < p.hi[d] ? edge[0] : p.hi[d];
            smaller = edge[0] > p.lo[d] && missing_in(t, &piece, &other) > 0;
            if (!smaller) {
                piece = p;
                piece.lo[d] = edge[1] > p.lo[d] ? edge[1] : p.lo[d];
                smaller = edge[1] < p.hi[d] && missing_in(t, &piece, &other) > 0;
            }
            if (smaller)
                p = piece;
            else { /* go on in the middle */
                p.lo[d] = edge[0] > p.lo[d] ? edge[0] : p.lo[d];
                p.hi[d] = edge[1] < p.hi[d] ? edge[1] : p.hi[d];
            }
        }
        if (!smaller)
            break;
    }
    memcpy(at->cell, p.lo, sizeof at->cell);
}

int ftk_tiles_check(const struct ftk_tiles *t, const uint64_t *global, enum ftk_tiles_fault *fault,
    struct ftk_tiles_place *at)
{
    struct part all = { { 0 }, { 0 } };
    int m = 0, some;
    bool found = false;
    int *list = malloc((size_t)t->n * sizeof *list);
    *fault = FTK_TILES_EXACT;
    memset(at, 0, sizeof *at);
    if (!list)
        return ftk_fail(FTKIT_ERR_NOMEM, "blocks of %d ranks", t->n);
    memcpy(all.hi, global, (size_t)t->ndims * sizeof *global);
    for (int k = 0; k < t->n; k++)
        if (cells_of(t, k, &all) > 0)
            list[m++] = k;
    int rc = find_overlap(t, list, m, at, &found);
    free(list);
    if (rc != FTKIT_OK)
        return rc;
    if (found) {
        *fault = FTK_TILES_OVERLAP;
        return FTKIT_OK;
    }
    at->missing = missing_in(t, &all, &some);
    if (at->missing > 0) {
        *fault = FTK_TILES_GAP;
        find_gap(t, all, at);
    }
    return FTKIT_OK;
}
