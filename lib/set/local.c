/* The second level, level.local: a scheme at a place between memory and files, for some of the
 * sets.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A set is copied here from the sealed segments in memory, after its commit there.  The protocol is
 * the same: sizes, vote, data, vote; only then is the older set dropped.  recover/load_slots.c
 * loads the set, as it loads segments of earlier processes. */
#include <string.h>

#include "checkpoint.h"
#include "period.h"
#include "write.h"

struct bringing {
    struct ftk_write w; /* first member: the fill functions get a pointer to it */
    const struct ftk_mem_seg *from;
    size_t sure; /* bytes of the data area whose checksums were compared */
};

static const struct ftk_level *level_of(const struct ftkit_ctx *ctx)
{
    return &ctx->level[FTK_LEVEL_LOCAL];
}

bool ftk_local_due(const struct ftkit_ctx *ctx)
{
    const struct ftk_period *every = &ctx->cfg.local_every;
    if (!level_of(ctx)->on)
        return false;
    if (level_of(ctx)->epoch_id != ctx->epoch_id) /* the segments of lost ranks are missing */
        return true;
    if (every->kind == FTK_PERIOD_SECONDS)
        return ftk_now_s() - level_of(ctx)->last_s >= every->value;
    double sets = every->kind == FTK_PERIOD_COUNT ? every->value : FTK_LOCAL_SETS;
    return (double)level_of(ctx)->sets_since + 1 >= sets;
}

/* ---- the segment: a copy from level.memory, each block verified before it is sent ---------- */

static int copy_piece(struct ftk_write *w, size_t upto, size_t *done)
{
    struct bringing *b = (struct bringing *)w;
    int rc = ftk_seg_check_upto(b->from->buf, &b->sure, upto, "own");
    if (rc != FTKIT_OK)
        return rc;
    memcpy(
        ftk_seg_data(w->own->buf) + *done, ftk_seg_data_c(b->from->buf) + *done, b->sure - *done);
    *done = b->sure;
    return rc;
}

static void end_copy(struct ftk_write *w)
{
    (void)FTK_FAULT("local.copied");
    if (w->local == FTKIT_OK)
        ftk_write_note(w, ftk_mem_seal(w->own));
}

static const struct ftk_fill copying = { copy_piece, end_copy };

static int copy_and_send(struct bringing *b)
{
    memcpy(b->w.own->buf, b->from->buf, b->w.head_bytes);
    return ftk_write_data(&b->w, &copying);
}

/* ---- writing ------------------------------------------------------------------------- */

static int bring(struct bringing *b)
{
    struct ftk_write *w = &b->w;
    (void)FTK_FAULT("local.begin");
    int rc = ftk_write_begin(w);
    if (rc == FTKIT_OK)
        rc = ftk_agree(w->ch, w->local, "level.local: taking room failed on another rank");
    (void)FTK_FAULT("local.sized");
    if (rc == FTKIT_OK)
        rc = copy_and_send(b);
    (void)FTK_FAULT("local.sealed");
    if (rc == FTKIT_OK)
        rc = ftk_agree(w->ch, w->local, "level.local: writing failed on another rank");
    (void)FTK_FAULT("local.voted");
    ftk_write_end(w, rc);
    return rc;
}

int ftk_local_write(struct ftk_chan *ch, uint64_t set, bool due)
{
    struct ftkit_ctx *ctx = ch->ctx;
    struct ftk_level *l = &ctx->level[FTK_LEVEL_LOCAL];
    if (!l->on)
        return FTKIT_OK;
    l->sets_since++;
    if (!due)
        return FTKIT_OK;
    struct bringing b = { .w = { .level = l, .ch = ch } };
    const double begin_s = ftk_now_s();
    const uint64_t sent = ch->sent;
    b.from = ftk_mem_find(&ctx->level[FTK_LEVEL_MEMORY].mem, set, ctx->rank);
    if (!b.from)
        return ftk_chan_break(ch, MPI_ERR_OTHER, "a set without its segment");
    memcpy(&b.w.like, b.from->buf, sizeof b.w.like);
    b.w.head_bytes = (size_t)b.w.like.head_bytes;
    b.w.data_bytes = (size_t)b.w.like.data_bytes;
    int rc = bring(&b);
    l->last_s = ftk_now_s(); /* also after an error: else every set would try again */
    l->sets_since = 0;
    l->epoch_id = ctx->epoch_id;
    if (rc != FTKIT_OK)
        return rc;
    ftk_level_committed(l, set, ctx->epoch_id);
    ftk_level_event(l, ctx, b.w.data_bytes, ftk_now_s() - begin_s, ch->sent - sent);
    ftk_report(FTKIT_DEBUG, "context %s: set %llu is in level.local", ctx->cfg.name,
        (unsigned long long)set);
    return FTKIT_OK;
}
