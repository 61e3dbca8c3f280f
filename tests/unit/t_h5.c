/* HDF5 sets: what is written is read back bit by bit, by us and by plain HDF5, and no
 * failure, kill or damage ever shows half a set or harms an older one.
 *
 * t_h5 --write DIR and t_h5 --prune DIR are the children of the fault tests: they run
 * with FTKIT_FAULT and check from inside what the failing process itself must see.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include <cmocka.h>

#include "store/h5.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define CONTEXT "heat 2d"
#define RUN 0x0123456789abcdefu
#define NRANKS 4
#define NPARTS 3
#define BLOCK 4096u

static char work[] = "/tmp/t_h5.XXXXXX"; /* removed at the end, with all below it */
static char dir[64];                     /* of the test that runs, below work */
static size_t extra_bytes;               /* of the region "extra" of every rank */

#define CHECK_RC(want, call)                                                             \
    do {                                                                                 \
        int rc_ = (call);                                                                \
        if (rc_ != (want))                                                               \
            fail_msg("%s: %d, not %d: %s", #call, rc_, (want), ftk_detail_text());       \
    } while (0)

/* ---- Segments
 * ------------------------------------------------------------------------*/

struct region {
    const char *name;
    uint32_t kind, basic;
    size_t elem, count; /* count: of what is not an array */
    int ndims, split;   /* split: dimension that is cut among the ranks */
    uint64_t global[4], halo[4];
    uint64_t hole; /* cells at the end of each block that nobody has */
};

#define FLAT(n, t, e, c)                                                                 \
    {                                                                                    \
        .name = n, .kind = FTK_KIND_FLAT, .basic = t, .elem = e, .count = c              \
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
    FLAT("63 bytes, the longest name that a region can have, 80% of it...", FTK_T_I8, 1,
        2),
    { .name = "step",
        .kind = FTK_KIND_REPLICATED,
        .basic = FTK_T_I32,
        .elem = 4,
        .count = 1 },
    { .name = "list",
        .kind = FTK_KIND_GROWING,
        .basic = FTK_T_F64,
        .elem = 8,
        .count = 700 },
    { .name = "object",
        .kind = FTK_KIND_SERIALIZED,
        .basic = FTK_T_OPAQUE,
        .elem = 1,
        .count = 101 },
#define ARRAY(n, t, e, nd, s, ...)                                                       \
    {                                                                                    \
        .name = n, .kind = FTK_KIND_ARRAY, .basic = t, .elem = e, .ndims = nd,           \
        .split = s, __VA_ARGS__                                                          \
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
    ARRAY("two of four", FTK_T_F64, 8, 2, 0, .global = { 2, 3 }, .halo = { 1, 1 }),
    ARRAY("empty", FTK_T_F64, 8, 2, 1, .global = { 0, 8 }),
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
    default:
        memcpy(to, &v, sizeof v);
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
        describe(
            i < COUNT(regions) ? &regions[i] : &extra, rank, (end + 63) & ~63u, &r[i]);
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
    memcpy(ftk_seg_regions(h), r, sizeof r);
    uint64_t x = set * 1000 + rank + 1;
    for (size_t i = 0; i < NREGIONS; i++) {
        char *block = ftk_seg_data(h) + r[i].offset;
        for (uint64_t b = 0; b < r[i].bytes; b++)
            block[b] = (char)next_random(&x);
        if (r[i].kind == FTK_KIND_ARRAY)
            fill_interior(&regions[i], &r[i], set, block);
    }
    seal(h);
    return h;
}

/* ---- Sets
 * ----------------------------------------------------------------------------*/

static const uint32_t part_of[NRANKS] = { 0, 1, 0, 2 };
static const uint32_t part_number[NPARTS] = { 0, 1, 7 };

static struct ftk_h5_manifest make_manifest(uint64_t set)
{
    struct ftk_h5_manifest m = {
        .set = set, .run = RUN, .nranks = NRANKS, .nparts = NPARTS, .context = CONTEXT
    };
    m.parts = calloc(NPARTS, sizeof *m.parts);
    m.part_of = calloc(NRANKS, sizeof *m.part_of);
    memcpy(m.part_of, part_of, sizeof part_of);
    return m;
}

static int write_part(uint64_t set, uint32_t part, struct ftk_h5_part *out)
{
    const void *segs[NRANKS];
    int n = 0;
    for (uint32_t r = NRANKS; r-- > 0;) /* in an order of its own */
        if (part_of[r] == part)
            segs[n++] = make_segment(set, r);
    int rc = ftk_h5_write_part(dir, CONTEXT, set, part_number[part], segs, n, out);
    for (int i = 0; i < n; i++)
        free((void *)(uintptr_t)segs[i]);
    return rc;
}

static int write_set(uint64_t set)
{
    struct ftk_h5_manifest m = make_manifest(set);
    int rc = ftk_h5_begin(dir, CONTEXT, set);
    for (uint32_t p = 0; p < NPARTS && rc == FTKIT_OK; p++)
        rc = write_part(set, p, &m.parts[p]);
    if (rc == FTKIT_OK)
        rc = ftk_h5_commit(dir, &m);
    ftk_h5_manifest_free(&m);
    return rc;
}

/* FTKIT_OK when the set is complete and every rank's segment is the one written. */
static int verify_set(uint64_t set)
{
    struct ftk_h5_manifest m;
    int rc = ftk_h5_open_set(dir, CONTEXT, set, true, &m);
    if (rc != FTKIT_OK)
        return rc;
    for (int r = 0; r < NRANKS && rc == FTKIT_OK; r++) {
        void *seg = NULL, *want = make_segment(set, (uint32_t)r);
        size_t bytes = 0;
        rc = ftk_h5_read(dir, &m, r, &seg, &bytes);
        if (rc == FTKIT_OK
            && (bytes != ftk_seg_bytes(want) || memcmp(seg, want, bytes) != 0))
            rc =
                ftk_fail(FTKIT_ERR_INTERNAL, "set %d, rank %d: other bytes", (int)set, r);
        free(want);
        free(seg);
    }
    ftk_h5_manifest_free(&m);
    return rc;
}

/* "3 2 1": the complete sets, as listed. */
static const char *listed(void)
{
    static char text[256];
    uint64_t *sets = NULL;
    int n = 0;
    int rc = ftk_h5_list(dir, CONTEXT, &sets, &n);
    snprintf(text, sizeof text, rc == FTKIT_OK ? "" : "error %d", rc);
    for (int i = 0; i < n; i++) {
        size_t k = strlen(text);
        snprintf(text + k, sizeof text - k, "%s%" PRIu64, i ? " " : "", sets[i]);
    }
    free(sets);
    return text;
}

/* Path of a file of a set, or of its directory. */
static const char *path_of(uint64_t set, const char *file)
{
    static char path[FTK_PATH_MAX];
    assert_int_equal(ftk_h5_set_dir(dir, CONTEXT, set, path), FTKIT_OK);
    size_t n = strlen(path);
    snprintf(path + n, sizeof path - n, "/%s", file);
    return path;
}

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static void write_file(const char *path, const void *text, size_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, bytes), bytes);
    close(fd);
}

static char *read_file(const char *path, size_t *bytes)
{
    struct stat st;
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    char *text = malloc((size_t)st.st_size);
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
    snprintf(dir, sizeof dir, "%s/%d/a/b", work, n++); /* made by ftk_h5_begin() */
    extra_bytes = 100;
    return 0;
}

/* ---- Round trip
 * ----------------------------------------------------------------------*/

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

static void round_trip(void **state)
{
    (void)state;
    CHECK_RC(FTKIT_OK, write_set(1));
    int before = handles();
    for (uint64_t set = 2; set <= 12; set++) {
        extra_bytes = set % 3 == 0 ? 0 : 100000 * (size_t)set + (size_t)set;
        CHECK_RC(FTKIT_OK, write_set(set));
        CHECK_RC(FTKIT_OK, verify_set(set));
    }
    assert_int_equal(handles(), before);
    assert_string_equal(listed(), "12 11 10 9 8 7 6 5 4 3 2 1");
    CHECK_RC(FTKIT_ERR_EXISTS, write_set(5));
    CHECK_RC(FTKIT_ERR_NOT_FOUND, verify_set(13));
}

/* The same bytes make the same file. */
static void parts_are_reproducible(void **state)
{
    (void)state;
    struct ftk_h5_part p[2] = { 0 };
    char *text[2];
    size_t bytes[2];
    for (int i = 0; i < 2; i++) {
        CHECK_RC(FTKIT_OK, ftk_h5_begin(dir, CONTEXT, 1));
        CHECK_RC(FTKIT_OK, write_part(1, 0, &p[i]));
        text[i] = read_file(path_of(1, "part-00000.h5"), &bytes[i]);
    }
    assert_memory_equal(&p[0], &p[1], sizeof p[0]);
    assert_int_equal(p[0].file_bytes, bytes[0]);
    assert_int_equal(p[0].nranks, 2);
    assert_memory_equal(text[0], text[1], bytes[0]);
    free(text[0]);
    free(text[1]);
}

static void arguments(void **state)
{
    (void)state;
    struct ftk_h5_part p;
    struct ftk_h5_manifest m = make_manifest(1);
    char path[FTK_PATH_MAX], longer[2 * FTK_PATH_MAX];
    void *seg[2] = { make_segment(1, 0), make_segment(1, 0) };
    const void *segs[2] = { seg[0], seg[1] };
    CHECK_RC(FTKIT_OK, ftk_h5_begin(dir, CONTEXT, 1));
    CHECK_RC(FTKIT_ERR_NAME, ftk_h5_begin(dir, "../x", 1));
    CHECK_RC(FTKIT_ERR_NAME, ftk_h5_begin(dir, "", 1));
    CHECK_RC(FTKIT_ERR_NAME, ftk_h5_list(dir, "a/b", NULL, NULL));
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    CHECK_RC(FTKIT_ERR_ARG, ftk_h5_set_dir(longer, CONTEXT, 1, path));
    CHECK_RC(FTKIT_ERR_NAME, ftk_h5_set_dir(dir, longer, 1, path));
    CHECK_RC(FTKIT_ERR_ARG, ftk_h5_write_part(dir, CONTEXT, 1, 0, segs, 0, &p));
    CHECK_RC(
        FTKIT_ERR_ARG, ftk_h5_write_part(dir, CONTEXT, 1, 0, segs, 2, &p)); /* twice */
    CHECK_RC(FTKIT_ERR_ARG, ftk_h5_write_part(dir, CONTEXT, 2, 0, segs, 1, &p));
    CHECK_RC(FTKIT_ERR_ARG, ftk_h5_write_part(dir, "heat", 1, 0, segs, 1, &p));
    ((char *)seg[0])[300] ^= 1; /* not sealed */
    CHECK_RC(FTKIT_ERR_CORRUPT, ftk_h5_write_part(dir, CONTEXT, 1, 0, segs, 1, &p));
    CHECK_RC(FTKIT_ERR_ARG, ftk_h5_commit(dir, &m)); /* parts of 0 ranks */
    CHECK_RC(FTKIT_ERR_ARG, ftk_h5_prune(dir, CONTEXT, 0));
    CHECK_RC(FTKIT_ERR_ARG, ftk_h5_read(dir, &m, NRANKS, &seg[0], NULL));
    CHECK_RC(FTKIT_ERR_ARG, ftk_h5_read(dir, &m, -1, &seg[0], NULL));
    assert_string_equal(listed(), "");
    free(seg[0]);
    free(seg[1]);
    ftk_h5_manifest_free(&m);
}

/* A commit looks at the parts it names. */
static void commit_checks_parts(void **state)
{
    (void)state;
    struct ftk_h5_manifest m = make_manifest(1);
    CHECK_RC(FTKIT_OK, ftk_h5_begin(dir, CONTEXT, 1));
    CHECK_RC(FTKIT_OK, write_part(1, 0, &m.parts[0]));
    CHECK_RC(FTKIT_OK, write_part(1, 1, &m.parts[1]));
    m.parts[2] = m.parts[1];
    m.parts[2].part = 7;
    CHECK_RC(FTKIT_ERR_NOT_FOUND, ftk_h5_commit(dir, &m));
    CHECK_RC(FTKIT_OK, write_part(1, 2, &m.parts[2]));
    m.parts[2].heads_xxh ^= 1;
    CHECK_RC(FTKIT_ERR_CORRUPT, ftk_h5_commit(dir, &m));
    m.parts[2].heads_xxh ^= 1;
    m.parts[1].file_bytes++;
    CHECK_RC(FTKIT_ERR_CORRUPT, ftk_h5_commit(dir, &m));
    m.parts[1].file_bytes--;
    m.run++;
    CHECK_RC(FTKIT_ERR_FORMAT, ftk_h5_commit(dir, &m));
    m.run--;
    assert_string_equal(listed(), "");
    CHECK_RC(FTKIT_OK, ftk_h5_commit(dir, &m));
    assert_string_equal(listed(), "1");
    ftk_h5_manifest_free(&m);
}

/* What the program does with HDF5's errors stays its own. */
static int errors_seen;
static herr_t on_error(hid_t stack, void *arg)
{
    (void)stack;
    (void)arg;
    errors_seen++;
    return 0;
}

static herr_t on_error1(void *arg)
{
    return on_error(0, arg);
}

static void error_handlers_survive(void **state)
{
    (void)state;
    H5E_auto2_t fn;
    H5E_auto1_t fn1;
    void *arg;
    CHECK_RC(FTKIT_OK, write_set(1));
    int fd = open(path_of(1, "part-00000.h5"), O_RDWR);
    assert_int_equal(pwrite(fd, "x", 1, 0), 1);
    close(fd);
    errors_seen = 0;
    assert_true(H5Eset_auto2(H5E_DEFAULT, on_error, &errors_seen) >= 0);
    CHECK_RC(FTKIT_ERR_CORRUPT, verify_set(1));
    assert_true(strstr(ftk_detail_text(), "HDF5") != NULL);
    assert_true(H5Eget_auto2(H5E_DEFAULT, &fn, &arg) >= 0);
    assert_true(fn == on_error && arg == &errors_seen);
    assert_true(H5Eset_auto1(on_error1, &errors_seen) >= 0);
    CHECK_RC(FTKIT_ERR_CORRUPT, verify_set(1));
    assert_true(H5Eget_auto1(&fn1, &arg) >= 0);
    assert_true(fn1 == on_error1 && arg == &errors_seen);
    assert_int_equal(errors_seen, 0);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

/* ---- The master file, with HDF5 alone
 * ------------------------------------------------*/

/* Whether a cell of a global array is held by some rank. */
static bool is_held(const struct region *g, uint64_t index)
{
    uint64_t below = 1;
    for (int d = g->split + 1; d < g->ndims; d++)
        below *= g->global[d];
    uint64_t at = index / below % g->global[g->split];
    for (uint64_t r = 0; r < NRANKS; r++) {
        uint64_t end = g->global[g->split] * (r + 1) / NRANKS;
        if (at < end)
            return at < end - g->hole;
    }
    return false;
}

static void check_global(hid_t file, const struct region *g, const char *name)
{
    hsize_t dims[4];
    hid_t ds = H5Dopen2(file, name, H5P_DEFAULT);
    assert_true(ds >= 0);
    hid_t space = H5Dget_space(ds), type = H5Dget_type(ds);
    assert_int_equal(H5Sget_simple_extent_dims(space, dims, NULL), g->ndims);
    assert_int_equal(H5Tget_size(type), g->elem);
    uint64_t cells = 1;
    for (int d = 0; d < g->ndims; d++) {
        assert_int_equal(dims[d], g->global[d]);
        cells *= dims[d];
    }
    char *have = malloc(cells * g->elem + 1), want[64];
    assert_true(H5Dread(ds, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, have) >= 0);
    for (uint64_t c = 0; c < cells; c++) {
        double v;
        memcpy(&v, have + c * g->elem, sizeof v < g->elem ? sizeof v : g->elem);
        put_cell(g, want, cell_value(3, c));
        if (is_held(g, c) ? memcmp(have + c * g->elem, want, g->elem) != 0 : !isnan(v))
            fail_msg("cell %d of %s differs", (int)c, name);
    }
    free(have);
    H5Tclose(type);
    H5Sclose(space);
    H5Dclose(ds);
}

static void check_master(const char *path)
{
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    assert_true(file >= 0);
    for (size_t i = 0; i < COUNT(regions); i++)
        if (regions[i].kind == FTK_KIND_ARRAY) {
            bool taken = strcmp(regions[i].name, "ranks") == 0;
            check_global(
                file, &regions[i], taken ? "/ftkit.region.ranks" : regions[i].name);
        }
    int32_t v[3];
    uint64_t set = 0;
    char context[64] = "";
    hid_t a = H5Aopen(file, "ftkit.set", H5P_DEFAULT);
    assert_true(H5Aread(a, H5T_NATIVE_UINT64, &set) >= 0 && H5Aclose(a) >= 0);
    a = H5Aopen(file, "ftkit.context", H5P_DEFAULT);
    hid_t type = H5Aget_type(a);
    assert_true(
        H5Aread(a, type, context) >= 0 && H5Tclose(type) >= 0 && H5Aclose(a) >= 0);
    assert_int_equal(set, 3);
    assert_string_equal(context, CONTEXT);
    hid_t ds = H5Dopen2(file, "/ranks/00003/ftkit.region.ftkit.head", H5P_DEFAULT);
    assert_true(ds >= 0);
    assert_true(H5Dread(ds, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0);
    void *seg = make_segment(3, 3);
    assert_memory_equal(
        v, ftk_seg_data(seg) + ftk_seg_find(seg, "ftkit.head")->offset, sizeof v);
    free(seg);
    H5Dclose(ds);
    H5Fclose(file);
}

static void master_by_hdf5(void **state)
{
    (void)state;
    char moved[FTK_PATH_MAX];
    CHECK_RC(FTKIT_OK, write_set(3));
    check_master(path_of(3, "master.h5"));
    snprintf(moved, sizeof moved, "%s/../elsewhere", dir);
    assert_int_equal(rename(path_of(3, ""), moved), 0);
    snprintf(moved, sizeof moved, "%s/../elsewhere/master.h5", dir);
    check_master(moved);
}

static void master_by_h5dump(void **state)
{
    (void)state;
    char command[2 * FTK_PATH_MAX], line[4096];
    if (system("command -v h5dump >/dev/null 2>&1") != 0)
        skip();
    CHECK_RC(FTKIT_OK, write_set(3));
    snprintf(command, sizeof command, "cd / && h5dump -y -m %%.17g -d /u3 '%s'",
        path_of(3, "master.h5"));
    FILE *f = popen(command, "r");
    assert_non_null(f);
    bool data = false;
    uint64_t cells = 0;
    while (fgets(line, sizeof line, f)) {
        if (!data || strchr(line, '}')) {
            data = strstr(line, "DATA {") != NULL;
            continue;
        }
        char *save = NULL;
        for (char *t = strtok_r(line, " ,\n", &save); t;
             t = strtok_r(NULL, " ,\n", &save), cells++)
            assert_true(strtod(t, NULL) == cell_value(3, cells));
    }
    pclose(f);
    assert_int_equal(cells, 6 * 9 * 7);
}

/* Ranks that disagree on an array cannot make one of it. */
static void master_needs_agreement(void **state)
{
    (void)state;
    struct ftk_h5_manifest m = make_manifest(1);
    CHECK_RC(FTKIT_OK, ftk_h5_begin(dir, CONTEXT, 1));
    CHECK_RC(FTKIT_OK, write_part(1, 0, &m.parts[0]));
    CHECK_RC(FTKIT_OK, write_part(1, 1, &m.parts[1]));
    struct ftk_seg_header *h = make_segment(1, 3);
    struct ftk_seg_region *r = ftk_seg_regions(h);
    while (strcmp(r->name, "u2n") != 0)
        r++;
    r->global[1]++;
    seal(h);
    const void *seg = h;
    CHECK_RC(FTKIT_OK, ftk_h5_write_part(dir, CONTEXT, 1, 7, &seg, 1, &m.parts[2]));
    CHECK_RC(FTKIT_ERR_MISMATCH, ftk_h5_commit(dir, &m));
    assert_true(strstr(ftk_detail_text(), "u2n") != NULL);
    assert_false(exists(path_of(1, "master.h5")));
    assert_false(exists(path_of(1, "master.h5.tmp")));
    free(h);
    ftk_h5_manifest_free(&m);
}

/* ---- Faults
 * --------------------------------------------------------------------------*/

static const struct fault {
    const char *point;
    int nth;
} write_faults[] = {
    { "h5.begin", 1 },
    { "h5.part.create", 1 },
    { "h5.part.create", 3 },
    { "h5.part.write", 1 },
    { "h5.part.write", 2 },
    { "h5.part.write", 3 },
    { "h5.part.write", 5 },
    { "h5.part.write", 8 },
    { "h5.part.write", 13 },
    { "h5.part.fsync", 1 },
    { "h5.part.fsync", 3 },
    { "h5.part.close", 1 },
    { "h5.part.close", 2 },
    { "h5.part.rename", 1 },
    { "h5.part.rename", 3 },
    { "h5.part.dirsync", 3 },
    { "h5.master.write", 1 },
    { "h5.master.write", 2 },
    { "h5.manifest.write", 1 },
    { "h5.manifest.fsync", 1 },
    { "h5.manifest.rename", 1 },
    { "h5.manifest.dirsync", 1 },
};

/* Run this program again with a fault; the wait status. */
static int run_child(const char *mode, const struct fault *f, const char *action)
{
    char rule[96];
    snprintf(rule, sizeof rule, "%s:*:%d:%s", f->point, f->nth, action);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("FTKIT_FAULT", rule, 1);
        execl("/proc/self/exe", "t_h5", mode, dir, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    return status;
}

/* In the child: set 2 fails, set 1 holds, the next attempt succeeds. */
static int child_write(void)
{
    int rc = write_set(2);
    if (rc == FTKIT_OK)
        return 100; /* the fault was not reached */
    if (!*ftk_detail_text())
        return 101;
    if (strcmp(listed(), "1") != 0 || verify_set(1) != FTKIT_OK)
        return 102;
    DIR *d = opendir(path_of(2, ""));
    for (const struct dirent *e; d && (e = readdir(d));)
        if (strstr(e->d_name, ".tmp"))
            return 103;
    if (d)
        closedir(d);
    if (write_set(2) != FTKIT_OK || verify_set(2) != FTKIT_OK)
        return 104;
    return -rc;
}

static void faults_are_clean(void **state)
{
    for (size_t i = 0; i < COUNT(write_faults); i++) {
        const struct fault *f = &write_faults[i];
        bool full = i % 2 == 1;
        new_dir(state);
        CHECK_RC(FTKIT_OK, write_set(1));
        int status = run_child("--write", f, full ? "ENOSPC" : "EIO");
        int want = full ? -FTKIT_ERR_NOSPACE : -FTKIT_ERR_IO;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != want)
            fail_msg("%s:%d: status %#x", f->point, f->nth, (unsigned)status);
        assert_string_equal(listed(), "2 1");
        CHECK_RC(FTKIT_OK, verify_set(1));
        CHECK_RC(FTKIT_OK, verify_set(2));
    }
}

static void kills_are_clean(void **state)
{
    for (size_t i = 0; i < COUNT(write_faults); i++) {
        const struct fault *f = &write_faults[i];
        new_dir(state);
        CHECK_RC(FTKIT_OK, write_set(1));
        int status = run_child("--write", f, "kill");
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
            fail_msg("%s:%d: status %#x", f->point, f->nth, (unsigned)status);
        CHECK_RC(FTKIT_OK, verify_set(1));
        if (strcmp(f->point, "h5.manifest.dirsync") == 0) {
            assert_string_equal(listed(), "2 1"); /* complete, whoever finished it */
        } else {
            assert_string_equal(listed(), "1");
            CHECK_RC(FTKIT_OK, write_set(2));
        }
        CHECK_RC(FTKIT_OK, verify_set(2));
    }
}

static int child_prune(void)
{
    int rc = ftk_h5_prune(dir, CONTEXT, 1);
    if (rc == FTKIT_OK)
        return 100;
    if (verify_set(3) != FTKIT_OK)
        return 101;
    return ftk_h5_prune(dir, CONTEXT, 1) == FTKIT_OK ? -rc : 102;
}

static void prune_faults_are_clean(void **state)
{
    for (int nth = 1; nth <= 10; nth++) {
        struct fault f = { "h5.prune", nth };
        for (int killed = 0; killed < 2; killed++) {
            new_dir(state);
            for (uint64_t set = 1; set <= 3; set++)
                CHECK_RC(FTKIT_OK, write_set(set));
            int status = run_child("--prune", &f, killed ? "kill" : "EIO");
            if (killed ? !WIFSIGNALED(status)
                       : !WIFEXITED(status) || WEXITSTATUS(status) != -FTKIT_ERR_IO)
                fail_msg("h5.prune:%d: status %#x", nth, (unsigned)status);
            CHECK_RC(FTKIT_OK, verify_set(3));
            for (const char *t = listed(); *t; t += strspn(t, " 0123456789"))
                CHECK_RC(FTKIT_OK, verify_set(strtoull(t, NULL, 10)));
            CHECK_RC(FTKIT_OK, ftk_h5_prune(dir, CONTEXT, 1));
            assert_string_equal(listed(), "3");
            assert_false(exists(path_of(1, "")) || exists(path_of(2, "")));
        }
    }
}

/* ---- Damage
 * --------------------------------------------------------------------------*/

static void check_code(int rc, const char *what, size_t at)
{
    if (rc != FTKIT_OK && rc != FTKIT_ERR_CORRUPT && rc != FTKIT_ERR_FORMAT
        && rc != FTKIT_ERR_IO)
        fail_msg("%s at %zu: %d: %s", what, at, rc, ftk_detail_text());
}

/* Read the ranks of part 0 with file as its content: identical, or an error. */
static int read_damaged(const struct ftk_h5_manifest *m, void *const want[NRANKS],
    const char *what, size_t at)
{
    int errors = 0;
    for (int r = 0; r < NRANKS; r++) {
        void *seg = NULL;
        size_t bytes = 0;
        if (part_of[r] != 0)
            continue;
        int rc = ftk_h5_read(dir, m, r, &seg, &bytes);
        check_code(rc, what, at);
        if (rc != FTKIT_OK)
            errors++;
        else if (bytes != ftk_seg_bytes(want[r]) || memcmp(seg, want[r], bytes) != 0)
            fail_msg("%s at %zu: other data came back", what, at);
        free(seg);
    }
    return errors;
}

static void damaged_parts(void **state)
{
    (void)state;
    struct ftk_h5_manifest m, deep;
    void *want[NRANKS];
    size_t bytes;
    CHECK_RC(FTKIT_OK, write_set(1));
    CHECK_RC(FTKIT_OK, ftk_h5_open_set(dir, CONTEXT, 1, true, &m));
    for (uint32_t r = 0; r < NRANKS; r++)
        want[r] = make_segment(1, r);
    char path[FTK_PATH_MAX];
    snprintf(path, sizeof path, "%s", path_of(1, "part-00000.h5"));
    char *text = read_file(path, &bytes);
    int fd = open(path, O_RDWR);
    uint64_t x = 20240229;
    int before = handles(), errors = 0;
    for (size_t i = 0; i < 1200; i++) {
        /* one bit; every third time up to 64 bytes of noise */
        size_t n = i % 3 == 2 ? 1 + next_random(&x) % 64 : 1;
        size_t at = i < 100 ? i : next_random(&x) % (bytes - n);
        char damage[64];
        memcpy(damage, text + at, n);
        for (size_t k = 0; k < n; k++)
            damage[k] = n == 1 ? (char)(damage[k] ^ 1 << next_random(&x) % 8)
                               : (char)next_random(&x);
        assert_int_equal(pwrite(fd, damage, n, (off_t)at), n);
        errors += read_damaged(&m, want, "damage", at) > 0;
        if (i % 8 == 0) {
            int rc = ftk_h5_open_set(dir, CONTEXT, 1, true, &deep);
            check_code(rc, "deep open", at);
            if (rc == FTKIT_OK)
                ftk_h5_manifest_free(&deep);
        }
        assert_int_equal(pwrite(fd, text + at, n, (off_t)at), n);
    }
    assert_int_equal(handles(), before);
    assert_true(errors > 600);        /* most of the file is data and heads */
    for (size_t i = 0; i < 60; i++) { /* even if the manifest agreed with a short file */
        size_t at = i < 20 ? i * 8 : next_random(&x) % bytes;
        assert_int_equal(ftruncate(fd, (off_t)at), 0);
        m.parts[0].file_bytes = at;
        assert_int_equal(read_damaged(&m, want, "cut", at), 2);
        assert_int_equal(pwrite(fd, text, bytes, 0), bytes);
    }
    m.parts[0].file_bytes = bytes;
    assert_int_equal(read_damaged(&m, want, "repaired", 0), 0);
    CHECK_RC(FTKIT_OK, verify_set(1));
    close(fd);
    free(text);
    for (int r = 0; r < NRANKS; r++)
        free(want[r]);
    ftk_h5_manifest_free(&m);
}

static void damaged_manifest(void **state)
{
    (void)state;
    struct ftk_h5_manifest m;
    size_t bytes;
    CHECK_RC(FTKIT_OK, write_set(1));
    CHECK_RC(FTKIT_OK, write_set(2));
    char path[FTK_PATH_MAX];
    snprintf(path, sizeof path, "%s", path_of(2, "manifest"));
    char *text = read_file(path, &bytes);
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
        write_file(path, text, bytes);
        text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
        int rc = ftk_h5_open_set(dir, CONTEXT, 2, false, &m);
        if (rc != FTKIT_ERR_CORRUPT && rc != FTKIT_ERR_FORMAT)
            fail_msg("bit %zu: %d", bit, rc);
        if (bit % 64 == 0)
            assert_string_equal(listed(), "1");
    }
    for (size_t n = 0; n < bytes; n++) {
        write_file(path, text, n);
        int rc = ftk_h5_open_set(dir, CONTEXT, 2, false, &m);
        assert_true(rc == FTKIT_ERR_CORRUPT || rc == FTKIT_ERR_FORMAT);
    }
    write_file(path, text, bytes);
    CHECK_RC(FTKIT_OK, verify_set(2));
    free(text);
}

/* Content that nobody wrote, with the right checksum. */
static void forged_manifests(void **state)
{
    (void)state;
    static const char *const forged[] = {
        "",
        "ftkit.manifest = 2\n",
        "%sset = 2\nrun = 1\nnranks = 1\nnparts = 1\n",
        "%sset = 1\nrun = 1\nnranks = 4294967295\nnparts = 4294967295\n",
        "%sset = 1\nrun = 1\nnranks = 16777216\nnparts = 16777216\n",
        "%sset = 1\nrun = 1\nnranks = 0\nnparts = 0\n",
        "%sset = 1\nrun = 1\nnranks = 1\nnparts = 0\nranks = 0 0 0\n",
        "%sset = 99999999999999999999\nrun = 1\nnranks = 1\nnparts = 1\n",
        "%sset = 1\nrun = -1\nnranks = 1\nnparts = 1\n",
        "%sset = 01\nrun = 1\nnranks = 1\nnparts = 1\n",
        "%sset = 1\nrun = 1\nnranks = 1\nnparts = 1\npart = ../x 1 1 0000000000000000\n"
        "ranks = 0 0 0\n",
        "%sset = 1\nrun = 1\nnranks = 1\nnparts = 1\npart = 0 1 1 000000000000000X\n"
        "ranks = 0 0 0\n",
        "%sset = 1\nrun = 1\nnranks = 2\nnparts = 1\npart = 0 2 1 0000000000000000\n"
        "ranks = 0 0 0\n",
        "%sset = 1\nrun = 1\nnranks = 2\nnparts = 1\npart = 0 2 1 0000000000000000\n"
        "ranks = 0 2 0\n",
        "%sset = 1\nrun = 1\nnranks = 2\nnparts = 1\npart = 0 2 1 0000000000000000\n"
        "ranks = 1 0 0\n",
        "%sset = 1\nrun = 1\nnranks = 2\nnparts = 1\npart = 0 2 1 0000000000000000\n"
        "ranks = 0 1 1\n",
        "%sset = 1\nrun = 1\nnranks = 2\nnparts = 1\npart = 0 1 1 0000000000000000\n"
        "ranks = 0 1 0\n",
        "%sset = 1\nrun = 1\nnranks = 1\nnparts = 1\npart = 0 1 18446744073709551615 "
        "0000000000000000\nranks = 0 0 0\n",
        "%sset = 1\nrun = 1\nnranks = 1\nnparts = 1\npart = 0 1 1 0000000000000000\n"
        "ranks = 0 0 0\nmore = 1\n",
    };
    struct ftk_h5_manifest m;
    char text[1024];
    CHECK_RC(FTKIT_OK, write_set(1));
    for (size_t i = 0; i < COUNT(forged); i++) {
        const char *rest = strncmp(forged[i], "%s", 2) == 0 ? forged[i] + 2 : forged[i];
        const char *head =
            rest == forged[i] ? "" : "ftkit.manifest = 1\ncontext = " CONTEXT "\n";
        int n = snprintf(text, sizeof text, "%s%s", head, rest);
        n += snprintf(text + n, sizeof text - (size_t)n, "checksum = %016" PRIx64 "\n",
            XXH3_64bits(text, (size_t)n));
        write_file(path_of(1, "manifest"), text, (size_t)n);
        CHECK_RC(FTKIT_ERR_FORMAT, ftk_h5_open_set(dir, CONTEXT, 1, false, &m));
        assert_string_equal(listed(), "");
    }
    int fd = open(path_of(1, "manifest"), O_RDWR);
    assert_int_equal(ftruncate(fd, 17 << 20), 0); /* nobody reads that */
    close(fd);
    CHECK_RC(FTKIT_ERR_FORMAT, ftk_h5_open_set(dir, CONTEXT, 1, false, &m));
}

/* A manifest, or a part, of another set or context. */
static void strangers(void **state)
{
    (void)state;
    struct ftk_h5_manifest m;
    char other[FTK_PATH_MAX], path[FTK_PATH_MAX];
    size_t bytes;
    CHECK_RC(FTKIT_OK, write_set(1));
    CHECK_RC(FTKIT_OK, write_set(2));
    char *text = read_file(path_of(1, "manifest"), &bytes);
    write_file(path_of(2, "manifest"), text, bytes);
    CHECK_RC(FTKIT_ERR_FORMAT, ftk_h5_open_set(dir, CONTEXT, 2, false, &m));
    free(text);
    assert_string_equal(listed(), "1");
    snprintf(path, sizeof path, "%s/" CONTEXT ".ftkit", dir);
    snprintf(other, sizeof other, "%s/other.ftkit", dir);
    assert_int_equal(rename(path, other), 0);
    CHECK_RC(FTKIT_ERR_FORMAT, ftk_h5_open_set(dir, "other", 1, false, &m));
    assert_int_equal(rename(other, path), 0);
    /* the part of another set with the size of this one */
    CHECK_RC(FTKIT_OK, ftk_h5_open_set(dir, CONTEXT, 1, true, &m));
    text = read_file(path_of(2, "part-00000.h5"), &bytes);
    assert_int_equal(bytes, m.parts[0].file_bytes);
    write_file(path_of(1, "part-00000.h5"), text, bytes);
    void *seg;
    CHECK_RC(FTKIT_ERR_FORMAT, ftk_h5_read(dir, &m, 0, &seg, &bytes));
    CHECK_RC(FTKIT_ERR_FORMAT, verify_set(1));
    free(text);
    ftk_h5_manifest_free(&m);
}

static void missing_and_odd_parts(void **state)
{
    (void)state;
    char path[FTK_PATH_MAX], away[FTK_PATH_MAX];
    CHECK_RC(FTKIT_OK, write_set(1));
    CHECK_RC(FTKIT_OK, write_set(2));
    struct ftk_h5_manifest m;
    void *seg;
    size_t bytes;
    CHECK_RC(FTKIT_OK, ftk_h5_open_set(dir, CONTEXT, 2, true, &m));
    snprintf(path, sizeof path, "%s", path_of(2, "part-00007.h5"));
    snprintf(away, sizeof away, "%s/away", dir);
    assert_int_equal(rename(path, away), 0);
    CHECK_RC(FTKIT_ERR_NOT_FOUND, verify_set(2));
    CHECK_RC(FTKIT_ERR_NOT_FOUND, ftk_h5_read(dir, &m, 3, &seg, &bytes));
    assert_int_equal(symlink(away, path), 0); /* not a part of ours */
    CHECK_RC(FTKIT_ERR_FORMAT, verify_set(2));
    unlink(path);
    assert_int_equal(mkfifo(path, 0666), 0);
    CHECK_RC(FTKIT_ERR_FORMAT, verify_set(2));
    unlink(path);
    assert_int_equal(mkdir(path, 0777), 0);
    CHECK_RC(FTKIT_ERR_FORMAT, verify_set(2));
    rmdir(path);
    assert_string_equal(listed(), "1");
    assert_int_equal(rename(away, path), 0);
    CHECK_RC(FTKIT_OK, verify_set(2));
    assert_int_equal(truncate(path, (off_t)m.parts[2].file_bytes - 1), 0);
    CHECK_RC(FTKIT_ERR_CORRUPT, verify_set(2));
    CHECK_RC(FTKIT_ERR_CORRUPT, ftk_h5_read(dir, &m, 3, &seg, &bytes));
    assert_string_equal(listed(), "1");
    CHECK_RC(FTKIT_OK, write_set(2)); /* what is left of it is cleared away */
    CHECK_RC(FTKIT_OK, verify_set(2));
    ftk_h5_manifest_free(&m);
}

/* ---- Directories
 * ---------------------------------------------------------------------*/

static void foreign_entries(void **state)
{
    (void)state;
    char path[FTK_PATH_MAX], target[FTK_PATH_MAX];
    static const char *const names[] = { "set-12", "set-00000000001", "set-", "set-x",
        "set-0000000009.old", "README", "set-0000000099" };
    CHECK_RC(FTKIT_OK, write_set(1));
    CHECK_RC(FTKIT_OK, write_set(10));
    for (size_t i = 0; i < COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/" CONTEXT ".ftkit/%s", dir, names[i]);
        write_file(path, "x", 1);
    }
    /* set 8 is a link to a directory with files of our names */
    snprintf(target, sizeof target, "%s/target", dir);
    assert_int_equal(mkdir(target, 0777), 0);
    assert_int_equal(symlink(target, (snprintf(path, sizeof path,
                                          "%s/" CONTEXT ".ftkit/set-0000000008", dir),
                                         path)),
        0);
    snprintf(target, sizeof target, "%s/target/manifest", dir);
    write_file(target, "x", 1);
    write_file(path_of(1, "notes.txt"), "x", 1);
    write_file(path_of(1, "part-1.h5"), "x", 1);
    write_file(path_of(1, "part-00003.h5.tmp"), "x", 1);
    assert_string_equal(listed(), "10 1");
    CHECK_RC(FTKIT_ERR_IO, write_set(8));
    CHECK_RC(FTKIT_OK, ftk_h5_prune(dir, CONTEXT, 1));
    CHECK_RC(FTKIT_OK, ftk_h5_prune(dir, CONTEXT, 1));
    assert_string_equal(listed(), "10");
    for (size_t i = 0; i < COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/" CONTEXT ".ftkit/%s", dir, names[i]);
        assert_true(exists(path));
    }
    assert_true(exists(target));
    assert_true(exists(path_of(8, "")));
    assert_true(exists(path_of(1, "notes.txt")) && exists(path_of(1, "part-1.h5")));
    assert_false(exists(path_of(1, "part-00003.h5.tmp")));
    assert_false(exists(path_of(1, "part-00000.h5")) || exists(path_of(1, "master.h5")));
    CHECK_RC(FTKIT_OK, write_set(1)); /* beside the notes */
    CHECK_RC(FTKIT_OK, verify_set(1));
}

static void pruning_keeps(void **state)
{
    (void)state;
    struct ftk_h5_part p;
    CHECK_RC(FTKIT_OK, ftk_h5_prune(dir, CONTEXT, 2)); /* nothing there */
    assert_string_equal(listed(), "");
    for (uint64_t set = 1; set <= 5; set++)
        CHECK_RC(FTKIT_OK, write_set(set));
    CHECK_RC(FTKIT_OK, ftk_h5_begin(dir, CONTEXT, 6)); /* being written */
    CHECK_RC(FTKIT_OK, write_part(6, 0, &p));
    unlink(path_of(4, "manifest")); /* incomplete, older than the newest complete one */
    CHECK_RC(FTKIT_OK, ftk_h5_prune(dir, CONTEXT, 2));
    assert_string_equal(listed(), "5 3");
    assert_false(exists(path_of(4, "")));
    assert_true(exists(path_of(6, "part-00000.h5")));
    CHECK_RC(FTKIT_OK, ftk_h5_prune(dir, CONTEXT, 2));
    CHECK_RC(FTKIT_OK, verify_set(3));
    CHECK_RC(FTKIT_OK, verify_set(5));
    unlink(path_of(5, "manifest"));
    unlink(path_of(3, "manifest"));
    CHECK_RC(FTKIT_OK, ftk_h5_prune(dir, CONTEXT, 1)); /* no complete one: hands off */
    assert_true(exists(path_of(3, "")) && exists(path_of(5, "")));
}

/* Directories in which nothing can be made, or that are gone (the superuser may write
 * where others may not, so permissions do not show it). */
static void bad_directories(void **state)
{
    (void)state;
    char path[FTK_PATH_MAX];
    struct ftk_h5_part p;
    struct ftk_h5_manifest m = make_manifest(2);
    CHECK_RC(FTKIT_OK, write_set(1));
    CHECK_RC(FTKIT_OK, ftk_h5_begin(dir, CONTEXT, 2));
    for (uint32_t i = 0; i < NPARTS; i++)
        CHECK_RC(FTKIT_OK, write_part(2, i, &m.parts[i]));
    remove_tree(path_of(2, ""));
    CHECK_RC(FTKIT_ERR_IO, write_part(2, 0, &p));
    CHECK_RC(FTKIT_ERR_IO, ftk_h5_commit(dir, &m));
    write_file(
        (snprintf(path, sizeof path, "%s/" CONTEXT ".ftkit/set-0000000002", dir), path),
        "x", 1);
    CHECK_RC(FTKIT_ERR_IO, write_set(2));
    CHECK_RC(FTKIT_ERR_IO, write_part(2, 0, &p));
    assert_string_equal(listed(), "1");
    CHECK_RC(FTKIT_OK, verify_set(1));
    remove_tree(dir);
    CHECK_RC(FTKIT_ERR_IO, write_part(3, 0, &p));
    CHECK_RC(FTKIT_ERR_NOT_FOUND, verify_set(1));
    assert_string_equal(listed(), "");
    write_file(dir, "x", 1); /* a file where the directory should be */
    CHECK_RC(FTKIT_ERR_IO, write_set(3));
    CHECK_RC(FTKIT_ERR_IO, write_part(3, 0, &p));
    assert_string_equal(listed(), "error -20");
    unlink(dir);
    CHECK_RC(FTKIT_OK, write_set(3));
    ftk_h5_manifest_free(&m);
}

/* ---- A full file system
 * --------------------------------------------------------------*/

static int unmount(void **state)
{
    (void)state;
    umount2(dir, MNT_DETACH);
    return 0;
}

static void full_disk(void **state)
{
    (void)state;
    char path[FTK_PATH_MAX], command[128];
    snprintf(command, sizeof command, "mkdir -p '%s'", dir);
    assert_int_equal(system(command), 0);
    if (mount("none", dir, "tmpfs", 0, "size=2m") != 0)
        skip();
    CHECK_RC(FTKIT_OK, write_set(1));
    int before = handles();
    extra_bytes = 3 << 20;
    CHECK_RC(FTKIT_ERR_NOSPACE, write_set(2));
    extra_bytes = 100;
    CHECK_RC(FTKIT_OK, verify_set(1));
    /* leave more and more room, so that every step of a set meets the end of it once */
    int failed = 0, room;
    snprintf(path, sizeof path, "%s/ballast", dir);
    for (room = 0; room < 2000; room += 4) {
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        while (write(fd, path, sizeof path) > 0)
            ;
        struct stat st;
        assert_int_equal(fstat(fd, &st), 0);
        assert_int_equal(ftruncate(fd, st.st_size - room * 1024), 0);
        close(fd);
        int rc = write_set(2);
        assert_int_equal(unlink(path), 0);
        CHECK_RC(FTKIT_OK, verify_set(1));
        if (rc == FTKIT_OK)
            break;
        CHECK_RC(FTKIT_ERR_NOSPACE, rc);
        assert_string_equal(listed(), "1");
        failed++;
    }
    assert_true(failed > 20);
    assert_int_equal(handles(), before);
    CHECK_RC(FTKIT_OK, verify_set(2));
}

/* ---- Start
 * ---------------------------------------------------------------------------*/

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

int main(int argc, char **argv)
{
    if (argc == 3) {
        snprintf(dir, sizeof dir, "%s", argv[2]);
        extra_bytes = 100;
        return strcmp(argv[1], "--write") == 0 ? child_write() : child_prune();
    }
    const struct CMUnitTest tests[] = {
        TEST(round_trip),
        TEST(parts_are_reproducible),
        TEST(arguments),
        TEST(commit_checks_parts),
        TEST(error_handlers_survive),
        TEST(master_by_hdf5),
        TEST(master_by_h5dump),
        TEST(master_needs_agreement),
        TEST(faults_are_clean),
        TEST(kills_are_clean),
        TEST(prune_faults_are_clean),
        TEST(damaged_parts),
        TEST(damaged_manifest),
        TEST(forged_manifests),
        TEST(strangers),
        TEST(missing_and_odd_parts),
        TEST(foreign_entries),
        TEST(pruning_keeps),
        TEST(bad_directories),
        cmocka_unit_test_setup_teardown(full_disk, new_dir, unmount),
    };
    return cmocka_run_group_tests_name("h5", tests, make_work, remove_work);
}
