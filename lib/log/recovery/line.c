/* The message log at the line: a set is written, committed or loaded.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "detect/sparse.h"
#include "log/base/alone.h"
#include "log/base/control_state.h"
#include "log/base/runtime.h"
#include "log/coll/coll.h"
#include "log/recovery/matrix.h"
#include "log/mode.h"
#include "log/determinant/det.h"
#include "log/recovery/recovery.h"
#include "log/request/progress.h"
#include "log/request/send.h"
#include "set/clone.h"
#include "set/policy.h"
#include "draining.h"
#include "reteam.h"
#include "state.h"
#include "steps.h"

/* One look at failures and at control messages; arg: the channel. */
static int line_progress(void *arg)
{
    struct ftk_chan *ch = arg;
    if (ftk_detect_poll(ch->ctx))
        return ftk_fail(FTKIT_ERR_PEER, "draining: a rank has failed");
    ftk_parts_serve();
    return FTKIT_OK;
}

/* One look, before all ranks are here: collectives of the program continue, because other ranks may
 * wait for them. */
static int look(void *arg)
{
    ftk_req_keep_going();
    return line_progress(arg);
}

/* Whether a send is held back: a send is counted when it is sent. */
static bool is_held(void)
{
    return ftk_log.mode->holds_any && ftk_log.mode->holds_any();
}

static void take_count(const struct ftk_sparse_word *in)
{
    ftk_peer(in->rank)->count[FTK_COUNT_PROGRAM].announced = in->number;
}

/* Each rank announces to its partners how many messages it has sent to them, and to all ranks
 * whether it continues; *any: a rank continues. */
static int announce(struct ftk_chan *ch, bool continues, bool *any)
{
    const struct ftk_sure s = { ch->comm, ch, "draining" };
    const int n = ftk_peers_count();
    int words = 0;
    int64_t word = continues ? 0 : 1;
    struct ftk_sparse_word *out = malloc(((size_t)n + 1) * sizeof *out);
    if (!out)
        return ftk_chan_break(ch, MPI_ERR_NO_MEM, s.what);
    for (int i = 0; i < n; i++) {
        const int rank = ftk_peers_rank(i);
        struct ftk_count *p = &ftk_peer(rank)->count[FTK_COUNT_PROGRAM];
        p->announced = 0;
        if (p->sent > 0)
            out[words++] = (struct ftk_sparse_word){ rank, p->sent };
    }
    int rc = ftk_sparse_exchange(&s, ftk_log.line.rounds++, out, words, &word, take_count);
    free(out);
    *any = rc == FTKIT_OK && word == 0;
    return rc;
}

/* All ranks meet here.  From then on no collective makes progress.  Collectives under way, or parts
 * with control messages of state, may have sent messages meanwhile: then the ranks announce their
 * counts again.  *again: on some rank. */
static int meet(struct ftk_chan *ch, bool *again)
{
    int rc = announce(ch, ftk_coll_any() || ftk_parts.of_state != 0, again);
    ftk_log.line.state = FTK_LINE_HERE;
    return rc;
}

/* Whether a message has arrived that is not recorded: its receive is complete in the MPI, and has
 * not been looked at in its turn. */
static bool is_unrecorded(void)
{
    for (int i = 0, n = ftk_peers_count(); i < n; i++) {
        const struct ftk_count *p = &ftk_peer(ftk_peers_rank(i))->count[FTK_COUNT_PROGRAM];
        if (ftk_draining_is_behind(p->received, 0, p->announced))
            return true;
    }
    return false;
}

/* A combined send and receive, whose receive is complete: its send is, too. */
static void complete_pairs(void)
{
    struct ftk_req *r;
    for (int i = 0; (r = ftk_req_numbered(i)) != NULL; i++)
        if (r->state == FTK_REQ_HALF)
            (void)ftk_req_progress(r); /* the request has the error, if there is one */
}

/* Nothing of the program makes progress any more, so these numbers are the last ones. */
static int meet_again(struct ftk_chan *ch)
{
    const struct ftk_sure s = { ch->comm, ch, "draining" };
    bool any;
    const int rc = announce(ch, false, &any);
    return rc == FTKIT_OK ? ftk_control_state_announce(&s, &ftk_log.line.rounds) : rc;
}

static uint64_t messages_sent(void)
{
    uint64_t sum = 0;
    for (int i = 0, n = ftk_peers_count(); i < n; i++)
        sum += ftk_peer(ftk_peers_rank(i))->count[FTK_COUNT_PROGRAM].sent;
    return sum;
}

/* Replicas: collectives under way have put different parts of their results into the regions of
 * each replica.  So all of them go on until none can go on: that state is the same in all planes.
 * *sent: some rank has sent messages. */
static int advance_collectives(struct ftk_chan *ch, bool *sent)
{
    const uint64_t before = messages_sent();
    ftk_coll_poll();
    return announce(ch, messages_sent() != before, sent);
}

/* Answer the question of the state (draining.h). */
static int ask(struct ftk_chan *ch, enum ftk_draining_state state, bool *yes)
{
    const struct ftk_det_mode *mode = ftk_log.mode;
    *yes = false;
    switch (state) {
    case FTK_DRAINING_RELEASE:
    case FTK_DRAINING_RELEASE_HERE:
        *yes = is_held();
        return FTKIT_OK;
    case FTK_DRAINING_CATCH_UP:
        /* a collective that began before a failure may be behind its first execution: the receivers
         * have messages that it has not sent again yet */
        *yes = ftk_coll_any() && ftk_suppress_left(FTK_LOG_COLLS);
        return FTKIT_OK;
    case FTK_DRAINING_MEET:
        return meet(ch, yes);
    case FTK_DRAINING_MEET_AGAIN:
        return meet_again(ch);
    case FTK_DRAINING_RECEIVE:
        return ftk_drain_all(NULL, line_progress, ch);
    case FTK_DRAINING_RECORD:
        *yes = is_unrecorded() || ftk_control_state_lacks() || ftk_parts_send();
        return FTKIT_OK;
    case FTK_DRAINING_ADVANCE:
        return advance_collectives(ch, yes);
    default:
        *yes = mode->settled && !mode->settled(ch->ctx->policy.calls);
        return FTKIT_OK;
    }
}

static int act(struct ftk_chan *ch, enum ftk_draining_action action)
{
    if (action == FTK_DRAINING_NOTHING)
        return FTKIT_OK;
    if (action == FTK_DRAINING_LOOK_ON)
        return look(ch);
    if (action == FTK_DRAINING_POLL) {
        ftk_drain_poll();
        ftk_send_reap(SIZE_MAX); /* the receivers have drained all messages */
    }
    return line_progress(ch);
}

static int drain(struct ftk_chan *ch)
{
    struct ftk_draining d = { .planes = ch->ctx->cfg.replicas > 1 };
    int rc = FTKIT_OK;
    while (rc == FTKIT_OK && d.state != FTK_DRAINING_DRAINED) {
        bool yes;
        rc = ask(ch, d.state, &yes);
        if (rc == FTKIT_OK)
            rc = act(ch, ftk_draining_step(&d, yes));
    }
    if (rc == FTKIT_OK) {
        complete_pairs();
        ftk_log.line.state = FTK_LINE_DRAINED;
        rc = ftk_parts_cut(false);
    }
    (void)FTK_FAULT("log.drained");
    return rc;
}

int ftk_line_drain(struct ftk_chan *ch)
{
    int rc = drain(ch);
    /* an error of this rank alone comes with the vote: the other ranks are here */
    if (rc != FTKIT_ERR_PEER && ftk_reteam_meet(ch) != FTKIT_OK)
        rc = FTKIT_ERR_PEER;
    if (rc == FTKIT_OK)
        rc = ftk_alone_check();
    /* a rank whose plane stands still gets the requests of its sibling */
    return rc == FTKIT_OK && !ftk_clone_is_here(ch->ctx) ? ftk_requests_save(ch->ctx) : rc;
}

bool ftk_line_is_missed(const struct ftkit_ctx *ctx, const struct ftk_log_repair *r)
{
    return !r->fresh && !r->is_new[r->me] && r->line > 0 && ctx->committed != r->line;
}

/* Sends that set-up leaves open are complete when all messages are drained.  A receive that set-up
 * leaves open without a message would get a message that the loop received before the line. */
static int drain_set_up(struct ftk_chan *ch)
{
    size_t left = 0;
    int rc = drain(ch);
    for (const struct ftk_req *r = ftk_log.queue.first; rc == FTKIT_OK && r; r = r->next)
        left += ftk_req_is_receive(r);
    return left == 0 ? rc
                     : ftk_fail(FTKIT_ERR_STATE,
                         "%zu receives that were begun before ftkit_recover have got nothing: with "
                         "log.enabled a job cannot go on from a set with them",
                         left);
}

void ftk_line_pass(struct ftkit_ctx *ctx, enum ftk_pass kind, uint64_t calls)
{
    struct ftk_log *l = &ftk_log;
    const bool first = l->line.none_yet;
    l->line.none_yet = l->line.of_earlier_job = false;
    l->line.of_sibling = ftk_clone_is_here(ctx);
    l->line.shunned = ctx->replica.stale != 0;
    if (l->phase == FTK_PHASE_REPLAY)
        ftk_log_enter(FTK_PHASE_NORMAL);
    l->line.count = kind == FTK_PASS_MISSED ? ftk_job_state.lines : l->line.count + 1;
    l->line.calls = calls;
    l->line.next_event = ctx->policy.next_event;
    ftk_parts_line(kind, first);
}

void ftk_line_end(struct ftkit_ctx *ctx, bool committed)
{
    if (committed)
        ftk_line_pass(ctx, FTK_PASS_MET, ctx->policy.calls);
    ftk_log.line.state = FTK_LINE_AWAY;
    ftk_parts_cut_over();
}

/* All messages of set-up have been delivered or are in the line, so none has to be sent again, and
 * none may come when the line is restored. */
int ftk_line_leave_set_up(struct ftkit_ctx *ctx)
{
    struct ftk_chan ch = ftk_chan_of(ctx);
    const int rc = drain_set_up(&ch);
    ftk_unexp_clear();
    return rc;
}

int ftk_line_loaded(struct ftkit_ctx *ctx)
{
    ftk_line_end(ctx, false);
    ftk_line_end(ctx, true);
    ftk_log.line.calls = 1; /* see ftk_policy_reset() */
    ftk_log.line.of_earlier_job = true;
    ftk_policy_ask(ctx, 1); /* a set with the set-up of this job */
    return FTKIT_OK;
}

bool ftk_line_of_earlier_job(const struct ftkit_ctx *ctx)
{
    return ftk_log.line.of_earlier_job || (ctx->committed > 0 && ftk_log.line.count == 0);
}

/* ---- the part ------------------------------------------------------------------------ */

static int new_epoch(const struct ftk_log_repair *r)
{
    (void)r;
    ftk_log.line.rounds = 0; /* no counts have been announced */
    return FTKIT_OK;
}

const struct ftk_part ftk_part_line = { .begin = ftk_line_open, .new_epoch = new_epoch };
