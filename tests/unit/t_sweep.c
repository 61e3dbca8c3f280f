/* Leftovers of other jobs in shared memory: looked at in linear time, and those of a job that lives
 * stay.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "detect/watch_page.h"

#define FEW 100
#define MANY 800

/* The file i of determinants of a job that no other test has. */
static void name_of(const char *job, int i, char path[128])
{
    snprintf(path, 128, "/dev/shm/" FTK_DET_PREFIX "0-%s-%d-%d-0", job, i, i);
}

/* Make n files; how many were not there. */
static int make(const char *job, int n)
{
    char path[128];
    int made = 0;
    for (int i = 0; i < n; i++) {
        name_of(job, i, path);
        int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
        assert_true(fd >= 0 || errno == EEXIST);
        if (fd < 0)
            continue;
        made++;
        close(fd);
    }
    return made;
}

/* Of this process: other processes of the machine do not count. */
static double cpu_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The time of a look at n files.  A job that begins on this machine removes all of them, at any
 * moment: a look counts if the files are there before and after. */
static double look(const char *job, int n)
{
    double best = 1e9;
    for (int good = 0, all = 0; good < 5; all++) {
        assert_true(all < 10000);
        (void)make(job, n);
        double begin_s = cpu_s();
        (void)ftk_dog_sweep(true);
        double s = cpu_s() - begin_s;
        if (make(job, n) > 0)
            continue;
        best = s < best ? s : best;
        good++;
    }
    return best;
}

static void linear(void **state)
{
    char job[32], path[128];
    (void)state;
    snprintf(job, sizeof job, "dead%x", (unsigned)getpid());
    const double few = look(job, FEW);
    const double many = look(job, MANY);
    for (int i = 0; i < MANY; i++) {
        name_of(job, i, path);
        (void)unlink(path);
    }
    print_message("%d files %.3f ms, %d files %.3f ms\n", FEW, 1e3 * few, MANY, 1e3 * many);
    assert_true(many < 25 * few + 1e-3); /* linear: 8 times; quadratic: 64 times */
}

/* A job with a page that a process has locked lives; its determinants stay. */
static void living(void **state)
{
    char job[32], page[96], path[2][128];
    struct ftk_dog_page *p;
    int lock;
    (void)state;
    snprintf(job, sizeof job, "live%x", (unsigned)getpid());
    snprintf(page, sizeof page, FTK_DOG_PREFIX "%s-0", job);
    assert_int_equal(ftk_dog_page_open(page, &p, &lock), 0);
    assert_int_equal(make(job, 1), 1);
    name_of(job, 0, path[0]);
    snprintf(job, sizeof job, "gone%x", (unsigned)getpid());
    assert_int_equal(make(job, 1), 1);
    name_of(job, 0, path[1]);
    (void)ftk_dog_sweep(false);
    assert_int_equal(access(path[0], F_OK), 0);
    assert_int_not_equal(access(path[1], F_OK), 0);
    ftk_dog_page_close(page, p, lock, true);
    (void)ftk_dog_sweep(false);
    assert_int_not_equal(access(path[0], F_OK), 0);
}

#define BEGINS 1500
#define LOOKS 10

/* A job after the other begins, until there were enough looks, too: its page, then its
 * determinants.  Return how many files of living jobs were removed meanwhile. */
static int begin_and_end(const _Atomic int *looks)
{
    int removed = 0;
    for (uint64_t i = 0; i < BEGINS || atomic_load(looks) <= LOOKS; i++) {
        char job[32], page[96], path[128];
        struct ftk_dog_page *p;
        int lock;
        snprintf(job, sizeof job, "begin%" PRIx64, ((uint64_t)getpid() << 32) + i);
        snprintf(page, sizeof page, FTK_DOG_PREFIX "%s-0", job);
        if (ftk_dog_page_open(page, &p, &lock) != 0)
            return -1;
        assert_int_equal(make(job, 1), 1);
        name_of(job, 0, path);
        struct timespec t = { 0, 200000 }; /* as long as a sweep takes */
        (void)nanosleep(&t, NULL);
        removed += access(path, F_OK) != 0;
        (void)unlink(path);
        ftk_dog_page_close(page, p, lock, true);
    }
    return removed;
}

/* Other jobs begin while this one looks for leftovers: their determinants stay. */
static void beginning(void **state)
{
    (void)state;
    int status = 0;
    _Atomic int *looks =
        mmap(NULL, sizeof *looks, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(looks != MAP_FAILED);
    const pid_t other = fork();
    assert_true(other >= 0);
    if (other == 0)
        _exit(begin_and_end(looks) == 0 ? 0 : 1);
    while (waitpid(other, &status, WNOHANG) == 0) {
        (void)ftk_dog_sweep(false);
        atomic_fetch_add(looks, 1);
    }
    print_message("%d looks\n", atomic_load(looks));
    assert_true(atomic_load(looks) > LOOKS);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(munmap((void *)looks, sizeof *looks), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear),
        cmocka_unit_test(living),
        cmocka_unit_test(beginning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
