/* The second level: a scheme at a place between memory and files, for some of the sets.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A set comes here from its sealed segments in memory, after it has been committed there;
 * the protocol is that of checkpoint.c: sizes, vote, data, vote, and only then the older
 * set is dropped.  It is loaded as what earlier processes left: recover/load_slots.c. */
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "detect/detect.h"
#include "group.h"
#include "store/map.h"
#include "stream.h"

#define TAG_LOCAL 3
#define AUTO_SETS 5

struct bringing {
    struct ftkit_ctx *ctx;
    struct ftk_chan *ch;
    const struct ftk_mem_seg *from;
    struct ftk_mem_seg *to;
    struct ftk_stream *streams; /* [nstreams], the first may be the one that sends */
    int nstreams;
    bool sends;
    struct ftk_parity_write parity;
    int local; /* most severe error of our own */
};

static bool is_on(const struct ftkit_ctx *ctx)
{
    return ctx->cfg.local_scheme != FTK_SCHEME_NONE;
}

bool ftk_local_due(const struct ftkit_ctx *ctx)
{
    const struct ftk_period *every = &ctx->cfg.local_every;
    if (!is_on(ctx))
        return false;
    if (ctx->local.epoch_id != ctx->epoch_id) /* the segments of lost ranks are missing */
        return true;
    if (every->kind == FTK_PERIOD_SECONDS)
        return ftk_now_s() - ctx->local.last_s >= every->value;
    double sets = every->kind == FTK_PERIOD_COUNT ? every->value : AUTO_SETS;
    return (double)ctx->local.sets_since + 1 >= sets;
}

int ftk_local_map(struct ftkit_ctx *ctx)
{
    struct ftk_local *l = &ctx->local;
    const struct ftk_config *cfg = &ctx->cfg;
    free(l->holder);
    l->holder = NULL;
    int rc = ftk_group_map(
        ctx, cfg->local_scheme, cfg->local_group, cfg->local_parity, &l->group, &l->alone);
    if (rc != FTKIT_OK || cfg->local_scheme != FTK_SCHEME_BUDDY)
        return rc;
    l->holder = malloc((size_t)ctx->nranks * sizeof *l->holder);
    if (!l->holder)
        return ftk_fail(FTKIT_ERR_NOMEM, "holders");
    rc = ftk_map_buddies(cfg->map, ctx->nranks, ctx->domain, l->holder);
    return rc < 0 ? rc : FTKIT_OK;
}

void ftk_local_free(struct ftkit_ctx *ctx, bool keep)
{
    ftk_mem_close(&ctx->local.mem, keep);
    free(ctx->local.holder);
    ctx->local.holder = NULL;
}

/* ---- writing ------------------------------------------------------------------------- */

static void note(struct bringing *b, int rc)
{
    if (rc < b->local)
        b->local = rc;
}

static void make_streams(struct bringing *b)
{
    const struct ftkit_ctx *ctx = b->ctx;
    const int *holder = ctx->local.holder;
    const struct ftk_mem_seg *own = b->from;
    int n = 0;
    b->streams = ctx->streams;
    if (!holder)
        return;
    if (holder[ctx->rank] >= 0) {
        ftk_stream_init(
            &b->streams[n++], true, holder[ctx->rank], TAG_LOCAL, own->set, ctx->rank, ctx->nranks);
        b->sends = true;
    }
    for (int r = 0; r < ctx->nranks; r++)
        if (holder[r] == ctx->rank)
            ftk_stream_init(&b->streams[n++], false, r, TAG_LOCAL, own->set, r, ctx->nranks);
    b->nstreams = n;
}

static int prepare(struct bringing *b)
{
    struct ftkit_ctx *ctx = b->ctx;
    const struct ftk_seg_header *h = (const void *)b->from->buf;
    int local = FTKIT_OK;
    note(b, ftk_mem_take(
                &ctx->local.mem, b->from->set, ctx->rank, ctx->nranks, b->from->bytes, &b->to));
    if (b->sends) {
        b->streams[0].seg = b->to;
        b->streams[0].sizes[0] = h->head_bytes;
        b->streams[0].sizes[1] = h->data_bytes;
    }
    int rc = ftk_stream_sizes(b->ch, &ctx->local.mem, b->streams, b->nstreams, &local);
    note(b, local);
    if (rc == FTKIT_OK)
        rc = ftk_parity_sizes(
            &b->parity, b->ch, &ctx->local.group, (size_t)h->head_bytes, (size_t)h->data_bytes);
    if (rc != FTKIT_OK)
        return rc;
    if (b->to)
        note(b, ftk_parity_take(&b->parity, &ctx->local.mem, h, b->to));
    return ftk_agree(b->ch, b->local, "level.local: taking room failed on another rank");
}

/* Copy the segment of the first level, verify its blocks, and send the copied blocks. */
static int copy_and_send(struct bringing *b)
{
    const struct ftk_seg_header *h = (const void *)b->from->buf;
    size_t sure = 0, done = 0, bytes = (size_t)h->data_bytes;
    bool idle, all;
    int rc = FTKIT_OK, local;
    memcpy(b->to->buf, b->from->buf, (size_t)h->head_bytes);
    while (rc == FTKIT_OK && done < bytes) {
        if (b->local == FTKIT_OK)
            note(b, ftk_seg_check_upto(b->from->buf, &sure, done + FTK_STREAM_PIECE, "own"));
        size_t upto = b->local == FTKIT_OK ? sure : bytes;
        memcpy(b->to->buf + h->head_bytes + done, ftk_seg_data_c(b->from->buf) + done, upto - done);
        done = upto;
        if (b->sends)
            b->streams[0].ready = done;
        rc = ftk_stream_progress(b->ch, b->streams, b->nstreams, &idle, &all);
        if (rc == FTKIT_OK)
            rc = ftk_parity_progress(&b->parity, b->ch, done);
    }
    if (rc != FTKIT_OK)
        return rc;
    if (b->sends) {
        b->streams[0].ready = bytes;
        b->streams[0].sealed = true;
    }
    (void)FTK_FAULT("local.copied");
    rc = ftk_stream_run(b->ch, b->streams, b->nstreams, &local);
    note(b, local);
    if (rc == FTKIT_OK)
        rc = ftk_parity_finish(&b->parity, b->ch, b->to);
    note(b, b->parity.error);
    if (b->local == FTKIT_OK)
        note(b, ftk_mem_seal(b->to));
    return rc;
}

/* What did not come to be; sealed parts of it stay when it may have been committed. */
static void withdraw(struct bringing *b, int rc)
{
    struct ftk_mem *mem = &b->ctx->local.mem;
    if (rc == FTKIT_ERR_PEER) {
        ftk_stream_abandon(b->ch, b->streams, b->nstreams);
        if (b->to && !b->to->sealed)
            ftk_mem_release(b->to);
        return;
    }
    for (int i = 0; i < mem->nsegs; i++)
        if (mem->segs[i]->set == b->from->set)
            ftk_mem_release(mem->segs[i]);
}

static int bring(struct bringing *b)
{
    (void)FTK_FAULT("local.begin");
    make_streams(b);
    int rc = prepare(b);
    (void)FTK_FAULT("local.sized");
    if (rc == FTKIT_OK)
        rc = copy_and_send(b);
    (void)FTK_FAULT("local.sealed");
    if (rc == FTKIT_OK)
        rc = ftk_agree(b->ch, b->local, "level.local: writing failed on another rank");
    (void)FTK_FAULT("local.voted");
    ftk_parity_end(&b->parity, b->ch);
    if (rc != FTKIT_OK)
        withdraw(b, rc);
    return rc;
}

int ftk_local_write(struct ftk_chan *ch, uint64_t set, bool due)
{
    struct ftkit_ctx *ctx = ch->ctx;
    struct ftk_local *l = &ctx->local;
    if (!is_on(ctx))
        return FTKIT_OK;
    l->sets_since++;
    if (!due)
        return FTKIT_OK;
    struct bringing b = { .ctx = ctx, .ch = ch, .from = ftk_mem_find(&ctx->mem, set, ctx->rank) };
    if (!b.from)
        return ftk_chan_break(ch, MPI_ERR_OTHER, "a set without its segment");
    int rc = bring(&b);
    l->last_s = ftk_now_s(); /* also after an error: not again at every set */
    l->sets_since = 0;
    l->epoch_id = ctx->epoch_id;
    if (rc != FTKIT_OK)
        return rc;
    l->committed = set;
    ftk_mem_drop_others(&l->mem, set);
    ftk_place_sweep(&l->mem.place, ctx->epoch_id);
    ftk_event("context %s: set %llu is in level.local", ctx->cfg.name, (unsigned long long)set);
    return FTKIT_OK;
}
