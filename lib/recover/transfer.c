/* Moving segments in a repair: lost segments to replacements, lost copies to holders.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "core/repair_state.h"
#include "set/stream.h"
#include "transfer.h"

enum { WHAT_OWN, WHAT_COPY }; /* WHAT_COPY + k: copy k */

static int add_stream(struct ftk_stream **list, int *n, bool send, int peer, int tag,
    const struct ftk_plan *p, int rank)
{
    struct ftk_stream *all = realloc(*list, ((size_t)*n + 1) * sizeof *all);
    if (!all)
        return ftk_fail(FTKIT_ERR_NOMEM, "list of transfers");
    *list = all;
    ftk_stream_init(&all[(*n)++], send, peer, tag, p->line, rank, p->nranks);
    return FTKIT_OK;
}

/* List this rank's part of one kind of transfers.  The rank itself sends its segment to a holder.
 * If the rank lacks the segment, the source in the plan sends the segment to the rank and to its
 * holders. */
static int list_streams(
    const struct ftk_plan *p, int me, int what, struct ftk_stream **list, int *n)
{
    size_t at = what == WHAT_OWN ? 0 : (size_t)(what - WHAT_COPY) * (size_t)p->nranks;
    const int *need = what == WHAT_OWN ? p->need_own : p->need_copy + at;
    int rc = FTKIT_OK;
    for (int r = 0; rc == FTKIT_OK && r < p->nranks; r++) {
        if (!need[r] || p->source[r] < 0)
            continue;
        int from = p->need_own[r] ? p->rank_of[p->source[r]] : r;
        int to = what == WHAT_OWN ? r : p->holder[at + (size_t)r];
        /* one tag per stream: two may run between the same ranks */
        int tag = FTK_TAG_TRANSFER + (1 + p->copies) * r + what;
        if (to == me)
            rc = add_stream(list, n, false, from, tag, p, r);
        else if (from == me)
            rc = add_stream(list, n, true, to, tag, p, p->need_own[r] ? p->as[r] : r);
    }
    return rc;
}

/* release_corrupt() releases the segment later, when no message of the segment is under way. */
static int corrupt(const struct ftkit_ctx *ctx, struct ftk_stream *s)
{
    ftk_report(FTKIT_WARNING, "context %s: rank %d: copy of rank %d: %s", ctx->cfg.name, ctx->rank,
        s->rank, ftk_detail_text());
    return s->error = FTKIT_ERR_CORRUPT;
}

static int find_segments(struct ftkit_ctx *ctx, struct ftk_mem *mem, struct ftk_stream *list, int n)
{
    for (int i = 0; i < n; i++) {
        struct ftk_stream *s = &list[i];
        if (!s->send)
            continue;
        struct ftk_mem_seg *seg = ftk_mem_find(mem, s->set, s->rank);
        if (!seg)
            return ftk_fail(FTKIT_ERR_INTERNAL, "set %llu: segment of rank %d is gone",
                (unsigned long long)s->set, s->rank);
        if (!seg->verified && FTK_FAULT("transfer.corrupt"))
            seg->buf[seg->bytes - 1] ^= 1;
        if (ftk_mem_verify_head(seg, "copy") != FTKIT_OK)
            return corrupt(ctx, s);
        ftk_stream_give(s, seg);
        if (!seg->verified)
            s->ready = 0; /* see vet() */
    }
    return FTKIT_OK;
}

/* Verify the checksums of the next piece that is sent, while it is in the cache. */
static int vet(const struct ftkit_ctx *ctx, struct ftk_stream *s, bool *more)
{
    if (!s->send || s->ready == s->sizes[1])
        return FTKIT_OK;
    if (s->phase == FTK_STREAM_DATA && s->posted == s->ready
        && ftk_seg_check_upto(s->seg->buf, &s->ready, s->ready + FTK_STREAM_PIECE, "copy")
               != FTKIT_OK)
        return corrupt(ctx, s);
    *more = *more || s->ready < s->sizes[1];
    return FTKIT_OK;
}

static int move_data(struct ftk_chan *ch, struct ftk_stream *list, int n, int *local)
{
    unsigned turns = 0;
    bool more = true;
    int rc = FTKIT_OK;
    *local = FTKIT_OK;
    while (rc == FTKIT_OK && more) {
        bool idle = true;
        bool done = false;
        more = false;
        for (int i = 0; rc == FTKIT_OK && i < n; i++)
            rc = vet(ch->ctx, &list[i], &more);
        if (rc == FTKIT_OK)
            rc = ftk_stream_progress(ch, list, n, &idle, &done);
        if (idle)
            ftk_chan_progress(ch, &turns);
    }
    return rc == FTKIT_OK ? ftk_stream_run(ch, list, n, local) : rc;
}

/* A corrupt segment is released: the next plan takes another copy, if there is one. */
static void release_corrupt(struct ftk_mem *mem, struct ftk_stream *list, int n)
{
    for (int i = 0; i < n; i++) {
        if (!list[i].send || list[i].error != FTKIT_ERR_CORRUPT)
            continue;
        struct ftk_mem_seg *seg = ftk_mem_find(mem, list[i].set, list[i].rank);
        if (seg)
            ftk_mem_release(seg);
    }
}

int ftk_drop_own(struct ftkit_ctx *ctx, struct ftk_mem_seg *s)
{
    uint64_t set = s->set;
    ftk_report(FTKIT_WARNING, "context %s: rank %d: %s; using another copy", ctx->cfg.name,
        ctx->rank, ftk_detail_text());
    ftk_mem_release(s);
    const int damaged = ftk_repair_damaged(ctx);
    if (damaged > ctx->cfg.attempts)
        ftk_repair_give_up(ctx, set);
    if (damaged <= 2 * ctx->cfg.attempts)
        return FTKIT_ERR_CORRUPT;
    return ftk_fail(FTKIT_ERR_LOST,
        "rank %d: its segment is damaged again, after %d other copies: its memory is bad",
        ctx->rank, 2 * ctx->cfg.attempts);
}

static int transfer(
    struct ftkit_ctx *ctx, struct ftk_mem *mem, struct ftk_chan *ch, struct ftk_stream *list, int n)
{
    int local = FTKIT_OK;
    int rc = find_segments(ctx, mem, list, n);
    if (rc == FTKIT_OK)
        rc = ftk_stream_sizes(ch, mem, list, n, &local);
    if (rc == FTKIT_OK)
        rc = local;
    (void)FTK_FAULT("transfer.sized");
    if (rc == FTKIT_OK)
        rc = move_data(ch, list, n, &local);
    if (rc == FTKIT_OK)
        rc = local;
    (void)FTK_FAULT("transfer.done");
    for (int i = 0; rc == FTKIT_OK && i < n; i++)
        if (list[i].send)
            list[i].seg->verified = true;
    if (rc == FTKIT_OK)
        return rc;
    if (!ch->broken)
        (void)ftk_chan_break(ch, MPI_ERR_OTHER, "a transfer that cannot go on");
    ftk_stream_abandon(ch, list, n);
    release_corrupt(mem, list, n);
    return rc;
}

int ftk_transfer(
    struct ftkit_ctx *ctx, struct ftk_mem *mem, struct ftk_chan *ch, const struct ftk_plan *p)
{
    struct ftk_stream *list = NULL;
    int n = 0;
    int me;
    int mrc = MPI_Comm_rank(ch->comm, &me);
    if (mrc != MPI_SUCCESS)
        return ftk_chan_break(ch, mrc, "listing transfers");
    int rc = FTKIT_OK;
    for (int what = WHAT_OWN; rc == FTKIT_OK && what <= p->copies; what++)
        rc = list_streams(p, me, what, &list, &n);
    if (rc == FTKIT_OK)
        rc = transfer(ctx, mem, ch, list, n);
    else
        (void)ftk_chan_break(ch, MPI_ERR_OTHER, "a transfer that cannot begin");
    free(list);
    return rc;
}
