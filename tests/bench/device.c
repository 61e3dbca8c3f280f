/* Memory of a device of CUDA, for scripts/device-check.
 *
 *   device probe            whether there is a driver, and a device; no MPI is needed
 *   device sets MIB [REPS]  sets of MIB on the device, own copies only, in steady state; bound: one
 *                           copy of these bytes into pinned memory, by all ranks at once
 *   device apart MIB [REPS]  the longest call of ftkit_checkpoint() while sets of a line apart are
 *                           written, with snapshots on the device; bound: the same copy
 *   device managed MIB      the time of a kernel behind a set of managed memory, and before it
 *   device lost MIB         rank 1 has MIB of the device, and is killed: its replacement needs as
 *                           much; the other ranks have 1 MiB, and sets have no more
 *   device fault MIB        the same, but a kernel of rank 1 has an error
 *
 * In `lost` and `fault` numbers on the device are compared with those that follow from the step.
 * Exit code of probe: 77, with the reason as the line, if there is no device.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "../lib/fakecuda.h"
#include "bench.h"

enum { SKIPPED = 77, THREADS = 256, STEPS = 8, FAILS_AT = 4 };
#define MIB ((size_t)1 << 20)

static void *driver, *stream, *add;
static CUdeviceptr memory;
static char *pinned;
static struct bench b = { .program = "device", .reps = 5 };

#define CU(name) ((__typeof__(&name))dlsym(driver, #name))
#define MUST(name, ...) must(CU(name)(__VA_ARGS__), #name)

/* add(p, n, value): p[i] += value, one thread a number, 256 threads a group. */
static const char kernel[] =
    ".version 6.3\n.target sm_50\n.address_size 64\n.visible .entry add(\n"
    ".param .u64 add_param_0,\n.param .u64 add_param_1,\n.param .f64 add_param_2\n)\n{\n"
    ".reg .pred %p<2>;\n.reg .b32 %r<3>;\n.reg .b64 %rd<9>;\n.reg .f64 %fd<4>;\n"
    "ld.param.u64 %rd4, [add_param_1];\nmov.u32 %r1, %ctaid.x;\nmul.wide.s32 %rd5, %r1, 256;\n"
    "mov.u32 %r2, %tid.x;\ncvt.s64.s32 %rd6, %r2;\nadd.s64 %rd7, %rd5, %rd6;\n"
    "setp.ge.u64 %p1, %rd7, %rd4;\n@%p1 bra LBB0_2;\nld.param.f64 %fd1, [add_param_2];\n"
    "ld.param.u64 %rd2, [add_param_0];\ncvta.to.global.u64 %rd3, %rd2;\nshl.b64 %rd8, %rd7, 3;\n"
    "add.s64 %rd1, %rd3, %rd8;\nld.global.f64 %fd2, [%rd1];\nadd.f64 %fd3, %fd2, %fd1;\n"
    "st.global.f64 [%rd1], %fd3;\nLBB0_2:\nret;\n}\n";

static void must(int code, const char *call)
{
    if (code != 0)
        bench_die(&b, "%s: CUDA error %d", call, code);
}

/* ---- probe -------------------------------------------------------------------------------- */

static int none(const char *why, int code)
{
    printf("device: %s (%d)\n", why, code);
    return SKIPPED;
}

static int probe(void)
{
    int n = 0, code;
    char name[128] = "";
    size_t bytes = 0;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
        return none(dlerror(), 0);
    if ((code = CU(cuInit)(0)) != 0)
        return none("the driver of CUDA does not start: cuInit", code);
    if ((code = CU(cuDeviceGetCount)(&n)) != 0 || n == 0)
        return none("the driver of CUDA has no device: cuDeviceGetCount", code);
    MUST(cuDeviceGetName, name, (int)sizeof name, 0);
    MUST(cuDeviceTotalMem_v2, &bytes, 0);
    printf("device: %s, %d devices, %zu MiB%s\n", name, n, bytes / MIB,
        dlsym(driver, "fakecuda_launches") ? ", a driver without a device" : "");
    return 0;
}

/* ---- the device ------------------------------------------------------------------------------ */

static void start_device(void)
{
    void *context, *module;
    const unsigned non_blocking = 1;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
        bench_die(&b, "%s", dlerror());
    MUST(cuInit, 0);
    MUST(cuDevicePrimaryCtxRetain, &context, 0);
    MUST(cuCtxSetCurrent, context);
    MUST(cuStreamCreate, &stream, non_blocking);
    MUST(cuModuleLoadData, &module, kernel);
    MUST(cuModuleGetFunction, &add, module, "add");
}

static void add_to(CUdeviceptr p, size_t bytes, double value)
{
    unsigned long long n = bytes / sizeof value;
    void *args[] = { &p, &n, &value };
    const unsigned groups = (unsigned)((n + THREADS - 1) / THREADS);
    MUST(cuLaunchKernel, add, groups, 1, 1, THREADS, 1, 1, 0, stream, args, NULL);
}

static void add_and_wait(struct bench *of)
{
    add_to(memory, of->bytes, 1);
    MUST(cuStreamSynchronize, stream);
}

static void allocate(bool managed)
{
    const unsigned global = 1;
    if (managed)
        MUST(cuMemAllocManaged, &memory, b.bytes, global);
    else
        MUST(cuMemAlloc_v2, &memory, b.bytes);
    MUST(cuMemsetD8_v2, memory, 0, b.bytes);
}

static void open_job(int *argc, char ***argv)
{
    bench_set("FTKIT_LEVEL_HDF5_ENABLED", "false");
    bench_set("FTKIT_CHECKPOINT_PERIOD", "1 call");
    bench_open(&b, argc, argv);
    start_device();
}

static void register_bytes(size_t bytes)
{
    bench_ft(&b, ftkit_register(b.ft, "data", (void *)(uintptr_t)memory, bytes, MPI_BYTE), FTKIT_OK,
        "register");
}

/* ---- times ------------------------------------------------------------------------------- */

static void copy_pinned(struct bench *of)
{
    MUST(cuMemcpyDtoHAsync_v2, pinned, memory, of->bytes, stream);
    MUST(cuStreamSynchronize, stream);
}

static void sets(void)
{
    allocate(false);
    pinned = bench_alloc(&b, b.bytes);
    MUST(cuMemHostRegister_v2, pinned, b.bytes, 0);
    register_bytes(b.bytes);
    bench_ft(&b, ftkit_recover(b.ft, NULL), FTKIT_NO_SET, "recover");
    for (int i = -3; i < b.reps; i++) { /* the first sets pin */
        const double bound = bench_time(&b, copy_pinned);
        add_and_wait(&b);
        const double set = bench_time(&b, bench_checkpoint);
        if (i >= 0)
            bench_row(
                &b, "ranks=%d bytes=%zu ftkit_s=%.6f bound_s=%.6f", b.nranks, b.bytes, set, bound);
    }
    MUST(cuMemHostUnregister, pinned);
}

/* Of the calls between two sets, one cuts. */
static double longest_call(void)
{
    ftkit_info info = { .size = sizeof info };
    double longest = 0;
    bench_ft(&b, ftkit_query(b.ft, &info), FTKIT_OK, "query");
    for (const uint64_t before = info.committed; info.committed < before + 2;) {
        add_and_wait(&b);
        const double now = bench_time(&b, bench_checkpoint);
        longest = now > longest ? now : longest;
        bench_ft(&b, ftkit_query(b.ft, &info), FTKIT_OK, "query");
    }
    return bench_max(&b, longest);
}

static void apart(void)
{
    allocate(false);
    pinned = bench_alloc(&b, b.bytes);
    MUST(cuMemHostRegister_v2, pinned, b.bytes, 0);
    register_bytes(b.bytes);
    bench_ft(&b, ftkit_recover(b.ft, NULL), FTKIT_NO_SET, "recover");
    for (int i = -2; i < b.reps; i++) { /* the first sets pin */
        const double bound = bench_time(&b, copy_pinned), call = longest_call();
        if (i >= 0)
            bench_row(&b, "bytes=%zu ftkit_s=%.6f bound_s=%.6f", b.bytes, call, bound);
    }
    MUST(cuMemHostUnregister, pinned);
}

static void managed(void)
{
    allocate(true);
    register_bytes(b.bytes);
    bench_ft(&b, ftkit_recover(b.ft, NULL), FTKIT_NO_SET, "recover");
    for (int i = 0; i < 3; i++) {
        add_and_wait(&b);
        bench_checkpoint(&b);
    }
    for (int i = 0; i < b.reps; i++) {
        (void)bench_time(&b, add_and_wait);
        const double before = bench_time(&b, add_and_wait);
        bench_checkpoint(&b);
        const double after = bench_time(&b, add_and_wait);
        bench_row(&b, "bytes=%zu after_s=%.6f before_s=%.6f", b.bytes, after, before);
    }
}

/* ---- losses ------------------------------------------------------------------------------ */

/* The first numbers are those of this step. */
static void compare(int step)
{
    double h[64];
    MUST(cuStreamSynchronize, stream);
    MUST(cuMemcpyDtoH_v2, h, memory, sizeof h);
    for (size_t i = 0; i < sizeof h / sizeof h[0]; i++)
        if (h[i] != step)
            bench_die(&b, "step %d: number %zu is %g", step, i, h[i]);
}

/* Rank 1 is lost in its first life; true: its context has ended, and it finds out in the next
 * set. */
static bool lose(bool by_kernel)
{
    const CUdeviceptr nowhere = 8;
    ftkit_info info = { .size = sizeof info };
    bench_ft(&b, ftkit_query(b.ft, &info), FTKIT_OK, "query");
    if (b.rank != 1 || info.incarnation > 0)
        return false;
    if (!by_kernel)
        (void)raise(SIGKILL);
    add_to(nowhere, sizeof(double), 1);
    return CU(cuStreamSynchronize)(stream) != 0;
}

static void go_through(bool by_kernel)
{
    int step = 0;
    if (b.rank != 1)
        b.bytes = MIB;
    allocate(false);
    register_bytes(MIB);
    bench_ft(&b, ftkit_register_replicated(b.ft, "step", &step, 1, MPI_INT), FTKIT_OK, "register");
    int rc = ftkit_recover(b.ft, NULL);
    while (rc >= 0) {
        rc = ftkit_checkpoint(b.ft);
        if (rc < 0)
            break;
        compare(step);
        if (step == STEPS && (rc = ftkit_finish(b.ft)) != FTKIT_ROLLED_BACK)
            break;
        if (step == STEPS || (step == FAILS_AT && lose(by_kernel)))
            continue;
        (void)MPI_Barrier(b.comm); /* after a loss the next call of ftkit repairs */
        add_to(memory, MIB, 1);
        step++;
    }
    if (rc < 0)
        bench_die(&b, "%s: %s", ftkit_strerror(rc), ftkit_detail(b.ft));
    bench_row(&b, "steps=%d ranks=%d", step, b.nranks);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "probe") == 0)
        return probe();
    b.bytes = argc > 2 ? (size_t)strtoull(argv[2], NULL, 10) * MIB : 0;
    b.reps = argc > 3 ? atoi(argv[3]) : b.reps;
    if (b.bytes == 0 || b.reps < 1) {
        fprintf(stderr, "usage: device probe | {sets|apart|managed|lost|fault} MIB [REPS]\n");
        return 2;
    }
    if (strcmp(mode, "lost") != 0 && strcmp(mode, "fault") != 0)
        bench_set("FTKIT_LEVEL_MEMORY_SCHEME", "own");
    if (strcmp(mode, "apart") == 0) {
        bench_set("FTKIT_LOG_ENABLED", "true");
        bench_set("FTKIT_CHECKPOINT_LINE", "apart");
        bench_set("FTKIT_DEVICE_SNAPSHOT", "auto");
    }
    open_job(&argc, &argv);
    if (strcmp(mode, "sets") == 0)
        sets();
    else if (strcmp(mode, "apart") == 0)
        apart();
    else if (strcmp(mode, "managed") == 0)
        managed();
    else
        go_through(strcmp(mode, "fault") == 0);
    return bench_close(&b);
}
