/* checkpoint.line = apart: each rank cuts at its own next call of ftkit_checkpoint() (apart.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Rank 0 initiates a set.  Each rank cuts: it copies its regions and the state of the log, and goes
 * on.  All later steps are made in calls of MPI and of ftkit.  No rank waits for another rank in
 * these steps, with one exception: if some rank has no helper thread that writes files, all ranks
 * wait until the set is written.  The states:
 *
 *     INITIATED this rank knows that a set is due, and has not cut
 *     COUNTING  this rank has cut.  It announces to each receiver how many messages it had sent
 *               on each channel at its cut
 *     CLOSING   all ranks have cut: no more determinants are recorded for the set.  Late messages
 *               come into the set of their receiver; the receivers announce to the senders how
 *               many early messages they have
 *     SIZING    late and early messages are known everywhere: the segment is whole.  The ranks that
 *               will get copies or parity take their memory
 *     SENDING   copies and parity go to these ranks
 *     STARTING  the set is committed.  The ranks exchange what their threads need to write the
 *               set to the files
 *
 * Between two steps stands a round of a tally (detect/tally.h): a rank takes the next step when all
 * have ended the last one.  The most severe error of all ranks is in each result, so all ranks give
 * the set up together.  A rank that has seen the last result commits.  After a failure the census
 * shows whether a survivor has seen it, as for a line together (set/checkpoint.c).
 *
 * A message is late if it was sent before the cut of its sender and received after that of its
 * receiver; early, if it was sent after the one and received before the other. [Schulz et al., SC
 * 2004, 2.3, 3.1; docs/model/apart.pml] */
#include "apart.h"

#include <stdlib.h>
#include <string.h>

#include "core/tags.h"
#include "detect/tally.h"
#include "log/alone.h"
#include "log/control.h"
#include "log/det.h"
#include "log/mode.h"
#include "log/p2p.h"
#include "log/recovery.h"
#include "set/checkpoint.h"
#include "set/cut.h"
#include "set/flush_start.h"
#include "set/number.h"
#include "set/policy.h"
#include "set/steer.h"
#include "numbers.h"
#include "steps.h"
#include "tail.h"

enum state {
    AWAY,
    INITIATED,
    COUNTING,
    COUNTED,
    CLOSING,
    CLOSED,
    SIZING,
    SIZED,
    SENDING,
    SENT,
    STARTING,
    FROZEN
};

/* Rounds of the tallies of a set. */
enum phase {
    PHASE_INITIATE,
    PHASE_CUT,
    PHASE_CLOSED,
    PHASE_SIZED,
    PHASE_SENT,
    PHASE_SEEN,
    PHASES = 8
};

/* Words of the votes. */
enum { WORD_ERROR = 0, WORD_DURABLE = 1, WORD_LOCAL = 2, WORD_ASK = 3, WORD_LOCAL_ERROR = 4 };

/* What a rank asks rank 0 for. */
enum { ASK_SET = 1, ASK_DURABLE, ASK_OUTSIDE, ASK_HALT };

#define GIVE_UP_AFTER 10 /* times checkpoint.patience */
#define AGAIN_S 1.0      /* after a set was given up, until the next one */
#define LOOK_S 0.001     /* between two looks in ftkit_checkpoint() while no set is open */
#define TURN_S 1e-5      /* between two steps in calls of MPI that do not wait long */

static struct {
    enum state state;
    struct ftk_tally *tally; /* of this epoch; NULL: not opened yet */
    uint64_t set;            /* that is initiated or open */
    int durable;             /* see ftk_policy_durable() */
    bool local;              /* see ftk_local_due() */
    int ask;                 /* what the set was asked for; 0: it was due */
    int64_t asked;           /* what this rank has asked rank 0 for, which may not know it yet */
    int served;              /* policy.requested of this rank, which the open set is for */
    double since_s;          /* the set is initiated */
    double looked_s;         /* of LOOK_S */
    double turned_s;         /* of TURN_S */
    bool warned;             /* that this rank has not cut */
    double again_s;          /* rank 0: a set was given up; no other is initiated sooner */
    struct ftk_cut *cut;
    uint64_t calls;                    /* of ftkit_checkpoint(), at the cut */
    int error;                         /* of this rank, outside of cut */
    int noted;                         /* the error of this rank whose text is own_why */
    char own_why[FTK_DETAIL_MAX - 96]; /* room for a beginning */
    int local_error;        /* of all ranks, in level.local: the set is not written there */
    struct ftk_chan beside; /* of the start of a flush */
    struct ftk_flush_start *start;
    double start_s; /* how long the start has held the program so far */
    bool busy;      /* rank 0: a rank may not have seen the end of the last set */
    int result;     /* of a set that was given up: for the next ftkit_checkpoint() */
    char why[FTK_DETAIL_MAX];
} apart;

static uint64_t round_of(enum phase p)
{
    return apart.set * PHASES + p;
}

/* ---- the end of a set -------------------------------------------------------------------- */

/* The log passes the line of the open set. */
static void pass_line(struct ftkit_ctx *ctx)
{
    apart.served = 0;
    ftk_line_pass(ctx, FTK_PASS_CUT, apart.calls);
    ftk_log.apart.open = ftk_log.apart.told = false;
}

/* The open set is for what the program has asked this rank for, if it goes where that has to be.
 * The request holds until the commit: rank 0, which knows it, may be lost. */
static void take_request(struct ftkit_ctx *ctx)
{
    if (ctx->policy.requested == 2 && apart.ask < ASK_DURABLE && apart.durable != 2)
        return;
    apart.served = ctx->policy.requested;
    ftk_policy_ask(ctx, 0);
}

static void return_request(struct ftkit_ctx *ctx)
{
    if (apart.served > ctx->policy.requested)
        ftk_policy_ask(ctx, apart.served);
    apart.served = 0;
}

/* All that has happened since the last line is one interval again. */
static void withdraw(void)
{
    return_request(ftk_log.ctx);
    ftk_parts_discard();
    ftk_log.apart.open = ftk_log.apart.told = false;
}

static int say(enum phase p, int error, bool up_only)
{
    struct ftk_vote v;
    ftk_vote_init(&v);
    v.min[WORD_ERROR] = error;
    v.min[WORD_LOCAL_ERROR] = apart.local_error;
    if (apart.local_error == FTKIT_OK && apart.cut)
        v.min[WORD_LOCAL_ERROR] = ftk_cut_local_error(apart.cut);
    if (p == PHASE_SENT)
        ftk_flush_ask(ftk_log.ctx, &v);
    return ftk_tally_say(apart.tally, round_of(p), &v, up_only);
}

static int error_of(void)
{
    const int cut = apart.cut ? ftk_cut_error(apart.cut) : FTKIT_OK;
    return cut < apart.error ? cut : apart.error;
}

/* Keep the text of an error of this rank: other calls write other texts before it is reported. */
static void note_error(void)
{
    const int error = error_of();
    if (error != FTKIT_OK && error != apart.noted)
        snprintf(apart.own_why, sizeof apart.own_why, "%s", ftk_detail_text());
    apart.noted = error;
}

/* This rank has ended a step. */
static int ended(enum phase p)
{
    apart.state++;
    if (p == PHASE_SENT)
        (void)FTK_FAULT("apart.vote");
    return say(p, error_of(), false);
}

/* The set is over, for this rank. */
static int end_set(void)
{
    apart.cut = NULL;
    apart.error = apart.local_error = FTKIT_OK;
    apart.state = AWAY;
    return say(PHASE_SEEN, FTKIT_OK, true);
}

/* The set is given up: on rank 0 the request for it still holds. */
static void keep_request(struct ftkit_ctx *ctx)
{
    if (ctx->rank == 0 && ctx->policy.requested == 0)
        ftk_policy_ask(ctx, apart.ask == ASK_SET ? 1 : apart.ask == ASK_DURABLE ? 2 : 0);
}

static int give_up(int code)
{
    struct ftkit_ctx *ctx = ftk_log.ctx;
    const bool own = error_of() != FTKIT_OK;
    apart.result = code;
    snprintf(apart.why, sizeof apart.why, "set %llu was not written: %s%s",
        (unsigned long long)apart.set,
        own ? "" : "error on another rank: ", own ? apart.own_why : ftkit_strerror(code));
    ftk_numbers_drop();
    if (apart.cut)
        ftk_cut_end(apart.cut, code);
    withdraw();
    ftk_set_number_past(ctx, apart.set);
    ftk_policy_tried(ctx);
    keep_request(ctx);
    apart.again_s = ftk_now_s() + AGAIN_S;
    return end_set();
}

/* The next ftkit_checkpoint() returns the code of a level that has not got the set. */
static void keep_result(int rc)
{
    if (rc == FTKIT_OK || rc == FTKIT_ERR_PEER)
        return;
    apart.result = rc;
    snprintf(apart.why, sizeof apart.why, "%s", ftk_detail_text());
}

/* ---- the commit, and what follows -------------------------------------------------------- */

/* The set is where it has to be, or a level has not got it. */
static int passed_on(int rc)
{
    keep_result(rc);
    keep_result(ftk_flush_return(ftk_log.ctx));
    return end_set();
}

/* The threads of all ranks are idle: begin to give them the set.  An error of this rank alone has
 * broken the channel, so a repair follows. */
static int start_flush(void)
{
    const double begin_s = ftk_now_s();
    apart.beside = ftk_chan_beside(ftk_log.ctx); /* a vote may be under way on act: see settle */
    apart.state = STARTING;
    const int rc = ftk_flush_start(&apart.beside, apart.set, &apart.start);
    apart.start_s = ftk_now_s() - begin_s;
    return rc;
}

static int step_starting(void)
{
    bool done = false;
    const double begin_s = ftk_now_s();
    const int rc = ftk_flush_start_step(&apart.start, &done);
    apart.start_s += ftk_now_s() - begin_s;
    if (rc == FTKIT_ERR_PEER || (rc == FTKIT_OK && !done))
        return rc;
    ftk_policy_flushed(ftk_log.ctx, apart.start_s);
    return passed_on(rc);
}

/* Some rank has no thread: the program waits until the set is written. */
static int write_files(void)
{
    struct ftk_chan ch = ftk_chan_beside(ftk_log.ctx);
    const int rc = ftk_flush_set(&ch, apart.set, apart.durable, false);
    if (rc != FTKIT_ERR_PEER)
        return passed_on(rc);
    ftk_policy_flush_lost(ftk_log.ctx);
    return rc;
}

/* A set that the program has asked for is not written while an earlier set still is: rank 0
 * initiates another one. */
static int ask_again(void)
{
    struct ftkit_ctx *ctx = ftk_log.ctx;
    if (ctx->rank == 0)
        ftk_policy_ask(ctx, 2);
    apart.again_s = ftk_now_s() + AGAIN_S;
    return passed_on(FTKIT_OK);
}

/* Take the receives from the MPI, and count those that have a message: a repair waits for all
 * messages that were sent. */
static void end_receives(void)
{
    for (struct ftk_req *r = ftk_log.queue.first, *next; r; r = next) {
        next = r->next;
        if (r->kind != FTK_REQ_RECV || r->state != FTK_REQ_POSTED)
            continue;
        if (PMPI_Cancel(&r->real) != MPI_SUCCESS)
            continue; /* it has ended with an error */
        while (r->state == FTK_REQ_POSTED && !ftk_detect_poll(ftk_log.ctx))
            (void)ftk_p2p_withdraw(r); /* the request has the error, if there is one */
    }
}

/* All calls fail, so that each rank comes to ftkit_checkpoint(). */
static void halt(void)
{
    ftk_log.apart.halted = true;
    end_receives();
    ftk_log_begin_rollback();
}

static int pass_on(bool busy)
{
    if (apart.ask == ASK_HALT) { /* ftkit_checkpoint() writes the files */
        const int rc = passed_on(FTKIT_OK);
        halt();
        return rc;
    }
    switch (ftk_flush_how(ftk_log.ctx, apart.set, apart.durable, busy)) {
    case FTK_FLUSH_NOT:
        return passed_on(FTKIT_OK);
    case FTK_FLUSH_WAIT:
        return write_files();
    case FTK_FLUSH_AFTER:
        return ask_again();
    default:
        return start_flush();
    }
}

static void end_local(const struct ftk_vote *v)
{
    const bool own = ftk_cut_local_error(apart.cut) != FTKIT_OK;
    apart.local_error = (int)v->min[WORD_LOCAL_ERROR];
    if (apart.local_error != FTKIT_OK && own)
        (void)ftk_fail(apart.local_error, "%s", ftk_cut_local_why(apart.cut));
    else if (apart.local_error != FTKIT_OK)
        (void)ftk_fail(apart.local_error, "level.local: writing failed on another rank: %s",
            ftkit_strerror(apart.local_error));
    keep_result(apart.local_error);
    ftk_cut_end_local(apart.cut, apart.local_error);
}

static int commit(const struct ftk_vote *v)
{
    struct ftkit_ctx *ctx = ftk_log.ctx;
    const bool flushing = ftk_flush_agreed(ctx, v);
    (void)FTK_FAULT("apart.voted");
    ftk_cut_commit(apart.cut, apart.ask == ASK_HALT      ? FTK_ASK_HALT
                              : apart.ask == ASK_OUTSIDE ? FTK_ASK_SET
                                                         : FTK_ASK_NOTHING);
    if (!apart.local)
        ftk_local_count(ctx);
    else if (apart.local_error == FTKIT_OK)
        end_local(v);
    ftk_cut_end(apart.cut, FTKIT_OK);
    apart.cut = NULL;
    apart.error = FTKIT_OK; /* the others cannot hear of it any more */
    pass_line(ctx);
    (void)FTK_FAULT("apart.commit");
    return pass_on(flushing);
}

/* ---- the cut ------------------------------------------------------------------------------ */

/* Whether a receive is under way that later messages have overtaken: then the numbers of the
 * messages of its channel are not known yet. */
static bool is_overtaken(void)
{
    ftk_overtake_tidy();
    return ftk_overtake_length() > 0;
}

/* Whether this rank may cut.  A rank that replays may not: the calls that it has still to repeat
 * follow its last cut. */
static bool may_cut(void)
{
    if (ftk_log.calls.seq < ftk_log.calls.n)
        return false;
    for (const struct ftk_req *r = ftk_log.queue.first; r; r = r->next)
        if (r->kind == FTK_REQ_RECV && r->replay.match_known)
            return false;
    return !ftk_suppress_any_left() && !ftk_det_plan_left() && !is_overtaken();
}

/* The state of the log at the cut. */
static int cut_log(struct ftkit_ctx *ctx)
{
    int rc = ftk_parts_cut(true);
    if (rc == FTKIT_OK)
        rc = ftk_requests_save(ctx);
    return rc == FTKIT_OK ? ftk_image_cut() : rc;
}

static void cut(struct ftkit_ctx *ctx)
{
    struct ftk_log *l = &ftk_log;
    (void)FTK_FAULT("apart.cut");
    take_request(ctx);
    apart.calls = ctx->policy.calls;
    apart.error = cut_log(ctx);
    l->apart.set = apart.set;
    l->apart.open = true;
    l->apart.told = false;
    if (apart.error == FTKIT_OK) {
        apart.cut = ftk_cut_begin(ctx, apart.set);
        if (!apart.cut)
            apart.error = ftk_fail(FTKIT_ERR_NOMEM, "a set");
    }
    apart.state = COUNTING;
    note_error();
    const int sent = ftk_numbers_send(FTK_TAG_COUNTS, apart.set);
    apart.error = sent < apart.error ? sent : apart.error;
    note_error();
}

/* ---- closing: late messages ----------------------------------------------------------------- */

/* Whether a late message of a channel has not come: it is in flight, or its receive is under way
 * and later messages have overtaken it. */
static bool lacks(const struct ftk_channel *s)
{
    if (s->count < s->at_cut)
        return true;
    for (struct ftk_req *q = ftk_overtake_length() > 0 ? ftk_log.queue.first : NULL; q;
         q = q->next) {
        const size_t later = ftk_overtake_count(s, q);
        if (later > 0 && s->count - later < s->at_cut)
            return true;
    }
    return false;
}

/* Take a message of that source which no receive has matched.  The first one in the order of the
 * MPI comes first, so messages of the source do not overtake. */
static int drain_from(const struct ftk_channel *s)
{
    MPI_Message m;
    MPI_Status st;
    int flag = 0;
    const int comm = ftk_context_comm(s->context);
    if (!ftk_p2p_can_drain())
        return FTKIT_OK;
    int rc = PMPI_Improbe(s->source, MPI_ANY_TAG, ftk_log.epoch.real[comm], &flag, &m, &st);
    if (rc == MPI_SUCCESS && flag)
        rc = st.MPI_TAG == FTK_CONTROL_TAG && ftk_log.mode->in_band
                 ? ftk_log.mode->control(comm, &m, &st)
                 : ftk_p2p_drain_later(comm, &m, &st);
    if (rc == MPI_SUCCESS)
        return FTKIT_OK;
    if (!ftk_p2p_is_failure(rc))
        return ftk_fail_mpi(rc, "draining a late message");
    ftk_note_failure();
    return FTKIT_ERR_PEER;
}

/* One look for late messages.  *all: all have come. */
static int drain_late(bool *all)
{
    int rc = FTKIT_OK;
    *all = true;
    ftk_drain_poll();
    for (size_t i = 0; rc == FTKIT_OK && i < ftk_log.channels.table.n; i++) {
        if (!lacks(&ftk_log.channels.v[i]))
            continue;
        *all = false;
        const struct ftk_channel s = ftk_log.channels.v[i]; /* the array may move */
        rc = drain_from(&s);
    }
    return rc;
}

/* ---- steps ------------------------------------------------------------------------------- */

static int all_have_cut(void)
{
    ftk_log.apart.told = true;
    ftk_det_stop();
    apart.state = CLOSING;
    (void)FTK_FAULT("apart.all");
    return ftk_numbers_send(FTK_TAG_EARLY, apart.set);
}

static int all_are_closed(void)
{
    (void)FTK_FAULT("apart.early");
    int rc = ftk_image_settle();
    if (rc == FTKIT_OK)
        rc = ftk_alone_check();
    apart.error = apart.error == FTKIT_OK ? rc : apart.error;
    ftk_cut_close(apart.cut);
    (void)FTK_FAULT("apart.tail");
    apart.state = SIZING;
    return apart.local ? ftk_cut_begin_local(apart.cut) : FTKIT_OK;
}

/* The result of a round has come: the next step. */
static int heard(const struct ftk_vote *v)
{
    const int error = (int)v->min[WORD_ERROR];
    if (error != FTKIT_OK)
        return give_up(error);
    switch (apart.state) {
    case COUNTED:
        return all_have_cut();
    case CLOSED:
        return all_are_closed();
    case SIZED:
        if (v->min[WORD_LOCAL_ERROR] != FTKIT_OK)
            end_local(v);
        apart.state = SENDING;
        return FTKIT_OK;
    default:
        return commit(v);
    }
}

static int listen_for(enum phase p)
{
    struct ftk_vote v;
    return ftk_tally_heard(apart.tally, round_of(p), &v) ? heard(&v) : FTKIT_OK;
}

static int hear_initiation(void)
{
    struct ftk_vote v;
    uint64_t round;
    if (!ftk_tally_announced(apart.tally, &round, &v))
        return FTKIT_OK;
    apart.set = round / PHASES;
    apart.durable = (int)v.min[WORD_DURABLE];
    apart.local = v.min[WORD_LOCAL] == 1;
    apart.ask = (int)v.min[WORD_ASK];
    if (apart.ask >= apart.asked)
        apart.asked = 0; /* else rank 0 gets it when this set is initiated already */
    apart.since_s = ftk_now_s();
    apart.warned = false;
    apart.state = INITIATED;
    ftk_tally_void(apart.tally, round + 1); /* rounds of earlier sets are over */
    (void)FTK_FAULT("apart.initiate");
    return FTKIT_OK;
}

/* Rank 0: a rank has not cut for a long time.  No rank has the result of the round, so all give the
 * set up. */
static int lose_patience(void)
{
    struct ftk_vote v;
    const double limit_s = GIVE_UP_AFTER * ftk_log.ctx->cfg.patience_s;
    if (ftk_log.me != 0 || ftk_now_s() - apart.since_s < limit_s
        || ftk_tally_heard(apart.tally, round_of(PHASE_CUT), &v))
        return FTKIT_OK;
    ftk_report(FTKIT_WARNING,
        "context %s: set %llu is given up: a rank has not called ftkit_checkpoint for %.0f s",
        ftk_log.ctx->cfg.name, (unsigned long long)apart.set, limit_s);
    ftk_vote_init(&v);
    v.min[WORD_ERROR] = FTKIT_ERR_STATE;
    return ftk_tally_announce(apart.tally, round_of(PHASE_CUT), &v);
}

static int step_counting(void)
{
    struct ftk_vote v;
    int rc = ftk_numbers_take(FTK_TAG_COUNTS, apart.set);
    if (rc == FTKIT_OK)
        rc = lose_patience();
    if (rc != FTKIT_OK)
        return rc;
    if (ftk_tally_heard(apart.tally, round_of(PHASE_CUT), &v))
        return heard(&v);
    if (apart.state == COUNTED)
        return FTKIT_OK;
    (void)FTK_FAULT("apart.counts");
    return ftk_numbers_are_taken() ? ended(PHASE_CUT) : FTKIT_OK;
}

/* This rank has not cut yet. */
static int step_initiated(void)
{
    struct ftk_vote v;
    const struct ftkit_ctx *ctx = ftk_log.ctx;
    const double wait_s = ftk_now_s() - apart.since_s;
    if (!apart.warned && wait_s > ctx->cfg.patience_s) {
        apart.warned = true;
        ftk_report(FTKIT_WARNING,
            "context %s: set %llu waits for rank %d, which has not called ftkit_checkpoint for "
            "%.0f s (or is still behind its state before a failure)",
            ctx->cfg.name, (unsigned long long)apart.set, ftk_log.me, wait_s);
    }
    if (!ftk_tally_heard(apart.tally, round_of(PHASE_CUT), &v)) /* rank 0 has lost patience */
        return lose_patience();
    apart.state = AWAY;
    ftk_set_number(ftk_log.ctx, apart.set + 1);
    return say(PHASE_SEEN, FTKIT_OK, true);
}

static int step_closing(void)
{
    bool all = true;
    int rc = ftk_numbers_take(FTK_TAG_EARLY, apart.set);
    if (rc != FTKIT_OK || apart.state == CLOSED)
        return rc != FTKIT_OK ? rc : listen_for(PHASE_CLOSED);
    (void)FTK_FAULT("apart.late");
    rc = drain_late(&all);
    return rc == FTKIT_OK && all && ftk_numbers_are_taken() ? ended(PHASE_CLOSED) : rc;
}

static int step(void)
{
    bool done = false;
    int rc = ftk_tally_poll(apart.tally);
    if (rc != FTKIT_OK)
        return rc;
    switch (apart.state) {
    case AWAY:
        return hear_initiation();
    case INITIATED:
        return step_initiated();
    case COUNTING:
    case COUNTED:
        return step_counting();
    case CLOSING:
    case CLOSED:
        return step_closing();
    case SIZING:
        rc = ftk_cut_sizes(apart.cut, &done);
        return rc == FTKIT_OK && done ? ended(PHASE_SIZED) : rc;
    case SIZED:
        return listen_for(PHASE_SIZED);
    case SENDING:
        rc = ftk_cut_send(apart.cut, &done);
        ftk_drain_poll(); /* no call of the program may look after a request that it has freed */
        return rc == FTKIT_OK && done && !ftk_p2p_sends_before(ftk_log.slog.generation)
                   ? ended(PHASE_SENT)
                   : rc;
    case SENT:
        return listen_for(PHASE_SENT);
    case STARTING:
        return step_starting();
    default:
        return FTKIT_OK;
    }
}

/* Take steps until one waits for other ranks. */
static int steps(void)
{
    enum state before;
    int rc;
    do {
        before = apart.state;
        rc = step();
        note_error();
    } while (rc == FTKIT_OK && apart.state > before);
    return rc;
}

static bool is_usable(const struct ftkit_ctx *ctx)
{
    return ftk_log.on && !ftk_log_is_rolling_back() && !ftk_log_replays_setup()
           && !ctx->detect.failed && !ctx->detect.repairing && ctx->where >= FTK_IN_LOOP
           && ctx->where < FTK_ALL_CLOSED && ctx->committed > 0 && apart.state != FROZEN;
}

static void take_turn(void)
{
    static bool inside;
    struct ftkit_ctx *ctx = ftk_log.ctx;
    if (inside || !is_usable(ctx))
        return;
    inside = true;
    if (!apart.tally)
        apart.tally = ftk_tally_open(ctx);
    int rc = apart.tally ? steps() : FTKIT_OK;  /* no memory: the next turn tries again */
    if (rc != FTKIT_OK && rc != FTKIT_ERR_PEER) /* the others cannot learn of it: see give_up() */
        apart.error = rc < apart.error ? rc : apart.error;
    note_error();
    inside = false;
}

/* While a set is open a wait takes steps sooner, but not sooner than 10 us after the last one: a
 * step costs as much as a message. */
static void turn(unsigned turns)
{
    if (turns % FTK_TURNS_WATCH != 0) {
        if (!ftk_log.apart.open || ftk_now_s() - apart.turned_s < TURN_S)
            return;
        apart.turned_s = ftk_now_s();
    }
    take_turn();
}

/* ---- in ftkit_checkpoint() ------------------------------------------------------------------ */

/* What this rank asks rank 0 for, besides the period; 0: nothing. */
static int64_t asks_for(struct ftkit_ctx *ctx)
{
    const int ask = ftk_steer_ask(ctx);
    if (ask != FTK_ASK_NOTHING)
        return ask == FTK_ASK_HALT ? ASK_HALT : ASK_OUTSIDE;
    if (ctx->policy.requested)
        return ctx->policy.requested == 2 ? ASK_DURABLE : ASK_SET;
    return ftk_log_calls_left(ctx, false) == 0 ? ASK_SET : 0;
}

static void ask(struct ftkit_ctx *ctx)
{
    const int64_t number = asks_for(ctx);
    if (number <= apart.asked || ftk_tally_ask(apart.tally, number) != FTKIT_OK)
        return;
    apart.asked = number;
}

/* Rank 0: a set is due, and no other is open anywhere. */
static void initiate(struct ftkit_ctx *ctx)
{
    struct ftk_vote v;
    if (apart.busy && !ftk_tally_heard(apart.tally, round_of(PHASE_SEEN), &v))
        return;
    apart.busy = false;
    if (ftk_now_s() < apart.again_s)
        return;
    const int64_t others = ftk_tally_asked(apart.tally), own = asks_for(ctx);
    const int64_t ask = others > own ? others : own;
    if (ask == 0 && !ftk_policy_is_due(ctx))
        return;
    ftk_vote_init(&v);
    v.voters = 0;
    v.min[WORD_DURABLE] = ask >= ASK_DURABLE && ctx->cfg.h5_enabled ? 2 : ftk_policy_durable(ctx);
    v.min[WORD_LOCAL] = ftk_local_due(ctx);
    v.min[WORD_ASK] = ask;
    apart.set = ctx->next_set;
    if (ftk_tally_announce(apart.tally, round_of(PHASE_INITIATE), &v) == FTKIT_OK)
        apart.busy = true;
}

/* Whether there is anything to look for: without a set, once in LOOK_S. */
static bool must_look(const struct ftkit_ctx *ctx)
{
    const bool by_calls = ctx->cfg.period.kind == FTK_PERIOD_COUNT;
    const double now = ftk_now_s();
    if (apart.state == AWAY && apart.result == FTKIT_OK && now - apart.looked_s < LOOK_S
        && !(ctx->rank == 0 && by_calls && ctx->policy.calls >= ctx->policy.set_at))
        return false;
    apart.looked_s = now;
    return true;
}

int ftk_apart_checkpoint(struct ftkit_ctx *ctx)
{
    if (!must_look(ctx))
        return FTKIT_OK;
    take_turn();
    if (!apart.tally || !is_usable(ctx))
        return FTKIT_OK;
    if (ctx->rank > 0 && apart.state == AWAY)
        ask(ctx);
    if (ctx->rank == 0 && apart.state == AWAY) {
        initiate(ctx);
        take_turn();
    }
    if (apart.state == INITIATED && may_cut()) {
        cut(ctx);
        take_turn();
    }
    const int rc = apart.result;
    apart.result = FTKIT_OK;
    return rc == FTKIT_OK ? rc : ftk_fail(rc, "%s", apart.why);
}

uint64_t ftk_apart_open_set(bool *waits_here)
{
    *waits_here = apart.state == INITIATED;
    return apart.state == AWAY || apart.state == STARTING ? 0 : apart.set;
}

/* ---- other calls that all ranks make together ---------------------------------------- */

static int run_to_the_end(struct ftk_chan *ch)
{
    unsigned turns = 0;
    while (apart.state != AWAY && !ch->broken) {
        take_turn();
        ftk_chan_progress(ch, &turns);
        if (ftk_log.ctx->detect.failed)
            return ftk_fail(FTKIT_ERR_PEER, "a set: a rank has failed");
    }
    return ch->broken ? ftk_fail(FTKIT_ERR_PEER, "a set: a rank has failed") : FTKIT_OK;
}

/* Some ranks cannot cut for the newest set in this call: no rank waits for them. */
static void give_up_here(struct ftkit_ctx *ctx, uint64_t newest)
{
    ftk_numbers_drop();
    if (apart.cut)
        ftk_cut_end(apart.cut, FTKIT_ERR_STATE);
    apart.cut = NULL;
    apart.error = apart.local_error = FTKIT_OK;
    if (ftk_log.apart.open)
        withdraw();
    if (apart.state == INITIATED || apart.busy)
        keep_request(ctx);
    apart.state = AWAY;
    apart.busy = false;
    ftk_set_number_past(ctx, newest);
    if (apart.tally)
        ftk_tally_void(apart.tally, (newest + 1) * PHASES);
}

/* If all ranks have cut for the same set, it is written to its end.  Otherwise the newest set,
 * for which some ranks have not cut, is given up. */
int ftk_apart_settle(struct ftkit_ctx *ctx, struct ftk_chan *ch)
{
    struct ftk_vote v;
    enum { LEAST, MOST, NEWEST };
    if (!ftk_log.apart.on || ctx->committed == 0)
        return FTKIT_OK;
    const uint64_t cut_for = ftk_log.apart.open ? apart.set : ctx->committed;
    const uint64_t initiated = apart.state == INITIATED || apart.busy ? apart.set : 0;
    ftk_vote_init(&v);
    v.min[LEAST] = (int64_t)cut_for;
    v.min[MOST] = -(int64_t)cut_for;
    v.min[NEWEST] = -(int64_t)(initiated > cut_for ? initiated : cut_for);
    int rc = ftk_vote(ch, ctx->nranks, &v);
    if (rc != FTKIT_OK)
        return rc;
    if (!apart.tally && is_usable(ctx)) /* it must not hear of the set that is given up */
        apart.tally = ftk_tally_open(ctx);
    const uint64_t newest = (uint64_t)-v.min[NEWEST];
    if (v.min[LEAST] != -v.min[MOST] || newest > (uint64_t)-v.min[MOST])
        give_up_here(ctx, newest);
    return run_to_the_end(ch);
}

/* ---- failures ------------------------------------------------------------------------ */

void ftk_apart_freeze(void)
{
    ftk_numbers_drop();
    ftk_tally_close(apart.tally);
    apart.tally = NULL;
    apart.busy = false;
    if (apart.cut)
        ftk_cut_end(apart.cut, FTKIT_ERR_PEER);
    apart.cut = NULL;
    if (apart.state == STARTING)
        ftk_policy_flush_lost(ftk_log.ctx);
    else if (apart.state != AWAY)
        keep_request(ftk_log.ctx);
    ftk_flush_start_drop(&apart.start);
    apart.asked = 0; /* messages are lost */
    apart.error = apart.local_error = FTKIT_OK;
    apart.state = ftk_log.apart.open ? FROZEN : AWAY;
}

bool ftk_apart_is_missed(const struct ftk_log_repair *r)
{
    return ftk_log.apart.open && apart.set == r->line;
}

void ftk_apart_install(struct ftkit_ctx *ctx, const struct ftk_log_repair *r)
{
    if (!ftk_log.apart.open)
        return;
    if (ftk_apart_is_missed(r)) {
        pass_line(ctx);
        if (apart.durable)
            ftk_policy_flush_lost(ctx);
    } else {
        withdraw();
    }
    apart.state = AWAY;
}

void ftk_apart_stay(const struct ftkit_ctx *ctx)
{
    if (ftk_log.apart.on && ctx->policy.next_event == FTK_HALTED)
        halt();
}

/* This rank rolls back, or the log closes: forget the open set. */
static int roll_back(const struct ftk_rollback *b)
{
    (void)b;
    ftk_log.apart.halted = ftk_log.apart.open = ftk_log.apart.told = false;
    apart.served = 0; /* the program asks again, if it did so behind the line */
    apart.state = AWAY;
    return FTKIT_OK;
}

static void close_apart(void)
{
    ftk_apart_freeze();
    (void)roll_back(NULL);
    memset(&apart, 0, sizeof apart);
}

static const struct ftk_part *if_apart(void)
{
    return ftk_log.apart.on ? &ftk_part_apart : NULL;
}

const struct ftk_part ftk_part_apart = {
    .serves = if_apart, .close = close_apart, .turn = turn, .roll_back = roll_back
};
