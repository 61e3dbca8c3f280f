/* A rank whose plane stands still takes over the state of its sibling (see set/clone.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "clone_plane.h"
#include "core/event.h"
#include "core/progress.h"
#include "core/repair_state.h"
#include "detect/watchdog.h"
#include "replica/planes.h"
#include "set/checkpoint.h"
#include "set/clone.h"

/* The event "clone", of a rank that has the state of its sibling now. */
static void event_clone(const struct ftkit_ctx *ctx, int source, double seconds)
{
    struct ftk_event e;
    ftk_event_of(&e, ctx, "clone");
    ftk_event_int(&e, "set", (int64_t)ctx->committed);
    ftk_event_int(&e, "from", source);
    ftk_event_int(&e, "bytes", (int64_t)ctx->stats.region_bytes);
    ftk_event_seconds(&e, "seconds", seconds);
    ftk_event_end(&e);
}

int ftk_clone_plane(struct ftkit_ctx *ctx)
{
    const uint64_t had = ctx->committed;
    const int source = ftk_sphere_rank(ctx, ftk_clone_source(ctx));
    const double begin = ftk_now_s();
    int rc;
    ftk_watchdog_state(ctx->dog, FTK_DOG_BUSY);
    do /* after an error of another rank the other plane goes on to its next call */
        rc = ftk_set_write(ctx);
    while (rc != FTKIT_ERR_PEER && ctx->committed == had);
    ftk_watchdog_state(ctx->dog, FTK_DOG_RUN);
    (void)FTK_FAULT("clone.committed");
    if (rc == FTKIT_ERR_PEER)
        return rc;
    ftk_repair_line(ctx, ctx->committed, source);
    ftk_repair_line_in_file(ctx, false);
    ftk_progress_cloned(ctx, ctx->committed);
    event_clone(ctx, source, ftk_now_s() - begin);
    return FTKIT_OK;
}
