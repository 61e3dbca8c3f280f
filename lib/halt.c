/* The end of a job that was asked to stop (see halt.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "halt.h"

#include "set/checkpoint.h"

#define HALT_TRIES 3 /* to write the set of a halt again after failures */

bool ftk_is_halted(const struct ftkit_ctx *ctx)
{
    return ctx->policy.next_event == FTK_HALTED;
}

bool ftk_halts_now(const struct ftkit_ctx *ctx)
{
    return ftk_is_halted(ctx) && ctx->steer.halt != FTK_HALT_DURABLE;
}

/* A failure may have ended the flush of the set; with the log there is no other set, so this one is
 * written again. */
int ftk_halt_drain(struct ftkit_ctx *ctx, struct ftk_chan *ch, int *bad)
{
    (void)bad;
    int rc = ftk_flush_drain(ctx, ch, FTK_DRAIN_WAIT);
    for (int tries = 0; rc == FTKIT_OK && tries < HALT_TRIES; tries++) {
        /* all ranks know both from the vote of the drain */
        if (!ctx->cfg.h5_enabled || ctx->durable >= ctx->committed || ctx->flush.agreed)
            break;
        rc = ftk_flush_set(ch, ctx->committed, 2, false);
        if (rc == FTKIT_OK)
            rc = ftk_flush_drain(ctx, ch, FTK_DRAIN_WAIT);
    }
    return rc;
}

int ftk_halt_end(struct ftkit_ctx *ctx, int rc)
{
    (void)FTK_FAULT("halt.drained");
    int flushed = ftk_flush_return(ctx);
    ftk_steer_halted(ctx, rc != FTKIT_OK ? rc : flushed);
    return FTKIT_HALT;
}
