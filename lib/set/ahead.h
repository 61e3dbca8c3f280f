/* Copies of a region from memory of a device into a segment, begun ahead of their use.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * While the host computes the checksum of a piece, the device copies the next ones.  Pieces of
 * 1 MiB, two of them ahead: then they are still in the cache of the processor when the checksum
 * needs them. */
#ifndef FTK_AHEAD_H
#define FTK_AHEAD_H

#include "core/context.h"

#define FTK_AHEAD_PIECE ((size_t)1 << 20) /* bytes */
#define FTK_AHEAD_PIECES 2

struct ftk_ahead {
    const struct ftk_region *region; /* whose copies are under way; NULL: none */
    size_t begun, done;              /* bytes of this region */
    unsigned number[FTK_AHEAD_PIECES];
};

/* Let the bytes from `at` to `at + bytes` of the region be in the segment.  to: the first byte of
 * the region there; all: the bytes of the region.  Calls for a region begin at 0 and go on in
 * order. */
int ftk_ahead_get(
    struct ftk_ahead *a, const struct ftk_region *r, char *to, size_t all, size_t at, size_t bytes);
/* No copy is under way after this call.  An error is that of the last copy that was begun. */
int ftk_ahead_stop(struct ftk_ahead *a);

#endif
