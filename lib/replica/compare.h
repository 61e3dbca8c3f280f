/* Comparing the regions of a set between the replicas of a rank.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Comparing checkpoints finds corruption of memory that no checksum of stored data can find [ACR].
 */
#ifndef FTK_COMPARE_H
#define FTK_COMPARE_H

#include "core/log_ops.h"
#include "detect/detect.h"

enum { FTK_PLANES_MAX = 3 };

enum ftk_agreement {
    FTK_SPHERE_SAME,   /* no region differs */
    FTK_SPHERE_MENDED, /* one replica differed; it has the regions of the others in its segment */
    FTK_SPHERE_DIFFERS /* it is not known which replica is right */
};

enum ftk_subject { FTK_SUBJECT_LIST /* of regions */, FTK_SUBJECT_REGION, FTK_SUBJECT_MESSAGE };

struct ftk_comparison {
    enum ftk_agreement result;
    /* the first difference */
    enum ftk_subject subject;
    int plane;  /* MENDED: of the odd replica; DIFFERS: the first that differs from the first plane
                  that does not stand still */
    int region; /* REGION: its number in the segment */
    uint64_t first, count;      /* elements, by the blocks that differ; count 0: other sizes */
    struct ftk_message message; /* MESSAGE: the first that differs, or that not all have sent */
    uint64_t sum[2]; /* XXH3 of the region or message in the other plane and in `plane`; a message
                        that was not sent has 0 */
    bool *mended;    /* [regions] MENDED, on the odd replica: regions to restore; or NULL */
};

/* Compare the regions of a sealed segment with those of the sphere's other replicas, and exchange
 * what the odd one of three replicas needs.  With replicas.compare = messages the sent messages are
 * compared first.  Collective over the sphere of this rank.
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
