/* How long the program takes from the line to each call of ftkit_checkpoint(), how long a replay
 * takes to the same place, and how long the catch-up takes to the next call.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The times of a replay and of the first execution begin and end at the same places of the program:
 * at the line, and at the beginning of the last call before the failure.  What lies between that
 * call and the failure is in neither.  The catch-up goes from there to the beginning of the next
 * call, which is new: it is the step that the failure broke off.  If there was no call between the
 * line and the failure, the catch-up begins at the line.  A commit, a repair and a rollback end it
 * without a figure.
 * With replicas, and where lines are apart, nothing is measured: a rank does not know the place of
 * the line then. */
#ifndef FTK_COURSE_H
#define FTK_COURSE_H

#include "core/context.h"

/* A set is committed in this call, which is the line from now on. */
void ftk_course_line(struct ftkit_ctx *ctx);
/* A repair of so many seconds is over, and this rank has taken part. */
void ftk_course_repaired(struct ftkit_ctx *ctx, double repair_s);
/* This rank has to restore the line: calls before that do not count. */
static inline void ftk_course_go_back(struct ftkit_ctx *ctx)
{
    ctx->course.goes_back = true;
}
/* The regions are those of a set; 0: of the start.  The next call from the line is the first. */
void ftk_course_restored(struct ftkit_ctx *ctx, uint64_t set);
/* What a replacement takes over from a survivor: the last call of the line, set, and its time. */
void ftk_course_take_over(struct ftkit_ctx *ctx, uint64_t set, uint64_t far, double far_s);
/* This rank replays or catches up, and makes a call at now. */
void ftk_course_again(struct ftkit_ctx *ctx, double now);

/* Whether this rank is on the way from the line to a call that it has never made. */
static inline bool ftk_course_lags(const struct ftkit_ctx *ctx)
{
    return ctx->course.phase != FTK_COURSE_FORWARD;
}

/* A call of ftkit_checkpoint() begins at now, and is counted. */
static inline void ftk_course_call(struct ftkit_ctx *ctx, double now)
{
    struct ftk_course *c = &ctx->course;
    if (!c->on || c->goes_back || ctx->detect.failed || ctx->policy.calls < c->line)
        return; /* the step before a call that comes after a failure may not be whole */
    if (c->phase != FTK_COURSE_FORWARD)
        ftk_course_again(ctx, now);
    if (c->phase == FTK_COURSE_FORWARD) {
        c->far = ctx->policy.calls - c->line;
        c->far_s = now - c->base_s;
    }
}

#endif
