/* Memory of a device of CUDA: which addresses are such memory, and regions of more than 4 GiB
 * (core/memory_device.c, set/ahead.c, set/pack.c, set/unpack.c).
 *
 * Memory of the driver without a device takes room where it is written, so a large region costs
 * little.  With FTKIT_TEST_DRIVER=libcuda.so.1 all of these bytes are needed, on the device and
 * twice on the host.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "set/pack.h"
#include "set/region.h"
#include "set/unpack.h"
#include "t_device.h"

enum { BLOCK = FTK_SEG_BLOCK, PAGE = 4096, BYTES = 1 << 16 };

static const void *at(CUdeviceptr p)
{
    return (const void *)(uintptr_t)p;
}

static bool owns(CUdeviceptr p)
{
    return ops()->owns(at(p));
}

static bool is_shared(CUdeviceptr p)
{
    return ops()->is_shared(at(p));
}

/* ---- which memory is that of a device ------------------------------------------------------- */

static void *pages(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TRUE(p != MAP_FAILED);
    return p;
}

static void of_the_host(void)
{
    static int variable;
    int on_stack;
    void *pinned = pages(BYTES);
    TRUE(CU(cuMemHostRegister_v2)(pinned, BYTES, 0) == 0);
    const void *host[] = { NULL, &variable, &on_stack, host, pinned, (char *)pinned + BYTES - 1 };
    for (size_t i = 0; i < sizeof host / sizeof host[0]; i++)
        TRUE(!ops()->owns(host[i]) && !ops()->is_shared(host[i]) && !ftk_memory_is_hidden(host[i]));
    TRUE(CU(cuMemHostUnregister)(pinned) == 0 && !ops()->owns(pinned));
}

static void of_the_device(CUdeviceptr *p)
{
    CUdeviceptr managed, pool;
    const unsigned global = 1;
    TRUE(CU(cuMemAlloc_v2)(p, BYTES) == 0);
    TRUE(owns(*p) && owns(*p + 1) && owns(*p + BYTES - 1) && !is_shared(*p));
    TRUE(ftk_memory_is_hidden(at(*p)));
    TRUE(CU(cuMemAllocManaged)(&managed, BYTES, global) == 0);
    TRUE(owns(managed) && owns(managed + BYTES - 1) && is_shared(managed));
    TRUE(!ftk_memory_is_hidden(at(managed)));
    TRUE(CU(cuMemAllocAsync)(&pool, BYTES, NULL) == 0 && CU(cuStreamSynchronize)(NULL) == 0);
    TRUE(owns(pool) && owns(pool + BYTES - 1) && !is_shared(pool));
}

/* A freed address looks like host memory, until it comes back. */
static void of_nobody(void)
{
    CUdeviceptr p, again;
    char to;
    TRUE(CU(cuMemAlloc_v2)(&p, BYTES) == 0 && CU(cuMemFree_v2)(p) == 0);
    TRUE(!owns(p) && ops()->copy_out(&to, at(p), 1) == FTKIT_ERR_ARG);
    TRUE(strstr(ftk_detail_text(), "no memory of a device any more") != NULL);
    TRUE(ops()->wait(at(p), NULL) == FTKIT_ERR_ARG);
    TRUE(CU(cuMemAlloc_v2)(&again, BYTES) == 0 && (is_real() || again == p) && owns(again));
}

/* A reserved range, with pages that are not mapped. */
static void of_a_range(void)
{
    CUdeviceptr p;
    char to[3 * PAGE];
    unsigned number;
    TRUE(CU(fakecuda_reserve)(&p, BYTES) == 0 && CU(fakecuda_unmap)(p + PAGE, PAGE) == 0);
    TRUE(owns(p) && owns(p + PAGE - 1) && !owns(p + PAGE) && !owns(p + 2 * PAGE - 1));
    TRUE(owns(p + 2 * PAGE) && !is_shared(p));
    TRUE(ops()->copy_out(to, at(p), PAGE) == FTKIT_OK);
    TRUE(ops()->copy_out(to, at(p), PAGE + 1) == FTKIT_ERR_IO && !ftk_memory_is_lost());
    TRUE(ops()->begin_out(to, at(p), sizeof to, &number) == FTKIT_ERR_IO && !ftk_memory_is_lost());
    TRUE(ops()->copy_in((void *)(uintptr_t)p, to, PAGE + 1) == FTKIT_ERR_IO);
    TRUE(ops()->copy_out(to, at(p + PAGE), 1) == FTKIT_ERR_ARG);
    TRUE(ops()->copy_out(to, at(p + 2 * PAGE), PAGE) == FTKIT_OK && ops()->check() == FTKIT_OK);
}

/* Memory of the device, from another thread, and from a child process. */
static void *look_from_a_thread(void *arg)
{
    const CUdeviceptr *p = arg;
    return owns(*p) ? arg : NULL;
}

static void from_elsewhere(CUdeviceptr p)
{
    pthread_t thread;
    void *found = NULL;
    int status;
    TRUE(pthread_create(&thread, NULL, look_from_a_thread, &p) == 0);
    TRUE(pthread_join(thread, &found) == 0 && found == &p);
    const pid_t child = fork();
    TRUE(child >= 0);
    if (child == 0) /* each look-up of the driver fails here */
        _exit(owns(p) || ftk_memory_is_hidden(at(p)));
    TRUE(waitpid(child, &status, 0) == child && status == 0);
}

/* The context of a thread stays, whatever the memory is of. */
static void of_another_context(CUdeviceptr p)
{
    void *first = start_device(0), *second = start_device(1), *now;
    CUdeviceptr q;
    char from[BYTES], to[BYTES];
    TRUE(CU(cuMemAlloc_v2)(&q, BYTES) == 0 && owns(q) && owns(p));
    memset(from, 1, BYTES);
    TRUE(ops()->copy_in((void *)(uintptr_t)p, from, BYTES) == FTKIT_OK);
    TRUE(CU(cuCtxPopCurrent_v2)(&now) == 0 && now == second);
    TRUE(ops()->copy_out(to, at(p), BYTES) == FTKIT_OK && memcmp(from, to, BYTES) == 0);
    TRUE(ops()->copy_in((void *)(uintptr_t)q, from, BYTES) == FTKIT_OK);
    TRUE(ops()->wait(at(q), NULL) == FTKIT_OK);
    TRUE(CU(cuCtxSetCurrent)(first) == 0 && ops()->copy_out(to, at(q), BYTES) == FTKIT_OK);
    TRUE(memcmp(from, to, BYTES) == 0 && CU(cuCtxPopCurrent_v2)(&now) == 0 && now == first);
    TRUE(CU(cuCtxPushCurrent_v2)(first) == 0);
}

static void look(void)
{
    CUdeviceptr p;
    (void)start_device(0);
    of_the_host();
    of_the_device(&p);
    of_nobody();
    from_elsewhere(p);
    if (is_real())
        return;
    of_a_range();
    of_another_context(p);
    void *module, *bad;
    TRUE(CU(cuModuleLoadData)(&module, "") == 0);
    TRUE(CU(cuModuleGetFunction)(&bad, module, "bad") == 0);
    TRUE(CU(cuLaunchKernel)(bad, 1, 1, 1, 1, 1, 1, 0, NULL, &module, NULL) == 0);
    TRUE(ops()->wait(at(p), NULL) == FTKIT_ERR_IO && ftk_memory_is_lost());
    TRUE(owns(p)); /* the context has ended, and the driver still knows its memory */
}

static void test_look_up(void **state)
{
    (void)state;
    run_case(look, NULL, NULL);
    assert_string_equal(said, "");
}

/* ---- more than 4 GiB ------------------------------------------------------------------------- */

#define GIB ((size_t)1 << 30)
enum { MARK = 64 };

/* Around each GiB, in a block behind 4 GiB, and at both ends. */
static size_t mark_at(size_t bytes, size_t i)
{
    const size_t marks = bytes / GIB + 2;
    if (i == 0)
        return 0;
    return i + 1 < marks ? i * GIB - MARK / 2 : i + 1 == marks ? bytes - MARK : bytes - 3 * BLOCK;
}

static size_t nmarks(size_t bytes)
{
    return bytes / GIB + 3;
}

static CUdeviceptr allocate_zeros(size_t bytes)
{
    CUdeviceptr d;
    TRUE(CU(cuMemAlloc_v2)(&d, bytes) == 0);
    if (is_real())
        TRUE(CU(cuMemsetD8_v2)(d, 0, bytes) == 0);
    return d;
}

static void set_marks(CUdeviceptr d, size_t bytes, unsigned char first)
{
    unsigned char mark[MARK];
    for (size_t i = 0; i < nmarks(bytes); i++) {
        memset(mark, first + (int)i, MARK);
        TRUE(CU(cuMemcpyHtoD_v2)(d + mark_at(bytes, i), mark, MARK) == 0);
    }
}

/* Take the marks out of a piece of the region, from its byte `from` on: nothing is left. */
static void check_piece(unsigned char *h, size_t from, size_t n, size_t bytes, unsigned char first)
{
    for (size_t i = 0; i < nmarks(bytes); i++)
        for (size_t k = 0; k < MARK; k++) {
            const size_t at_byte = mark_at(bytes, i) + k;
            if (at_byte < from || at_byte >= from + n)
                continue;
            TRUE(h[at_byte - from] == first + i);
            h[at_byte - from] = 0;
        }
    TRUE(h[0] == 0 && memcmp(h, h + 1, n - 1) == 0);
}

/* The bytes are zero but for the marks. */
static void check_marks(CUdeviceptr d, size_t bytes, unsigned char first)
{
    const size_t piece = (size_t)16 << 20;
    unsigned char *h = pages(piece);
    for (size_t from = 0, n; from < bytes; from += n) {
        n = bytes - from < piece ? bytes - from : piece;
        TRUE(CU(cuMemcpyDtoH_v2)(h, d + from, n) == 0);
        check_piece(h, from, n, bytes, first);
    }
    TRUE(munmap(h, piece) == 0);
}

static struct ftkit_ctx ctx;
static struct ftk_region region;

static void describe(CUdeviceptr d, size_t bytes)
{
    region = (struct ftk_region){ .kind = FTK_KIND_FLAT,
        .name = "r",
        .count = bytes,
        .memory = FTK_MEMORY_DEVICE,
        .data = (void *)(uintptr_t)d,
        .type = { .contiguous = true, .item_bytes = 1, .extent = 1, .span_end = 1 } };
    ctx.nranks = ctx.cfg.replicas = 1;
    ctx.cfg.device_sums = is_real() ? FTK_DEVICE_SUMS_AUTO : FTK_DEVICE_SUMS_HOST;
    ctx.regions.list = &region;
    ctx.regions.n = 1;
    ftk_memory_others = true;
}

/* A set of the region; *room: the bytes of its memory.  What is not written there has no pages. */
static char *pack(size_t *room)
{
    struct ftk_packer p;
    size_t head, data;
    TRUE(ftk_region_measure(&ctx, &head, &data) == FTKIT_OK && data == region.count);
    *room = (head + data + PAGE - 1) / PAGE * PAGE;
    char *seg = pages(*room);
    ftk_region_begin(&ctx, 1, head, data, seg, &p);
    TRUE(ftk_region_pack(&p, SIZE_MAX) == FTKIT_OK);
    ftk_region_pack_end(&p);
    ftk_region_seal(&p);
    return seg;
}

/* There and back: the set is right, and a region that differs gets all of it. */
static void large_region(void)
{
    const size_t bytes = 4 * GIB + 5000003;
    size_t room;
    struct rusage before, after;
    (void)start_device(0);
    TRUE(getrusage(RUSAGE_SELF, &before) == 0);
    const CUdeviceptr d = allocate_zeros(bytes);
    set_marks(d, bytes, 1);
    describe(d, bytes);
    char *seg = pack(&room);
    TRUE(ftk_seg_check_head(seg, ftk_seg_bytes(seg), "the set") == FTKIT_OK);
    set_marks(d, bytes, 101);
    TRUE(CU(cuMemcpyHtoD_v2)(d + bytes / 3, "changed", 8) == 0);
    TRUE(ftk_region_restore(&ctx, seg, false) == FTKIT_OK);
    check_marks(d, bytes, 1);
    TRUE(munmap(seg, room) == 0);
    TRUE(getrusage(RUSAGE_SELF, &after) == 0);
    TRUE(is_real() || after.ru_maxrss - before.ru_maxrss < 256 * 1024); /* KiB: not 4 GiB */
}

static void test_large_region(void **state)
{
    (void)state;
    run_case(large_region, NULL, NULL);
    assert_string_equal(said, "");
}

/* Checksums by the device: of the last blocks of each launch, since all of them would take the
 * interpreter an hour. */
static void large_sums(void)
{
    enum { LAUNCH = 16384, LAST = 4 }; /* blocks */
    const size_t n = LAUNCH + 2 * LAST, first[] = { LAUNCH - LAST, n - LAST };
    uint64_t *sums = calloc(n, sizeof *sums);
    unsigned char *h = malloc(BLOCK);
    bool begun = false;
    (void)start_device(0);
    const CUdeviceptr d = allocate_zeros(n * BLOCK);
    TRUE(sums && h);
    for (size_t i = 0; i < 2 * LAST; i++) {
        memset(h, 1 + (int)i, BLOCK);
        TRUE(CU(cuMemcpyHtoD_v2)(d + (first[i / LAST] + i % LAST) * BLOCK, h, BLOCK) == 0);
    }
    TRUE(ops()->begin_sums(at(d), BLOCK, n, sums, &begun) == FTKIT_OK && begun);
    TRUE(ops()->finish(at(d)) == FTKIT_OK);
    for (size_t i = 0; i < 2 * LAST; i++) {
        memset(h, 1 + (int)i, BLOCK);
        TRUE(sums[first[i / LAST] + i % LAST] == ftk_xxh3(h, BLOCK));
    }
    free(sums);
    free(h);
}

static void test_large_sums(void **state)
{
    (void)state;
    run_case(large_sums, "FAKECUDA_GROUPS", "4");
    assert_string_equal(said, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_look_up),
        cmocka_unit_test(test_large_region),
        cmocka_unit_test(test_large_sums),
    };
    begin_seed();
    return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
