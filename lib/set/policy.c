/* When a set is due.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The call that writes a set by a period in calls is known to all ranks.  A period in time needs
 * one clock, that of rank 0, and one decision of all ranks.  Rank 0 estimates, from the rate of
 * calls, after how many calls a set will be due, and the vote that commits a set gives all ranks
 * this number.  At that call ("a look") one small vote decides that a set is due, or after how
 * many calls to look again.  Between looks there is no communication.  A rank whose message log
 * fills up sooner asks for an earlier look, and for a set.  Looks are taken with a period in
 * calls, too, because a rank may have got a request from outside (steer.h): every
 * checkpoint.react, or more rarely. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "core/log_ops.h"
#include "course.h"
#include "detect/detect.h"
#include "detect/watchdog.h"
#include "pack.h"
#include "period.h"
#include "policy.h"

#define PLACES 8 /* calls of ftkit_checkpoint() in a step, at most, where a set may be refused */
#define SHARE_LOOK 0.01 /* of the time that ranks wait for each other in looks, at most */
#define LOOKS_MAX 10    /* looks are at most this times rarer for that reason */
#define LOOKS_OF_LOG 10 /* ... and with the message log */
#define SHARE_FLUSH 0.1 /* cost of a flush, as a share of its time in the background */

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The lower median of the last costs.  The first set after a repair is slower: a replacement
 * touches its memory for the first time. */
double ftk_policy_usual_cost(const struct ftkit_ctx *ctx)
{
    const struct ftk_policy *p = &ctx->policy;
    double sorted[FTK_COSTS];
    size_t n = (size_t)p->ncosts;
    if (n == 0)
        return 0;
    memcpy(sorted, p->costs_s, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_size);
    return sorted[(n - 1) / 2];
}

static void remember_cost(struct ftkit_ctx *ctx, double cost_s)
{
    struct ftk_policy *p = &ctx->policy;
    memmove(p->costs_s + 1, p->costs_s, sizeof p->costs_s - sizeof *p->costs_s);
    p->costs_s[0] = cost_s;
    p->ncosts += p->ncosts < FTK_COSTS;
}

void ftk_policy_measured(struct ftkit_ctx *ctx, double cost_s)
{
    ctx->stats.checkpoint_s = cost_s;
    remember_cost(ctx, cost_s);
}

/* An automatic period is halved with each repair in a row that goes back to the same line: failures
 * that come before the next set would keep the job at this line. */
static double period_s(const struct ftkit_ctx *ctx)
{
    double cost = ftk_policy_usual_cost(ctx);
    double s = ftk_period_sets_s(&ctx->cfg, cost > 0 ? cost : FTK_FIRST_COST_S);
    if (ctx->cfg.period.kind == FTK_PERIOD_SECONDS || ctx->repair.repeats.of != ctx->committed)
        return s;
    return fmax(ldexp(s, -ctx->repair.repeats.weight / FTK_REPEAT), fmin(s, cost));
}

static bool durable_is_due(const struct ftkit_ctx *ctx)
{
    const struct ftk_period *every = &ctx->cfg.h5_every;
    if (ctx->policy.last_durable_s == 0 && ctx->incarnation > 0)
        return true; /* the lost process may have begun a set */
    if (every->kind == FTK_PERIOD_COUNT)
        return (double)(ctx->policy.sets_since_durable + 1) >= every->value;
    if (ctx->policy.last_durable_s == 0)
        return true; /* the first set also measures the cost; or a flush was given up */
    double since = ftk_now_s() - ctx->policy.last_durable_s;
    if (every->kind == FTK_PERIOD_SECONDS)
        return since >= every->value;
    double cost = ctx->policy.durable_cost_s > 0 ? ctx->policy.durable_cost_s : FTK_FIRST_COST_S;
    /* writing in the background slows the program, too */
    cost += ctx->flush.off ? 0 : SHARE_FLUSH * ctx->flush.last_s;
    return since >= ftk_period_files_s(&ctx->cfg, cost);
}

int ftk_policy_durable(const struct ftkit_ctx *ctx)
{
    if (!ctx->cfg.h5_enabled)
        return 0;
    return ctx->policy.requested == 2 ? 2 : durable_is_due(ctx);
}

void ftk_policy_flushed(struct ftkit_ctx *ctx, double blocked_s)
{
    ctx->policy.last_durable_s = ftk_now_s(); /* also after an error: do not try at every set */
    ctx->policy.durable_cost_s = blocked_s;
    ctx->policy.sets_since_durable = 0;
    ctx->stats.checkpoint_s += blocked_s;
}

void ftk_policy_flush_lost(struct ftkit_ctx *ctx)
{
    ctx->policy.last_durable_s = 0; /* the next set is due, whatever the period is */
    ctx->policy.sets_since_durable = UINT32_MAX;
}

/* Return the time until the next look.  The message log lets survivors of a failure go on while a
 * team catches up, and a look would hold them.  And a look is a synchronization, which costs
 * programs with uneven ranks more than the vote itself. */
static double look_s(const struct ftkit_ctx *ctx, double wait_s)
{
    double least = ctx->cfg.react_s * (ftk_log_of(ctx) ? LOOKS_OF_LOG : 1);
    return fmin(fmax(least, wait_s / SHARE_LOOK), LOOKS_MAX * least);
}

/* Return rank 0's estimate: after how many calls to look again; 0: a set is due.  wait_s: longest
 * wait of a rank in the last look. */
static int64_t clock_gap(struct ftkit_ctx *ctx, double wait_s)
{
    struct ftk_policy *p = &ctx->policy;
    bool count = ctx->cfg.period.kind == FTK_PERIOD_COUNT;
    double now = ftk_now_s();
    double remaining = count ? HUGE_VAL : period_s(ctx) - (now - p->last_set_s);
    if (p->calls <= p->last_look_call)
        return 1;
    uint64_t calls = p->calls - p->last_look_call;
    p->call_s = (now - p->last_look_s) / (double)calls;
    p->last_look_call = p->calls;
    p->last_look_s = now;
    if (remaining <= p->call_s / 2)
        return 0;
    p->look_s = look_s(ctx, wait_s);
    double gap = fmin(remaining, p->look_s) / fmax(p->call_s, 1e-9);
    /* the rate was measured over `calls` calls: look ahead by at most four times as many */
    return (int64_t)fmax(1, floor(fmin(gap, 4.0 * (double)calls)));
}

int64_t ftk_policy_next_gap(struct ftkit_ctx *ctx)
{
    int64_t gap = ctx->rank == 0 ? clock_gap(ctx, 0) : INT64_MAX;
    int64_t log =
        ctx->cfg.period.kind == FTK_PERIOD_COUNT ? INT64_MAX : ftk_log_calls_left(ctx, true);
    return gap < log ? gap : log;
}

/* Indices of words of the vote: calls until a set may be due; negative request (enum ftk_ask);
 * negative longest wait in the last look, in microseconds; negative bytes of the message log.  The
 * others: ftk_flush_ask_calls(). */
enum { WORD_GAP = 0, WORD_ASK = 1, WORD_WAIT = 6, WORD_HELD = 7 };

static uint64_t held_of(const struct ftkit_ctx *ctx)
{
    ftkit_info info = { .size = sizeof info };
    ftk_log_stats(ctx, &info);
    return info.log_held;
}

/* Vote whether a set is due; if not, on the call of the next look. */
static int look(struct ftkit_ctx *ctx, bool *write)
{
    struct ftk_policy *p = &ctx->policy;
    bool count = ctx->cfg.period.kind == FTK_PERIOD_COUNT;
    struct ftk_vote v;
    struct ftk_chan ch = ftk_chan_of(ctx);
    double begin_s = ftk_now_s();
    ftk_vote_init(&v);
    int64_t log = count ? INT64_MAX : ftk_log_calls_left(ctx, false);
    int64_t clock = ctx->rank == 0 ? clock_gap(ctx, p->wait_s) : INT64_MAX;
    v.min[WORD_GAP] = p->requested ? 0 : clock < log ? clock : log;
    v.min[WORD_ASK] = -ftk_steer_ask(ctx);
    v.min[WORD_WAIT] = -(int64_t)(1e6 * p->wait_s);
    v.min[WORD_HELD] = -(int64_t)held_of(ctx);
    ftk_flush_ask_calls(ctx, FTK_DRAIN_LOOK, &v);
    int rc = ftk_vote(&ch, ctx->nranks, &v);
    if (rc != FTKIT_OK)
        return rc;
    if (!ftk_vote_is_same(&v, FTK_VOTE_CALLS))
        return ftk_flush_mismatch(ctx, &v);
    /* rank 0 takes the longest wait into account at its next look */
    p->wait_s = ctx->rank == 0 ? fmax(ftk_now_s() - begin_s, -1e-6 * (double)v.min[WORD_WAIT])
                               : ftk_now_s() - begin_s;
    *write = v.min[WORD_GAP] == 0 || v.min[WORD_ASK] < 0;
    p->next_event = p->calls + (uint64_t)v.min[WORD_GAP];
    if (count && p->next_event > p->set_at)
        p->next_event = p->set_at;
    p->log_held = (uint64_t)-v.min[WORD_HELD];
    return FTKIT_OK;
}

int ftk_policy_decide(struct ftkit_ctx *ctx, bool *write)
{
    const struct ftk_policy *p = &ctx->policy;
    *write = true;
    if (p->requested || ftk_policy_first_is_due(ctx))
        return FTKIT_OK;
    *write = p->calls >= p->next_event;
    if (!*write || ctx->replica.stale != 0)
        return FTKIT_OK;
    if (ctx->cfg.period.kind == FTK_PERIOD_COUNT && p->calls >= p->set_at)
        return FTKIT_OK;
    return look(ctx, write);
}

/* The next call, in which a replacement may count a call more: see count_first_call(). */
static uint64_t next_call(const struct ftkit_ctx *ctx)
{
    const bool bottom =
        ctx->first_call && ctx->restored > 0 && ftk_region_state_sum(ctx) != ctx->state_sum;
    return ctx->policy.calls + (bottom ? 2 : 1);
}

/* Whether all ranks know without a vote that this call writes a set. */
static bool all_know(const struct ftkit_ctx *ctx)
{
    const struct ftk_policy *p = &ctx->policy;
    return ftk_policy_first_is_due(ctx) || ctx->replica.stale != 0
           || (ctx->cfg.period.kind == FTK_PERIOD_COUNT && p->calls >= p->set_at);
}

int ftk_policy_foresee(struct ftkit_ctx *ctx, bool *write)
{
    struct ftk_policy *p = &ctx->policy;
    const uint64_t calls = p->calls;
    /* A replacement in front of call 1 is alone: the others are behind theirs. */
    *write = false;
    if (ctx->first_call && ctx->restored > 0 && next_call(ctx) == calls + 1) {
        *write = p->early > 0 && !ctx->repair.line_passed;
        return FTKIT_OK;
    }
    p->calls = next_call(ctx);
    int rc = FTKIT_OK;
    if (p->requested && !all_know(ctx)) { /* by this rank; others may have asked, or look */
        ftk_watchdog_at(ctx->dog, FTK_AT_REQUEST, ctx->rank, p->calls);
        rc = look(ctx, write);
    } else {
        rc = ftk_policy_decide(ctx, write);
    }
    p->calls = calls;
    if (rc == FTKIT_OK && *write && p->requested == 0)
        p->requested = 1;
    return rc;
}

void ftk_policy_request(struct ftkit_ctx *ctx, int kind)
{
    /* with a line apart a request of one rank alone is right */
    const bool first = ctx->first_call && ctx->restored > 0 && !ftk_log_apart(ctx);
    *(first ? &ctx->policy.early : &ctx->policy.requested) = kind;
}

void ftk_policy_first_call(struct ftkit_ctx *ctx, bool served)
{
    struct ftk_policy *p = &ctx->policy;
    if (!served && p->early > p->requested)
        p->requested = p->early;
    else if (served && p->early == 2)
        ctx->steer.owed = true;
    p->early = 0;
}

bool ftk_policy_at_line(const struct ftkit_ctx *ctx)
{
    const struct ftk_policy *p = &ctx->policy;
    bool near;
    if (ftk_log_apart(ctx) || p->next_event == FTK_HALTED)
        return false;
    if (!ftk_log_of(ctx))
        near = ctx->repair.line > 0 && ctx->repair.line == ctx->committed && p->calls <= 1;
    else
        near =
            ctx->first_call ? ctx->restored > 0 : ctx->committed > 0 && p->calls == p->line_calls;
    return near && ftk_region_state_sum(ctx) == ctx->state_sum;
}

bool ftk_policy_spares(const struct ftkit_ctx *ctx)
{
    if (ftk_log_of(ctx) ? !ctx->first_call || ftk_log_rolling_back(ctx) : ctx->detect.failed)
        return false;
    return ftk_policy_at_line(ctx);
}

void ftk_policy_note_state(struct ftkit_ctx *ctx)
{
    ctx->state_sum = ftk_region_state_sum(ctx);
}

void ftk_policy_line(struct ftkit_ctx *ctx)
{
    ctx->policy.line_calls = ctx->policy.calls;
    ftk_policy_note_state(ctx);
}

void ftk_policy_committed(struct ftkit_ctx *ctx, int64_t gap)
{
    struct ftk_policy *p = &ctx->policy;
    p->requested = p->refused = 0;
    p->failed = false;
    p->last_set_s = ftk_now_s();
    ftk_course_line(ctx);
    p->next_event = p->calls + (gap > 0 ? (uint64_t)gap : 1);
    if (ctx->cfg.period.kind == FTK_PERIOD_COUNT)
        p->set_at = p->calls + (uint64_t)ctx->cfg.period.value;
    if (ctx->cfg.period.kind == FTK_PERIOD_COUNT && p->next_event > p->set_at)
        p->next_event = p->set_at;
}

bool ftk_policy_is_due(struct ftkit_ctx *ctx)
{
    const struct ftk_policy *p = &ctx->policy;
    if (ctx->cfg.period.kind == FTK_PERIOD_COUNT)
        return p->calls >= p->set_at;
    return ftk_now_s() - p->last_set_s >= period_s(ctx);
}

void ftk_policy_set_due(struct ftkit_ctx *ctx, uint64_t call)
{
    ctx->policy.next_event = ctx->policy.set_at = call;
    ctx->policy.last_set_s = -HUGE_VAL; /* for any period in time the last set is too old */
}

void ftk_policy_tried(struct ftkit_ctx *ctx)
{
    ctx->policy.last_set_s = ftk_now_s();
    ctx->policy.set_at = ctx->policy.calls + (uint64_t)ctx->cfg.period.value;
}

void ftk_policy_failed(struct ftkit_ctx *ctx, int rc)
{
    struct ftk_policy *p = &ctx->policy;
    if (rc == FTKIT_ERR_STATE && ++p->refused < PLACES)
        return; /* the set stays due */
    p->refused = 0;
    p->requested = 0; /* the program knows that its request has failed */
    if (ctx->replica.stale != 0 || p->next_event == FTK_HALTED)
        return; /* a plane waits for this set; or the job halts without it */
    p->failed = true;
    ftk_policy_tried(ctx);
    p->next_event = p->calls + 1; /* the next look: rank 0 says when to look again */
}

void ftk_policy_take_costs(struct ftkit_ctx *ctx, double set_s, double durable_s)
{
    if (set_s > 0)
        remember_cost(ctx, set_s);
    ctx->policy.durable_cost_s = durable_s;
}

void ftk_policy_back(struct ftkit_ctx *ctx, uint64_t line_calls, uint64_t next_event)
{
    ctx->policy.line_calls = line_calls;
    ctx->policy.calls = ctx->policy.last_look_call = line_calls - 1;
    ctx->policy.last_look_s = ftk_now_s();
    ftk_policy_set_event(ctx, next_event);
    ctx->policy.failed = false;
    ctx->policy.refused = 0;
    if (ctx->cfg.period.kind == FTK_PERIOD_COUNT)
        ctx->policy.set_at = line_calls + (uint64_t)ctx->cfg.period.value;
    if (ctx->steer.halt == FTK_HALT_DURABLE)
        ctx->steer.halt = FTK_HALT_AGREED;
}

void ftk_policy_reset(struct ftkit_ctx *ctx)
{
    ctx->policy.requested = ctx->policy.early = 0;
    ctx->policy.last_set_s = ftk_now_s();
    /* Call 1 stands for the call that wrote the line: it is the call in which a survivor rolls
     * back, and the first call of a replacement. */
    ftk_policy_back(ctx, 1, FTK_POLICY_FIRST_EVENT);
}
