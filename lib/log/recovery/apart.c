/* checkpoint.line = apart: each rank cuts at its own next call of ftkit_checkpoint() (apart.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * This file gathers the events.  apart_step.c decides; its first comment has the states of a set.
 * apart_do.c carries the actions out. */
#include "apart.h"

#include <string.h>

#include "core/tags.h"
#include "log/determinant/det.h"
#include "log/request/overtake.h"
#include "log/request/receives.h"
#include "log/request/send.h"
#include "set/checkpoint.h"
#include "set/policy.h"
#include "set/steer.h"
#include "apart_do.h"
#include "numbers.h"
#include "steps.h"

#define LOOK_S 0.001 /* between two looks in ftkit_checkpoint() while no set is open */
#define TURN_S 1e-5  /* between two steps in calls of MPI that do not wait long */

static struct {
    double looked_s; /* of LOOK_S */
    double turned_s; /* of TURN_S */
} apart;

static int happens(enum ftk_apart_event_kind kind)
{
    return ftk_apart_happens((struct ftk_apart_event){ .kind = kind });
}

static bool heard(enum ftk_apart_round r, struct ftk_vote *v)
{
    return ftk_tally_heard(ftk_apart.tally, ftk_apart_number(ftk_apart.rank.set, r), v);
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
    ftk_receives_look();
    return ftk_receives_may_cut() && !ftk_suppress_any_left() && !ftk_det_plan_left()
           && !is_overtaken();
}

/* ---- steps ------------------------------------------------------------------------------- */

static int listen(void)
{
    struct ftk_apart_event e = { .kind = FTK_ON_RESULT };
    struct ftk_vote v;
    if (!heard(ftk_apart_round_of(ftk_apart.rank.state), &v))
        return FTKIT_OK;
    ftk_apart.heard = v;
    e.words.error = (int)v.min[FTK_WORD_ERROR];
    e.words.local_error = (int)v.min[FTK_WORD_LOCAL_ERROR];
    return ftk_apart_happens(e);
}

static int hear_initiation(void)
{
    struct ftk_apart_event e = { .kind = FTK_ON_INITIATION };
    struct ftk_vote v;
    uint64_t round;
    if (!ftk_tally_announced(ftk_apart.tally, &round, &v))
        return FTKIT_OK;
    e.set = round / FTK_ROUND_MOST;
    e.words.durable = (int)v.min[FTK_WORD_DURABLE];
    e.words.local = v.min[FTK_WORD_LOCAL] == 1;
    e.words.want = (int)v.min[FTK_WORD_WANT];
    const int rc = ftk_apart_happens(e);
    (void)FTK_FAULT("apart.initiate");
    return rc;
}

/* Rank 0: a rank has not cut for a long time. */
static int lose_patience(void)
{
    struct ftk_vote v;
    if (ftk_log.me != 0
        || ftk_now_s() - ftk_apart.since_s < FTK_APART_GIVE_UP * ftk_log.ctx->cfg.patience_s
        || heard(FTK_ROUND_CUT, &v))
        return FTKIT_OK;
    return happens(FTK_ON_PATIENCE);
}

static int step_counting(void)
{
    struct ftk_vote v;
    int rc = ftk_numbers_take(FTK_TAG_COUNTS, ftk_apart.rank.set);
    if (rc == FTKIT_OK)
        rc = lose_patience();
    if (rc != FTKIT_OK)
        return rc;
    if (heard(FTK_ROUND_CUT, &v) || ftk_apart.rank.state == FTK_APART_COUNTED)
        return listen();
    (void)FTK_FAULT("apart.counts");
    return ftk_numbers_are_taken() ? happens(FTK_ON_READY) : FTKIT_OK;
}

/* This rank has not cut yet. */
static int step_initiated(void)
{
    struct ftk_vote v;
    const struct ftkit_ctx *ctx = ftk_log.ctx;
    const double wait_s = ftk_now_s() - ftk_apart.since_s;
    if (!ftk_apart.warned && wait_s > ctx->cfg.patience_s) {
        ftk_apart.warned = true;
        ftk_report(FTKIT_WARNING,
            "context %s: set %llu waits for rank %d, which has not called ftkit_checkpoint for "
            "%.0f s (or is still behind its state before a failure)",
            ctx->cfg.name, (unsigned long long)ftk_apart.rank.set, ftk_log.me, wait_s);
    }
    return heard(FTK_ROUND_CUT, &v) ? listen() : lose_patience();
}

static int step_closing(void)
{
    bool all = true;
    int rc = ftk_numbers_take(FTK_TAG_EARLY, ftk_apart.rank.set);
    if (rc != FTKIT_OK || ftk_apart.rank.state == FTK_APART_CLOSED)
        return rc != FTKIT_OK ? rc : listen();
    (void)FTK_FAULT("apart.late");
    rc = ftk_drain_late(&all);
    return rc == FTKIT_OK && all && ftk_numbers_are_taken() ? happens(FTK_ON_READY) : rc;
}

static int step_sizing(void)
{
    bool done = false;
    const int rc = ftk_cut_sizes(ftk_apart.cut, &done);
    return rc == FTKIT_OK && done ? happens(FTK_ON_READY) : rc;
}

static int step_sending(void)
{
    bool done = false;
    const int rc = ftk_cut_send(ftk_apart.cut, &done);
    ftk_drain_poll(); /* no call of the program may look after a request that it has freed */
    return rc == FTKIT_OK && done && !ftk_send_needs_before(ftk_slog_generation())
               ? happens(FTK_ON_READY)
               : rc;
}

static int step_committed(void)
{
    static const enum ftk_apart_how hows[] = { [FTK_FLUSH_NOT] = FTK_HOW_NOT,
        [FTK_FLUSH_NOW] = FTK_HOW_BEHIND,
        [FTK_FLUSH_AFTER] = FTK_HOW_AFTER,
        [FTK_FLUSH_WAIT] = FTK_HOW_WAIT };
    struct ftk_apart_event e = { .kind = FTK_ON_HOW };
    (void)FTK_FAULT("apart.commit");
    e.how = hows[ftk_flush_how(
        ftk_log.ctx, ftk_apart.rank.set, ftk_apart.rank.durable, ftk_apart.flushing)];
    return ftk_apart_happens(e);
}

static int step_starting(void)
{
    struct ftk_apart_event e = { .kind = FTK_ON_FLUSHED };
    bool done = false;
    const double begin_s = ftk_now_s();
    const int rc = ftk_flush_start_step(&ftk_apart.start, &done);
    ftk_apart.start_s += ftk_now_s() - begin_s;
    if (rc == FTKIT_ERR_PEER || (rc == FTKIT_OK && !done))
        return rc;
    ftk_policy_flushed(ftk_log.ctx, ftk_apart.start_s);
    e.words.error = rc;
    return ftk_apart_happens(e);
}

static int step(void)
{
    const int rc = ftk_tally_poll(ftk_apart.tally);
    if (rc != FTKIT_OK)
        return rc;
    switch (ftk_apart.rank.state) {
    case FTK_APART_AWAY:
        return hear_initiation();
    case FTK_APART_INITIATED:
        return step_initiated();
    case FTK_APART_COUNTING:
    case FTK_APART_COUNTED:
        return step_counting();
    case FTK_APART_CLOSING:
    case FTK_APART_CLOSED:
        return step_closing();
    case FTK_APART_SIZING:
        return step_sizing();
    case FTK_APART_SENDING:
        return step_sending();
    case FTK_APART_SIZED:
    case FTK_APART_SENT:
        return listen();
    case FTK_APART_COMMITTED:
        return step_committed();
    case FTK_APART_STARTING:
        return step_starting();
    default:
        return FTKIT_OK;
    }
}

/* Take steps until one waits for other ranks. */
static int steps(void)
{
    enum ftk_apart_state before;
    int rc;
    do {
        before = ftk_apart.rank.state;
        rc = step();
        ftk_apart_note_error();
    } while (rc == FTKIT_OK && ftk_apart.rank.state > before);
    return rc;
}

static bool is_usable(const struct ftkit_ctx *ctx)
{
    return ftk_log.on && !ftk_log_is_rolling_back() && !ftk_log_replays_setup()
           && !ctx->detect.failed && !ctx->detect.repairing && ctx->where >= FTK_IN_LOOP
           && ctx->where < FTK_ALL_CLOSED && ctx->committed > 0
           && ftk_apart.rank.state != FTK_APART_FROZEN;
}

static void take_turn(void)
{
    static bool inside;
    struct ftkit_ctx *ctx = ftk_log.ctx;
    if (inside || !is_usable(ctx))
        return;
    inside = true;
    if (!ftk_apart.tally)
        ftk_apart.tally = ftk_tally_open(ctx);
    const int rc = ftk_apart.tally ? steps() : FTKIT_OK; /* no memory: the next turn tries again */
    if (rc != FTKIT_OK && rc != FTKIT_ERR_PEER) /* the others cannot learn of it: see give_up() */
        ftk_apart_fails(rc);
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
static int wants(struct ftkit_ctx *ctx)
{
    const int ask = ftk_steer_ask(ctx);
    if (ask != FTK_ASK_NOTHING)
        return ask == FTK_ASK_HALT ? FTK_WANT_HALT : FTK_WANT_OUTSIDE;
    if (ctx->policy.requested)
        return ctx->policy.requested == 2 ? FTK_WANT_DURABLE : FTK_WANT_SET;
    return ftk_log_calls_left(ctx, false) == 0 ? FTK_WANT_SET : 0;
}

/* Rank 0: initiate a set if one is due, and no other is open anywhere. */
static void look_for_due(struct ftkit_ctx *ctx)
{
    struct ftk_apart_event e = { .kind = FTK_ON_DUE };
    struct ftk_vote v;
    if (ftk_apart.rank.busy && heard(FTK_ROUND_SEEN, &v))
        (void)happens(FTK_ON_SEEN);
    if (ftk_apart.rank.busy || ftk_now_s() < ftk_apart.again_s)
        return;
    const int others = (int)ftk_tally_asked(ftk_apart.tally), own = wants(ctx);
    e.words.want = others > own ? others : own;
    if (e.words.want == 0 && !ftk_policy_is_due(ctx))
        return;
    e.set = ctx->next_set;
    e.words.durable =
        e.words.want >= FTK_WANT_DURABLE && ctx->cfg.h5_enabled ? 2 : ftk_policy_durable(ctx);
    e.words.local = ftk_local_due(ctx);
    (void)ftk_apart_happens(e);
}

/* Whether there is anything to look for: without a set, once in LOOK_S. */
static bool must_look(const struct ftkit_ctx *ctx)
{
    const bool by_calls = ctx->cfg.period.kind == FTK_PERIOD_COUNT;
    const double now = ftk_now_s();
    if (ftk_apart.rank.state == FTK_APART_AWAY && ftk_apart.result == FTKIT_OK
        && now - apart.looked_s < LOOK_S
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
    if (!ftk_apart.tally || !is_usable(ctx))
        return FTKIT_OK;
    if (ctx->rank > 0 && ftk_apart.rank.state == FTK_APART_AWAY)
        (void)ftk_apart_happens(
            (struct ftk_apart_event){ .kind = FTK_ON_WANT, .words = { .want = wants(ctx) } });
    if (ctx->rank == 0 && ftk_apart.rank.state == FTK_APART_AWAY) {
        look_for_due(ctx);
        take_turn();
    }
    if (ftk_apart.rank.state == FTK_APART_INITIATED && may_cut()) {
        (void)FTK_FAULT("apart.cut");
        (void)happens(FTK_ON_CALL);
        take_turn();
    }
    const int rc = ftk_apart.result;
    ftk_apart.result = FTKIT_OK;
    return rc == FTKIT_OK ? rc : ftk_fail(rc, "%s", ftk_apart.why);
}

bool ftk_apart_is_halted(void)
{
    return ftk_apart.rank.halted;
}

/* The set that is initiated or open, as far as this rank knows; 0: none.  *waits_here: this rank
 * has not cut for it. */
static uint64_t open_set(bool *waits_here)
{
    const enum ftk_apart_state state = ftk_apart.rank.state;
    *waits_here = state == FTK_APART_INITIATED;
    return state == FTK_APART_AWAY || state == FTK_APART_COMMITTED || state == FTK_APART_STARTING
               ? 0
               : ftk_apart.rank.set;
}

/* ---- other calls that all ranks make together ---------------------------------------- */

static int run_to_the_end(struct ftk_chan *ch)
{
    unsigned turns = 0;
    while (ftk_apart.rank.state != FTK_APART_AWAY && !ch->broken) {
        take_turn();
        ftk_chan_progress(ch, &turns);
        if (ftk_log.ctx->detect.failed)
            return ftk_fail(FTKIT_ERR_PEER, "a set: a rank has failed");
    }
    return ch->broken ? ftk_fail(FTKIT_ERR_PEER, "a set: a rank has failed") : FTKIT_OK;
}

/* If all ranks have cut for the same set, it is written to its end.  Otherwise the newest set,
 * for which some ranks have not cut, is given up. */
int ftk_apart_finish_set(struct ftkit_ctx *ctx, struct ftk_chan *ch)
{
    struct ftk_apart_event e = { .kind = FTK_ON_MEETING };
    struct ftk_vote v;
    enum { LEAST, MOST, NEWEST };
    if (!ftk_log.apart.on || ctx->committed == 0)
        return FTKIT_OK;
    const uint64_t cut_for = ftk_apart_cut_for(&ftk_apart.rank, ctx->committed);
    const uint64_t known = ftk_apart_knows(&ftk_apart.rank);
    ftk_vote_init(&v);
    v.min[LEAST] = (int64_t)cut_for;
    v.min[MOST] = -(int64_t)cut_for;
    v.min[NEWEST] = -(int64_t)(known > cut_for ? known : cut_for);
    int rc = ftk_vote(ch, ctx->nranks, &v);
    if (rc != FTKIT_OK)
        return rc;
    if (!ftk_apart.tally && is_usable(ctx)) /* it must not hear of the set that is given up */
        ftk_apart.tally = ftk_tally_open(ctx);
    e.least = (uint64_t)v.min[LEAST];
    e.most = (uint64_t)-v.min[MOST];
    e.set = (uint64_t)-v.min[NEWEST];
    (void)ftk_apart_happens(e);
    return run_to_the_end(ch);
}

/* ---- failures ------------------------------------------------------------------------ */

static void freeze(void)
{
    (void)happens(FTK_ON_FAILURE);
}

static void settle_set(const struct ftk_log_repair *r)
{
    if (ftk_log.apart.open)
        (void)ftk_apart_happens((struct ftk_apart_event){ .kind = FTK_ON_LINE, .set = r->line });
}

/* If the line is that of a halt, this rank halts, too. */
static int stay(const struct ftk_log_repair *r)
{
    (void)r;
    if (ftk_log.ctx->policy.next_event == FTK_HALTED)
        (void)happens(FTK_ON_STAY);
    return FTKIT_OK;
}

static int roll_back(const struct ftk_rollback *b)
{
    (void)b;
    return happens(FTK_ON_ROLLBACK);
}

static void close_apart(void)
{
    freeze();
    (void)roll_back(NULL);
    memset(&apart, 0, sizeof apart);
    memset(&ftk_apart, 0, sizeof ftk_apart);
}

static void figures(ftkit_info *info)
{
    bool waits_here;
    info->line_open = open_set(&waits_here);
    info->line_waits_here = waits_here;
}

static const struct ftk_part *if_apart(void)
{
    return ftk_log.apart.on ? &ftk_part_apart : NULL;
}

const struct ftk_part ftk_part_apart = { .serves = if_apart,
    .close = close_apart,
    .figures = figures,
    .turn = turn,
    .freeze = freeze,
    .settle_set = settle_set,
    .stay = stay,
    .roll_back = roll_back };
