/* Line apart: the part of a set that one rank writes (see cut.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "cut.h"
#include "device.h"

#include <stdlib.h>

#include "checkpoint.h"
#include "pack.h"
#include "policy.h"
#include "write.h"

/* Bytes of data for which the head has room beyond those that are known at the cut. */
#define MORE ((size_t)1 << 30)

struct ftk_cut {
    struct ftk_write w;
    struct ftkit_ctx *ctx;
    struct ftk_chan ch;
    struct ftk_packer packer;
    struct ftk_local *local;      /* the copy for level.local, if the set is due there */
    struct ftk_chan beside;       /* of local: the writing of level.memory has ch meanwhile */
    bool memory_done, local_done; /* the step that is under way */
    double begun_s, blocked_s;
};

static int pack(struct ftk_cut *c)
{
    struct ftk_write *w = &c->w;
    int rc = ftk_region_measure(c->ctx, &w->head_bytes, &w->data_bytes);
    if (rc != FTKIT_OK)
        return rc;
    w->head_bytes =
        ftk_seg_head_bytes((size_t)c->ctx->regions.n, w->data_bytes + MORE, FTK_SEG_BLOCK);
    rc = ftk_mem_take(&w->level->mem, w->like.set, c->ctx->rank, c->ctx->nranks,
        w->head_bytes + w->data_bytes, &w->own);
    if (rc != FTKIT_OK)
        return rc;
    ftk_device_pin(c->ctx, w->own);
    ftk_region_begin(c->ctx, w->like.set, w->head_bytes, w->data_bytes, w->own->buf, &c->packer);
    ((struct ftk_seg_header *)(void *)w->own->buf)->flags |= FTK_SEG_APART;
    /* a copy into memory that is not pinned would wait */
    c->packer.behind = c->ctx->cfg.device_snapshot == FTK_DEVICE_SNAPSHOT_AUTO
                       && w->own->pinned != FTK_MEMORY_HOST;
    return ftk_region_pack_cut(&c->packer);
}

struct ftk_cut *ftk_cut_begin(struct ftkit_ctx *ctx, uint64_t set)
{
    struct ftk_cut *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->begun_s = ftk_now_s();
    c->ctx = ctx;
    c->ch = ftk_chan_of(ctx);
    c->w.level = &ctx->level[FTK_LEVEL_MEMORY];
    c->w.ch = &c->ch;
    c->w.like = ftk_set_head(ctx, set);
    ftk_write_note(&c->w, pack(c));
    if (FTK_FAULT("apart.packed"))
        ftk_write_note(&c->w, ftk_fail(FTKIT_ERR_IO, "injected"));
    c->blocked_s = ftk_now_s() - c->begun_s;
    return c;
}

int ftk_cut_error(const struct ftk_cut *c)
{
    return c->w.local;
}

static int close_segment(struct ftk_cut *c)
{
    struct ftk_write *w = &c->w;
    size_t bytes = 0;
    int rc = ftk_region_pack_behind(&c->packer);
    if (rc == FTKIT_OK)
        rc = ftk_region_measure_late(&c->packer, &bytes);
    if (rc == FTKIT_OK)
        rc = ftk_mem_grow(&w->level->mem, w->own, bytes);
    c->packer.seg = w->own->buf; /* the buffer may have moved */
    if (rc == FTKIT_OK)
        rc = ftk_region_pack_late(&c->packer);
    if (rc != FTKIT_OK)
        return rc;
    w->data_bytes = bytes - w->head_bytes;
    ftk_region_seal(&c->packer);
    return ftk_mem_seal(w->own);
}

void ftk_cut_close(struct ftk_cut *c)
{
    if (c->w.local == FTKIT_OK)
        ftk_write_note(&c->w, close_segment(c));
    if (c->w.local != FTKIT_OK) { /* the others need sizes all the same */
        c->w.head_bytes = FTK_SEG_ALIGN;
        c->w.data_bytes = 0;
    }
    ftk_write_start(&c->w);
}

int ftk_cut_begin_local(struct ftk_cut *c)
{
    c->beside = ftk_chan_beside(c->ctx);
    return ftk_local_begin(&c->beside, c->w.like.set, c->w.local, &c->local);
}

int ftk_cut_local_error(const struct ftk_cut *c)
{
    return c->local ? ftk_local_error(c->local) : FTKIT_OK;
}

const char *ftk_cut_local_why(const struct ftk_cut *c)
{
    return c->local ? ftk_local_why(c->local) : "";
}

void ftk_cut_end_local(struct ftk_cut *c, int rc)
{
    if (c->local)
        ftk_local_end(c->local, rc);
    c->local = NULL;
}

/* The step is over when it is over in both levels. */
static int both(struct ftk_cut *c, int (*memory)(struct ftk_write *, bool *),
    int (*local)(struct ftk_local *, bool *), bool *done)
{
    int rc = c->memory_done ? FTKIT_OK : memory(&c->w, &c->memory_done);
    if (rc == FTKIT_OK && !c->local)
        c->local_done = true;
    else if (rc == FTKIT_OK && !c->local_done)
        rc = local(c->local, &c->local_done);
    *done = rc == FTKIT_OK && c->memory_done && c->local_done;
    if (*done)
        c->memory_done = c->local_done = false; /* for the next step */
    return rc;
}

int ftk_cut_sizes(struct ftk_cut *c, bool *done)
{
    return both(c, ftk_write_sizes_step, ftk_local_sizes, done);
}

int ftk_cut_send(struct ftk_cut *c, bool *done)
{
    return both(c, ftk_write_send_step, ftk_local_send, done);
}

void ftk_cut_commit(struct ftk_cut *c, int ask)
{
    const int requested = c->ctx->policy.requested; /* meanwhile: for the next set */
    ftk_set_committed(c->ctx, &c->w, 0, ask);
    ftk_policy_ask(c->ctx, requested);
    ftk_policy_measured(c->ctx, c->blocked_s);
    ftk_policy_count_set(c->ctx);
    ftk_level_event(c->w.level, c->ctx, c->w.data_bytes, ftk_now_s() - c->begun_s, c->ch.sent);
}

void ftk_cut_end(struct ftk_cut *c, int rc)
{
    if (rc == FTKIT_ERR_PEER)
        c->ch.broken = c->beside.broken = true;
    if (c->local) /* given up with the set */
        ftk_local_give_up(c->local, rc);
    ftk_region_pack_end(&c->packer); /* no copy is on its way into a segment that is released */
    ftk_write_end(&c->w, rc);
    free(c);
}
