/* What the tests of memory of a device share: cases, each in a process of its own, because the
 * library looks for a driver once.
 *
 *     FTKIT_TEST_SEED=... the seed of numbers by chance
 *     FTKIT_TEST_DRIVER=libcuda.so.1 a driver with a device in place of tests/lib/fakecuda.c
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef T_DEVICE_H
#define T_DEVICE_H

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../lib/fakecuda.h"
#include "core/ftk.h"
#include "core/memory_kind.h"

static uint64_t seed;
static void *driver;
#define CU(name) ((__typeof__(&name))dlsym(driver, #name))

/* What is not true in a case ends its process. */
#define TRUE(x)                                                                                    \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            (void)fprintf(stderr, "FTKIT_TEST_SEED=%llu, line %d: not true: %s\n",                 \
                (unsigned long long)seed, __LINE__, #x);                                           \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static inline uint64_t number(uint64_t below)
{
    static uint64_t n;
    uint64_t x = (seed + ++n) * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return (x ^ x >> 31) % below;
}

static inline void *start_device(int device)
{
    void *context;
    TRUE(CU(cuInit)(0) == 0);
    if (device > 0)
        TRUE(CU(cuCtxCreate_v2)(&context, 0, device) == 0);
    else
        TRUE(CU(cuDevicePrimaryCtxRetain)(&context, 0) == 0);
    TRUE(CU(cuCtxSetCurrent)(context) == 0);
    return context;
}

static inline const struct ftk_memory_ops *ops(void)
{
    return ftk_memory_ops_of(FTK_MEMORY_DEVICE);
}

/* ---- a case in a process of its own ---------------------------------------------------------- */

static char said[4096]; /* on stderr */

static inline const char *real_driver(void)
{
    return getenv("FTKIT_TEST_DRIVER");
}

/* Whether there is a device.  In a case. */
static inline bool is_real(void)
{
    return real_driver() && !dlsym(driver, "fakecuda_launches");
}

static inline void run_case(void (*fn)(void), const char *variable, const char *value)
{
    int out[2], status;
    size_t n = 0;
    assert_int_equal(pipe(out), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char self[1024] = "";
        (void)setenv("OMPI_COMM_WORLD_RANK", "0", 1);
        if (variable)
            (void)setenv(variable, value, 1);
        if (dup2(out[1], 2) < 0 || readlink("/proc/self/exe", self, sizeof self - 64) <= 0)
            _exit(2);
        (void)strcpy(strrchr(self, '/'), "/../fakecuda/libcuda.so.1");
        driver = dlopen(real_driver() ? real_driver() : self, RTLD_NOW);
        TRUE(driver && ops()->present());
        ftk_report_setup(FTKIT_WARNING);
        ftk_fault_rank(0, 0);
        fn();
        _exit(0);
    }
    assert_int_equal(close(out[1]), 0);
    for (ssize_t got;
         n < sizeof said - 1 && (got = read(out[0], said + n, sizeof said - 1 - n)) > 0;)
        n += (size_t)got;
    said[n] = '\0';
    assert_int_equal(close(out[0]), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0)
        print_error("%s=%s: %s\n", variable ? variable : "", value ? value : "", said);
    assert_int_equal(status, 0);
}

static inline int times(const char *text)
{
    int n = 0;
    for (const char *p = said; (p = strstr(p, text)); p += strlen(text))
        n++;
    return n;
}

static inline void begin_seed(void)
{
    const char *first = getenv("FTKIT_TEST_SEED");
    seed = first ? strtoull(first, NULL, 0) : ftk_random();
}

#endif
