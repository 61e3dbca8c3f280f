/* Comparing the regions of a set between the replicas of a rank.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Comparing checkpoints finds corruption of memory that no checksum of stored data can find [ACR].
 */
#ifndef FTK_COMPARE_H
#define FTK_COMPARE_H

#include "detect/detect.h"

enum { FTK_PLANES_MAX = 3 };

enum ftk_agreement {
    FTK_SPHERE_SAME,   /* no region differs */
    FTK_SPHERE_MENDED, /* one replica differed; it has the regions of the others in its segment */
    FTK_SPHERE_DIFFERS /* it is not known which replica is right */
};

struct ftk_comparison {
    enum ftk_agreement result;
    /* the first region that differs */
    int region; /* its number in the segment; -1: the replicas have other regions */
    int plane;  /* MENDED: of the odd replica; DIFFERS: the first that differs from plane 0 */
    uint64_t first, count; /* elements, by the blocks that differ; count 0: other sizes */
    uint64_t sum[2];       /* XXH3 of the region in plane 0 and in `plane` */
    bool *mended;          /* [regions] MENDED, on the odd replica: regions to restore; or NULL */
};

/* Compare the regions of a sealed segment with those of the sphere's other replicas, and exchange
 * what the odd one of three replicas needs.  Collective over the sphere of this rank.
 *
 * seg: NULL: this rank has no segment; then the result is SAME everywhere in the sphere, because
 * the set ends with an error.  skip [regions]: regions to leave out; the same on all replicas. The
 * caller frees c->mended.  FTKIT_ERR_PEER: a failure. */
int ftk_sphere_compare(struct ftk_chan *ch, char *seg, const bool *skip, struct ftk_comparison *c);

/* Decide from the sums of n regions in the planes of a sphere, sum [planes][n], bytes [planes][n].
 * Pure.  majority: two of three replicas are right.  *c: result, region, plane and sum.  odd [n]:
 * the plane that differs from two equal ones; -1: none does, all differ, or without majority. */
void ftk_sphere_decide(const uint64_t *sum, const uint64_t *bytes, int planes, bool majority, int n,
    int *odd, struct ftk_comparison *c);

#endif
