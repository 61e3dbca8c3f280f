/* Verifying the sets in memory.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_SCRUB_H
#define FTK_SCRUB_H

#include "detect/detect.h"

/* Verify every segment in the memory of both levels; release damaged segments, and replace them
 * from copies and parity or by a new set.  *bad: the number of damaged segments of this rank.
 * Collective over act. */
int ftk_scrub(struct ftkit_ctx *ctx, struct ftk_chan *ch, int *bad);

#endif
