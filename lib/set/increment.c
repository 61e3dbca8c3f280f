/* Incremental sets: the decision (see increment.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "increment.h"

#include "core/context.h"
#include "store/changes.h"

/* Beyond this share of changed blocks a whole set costs less: it needs no comparison, and it is
 * sent while it is packed. */
#define SHARE_MAX 0.5

/* Inside a node, to send a block costs as much as to copy it from the last set, and the comparison
 * comes on top. */
static bool is_wanted(const struct ftkit_ctx *ctx, bool leaves_node)
{
    const struct ftk_increment *inc = &ctx->increment;
    if (ctx->cfg.incremental == FTK_INCREMENTAL_AUTO)
        return inc->epoch_id == ctx->epoch_id && inc->share < SHARE_MAX && leaves_node;
    return ctx->cfg.incremental == FTK_INCREMENTAL_ON;
}

bool ftk_increment_begin(
    const struct ftkit_ctx *ctx, bool leaves_node, size_t data_bytes, struct ftk_changes *c)
{
    const struct ftk_mem_seg *base =
        ftk_mem_find(&ctx->level[FTK_LEVEL_MEMORY].mem, ctx->committed, ctx->rank);
    if (!base || ctx->cfg.incremental == FTK_INCREMENTAL_OFF)
        return false;
    const struct ftk_seg_header *h = (const void *)base->buf;
    if (h->epoch_id != ctx->epoch_id
        || ftk_changes_begin(c, base->buf, base->bytes, data_bytes) != FTKIT_OK)
        return false; /* then all blocks are sent */
    if (FTK_FAULT("ckpt.base"))
        base->buf[h->head_bytes] ^= 1;
    if (FTK_FAULT("ckpt.tail"))
        base->buf[base->bytes - 1] ^= 1;
    c->exact = is_wanted(ctx, leaves_node);
    return c->exact;
}

void ftk_increment_end(struct ftkit_ctx *ctx, const struct ftk_changes *c, uint64_t sent)
{
    struct ftk_increment *inc = &ctx->increment;
    inc->sent = sent;
    inc->sent_total += sent;
    inc->epoch_id = c->base ? ctx->epoch_id : 0;
    inc->share = c->next > 0 ? (double)c->changed / (double)c->next : 0;
}
