/* At a set: whether the regions of the ranks fit together.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A set of this number of ranks can be restored whatever the regions are.  Whether it can be
 * restored on another number of ranks, and read as one array, would show only at that restart.  So
 * the ranks compare names, kinds and types of their regions, and the blocks of global arrays, at
 * the first set and at the first one after a change on any rank. */
#ifndef FTK_SHAPES_H
#define FTK_SHAPES_H

#include "core/context.h"

struct ftk_chan;

/* For a vote: 0 if this rank has to be compared with the others, else INT64_MAX. */
int64_t ftk_shapes_ask(const struct ftkit_ctx *ctx);

/* Compare.  Collective; the vote has given 0.  FTKIT_ERR_MISMATCH on all ranks: replicated regions
 * or arrays differ, or blocks overlap; the detail names region and ranks, and rank 0 reports it.
 * What does no harm on this number of ranks (regions per rank that only some ranks have, cells of
 * an array in no block) rank 0 reports as a warning.  FTKIT_ERR_PEER. */
int ftk_shapes_check(struct ftk_chan *ch);

#endif
