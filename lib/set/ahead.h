/* Copies of a region from memory of a device into a segment, begun ahead of their use.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * If the device computes the checksums, the host only waits: pieces of 4 MiB, 8 of them ahead, use
 * the bus best.  Else the device copies the next pieces while the host computes the checksum of a
 * piece: pieces of 1 MiB, two of them ahead, are still in the cache of the processor then.
 *
 * The device computes the checksums of the whole blocks of a region, in front of its copies and on
 * the same stream.  Nobody computes the sum of a block twice, so an error of a copy is found
 * by the next comparison of the block with its sum: in a restore, or by ftkit_scrub(). */
#ifndef FTK_AHEAD_H
#define FTK_AHEAD_H

#include "core/context.h"
#include "core/memory_kind.h"

struct ftk_ahead {
    bool host_sums;                  /* the host computes all checksums */
    const struct ftk_region *region; /* whose copies are under way; NULL: none */
    size_t begun, done;              /* bytes of this region */
    size_t piece;                    /* bytes */
    unsigned pieces;                 /* at most so many are under way */
    unsigned number[FTK_MEMORY_AHEAD];
    size_t summed, summed_end; /* bytes of the data area: the device computes these checksums */
};

/* Let the bytes from `at` to `at + bytes` of the region be in the segment.  rec: the record of the
 * region there.  Calls for a region begin at 0 and go on in order. */
struct ftk_seg_region;
int ftk_ahead_get(struct ftk_ahead *a, const struct ftk_region *r, char *seg,
    const struct ftk_seg_region *rec, size_t at, size_t bytes);
/* Whether the segment has the checksum of these bytes of the data area, a block whose last byte is
 * there. */
static inline bool ftk_ahead_has_sum(const struct ftk_ahead *a, size_t from, size_t end)
{
    return from >= a->summed && end <= a->summed_end;
}
/* No copy is under way after this call.  An error is that of the last copy that was begun. */
int ftk_ahead_stop(struct ftk_ahead *a);

#endif
