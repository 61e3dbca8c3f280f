/* When is a set due?
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A period in calls needs no communication.  A period in time needs one clock, that of rank 0, and
 * one decision of all ranks.  Rank 0 estimates, from the rate of calls, after how many calls a set
 * will be due, and the vote that commits a set tells all ranks this number.  At that call ("a
 * look") one small vote decides that a set is due, or after how many calls to look again.  Between
 * looks there is no communication.  A rank whose message log fills up sooner asks for an earlier
 * look, and for a set. */
#include <math.h>

#include "checkpoint.h"
#include "core/log_ops.h"
#include "detect/detect.h"

/* Share of failures that the memory levels survive; the rest needs the file system
 * (Moody et al., SC 2010: about 85 %). */
#define SHARE_MEMORY 0.85
#define FIRST_COST_S 0.5 /* assumed until a set has been measured */
#define SHARE_FLUSH 0.1  /* cost of a flush, as a share of its time in the background */

/* Return the optimal compute time between checkpoints, in seconds.  A checkpoint costs cost_s, and
 * a failure comes every mtbf_s (Daly, FGCS 22 (2006), higher order; mtbf_s if cost_s >= 2
 * mtbf_s). */
static double daly_s(double cost_s, double mtbf_s)
{
    if (cost_s >= 2 * mtbf_s)
        return mtbf_s;
    double x = cost_s / (2 * mtbf_s);
    return sqrt(2 * cost_s * mtbf_s) * (1 + sqrt(x) / 3 + x / 9) - cost_s;
}

static double period_s(const struct ftkit_ctx *ctx)
{
    if (ctx->cfg.period.kind == FTK_PERIOD_SECONDS)
        return ctx->cfg.period.value;
    double cost = ctx->policy.set_cost_s > 0 ? ctx->policy.set_cost_s : FIRST_COST_S;
    return daly_s(cost, ctx->cfg.mtbf_s / SHARE_MEMORY);
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
    double cost = ctx->policy.durable_cost_s > 0 ? ctx->policy.durable_cost_s : FIRST_COST_S;
    /* writing in the background slows the program, too */
    cost += ctx->flush.off ? 0 : SHARE_FLUSH * ctx->flush.last_s;
    return since >= daly_s(cost, ctx->cfg.mtbf_s / (1 - SHARE_MEMORY));
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

/* Return rank 0's estimate: after how many calls to look at the clock again; 0: a set is due. */
static int64_t clock_gap(struct ftkit_ctx *ctx)
{
    double now = ftk_now_s();
    double remaining = period_s(ctx) - (now - ctx->policy.last_set_s);
    if (ctx->policy.calls <= ctx->policy.last_look_call)
        return 1;
    uint64_t calls = ctx->policy.calls - ctx->policy.last_look_call;
    double per_call = (now - ctx->policy.last_look_s) / (double)calls;
    ctx->policy.last_look_call = ctx->policy.calls;
    ctx->policy.last_look_s = now;
    if (remaining <= per_call / 2)
        return 0;
    double gap = remaining / fmax(per_call, 1e-9);
    /* the rate was measured over `calls` calls: look ahead by at most four times as many */
    return (int64_t)fmax(1, floor(fmin(gap, 4.0 * (double)calls)));
}

int64_t ftk_policy_next_gap(struct ftkit_ctx *ctx)
{
    if (ctx->cfg.period.kind == FTK_PERIOD_COUNT)
        return 0;
    int64_t gap = ctx->rank == 0 ? clock_gap(ctx) : INT64_MAX;
    int64_t log = ftk_log_calls_left(ctx, true);
    return gap < log ? gap : log;
}

enum { WORD_CLOCK, WORD_LOG }; /* indices of words of the vote: calls until a set may be due */

int ftk_policy_decide(struct ftkit_ctx *ctx, bool *write)
{
    *write = true;
    if (ctx->policy.requested || ctx->committed == 0)
        return FTKIT_OK;
    *write = ctx->policy.calls >= ctx->policy.next_event;
    if (!*write || ctx->cfg.period.kind == FTK_PERIOD_COUNT)
        return FTKIT_OK;
    struct ftk_vote v;
    struct ftk_chan ch = ftk_chan_of(ctx);
    ftk_vote_init(&v);
    if (ctx->rank == 0)
        v.min[WORD_CLOCK] = clock_gap(ctx);
    v.min[WORD_LOG] = ftk_log_calls_left(ctx, false);
    int rc = ftk_vote(&ch, ctx->nranks, &v);
    if (rc != FTKIT_OK)
        return rc;
    int64_t gap = v.min[WORD_CLOCK] < v.min[WORD_LOG] ? v.min[WORD_CLOCK] : v.min[WORD_LOG];
    *write = gap == 0;
    ctx->policy.next_event = ctx->policy.calls + (uint64_t)gap;
    return FTKIT_OK;
}

void ftk_policy_committed(struct ftkit_ctx *ctx, int64_t gap)
{
    bool count = ctx->cfg.period.kind == FTK_PERIOD_COUNT;
    ctx->policy.requested = 0;
    ctx->policy.last_set_s = ftk_now_s();
    ctx->policy.next_event = ctx->policy.calls
                             + (count      ? (uint64_t)ctx->cfg.period.value
                                 : gap > 0 ? (uint64_t)gap
                                           : 1);
}

void ftk_policy_reset(struct ftkit_ctx *ctx)
{
    ctx->policy.calls = 0;
    ctx->policy.requested = 0;
    ctx->policy.last_set_s = ctx->policy.last_look_s = ftk_now_s();
    ctx->policy.last_look_call = 0;
    /* Call 1 stands for the call that wrote the line: it is the call in which a survivor rolls
     * back, and the first call of a replacement. */
    ctx->policy.next_event = ftk_policy_first_event(ctx);
}

uint64_t ftk_policy_first_event(const struct ftkit_ctx *ctx)
{
    return 1 + (ctx->cfg.period.kind == FTK_PERIOD_COUNT ? (uint64_t)ctx->cfg.period.value : 1);
}
