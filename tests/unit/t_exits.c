/* Processes that are ending (detect/exits.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/ftk.h"
#include "detect/exits.h"

#define MUCH ((size_t)256 << 20)

static pid_t begin_child(int ms, size_t bytes, int ready[2])
{
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0) {
        char c;
        assert_int_equal(close(ready[1]), 0);
        assert_int_equal(read(ready[0], &c, 1), 1);
        return pid;
    }
    char *p =
        bytes ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : "";
    if (p == MAP_FAILED)
        _exit(1);
    for (size_t i = 0; i < bytes; i += 4096)
        p[i] = 1;
    if (write(ready[1], "", 1) != 1)
        _exit(1);
    const struct timespec t = { ms / 1000, ms % 1000 * 1000000L };
    nanosleep(&t, NULL);
    _exit(0);
}

static void end_child(pid_t pid, const int ready[2])
{
    (void)kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(close(ready[0]), 0);
}

/* The kernel takes some 20 ms for the memory of such a process. */
static void test_sees_a_process_that_is_ending(void **state)
{
    int seen = 0;
    (void)state;
    for (int i = 0; i < 50 && !seen; i++) {
        int ready[2];
        siginfo_t info = { .si_pid = 0 };
        const pid_t pid = begin_child(60000, MUCH, ready);
        assert_false(ftk_exits_is_ending(pid));
        assert_int_equal(kill(pid, SIGKILL), 0);
        while (!seen && info.si_pid == 0) {
            seen = ftk_exits_is_ending(pid);
            assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT), 0);
        }
        assert_true(ftk_exits_await(pid, 60));
        end_child(pid, ready);
        assert_false(ftk_exits_is_ending(pid));
    }
    assert_true(seen);
}

static void test_waits_until_a_process_is_gone(void **state)
{
    int ready[2];
    siginfo_t info = { .si_pid = 0 };
    (void)state;
    const pid_t pid = begin_child(200, 0, ready);
    assert_true(ftk_exits_await(pid, 60));
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT), 0);
    assert_int_equal(info.si_pid, pid);
    end_child(pid, ready);
    assert_true(ftk_exits_await(pid, 60));
}

static void test_waits_no_longer_than_it_may(void **state)
{
    int ready[2];
    (void)state;
    const pid_t pid = begin_child(60000, 0, ready);
    const double begin = ftk_now_s();
    assert_false(ftk_exits_await(pid, 0.05));
    assert_true(ftk_now_s() - begin >= 0.05);
    end_child(pid, ready);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sees_a_process_that_is_ending),
        cmocka_unit_test(test_waits_until_a_process_is_gone),
        cmocka_unit_test(test_waits_no_longer_than_it_may),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
