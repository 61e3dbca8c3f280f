/* What a rank of a silent team notes of the messages that it sends: at a send, a cut, a commit, a
 * set that is given up, and a rollback.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/ftk.h"
#include "log/base/part.h"
#include "log/recovery/recovery.h"

enum { RANKS = 100 };

static int team[RANKS];
static bool silent[RANKS];

/* Pairs of ranks are teams, named by their first rank; that of rank 0 is silent. */
static int set_up(void **state)
{
    (void)state;
    memset(&ftk_log, 0, sizeof ftk_log);
    for (int r = 0; r < RANKS; r++) {
        team[r] = r / 2 * 2;
        silent[r] = r < 2;
    }
    ftk_log.n = RANKS;
    ftk_log.team = team;
    ftk_log.silent = silent;
    assert_int_equal(ftk_part_peers.open(RANKS), FTKIT_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ftk_part_peers.close();
    memset(&ftk_log, 0, sizeof ftk_log);
    return 0;
}

/* Exactly these teams are noted; -1: none. */
static void noted(int first, int second)
{
    uint64_t bits[(RANKS + 63) / 64] = { 0 };
    assert_true(ftk_silent_sent_to(bits));
    for (int t = 0; t < RANKS; t++)
        assert_int_equal(bits[t / 64] >> (t % 64) & 1, t == first || t == second);
}

static void send_to(int rank)
{
    ftk_silent_sends(ftk_peer(rank));
}

static void who_keeps(void **state)
{
    (void)state;
    for (int none_yet = 0; none_yet < 2; none_yet++) {
        ftk_log.line.none_yet = none_yet;
        for (int me = 0; me < 4; me++) {
            ftk_log.me = me;
            for (int r = 0; r < 6; r++) {
                const bool crosses = none_yet ? r != me : r / 2 != me / 2;
                assert_int_equal(ftk_log_crosses(r), crosses);
                assert_int_equal(ftk_log_keeps(r), crosses && (none_yet || me > 1));
            }
        }
    }
    ftk_log.silent = NULL;
    ftk_log.line.none_yet = false;
    ftk_log.me = 0;
    assert_true(ftk_log_keeps(2));
    assert_false(ftk_log_keeps(1));
}

static void other_teams_note_nothing(void **state)
{
    uint64_t bits[(RANKS + 63) / 64] = { 0 };
    (void)state;
    ftk_log.me = 2;
    send_to(5);
    assert_false(ftk_silent_sent_to(bits));
    ftk_log.me = 0;
    ftk_log.silent = NULL;
    assert_false(ftk_silent_sent_to(bits));
    assert_int_equal(bits[0] | bits[1], 0);
}

static void a_line_together(void **state)
{
    (void)state;
    noted(-1, -1);
    send_to(99);
    noted(98, -1);
    assert_int_equal(ftk_part_silent.cut(false), FTKIT_OK);
    noted(98, -1); /* until the commit */
    ftk_part_silent.line(FTK_PASS_MET, false);
    noted(-1, -1);
    send_to(2);
    send_to(3);
    noted(2, -1);
}

/* Messages behind the cut count for the line of the cut. */
static void a_line_apart(void **state)
{
    (void)state;
    send_to(4);
    send_to(6);
    assert_int_equal(ftk_part_silent.cut(true), FTKIT_OK);
    send_to(6);
    send_to(98);
    ftk_part_silent.line(FTK_PASS_CUT, false);
    noted(6, 98);
}

/* The set is given up: what was sent before its cut still counts. */
static void a_set_that_is_given_up(void **state)
{
    (void)state;
    send_to(4);
    assert_int_equal(ftk_part_silent.cut(true), FTKIT_OK);
    send_to(8);
    noted(4, 8);
    assert_int_equal(ftk_part_silent.cut(true), FTKIT_OK);
    noted(4, 8);
    ftk_part_silent.line(FTK_PASS_CUT, false);
    noted(-1, -1);
}

static void a_rollback(void **state)
{
    const struct ftk_rollback b = { .others_stay = true };
    (void)state;
    send_to(4);
    assert_int_equal(ftk_part_silent.cut(true), FTKIT_OK);
    send_to(8);
    assert_int_equal(ftk_part_silent.roll_back(&b), FTKIT_OK);
    noted(-1, -1);
    send_to(8);
    noted(8, -1);
    ftk_part_silent.line(FTK_PASS_MISSED, false);
    noted(8, -1); /* it has made no cut since */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_keeps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_teams_note_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_line_together, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_line_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_set_that_is_given_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_rollback, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
