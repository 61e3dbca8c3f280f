/* Segments of the line that go to other processes.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_TRANSFER_H
#define FTK_TRANSFER_H

#include "plan.h"

/* Transfer the segments of the line that ranks lack, and the copies that holders lack. */
int ftk_transfer(
    struct ftkit_ctx *ctx, struct ftk_mem *mem, struct ftk_chan *ch, const struct ftk_plan *p);

/* Release a damaged segment s of the line that this rank needs; the thread's detail names the
 * damage.  FTKIT_ERR_CORRUPT: the next plan takes another copy.  After more than recover.attempts
 * damaged segments this rank gives up the set in memory (ctx->repair.unusable), because the parity
 * of other data gives a damaged segment each time; the second level or files have to serve.  After
 * more than twice as many: FTKIT_ERR_LOST. */
int ftk_drop_own(struct ftkit_ctx *ctx, struct ftk_mem_seg *s);

#endif
