/* What the tests of HDF5 sets share: segments with known content, sets of them.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef T_H5_H
#define T_H5_H

#include <dirent.h>
#include <fcntl.h>
#include <hdf5.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cmocka.h>

#include "store/durable/sets.h"
#include "store/h5/h5.h"
#include "store/sets_dir.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define CONTEXT "heat 2d"
#define RUN 0x0123456789abcdefu
#define NRANKS 4
#define NPARTS 3
#define BLOCK 4096u

static char work[] = "/tmp/t_h5.XXXXXX"; /* removed at the end, with all below it */
static const char *program = "";         /* that writes the sets */
static char dir[64];                     /* of the test that runs, below work */
static size_t extra_bytes;               /* of the region "extra" of every rank */
static int extra_value;                  /* in all of it; 0: noise */
static bool deflate;                     /* compress the parts */

/* Whether a test tries all of its cases, as tests/long/units.t does, or a part of them. */
static inline bool all_cases(void)
{
    return getenv("FTKIT_TEST_ALL") != NULL;
}

#define CHECK_RC(want, call)                                                                       \
    do {                                                                                           \
        int rc_ = (call);                                                                          \
        if (rc_ != (want))                                                                         \
            fail_msg("%s: %d, not %d: %s", #call, rc_, (want), ftk_detail_text());                 \
    } while (0)

/* ---- what store/durable/sets.c does with this level ------------------------------------ */

static inline int begin_set(const char *where, const char *context, uint64_t set)
{
    return ftk_sets_begin(ftk_sets_level(FTK_DURABLE_HDF5), where, context, set, 0, NULL);
}

static inline int read_segment(
    const char *where, const struct ftk_manifest *m, int rank, void **seg, size_t *bytes)
{
    struct ftk_manifest of_level = *m;
    of_level.level = ftk_sets_level(FTK_DURABLE_HDF5);
    return ftk_sets_read(where, &of_level, rank, seg, bytes);
}

/* ---- Segments ------------------------------------------------------------------------ */

struct region {
    const char *name;
    uint32_t kind, basic;
    size_t elem, count; /* count: of what is not an array */
    int ndims, split;   /* split: dimension that is cut among the ranks */
    uint64_t global[4], halo[4];
    uint64_t hole; /* cells at the end of each block that nobody has */
};

#define FLAT(n, t, e, c)                                                                           \
    {                                                                                              \
        .name = n, .kind = FTK_KIND_FLAT, .basic = t, .elem = e, .count = c                        \
    }

static const struct region regions[] = {
    FLAT("opaque", FTK_T_OPAQUE, 24, 3),
    FLAT("i8", FTK_T_I8, 1, 7),
    FLAT("i16", FTK_T_I16, 2, 5),
    FLAT("i32", FTK_T_I32, 12, 3),
    FLAT("i64", FTK_T_I64, 8, 4),
    FLAT("u8", FTK_T_U8, 1, 9),
    FLAT("u16", FTK_T_U16, 2, 3),
    FLAT("u32", FTK_T_U32, 4, 3),
    FLAT("u64", FTK_T_U64, 8, 3),
    FLAT("f32", FTK_T_F32, 4, 11),
    FLAT("f64", FTK_T_F64, 8, 1),
    FLAT("long double", FTK_T_LONGDOUBLE, 16, 3),
    FLAT("c32", FTK_T_C32, 8, 3),
    FLAT("c64", FTK_T_C64, 16, 3),
    FLAT("clongdouble", FTK_T_CLONGDOUBLE, 32, 3),
    FLAT("char", FTK_T_CHAR, 1, 13),
    FLAT("bool", FTK_T_BOOL, 1, 3),
    FLAT("nothing", FTK_T_F64, 8, 0),
    /* names that HDF5 or the layout could take for something else */
    FLAT(".", FTK_T_I32, 4, 2),
    FLAT("ftkit.head", FTK_T_I32, 4, 3),
    FLAT("u2.halo", FTK_T_I32, 4, 5),
    FLAT("63 bytes, the longest name that a region can have, 80% of it...", FTK_T_I8, 1, 2),
    { .name = "step", .kind = FTK_KIND_REPLICATED, .basic = FTK_T_I32, .elem = 4, .count = 1 },
    { .name = "list", .kind = FTK_KIND_GROWING, .basic = FTK_T_F64, .elem = 8, .count = 700 },
    { .name = "object",
        .kind = FTK_KIND_SERIALIZED,
        .basic = FTK_T_OPAQUE,
        .elem = 1,
        .count = 101 },
#define ARRAY(n, t, e, nd, s, ...)                                                                 \
    {                                                                                              \
        .name = n, .kind = FTK_KIND_ARRAY, .basic = t, .elem = e, .ndims = nd, .split = s,         \
        __VA_ARGS__                                                                                \
    }
    ARRAY("u1", FTK_T_F64, 8, 1, 0, .global = { 41 }),
    ARRAY("u1h", FTK_T_F64, 8, 1, 0, .global = { 30 }, .halo = { 2 }),
    ARRAY("u2", FTK_T_F32, 4, 2, 0, .global = { 13, 9 }, .halo = { 1, 2 }),
    ARRAY("u2n", FTK_T_F64, 8, 2, 1, .global = { 5, 12 }),
    ARRAY("u3", FTK_T_F64, 8, 3, 1, .global = { 6, 9, 7 }, .halo = { 3, 1, 2 }),
    ARRAY("u3n", FTK_T_I32, 4, 3, 2, .global = { 3, 4, 9 }),
    ARRAY("u4", FTK_T_I64, 8, 4, 0, .global = { 9, 3, 2, 4 }, .halo = { 0, 1, 0, 2 }),
    ARRAY("50%b", FTK_T_F64, 8, 2, 0, .global = { 8, 3 }, .halo = { 0, 1 }),
    ARRAY("ranks", FTK_T_F64, 8, 1, 0, .global = { 16 }),
    ARRAY("complex", FTK_T_C64, 16, 2, 0, .global = { 7, 2 }, .halo = { 1, 1 }),
    ARRAY("triples", FTK_T_I32, 12, 1, 0, .global = { 10 }, .halo = { 1 }),
    ARRAY("holes", FTK_T_F64, 8, 2, 0, .global = { 16, 3 }, .hole = 1),
    ARRAY("pairs", FTK_T_F64, 16, 1, 0, .global = { 16 }, .hole = 1),
    ARRAY("two of four", FTK_T_F64, 8, 2, 0, .global = { 2, 3 }, .halo = { 1, 1 }),
    ARRAY("empty", FTK_T_F64, 8, 2, 1, .global = { 0, 8 }),
    /* names that are hard on XML, or on XDMF */
    ARRAY("a<b> & \"c\"'", FTK_T_F64, 8, 2, 0, .global = { 5, 12 }),
    ARRAY("time:value", FTK_T_F64, 8, 1, 0, .global = { 8 }),
};
#define NREGIONS (COUNT(regions) + 1) /* "extra" is the last */

static uint64_t next_random(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x;
}

/* The value of a cell of a global array, exact in every type. */
static double cell_value(uint64_t set, uint64_t index)
{
    return (double)(1000 * set + index);
}

static void put_cell(const struct region *g, char *to, double v)
{
    float f = (float)v;
    int32_t i = (int32_t)v;
    int64_t l = (int64_t)v;
    switch (g->basic) {
    case FTK_T_F32:
        memcpy(to, &f, sizeof f);
        break;
    case FTK_T_I32: /* or a triple of them */
        for (size_t k = 0; k < g->elem; k += sizeof i)
            memcpy(to + k, &i, sizeof i);
        break;
    case FTK_T_I64:
        memcpy(to, &l, sizeof l);
        break;
    case FTK_T_C64:
        memcpy(to, &v, sizeof v);
        v = -v;
        memcpy(to + sizeof v, &v, sizeof v);
        break;
    default: /* or several of them */
        for (size_t k = 0; k < g->elem; k += sizeof v)
            memcpy(to + k, &v, sizeof v);
    }
}

static void describe(
    const struct region *g, uint32_t rank, uint64_t offset, struct ftk_seg_region *r)
{
    snprintf(r->name, sizeof r->name, "%s", g->name);
    r->kind = g->kind;
    r->basic = g->basic;
    r->elem_bytes = g->elem;
    r->offset = offset;
    r->count = g->count;
    if (g->kind == FTK_KIND_GROWING)
        r->count = rank * g->count;
    if (g->kind == FTK_KIND_ARRAY) {
        r->ndims = (uint32_t)g->ndims;
        r->count = 1;
        for (int d = 0; d < g->ndims; d++) {
            r->global[d] = r->local[d] = g->global[d];
            r->halo[d] = g->halo[d];
            if (d == g->split) {
                r->start[d] = g->global[d] * rank / NRANKS;
                r->local[d] = g->global[d] * (rank + 1) / NRANKS - r->start[d] - g->hole;
            }
            r->count *= r->local[d] + 2 * r->halo[d];
        }
    }
    r->bytes = r->count * r->elem_bytes;
}

/* The interior of a block: the values of the global array. */
static void fill_interior(
    const struct region *g, const struct ftk_seg_region *r, uint64_t set, char *block)
{
    uint64_t cells = 1;
    for (uint32_t d = 0; d < r->ndims; d++)
        cells *= r->local[d];
    for (uint64_t c = 0; c < cells; c++) {
        uint64_t rest = c, in_block = 0, in_global = 0, block_step = 1, global_step = 1;
        for (int d = (int)r->ndims - 1; d >= 0; d--) {
            uint64_t at = rest % r->local[d];
            rest /= r->local[d];
            in_block += (at + r->halo[d]) * block_step;
            in_global += (at + r->start[d]) * global_step;
            block_step *= r->local[d] + 2 * r->halo[d];
            global_step *= r->global[d];
        }
        put_cell(g, block + in_block * r->elem_bytes, cell_value(set, in_global));
    }
}

static void seal(struct ftk_seg_header *h)
{
    const char *data = ftk_seg_data(h);
    for (uint64_t i = 0; i < h->nblocks; i++) {
        uint64_t left = h->data_bytes - i * BLOCK;
        ftk_seg_sums(h)[i] = XXH3_64bits(data + i * BLOCK, left < BLOCK ? left : BLOCK);
    }
    ftk_seg_seal_head(h);
}

/* The segment of a rank in a set: always the same bytes for the same numbers. */
static void *make_segment(uint64_t set, uint32_t rank)
{
    struct ftk_seg_region r[NREGIONS] = { 0 };
    struct region extra = FLAT("extra", FTK_T_U8, 1, extra_bytes);
    uint64_t end = 0;
    for (size_t i = 0; i < NREGIONS; i++) {
        describe(i < COUNT(regions) ? &regions[i] : &extra, rank, (end + 63) & ~63u, &r[i]);
        end = r[i].offset + r[i].bytes;
    }
    uint64_t data_bytes = (end + 63) & ~63u;
    size_t head_bytes = ftk_seg_head_bytes(NREGIONS, data_bytes, BLOCK);
    struct ftk_seg_header *h = calloc(1, head_bytes + data_bytes);
    assert_non_null(h);
    *h = (struct ftk_seg_header){ .version = FTK_SEG_VERSION,
        .magic = FTK_SEG_MAGIC,
        .byte_order = FTK_SEG_BYTE_ORDER,
        .head_bytes = head_bytes,
        .data_bytes = data_bytes,
        .set = set,
        .run = RUN,
        .rank = rank,
        .nranks = NRANKS,
        .nregions = NREGIONS,
        .block_bytes = BLOCK,
        .nblocks = (data_bytes + BLOCK - 1) / BLOCK,
        .context = CONTEXT };
    snprintf(h->program, sizeof h->program, "%s", program);
    memcpy(ftk_seg_regions(h), r, sizeof r);
    uint64_t x = set * 1000 + rank + 1;
    for (size_t i = 0; i < NREGIONS; i++) {
        char *block = ftk_seg_data(h) + r[i].offset;
        for (uint64_t b = 0; b < r[i].bytes; b += sizeof x) {
            const uint64_t left = r[i].bytes - b;
            (void)next_random(&x);
            memcpy(block + b, &x, left < sizeof x ? left : sizeof x);
        }
        if (r[i].kind == FTK_KIND_ARRAY)
            fill_interior(&regions[i], &r[i], set, block);
        if (i == COUNT(regions) && extra_value)
            memset(block, extra_value, r[i].bytes);
    }
    seal(h);
    return h;
}

/* ---- Sets ---------------------------------------------------------------------------- */

static const uint32_t part_of[NRANKS] = { 0, 1, 0, 2 };
static const uint32_t part_number[NPARTS] = { 0, 1, 7 };

static struct ftk_manifest make_manifest(uint64_t set)
{
    struct ftk_manifest m = {
        .set = set, .run = RUN, .nranks = NRANKS, .nparts = NPARTS, .context = CONTEXT
    };
    snprintf(m.program, sizeof m.program, "%s", program);
    m.parts = calloc(NPARTS, sizeof *m.parts);
    m.part_of = calloc(NRANKS, sizeof *m.part_of);
    memcpy(m.part_of, part_of, sizeof part_of);
    return m;
}

struct next_of {
    uint64_t set;
    uint32_t part, rank;
    void *seg;
};

static inline int next_segment(void *arg, const void **seg)
{
    struct next_of *f = arg;
    while (part_of[f->rank] != f->part)
        f->rank++;
    free(f->seg);
    *seg = f->seg = make_segment(f->set, f->rank++);
    return FTKIT_OK;
}

static inline int no_pace(void *arg, size_t bytes)
{
    (void)arg;
    (void)bytes;
    return FTKIT_OK;
}

static int write_packed(uint64_t set, uint32_t part, struct ftk_manifest_part *out)
{
    struct next_of f = { .set = set, .part = part };
    int n = 0;
    for (uint32_t r = 0; r < NRANKS; r++)
        n += part_of[r] == part;
    const struct ftk_part_job job = { .dir = dir,
        .context = CONTEXT,
        .set = set,
        .part = part_number[part],
        .nsegs = n,
        .deflate = true,
        .next = next_segment,
        .pace = set % 2 ? NULL : no_pace,
        .arg = &f };
    int rc = ftk_h5_write_job(&job, out);
    free(f.seg);
    return rc;
}

static inline int next_in_memory(void *arg, const void **seg)
{
    const void *const **next = arg;
    *seg = *(*next)++;
    return FTKIT_OK;
}

/* Write a part with these segments [n], which are in the order of their ranks. */
static inline int write_segments(const char *at, const char *context, uint64_t set, uint32_t part,
    const void *const *segs, int n, struct ftk_manifest_part *out)
{
    const struct ftk_part_job job = { .dir = at,
        .context = context,
        .set = set,
        .part = part,
        .nsegs = n,
        .next = next_in_memory,
        .arg = &segs };
    return ftk_h5_write_job(&job, out);
}

static int write_part(uint64_t set, uint32_t part, struct ftk_manifest_part *out)
{
    const void *segs[NRANKS];
    int n = 0;
    if (deflate)
        return write_packed(set, part, out);
    for (uint32_t r = 0; r < NRANKS; r++)
        if (part_of[r] == part)
            segs[n++] = make_segment(set, r);
    int rc = write_segments(dir, CONTEXT, set, part_number[part], segs, n, out);
    for (int i = 0; i < n; i++)
        free((void *)(uintptr_t)segs[i]);
    return rc;
}

static inline int write_set(uint64_t set)
{
    struct ftk_manifest m = make_manifest(set);
    int rc = begin_set(dir, CONTEXT, set);
    for (uint32_t p = 0; p < NPARTS && rc == FTKIT_OK; p++)
        rc = write_part(set, p, &m.parts[p]);
    if (rc == FTKIT_OK)
        rc = ftk_h5_commit(dir, 0, &m);
    ftk_manifest_free(&m);
    return rc;
}

/* FTKIT_OK when the set is complete and every rank's segment is the one written. */
static inline int verify_set(uint64_t set)
{
    struct ftk_manifest m;
    int rc = ftk_h5_open_set(dir, CONTEXT, set, true, &m);
    if (rc != FTKIT_OK)
        return rc;
    for (int r = 0; r < NRANKS && rc == FTKIT_OK; r++) {
        void *seg = NULL, *want = make_segment(set, (uint32_t)r);
        size_t bytes = 0;
        rc = read_segment(dir, &m, r, &seg, &bytes);
        if (rc == FTKIT_OK && (bytes != ftk_seg_bytes(want) || memcmp(seg, want, bytes) != 0))
            rc = ftk_fail(FTKIT_ERR_INTERNAL, "set %d, rank %d: other bytes", (int)set, r);
        free(want);
        free(seg);
    }
    ftk_manifest_free(&m);
    return rc;
}

/* "3 2 1": the complete sets, as listed. */
static inline const char *listed(void)
{
    static char text[256];
    uint64_t *sets = NULL;
    int n = 0;
    int rc = ftk_sets_list(dir, CONTEXT, &sets, &n);
    text[0] = '\0';
    if (rc != FTKIT_OK)
        snprintf(text, sizeof text, "error %d", rc);
    for (int i = 0; i < n; i++) {
        size_t k = strlen(text);
        snprintf(text + k, sizeof text - k, "%s%" PRIu64, i ? " " : "", sets[i]);
    }
    free(sets);
    return text;
}

/* Path of a file of a set, or of its directory. */
static inline const char *path_of(uint64_t set, const char *file)
{
    static char path[FTK_PATH_MAX];
    assert_int_equal(ftk_sets_dir_path(dir, CONTEXT, path), FTKIT_OK);
    size_t n = strlen(path);
    snprintf(path + n, sizeof path - n, "/set-%010" PRIu64 "/%s", set, file);
    return path;
}

static inline bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static inline void write_file(const char *path, const void *text, size_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, bytes), bytes);
    close(fd);
}

static inline char *read_file(const char *path, size_t *bytes)
{
    struct stat st = { 0 };
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    char *text = malloc((size_t)st.st_size + 1);
    assert_non_null(text);
    assert_int_equal(read(fd, text, (size_t)st.st_size), st.st_size);
    close(fd);
    *bytes = (size_t)st.st_size;
    return text;
}

static void remove_tree(const char *path)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
}

static int new_dir(void **state)
{
    (void)state;
    static int n;
    snprintf(dir, sizeof dir, "%s/%d", work, n++);
    assert_int_equal(mkdir(dir, 0777), 0); /* ftk_h5_make() makes only what is in it */
    extra_bytes = 100;
    extra_value = 0;
    deflate = getenv("FTKIT_TEST_DEFLATE") != NULL;
    return 0;
}

static inline int new_dir_packed(void **state)
{
    int rc = new_dir(state);
    deflate = true;
    return rc;
}

/* Open files of this process and what is open in them: calls must leave none behind. */
static int handles(void)
{
    int n = (int)H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL);
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static int make_work(void **state)
{
    (void)state;
    H5open();
    return mkdtemp(work) ? 0 : -1;
}

static int remove_work(void **state)
{
    (void)state;
    remove_tree(work);
    return 0;
}

#define TEST(f) cmocka_unit_test_setup(f, new_dir)
#define TEST_PACKED(f)                                                                             \
    {                                                                                              \
#f " (compressed)", f, new_dir_packed, NULL, NULL                                          \
    }

#endif
