/* Memory of a device of HIP (core/hip.c, core/memory_device.c).
 *
 * HIP without a device (tests/lib/fakehip.c) takes its place.  Each case has a process of its own,
 * because the library looks for HIP once.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../lib/fakecuda.h"
#include "../lib/fakehip.h"
#include "core/ftk.h"
#include "core/memory_kind.h"

enum { BYTES = 65536, INVALID_VALUE = 1 };

static void *driver, *cuda;
#define HIP(name) ((__typeof__(&name))dlsym(driver, #name))
#define CU(name) ((__typeof__(&name))dlsym(cuda, #name))

/* What is not true in a case ends its process. */
#define TRUE(x)                                                                                    \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            (void)fprintf(stderr, "line %d: not true: %s\n", __LINE__, #x);                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static const struct ftk_memory_ops *ops(void)
{
    return ftk_memory_ops_of(FTK_MEMORY_DEVICE);
}

static void *load(const char *name)
{
    char self[1024] = "";
    if (readlink("/proc/self/exe", self, sizeof self - 128) <= 0)
        _exit(2);
    (void)strcpy(strrchr(self, '/'), name);
    return dlopen(self, RTLD_NOW);
}

static void run_case(void (*fn)(void), const char *variable, const char *value)
{
    int status;
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)setenv("OMPI_COMM_WORLD_RANK", "0", 1);
        (void)setenv(variable, value, 1);
        ftk_report_setup(FTKIT_WARNING);
        ftk_fault_rank(0, 0);
        TRUE(!ops()->present());
        driver = load("/../fakehip/libamdhip64.so.6");
        TRUE(driver != NULL);
        (void)ops()->present(); /* it looks for HIP */
        fn();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0)
        print_error("%s=%s\n", variable, value);
    assert_int_equal(status, 0);
}

static void *pages(void)
{
    void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TRUE(p != MAP_FAILED);
    return p;
}

/* ---- which memory is a device's ------------------------------------------------------------- */

static void owns(void)
{
    static int variable;
    char *device, *pool, *managed, *pinned = pages();
    TRUE(ops()->present());
    TRUE(HIP(hipMalloc)((void **)&device, BYTES) == 0);
    TRUE(HIP(hipMallocAsync)((void **)&pool, BYTES, NULL) == 0);
    TRUE(HIP(hipMallocManaged)((void **)&managed, BYTES, 1) == 0);
    TRUE(HIP(hipHostRegister)(pinned, BYTES, 0) == 0);
    TRUE(ops()->owns(device) && ops()->owns(device + BYTES - 1) && !ops()->owns(device + BYTES));
    TRUE(ops()->owns(pool) && ops()->owns(managed));
    TRUE(!ops()->owns(NULL) && !ops()->owns(&variable) && !ops()->owns(pinned));
    TRUE(HIP(hipFree)(device) == 0);
    TRUE(!ops()->owns(device));
    TRUE(ops()->copy_out(pinned, device, 1) == FTKIT_ERR_ARG);
}

static void test_owns(void **state)
{
    (void)state;
    run_case(owns, "FAKEHIP_VERSION", "5");
    run_case(owns, "FAKEHIP_VERSION", "6");
    run_case(owns, "FAKEHIP_VERSION", "7");
}

static void is_too_old(void)
{
    void *p;
    TRUE(HIP(hipMalloc)(&p, BYTES) == 0);
    TRUE(!ops()->present() && !ops()->owns(p));
}

static void test_is_too_old(void **state)
{
    (void)state;
    run_case(is_too_old, "FAKEHIP_VERSION", "4");
}

/* ---- what the program sees of our calls ----------------------------------------------------- */

/* Errors of our calls are not the program's, and its own ones stay. */
static void keeps_the_last_error(void)
{
    int variable, device;
    char host[64], *p;
    TRUE(HIP(hipMalloc)((void **)&p, BYTES) == 0);
    TRUE(!ops()->owns(&variable) && HIP(hipPeekAtLastError)() == 0);
    TRUE(ops()->copy_out(host, p + BYTES - 8, sizeof host) == FTKIT_ERR_IO); /* beyond its end */
    TRUE(strstr(ftk_detail_text(), "HIP error 1 (") != NULL);
    TRUE(HIP(hipPeekAtLastError)() == 0);
    TRUE(HIP(hipSetDevice)(99) == INVALID_VALUE);
    TRUE(!ops()->owns(&variable) && ops()->wait(p, NULL) == FTKIT_OK);
    TRUE(HIP(hipGetLastError)() == INVALID_VALUE);
    TRUE(HIP(hipGetDevice)(&device) == 0 && device == 0);
}

static void test_keeps_the_last_error(void **state)
{
    (void)state;
    run_case(keeps_the_last_error, "FAKEHIP_VERSION", "5");
    run_case(keeps_the_last_error, "FAKEHIP_VERSION", "6");
}

/* A kernel that is under way, on a stream of device 1 that waits for no other, adds 1. */
static void add_late(char *p)
{
    void *stream, *module, *add;
    unsigned long long n = 1;
    double value = 1;
    void *args[] = { &p, &n, &value };
    const unsigned non_blocking = 1;
    TRUE(HIP(hipSetDevice)(1) == 0 && HIP(hipStreamCreateWithFlags)(&stream, non_blocking) == 0);
    TRUE(HIP(hipModuleLoadData)(&module, "") == 0);
    TRUE(HIP(hipModuleGetFunction)(&add, module, "add") == 0);
    TRUE(HIP(hipModuleLaunchKernel)(add, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL) == 0);
    TRUE(HIP(hipSetDevice)(0) == 0);
}

/* Memory of another device than the thread's: bytes are right, and the thread's device stays. */
static void keeps_the_device(void)
{
    char *p, from[BYTES], to[BYTES] = { 0 };
    const double one = 1;
    double two;
    int device;
    unsigned number;
    for (size_t i = 0; i < BYTES; i++)
        from[i] = (char)(i * 7 + i / 256);
    TRUE(HIP(hipSetDevice)(1) == 0 && HIP(hipMalloc)((void **)&p, BYTES) == 0);
    TRUE(HIP(hipSetDevice)(0) == 0);
    TRUE(ops()->begin_in(p, from, BYTES) == FTKIT_OK && ops()->finish(p) == FTKIT_OK);
    TRUE(ops()->begin_out(to, p, BYTES, &number) == FTKIT_OK);
    TRUE(ops()->await(number) == FTKIT_OK && memcmp(from, to, BYTES) == 0);
    TRUE(ops()->wait(p, NULL) == FTKIT_OK && ops()->check() == FTKIT_OK);
    TRUE(HIP(hipGetDevice)(&device) == 0 && device == 0);
    TRUE(ops()->copy_in(p, &one, sizeof one) == FTKIT_OK);
    add_late(p);
    TRUE(ops()->wait(p, NULL) == FTKIT_OK && ops()->copy_out(&two, p, sizeof two) == FTKIT_OK);
    TRUE(two == 2);
    bool begun = true;
    uint64_t sum;
    TRUE(ops()->begin_sums(p, BYTES, 1, &sum, &begun) == FTKIT_OK && !begun);
}

static void test_keeps_the_device(void **state)
{
    (void)state;
    run_case(keeps_the_device, "FAKEHIP_VERSION", "6");
}

/* ---- a process with both -------------------------------------------------------------------- */

static CUdeviceptr of_cuda(void)
{
    void *context;
    CUdeviceptr p = 0;
    cuda = load("/../fakecuda/libcuda.so.1");
    TRUE(cuda && CU(cuInit)(0) == 0 && CU(cuDevicePrimaryCtxRetain)(&context, 0) == 0);
    TRUE(CU(cuCtxSetCurrent)(context) == 0 && CU(cuMemAlloc_v2)(&p, BYTES) == 0);
    TRUE(ops()->present());
    return p;
}

/* Each driver gets its own addresses, and releases what it has pinned. */
static void both(void)
{
    char *p, *host = pages(), *other = pages(), to[8];
    CUdeviceptr of = of_cuda();
    const void *q = (const void *)(uintptr_t)of;
    TRUE(HIP(hipMalloc)((void **)&p, BYTES) == 0);
    TRUE(ops()->owns(p) && ops()->owns(q));
    TRUE(ops()->copy_in(p, "of HIP", 7) == FTKIT_OK);
    TRUE(ops()->copy_in((void *)(uintptr_t)of, "of CUDA", 8) == FTKIT_OK);
    TRUE(ops()->copy_out(to, p, 7) == FTKIT_OK && strcmp(to, "of HIP") == 0);
    TRUE(ops()->copy_out(to, q, 8) == FTKIT_OK && strcmp(to, "of CUDA") == 0);
    TRUE(ops()->wait(p, NULL) == FTKIT_OK && ops()->wait(q, NULL) == FTKIT_OK
         && ops()->check() == FTKIT_OK);
    TRUE(ops()->pin(host, BYTES, p) && ops()->pin(other, BYTES, q));
    TRUE(ops()->unpin(other) && ops()->unpin(host));
    TRUE(HIP(hipHostRegister)(host, BYTES, 0) == 0); /* it is free again */
    TRUE(CU(cuMemHostRegister_v2)(other, BYTES, 0) == 0);
}

static void test_both(void **state)
{
    (void)state;
    run_case(both, "FAKEHIP_VERSION", "6");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_owns),
        cmocka_unit_test(test_is_too_old),
        cmocka_unit_test(test_keeps_the_last_error),
        cmocka_unit_test(test_keeps_the_device),
        cmocka_unit_test(test_both),
    };
    return cmocka_run_group_tests_name("hip", tests, NULL, NULL);
}
