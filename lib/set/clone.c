/* Planes that stand still get the state of another plane (see clone.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "clone.h"

#include "replica/move.h"
#include "store/segment.h"

int ftk_clone_source(const struct ftkit_ctx *ctx)
{
    int plane = 0;
    while (ctx->replica.stale >> plane & 1)
        plane++;
    return plane;
}

/* From the sibling to this rank, or from this rank to its siblings in planes that stand still. */
static int move(struct ftk_chan *ch, void *buf, size_t bytes)
{
    const struct ftkit_ctx *ctx = ch->ctx;
    return ftk_sphere_move(
        ch, buf, bytes, ftk_clone_source(ctx), ctx->replica.stale, "cloning a replica");
}

int ftk_clone_sizes(struct ftk_chan *ch, size_t *head_bytes, size_t *data_bytes)
{
    uint64_t sizes[2] = { *head_bytes, *data_bytes };
    if (ch->ctx->replica.stale == 0)
        return FTKIT_OK;
    int rc = move(ch, sizes, sizeof sizes);
    *head_bytes = (size_t)sizes[0];
    *data_bytes = (size_t)sizes[1];
    return rc;
}

static size_t bytes_of(const char *seg)
{
    const struct ftk_seg_header *h = (const void *)seg;
    return (size_t)(h->head_bytes + h->data_bytes);
}

int ftk_clone_send(struct ftk_chan *ch, struct ftk_packer *p)
{
    (void)FTK_FAULT("clone.send");
    return move(ch, p->seg, bytes_of(p->seg));
}

int ftk_clone_receive(struct ftk_chan *ch, struct ftk_mem_seg *own, struct ftk_packer *p)
{
    struct ftkit_ctx *ctx = ch->ctx;
    struct ftk_seg_header *h = (struct ftk_seg_header *)(void *)own->buf;
    (void)FTK_FAULT("clone.receive");
    int rc = move(ch, own->buf, own->bytes);
    if (rc != FTKIT_OK)
        return rc;
    h->incarnation = (uint32_t)ctx->incarnation;
    *p = (struct ftk_packer){
        .ctx = ctx, .seg = own->buf, .region = ctx->regions.n, .done = (size_t)h->data_bytes
    };
    return FTKIT_OK;
}

int ftk_clone_give_up(struct ftkit_ctx *ctx)
{
    if (ctx->replica.stale == 0 || ftk_clone_is_here(ctx))
        return FTKIT_OK;
    ftk_detect_raise(ctx);
    return ftk_fail(FTKIT_ERR_PEER, "planes that stand still return to the line");
}
