/* When a set is due: the estimate of rank 0 after a rollback.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those, on which it builds */
#include <cmocka.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rate_after_a_rollback),
        cmocka_unit_test(rate_after_a_reset) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
