/* Whether the blocks of an array cover each cell exactly once.  Numbers alone, no MPI.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_TILES_H
#define FTK_TILES_H

#include "core/ftk.h"

/* The blocks of n ranks.  The block of rank k is words[k * stride]: ndims starts, then ndims
 * lengths.  Each block lies within the array. */
struct ftk_tiles {
    int n, ndims;
    size_t stride; /* in words */
    const uint64_t *words;
};

enum ftk_tiles_fault {
    FTK_TILES_EXACT,
    FTK_TILES_OVERLAP, /* at->cell is in the blocks of ranks at->a and at->b, a < b */
    FTK_TILES_GAP      /* no block overlaps another, and at->cell is in no block */
};

struct ftk_tiles_place {
    int a, b;
    uint64_t cell[FTKIT_DIMS_MAX];
    uint64_t missing; /* cells that are in no block, at most UINT64_MAX */
};

/* Set *fault and *at.  global [ndims]: the shape of the array.  The time grows as n log n for
 * blocks that straight cuts separate, as those of regular decompositions, and as n^2 at worst.
 * FTKIT_ERR_NOMEM. */
int ftk_tiles_check(const struct ftk_tiles *t, const uint64_t *global, enum ftk_tiles_fault *fault,
    struct ftk_tiles_place *at);

#endif
