/* Cores that waiting ranks leave free: which slots of the page count, and when a wait marks itself.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "detect/dog.h"
#include "detect/idle.h"
#include "detect/nap.h"

enum { RANKS = 4, CORES = 64 }; /* 16 cores a rank */

static struct ftk_watchdog *dog;
static struct ftk_dog_slot *slot; /* [RANKS + 1] the first is of this process, the last a spare */

static int set_up(void **state)
{
    (void)state;
    dog = calloc(1, sizeof *dog);
    assert_non_null(dog);
    dog->page = aligned_alloc(64, sizeof *dog->page);
    assert_non_null(dog->page);
    memset(dog->page, 0, sizeof *dog->page);
    slot = dog->page->slots;
    dog->own = slot;
    dog->cores_shown = true;
    dog->page->cores[3] = UINT64_MAX;
    for (int i = 0; i <= RANKS; i++) {
        slot[i].pid = (int)getpid();
        slot[i].rank = i < RANKS ? i : -1;
        slot[i].state = FTK_DOG_RUN;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ftk_nap_end();
    free(dog->page);
    free(dog);
    return 0;
}

static void shares(void **state)
{
    (void)state;
    const double now = ftk_now_s();
    assert_int_equal(ftk_idle_cores(NULL, now), 0);
    assert_int_equal(ftk_idle_cores(dog, now), 0);
    for (int i = 1; i < RANKS; i++) {
        slot[i].idle_s = now;
        assert_int_equal(ftk_idle_cores(dog, now), 16 * i);
    }
    dog->page->cores[3] = 3; /* two cores, of which three ranks leave 1.5 free */
    assert_int_equal(ftk_idle_cores(dog, now), 1);
}

/* A rank that was not seen in its wait for a while has gone on, or does not run any more. */
static void marks_end(void **state)
{
    (void)state;
    const double now = ftk_now_s();
    slot[1].idle_s = slot[2].idle_s = now;
    assert_int_equal(ftk_idle_cores(dog, now + 0.01), 32);
    slot[2].idle_s = now + 1;
    assert_int_equal(ftk_idle_cores(dog, now + 1), 16);
    assert_int_equal(ftk_idle_cores(dog, now + 1e6), 0);
}

/* A killed waiter does not count, also not as a rank: its slot stays for a while. */
static void dead_and_away(void **state)
{
    (void)state;
    const double now = ftk_now_s();
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    for (int i = 1; i <= RANKS; i++)
        slot[i].idle_s = now; /* a spare is none of the ranks */
    assert_int_equal(ftk_idle_cores(dog, now), 48);
    slot[1].pid = (int)child;
    assert_int_equal(ftk_idle_cores(dog, now), 2 * CORES / 3);
    slot[2].state = FTK_DOG_LEFT;
    assert_int_equal(ftk_idle_cores(dog, now), CORES / 2);
    slot[3].pid = 0;
    assert_int_equal(ftk_idle_cores(dog, now), 0);
}

/* The page gets the cores that this process may use: at least one, and no more than its threads. */
static void own_cores(void **state)
{
    (void)state;
    dog->cores_shown = false;
    dog->page->cores[3] = 0;
    ftk_idle_mark(dog, ftk_now_s());
    int n = 0;
    for (int i = 0; i < FTK_DOG_CPUS / 64; i++)
        n += __builtin_popcountll(dog->page->cores[i]);
    assert_true(n >= 1 && n <= sysconf(_SC_NPROCESSORS_ONLN));
}

/* ---- marks ----------------------------------------------------------------------------- */

static enum ftk_nap said;

static enum ftk_nap look(void)
{
    return said;
}

/* The looks of a wait, from the first one until it has lasted for so long, and one more. */
static void wait_for(double s)
{
    unsigned turns = 0;
    ftk_nap_turn(++turns);
    for (const double end = ftk_now_s() + s; ftk_now_s() < end;)
        ftk_nap_turn(++turns);
    ftk_nap_turn(++turns);
}

static void a_wait_marks_itself(void **state)
{
    (void)state;
    wait_for(0.002);
    assert_true(slot->idle_s == 0); /* nobody replays */
    ftk_nap_begin(dog, look);
    said = FTK_NAP_SLEEP;
    const double begin = ftk_now_s();
    unsigned turns = 0;
    while (slot->idle_s == 0 && ftk_now_s() < begin + 10)
        ftk_nap_turn(++turns);
    assert_true(slot->idle_s >= begin + 0.001); /* a short wait leaves no core free */
    const double first = slot->idle_s;
    ftk_nap_turn(++turns);
    assert_true(slot->idle_s > first); /* a look renews the mark */
    ftk_nap_turn(1);
    assert_true(slot->idle_s == 0); /* the next wait has begun */
    wait_for(0.002);
    assert_true(slot->idle_s > 0);
    ftk_nap_end();
    assert_true(slot->idle_s == 0);
}

/* A rank that has to stay awake, or for which the replay is over, leaves no core free. */
static void awake_or_over(void **state)
{
    (void)state;
    ftk_nap_begin(dog, look);
    said = FTK_NAP_AWAKE;
    wait_for(0.003);
    assert_true(slot->idle_s == 0);
    said = FTK_NAP_SLEEP;
    wait_for(0.003);
    assert_true(slot->idle_s > 0);
    const unsigned late = 1U << 30;
    said = FTK_NAP_AWAKE;
    ftk_nap_turn(late); /* in the same wait */
    assert_true(slot->idle_s == 0);
    said = FTK_NAP_SLEEP;
    ftk_nap_turn(late + 1);
    assert_true(slot->idle_s > 0);
    said = FTK_NAP_OVER;
    ftk_nap_turn(late + 2);
    assert_true(slot->idle_s == 0);
    said = FTK_NAP_SLEEP;
    wait_for(0.003);
    assert_true(slot->idle_s == 0); /* for the rest of the epoch */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(shares, set_up, tear_down),
        cmocka_unit_test_setup_teardown(marks_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(dead_and_away, set_up, tear_down),
        cmocka_unit_test_setup_teardown(own_cores, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_wait_marks_itself, set_up, tear_down),
        cmocka_unit_test_setup_teardown(awake_or_over, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
