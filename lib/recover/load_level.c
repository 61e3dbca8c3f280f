/* Loading sets from the second level (see load.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The segments of the level are in slots, so load_slots.c loads them. */
#include <string.h>

#include "detect/detect.h"
#include "load.h"
#include "set/checkpoint.h"

/* Copy this rank's segment from level.local to level.memory.  FTKIT_ERR_CORRUPT: it was damaged and
 * is released. */
static int copy_up(struct ftkit_ctx *ctx, uint64_t set)
{
    struct ftk_mem_seg *to = NULL;
    struct ftk_mem_seg *from = ftk_mem_find(&ctx->level[FTK_LEVEL_LOCAL].mem, set, ctx->rank);
    struct ftk_mem_seg *old = ftk_mem_find(&ctx->level[FTK_LEVEL_MEMORY].mem, set, ctx->rank);
    if (!from)
        return ftk_fail(
            FTKIT_ERR_INTERNAL, "set %llu is not in level.local", (unsigned long long)set);
    int rc = ftk_mem_verify(from, "level.local");
    if (rc != FTKIT_OK) { /* the next try takes another copy */
        ftk_report(
            FTKIT_WARNING, "context %s: rank %d: %s", ctx->cfg.name, ctx->rank, ftk_detail_text());
        ftk_mem_release(from);
        return rc;
    }
    if (old)
        ftk_mem_release(old);
    rc = ftk_mem_take(
        &ctx->level[FTK_LEVEL_MEMORY].mem, set, ctx->rank, ctx->nranks, from->bytes, &to);
    if (rc != FTKIT_OK)
        return rc;
    memcpy(to->buf, from->buf, from->bytes);
    to->verified = true;
    return ftk_mem_seal(to);
}

/* Load the newest set of the level into level.memory on all ranks.  After an error on one rank all
 * ranks return an error. */
static int try_load(struct ftkit_ctx *ctx, struct ftk_loaded *l)
{
    struct ftk_chan ch = ftk_chan_of(ctx);
    int rc = ftk_load_slots(ctx, &ctx->level[FTK_LEVEL_LOCAL], l);
    if (rc != FTKIT_OK || l->set == 0)
        return rc;
    return ftk_agree(&ch, copy_up(ctx, l->set), "level.local: loading failed on another rank");
}

/* A damaged segment is released, and the next try takes another copy or rebuilds the segment.  The
 * number of tries is limited, because a segment that is rebuilt from parity of other data is
 * damaged each time. */
int ftk_load_level(struct ftkit_ctx *ctx, struct ftk_loaded *l)
{
    if (!ctx->level[FTK_LEVEL_LOCAL].on)
        return FTKIT_OK;
    for (int tries = 0; tries <= ctx->cfg.attempts; tries++) {
        int rc = try_load(ctx, l);
        if (rc == FTKIT_OK && l->set > 0) {
            l->bare = true;
            l->from = FTK_LINE_LOCAL;
            ftk_local_loaded(ctx);
        }
        if (rc != FTKIT_ERR_CORRUPT)
            return rc;
    }
    if (ctx->rank == 0)
        ftk_report(FTKIT_WARNING,
            "context %s: set %llu in level.local is damaged and cannot be mended: it is given up",
            ctx->cfg.name, (unsigned long long)l->set);
    ftk_mem_drop_others(&ctx->level[FTK_LEVEL_LOCAL].mem, 0);
    l->set = 0;
    return FTKIT_OK;
}
