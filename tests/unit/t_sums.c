/* Checksums of memory of a device by the device (core/cuda_sums.c, set/ahead.c, set/pack.c).
 *
 * The driver without a device (tests/lib/fakecuda.c) runs the kernel of the library: its
 * interpreter reads the text that a driver of CUDA would compile.  Each case has a process of its
 * own, because the library looks for a driver once.
 *
 *     FTKIT_TEST_COUNT=... buffers, and sets, a fifth
 *     FTKIT_TEST_DRIVER=libcuda.so.1 only the buffers, by a driver with a device
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "set/pack.h"
#include "set/region.h"
#include "t_device.h"

enum { BLOCK = FTK_SEG_BLOCK, REGIONS = 7, TESTED = 4 /* blocks at the first use */ };

static unsigned long long launches(void)
{
    return *(const unsigned long long *)dlsym(driver, "fakecuda_launches");
}

/* Bytes of each kind: all the same, or any. */
static void fill(unsigned char *p, size_t bytes)
{
    const uint64_t kind = number(4);
    for (size_t i = 0; i < bytes; i++)
        p[i] = kind == 0 ? 0 : kind == 1 ? 0xff : (unsigned char)number(256);
}

static int count(void)
{
    const char *many = getenv("FTKIT_TEST_COUNT");
    return many ? atoi(many) : 60;
}

/* ---- blocks ------------------------------------------------------------------------------ */

/* The sums of the whole blocks of a buffer, from the device.  The rest is no block: the host has to
 * compute that sum. */
static void check_buffer(CUdeviceptr d, unsigned char *h, size_t bytes)
{
    const size_t n = bytes / BLOCK, shift = 16 * number(4096);
    uint64_t sums[5] = { 0, 0, 0, 0, 0 };
    bool begun = false;
    fill(h, shift + bytes + 1);
    TRUE(CU(cuMemcpyHtoD_v2)(d, h, shift + bytes + 1) == 0);
    const void *from = (const void *)(uintptr_t)(d + shift);
    if (n > 0) {
        TRUE(ops()->begin_sums(from, BLOCK, n, sums, &begun) == FTKIT_OK && begun);
        TRUE(ops()->finish(from) == FTKIT_OK);
    }
    for (size_t i = 0; i < n; i++)
        TRUE(sums[i] == ftk_xxh3(h + shift + i * BLOCK, BLOCK));
    TRUE(sums[n] == 0);
}

static void random_buffers(void)
{
    const size_t most = 5 * (size_t)BLOCK;
    unsigned char *h = malloc(most);
    CUdeviceptr d;
    (void)start_device(0);
    TRUE(h && CU(cuMemAlloc_v2)(&d, most) == 0);
    for (int i = 0; i < count(); i++)
        check_buffer(d, h, number(4) * BLOCK + number(BLOCK));
    free(h);
}

static void test_sums_of_blocks(void **state)
{
    (void)state;
    run_case(random_buffers, NULL, NULL);
    assert_string_equal(said, "");
}

/* One launch is too small for these blocks. */
static void test_several_launches(void **state)
{
    (void)state;
    run_case(random_buffers, "FTKIT_FAULT", "sums.table:0:*:EIO");
}

/* ---- sets -------------------------------------------------------------------------------- */

enum { MOST = 4 * BLOCK + 64 }; /* bytes of a region, and in front of it */

struct data {
    CUdeviceptr memory[REGIONS], p[REGIONS];
    unsigned char *host[REGIONS]; /* the same bytes */
    size_t bytes[REGIONS];
};

static bool is_device(int region)
{
    return region != 3;
}

/* Memory of each kind; that of a context on another device among it. */
static void make_data(struct data *d)
{
    void *second = start_device(1), *first = start_device(0);
    for (int i = 0; i < REGIONS; i++) {
        CUdeviceptr *p = &d->memory[i];
        TRUE(CU(cuCtxSetCurrent)(i == 2 ? second : first) == 0);
        if (!is_device(i))
            *p = (CUdeviceptr)(uintptr_t)malloc(MOST);
        else if (i == 4)
            TRUE(CU(cuMemAllocAsync)(p, MOST, NULL) == 0);
        else if (i == 5)
            TRUE(CU(cuMemAllocManaged)(p, MOST, 1) == 0);
        else if (i == 6)
            TRUE(CU(fakecuda_reserve)(p, MOST) == 0);
        else
            TRUE(CU(cuMemAlloc_v2)(p, MOST) == 0);
        d->host[i] = malloc(MOST);
        TRUE(*p != 0 && d->host[i]);
    }
    TRUE(CU(cuCtxSetCurrent)(first) == 0);
}

/* Some regions are empty, and some begin anywhere. */
static void fill_data(struct data *d)
{
    for (int i = 0; i < REGIONS; i++) {
        d->bytes[i] = number(6) == 0 ? 0 : number(4) * BLOCK + number(BLOCK);
        d->p[i] = d->memory[i] + (number(4) == 0 ? number(64) : 0);
        fill(d->host[i], d->bytes[i]);
        if (!is_device(i))
            memcpy((void *)(uintptr_t)d->p[i], d->host[i], d->bytes[i]);
        else if (d->bytes[i] > 0)
            TRUE(CU(cuMemcpyHtoD_v2)(d->p[i], d->host[i], d->bytes[i]) == 0);
    }
}

static void end_data(struct data *d)
{
    for (int i = 0; i < REGIONS; i++)
        free(d->host[i]);
}

/* Regions with blocks whose sums the device can compute. */
static size_t regions_of_device(const struct data *d)
{
    size_t n = 0, at = 0;
    for (int i = 0; i < REGIONS; i++) {
        at = (at + FTK_SEG_REGION_ALIGN - 1) / FTK_SEG_REGION_ALIGN * FTK_SEG_REGION_ALIGN;
        const size_t first = (at + BLOCK - 1) / BLOCK, end = (at + d->bytes[i]) / BLOCK;
        n += d->p[i] % 16 == 0 && i != 3 && i < 5 && end > first;
        at += d->bytes[i];
    }
    return n;
}

enum how { BY_HOST, BY_DEVICE, BEHIND };

/* What is in memory of the device changes. */
static void change(const struct data *d)
{
    for (int i = 0; i < REGIONS; i++)
        if (is_device(i))
            TRUE(CU(cuMemsetD8_v2)(d->memory[i], 0xee, MOST) == 0);
}

static void pack_all(struct ftk_packer *p, const struct data *d, size_t bytes, bool behind)
{
    p->behind = behind;
    if (behind) {
        TRUE(ftk_region_pack_cut(p) == FTKIT_OK);
        change(d);
        TRUE(ftk_region_pack_behind(p) == FTKIT_OK);
        TRUE(ftk_region_measure_late(p, &bytes) == FTKIT_OK && ftk_region_pack_late(p) == FTKIT_OK);
    }
    for (size_t to = 0; to < bytes; to += 1 + number(BLOCK * 3)) /* in steps, as a set is sent */
        TRUE(ftk_region_pack(p, to) == FTKIT_OK);
    TRUE(ftk_region_pack(p, SIZE_MAX) == FTKIT_OK);
    ftk_region_pack_end(p);
    ftk_region_seal(p);
}

/* A set of these regions: a segment, which the caller frees.  BY_HOST: of the copies in host
 * memory; BEHIND: the regions change when they have been copied on the device. */
static char *pack(struct data *d, enum how how, int sums)
{
    const bool by_host = how == BY_HOST;
    static struct ftkit_ctx ctx;
    static struct ftk_region regions[REGIONS];
    struct ftk_packer p;
    size_t head, bytes;
    ctx = (struct ftkit_ctx){ .nranks = 1, .run = 1 };
    ctx.cfg.replicas = 1;
    ctx.cfg.device_sums = sums;
    (void)strcpy(ctx.cfg.name, "t");
    for (int i = 0; i < REGIONS; i++) {
        regions[i] = (struct ftk_region){ .kind = FTK_KIND_FLAT,
            .count = d->bytes[i],
            .memory = by_host || !is_device(i) ? FTK_MEMORY_HOST : FTK_MEMORY_DEVICE,
            .data = by_host ? d->host[i] : (void *)(uintptr_t)d->p[i],
            .type = { .contiguous = true, .item_bytes = 1, .extent = 1, .span_end = 1 } };
        (void)snprintf(regions[i].name, sizeof regions[i].name, "r%d", i);
    }
    ctx.regions.list = regions;
    ctx.regions.n = REGIONS;
    TRUE(ftk_region_measure(&ctx, &head, &bytes) == FTKIT_OK);
    char *seg = malloc(head + bytes + 1);
    TRUE(seg != NULL);
    memset(seg, 0x5a, head + bytes + 1);
    ftk_region_begin(&ctx, 1, head, bytes, seg, &p);
    ((struct ftk_seg_header *)(void *)seg)->wall_ns = 0;
    pack_all(&p, d, bytes, how == BEHIND);
    TRUE(ftk_seg_check_head(seg, head + bytes, "the set") == FTKIT_OK);
    return seg;
}

/* The set of the device is that of the host, byte by byte; and it holds. */
static void compare_sets(struct data *d, enum how how, int sums)
{
    char *by_device = pack(d, how, sums), *by_host = pack(d, BY_HOST, sums);
    const size_t bytes = ftk_seg_bytes(by_host);
    TRUE(ftk_seg_bytes(by_device) == bytes);
    TRUE(memcmp(by_device, by_host, bytes) == 0);
    TRUE(ftk_seg_check_data(by_device, "the set") == FTKIT_OK);
    free(by_device);
    free(by_host);
}

static void random_sets(void)
{
    struct data d;
    size_t used = 0;
    ftk_memory_others = true;
    make_data(&d);
    for (int i = 0; i < count() / 5; i++) {
        const unsigned long long before = launches();
        fill_data(&d);
        compare_sets(&d, BY_DEVICE, FTK_DEVICE_SUMS_AUTO);
        const unsigned long long now = launches() - before;
        const size_t want = regions_of_device(&d);
        TRUE(now >= want && now <= want + 2); /* and a test in each context */
        used += want;
        compare_sets(&d, BY_DEVICE, FTK_DEVICE_SUMS_HOST);
        TRUE(launches() - before == now);
    }
    TRUE(used > 0);
    end_data(&d);
}

static void test_sets(void **state)
{
    (void)state;
    run_case(random_sets, NULL, NULL);
    assert_string_equal(said, "");
}

/* Begin a set of one region in memory of the device: its segment, which the caller frees. */
static char *begin_one(CUdeviceptr d, size_t bytes, int sums, struct ftk_packer *p)
{
    static struct ftkit_ctx ctx;
    static struct ftk_region r;
    size_t head, data;
    r = (struct ftk_region){ .kind = FTK_KIND_FLAT,
        .name = "r",
        .count = bytes,
        .memory = FTK_MEMORY_DEVICE,
        .data = (void *)(uintptr_t)d,
        .type = { .contiguous = true, .item_bytes = 1, .extent = 1, .span_end = 1 } };
    ctx.nranks = ctx.cfg.replicas = 1;
    ctx.cfg.device_sums = sums;
    ctx.regions.list = &r;
    ctx.regions.n = 1;
    ftk_memory_others = true;
    TRUE(ftk_region_measure(&ctx, &head, &data) == FTKIT_OK);
    char *seg = malloc(head + data);
    TRUE(seg != NULL);
    ftk_region_begin(&ctx, 1, head, data, seg, p);
    return seg;
}

static CUdeviceptr allocate_one(size_t bytes)
{
    CUdeviceptr d;
    (void)start_device(0);
    TRUE(CU(cuMemAlloc_v2)(&d, bytes) == 0);
    return d;
}

/* More pieces than may be under way at once. */
static void long_region(void)
{
    const size_t bytes = ((size_t)37 << 20) + number(BLOCK);
    const CUdeviceptr d = allocate_one(bytes);
    uint64_t *h = malloc(bytes + sizeof *h);
    TRUE(h != NULL);
    for (size_t i = 0; i <= bytes / sizeof *h; i++)
        h[i] = number(UINT64_MAX);
    TRUE(CU(cuMemcpyHtoD_v2)(d, h, bytes) == 0);
    for (int sums = FTK_DEVICE_SUMS_AUTO; sums <= FTK_DEVICE_SUMS_HOST; sums++) {
        struct ftk_packer p;
        char *seg = begin_one(d, bytes, sums, &p);
        for (size_t to = 0; to < bytes; to += 1 + number((size_t)BLOCK * 30))
            TRUE(ftk_region_pack(&p, to) == FTKIT_OK);
        TRUE(ftk_region_pack(&p, SIZE_MAX) == FTKIT_OK);
        ftk_region_pack_end(&p);
        ftk_region_seal(&p);
        TRUE(memcmp(ftk_seg_data(seg), h, bytes) == 0);
        TRUE(ftk_seg_check_data(seg, "the set") == FTKIT_OK);
        free(seg);
    }
    TRUE(launches() == 2); /* a test, and one set */
    free(h);
}

static void test_long_region(void **state)
{
    (void)state;
    run_case(long_region, NULL, NULL);
    assert_string_equal(said, "");
}

/* Nothing is under way when a set is given up. */
static void give_up(void)
{
    struct ftk_packer p;
    const size_t all = (size_t)BLOCK * 40;
    char *seg = begin_one(allocate_one(all), all, FTK_DEVICE_SUMS_AUTO, &p);
    const size_t bytes = ftk_seg_bytes(seg);
    TRUE(ftk_region_pack(&p, 1) == FTKIT_OK);
    ftk_region_pack_end(&p);
    memset(seg, 0, bytes);
    TRUE(CU(cuCtxSynchronize)() == 0); /* what is under way ends now */
    for (size_t i = 0; i < bytes; i++)
        TRUE(seg[i] == 0);
    free(seg);
}

static void test_gives_up(void **state)
{
    (void)state;
    run_case(give_up, NULL, NULL);
    assert_string_equal(said, "");
}

/* A bit of a copy from the device, or of a checksum, is wrong: the set does not hold. */
static void wrong_set(void)
{
    struct ftk_packer p;
    const size_t all = (size_t)BLOCK * 3;
    char *seg = begin_one(allocate_one(all), all, FTK_DEVICE_SUMS_AUTO, &p);
    TRUE(ftk_region_pack(&p, SIZE_MAX) == FTKIT_OK);
    ftk_region_pack_end(&p);
    ftk_region_seal(&p);
    TRUE(ftk_seg_check_head(seg, ftk_seg_bytes(seg), "the set") == FTKIT_OK);
    TRUE(ftk_seg_check_data(seg, "the set") == FTKIT_ERR_CORRUPT);
    free(seg);
}

static void test_finds_wrong_bits(void **state)
{
    (void)state;
    run_case(wrong_set, "FAKECUDA_FLIP", "0:1:262144");
    run_case(wrong_set, "FAKECUDA_SUMS", "wrong:0:2");
    assert_string_equal(said, "");
}

/* ---- snapshots on the device ------------------------------------------------------------- */

/* The set has the regions as they were at the cut, and the memory of the snapshots is given back.
 * What has no room on the device is copied at once. */
static void random_snapshots(void)
{
    struct data d;
    ftk_memory_others = true;
    make_data(&d);
    const size_t own = CU(fakecuda_in_pool)();
    for (int i = 0; i < count() / 5; i++) {
        fill_data(&d);
        compare_sets(&d, BEHIND, i % 2 ? FTK_DEVICE_SUMS_AUTO : FTK_DEVICE_SUMS_HOST);
        TRUE(CU(fakecuda_in_pool)() == own);
    }
    end_data(&d);
}

static void test_snapshots(void **state)
{
    static const char *const without_room[][2] = { { "FAKECUDA_ROOM", "9" },
        { "FAKECUDA_FAIL", "cuMemAllocAsync:0:2:2" }, { "FTKIT_FAULT", "snapshot.room:0:*:EIO" } };
    (void)state;
    run_case(random_snapshots, NULL, NULL);
    assert_string_equal(said, "");
    for (size_t i = 0; i < sizeof without_room / sizeof without_room[0]; i++) {
        run_case(random_snapshots, without_room[i][0], without_room[i][1]);
        assert_int_equal(times("has no room for a snapshot of "), 1);
    }
}

static CUdeviceptr of_snapshot;
static const size_t snapshot_bytes = (size_t)BLOCK * 5 / 2;

/* The cut of a set of one region. */
static char *cut_one(struct ftk_packer *p, int want)
{
    of_snapshot = allocate_one(snapshot_bytes);
    char *seg = begin_one(of_snapshot, snapshot_bytes, FTK_DEVICE_SUMS_HOST, p);
    p->behind = true;
    TRUE(ftk_region_pack_cut(p) == want);
    return seg;
}

/* Nothing is under way, and the memory is given back, when a set is given up behind its cut. */
static void give_up_snapshot(void)
{
    struct ftk_packer p;
    char *seg = cut_one(&p, FTKIT_OK);
    const size_t bytes = ftk_seg_bytes(seg);
    TRUE(CU(fakecuda_in_pool)() >= snapshot_bytes);
    ftk_region_pack_end(&p);
    TRUE(CU(fakecuda_in_pool)() == 0);
    memset(seg, 0, bytes);
    TRUE(CU(cuCtxSynchronize)() == 0); /* what is under way ends now */
    for (size_t i = 0; i < bytes; i++)
        TRUE(seg[i] == 0);
    free(seg);
}

/* Errors of the copies are those of the set: at its cut, or behind it. */
static void snapshot_fails(void)
{
    struct ftk_packer p;
    char *seg = cut_one(&p, FTKIT_ERR_IO);
    TRUE(strstr(ftk_detail_text(), "CUDA error 999") && !ftk_memory_is_lost());
    ftk_region_pack_end(&p);
    TRUE(CU(fakecuda_in_pool)() == 0);
    free(seg);
}

static void snapshot_is_lost(void)
{
    struct ftk_packer p;
    char *seg = cut_one(&p, FTKIT_OK);
    TRUE(ftk_region_pack_behind(&p) == FTKIT_ERR_IO && ftk_memory_is_lost());
    ftk_region_pack_end(&p);
    free(seg);
}

/* A snapshot is taken if 1.1 times its bytes are free. */
static void snapshot_leaves_room(void)
{
    enum { ROOM = 2 << 20, PAGE = 4096 };
    const size_t least = (snapshot_bytes + snapshot_bytes / 10 + PAGE - 1) / PAGE * PAGE;
    for (int enough = 0; enough < 2; enough++) {
        struct ftk_packer p;
        const size_t unused = enough ? least : least - PAGE;
        const CUdeviceptr others = allocate_one(ROOM - snapshot_bytes - unused);
        char *seg = cut_one(&p, FTKIT_OK);
        TRUE(CU(fakecuda_in_pool)() == (enough ? snapshot_bytes : 0));
        ftk_region_pack_end(&p);
        TRUE(CU(cuMemFree_v2)(others) == 0 && CU(cuMemFree_v2)(of_snapshot) == 0);
        free(seg);
    }
}

static void test_snapshot_leaves_room(void **state)
{
    (void)state;
    run_case(snapshot_leaves_room, "FAKECUDA_ROOM", "2");
    assert_int_equal(times("has no room for a snapshot of "), 1);
}

static void test_snapshots_end(void **state)
{
    (void)state;
    run_case(give_up_snapshot, NULL, NULL);
    run_case(snapshot_fails, "FAKECUDA_FAIL", "cuMemcpyDtoDAsync_v2:0:1:999");
    run_case(snapshot_fails, "FAKECUDA_FAIL", "cuMemcpyDtoHAsync_v2:0:1:999");
    run_case(snapshot_is_lost, "FAKECUDA_FAIL", "cuMemFreeAsync:0:1:719:sticky");
    assert_string_equal(said, "");
}

/* ---- the host computes the sums ---------------------------------------------------------- */

static void sets_all_the_same(void)
{
    struct data d;
    ftk_memory_others = true;
    make_data(&d);
    for (int i = 0; i < 3; i++) {
        do
            fill_data(&d);
        while (regions_of_device(&d) == 0);
        compare_sets(&d, BY_DEVICE, FTK_DEVICE_SUMS_AUTO);
    }
    end_data(&d);
}

static void test_falls_back(void **state)
{
    /* call of the driver:process:number:code; the test of the kernel is its first launch */
    static const char *const cases[][3] = {
        { "FAKECUDA_FAIL", "cuModuleLoadData:0:1:218",
            "the driver does not load the kernel (218)" },
        { "FAKECUDA_FAIL", "cuModuleGetFunction:0:1:500",
            "the driver does not load the kernel (500)" },
        { "FAKECUDA_FAIL", "cuMemAlloc_v2:0:4:2", "no memory of the device for them (2)" },
        { "FAKECUDA_FAIL", "cuMemAlloc_v2:0:5:2", "no memory for a test of them (2)" },
        { "FAKECUDA_FAIL", "cuLaunchKernel:0:1:701", "an error in a test of them (701)" },
        { "FAKECUDA_FAIL", "cuMemFree_v2:0:1:999", "an error in a test of them (999)" },
        { "FAKECUDA_FAIL", "cuLaunchKernel:0:2:701", "an error of a call (701)" },
        { "FAKECUDA_SUMS", "wrong:0:1", "the device computes others (-1)" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        run_case(sets_all_the_same, cases[i][0], cases[i][1]);
        if (times("the host computes checksums of memory of a device: ") != 1
            || times(cases[i][2]) != 1)
            print_error("%s: %s\n", cases[i][1], said);
        assert_int_equal(times("the host computes checksums of memory of a device: "), 1);
        assert_int_equal(times(cases[i][2]), 1);
    }
}

/* Memory that a kernel must not read, or cannot. */
static void not_readable(void)
{
    const size_t bytes = BLOCK * 2;
    CUdeviceptr p, managed, reserved;
    uint64_t sums[2];
    bool begun = true;
    (void)start_device(0);
    TRUE(CU(cuMemAlloc_v2)(&p, bytes) == 0);
    TRUE(CU(cuMemAllocManaged)(&managed, bytes, 1) == 0);
    TRUE(CU(fakecuda_reserve)(&reserved, bytes) == 0);
    const struct {
        CUdeviceptr at;
        size_t block, n;
    } of[] = { { managed, BLOCK, 2 }, { reserved, BLOCK, 2 }, { p + 8, BLOCK, 1 },
        { p + BLOCK, BLOCK, 2 }, { p, BLOCK, 3 }, { p, BLOCK - 64, 1 }, { p, 0, 1 } };
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++, begun = true)
        TRUE(
            ops()->begin_sums((const void *)(uintptr_t)of[i].at, of[i].block, of[i].n, sums, &begun)
                == FTKIT_OK
            && !begun);
    TRUE(launches() == 0);
    TRUE(
        ops()->begin_sums((const void *)(uintptr_t)p, BLOCK, 2, sums, &begun) == FTKIT_OK && begun);
    TRUE(ops()->finish((const void *)(uintptr_t)p) == FTKIT_OK);
}

static void test_leaves_out(void **state)
{
    (void)state;
    run_case(not_readable, NULL, NULL);
    assert_string_equal(said, "");
}

/* An error that ends the context is one of the set. */
static void context_ends(void)
{
    CUdeviceptr p;
    uint64_t sums[1];
    bool begun = true;
    (void)start_device(0);
    TRUE(CU(cuMemAlloc_v2)(&p, BLOCK) == 0);
    TRUE(ops()->begin_sums((const void *)(uintptr_t)p, BLOCK, 1, sums, &begun) == FTKIT_ERR_IO);
    TRUE(!begun && ftk_memory_is_lost());
}

static void test_context_ends(void **state)
{
    (void)state;
    run_case(context_ends, "FAKECUDA_FAIL", "cuLaunchKernel:0:2:719:sticky");
    run_case(context_ends, "FAKECUDA_FAIL", "cuLaunchKernel:0:1:719:sticky");
}

int main(void)
{
    begin_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_of_blocks),
        cmocka_unit_test(test_several_launches),
        cmocka_unit_test(test_sets),
        cmocka_unit_test(test_long_region),
        cmocka_unit_test(test_gives_up),
        cmocka_unit_test(test_finds_wrong_bits),
        cmocka_unit_test(test_snapshots),
        cmocka_unit_test(test_snapshot_leaves_room),
        cmocka_unit_test(test_snapshots_end),
        cmocka_unit_test(test_falls_back),
        cmocka_unit_test(test_leaves_out),
        cmocka_unit_test(test_context_ends),
    };
    const struct CMUnitTest with_device[] = { cmocka_unit_test(test_sums_of_blocks) };
    if (real_driver())
        return cmocka_run_group_tests_name("sums", with_device, NULL, NULL);
    return cmocka_run_group_tests_name("sums", tests, NULL, NULL);
}
