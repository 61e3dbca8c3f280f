/* Segments: what is written is read back, and nothing damaged or forged passes.
 *
 * t_segment --write-golden FILE writes tests/data/segment-v1.bin, which pins the format:
 * a change that needs a new file breaks every set on disk and takes a new version.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include <cmocka.h>

#include "store/segment.h"

#define BLOCK 512u
#define NREGIONS 6u
#define WHAT "t_segment"
#define LONGEST "~ 63 bytes: the longest name that a region can have, no more..."

/* One region of every kind, one without items, a name of full length. */
static const struct ftk_seg_region sample[NREGIONS] = {
    { .name = "u", .kind = FTK_KIND_FLAT, .basic = FTK_T_F64, .elem_bytes = 24, .count = 21 },
    { .name = "step counter",
        .kind = FTK_KIND_REPLICATED,
        .basic = FTK_T_I32,
        .elem_bytes = 4,
        .count = 3 },
    { .name = "pressure",
        .kind = FTK_KIND_ARRAY,
        .basic = FTK_T_F32,
        .elem_bytes = 4,
        .count = 6 * 9 * 5,
        .ndims = 3,
        .global = { 8, 21, 5 },
        .local = { 4, 7, 3 },
        .start = { 4, 14, 2 },
        .halo = { 1, 1, 1 } },
    { .name = "particles",
        .kind = FTK_KIND_GROWING,
        .basic = FTK_T_OPAQUE,
        .elem_bytes = 37,
        .count = 17 },
    { .name = "none",
        .kind = FTK_KIND_GROWING,
        .basic = FTK_T_CLONGDOUBLE,
        .elem_bytes = 32,
        .count = 0 },
    { .name = LONGEST,
        .kind = FTK_KIND_SERIALIZED,
        .basic = FTK_T_OPAQUE,
        .elem_bytes = 1,
        .count = 333 },
};
static const uint64_t sample_offset[NREGIONS] = { 0, 512, 576, 1664, 2304, 2304 };
#define DATA_BYTES 2637u
#define NBLOCKS 6u
#define HEAD_BYTES 8192u /* header and records fill 4096, then come the checksums */
#define SEG_BYTES (HEAD_BYTES + DATA_BYTES)

static unsigned char data_byte(uint32_t region, uint64_t i)
{
    return (unsigned char)(31 * (region + 1) + 7 * i + (i >> 8));
}

static void seal(char *seg)
{
    struct ftk_seg_header *h = (void *)seg;
    for (uint64_t i = 0; i < h->nblocks; i++) {
        uint64_t lo = i * h->block_bytes, left = h->data_bytes - lo;
        ftk_seg_sums(seg)[i] =
            XXH3_64bits(ftk_seg_data(seg) + lo, left < h->block_bytes ? left : h->block_bytes);
    }
    ftk_seg_seal_head(seg);
}

/* The sample segment, sealed; free() it. */
static char *build(void)
{
    char *seg = calloc(1, SEG_BYTES);
    assert_non_null(seg);
    struct ftk_seg_header h = { .version = FTK_SEG_VERSION,
        .byte_order = FTK_SEG_BYTE_ORDER,
        .head_bytes = ftk_seg_head_bytes(NREGIONS, DATA_BYTES, BLOCK),
        .data_bytes = DATA_BYTES,
        .set = 4711,
        .run = 0x0123456789abcdef,
        .wall_ns = 1700000000123456789,
        .rank = 5,
        .nranks = 12,
        .incarnation = 2,
        .nregions = NREGIONS,
        .block_bytes = BLOCK,
        .nblocks = NBLOCKS,
        .context = "sample context" };
    memcpy(h.magic, FTK_SEG_MAGIC, sizeof h.magic);
    memcpy(seg, &h, sizeof h);
    struct ftk_seg_region *r = ftk_seg_regions(seg);
    for (uint32_t k = 0; k < NREGIONS; k++) {
        r[k] = sample[k];
        r[k].bytes = r[k].count * r[k].elem_bytes;
        r[k].offset = sample_offset[k];
        for (uint64_t i = 0; i < r[k].bytes; i++)
            ftk_seg_data(seg)[r[k].offset + i] = (char)data_byte(k, i);
    }
    seal(seg);
    return seg;
}

static struct ftk_seg_header *header(char *seg)
{
    return (struct ftk_seg_header *)(void *)seg;
}

static void check_detail(const char *part)
{
    if (!strstr(ftk_detail_text(), part))
        fail_msg("'%s' does not contain '%s'", ftk_detail_text(), part);
}

/* ---- Sound segments ------------------------------------------------------------------ */

static void check_region(const char *seg, uint32_t k)
{
    const struct ftk_seg_region *r = ftk_seg_find(seg, sample[k].name);
    assert_ptr_equal(r, ftk_seg_regions_c(seg) + k);
    assert_string_equal(r->name, sample[k].name);
    assert_int_equal(r->kind, sample[k].kind);
    assert_int_equal(r->basic, sample[k].basic);
    assert_int_equal(r->elem_bytes, sample[k].elem_bytes);
    assert_int_equal(r->count, sample[k].count);
    assert_int_equal(r->bytes, sample[k].count * sample[k].elem_bytes);
    assert_int_equal(r->offset, sample_offset[k]);
    assert_int_equal(r->ndims, sample[k].ndims);
    assert_int_equal(r->flags, 0);
    assert_memory_equal(r->global, sample[k].global, sizeof r->global);
    assert_memory_equal(r->local, sample[k].local, sizeof r->local);
    assert_memory_equal(r->start, sample[k].start, sizeof r->start);
    assert_memory_equal(r->halo, sample[k].halo, sizeof r->halo);
    for (uint64_t i = 0; i < r->bytes; i++)
        assert_int_equal((unsigned char)ftk_seg_data_c(seg)[r->offset + i], data_byte(k, i));
}

/* Every field of the sample, from memory or from the golden file. */
static void check_sample(const char *seg, size_t bytes)
{
    const struct ftk_seg_header *h = (const void *)seg;
    assert_int_equal(bytes, SEG_BYTES);
    assert_int_equal(ftk_seg_check_head(seg, bytes, WHAT), FTKIT_OK);
    assert_int_equal(ftk_seg_check_data(seg, WHAT), FTKIT_OK);
    assert_int_equal(ftk_seg_bytes(seg), SEG_BYTES);
    assert_memory_equal(h->magic, "FTKSEG\r\n", 8);
    assert_int_equal(h->version, 1);
    assert_int_equal(h->byte_order, 0x01020304);
    assert_int_equal(h->head_bytes, HEAD_BYTES);
    assert_int_equal(h->data_bytes, DATA_BYTES);
    assert_int_equal(h->set, 4711);
    assert_int_equal(h->run, 0x0123456789abcdef);
    assert_int_equal(h->wall_ns, 1700000000123456789);
    assert_int_equal(h->rank, 5);
    assert_int_equal(h->nranks, 12);
    assert_int_equal(h->incarnation, 2);
    assert_int_equal(h->nregions, NREGIONS);
    assert_int_equal(h->block_bytes, BLOCK);
    assert_int_equal(h->flags, 0);
    assert_int_equal(h->nblocks, NBLOCKS);
    assert_int_equal(h->log_bytes, 0);
    assert_string_equal(h->context, "sample context");
    for (uint32_t k = 0; k < NREGIONS; k++)
        check_region(seg, k);
    assert_null(ftk_seg_find(seg, "nobody"));
    assert_null(ftk_seg_find(seg, ""));
}

static void round_trip(void **state)
{
    (void)state;
    char *seg = build();
    check_sample(seg, SEG_BYTES);
    free(seg);
}

/* A context may have no regions yet: a head and nothing else. */
static void empty_segment(void **state)
{
    (void)state;
    char *seg = build();
    struct ftk_seg_header *h = header(seg);
    memset(ftk_seg_regions(seg), 0, HEAD_BYTES - sizeof *h);
    h->head_bytes = FTK_SEG_ALIGN;
    h->nregions = 0;
    h->data_bytes = h->nblocks = 0;
    seal(seg);
    assert_int_equal(ftk_seg_check_head(seg, FTK_SEG_ALIGN, WHAT), FTKIT_OK);
    assert_int_equal(ftk_seg_check_data(seg, WHAT), FTKIT_OK);
    assert_null(ftk_seg_find(seg, "u"));
    free(seg);
}

static void sizes(void **state)
{
    (void)state;
    const size_t kib4 = FTK_SEG_ALIGN;
    assert_int_equal(ftk_seg_head_bytes(0, 0, FTK_SEG_BLOCK), kib4);
    /* 256 + 6 * 640 = 4096: full without a block, one block more is a page more */
    assert_int_equal(ftk_seg_head_bytes(6, 0, FTK_SEG_BLOCK), kib4);
    assert_int_equal(ftk_seg_head_bytes(6, 1, FTK_SEG_BLOCK), 2 * kib4);
    /* 256 + 480 * 8 = 4096 */
    assert_int_equal(ftk_seg_head_bytes(0, 480 * (size_t)FTK_SEG_BLOCK, FTK_SEG_BLOCK), kib4);
    assert_int_equal(
        ftk_seg_head_bytes(0, 480 * (size_t)FTK_SEG_BLOCK + 1, FTK_SEG_BLOCK), 2 * kib4);
    size_t sum = 0;
    for (uint32_t b = FTK_T_OPAQUE; b <= FTK_T_BOOL; b++) {
        assert_true(ftk_basic_bytes(b) > 0);
        assert_string_not_equal(ftk_basic_name(b), "unknown");
        sum += ftk_basic_bytes(b);
    }
    assert_int_equal(sum, 1 + 2 * 15 + 12 + 16 + 8 + 16 + 32 + 2);
    assert_int_equal(ftk_basic_bytes(FTK_T_BOOL + 1), 0);
    assert_int_equal(ftk_basic_bytes(UINT32_MAX), 0);
    assert_string_equal(ftk_basic_name(FTK_T_F64), "f64");
    assert_string_equal(ftk_basic_name(UINT32_MAX), "unknown");
}

/* ---- The golden file ----------------------------------------------------------------- */

static int write_golden(const char *path)
{
    char *seg = build();
    FILE *f = fopen(path, "wb");
    bool ok = f && fwrite(seg, 1, SEG_BYTES, f) == SEG_BYTES;
    if (f && fclose(f) != 0)
        ok = false;
    free(seg);
    if (!ok)
        perror(path);
    return ok ? 0 : 1;
}

/* Beside the source file, wherever the compiler was told that is. */
static FILE *open_golden(void)
{
    static const char self[] = "unit/t_segment.c";
    char path[FTK_PATH_MAX];
    int dir = (int)(strlen(__FILE__) - strlen(self));
    snprintf(path, sizeof path, "%.*sdata/segment-v1.bin", dir, __FILE__);
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("cannot open %s: run from the top of the source tree", path);
    return f;
}

static void golden_file(void **state)
{
    (void)state;
    FILE *f = open_golden();
    char *seg = malloc(SEG_BYTES + 1); /* one more, to see that there is no more */
    assert_non_null(seg);
    size_t bytes = fread(seg, 1, SEG_BYTES + 1, f);
    fclose(f);
    check_sample(seg, bytes);
    /* positions and byte order, without the help of the structures */
    static const char start[] = "FTKSEG\r\n\1\0\0\0\4\3\2\1";
    assert_memory_equal(seg, start, 16);
    assert_memory_equal(seg + 24, "\0\x20\0\0\0\0\0\0", 8);
    assert_memory_equal(seg + 256, "u\0\0\0", 4);
    assert_memory_equal(seg + 256 + 2 * 640, "pressure\0", 9);
    assert_memory_equal(seg + 8192 + 512, "\x3e\x45\x4c", 3);
    char *now = build();
    assert_memory_equal(seg, now, SEG_BYTES); /* the writer has not changed either */
    free(now);
    free(seg);
}

/* ---- Damage -------------------------------------------------------------------------- */

static void flipped_head(void **state)
{
    (void)state;
    char *seg = build();
    const size_t next = getenv("FTKIT_TEST_FEW") ? 5 : 1; /* where each takes long */
    for (size_t bit = 0; bit < 8 * (size_t)HEAD_BYTES; bit += next) {
        seg[bit / 8] = (char)(seg[bit / 8] ^ 1 << bit % 8);
        int rc = ftk_seg_check_head(seg, SEG_BYTES, WHAT);
        if (rc != FTKIT_ERR_FORMAT && rc != FTKIT_ERR_CORRUPT)
            fail_msg("bit %zu of byte %zu: %d", bit % 8, bit / 8, rc);
        /* only these three may claim another program, version or machine */
        if (bit / 8 >= 16)
            assert_int_equal(rc, FTKIT_ERR_CORRUPT);
        seg[bit / 8] = (char)(seg[bit / 8] ^ 1 << bit % 8);
    }
    check_sample(seg, SEG_BYTES);
    free(seg);
}

/* How check_data() must name what lies in each block of the sample. */
static const char *const block_regions[NBLOCKS] = {
    "(region 'u')",
    "(regions 'step counter' to 'pressure')",
    "(region 'pressure')",
    "(regions 'pressure' to 'particles')",
    ("(regions 'particles' to '" LONGEST "')"),
    "(region '" LONGEST "')",
};

static void flipped_data(void **state)
{
    (void)state;
    char *seg = build();
    char *data = ftk_seg_data(seg);
    for (size_t bit = 0; bit < 8 * (size_t)DATA_BYTES; bit++) {
        data[bit / 8] = (char)(data[bit / 8] ^ 1 << bit % 8);
        assert_int_equal(ftk_seg_check_head(seg, SEG_BYTES, WHAT), FTKIT_OK);
        assert_int_equal(ftk_seg_check_data(seg, WHAT), FTKIT_ERR_CORRUPT);
        char block[32];
        snprintf(block, sizeof block, "block %zu of %u ", bit / 8 / BLOCK, NBLOCKS);
        check_detail(WHAT ": ");
        check_detail(block);
        check_detail(block_regions[bit / 8 / BLOCK]);
        data[bit / 8] = (char)(data[bit / 8] ^ 1 << bit % 8);
    }
    assert_int_equal(ftk_seg_check_data(seg, WHAT), FTKIT_OK);
    free(seg);
}

/* A block may hold nothing but the gap behind a region. */
static void flipped_padding(void **state)
{
    (void)state;
    char *seg = build();
    header(seg)->nregions = 1; /* 504 bytes, the rest belongs to nobody */
    seal(seg);
    assert_int_equal(ftk_seg_check_head(seg, SEG_BYTES, WHAT), FTKIT_OK);
    ftk_seg_data(seg)[4 * BLOCK] ^= 1;
    assert_int_equal(ftk_seg_check_data(seg, WHAT), FTKIT_ERR_CORRUPT);
    check_detail("block 4 of 6 differs (padding only)");
    free(seg);
}

static void truncated(void **state)
{
    (void)state;
    char *seg = build();
    for (size_t n = 0; n <= SEG_BYTES; n++) {
        char *part = malloc(n ? n : 1); /* as long as it may be read, for the sanitizer */
        assert_non_null(part);
        memcpy(part, seg, n);
        int want = n < HEAD_BYTES ? FTKIT_ERR_CORRUPT : FTKIT_OK;
        assert_int_equal(ftk_seg_check_head(part, n, WHAT), want);
        if (want != FTKIT_OK)
            check_detail(WHAT ": truncated");
        free(part);
    }
    free(seg);
}

/* ---- Forgery: wrong fields under a right checksum ------------------------------------ */

#define H(field)                                                                                   \
    0, offsetof(struct ftk_seg_header, field), sizeof(((struct ftk_seg_header *)0)->field)
#define R(k, field)                                                                                \
    sizeof(struct ftk_seg_header) + (k) * sizeof(struct ftk_seg_region),                           \
        offsetof(struct ftk_seg_region, field), sizeof(((struct ftk_seg_region *)0)->field)
#define HUGE_COUNT (UINT64_C(1) << 62) /* times 24 or 4 it wraps around */

static const struct forgery {
    size_t base, at, size;
    uint64_t value;
    int rc;
    const char *detail;
} forgeries[] = {
    { H(magic), 0, FTKIT_ERR_FORMAT, "not an ftkit segment" },
    { H(version), 0, FTKIT_ERR_FORMAT, "version 0" },
    { H(version), 3, FTKIT_ERR_FORMAT, "version 3 is newer than 2" },
    { H(byte_order), 0x04030201, FTKIT_ERR_FORMAT, "machine of other byte order" },
    { H(byte_order), 0x01020403, FTKIT_ERR_CORRUPT, "0x01020403" },
    { H(head_bytes), 0, FTKIT_ERR_CORRUPT, "impossible head of 0 bytes" },
    { H(head_bytes), 256, FTKIT_ERR_CORRUPT, "impossible head" },
    { H(head_bytes), HEAD_BYTES + 8, FTKIT_ERR_CORRUPT, "impossible head" },
    { H(head_bytes), 2 * HEAD_BYTES, FTKIT_ERR_CORRUPT, "truncated" },
    { H(head_bytes), UINT64_MAX - 4095, FTKIT_ERR_CORRUPT, "truncated" },
    { H(block_bytes), 0, FTKIT_ERR_FORMAT, "blocks of 0 bytes" },
    { H(block_bytes), 32, FTKIT_ERR_FORMAT, "blocks of 32 bytes" },
    { H(block_bytes), 513, FTKIT_ERR_FORMAT, "blocks of 513 bytes" },
    { H(block_bytes), 1024, FTKIT_ERR_FORMAT, "6 blocks for 2637 bytes" },
    { H(block_bytes), UINT32_MAX, FTKIT_ERR_FORMAT, "blocks of" },
    { H(nblocks), 0, FTKIT_ERR_FORMAT, "0 blocks" },
    { H(nblocks), 7, FTKIT_ERR_FORMAT, "7 blocks for" },
    { H(nblocks), UINT64_MAX, FTKIT_ERR_FORMAT, "blocks for" },
    { H(data_bytes), 3 * BLOCK, FTKIT_ERR_FORMAT, "6 blocks for 1536 bytes" },
    { H(data_bytes), UINT64_MAX, FTKIT_ERR_FORMAT, "18446744073709551615 bytes of data" },
    { H(data_bytes), DATA_BYTES - 1, FTKIT_ERR_FORMAT, "goes beyond" },
    { H(head_bytes), FTK_SEG_ALIGN, FTKIT_ERR_FORMAT, "6 regions and 6 blocks do not fit" },
    { H(nregions), 13, FTKIT_ERR_FORMAT, "13 regions and 6 blocks do not fit" },
    { H(nregions), UINT32_MAX, FTKIT_ERR_FORMAT, "regions and 6 blocks do not fit" },
    { H(rank), 12, FTKIT_ERR_FORMAT, "rank 12 of 12" },
    { H(nranks), 0, FTKIT_ERR_FORMAT, "rank 5 of 0" },
    { H(flags), 4, FTKIT_ERR_FORMAT, "flags 0x4" },
    { H(log_bytes), 8, FTKIT_ERR_FORMAT, "8 bytes of log" },
    { R(1, name[0]), 0, FTKIT_ERR_FORMAT, "name of region 1" },
    { R(1, name[4]), '/', FTKIT_ERR_FORMAT, "name of region 1" },
    { R(1, name[4]), '\n', FTKIT_ERR_FORMAT, "name of region 1" },
    { R(1, name[4]), 0x7f, FTKIT_ERR_FORMAT, "name of region 1" },
    { R(1, name[4]), 0xe4, FTKIT_ERR_FORMAT, "name of region 1" },
    { R(5, name[63]), 'x', FTKIT_ERR_FORMAT, "name of region 5" },
    { R(3, name), 'u', FTKIT_ERR_FORMAT, "two regions are named 'u'" },
    { R(0, kind), 0, FTKIT_ERR_FORMAT, "'u' is of unknown kind 0" },
    { R(0, kind), 6, FTKIT_ERR_FORMAT, "'u' is of unknown kind 6" },
    { R(0, kind), FTK_KIND_ARRAY, FTKIT_ERR_FORMAT, "kind 3 has 0 dimensions" },
    { R(2, kind), FTK_KIND_FLAT, FTKIT_ERR_FORMAT, "kind 1 has 3 dimensions" },
    { R(0, flags), 2, FTKIT_ERR_FORMAT, "flags 0x2" },
    { R(0, basic), FTK_T_BOOL + 1, FTKIT_ERR_FORMAT, "'u' has unknown type 17" },
    { R(0, basic), FTK_T_C64, FTKIT_ERR_FORMAT, "24 bytes of type c64" },
    { R(0, elem_bytes), 0, FTKIT_ERR_FORMAT, "items of 0 bytes" },
    { R(4, elem_bytes), 0, FTKIT_ERR_FORMAT, "items of 0 bytes" },
    { R(0, elem_bytes), 8, FTKIT_ERR_FORMAT, "21 items of 8 bytes in 504" },
    { R(0, count), 20, FTKIT_ERR_FORMAT, "20 items of 24 bytes in 504" },
    { R(4, count), HUGE_COUNT, FTKIT_ERR_FORMAT, "items of 32 bytes in 0" },
    { R(0, bytes), 0, FTKIT_ERR_FORMAT, "in 0 bytes" },
    { R(1, offset), 513, FTKIT_ERR_FORMAT, "offset 513" },
    { R(1, offset), 448, FTKIT_ERR_FORMAT, "offset 448 is not aligned or overlaps" },
    { R(2, offset), 0, FTKIT_ERR_FORMAT, "offset 0 is not aligned or overlaps" },
    { R(1, offset), 576, FTKIT_ERR_FORMAT, "'pressure' at offset 576" },
    { R(5, offset), 2368, FTKIT_ERR_FORMAT, "goes beyond the data" },
    { R(4, offset), UINT64_MAX - 63, FTKIT_ERR_FORMAT, "goes beyond the data" },
    { R(2, ndims), 0, FTKIT_ERR_FORMAT, "has 0 dimensions" },
    { R(2, ndims), 16, FTKIT_ERR_FORMAT, "has 16 dimensions" },
    { R(2, ndims), UINT32_MAX, FTKIT_ERR_FORMAT, "dimensions" },
    { R(2, ndims), 2, FTKIT_ERR_FORMAT, "the shape of array 'pressure' has 216 bytes" },
    { R(2, local[1]), 6, FTKIT_ERR_FORMAT, "the shape of array" },
    { R(2, local[1]), UINT64_MAX, FTKIT_ERR_FORMAT, "dimension 1" },
    { R(2, halo[0]), 2, FTKIT_ERR_FORMAT, "the shape of array" },
    { R(2, halo[2]), UINT64_C(1) << 63, FTKIT_ERR_FORMAT, "dimension 2" },
    { R(2, halo[2]), HUGE_COUNT, FTKIT_ERR_FORMAT, "dimension 2" },
    { R(2, start[0]), 5, FTKIT_ERR_FORMAT, "dimension 0" },
    { R(2, start[2]), UINT64_MAX, FTKIT_ERR_FORMAT, "dimension 2" },
    { R(2, global[1]), 20, FTKIT_ERR_FORMAT, "dimension 1" },
};

static void forged_fields(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof forgeries / sizeof forgeries[0]; i++) {
        const struct forgery *f = &forgeries[i];
        char *seg = build();
        char *field = seg + f->base + f->at;
        memset(field, 0, f->size);
        memcpy(field, &f->value, f->size < 8 ? f->size : 8);
        if (header(seg)->head_bytes <= HEAD_BYTES && header(seg)->head_bytes >= FTK_SEG_ALIGN)
            ftk_seg_seal_head(seg);
        int rc = ftk_seg_check_head(seg, SEG_BYTES, WHAT);
        if (rc != f->rc)
            fail_msg("forgery %zu (%s): %d", i, f->detail, rc);
        check_detail(WHAT ": ");
        check_detail(f->detail);
        free(seg);
    }
}

static void forged_context(void **state)
{
    (void)state;
    char *seg = build();
    memset(header(seg)->context, 'c', sizeof header(seg)->context);
    ftk_seg_seal_head(seg);
    assert_int_equal(ftk_seg_check_head(seg, SEG_BYTES, WHAT), FTKIT_ERR_FORMAT);
    check_detail("name of the context");
    free(seg);
}

/* Blocks that fit, so many that their checksums do not. */
static void forged_nblocks(void **state)
{
    (void)state;
    char *seg = build();
    struct ftk_seg_header *h = header(seg);
    h->block_bytes = 64;
    h->data_bytes = UINT64_C(1) << 62;
    h->nblocks = UINT64_C(1) << 56;
    ftk_seg_seal_head(seg);
    assert_int_equal(ftk_seg_check_head(seg, SEG_BYTES, WHAT), FTKIT_ERR_FORMAT);
    check_detail("do not fit a head");
    free(seg);
}

/* ---- Garbage ------------------------------------------------------------------------- */

static uint64_t seed;

static uint64_t rnd(void) /* splitmix64 */
{
    uint64_t z = seed += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* A value that has broken readers before. */
static uint64_t nasty(uint64_t old)
{
    switch (rnd() % 8) {
    case 0:
        return rnd() % 20;
    case 1:
        return old + 1 - 2 * (rnd() & 1);
    case 2:
        return UINT64_C(1) << rnd() % 64;
    case 3:
        return UINT64_MAX - rnd() % 5000;
    case 4:
        return rnd() % (2 * SEG_BYTES);
    case 5:
        return rnd() % 128 * FTK_SEG_REGION_ALIGN;
    case 6:
        return old << rnd() % 64;
    default:
        return rnd();
    }
}

/* Read an accepted segment as its users do; whatever is out of bounds is a crash here. */
static void use(const char *seg, size_t bytes)
{
    const struct ftk_seg_header *h = (const void *)seg;
    const struct ftk_seg_region *r = ftk_seg_regions_c(seg);
    uint64_t end = 0;
    assert_true(strlen(h->context) < sizeof h->context);
    for (uint32_t i = 0; i < h->nregions; i++) {
        assert_true(strlen(r[i].name) < sizeof r[i].name);
        assert_ptr_equal(ftk_seg_find(seg, r[i].name), &r[i]);
        assert_true(r[i].offset >= end && r[i].bytes <= h->data_bytes);
        end = r[i].offset + r[i].bytes;
        assert_true(end <= h->data_bytes);
        assert_true(r[i].ndims <= FTKIT_DIMS_MAX);
    }
    if (ftk_seg_bytes(seg) <= bytes) /* as everyone must ask who has read a head */
        (void)ftk_seg_check_data(seg, WHAT);
}

/* Check a copy of exactly bytes bytes. */
static int check_exact(const char *seg, size_t bytes)
{
    char *copy = malloc(bytes ? bytes : 1);
    assert_non_null(copy);
    memcpy(copy, seg, bytes);
    int rc = ftk_seg_check_head(copy, bytes, WHAT);
    if (rc == FTKIT_OK)
        use(copy, bytes);
    free(copy);
    return rc;
}

static void garbage(void **state)
{
    (void)state;
    static uint64_t buf[2 * HEAD_BYTES / sizeof(uint64_t)];
    seed = 1;
    for (int i = 0; i < 20000; i++) {
        for (size_t k = 0; k < sizeof buf / sizeof buf[0]; k++)
            buf[k] = rnd();
        /* the further a case looks right, the deeper it gets */
        struct ftk_seg_header *h = (void *)buf;
        if (i % 4 > 0)
            memcpy(h->magic, FTK_SEG_MAGIC, sizeof h->magic);
        if (i % 4 > 1) {
            h->version = FTK_SEG_VERSION;
            h->byte_order = FTK_SEG_BYTE_ORDER;
        }
        size_t bytes = rnd() % (sizeof buf + 1);
        if (i % 4 > 2) {
            h->head_bytes = rnd() & 1 ? FTK_SEG_ALIGN : HEAD_BYTES;
            h->nregions = (uint32_t)(rnd() % 8);
            ftk_seg_seal_head(buf);
        }
        assert_int_not_equal(check_exact((const char *)buf, bytes), FTKIT_OK);
    }
}

/* Overwrite one to three fields, at four bytes each or eight. */
static void mutate(char *seg)
{
    size_t fields = sizeof(struct ftk_seg_header)
                    + (size_t)header(seg)->nregions * sizeof(struct ftk_seg_region);
    for (uint64_t n = 1 + rnd() % 3; n > 0; n--) {
        size_t size = rnd() & 1 ? 4 : 8;
        size_t at = rnd() % (fields / size) * size;
        if (rnd() % 4 == 0) /* more often in the fields before the name of the context */
            at %= offsetof(struct ftk_seg_header, context);
        uint64_t old = 0;
        memcpy(&old, seg + at, size);
        old = nasty(old);
        memcpy(seg + at, &old, size);
    }
}

static void mutations(void **state)
{
    (void)state;
    int accepted = 0, refused = 0;
    char *good = build();
    char *seg = malloc(SEG_BYTES);
    assert_non_null(seg);
    seed = 2;
    const int runs = getenv("FTKIT_TEST_FEW") ? 9000 : 60000;
    for (int i = 0; i < runs; i++) {
        memcpy(seg, good, SEG_BYTES);
        mutate(seg);
        size_t bytes = rnd() % 4 ? SEG_BYTES : rnd() % (SEG_BYTES + 1);
        uint64_t head = header(seg)->head_bytes;
        if (head >= FTK_SEG_ALIGN && head <= SEG_BYTES)
            ftk_seg_seal_head(seg);
        if (check_exact(seg, bytes) == FTKIT_OK)
            accepted++; /* another rank, set, name ...: still a sound segment */
        else
            refused++;
    }
    /* neither too lenient nor lost before the field checks */
    assert_true(accepted > runs / 60);
    assert_true(refused > runs / 3);
    free(seg);
    free(good);
}

/* Cells that no rank holds: NaN where the type has one, without garbage in the padding. */
static void fill_of_holes(void **state)
{
    (void)state;
    float f[4];
    double d[4];
    long double l[4];
    int32_t n[4];
    memset(l, 0x5a, sizeof l);
    assert_true(ftk_basic_fill(FTK_T_C32, f, sizeof f));
    assert_true(ftk_basic_fill(FTK_T_F64, d, sizeof d));
    assert_true(ftk_basic_fill(FTK_T_CLONGDOUBLE, l, sizeof l));
    assert_false(ftk_basic_fill(FTK_T_I32, n, sizeof n));
    for (int i = 0; i < 4; i++) {
        assert_true(isnan(f[i]) && isnan(d[i]) && isnan(l[i]));
        assert_int_equal(n[i], 0);
        assert_memory_equal(&l[i], &l[0], sizeof l[0]);
    }
#if LDBL_MANT_DIG == 64
    static const char none[6];
    assert_memory_equal((char *)l + 10, none, sizeof none);
#endif
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--write-golden") == 0)
        return write_golden(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(empty_segment),
        cmocka_unit_test(sizes),
        cmocka_unit_test(fill_of_holes),
        cmocka_unit_test(golden_file),
        cmocka_unit_test(flipped_head),
        cmocka_unit_test(flipped_data),
        cmocka_unit_test(flipped_padding),
        cmocka_unit_test(truncated),
        cmocka_unit_test(forged_fields),
        cmocka_unit_test(forged_context),
        cmocka_unit_test(forged_nblocks),
        cmocka_unit_test(garbage),
        cmocka_unit_test(mutations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
