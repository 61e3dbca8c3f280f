/* When a set is due: the estimate of rank 0 after a rollback.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those, on which it builds */
#include <cmocka.h>

#include "core/log_ops.h"
#include "set/checkpoint.h"

enum { LINE = 1000000, CALLS = 250 };

static struct ftkit_ctx context(void)
{
    struct ftkit_ctx ctx = { .rank = 0, .nranks = 1, .committed = 1 };
    ctx.cfg.period = (struct ftk_period){ .kind = FTK_PERIOD_SECONDS, .value = 100 };
    ctx.cfg.react_s = 1;
    return ctx;
}

/* So many calls in the last second. */
static int64_t gap_after(struct ftkit_ctx *ctx, uint64_t calls)
{
    ctx->policy.calls += calls;
    ctx->policy.last_look_s -= 1;
    return ftk_policy_next_gap(ctx);
}

/* The rate of calls is that of the calls since the rollback, although the number of the call is
 * large. */
static void rate_after_a_rollback(void **state)
{
    (void)state;
    struct ftkit_ctx ctx = context();
    ftk_policy_reset(&ctx);
    ftk_policy_back(&ctx, LINE, LINE + CALLS);
    const int64_t gap = gap_after(&ctx, CALLS);
    assert_in_range(gap, CALLS / 2, 2 * CALLS); /* the next look is a second later */
}

/* Without a log calls are counted from the line. */
static void rate_after_a_reset(void **state)
{
    (void)state;
    struct ftkit_ctx ctx = context();
    ctx.policy.calls = LINE;
    ftk_policy_reset(&ctx);
    const int64_t gap = gap_after(&ctx, CALLS);
    assert_in_range(gap, CALLS / 2, 2 * CALLS);
}

/* What the program asks for before its first call from a set may be that set. */
static void a_request_that_is_served(void **state)
{
    (void)state;
    for (int kind = 1; kind <= 2; kind++)
        for (int served = 0; served < 2; served++) {
            struct ftkit_ctx ctx = context();
            ctx.first_call = true;
            ctx.restored = 1;
            ftk_policy_request(&ctx, kind);
            assert_int_equal(ctx.policy.requested, 0);
            ftk_policy_first_call(&ctx, served);
            assert_int_equal(ctx.policy.requested, served ? 0 : kind);
            assert_int_equal(
                ftk_steer_ask(&ctx), served && kind == 2 ? FTK_ASK_SET : FTK_ASK_NOTHING);
            ctx.durable = ctx.committed; /* its flush has ended after all */
            assert_int_equal(ftk_steer_ask(&ctx), FTK_ASK_NOTHING);
        }
    struct ftkit_ctx ctx = context(); /* nothing was restored, or this is a later call */
    ctx.restored = 1;
    ftk_policy_request(&ctx, 1);
    assert_int_equal(ctx.policy.requested, 1);
}

/* Which calls of ftkit_wait() are at the line: before the first call after a restore, and behind
 * the call that wrote the line, while the replicated regions are as they were there. */
static void calls_at_the_line(void **state)
{
    static const struct ftk_log_ops ops; /* a log, of which nothing is asked */
    static const struct {
        bool logs, apart, first_call, changed;
        uint64_t committed, restored, calls, next_event;
        bool at_line;
    } rows[] = {
        { .committed = 1, .calls = 1, .at_line = true },
        { .committed = 1, .calls = 2 },
        { .committed = 2, .calls = 1 }, /* a later set: the repair's line is 1 */
        { .committed = 1, .calls = 1, .changed = true },
        { .committed = 1, .calls = 1, .next_event = FTK_HALTED },
        { .logs = true, .committed = 1, .calls = LINE, .at_line = true },
        { .logs = true, .committed = 1, .calls = LINE, .changed = true },
        { .logs = true, .committed = 1, .calls = LINE, .next_event = FTK_HALTED },
        { .logs = true, .committed = 1, .calls = LINE, .apart = true },
        { .logs = true, .committed = 1, .calls = LINE + 1 },
        { .logs = true, .committed = 0, .calls = LINE },
        { .logs = true, .first_call = true, .restored = 1, .at_line = true },
        { .logs = true, .first_call = true, .committed = 1, .calls = LINE },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ftkit_ctx ctx = context();
        ctx.log = rows[i].logs ? &ops : NULL;
        ctx.cfg.line = rows[i].apart ? FTK_LINE_APART : FTK_LINE_TOGETHER;
        ctx.first_call = rows[i].first_call;
        ctx.state_sum = rows[i].changed ? 1 : 0; /* of no regions: 0 */
        ctx.committed = rows[i].committed;
        ctx.restored = rows[i].restored;
        ctx.repair.line = 1;
        ctx.policy.calls = rows[i].calls;
        ctx.policy.next_event = rows[i].next_event;
        ctx.policy.line_calls = LINE;
        assert_int_equal(ftk_policy_at_line(&ctx), rows[i].at_line);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rate_after_a_rollback),
        cmocka_unit_test(rate_after_a_reset), cmocka_unit_test(a_request_that_is_served),
        cmocka_unit_test(calls_at_the_line) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
