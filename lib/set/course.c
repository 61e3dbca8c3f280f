/* The time of a replay, of the first execution of the same calls, and of the catch-up (see
 * course.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "core/event.h"
#include "set/course.h"

static bool may_measure(const struct ftkit_ctx *ctx)
{
    return ctx->cfg.line == FTK_LINE_TOGETHER && ctx->cfg.replicas == 1;
}

/* The program is at the line. */
static void begin(struct ftkit_ctx *ctx, uint64_t set, uint64_t line)
{
    struct ftk_course *c = &ctx->course;
    c->on = may_measure(ctx) && set > 0;
    c->goes_back = false;
    c->phase = FTK_COURSE_FORWARD;
    c->set = set;
    c->line = line;
    c->far = 0;
    c->far_s = 0;
    c->base_s = ftk_now_s();
}

void ftk_course_line(struct ftkit_ctx *ctx)
{
    begin(ctx, ctx->committed, ctx->policy.calls);
}

void ftk_course_repaired(struct ftkit_ctx *ctx, double repair_s)
{
    struct ftk_course *c = &ctx->course;
    c->base_s += repair_s;
    c->restored_s += repair_s;
    if (c->phase == FTK_COURSE_CATCH_UP)
        c->phase = FTK_COURSE_FORWARD;
}

/* The calls of before the failure are made again, or there are none. */
static void begin_catch_up(struct ftk_course *c, double now)
{
    c->phase = FTK_COURSE_CATCH_UP;
    c->replayed_s = now;
    c->base_s = now - c->far_s;
    c->replay_s = now - c->restored_s;
    c->replay_forward_s = c->far_s;
    c->replay_calls = c->far;
    c->catch_up_s = 0;
}

void ftk_course_restored(struct ftkit_ctx *ctx, uint64_t set)
{
    struct ftk_course *c = &ctx->course;
    if (!c->on || set != c->set) {
        begin(ctx, set, ctx->policy.calls + 1);
        return;
    }
    c->line = ctx->policy.calls + 1;
    c->goes_back = false;
    c->phase = FTK_COURSE_REPLAY;
    c->restored_s = ftk_now_s();
    if (c->far == 0)
        begin_catch_up(c, c->restored_s);
}

void ftk_course_take_over(struct ftkit_ctx *ctx, uint64_t set, uint64_t far, double far_s)
{
    begin(ctx, set, 0);
    ctx->course.far = far;
    ctx->course.far_s = far_s;
}

static void end_replay(struct ftkit_ctx *ctx, double now)
{
    struct ftk_course *c = &ctx->course;
    struct ftk_event e;
    begin_catch_up(c, now);
    ftk_event_of(&e, ctx, "replayed");
    ftk_event_int(&e, "set", (int64_t)c->set);
    ftk_event_seconds(&e, "seconds", c->replay_s);
    ftk_event_seconds(&e, "forward", c->replay_forward_s);
    ftk_event_int(&e, "calls", (int64_t)c->replay_calls);
    ftk_event_end(&e);
}

/* The step that the failure broke off is done. */
static void end_catch_up(struct ftkit_ctx *ctx, double now)
{
    struct ftk_course *c = &ctx->course;
    struct ftk_event e;
    c->phase = FTK_COURSE_FORWARD;
    c->catch_up_s = now - c->replayed_s;
    ftk_event_of(&e, ctx, "caught_up");
    ftk_event_int(&e, "set", (int64_t)c->set);
    ftk_event_seconds(&e, "seconds", c->catch_up_s);
    ftk_event_end(&e);
}

void ftk_course_again(struct ftkit_ctx *ctx, double now)
{
    const struct ftk_course *c = &ctx->course;
    const uint64_t calls = ctx->policy.calls - c->line;
    if (c->phase == FTK_COURSE_REPLAY && calls >= c->far)
        end_replay(ctx, now);
    else if (c->phase == FTK_COURSE_CATCH_UP && calls > c->far)
        end_catch_up(ctx, now);
}
