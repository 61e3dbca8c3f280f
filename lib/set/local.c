/* The second level, level.local: a scheme at a place between memory and files, for some of the
 * sets.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A set is copied here from the sealed segments in memory: after its commit there, or, when lines
 * are apart, before the commit and without waiting.  The protocol is the same: sizes, vote, data,
 * vote; only then is the older set dropped.  recover/load_slots.c loads the set, as it loads
 * segments of earlier processes. */
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "period.h"
#include "write.h"

struct ftk_local {
    struct ftk_write w; /* first member: the fill functions get a pointer to it */
    const struct ftk_mem_seg *from;
    size_t sure; /* bytes of the data area whose checksums were compared */
    bool sealed; /* the copy is whole: ftk_local_send() sends it */
    double begun_s;
    uint64_t sent; /* of the channel, before */
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
    struct ftk_local *b = (struct ftk_local *)w;
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

/* ---- writing ------------------------------------------------------------------------- */

/* Prepare the copy of a set that is sealed in memory.  error: this rank has no segment; the others
 * need sizes all the same. */
static void prepare(struct ftk_local *b, struct ftk_chan *ch, uint64_t set, int error)
{
    struct ftkit_ctx *ctx = ch->ctx;
    struct ftk_write *w = &b->w;
    *b = (struct ftk_local){ .w = { .level = &ctx->level[FTK_LEVEL_LOCAL], .ch = ch },
        .begun_s = ftk_now_s(),
        .sent = ch->sent };
    if (error == FTKIT_OK)
        b->from = ftk_mem_find(&ctx->level[FTK_LEVEL_MEMORY].mem, set, ctx->rank);
    if (b->from)
        memcpy(&w->like, b->from->buf, sizeof w->like);
    else
        w->like = ftk_set_head(ctx, set);
    w->head_bytes = b->from ? (size_t)w->like.head_bytes : FTK_SEG_ALIGN;
    w->data_bytes = b->from ? (size_t)w->like.data_bytes : 0;
    if (!b->from)
        ftk_write_note(w, error != FTKIT_OK ? error : ftk_fail(FTKIT_ERR_INTERNAL, "no segment"));
    (void)FTK_FAULT("local.begin");
}

static void copy_head(struct ftk_local *b)
{
    memcpy(b->w.own->buf, b->from->buf, b->w.head_bytes);
}

static int bring(struct ftk_local *b)
{
    struct ftk_write *w = &b->w;
    int rc = ftk_write_begin(w);
    if (rc == FTKIT_OK)
        rc = ftk_agree(w->ch, w->local, "level.local: taking room failed on another rank");
    (void)FTK_FAULT("local.sized");
    if (rc == FTKIT_OK) {
        copy_head(b);
        rc = ftk_write_data(w, &copying);
    }
    (void)FTK_FAULT("local.sealed");
    if (rc == FTKIT_OK)
        rc = ftk_agree(w->ch, w->local, "level.local: writing failed on another rank");
    (void)FTK_FAULT("local.voted");
    ftk_write_end(w, rc);
    return rc;
}

/* The writing has ended with the agreed code rc. */
static void note_end(struct ftk_local *b, int rc)
{
    struct ftkit_ctx *ctx = b->w.ch->ctx;
    struct ftk_level *l = b->w.level;
    const uint64_t set = b->w.like.set;
    l->last_s = ftk_now_s(); /* also after an error: else every set would try again */
    l->sets_since = 0;
    l->epoch_id = ctx->epoch_id;
    if (rc != FTKIT_OK)
        return;
    ftk_level_committed(l, set, ctx->epoch_id);
    ftk_level_event(l, ctx, b->w.data_bytes, ftk_now_s() - b->begun_s, b->w.ch->sent - b->sent);
    ftk_report(FTKIT_DEBUG, "context %s: set %llu is in level.local", ctx->cfg.name,
        (unsigned long long)set);
}

void ftk_local_count(struct ftkit_ctx *ctx)
{
    ctx->level[FTK_LEVEL_LOCAL].sets_since++;
}

void ftk_local_loaded(struct ftkit_ctx *ctx)
{
    ctx->level[FTK_LEVEL_LOCAL].sets_since = 0;
}

int ftk_local_write(struct ftk_chan *ch, uint64_t set, bool due)
{
    struct ftk_local b;
    ftk_local_count(ch->ctx);
    if (!level_of(ch->ctx)->on || !due)
        return FTKIT_OK;
    prepare(&b, ch, set, FTKIT_OK);
    int rc = bring(&b);
    note_end(&b, rc);
    return rc;
}

/* ---- the same without waiting ----------------------------------------------------------- */

int ftk_local_begin(struct ftk_chan *ch, uint64_t set, int error, struct ftk_local **out)
{
    struct ftk_local *b = *out = malloc(sizeof *b);
    if (!b)
        return ftk_chan_break(ch, MPI_ERR_NO_MEM, "level.local");
    prepare(b, ch, set, error);
    ftk_write_start(&b->w);
    return FTKIT_OK;
}

int ftk_local_error(const struct ftk_local *b)
{
    return b->w.local;
}

const char *ftk_local_why(const struct ftk_local *b)
{
    return b->w.why;
}

int ftk_local_sizes(struct ftk_local *b, bool *done)
{
    int rc = ftk_write_sizes_step(&b->w, done);
    if (rc == FTKIT_OK && *done) {
        (void)FTK_FAULT("local.sized");
        if (b->w.local == FTKIT_OK)
            copy_head(b);
    }
    return rc;
}

/* Copy the next piece of the segment; seal the copy behind the last one. */
static void copy_on(struct ftk_local *b)
{
    size_t done = b->sure;
    if (b->w.local == FTKIT_OK && done < b->w.data_bytes)
        ftk_write_note(&b->w, copy_piece(&b->w, done + FTK_STREAM_PIECE, &done));
    if (b->w.local == FTKIT_OK && done < b->w.data_bytes)
        return;
    end_copy(&b->w); /* after an error the announced bytes are sent all the same */
    b->sealed = true;
    (void)FTK_FAULT("local.sealed");
}

int ftk_local_send(struct ftk_local *b, bool *done)
{
    if (!b->sealed)
        copy_on(b);
    *done = false;
    return b->sealed ? ftk_write_send_step(&b->w, done) : FTKIT_OK;
}

void ftk_local_end(struct ftk_local *b, int rc)
{
    (void)FTK_FAULT("local.voted");
    ftk_write_end(&b->w, rc);
    note_end(b, rc);
    free(b);
}

void ftk_local_give_up(struct ftk_local *b, int rc)
{
    ftk_write_end(&b->w, rc);
    free(b);
}
