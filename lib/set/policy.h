/* Writers of struct ftk_policy for other files: when a set is due is changed in policy.c and here
 * only.  The functions that decide are in checkpoint.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_POLICY_H
#define FTK_POLICY_H

#include "core/context.h"
#include "steer.h"

/* The program calls ftkit_checkpoint(). */
static inline void ftk_policy_enter(struct ftkit_ctx *ctx)
{
    ctx->policy.made++;
}

/* A call of ftkit_checkpoint() begins. */
static inline void ftk_policy_count(struct ftkit_ctx *ctx)
{
    ctx->policy.calls++;
}

/* The call of ftkit_checkpoint() in which this rank is becomes call 1. */
static inline void ftk_policy_count_anew(struct ftkit_ctx *ctx)
{
    ctx->policy.calls = 1;
}

/* This plane takes over the number of calls of another one, and has looked in that call. */
static inline void ftk_policy_count_as(struct ftkit_ctx *ctx, uint64_t calls)
{
    ctx->policy.calls = ctx->policy.last_look_call = calls;
}

/* All ranks know that the next event is at this call; FTK_HALTED: there are no more events, which
 * `ftkit run` learns, too. */
static inline void ftk_policy_set_event(struct ftkit_ctx *ctx, uint64_t call)
{
    ctx->policy.next_event = call;
    if (call == FTK_HALTED)
        ftk_steer_halts(ctx);
}

/* A set is due at this call, whatever the period is. */
void ftk_policy_set_due(struct ftkit_ctx *ctx, uint64_t call);

/* What this rank asks for at the next call, now: 0: nothing, 1: a set, 2: a durable set.  A request
 * of the program comes by ftk_policy_request(), which waits for the first call. */
static inline void ftk_policy_ask(struct ftkit_ctx *ctx, int kind)
{
    ctx->policy.requested = kind;
}

/* A set in memory is written: one more without a durable set. */
static inline void ftk_policy_count_set(struct ftkit_ctx *ctx)
{
    ctx->policy.sets_since_durable++;
}

#endif
