/* Control messages that change the state of a set: which ones are handled, and when.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The test gives messages of other ranks to control_state.c, as control.c does when the MPI has
 * received them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "log/base/control_state.h"

enum { CONTEXT = FTK_LOG_PROGRAM_COMMS, TAG = 3, RANKS = 4, WORDS = 64 };

static struct ftkit_ctx ctx;
static int handled[RANKS]; /* messages of each rank */
static uint64_t sum[RANKS];

static int handle(const struct ftk_control *c)
{
    assert_int_equal(c->context, CONTEXT);
    assert_int_equal(c->words, 1);
    handled[c->source]++;
    sum[c->source] = 10 * sum[c->source] + c->w[0];
    return MPI_SUCCESS;
}

static const struct ftk_control_kind kind = {
    .context = CONTEXT, .tag = TAG, .handle = handle, .of_state = true
};

/* Message number n of a rank comes; it has that number as its content, too. */
static int comes(int source, uint64_t n)
{
    const uint64_t w[] = { n, n };
    const struct ftk_control c = { .context = CONTEXT, .source = source, .w = w, .words = 2 };
    return ftk_control_state_came(&c, TAG);
}

static void has(int source, uint64_t content)
{
    assert_int_equal(sum[source], content);
}

static size_t save(uint64_t *w)
{
    const size_t n = ftk_part_streams.words();
    assert_true(n <= WORDS);
    assert_ptr_equal(ftk_part_streams.save(w), w + n);
    return n;
}

static int load(const uint64_t *w, size_t n)
{
    const struct ftk_section in = { .w = w, .end = w + n, .as_many = true };
    return ftk_part_streams.load(&in);
}

static void roll_back(void)
{
    const struct ftk_rollback b = { .others_stay = true };
    memset(sum, 0, sizeof sum);
    assert_int_equal(ftk_part_streams.roll_back(&b), FTKIT_OK);
}

static int set_up(void **state)
{
    (void)state;
    memset(&ctx, 0, sizeof ctx);
    memset(&ftk_log, 0, sizeof ftk_log);
    memset(&ftk_parts, 0, sizeof ftk_parts);
    memset(handled, 0, sizeof handled);
    memset(sum, 0, sizeof sum);
    ctx.cfg.replicas = 1;
    ftk_log.ctx = &ctx;
    ftk_log.n = RANKS;
    ftk_log.phase = FTK_PHASE_NORMAL;
    ftk_parts.controls[0] = &kind;
    ftk_parts.of_state = 1;
    return ftk_part_peers.open(RANKS) != FTKIT_OK || ftk_part_streams.open(RANKS) != FTKIT_OK;
}

static int tear_down(void **state)
{
    (void)state;
    ftk_part_streams.close();
    ftk_part_peers.close();
    memset(&ftk_log, 0, sizeof ftk_log);
    memset(&ftk_parts, 0, sizeof ftk_parts);
    return 0;
}

/* ---- the decisions ------------------------------------------------------------------------- */

static void every_fate(void **state)
{
    (void)state;
    for (uint64_t had = 0; had < 4; had++)
        for (uint64_t number = 1; number < 7; number++) {
            assert_int_equal(ftk_control_fate(number, had, true), FTK_CONTROL_HOLD);
            assert_int_equal(ftk_control_fate(number, had, false), number <= had ? FTK_CONTROL_DROP
                                                                   : number == had + 1
                                                                       ? FTK_CONTROL_HANDLE
                                                                       : FTK_CONTROL_GAP);
        }
    for (int i = 0; i < 8; i++)
        assert_int_equal(ftk_control_holds(i & 1, i & 2, i & 4), i != 4);
}

/* ---- messages that come -------------------------------------------------------------------- */

static void each_counts_once(void **state)
{
    (void)state;
    assert_int_equal(comes(1, 1), MPI_SUCCESS);
    assert_int_equal(comes(2, 1), MPI_SUCCESS);
    assert_int_equal(comes(1, 2), MPI_SUCCESS);
    assert_int_equal(comes(1, 1), MPI_SUCCESS); /* its sender replays */
    assert_int_equal(comes(1, 2), MPI_SUCCESS);
    assert_int_equal(comes(1, 3), MPI_SUCCESS);
    has(1, 123);
    has(2, 1);
    assert_int_equal(comes(1, 5), MPI_ERR_INTERN); /* 4 is missing */
    has(1, 123);
}

static void lacks_what_is_announced(void **state)
{
    (void)state;
    assert_false(ftk_control_state_lacks());
    ftk_control_state_announced(3, CONTEXT, 2);
    assert_true(ftk_control_state_lacks());
    assert_int_equal(comes(3, 1), MPI_SUCCESS);
    assert_true(ftk_control_state_lacks());
    assert_int_equal(comes(3, 2), MPI_SUCCESS);
    assert_false(ftk_control_state_lacks());
    /* the set is given up, and its sender rolls back to where it had sent none */
    ftk_control_state_announced(2, CONTEXT, 5);
    assert_true(ftk_control_state_lacks());
    assert_int_equal(ftk_part_streams.cut(true), FTKIT_OK);
    assert_false(ftk_control_state_lacks());
}

/* ---- a repair ------------------------------------------------------------------------------ */

/* A rank that stays handles the messages of the repair afterwards, also those of a rank that rolls
 * back: the replay sends the same ones. */
static void held_in_a_repair(void **state)
{
    (void)state;
    assert_int_equal(comes(1, 1), MPI_SUCCESS);
    ctx.detect.repairing = true;
    assert_int_equal(comes(1, 2), MPI_SUCCESS);
    assert_int_equal(comes(2, 1), MPI_SUCCESS);
    has(1, 1);
    has(2, 0);
    ctx.detect.repairing = false;
    assert_int_equal(comes(1, 2), MPI_SUCCESS); /* again, in the replay */
    has(1, 12);
    has(2, 1);
    assert_int_equal(comes(1, 3), MPI_SUCCESS);
    has(1, 123);
}

/* This rank rolls back.  What it holds is from behind the line, and is sent again: those that stay
 * send it from the line on, and those that roll back in their replay. */
static void dropped_in_a_rollback(void **state)
{
    uint64_t w[WORDS];
    (void)state;
    assert_int_equal(comes(1, 1), MPI_SUCCESS);
    assert_int_equal(ftk_part_streams.cut(false), FTKIT_OK);
    const size_t n = save(w);
    ftk_part_streams.line(FTK_PASS_MET, true);
    assert_int_equal(comes(1, 2), MPI_SUCCESS);
    ctx.detect.repairing = true;
    assert_int_equal(comes(1, 3), MPI_SUCCESS);
    ctx.detect.repairing = false;
    roll_back();
    assert_int_equal(comes(1, 2), MPI_SUCCESS); /* early: the set is not restored yet */
    has(1, 0);
    assert_int_equal(load(w, n), FTKIT_OK);
    sum[1] = 1;
    assert_int_equal(comes(1, 2), MPI_SUCCESS);
    assert_int_equal(comes(1, 3), MPI_SUCCESS);
    has(1, 123);
}

/* The same, when nothing comes before the restore. */
static void not_handled_after_a_rollback(void **state)
{
    uint64_t w[WORDS];
    (void)state;
    const size_t n = save(w);
    ctx.detect.repairing = true;
    assert_int_equal(comes(1, 1), MPI_SUCCESS);
    ctx.detect.repairing = false;
    roll_back();
    assert_int_equal(load(w, n), FTKIT_OK);
    assert_int_equal(ftk_part_streams.cut(false), FTKIT_OK);
    has(1, 0);
}

/* Before the first line a replacement begins anew, and lacks no set. */
static void begins_anew(void **state)
{
    (void)state;
    ftk_log.line.none_yet = true;
    roll_back();
    assert_int_equal(comes(1, 1), MPI_SUCCESS);
    has(1, 1);
}

/* ---- lines apart --------------------------------------------------------------------------- */

/* Rank 1 had sent three messages at its cut, of which this rank had one; rank 2 had sent none. */
static size_t cut_with_late_ones(uint64_t *w)
{
    assert_int_equal(comes(1, 1), MPI_SUCCESS);
    assert_int_equal(ftk_part_streams.cut(true), FTKIT_OK);
    ftk_log.apart.open = true;
    assert_int_equal(comes(1, 2), MPI_SUCCESS);
    assert_int_equal(comes(2, 1), MPI_SUCCESS);
    ftk_control_state_announced(1, CONTEXT, 3);
    ftk_log.apart.all_cut = true;
    assert_true(ftk_control_state_lacks());
    assert_int_equal(comes(1, 3), MPI_SUCCESS);
    assert_int_equal(comes(1, 4), MPI_SUCCESS);
    assert_false(ftk_control_state_lacks());
    assert_int_equal(ftk_part_streams.finish(), FTKIT_OK);
    const size_t n = save(w);
    ftk_part_streams.line(FTK_PASS_CUT, false);
    ftk_part_streams.cut_over();
    ftk_log.apart.open = ftk_log.apart.all_cut = false;
    return n;
}

static void late_ones_are_in_the_set(void **state)
{
    uint64_t w[WORDS];
    (void)state;
    const size_t n = cut_with_late_ones(w);
    has(1, 1234);
    roll_back();
    assert_int_equal(load(w, n), FTKIT_OK);
    sum[1] = 1;
    assert_int_equal(comes(1, 4), MPI_SUCCESS); /* behind the late ones */
    has(1, 1234);
    has(2, 0);
    assert_int_equal(comes(2, 1), MPI_SUCCESS);
    has(2, 1);
}

/* The next cut comes before a look at the late messages of the set: its state has them. */
static void late_ones_at_the_next_cut(void **state)
{
    uint64_t w[WORDS], next[WORDS];
    (void)state;
    for (int apart = 0; apart < 2; apart++) {
        const size_t n = cut_with_late_ones(w);
        roll_back();
        assert_int_equal(load(w, n), FTKIT_OK);
        sum[1] = 1;
        assert_int_equal(ftk_part_streams.cut(apart), FTKIT_OK);
        has(1, 123);
        if (apart)
            assert_int_equal(ftk_part_streams.finish(), FTKIT_OK);
        const size_t m = save(next);
        roll_back();
        assert_int_equal(load(next, m), FTKIT_OK);
        assert_int_equal(ftk_part_streams.cut(false), FTKIT_OK);
        has(1, 0); /* none is late a second time */
        assert_int_equal(comes(1, 4), MPI_SUCCESS);
        has(1, 4);
        assert_int_equal(tear_down(NULL) || set_up(NULL), 0);
    }
}

/* An early message is in the state at the cut.  Its sender sends it again in the replay. */
static void early_ones_count_once(void **state)
{
    uint64_t w[WORDS];
    (void)state;
    assert_int_equal(comes(1, 1), MPI_SUCCESS);
    assert_int_equal(comes(1, 2), MPI_SUCCESS);
    assert_int_equal(ftk_part_streams.cut(true), FTKIT_OK);
    ftk_log.apart.open = true;
    ftk_control_state_announced(1, CONTEXT, 1);
    ftk_log.apart.all_cut = true;
    assert_int_equal(ftk_part_streams.finish(), FTKIT_OK);
    const size_t n = save(w);
    roll_back();
    assert_int_equal(load(w, n), FTKIT_OK);
    sum[1] = 12;
    assert_int_equal(comes(1, 2), MPI_SUCCESS);
    assert_int_equal(comes(1, 3), MPI_SUCCESS);
    has(1, 123);
}

/* ---- reading ------------------------------------------------------------------------------- */

static void damaged_sets(void **state)
{
    uint64_t w[WORDS], bad[WORDS];
    (void)state;
    const size_t n = cut_with_late_ones(w);
    for (size_t cut = 0; cut < n; cut++) /* but for the end of a message */
        assert_true((load(w, cut) == FTKIT_OK) == (cut == 5 || cut == 11));
    for (size_t i = 0; i < n; i++) {
        memcpy(bad, w, sizeof bad);
        bad[i] = UINT64_MAX;
        (void)load(bad, n); /* an error, or other numbers; never beyond the section */
    }
    memcpy(bad, w, sizeof bad);
    bad[1] = RANKS;
    assert_int_equal(load(bad, n), FTKIT_ERR_FORMAT);
    memcpy(bad, w, sizeof bad);
    bad[5] = RANKS;
    assert_int_equal(load(bad, n), FTKIT_ERR_FORMAT);
    assert_int_equal(load(w, n), FTKIT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fate),
        cmocka_unit_test_setup_teardown(each_counts_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lacks_what_is_announced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(held_in_a_repair, set_up, tear_down),
        cmocka_unit_test_setup_teardown(dropped_in_a_rollback, set_up, tear_down),
        cmocka_unit_test_setup_teardown(not_handled_after_a_rollback, set_up, tear_down),
        cmocka_unit_test_setup_teardown(begins_anew, set_up, tear_down),
        cmocka_unit_test_setup_teardown(late_ones_are_in_the_set, set_up, tear_down),
        cmocka_unit_test_setup_teardown(late_ones_at_the_next_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(early_ones_count_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged_sets, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
