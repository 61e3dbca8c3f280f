/* The duration of a replay, of the first execution of the same calls, and of the catch-up: lines,
 * calls, repairs, rollbacks and replacements, with times of our own.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "set/course.h"

static struct ftkit_ctx *ctx;
static double now;

static int set_up(void **state)
{
    (void)state;
    ctx = calloc(1, sizeof *ctx);
    assert_non_null(ctx);
    ctx->cfg.replicas = 1;
    ctx->cfg.line = FTK_LINE_TOGETHER;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(ctx);
    return 0;
}

/* Set is committed in the call of that number. */
static void commit(uint64_t set, uint64_t calls)
{
    ctx->committed = set;
    ctx->policy.calls = calls;
    ftk_course_line(ctx);
    now = ctx->course.base_s;
}

/* The next call begins, so many seconds later. */
static void call_after(double s)
{
    now += s;
    ctx->policy.calls++;
    ftk_course_call(ctx, now);
}

/* A failure and its repair, which takes so long; this rank goes back to the set. */
static void go_back(uint64_t set, double repair_s, uint64_t line_calls)
{
    ctx->policy.calls = line_calls - 1;
    ftk_course_go_back(ctx);
    ftk_course_repaired(ctx, repair_s);
    ftk_course_restored(ctx, set);
    now = ctx->course.restored_s;
    ctx->policy.calls++; /* the call in which it is restored is that of the line */
}

static void replayed(double seconds, double forward, uint64_t calls)
{
    const struct ftk_course *c = &ctx->course;
    assert_int_equal(c->phase, FTK_COURSE_CATCH_UP);
    assert_true(c->catch_up_s == 0);
    assert_true(fabs(c->replay_s - seconds) < 1e-6);
    assert_true(fabs(c->replay_forward_s - forward) < 1e-6);
    assert_int_equal(c->replay_calls, calls);
}

static void one_rollback(void **state)
{
    (void)state;
    commit(3, 20);
    for (int i = 0; i < 4; i++)
        call_after(2);
    now += 1.5; /* a part of the next step, which is in neither */
    go_back(3, 10, 1);
    for (int i = 0; i < 3; i++) {
        call_after(0.5);
        assert_int_equal(ctx->course.phase, FTK_COURSE_REPLAY);
    }
    call_after(0.5);
    replayed(2, 8, 4);
    call_after(2); /* what follows is forward again */
    assert_int_equal(ctx->course.far, 5);
    assert_true(fabs(ctx->course.far_s - 10) < 1e-6);
}

static void caught_up(double seconds)
{
    assert_int_equal(ctx->course.phase, FTK_COURSE_FORWARD);
    assert_true(fabs(ctx->course.catch_up_s - seconds) < 1e-6);
}

/* This rank has replayed two calls, and is in the step behind. */
static void replay_two(void)
{
    commit(3, 1);
    call_after(2);
    call_after(2);
    go_back(3, 1, 1);
    call_after(1);
    call_after(1);
    replayed(2, 4, 2);
}

/* The catch-up ends at the next call, which is new, and each replay has one of its own. */
static void the_catch_up(void **state)
{
    (void)state;
    replay_two();
    call_after(7);
    caught_up(7);
    call_after(1);
    caught_up(7);
    go_back(3, 1, 1);
    for (int i = 0; i < 4; i++)
        call_after(1);
    replayed(4, 12, 4);
    call_after(2);
    caught_up(2);
}

/* A failure in the catch-up ends it without a figure: of others, while this rank stays; or of this
 * rank's team.  So does a set. */
static void no_catch_up(void **state)
{
    (void)state;
    replay_two();
    ctx->detect.failed = true;
    call_after(1);
    assert_int_equal(ctx->course.phase, FTK_COURSE_CATCH_UP);
    ctx->detect.failed = false;
    ftk_course_repaired(ctx, 10);
    now += 10;
    call_after(1);
    caught_up(0);
    replay_two();
    go_back(3, 1, 1);
    call_after(1);
    assert_int_equal(ctx->course.phase, FTK_COURSE_REPLAY);
    call_after(1);
    replayed(2, 4, 2);
    commit(4, 3);
    call_after(1);
    caught_up(0);
}

/* The time of repairs counts on no rank, also on one that stays. */
static void repairs_do_not_count(void **state)
{
    (void)state;
    commit(1, 7);
    call_after(2);
    ftk_course_repaired(ctx, 100);
    now += 100;
    call_after(2);
    assert_true(fabs(ctx->course.far_s - 4) < 1e-6);
    go_back(1, 5, 7);
    call_after(1);
    ftk_course_repaired(ctx, 50); /* of others, in the replay */
    now += 50;
    call_after(1);
    replayed(2, 4, 2);
}

/* A failure in the replay: the way to repeat is the same. */
static void again_in_the_replay(void **state)
{
    (void)state;
    commit(2, 1);
    for (int i = 0; i < 3; i++)
        call_after(4);
    go_back(2, 1, 1);
    call_after(1);
    go_back(2, 1, 1);
    for (int i = 0; i < 3; i++)
        call_after(2);
    replayed(6, 12, 3);
}

/* Calls after a failure do not count: of a rank that has to go back, or that knows of a failure. */
static void calls_after_a_failure(void **state)
{
    (void)state;
    commit(2, 1);
    call_after(1);
    ctx->detect.failed = true;
    call_after(1);
    ctx->detect.failed = false;
    ftk_course_go_back(ctx);
    ctx->policy.calls = 0;
    call_after(1);
    assert_int_equal(ctx->course.far, 1);
    go_back(2, 1, 1);
    call_after(3);
    replayed(3, 1, 1);
}

/* No call since the set: the catch-up begins there.  Another set, or the start of the program:
 * nothing is known. */
static void nothing_to_repeat(void **state)
{
    (void)state;
    commit(2, 1);
    go_back(2, 1, 1);
    replayed(0, 0, 0);
    ftk_course_call(ctx, now + 1); /* a replacement makes the call of the line in its loop */
    replayed(0, 0, 0);
    call_after(3);
    caught_up(3);
    assert_int_equal(ctx->course.far, 1);
    go_back(1, 1, 1); /* from files */
    assert_int_equal(ctx->course.phase, FTK_COURSE_FORWARD);
    ftk_course_restored(ctx, 0);
    call_after(1);
    assert_int_equal(ctx->course.far, 0);
    assert_int_equal(ctx->course.replay_calls, 0);
}

static void a_replacement(void **state)
{
    (void)state;
    ftk_course_take_over(ctx, 5, 3, 6);
    go_back(5, 1, 1);
    for (int i = 0; i < 3; i++)
        call_after(1);
    replayed(3, 6, 3);
    ftk_course_take_over(ctx, 0, 0, 0); /* the survivor knows nothing */
    go_back(5, 1, 1);
    assert_int_equal(ctx->course.phase, FTK_COURSE_FORWARD);
}

static void not_measured(void **state)
{
    (void)state;
    for (int how = 0; how < 2; how++) {
        ctx->cfg.replicas = how == 0 ? 2 : 1;
        ctx->cfg.line = how == 1 ? FTK_LINE_APART : FTK_LINE_TOGETHER;
        commit(2, 1);
        call_after(1);
        go_back(2, 1, 1);
        call_after(1);
        assert_int_equal(ctx->course.replay_calls, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_rollback, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_catch_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_catch_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(repairs_do_not_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(again_in_the_replay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(calls_after_a_failure, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_to_repeat, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_replacement, set_up, tear_down),
        cmocka_unit_test_setup_teardown(not_measured, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
