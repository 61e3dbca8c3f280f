/* The public calls with memory of a device (tests/lib/fakecuda.c), of one rank: memory of each
 * kind, and what a program may do wrong with it.
 *
 * The tests use one process, in this order: at first there is no driver, and at last the context
 * of the device has ended.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "../lib/fakecuda.h"
#include "core/ftk.h"
#include "t_api.h"

static void *driver, *context;
#define CU(name) ((__typeof__(&name))dlsym(driver, #name))
#define MUST(name, ...) assert_int_equal(CU(name)(__VA_ARGS__), 0)

static void *at(CUdeviceptr p)
{
    return (void *)(uintptr_t)p;
}

/* ---- looks for a driver ---------------------------------------------------------------------- */

static const char *const drivers[] = { "libcuda.so.1", "libamdhip64.so.7", "libamdhip64.so.6",
    "libamdhip64.so.5", "libamdhip64.so" };
static unsigned looks[COUNT(drivers)];

/* In place of the one of the system, for the library too. */
void *dlopen(const char *name, int flags)
{
    void *(*next)(const char *, int);
    *(void **)&next = dlsym(RTLD_NEXT, "dlopen");
    for (size_t i = 0; name && i < COUNT(drivers); i++)
        looks[i] += strcmp(name, drivers[i]) == 0;
    return next(name, flags);
}

/* Each driver has been looked for so often since the last call. */
static void check_looks(int line, unsigned want)
{
    for (size_t i = 0; i < COUNT(drivers); i++)
        if (looks[i] != want)
            fail_msg("line %d: %u looks for %s, not %u", line, looks[i], drivers[i], want);
    memset(looks, 0, sizeof looks);
}
#define LOOKS(want) check_looks(__LINE__, (want))

/* A program without a device pays for looks where it registers data; a region whose address may
 * change costs one in each set, too. */
static void looks_for_drivers(void **state)
{
    (void)state;
    static const size_t shape[1] = { 10 }, zero[1] = { 0 };
    double x[10] = { 0 }, *grows = malloc(sizeof x);
    size_t n = 10;
    int64_t offset = 0;
    uint64_t set;
    ftkit_ctx *ft = open_context();
    assert_non_null(grows);
    memset(looks, 0, sizeof looks); /* of the MPI, and of regions of the library */
    CHECK(FTKIT_OK, ft, ftkit_register(ft, "flat", x, 10, MPI_DOUBLE));
    LOOKS(1);
    CHECK(FTKIT_OK, ft, ftkit_register_replicated(ft, "same", x, 10, MPI_DOUBLE));
    LOOKS(1);
    CHECK(FTKIT_OK, ft,
        ftkit_register_array(ft, "array", x, MPI_DOUBLE, 1, shape, shape, zero, NULL));
    LOOKS(1);
    CHECK(FTKIT_OK, ft, ftkit_register_offset(ft, "offset", NULL, &offset));
    LOOKS(1);
    CHECK(FTKIT_NO_SET, ft, ftkit_recover(ft, &set));
    save(ft);
    for (int i = 0; i < 1000; i++)
        CHECK(FTKIT_OK, ft, ftkit_checkpoint(ft));
    LOOKS(0);
    close_context(&ft);
    ft = open_context();
    CHECK(FTKIT_OK, ft, ftkit_register_growing(ft, "g", (void **)&grows, &n, MPI_DOUBLE, 0, 0));
    LOOKS(3); /* for both variables, and for the data */
    close_context(&ft);
    free(grows);
}

/* ---- memory of each kind ------------------------------------------------------------------- */

enum { BYTES = 700001, SHIFT = 3 };

/* A kind of memory, and how it is registered. */
struct kind {
    const char *name;
    CUdeviceptr memory, p;
    size_t bytes;
};
enum { PRIMARY, FOREIGN, POOL, MANAGED, RESERVED, MISALIGNED, EMPTY, REPLICATED, GROWING };
enum { SERIALIZED, KINDS };

static void load_driver(void)
{
    char self[1024] = "";
    if (driver)
        return;
    assert_true(readlink("/proc/self/exe", self, sizeof self - 64) > 0);
    (void)strcpy(strrchr(self, '/'), "/../fakecuda/libcuda.so.1");
    driver = dlopen(self, RTLD_NOW);
    assert_non_null(driver);
    MUST(cuInit, 0);
    MUST(cuDevicePrimaryCtxRetain, &context, 0);
    MUST(cuCtxSetCurrent, context);
}

static int enter_with_device(void **state)
{
    load_driver();
    return enter(state);
}

static CUdeviceptr allocate(size_t bytes)
{
    CUdeviceptr p = 0;
    MUST(cuMemAlloc_v2, &p, bytes);
    return p;
}

static void make_memory(struct kind *k, int i)
{
    void *foreign = NULL;
    if (i == FOREIGN) { /* memory of a second context, on the second device */
        MUST(cuCtxCreate_v2, &foreign, 0, 1);
        k->memory = allocate(BYTES + SHIFT);
        MUST(cuCtxPopCurrent_v2, &foreign);
    } else if (i == POOL) {
        MUST(cuMemAllocAsync, &k->memory, BYTES + SHIFT, NULL);
    } else if (i == MANAGED) {
        const unsigned global = 1;
        MUST(cuMemAllocManaged, &k->memory, BYTES + SHIFT, global);
    } else if (i == RESERVED) {
        MUST(fakecuda_reserve, &k->memory, BYTES + SHIFT);
    } else {
        k->memory = allocate(BYTES + SHIFT);
    }
}

static void make_kinds(struct kind *k)
{
    static const char *const names[] = { "primary", "foreign", "pool", "managed", "reserved",
        "misaligned", "empty", "replicated", "growing", "serialized" };
    for (int i = 0; i < KINDS; i++) {
        k[i] = (struct kind){ .name = names[i], .bytes = i == EMPTY ? 0 : BYTES };
        make_memory(&k[i], i);
        k[i].p = k[i].memory + (i == MISALIGNED ? SHIFT : 0);
    }
}

static void fill_kinds(const struct kind *k, uint64_t seed)
{
    for (int i = 0; i < KINDS; i++) {
        void *h = filled(BYTES + SHIFT, seed + (uint64_t)i);
        MUST(cuMemcpyHtoD_v2, k[i].memory, h, BYTES + SHIFT);
        free(h);
    }
}

/* What is in front of a region, and behind it, is scribbled over; the region is as it was. */
static void check_kinds(const struct kind *k, uint64_t seed, uint64_t scribble)
{
    char *got = malloc(BYTES + SHIFT);
    assert_non_null(got);
    for (int i = 0; i < KINDS; i++) {
        const size_t first = (size_t)(k[i].p - k[i].memory), end = first + k[i].bytes;
        char *want = filled(BYTES + SHIFT, seed + (uint64_t)i);
        char *other = filled(BYTES + SHIFT, scribble + (uint64_t)i);
        MUST(cuMemcpyDtoH_v2, got, k[i].memory, BYTES + SHIFT);
        check_bytes(k[i].name, got, other, 0, first);
        check_bytes(k[i].name, got, want, first, end);
        check_bytes(k[i].name, got, other, end, BYTES + SHIFT);
        free(want);
        free(other);
    }
    free(got);
}

/* The program's own copies: ftkit gets an address of the device as the argument, and never
 * accesses it. */
static int measure_own(void *arg, size_t *bytes)
{
    *bytes = arg ? BYTES : 0;
    return 0;
}

static int pack_own(void *arg, void *to, size_t bytes)
{
    return CU(cuMemcpyDtoH_v2)(to, (CUdeviceptr)(uintptr_t)arg, bytes);
}

static int unpack_own(void *arg, const void *from, size_t bytes)
{
    return CU(cuMemcpyHtoD_v2)((CUdeviceptr)(uintptr_t)arg, from, bytes);
}

static ftkit_ctx *open_with_kinds(struct kind *k)
{
    static void *grows;
    static size_t count;
    const ftkit_serializer own = { sizeof own, measure_own, pack_own, unpack_own };
    ftkit_ctx *ft = open_context();
    for (int i = 0; i < KINDS; i++) {
        grows = i == GROWING ? at(k[i].p) : grows;
        count = i == GROWING ? k[i].bytes : count;
        CHECK(FTKIT_OK, ft,
            i == REPLICATED
                ? ftkit_register_replicated(ft, k[i].name, at(k[i].p), k[i].bytes, MPI_BYTE)
            : i == GROWING
                ? ftkit_register_growing(ft, k[i].name, &grows, &count, MPI_BYTE, NULL, NULL)
            : i == SERIALIZED ? ftkit_register_serializer(ft, k[i].name, &own, at(k[i].p))
                              : ftkit_register(ft, k[i].name, at(k[i].p), k[i].bytes, MPI_BYTE));
    }
    return ft;
}

static void check_current_context(void)
{
    void *now = NULL;
    MUST(cuCtxPopCurrent_v2, &now);
    assert_ptr_equal(now, context);
    MUST(cuCtxPushCurrent_v2, context);
}

static void each_kind(void **state)
{
    struct kind k[KINDS];
    uint64_t set = 0;
    (void)state;
    make_kinds(k);
    fill_kinds(k, 1);
    ftkit_ctx *ft = open_with_kinds(k);
    CHECK(FTKIT_NO_SET, ft, ftkit_recover(ft, &set));
    save(ft);
    check_kinds(k, 1, 1);
    check_current_context();
    close_context(&ft);
    fill_kinds(k, 100);
    ft = open_with_kinds(k);
    CHECK(FTKIT_OK, ft, ftkit_recover(ft, &set));
    assert_int_equal(set, 1);
    check_kinds(k, 1, 100);
    check_current_context();
    close_context(&ft);
    for (int i = 0; i < KINDS; i++)
        MUST(cuMemFree_v2, k[i].memory);
}

/* A process that has the driver looks for the other one where it registers data only: a call of
 * MPI with a buffer in host memory would pay for it. */
static void looks_no_more(void **state)
{
    char h[64] = "";
    CUdeviceptr p = allocate(4096);
    uint64_t set;
    (void)state;
    ftkit_ctx *ft = open_context();
    CHECK(FTKIT_OK, ft, ftkit_register(ft, "host", h, sizeof h, MPI_CHAR));
    CHECK(FTKIT_OK, ft, ftkit_register(ft, "device", at(p), 4096, MPI_CHAR));
    memset(looks, 0, sizeof looks);
    CHECK(FTKIT_NO_SET, ft, ftkit_recover(ft, &set));
    for (int i = 0; i < 10; i++)
        save(ft);
    LOOKS(0);
    close_context(&ft);
    MUST(cuMemFree_v2, p);
}

/* ---- mistakes ------------------------------------------------------------------------------- */

/* A context with one region and one set. */
static ftkit_ctx *open_with_set(CUdeviceptr p, size_t bytes)
{
    uint64_t set;
    ftkit_ctx *ft = open_context();
    CHECK(FTKIT_OK, ft, ftkit_register(ft, "x", at(p), bytes, MPI_BYTE));
    CHECK(FTKIT_NO_SET, ft, ftkit_recover(ft, &set));
    save(ft);
    return ft;
}

static void check_refused(ftkit_ctx *ft, int want, const char *words)
{
    CHECK(FTKIT_OK, ft, ftkit_request(ft, 1));
    CHECK_ERROR(want, ft, words, ftkit_checkpoint(ft));
    assert_int_equal(query(ft).committed, 1); /* the last set holds */
}

static void freed(void **state)
{
    CUdeviceptr p = allocate(BYTES);
    uint64_t set;
    (void)state;
    ftkit_ctx *ft = open_with_set(p, BYTES);
    MUST(cuMemFree_v2, p);
    check_refused(ft, FTKIT_ERR_ARG, "region 'x'|was device memory|is host memory now|was freed");
    close_context(&ft);
    p = allocate(BYTES);
    ft = open_context();
    CHECK(FTKIT_OK, ft, ftkit_register(ft, "x", at(p), BYTES, MPI_BYTE));
    MUST(cuMemFree_v2, p);
    CHECK_ERROR(FTKIT_ERR_ARG, ft, "region 'x'|was freed", ftkit_recover(ft, &set));
    CHECK(FTKIT_ERR_ARG, NULL, ftkit_close(&ft));
}

static void unmapped(void **state)
{
    enum { ALL = 1 << 20, HOLE = 300 * 4096, PAGES = 4096 };
    CUdeviceptr p;
    uint64_t set;
    (void)state;
    MUST(fakecuda_reserve, &p, 2 * ALL);
    ftkit_ctx *ft = open_with_set(p, 2 * ALL);
    MUST(fakecuda_unmap, p + HOLE, PAGES);
    check_refused(ft, FTKIT_ERR_IO, "a copy from the device|CUDA error 1 ");
    MUST(fakecuda_unmap, p + 2 * ALL - PAGES, PAGES);
    check_refused(ft, FTKIT_ERR_ARG, "region 'x'|first byte is device memory|is host memory");
    MUST(fakecuda_unmap, p, 0); /* the context has not ended */
    save(ft);
    close_context(&ft);
    MUST(fakecuda_unmap, p + HOLE, PAGES);
    ft = open_context();
    CHECK(FTKIT_OK, ft, ftkit_register(ft, "x", at(p), 2 * ALL, MPI_BYTE));
    CHECK_ERROR(FTKIT_ERR_IO, ft, "a copy to the device|CUDA error 1 ", ftkit_recover(ft, &set));
    CHECK(FTKIT_ERR_IO, NULL, ftkit_close(&ft));
    MUST(cuMemFree_v2, p);
}

static void variables(void **state)
{
    const char *words = "region 'v'|are in memory of a device";
    const CUdeviceptr p = allocate(4096);
    CUdeviceptr managed;
    const unsigned global = 1;
    void *data = NULL;
    size_t n = 0;
    (void)state;
    MUST(cuMemAllocManaged, &managed, 4096, global);
    ftkit_ctx *ft = open_context();
    CHECK_ERROR(FTKIT_ERR_ARG, ft, words, ftkit_register_requests(ft, "v", at(p), 4));
    CHECK_ERROR(FTKIT_ERR_ARG, ft, words, ftkit_register_messages(ft, "v", at(p), 4));
    CHECK_ERROR(FTKIT_ERR_ARG, ft, words, ftkit_register_comm(ft, "v", at(p)));
    CHECK_ERROR(FTKIT_ERR_ARG, ft, words, ftkit_register_window(ft, "v", at(p)));
    CHECK_ERROR(FTKIT_ERR_ARG, ft, words, ftkit_register_offset(ft, "v", NULL, at(p)));
    CHECK_ERROR(
        FTKIT_ERR_ARG, ft, words, ftkit_register_growing(ft, "v", at(p), &n, MPI_INT, NULL, NULL));
    CHECK_ERROR(FTKIT_ERR_ARG, ft, words,
        ftkit_register_growing(ft, "v", &data, at(p), MPI_INT, NULL, NULL));
    CHECK(FTKIT_OK, ft, ftkit_register_requests(ft, "v", at(managed), 4));
    close_context(&ft);
    MUST(cuMemFree_v2, p);
    MUST(cuMemFree_v2, managed);
}

/* The last test: no more sets are written, and the one from before is right.  The driver forgets
 * its error then, because this process has to read the set. */
static void context_ends(void **state)
{
    const CUdeviceptr p = allocate(BYTES);
    void *module, *kernel;
    char *h = filled(BYTES, 7), *want = filled(BYTES, 7);
    uint64_t set = 0;
    (void)state;
    MUST(cuMemcpyHtoD_v2, p, h, BYTES);
    ftkit_ctx *ft = open_with_set(p, BYTES);
    MUST(cuModuleLoadData, &module, "");
    MUST(cuModuleGetFunction, &kernel, module, "bad");
    MUST(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, NULL, &module, NULL);
    check_refused(ft, FTKIT_ERR_IO, "CUDA error 700|the context of the device has ended");
    close_context(&ft);
    ft = open_context();
    CHECK(FTKIT_OK, ft, ftkit_register(ft, "x", h, BYTES, MPI_BYTE));
    CHECK_ERROR(FTKIT_ERR_IO, ft, "CUDA error 700", ftkit_recover(ft, &set));
    close_context(&ft);
    *(int *)dlsym(driver, "fakecuda_sticky") = 0;
    memset(h, SCRIBBLE, BYTES);
    ft = open_context();
    CHECK(FTKIT_OK, ft, ftkit_register(ft, "x", h, BYTES, MPI_BYTE));
    CHECK(FTKIT_OK, ft, ftkit_recover(ft, &set));
    assert_int_equal(set, 1);
    check_bytes("x", h, want, 0, BYTES);
    close_context(&ft);
    free(want);
    free(h);
}

#define WITH_DEVICE(f)                                                                             \
    {                                                                                              \
#f, f, enter_with_device, leave, NULL                                                      \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(looks_for_drivers),
        WITH_DEVICE(each_kind),
        WITH_DEVICE(looks_no_more),
        WITH_DEVICE(freed),
        WITH_DEVICE(unmapped),
        WITH_DEVICE(variables),
        WITH_DEVICE(context_ends),
    };
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS || make_work() != 0)
        return 1;
    int bad = cmocka_run_group_tests(tests, NULL, NULL);
    bad |= remove_work();
    MPI_Finalize();
    return bad != 0;
}
