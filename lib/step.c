/* The solver loop with one call, ftkit_step(): recover, checkpoint and finish in the right order.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A survivor returns to its loop from a call of ftkit_checkpoint(), a replacement from its first
 * one.  Here both return from the same call of the program, so both go through the same code
 * before the next one.  The region "ftkit.step" distinguishes the set of the first step from all
 * others: ranks that return to that set have to begin again as in a fresh start. */
#include "set/region.h"
#include "step.h"

/* The code with which the body is entered.  News must not be missed, so an error waits. */
static int entered(struct ftkit_ctx *ctx, int rc)
{
    if (ctx->loop.changed || rc == FTKIT_ROLLED_BACK) {
        ctx->loop.changed = false;
        if (rc < 0)
            ctx->loop.owed = rc;
        return ctx->loop.fresh ? FTKIT_NO_SET : FTKIT_ROLLED_BACK;
    }
    if (rc == FTKIT_OK) {
        rc = ctx->loop.owed;
        ctx->loop.owed = FTKIT_OK;
    }
    return rc;
}

/* Call ftkit_checkpoint(); *more: the body follows. */
static int checkpoint(struct ftkit_ctx *ctx, bool *more)
{
    int rc = ftkit_checkpoint(ctx);
    *more = !FTKIT_FATAL(rc) && rc != FTKIT_HALT;
    return *more ? entered(ctx, rc) : rc;
}

static int first(struct ftkit_ctx *ctx, bool *more)
{
    if (ctx->where >= FTK_IN_LOOP)
        return ftk_done(ctx,
            ftk_fail(FTKIT_ERR_STATE,
                "ftkit_step: its first call is also ftkit_recover(), which was called before"));
    int rc = ftk_done(ctx, ftk_region_add_step(ctx, &ctx->loop.fresh));
    if (rc == FTKIT_OK)
        rc = ftkit_recover(ctx, NULL);
    if (rc < 0)
        return rc;
    ctx->loop.changed = true;
    return checkpoint(ctx, more);
}

static int next(struct ftkit_ctx *ctx, bool *more)
{
    if (!ctx->loop.changed) /* otherwise the body has not used this state yet */
        ctx->loop.fresh = 0;
    return checkpoint(ctx, more);
}

/* The rank has come to its end.  After a rollback it is in an earlier step. */
static int last(struct ftkit_ctx *ctx, bool *more)
{
    int rc = ftkit_finish(ctx);
    return rc == FTKIT_ROLLED_BACK ? checkpoint(ctx, more) : rc;
}

static int step(struct ftkit_ctx *ctx, bool *more)
{
    switch (ctx->loop.at) {
    case FTK_LOOP_NONE:
        return first(ctx, more);
    case FTK_LOOP_BODY:
        return next(ctx, more);
    case FTK_LOOP_LAST: /* a rollback since ftkit_end() makes it untrue */
        return ctx->loop.changed ? next(ctx, more) : last(ctx, more);
    default:
        return ftk_done(ctx, ftk_fail(FTKIT_ERR_STATE, "ftkit_step: the loop is over"));
    }
}

int ftkit_step(ftkit_ctx *ctx, int *code)
{
    bool more = false;
    int rc = ftk_check_open(ctx, "ftkit_step");
    if (rc == FTKIT_OK && !code)
        rc = ftk_fail(FTKIT_ERR_ARG, "ftkit_step: code is NULL");
    if (rc != FTKIT_OK)
        rc = ftk_done(ctx, rc);
    else
        rc = step(ctx, &more);
    if (ctx)
        ctx->loop.at = more ? FTK_LOOP_BODY : FTK_LOOP_OVER;
    if (code)
        *code = rc;
    return more;
}

int ftkit_end(ftkit_ctx *ctx)
{
    int rc = ftk_check_ctx(ctx, "ftkit_end");
    if (rc == FTKIT_OK && ctx->loop.at != FTK_LOOP_BODY && ctx->loop.at != FTK_LOOP_LAST)
        rc = ftk_fail(FTKIT_ERR_STATE, "ftkit_end: not in the body of a loop with ftkit_step");
    if (rc == FTKIT_OK)
        ctx->loop.at = FTK_LOOP_LAST;
    return ftk_done(ctx, rc);
}
