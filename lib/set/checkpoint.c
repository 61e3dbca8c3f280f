/* Writing a set into memory: own copy and buddy copy, committed by a vote.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Set n+1 is written beside set n; n is dropped by a rank only after it has seen the vote
 * that commits n+1.  A vote that succeeds anywhere proves that every rank had sealed n+1,
 * its own segment and the copies it keeps.  So when a failure comes between, and some
 * ranks have seen the vote and some have not, the census of the repair finds n+1 named as
 * committed by a survivor and whole on all of them; or nobody alive knows it, and then
 * nobody alive has dropped n.  Either way all ranks return to the same set. */
#include <string.h>

#include "checkpoint.h"
#include "core/log_ops.h"
#include "core/progress.h"
#include "detect/detect.h"
#include "group.h"
#include "region.h"
#include "stream.h"

#define TAG_COPY 1

/* What one call of ftk_set_write() works on. */
struct writing {
    struct ftkit_ctx *ctx;
    struct ftk_chan ch;
    uint64_t set;
    size_t head_bytes;
    size_t data_bytes;
    struct ftk_mem_seg *own;
    struct ftk_stream *streams; /* [nstreams], the first may be the one that sends */
    int nstreams;
    bool sends;
    struct ftk_changes changes; /* since the last set */
    struct ftk_parity_write parity;
    int local;     /* most severe local error so far */
    int durable;   /* rank 0's word: see ftk_policy_durable() */
    bool flushing; /* an earlier set is still being written */
    bool to_local;
};

static void note(struct writing *w, int rc)
{
    if (rc < w->local)
        w->local = rc;
}

/* One stream to the holder of this rank's copy, and one from each rank whose copy this rank
 * holds. */
static void make_streams(struct writing *w)
{
    struct ftkit_ctx *ctx = w->ctx;
    int n = 0;
    if (ctx->cfg.scheme != FTK_SCHEME_BUDDY)
        return;
    w->streams = ctx->streams;
    if (ctx->holder[ctx->rank] >= 0) {
        ftk_stream_init(&w->streams[n++], true, ctx->holder[ctx->rank], TAG_COPY, w->set, ctx->rank,
            ctx->nranks);
        w->sends = true;
    }
    for (int r = 0; r < ctx->nranks; r++)
        if (ctx->holder[r] == ctx->rank)
            ftk_stream_init(&w->streams[n++], false, r, TAG_COPY, w->set, r, ctx->nranks);
    w->nstreams = n;
}

/* The header of the segment is not there yet. */
static int take_parity(struct writing *w)
{
    struct ftkit_ctx *ctx = w->ctx;
    struct ftk_seg_header like = { .set = w->set,
        .run = ctx->run,
        .epoch_id = ctx->epoch_id,
        .wall_ns = ftk_wall_ns(),
        .nranks = (uint32_t)ctx->nranks };
    memcpy(like.context, ctx->cfg.name, strlen(ctx->cfg.name));
    return ftk_parity_take(&w->parity, &ctx->mem, &like, w->own);
}

/* Whether only blocks that have changed since the last set go to its holders. */
static void offer_changes(struct writing *w)
{
    bool shared = w->sends || w->ctx->group.n > 1;
    if (!w->own || !shared || !ftk_increment_begin(w->ctx, w->data_bytes, &w->changes))
        return;
    if (w->sends)
        (void)ftk_stream_partial(&w->streams[0], w->ctx->committed, w->changes.masks);
    else
        w->parity.update.changes = &w->changes;
}

/* Sizes known, buffers taken, here and at the buddies; agreed by all. */
static int prepare(struct writing *w)
{
    struct ftkit_ctx *ctx = w->ctx;
    struct ftk_vote v;
    int local = FTKIT_OK;
    note(w, ftk_region_measure(ctx, &w->head_bytes, &w->data_bytes));
    if (w->local != FTKIT_OK) { /* the others need sizes all the same */
        w->head_bytes = FTK_SEG_ALIGN;
        w->data_bytes = 0;
    }
    note(w, ftk_mem_take(
                &ctx->mem, w->set, ctx->rank, ctx->nranks, w->head_bytes + w->data_bytes, &w->own));
    if (w->sends) {
        w->streams[0].seg = w->own;
        w->streams[0].sizes[0] = w->head_bytes;
        w->streams[0].sizes[1] = w->data_bytes;
    }
    offer_changes(w);
    int rc = ftk_stream_sizes(&w->ch, &ctx->mem, w->streams, w->nstreams, &local);
    note(w, local);
    if (rc == FTKIT_OK)
        rc = ftk_parity_sizes(&w->parity, &w->ch, &ctx->group, w->head_bytes, w->data_bytes);
    if (rc != FTKIT_OK)
        return rc;
    if (w->own)
        note(w, take_parity(w));
    ftk_vote_init(&v);
    v.min[0] = w->local;
    ftk_vote_same(&v, 1, w->set);
    if (ctx->rank == 0)
        v.min[3] = ftk_policy_durable(ctx);
    ftk_vote_same(&v, FTK_VOTE_CALLS, ctx->policy.calls);
    ftk_flush_ask(ctx, &v);
    rc = ftk_vote(&w->ch, ctx->nranks, &v);
    if (rc != FTKIT_OK)
        return rc;
    w->flushing = ftk_flush_agreed(ctx, &v);
    if (!ftk_vote_is_same(&v, 1))
        return ftk_fail(FTKIT_ERR_INTERNAL, "ranks are at different sets");
    if (!ftk_vote_is_same(&v, FTK_VOTE_CALLS))
        return ftk_fail(FTKIT_ERR_MISMATCH,
            "ranks are at different calls of ftkit_checkpoint (this one at its %lluth)",
            (unsigned long long)ctx->policy.calls);
    w->durable = (int)v.min[3];
    if (v.min[0] != FTKIT_OK && w->local == FTKIT_OK)
        return ftk_fail((int)v.min[0], "set %llu was not written: another rank has: %s",
            (unsigned long long)w->set, ftkit_strerror((int)v.min[0]));
    return (int)v.min[0];
}

/* Pack the regions and send each piece as soon as it is packed; then the head. */
static int pack_and_send(struct writing *w)
{
    struct ftk_packer p;
    bool idle;
    bool done;
    int rc = ftk_region_begin(w->ctx, w->set, w->head_bytes, w->data_bytes, w->own->buf, &p);
    while (rc == FTKIT_OK && p.done < w->data_bytes && w->local == FTKIT_OK) {
        note(w, ftk_region_pack(&p, p.done + FTK_STREAM_PIECE));
        ftk_changes_note(&w->changes, w->own->buf, p.done);
        if (w->sends)
            w->streams[0].ready = p.done;
        rc = ftk_stream_progress(&w->ch, w->streams, w->nstreams, &idle, &done);
        if (rc == FTKIT_OK)
            rc = ftk_parity_progress(&w->parity, &w->ch, p.done);
    }
    if (rc != FTKIT_OK)
        return rc;
    /* a callback that failed makes the set fail, not the protocol: the announced bytes are sent */
    ftk_region_seal(&p);
    if (w->local == FTKIT_OK)
        note(w, ftk_mem_seal(w->own));
    if (w->sends) {
        w->streams[0].ready = w->data_bytes;
        w->streams[0].sealed = true;
    }
    if (FTK_FAULT("ckpt.packed"))
        note(w, ftk_fail(FTKIT_ERR_IO, "injected"));
    int local;
    rc = ftk_stream_run(&w->ch, w->streams, w->nstreams, &local);
    note(w, local);
    if (rc == FTKIT_OK)
        rc = ftk_parity_finish(&w->parity, &w->ch, w->own);
    note(w, w->parity.error);
    return rc;
}

/* *rank: the first rank whose checksum of a region is not that of rank 0; INT64_MAX: there is
 * none. */
static int find_rank(struct writing *w, uint64_t sum, int64_t *rank)
{
    struct ftk_vote v;
    ftk_vote_init(&v);
    if (w->ctx->rank == 0)
        v.min[0] = (int64_t)sum; /* the smallest, because the other ranks have INT64_MAX */
    int rc = ftk_vote(&w->ch, w->ctx->nranks, &v);
    if (rc != FTKIT_OK)
        return rc;
    bool same = v.min[0] == (int64_t)sum;
    ftk_vote_init(&v);
    if (!same)
        v.min[0] = w->ctx->rank;
    rc = ftk_vote(&w->ch, w->ctx->nranks, &v);
    *rank = v.min[0];
    return rc;
}

/* Replicated regions differ between ranks: the error names the first such region. */
static int name_mismatch(struct writing *w)
{
    const struct ftkit_ctx *ctx = w->ctx;
    const char *seg = w->own->buf;
    uint32_t n = ((const struct ftk_seg_header *)(const void *)seg)->nregions;
    int64_t rank = INT64_MAX;
    struct ftk_vote v;
    ftk_vote_init(&v);
    ftk_vote_same(&v, 0, n);
    int rc = ftk_vote(&w->ch, ctx->nranks, &v);
    if (rc == FTKIT_OK && !ftk_vote_is_same(&v, 0))
        n = 0;
    for (uint32_t i = 0; rc == FTKIT_OK && i < n; i++) {
        rc = find_rank(w, ftk_region_sum_of(seg, i), &rank);
        if (rc == FTKIT_OK && rank < ctx->nranks)
            return ftk_fail(FTKIT_ERR_MISMATCH,
                "set %llu was not committed: region '%s' is registered as replicated and has other "
                "values on rank %lld than on rank 0",
                (unsigned long long)w->set, ftk_seg_regions_c(seg)[i].name, (long long)rank);
    }
    return rc != FTKIT_OK ? rc
                          : ftk_fail(FTKIT_ERR_MISMATCH,
                              "set %llu was not committed: ranks have registered "
                              "different replicated regions",
                              (unsigned long long)w->set);
}

/* Commit: either all ranks have sealed their segments, or the set exists on no rank. */
static int commit(struct writing *w)
{
    struct ftkit_ctx *ctx = w->ctx;
    struct ftk_vote v;
    ftk_vote_init(&v);
    v.min[0] = w->local;
    ftk_vote_same(&v, 1, w->local == FTKIT_OK ? ftk_region_replicated_sum(w->own->buf) : 0);
    v.min[3] = ftk_policy_next_gap(ctx);
    if (ctx->rank == 0)
        v.min[4] = ftk_local_due(ctx);
    (void)FTK_FAULT("ckpt.sealed");
    int rc = ftk_vote(&w->ch, ctx->nranks, &v);
    if (rc != FTKIT_OK)
        return rc;
    if (v.min[0] != FTKIT_OK) {
        if (w->local == FTKIT_OK)
            return ftk_fail((int)v.min[0], "set %llu was not committed: another rank: %s",
                (unsigned long long)w->set, ftkit_strerror((int)v.min[0]));
        return (int)v.min[0];
    }
    if (!ftk_vote_is_same(&v, 1))
        return name_mismatch(w);
    (void)FTK_FAULT("ckpt.voted");
    w->to_local = v.min[4] == 1;
    ctx->committed = w->set;
    ftk_progress_set(ctx, w->set);
    ctx->repair.repeats = ctx->repair.corrupt = 0;
    ctx->next_set = w->set + 1;
    ctx->stats.region_bytes = w->data_bytes;
    ftk_mem_drop_others(&ctx->mem, w->set);
    ftk_place_sweep(&ctx->mem.place, ctx->epoch_id);
    ftk_policy_committed(ctx, v.min[3]);
    ftk_log_committed(ctx);
    (void)FTK_FAULT("ckpt.committed");
    return FTKIT_OK;
}

/* Drop the segments of a set that was not committed. */
static void withdraw(struct writing *w, int rc)
{
    struct ftk_mem *mem = &w->ctx->mem;
    if (rc == FTKIT_ERR_PEER) {
        /* sealed segments stay: a survivor may have seen the set committed */
        ftk_stream_abandon(&w->ch, w->streams, w->nstreams);
        if (w->own && !w->own->sealed)
            ftk_mem_release(w->own);
        return;
    }
    for (int i = 0; i < mem->nsegs; i++)
        if (mem->segs[i]->set == w->set)
            ftk_mem_release(mem->segs[i]);
}

/* The set is in memory: to where it is due besides. */
static int pass_on(struct writing *w)
{
    int rc = ftk_local_write(&w->ch, w->set, w->to_local);
    if (rc == FTKIT_ERR_PEER)
        return rc;
    int flushed = ftk_flush_set(w->ctx, w->set, w->durable, w->flushing);
    return flushed != FTKIT_OK ? flushed : rc;
}

int ftk_set_write(struct ftkit_ctx *ctx)
{
    struct writing w = { .ctx = ctx, .ch = ftk_chan_of(ctx), .set = ctx->next_set };
    double t0 = ftk_now_s();
    (void)FTK_FAULT("ckpt.begin");
    ftk_flush_poll(ctx); /* its buffer is free again */
    make_streams(&w);
    int rc = ftk_log_drain(ctx, &w.ch);
    if (rc != FTKIT_ERR_PEER) { /* any other error is in the vote */
        note(&w, rc);
        rc = prepare(&w);
    }
    (void)FTK_FAULT("ckpt.sized");
    if (rc == FTKIT_OK)
        rc = pack_and_send(&w);
    if (rc == FTKIT_OK)
        rc = commit(&w);
    ftk_parity_end(&w.parity, &w.ch);
    if (rc != FTKIT_OK)
        withdraw(&w, rc);
    else
        ftk_increment_end(ctx, &w.changes, w.ch.sent);
    ftk_stream_end(w.streams, w.nstreams);
    ftk_changes_end(&w.changes);
    if (rc == FTKIT_OK) {
        ctx->stats.checkpoint_s = ctx->policy.set_cost_s = ftk_now_s() - t0;
        ctx->policy.sets_since_durable++;
        rc = pass_on(&w);
    }
    /* other ranks may have seen the commit, and will not ask for the files of the set again */
    if (rc == FTKIT_ERR_PEER && w.durable)
        ftk_policy_flush_lost(ctx);
    return rc;
}
