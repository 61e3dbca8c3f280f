/* The calls of the solver loop: recover, checkpoint, finish.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "checkpoint.h"
#include "detect.h"
#include "recover/recover.h"
#include "region.h"
#include "watchdog.h"

#define POLL_EVERY_S 0.001 /* the watch is tested no more often while nothing is due */

static int check_alive(const ftkit_ctx *ctx, const char *call)
{
    int rc = ftk_check_ctx(ctx, call);
    if (rc == FTKIT_OK && ctx->dead)
        rc = ftk_fail(ctx->dead, "%s: the context has ended: %s", call, ctx->detail);
    return rc;
}

/* A failure is known: repair, bring the regions to the line. */
static int roll_back(ftkit_ctx *ctx)
{
    uint64_t set = 0;
    int rc = ftk_repair(ctx, MPI_COMM_NULL);
    if (rc == FTKIT_OK)
        rc = ftk_settle(ctx, &set);
    if (rc == FTK_PARTED) /* only a close ends like this, and we are not in it */
        rc = ftk_fail(FTKIT_ERR_INTERNAL, "the others have closed");
    if (rc != FTKIT_OK)
        return rc;
    ftk_watchdog_progress(ctx->dog);
    return set > 0 ? FTKIT_ROLLED_BACK : FTKIT_OK;
}

/* ---- checkpoint ----------------------------------------------------------------------*/

/* The same within a call of ftkit_checkpoint(), which from then on is the first one. */
static int roll_back_here(ftkit_ctx *ctx)
{
    int rc = roll_back(ctx);
    ctx->calls = 1;
    return rc;
}

/* Something may be due. */
static int checkpoint_slow(ftkit_ctx *ctx)
{
    for (;;) {
        bool write = false;
        int rc = ftk_policy_decide(ctx, &write);
        if (rc == FTKIT_OK && write)
            rc = ftk_set_write(ctx);
        if (rc != FTKIT_ERR_PEER)
            return rc;
        rc = roll_back_here(ctx);
        if (rc != FTKIT_OK)
            return rc;
        /* before the first set there was nothing to roll back to: write it now */
    }
}

int ftkit_checkpoint(ftkit_ctx *ctx)
{
    int rc = check_alive(ctx, "ftkit_checkpoint");
    if (rc != FTKIT_OK)
        return ftk_done(ctx, rc);
    if (ctx->where != FTK_IN_LOOP)
        return ftk_done(
            ctx, ftk_fail(FTKIT_ERR_STATE, "ftkit_checkpoint before ftkit_recover"));
    double now = ftk_now_s();
    ctx->calls++;
    if (!ctx->failed && now - ctx->polled_s >= POLL_EVERY_S) {
        ctx->polled_s = now;
        ftk_watchdog_progress(ctx->dog);
        (void)ftk_detect_poll(ctx);
    }
    if (ctx->failed) {
        rc = roll_back_here(ctx);
        if (rc != FTKIT_OK)
            return ftk_done(ctx, rc);
    }
    if (ctx->calls < ctx->next_event && !ctx->requested && ctx->committed)
        return FTKIT_OK;
    return ftk_done(ctx, checkpoint_slow(ctx));
}

/* ---- finish --------------------------------------------------------------------------*/

int ftkit_finish(ftkit_ctx *ctx)
{
    int rc = check_alive(ctx, "ftkit_finish");
    if (rc == FTKIT_OK && ctx->where != FTK_IN_LOOP)
        rc = ftk_fail(FTKIT_ERR_STATE, "ftkit_finish before ftkit_recover");
    if (rc != FTKIT_OK)
        return ftk_done(ctx, rc);
    (void)FTK_FAULT("finish.begin");
    struct ftk_vote v;
    struct ftk_chan ch = ftk_chan_of(ctx);
    ch.broken = ctx->failed;
    ftk_vote_init(&v);
    rc = ftk_vote(&ch, ctx->nranks, &v);
    (void)FTK_FAULT("finish.end");
    if (rc == FTKIT_ERR_PEER) {
        rc = roll_back(ctx);
        if (rc == FTKIT_OK) /* no set yet, so the loop has to be run from its start */
            rc = FTKIT_ROLLED_BACK;
    }
    ftk_watchdog_progress(ctx->dog);
    return ftk_done(ctx, rc);
}

/* ---- recover -------------------------------------------------------------------------*/

static int recover(ftkit_ctx *ctx, uint64_t *set)
{
    int rc = FTKIT_OK;
    *set = 0;
    (void)FTK_FAULT("recover.begin");
    if (ctx->failed || ftk_detect_poll(ctx))
        rc = ftk_repair(ctx, MPI_COMM_NULL);
    if (rc == FTKIT_OK)
        rc = ftk_settle(ctx, set);
    (void)FTK_FAULT("recover.end");
    if (rc == FTK_PARTED)
        rc = ftk_fail(FTKIT_ERR_INTERNAL, "the others have closed");
    return rc;
}

int ftkit_recover(ftkit_ctx *ctx, uint64_t *set)
{
    uint64_t restored;
    int rc = check_alive(ctx, "ftkit_recover");
    if (rc == FTKIT_OK && ctx->where >= FTK_IN_LOOP)
        rc = ftk_fail(FTKIT_ERR_STATE, "ftkit_recover is called once, before the loop");
    if (rc == FTKIT_OK)
        rc = recover(ctx, &restored);
    if (rc != FTKIT_OK)
        return ftk_done(ctx, rc);
    ctx->where = FTK_IN_LOOP;
    ctx->app_errors = false;
    ftk_watchdog_progress(ctx->dog);
    if (set && restored > 0)
        *set = restored;
    return restored > 0 ? FTKIT_OK : FTKIT_NO_SET;
}
