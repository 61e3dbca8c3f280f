/* Writing a set into memory: the own copy and what the scheme adds, committed by a vote.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Set n+1 is written beside set n.  A rank drops n only after it has seen the vote that commits
 * n+1.  A vote that succeeds on any rank proves that every rank had sealed n+1: its own segment and
 * the copies that it keeps.  A failure may leave some ranks that have seen the vote and some that
 * have not.  Then either a survivor has committed n+1, and n+1 is whole on all survivors; or no
 * survivor has committed n+1, and none has dropped n.  The census of the repair shows which case
 * it is, so all ranks return to the same set. */
#include <string.h>

#include "checkpoint.h"
#include "clone.h"
#include "device.h"
#include "core/log_ops.h"
#include "core/progress.h"
#include "core/repair_state.h"
#include "detect/detect.h"
#include "energy/energy.h"
#include "files.h"
#include "number.h"
#include "pack.h"
#include "policy.h"
#include "replicas.h"
#include "shapes.h"
#include "write.h"

/* What one call of ftk_set_write() works on. */
struct writing {
    struct ftk_write w; /* first member: the fill functions get a pointer to it */
    struct ftkit_ctx *ctx;
    struct ftk_chan ch;
    struct ftk_changes changes; /* since the last set */
    struct ftk_packer packer;
    int durable;   /* answer of rank 0: see ftk_policy_durable() */
    int ask;       /* request from outside that the ranks have agreed on (enum ftk_ask) */
    bool flushing; /* an earlier set is still being written */
    bool to_local;
    struct ftk_comparison compared; /* with the other replicas of the rank */
};

/* Indices of the words of the votes; SAME takes two words.  ERROR and SAME are in both votes. */
enum { WORD_ERROR = 0, WORD_SAME = 1, WORD_DURABLE = 3, WORD_SHAPES = 9 }; /* before the data */
enum { WORD_GAP = 3, WORD_LOCAL = 4, WORD_LACKS = 7 };                     /* vote that commits */

struct ftk_seg_header ftk_set_head(const struct ftkit_ctx *ctx, uint64_t set)
{
    struct ftk_seg_header like = { .set = set,
        .run = ctx->run,
        .epoch_id = ctx->epoch_id,
        .wall_ns = ftk_wall_ns(),
        .nranks = (uint32_t)ctx->nranks };
    memcpy(like.context, ctx->cfg.name, strlen(ctx->cfg.name));
    return like;
}

/* Record changed blocks, and let only these go to other ranks if this is wanted. */
static void offer_changes(struct writing *c)
{
    const struct ftkit_ctx *ctx = c->ctx;
    const struct ftk_level *l = c->w.level;
    int reach = ftk_write_ops_of(l->scheme)->reach(l, ctx->rank, ctx->nranks, ctx->domain);
    if (reach == FTK_REACH_NONE
        || !ftk_increment_begin(ctx, reach == FTK_REACH_OTHER_NODES, c->w.data_bytes, &c->changes))
        return;
    c->w.changes = &c->changes;
    c->w.base = ctx->committed;
}

/* Injected: this rank does not see the result of a vote, and a rank dies.  After a repair no rank
 * dies: the failure had hidden an earlier vote from this rank, before this fault point. */
static int lose_vote(struct ftkit_ctx *ctx)
{
    if (ctx->stats.repairs > 0)
        return FTKIT_OK;
    while (!ftk_detect_poll(ctx))
        ;
    return ftk_fail(FTKIT_ERR_PEER, "injected");
}

/* Compute the sizes.  FTKIT_ERR_PEER. */
static int measure(struct writing *c)
{
    struct ftk_write *w = &c->w;
    if (!ftk_clone_is_here(c->ctx))
        ftk_write_note(w, ftk_region_measure(c->ctx, &w->head_bytes, &w->data_bytes));
    if (w->local != FTKIT_OK) { /* the others need sizes all the same */
        w->head_bytes = FTK_SEG_ALIGN;
        w->data_bytes = 0;
    }
    int rc = ftk_clone_sizes(&c->ch, &w->head_bytes, &w->data_bytes);
    offer_changes(c);
    return rc;
}

/* The number of the call, of ranks that stand at it. */
static void vote_calls(const struct ftkit_ctx *ctx, struct ftk_vote *v)
{
    if (!ftk_clone_is_here(ctx))
        ftk_vote_same(v, FTK_VOTE_CALLS, ctx->policy.calls);
}

/* Compute the sizes and take the memory, here and at other ranks; the ranks agree on the result. */
static int prepare(struct writing *c)
{
    struct ftkit_ctx *ctx = c->ctx;
    struct ftk_write *w = &c->w;
    struct ftk_vote v;
    int rc = measure(c);
    if (rc == FTKIT_OK)
        rc = ftk_write_begin(w);
    if (rc != FTKIT_OK)
        return rc;
    ftk_vote_init(&v);
    v.min[WORD_ERROR] = w->local;
    ftk_vote_same(&v, WORD_SAME, w->like.set);
    if (ctx->rank == 0)
        v.min[WORD_DURABLE] = ftk_policy_durable(ctx);
    int ask = ftk_steer_ask(ctx);
    if (ask != FTK_ASK_NOTHING)
        v.min[WORD_DURABLE] = -ask;
    v.min[WORD_SHAPES] = ftk_shapes_ask(ctx);
    vote_calls(ctx, &v);
    ftk_flush_ask(ctx, &v);
    rc = ftk_vote(&c->ch, ctx->nranks, &v);
    if (rc == FTKIT_OK && FTK_FAULT("ckpt.unheard"))
        rc = lose_vote(ctx);
    if (rc != FTKIT_OK)
        return rc;
    c->flushing = ftk_flush_agreed(ctx, &v);
    if (!ftk_vote_is_same(&v, WORD_SAME))
        return ftk_fail(FTKIT_ERR_INTERNAL, "ranks are at different sets");
    if (!ftk_vote_is_same(&v, FTK_VOTE_CALLS))
        return ftk_fail(FTKIT_ERR_MISMATCH,
            "ranks are at different calls of ftkit_checkpoint (this one at call %llu%s). Rule: "
            "every rank makes the same calls of ftkit_checkpoint, and ftkit_request before the "
            "same one",
            (unsigned long long)ctx->policy.calls,
            ctx->policy.requested ? ", because of ftkit_request" : "");
    if (ftk_clone_is_here(ctx))
        ftk_policy_count_as(ctx, (uint64_t)v.min[FTK_VOTE_CALLS]);
    c->durable = (int)v.min[WORD_DURABLE];
    if (c->durable < 0) {
        c->ask = -c->durable;
        c->durable = ctx->cfg.h5_enabled ? 2 : 0;
    }
    if (v.min[WORD_ERROR] != FTKIT_OK && w->local == FTKIT_OK)
        return ftk_fail((int)v.min[WORD_ERROR],
            "set %llu was not written: error on another rank: %s", (unsigned long long)w->like.set,
            ftkit_strerror((int)v.min[WORD_ERROR]));
    if (v.min[WORD_ERROR] != FTKIT_OK)
        return (int)v.min[WORD_ERROR];
    /* the ranks of a plane that stands still may not have registered anything yet */
    return v.min[WORD_SHAPES] == 0 && ctx->replica.stale == 0 ? ftk_shapes_check(&c->ch) : FTKIT_OK;
}

/* ---- the segment: the regions, each piece sent as soon as it is packed -------------------- */

static int pack_piece(struct ftk_write *w, size_t upto, size_t *done)
{
    struct writing *c = (struct writing *)w;
    int rc = ftk_region_pack(&c->packer, upto);
    ftk_changes_note(&c->changes, w->own->buf, c->packer.done);
    *done = c->packer.done;
    return rc;
}

static void end_packing(struct ftk_write *w)
{
    struct writing *c = (struct writing *)w;
    ftk_region_seal(&c->packer);
    if (w->local == FTKIT_OK)
        ftk_write_note(w, ftk_mem_seal(w->own));
    if (FTK_FAULT("ckpt.packed"))
        ftk_write_note(w, ftk_fail(FTKIT_ERR_IO, "injected"));
}

static const struct ftk_fill packing = { pack_piece, end_packing };

/* A rank whose plane stands still gets the segment of its sibling. */
static int pass_segment(struct writing *c)
{
    struct ftk_write *w = &c->w;
    if (ftk_clone_is_here(c->ctx))
        return ftk_clone_receive(&c->ch, w->own, &c->packer);
    ftk_device_pin(c->ctx, w->own);
    ftk_region_begin(c->ctx, w->like.set, w->head_bytes, w->data_bytes, w->own->buf, &c->packer);
    if (c->ctx->replica.stale == 0)
        return FTKIT_OK;
    ftk_write_note(w, ftk_region_pack(&c->packer, SIZE_MAX));
    return ftk_clone_send(&c->ch, &c->packer);
}

static int pack_and_send(struct writing *c)
{
    int rc = pass_segment(c);
    return rc == FTKIT_OK ? ftk_write_data(&c->w, &packing) : rc;
}

/* ---- commit -------------------------------------------------------------------------- */

/* Set *rank to the lowest rank whose checksum of a region differs from that of rank 0; INT64_MAX:
 * there is no such rank. */
static int find_rank(struct writing *c, uint64_t sum, int64_t *rank)
{
    struct ftk_vote v;
    enum { WORD_SUM, WORD_RANK = 0 };
    ftk_vote_init(&v);
    if (c->ctx->rank == 0)
        v.min[WORD_SUM] = (int64_t)sum; /* the smallest, because the other ranks have INT64_MAX */
    int rc = ftk_vote(&c->ch, c->ctx->nranks, &v);
    if (rc != FTKIT_OK)
        return rc;
    bool same = v.min[WORD_SUM] == (int64_t)sum;
    ftk_vote_init(&v);
    if (!same)
        v.min[WORD_RANK] = c->ctx->rank;
    rc = ftk_vote(&c->ch, c->ctx->nranks, &v);
    *rank = v.min[WORD_RANK];
    return rc;
}

/* Replicated regions differ between ranks: return an error that names the first such region.  The
 * ranks have the same replicated regions (shapes.h), in any order. */
static int name_mismatch(struct writing *c)
{
    const struct ftkit_ctx *ctx = c->ctx;
    const char *seg = c->w.own->buf;
    int64_t rank = INT64_MAX;
    int rc = FTKIT_OK;
    for (const struct ftk_seg_region *r = NULL;
         rc == FTKIT_OK && (r = ftk_region_next_replicated(seg, r)) != NULL;) {
        rc = find_rank(c, ftk_region_sum_of(seg, r), &rank);
        if (rc == FTKIT_OK && rank < ctx->nranks)
            return ftk_fail(FTKIT_ERR_MISMATCH,
                "set %llu was not committed: region '%s' is registered as replicated and has other "
                "values on rank %lld than on rank 0",
                (unsigned long long)c->w.like.set, r->name, (long long)rank);
    }
    return rc != FTKIT_OK ? rc
                          : ftk_fail(FTKIT_ERR_INTERNAL,
                              "set %llu was not committed: checksums of replicated regions differ",
                              (unsigned long long)c->w.like.set);
}

void ftk_set_committed(struct ftkit_ctx *ctx, const struct ftk_write *w, int64_t gap, int ask)
{
    const uint64_t set = w->like.set;
    ftk_set_number_committed(ctx, set);
    ftk_progress_set(ctx, set);
    ftk_repair_set_committed(ctx);
    ftk_replicas_committed(ctx);
    ftk_set_number(ctx, set + 1);
    ctx->stats.region_bytes = w->data_bytes;
    ftk_level_committed(w->level, set, ctx->epoch_id);
    ftk_files_committed(ctx);
    ftk_policy_committed(ctx, gap);
    if (ask != FTK_ASK_NOTHING)
        ftk_steer_taken(ctx, ask);
    /* before the log notes the line: a rank that rolls back to the line halts, too */
    if (ask == FTK_ASK_HALT)
        ftk_policy_set_event(ctx, FTK_HALTED);
}

/* For the vote: the same on all ranks that have written the same replicated regions.  Programs with
 * different regions cannot be compared: each rank gets back what it has saved. */
static uint64_t replicated_sum(const struct writing *c)
{
    return c->w.local == FTKIT_OK && !c->ctx->regions.by_program
               ? ftk_region_replicated_sum(c->w.own->buf)
               : 0;
}

/* Commit: either all ranks have sealed their segments, or the set exists on no rank. */
static int commit(struct writing *c)
{
    struct ftkit_ctx *ctx = c->ctx;
    struct ftk_vote v;
    ftk_vote_init(&v);
    v.min[WORD_ERROR] = c->w.local;
    ftk_vote_same(&v, WORD_SAME, replicated_sum(c));
    v.min[WORD_GAP] = ftk_policy_next_gap(ctx);
    if (ctx->rank == 0)
        v.min[WORD_LOCAL] = ftk_local_due(ctx);
    v.min[WORD_LACKS] = ftk_level_lacks(c->w.level, ctx) ? ctx->rank : INT64_MAX;
    ftk_replicas_ask(ctx, &c->compared, &v);
    (void)FTK_FAULT("ckpt.sealed");
    int rc = ftk_vote(&c->ch, ctx->nranks, &v);
    if (rc == FTKIT_OK && FTK_FAULT("ckpt.unseen"))
        rc = lose_vote(ctx);
    if (rc != FTKIT_OK)
        return rc;
    if (v.min[WORD_ERROR] != FTKIT_OK) {
        ftk_replicas_undecided(ctx, &c->compared);
        if (c->w.local == FTKIT_OK)
            return ftk_fail((int)v.min[WORD_ERROR],
                "set %llu was not committed: error on another rank: %s",
                (unsigned long long)c->w.like.set, ftkit_strerror((int)v.min[WORD_ERROR]));
        return (int)v.min[WORD_ERROR];
    }
    rc = ftk_replicas_agreed(&c->ch, c->w.like.set, &c->compared, &v);
    if (rc != FTKIT_OK)
        return rc;
    if (!ftk_vote_is_same(&v, WORD_SAME))
        return name_mismatch(c);
    (void)FTK_FAULT("ckpt.voted");
    c->to_local = v.min[WORD_LOCAL] == 1;
    ftk_level_share_lack(c->w.level, ctx, v.min[WORD_LACKS]);
    ftk_set_committed(ctx, &c->w, v.min[WORD_GAP], c->ask);
    ftk_log_line_end(ctx, true);
    (void)FTK_FAULT("ckpt.committed");
    return FTKIT_OK;
}

/* The set is in memory: write it also to the levels at which it is due. */
static int pass_on(struct writing *c)
{
    uint64_t set = c->w.like.set;
    int rc = ftk_local_write(&c->ch, set, c->to_local);
    ftk_energy_end(c->ctx, FTK_ENERGY_SET);
    if (rc == FTKIT_ERR_PEER)
        return rc;
    int flushed = ftk_flush_set(&c->ch, set, c->durable, c->flushing);
    return flushed != FTKIT_OK ? flushed : rc;
}

/* The vote carries an error of this rank alone. */
static int compare_replicas(struct writing *c)
{
    struct ftk_mem_seg *own = c->w.local == FTKIT_OK ? c->w.own : NULL;
    const int rc = ftk_replicas_compare(&c->ch, own, &c->compared);
    if (rc == FTKIT_ERR_PEER)
        return rc;
    ftk_write_note(&c->w, rc);
    return FTKIT_OK;
}

static int write_set(struct writing *c)
{
    int rc = ftk_log_drain(c->ctx, &c->ch);
    if (rc != FTKIT_ERR_PEER) { /* the vote of prepare() carries any other error */
        ftk_write_note(&c->w, rc);
        rc = prepare(c);
    }
    (void)FTK_FAULT("ckpt.sized");
    if (rc == FTKIT_OK)
        rc = pack_and_send(c);
    if (rc == FTKIT_OK)
        rc = compare_replicas(c);
    return rc == FTKIT_OK ? commit(c) : rc;
}

static int write_once(struct ftkit_ctx *ctx)
{
    struct writing c = { .ctx = ctx, .ch = ftk_chan_of(ctx) };
    double t0 = ftk_now_s();
    (void)FTK_FAULT("ckpt.begin");
    ftk_flush_poll(ctx); /* this may free the buffer of an earlier set */
    c.w.level = &ctx->level[FTK_LEVEL_MEMORY];
    c.w.ch = &c.ch;
    c.w.like = ftk_set_head(ctx, ctx->next_set);
    int rc = write_set(&c);
    ftk_region_pack_end(&c.packer);
    if (rc != FTKIT_OK && rc != FTKIT_ERR_PEER) /* otherwise the repair ends the line */
        ftk_log_line_end(ctx, false);
    ftk_write_end(&c.w, rc);
    if (rc != FTKIT_OK)
        ftk_files_given_up(ctx);
    if (rc == FTKIT_OK)
        ftk_increment_end(ctx, &c.changes, c.ch.sent);
    ftk_changes_end(&c.changes);
    if (rc == FTKIT_OK) {
        ftk_policy_measured(ctx, ftk_now_s() - t0);
        ftk_policy_count_set(ctx);
        ftk_level_event(c.w.level, ctx, c.w.data_bytes, ctx->stats.checkpoint_s, c.ch.sent);
        rc = pass_on(&c);
    }
    /* if another rank has seen the commit, no rank writes the files of this set again: so the files
     * of the next set are due */
    if (rc == FTKIT_ERR_PEER && c.durable)
        ftk_policy_flush_lost(ctx);
    /* the same on all ranks; there may be no time left */
    if (rc < 0 && rc != FTKIT_ERR_PEER && c.ask == FTK_ASK_HALT)
        ftk_policy_set_event(ctx, FTK_HALTED);
    return rc;
}

int ftk_set_write(struct ftkit_ctx *ctx)
{
    int rc;
    do {
        ftk_energy_begin(ctx, FTK_ENERGY_SET);
        rc = write_once(ctx);
    } while (rc == FTK_REPLICAS_AGAIN); /* at most twice: then the replicas differ */
    ftk_energy_end(ctx, FTK_ENERGY_SET);
    return rc;
}
