/* Memory of a device that a dead process still has (detect/watchdog.c, detect/exits.c): a
 * replacement gets memory when the process is gone.
 *
 * A child process has more than the half of the device.  It ends as a killed process does whose
 * driver is slow: its main thread has ended, so the system says that it is ending, but a last
 * thread is there until the test lets it go.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "detect/dog.h"
#include "detect/exits.h"
#include "t_device.h"

#define MIB ((size_t)1 << 20)
#define ROOM "10"           /* MiB */
#define PART (6 * MIB)      /* of the device: it has no room for two of them */
#define LATE_MS 100         /* the time after which the process is gone */
enum { OUT_OF_MEMORY = 2 }; /* CUDA_ERROR_OUT_OF_MEMORY */

struct dead {
    struct ftk_dog_page *page;
    pid_t pid;
    int ready[2], die[2], go[2]; /* pipes */
};

static struct dead dead;

static void wait_for(const int end[2])
{
    char c;
    TRUE(read(end[0], &c, 1) == 1);
}

static void let(const int end[2])
{
    TRUE(write(end[1], "", 1) == 1);
}

/* ---- the process that dies ------------------------------------------------------------------- */

static void *last_thread(void *arg)
{
    (void)arg;
    wait_for(dead.go);
    raise(SIGKILL);
    return NULL;
}

static void live_and_die(void)
{
    struct ftk_watchdog dog = { .page = dead.page, .own = &dead.page->slots[0] };
    CUdeviceptr p;
    pthread_t thread;
    TRUE(close(dead.die[1]) == 0 && close(dead.go[1]) == 0); /* without the test it ends, too */
    (void)start_device(0);
    TRUE(CU(cuMemAlloc_v2)(&p, PART) == 0);
    ftk_watchdog_device(&dog);
    TRUE(pthread_create(&thread, NULL, last_thread, NULL) == 0);
    let(dead.ready);
    wait_for(dead.die);
    syscall(SYS_exit, 0); /* this thread alone */
}

static void begin(void)
{
    TRUE(pipe(dead.ready) == 0 && pipe(dead.die) == 0 && pipe(dead.go) == 0);
    dead.page =
        mmap(NULL, sizeof *dead.page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TRUE(dead.page != MAP_FAILED);
    dead.pid = fork();
    TRUE(dead.pid >= 0);
    if (dead.pid == 0)
        live_and_die();
    wait_for(dead.ready);
    (void)start_device(0);
}

/* ---- the replacement ------------------------------------------------------------------------- */

static int allocate(void)
{
    CUdeviceptr p;
    return CU(cuMemAlloc_v2)(&p, PART);
}

/* Let the process go, while the replacement waits. */
static void *let_go(void *arg)
{
    (void)arg;
    nanosleep(&(struct timespec){ 0, LATE_MS * 1000000L }, NULL);
    let(dead.go);
    return NULL;
}

static void waits(void)
{
    pthread_t thread;
    int status;
    begin();
    struct ftk_watchdog dog = { .page = dead.page, .own = &dead.page->slots[1] };
    /* while the process lives, nobody waits for it */
    TRUE(!ftk_exits_is_ending(dead.pid));
    ftk_watchdog_await_devices(&dog, 60);
    TRUE(allocate() == OUT_OF_MEMORY);
    let(dead.die);
    for (const double end = ftk_now_s() + 60; !ftk_exits_is_ending(dead.pid);) {
        TRUE(ftk_now_s() < end);
        (void)sched_yield();
    }
    TRUE(allocate() == OUT_OF_MEMORY);
    ftk_watchdog_await_devices(&dog, 0.05); /* no longer than this */
    TRUE(allocate() == OUT_OF_MEMORY);
    const double from = ftk_now_s();
    TRUE(pthread_create(&thread, NULL, let_go, NULL) == 0);
    ftk_watchdog_await_devices(&dog, 60);
    TRUE(allocate() == 0);
    TRUE(ftk_now_s() - from >= 0.001 * LATE_MS);
    TRUE(pthread_join(thread, NULL) == 0);
    TRUE(waitpid(dead.pid, &status, 0) == dead.pid && WIFSIGNALED(status));
}

/* The line of the wait that was too short, and no other one. */
static void test_waits(void **state)
{
    char path[] = "/tmp/ftkit-device-dead.XXXXXX";
    const int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(setenv("FAKECUDA_SHARED", path, 1), 0);
    run_case(waits, "FAKECUDA_ROOM", ROOM);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(1, times("has not given its memory of a device back"));
    assert_int_equal(1, times("for 0.1 s: going on") + times("for 0.0 s: going on"));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_waits) };
    begin_seed();
    return cmocka_run_group_tests_name("device dead", tests, NULL, NULL);
}
