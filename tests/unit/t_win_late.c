/* Messages about locks of windows that come late, in a repair or in a replay of set-up, are
 * dropped: this process may have no such window (log/win/passive.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "log/win/passive.h"
#include "log/win/win.h"

enum { NO_WINDOW = 3, SOURCE = 1, WORDS = 8 };

static struct ftkit_ctx ctx;

/* Each kind of message comes: all have the outcome want. */
static void all_come(size_t words, int want)
{
    const uint64_t w[WORDS] = { NO_WINDOW };
    for (size_t i = 0; i < FTK_WIN_CONTROLS; i++) {
        const struct ftk_control c = { FTK_LOG_WIN, SOURCE, w, words };
        assert_int_equal(ftk_win_controls[i].context, FTK_LOG_WIN);
        assert_int_equal(ftk_win_controls[i].handle(&c), want);
    }
}

static int begin(void **state)
{
    (void)state;
    ctx = (struct ftkit_ctx){ 0 };
    ftk_log = (struct ftk_log){ .ctx = &ctx, .phase = FTK_PHASE_NORMAL };
    return 0;
}

static void a_window_that_is_not_there(void **state)
{
    (void)state;
    all_come(WORDS, MPI_ERR_WIN);
    all_come(FTK_WIN_HEAD_WORDS - 1, MPI_ERR_INTERN);
    ftk_log.phase = FTK_PHASE_REPLAY;
    all_come(WORDS, MPI_ERR_WIN);
}

static void a_repair(void **state)
{
    (void)state;
    ctx.detect.repairing = true;
    all_come(WORDS, MPI_SUCCESS);
    all_come(FTK_WIN_HEAD_WORDS - 1, MPI_SUCCESS);
}

static void a_rollback(void **state)
{
    (void)state;
    ftk_log.phase = FTK_PHASE_ROLLING_BACK;
    all_come(WORDS, MPI_SUCCESS);
}

static void a_replay_of_set_up(void **state)
{
    (void)state;
    ftk_log.phase = FTK_PHASE_SETUP_REPLAY;
    all_come(WORDS, MPI_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_window_that_is_not_there, begin),
        cmocka_unit_test_setup(a_repair, begin),
        cmocka_unit_test_setup(a_rollback, begin),
        cmocka_unit_test_setup(a_replay_of_set_up, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
