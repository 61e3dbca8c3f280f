/* Save, scribble, restore, through the file system on one rank: every kind of region
 * comes back byte for byte, and no other byte is touched.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <hdf5.h>
#include <malloc.h>
#include <stddef.h>

#include "t_api.h"

/* ---- Flat regions -----------------------------------------------------------------------
 * A list of them, each in memory of its own, in which a copy says what is to be saved. */

#define MAX_FLAT 80

struct flat {
    char name[FTKIT_NAME_MAX + 1];
    MPI_Datatype type;
    size_t count;
    size_t bytes; /* of the memory */
    unsigned char *data;
    unsigned char *want;    /* after the restore: holes are still scribbled */
    unsigned char *covered; /* 1 for each byte that the type covers, NULL: all */
};

static struct flat flats[MAX_FLAT];
static size_t nflats;

static struct flat *add_flat(const char *name, MPI_Datatype type, size_t count, size_t bytes)
{
    assert_true(nflats < MAX_FLAT);
    struct flat *f = &flats[nflats++];
    memset(f, 0, sizeof *f);
    snprintf(f->name, sizeof f->name, "%s", name);
    f->type = type;
    f->count = count;
    f->bytes = bytes;
    f->data = filled(bytes, nflats);
    f->want = malloc(bytes ? bytes : 1);
    assert_non_null(f->want);
    return f;
}

/* A type with holes: MPI itself says which bytes it covers. */
static void add_holed(const char *name, MPI_Datatype type, size_t count)
{
    MPI_Aint lb;
    MPI_Aint extent;
    MPI_Aint true_lb;
    MPI_Aint true_extent;
    int packed;
    int pos = 0;
    MPI_Type_get_extent(type, &lb, &extent);
    MPI_Type_get_true_extent(type, &true_lb, &true_extent);
    assert_true(true_lb >= 0);
    size_t bytes =
        (size_t)(true_lb + true_extent) + (count - 1) * (size_t)(extent > 0 ? extent : -extent) + 8;
    struct flat *f = add_flat(name, type, count, bytes);
    MPI_Pack_size((int)count, type, MPI_COMM_SELF, &packed);
    unsigned char *ones = malloc((size_t)packed);
    f->covered = calloc(bytes, 1);
    assert_true(ones && f->covered);
    memset(ones, 1, (size_t)packed);
    MPI_Unpack(ones, packed, &pos, f->covered, (int)count, type, MPI_COMM_SELF);
    free(ones);
}

static void free_flats(void)
{
    for (size_t i = 0; i < nflats; i++) {
        free(flats[i].data);
        free(flats[i].want);
        free(flats[i].covered);
    }
    nflats = 0;
}

static void register_flats(ftkit_ctx *ft)
{
    for (size_t i = 0; i < nflats; i++) {
        struct flat *f = &flats[i];
        int rc = i % 2 ? ftkit_register_replicated(ft, f->name, f->data, f->count, f->type)
                       : ftkit_register(ft, f->name, f->data, f->count, f->type);
        if (rc != FTKIT_OK)
            fail_msg("%s: %s", f->name, ftkit_detail(ft));
    }
}

static void scribble(struct flat *f)
{
    memcpy(f->want, f->data, f->bytes);
    memset(f->data, SCRIBBLE, f->bytes);
    for (size_t i = 0; f->covered && i < f->bytes; i++)
        if (!f->covered[i])
            f->want[i] = SCRIBBLE;
}

/* All flats through a set and back. */
static void there_and_back(void)
{
    uint64_t set = 0;
    ftkit_ctx *ft = open_context();
    register_flats(ft);
    CHECK(FTKIT_NO_SET, ft, ftkit_recover(ft, &set));
    save(ft);
    close_context(&ft);
    for (size_t i = 0; i < nflats; i++)
        scribble(&flats[i]);
    ft = open_context();
    register_flats(ft);
    CHECK(FTKIT_OK, ft, ftkit_recover(ft, &set));
    assert_int_equal(set, 1);
    for (size_t i = 0; i < nflats; i++)
        check_bytes(flats[i].name, flats[i].data, flats[i].want, 0, flats[i].bytes);
    close_context(&ft);
    free_flats();
}

static void basic_types(void **state)
{
    (void)state;
    const struct {
        const char *name;
        MPI_Datatype type;
    } types[] = {
/* clang-format off */
#define T(t) { #t, t }
        T(MPI_CHAR), T(MPI_SIGNED_CHAR), T(MPI_UNSIGNED_CHAR), T(MPI_BYTE), T(MPI_PACKED),
        T(MPI_WCHAR), T(MPI_SHORT), T(MPI_UNSIGNED_SHORT), T(MPI_INT), T(MPI_UNSIGNED),
        T(MPI_LONG), T(MPI_UNSIGNED_LONG), T(MPI_LONG_LONG), T(MPI_UNSIGNED_LONG_LONG),
        T(MPI_INT8_T), T(MPI_INT16_T), T(MPI_INT32_T), T(MPI_INT64_T), T(MPI_UINT8_T),
        T(MPI_UINT16_T), T(MPI_UINT32_T), T(MPI_UINT64_T), T(MPI_AINT), T(MPI_COUNT),
        T(MPI_OFFSET), T(MPI_C_BOOL), T(MPI_FLOAT), T(MPI_DOUBLE), T(MPI_LONG_DOUBLE),
        T(MPI_C_COMPLEX), T(MPI_C_FLOAT_COMPLEX), T(MPI_C_DOUBLE_COMPLEX),
        T(MPI_C_LONG_DOUBLE_COMPLEX), T(MPI_CXX_BOOL), T(MPI_CXX_FLOAT_COMPLEX),
        T(MPI_CXX_DOUBLE_COMPLEX), T(MPI_CXX_LONG_DOUBLE_COMPLEX), T(MPI_FLOAT_INT),
        T(MPI_DOUBLE_INT), T(MPI_LONG_INT), T(MPI_2INT), T(MPI_SHORT_INT),
        T(MPI_LONG_DOUBLE_INT), T(MPI_CHARACTER), T(MPI_LOGICAL), T(MPI_INTEGER),
        T(MPI_INTEGER1), T(MPI_INTEGER2), T(MPI_INTEGER4), T(MPI_INTEGER8), T(MPI_REAL),
        T(MPI_REAL4), T(MPI_REAL8), T(MPI_DOUBLE_PRECISION), T(MPI_COMPLEX),
        T(MPI_COMPLEX8), T(MPI_COMPLEX16), T(MPI_DOUBLE_COMPLEX), T(MPI_2INTEGER),
        T(MPI_2REAL), T(MPI_2DOUBLE_PRECISION),
#undef T
        /* clang-format on */
    };
    size_t there = 0;
    for (size_t i = 0; i < COUNT(types); i++) {
        int size = 0;
        /* languages and widths this MPI was built without */
        if (types[i].type == MPI_DATATYPE_NULL || MPI_Type_size(types[i].type, &size) != MPI_SUCCESS
            || size == 0)
            continue;
        add_holed(types[i].name, types[i].type, 37);
        there++;
    }
    assert_true(there >= 40);
    there_and_back();
}

static void free_types(MPI_Datatype *types, size_t n)
{
    for (size_t i = 0; i < n; i++)
        MPI_Type_free(&types[i]);
}

static void derived_types(void **state)
{
    (void)state;
    MPI_Datatype t[12];
    MPI_Datatype inner;
    size_t n = 0;
    struct mixed {
        char c;
        double d;
        short s[3];
        int i;
    };
    MPI_Type_vector(8, 1, 2, MPI_DOUBLE, &t[n++]); /* every other one */
    MPI_Type_vector(5, 3, 7, MPI_CHAR, &t[n++]);
    MPI_Type_contiguous(5, MPI_INT16_T, &t[n++]);
    MPI_Type_create_hvector(4, 1, 13, MPI_INT, &t[n++]); /* unaligned */
    MPI_Type_indexed(3, (int[]){ 2, 1, 4 }, (int[]){ 9, 0, 3 }, MPI_FLOAT, &t[n++]);
    MPI_Type_create_indexed_block(3, 2, (int[]){ 1, 5, 20 }, MPI_INT, &t[n++]);
    MPI_Type_create_subarray(
        2, (int[]){ 9, 11 }, (int[]){ 4, 5 }, (int[]){ 3, 2 }, MPI_ORDER_C, MPI_DOUBLE, &t[n++]);
    MPI_Type_create_subarray(3, (int[]){ 4, 5, 6 }, (int[]){ 2, 3, 2 }, (int[]){ 1, 1, 3 },
        MPI_ORDER_FORTRAN, MPI_INT, &t[n++]);
    MPI_Type_create_struct(4, (int[]){ 1, 1, 3, 1 },
        (MPI_Aint[]){ offsetof(struct mixed, c), offsetof(struct mixed, d),
            offsetof(struct mixed, s), offsetof(struct mixed, i) },
        (MPI_Datatype[]){ MPI_CHAR, MPI_DOUBLE, MPI_SHORT, MPI_INT }, &inner);
    MPI_Type_create_resized(inner, 0, sizeof(struct mixed), &t[n++]);
    MPI_Type_free(&inner);
    MPI_Type_create_resized(MPI_CHAR, 0, 3, &t[n++]); /* every third byte */
    MPI_Type_vector(3, 2, 5, t[n - 1], &t[n]);        /* of a type with holes */
    n++;
    MPI_Type_create_resized(MPI_DOUBLE, 0, 8, &t[n++]); /* no holes after all */
    assert_true(n <= COUNT(t));
    for (size_t i = 0; i < n; i++) {
        char name[32];
        MPI_Type_commit(&t[i]); /* for the test: ftkit does not need it */
        for (size_t count = 1; count < 4000; count = count * 11 + 5) {
            snprintf(name, sizeof name, "type %zu x %zu", i, count);
            add_holed(name, t[i], count);
        }
    }
    there_and_back();
    free_types(t, n);
}

/* From one byte across the edges of blocks (256 KiB) and pieces (1 MiB). */
static void sizes(void **state)
{
    (void)state;
    static const size_t edges[] = { 4096, 262144, 1048576, 2097152 };
    char name[32];
    for (size_t bytes = 1; bytes < 70; bytes += 9) {
        snprintf(name, sizeof name, "%zu bytes", bytes);
        add_flat(name, MPI_CHAR, bytes, bytes);
    }
    for (size_t i = 0; i < COUNT(edges); i++)
        for (size_t bytes = edges[i] - 1; bytes <= edges[i] + 1; bytes++) {
            snprintf(name, sizeof name, "%zu bytes", bytes);
            add_flat(name, MPI_CHAR, bytes, bytes);
        }
    add_flat("5 MiB", MPI_DOUBLE, 655361, 655361 * 8);
    if (!getenv("FTKIT_TEST_FEW")) /* where each takes long */
        add_flat("17 MiB", MPI_INT16_T, 8912897, (size_t)8912897 * 2);
    there_and_back();
}

/* One region alone, of each size: the first and only one. */
static void single_sizes(void **state)
{
    (void)state;
    static const size_t bytes[] = { 1, 2, 63, 64, 65, 4095, 4096, 4097, 262143, 262144, 262145,
        1048577 };
    for (size_t i = 0; i < COUNT(bytes); i++) {
        char name[32];
        snprintf(name, sizeof name, "size-%zu", bytes[i]);
        assert_int_equal(mkdir(name, 0755) | chdir(name), 0);
        add_flat("x", MPI_BYTE, bytes[i], bytes[i]);
        there_and_back();
        assert_int_equal(chdir(".."), 0);
    }
}

static void nothing_at_all(void **state)
{
    (void)state;
    there_and_back(); /* 0 regions */
}

/* ---- Resizing ------------------------------------------------------------------------ */

/* Ten sets with regions that change their size and address; each can be restored. */
static void resized(void **state)
{
    (void)state;
    static const size_t counts[] = { 10, 5000, 1, 0, 40000, 39999, 40001, 3, 100000, 2 };
    static char before[5], after[100];
    fill(before, sizeof before, 1);
    fill(after, sizeof after, 2);
    for (size_t i = 0; i < COUNT(counts); i++) {
        uint64_t set = 0;
        double *x = filled(counts[i] * sizeof *x, i);
        ftkit_ctx *ft = open_context();
        CHECK(FTKIT_OK, ft, ftkit_register(ft, "before", before, 5, MPI_CHAR));
        CHECK(FTKIT_OK, ft, ftkit_register(ft, "x", x, i ? counts[i - 1] : 0, MPI_DOUBLE));
        CHECK(FTKIT_OK, ft, ftkit_register(ft, "after", after, 100, MPI_CHAR));
        if (i == 0) {
            CHECK(FTKIT_NO_SET, ft, ftkit_recover(ft, NULL));
        } else {
            double *old = filled(counts[i - 1] * sizeof *old, i - 1);
            double *in = filled(counts[i - 1] * sizeof *in, 99);
            memset(before, SCRIBBLE, sizeof before);
            CHECK(FTKIT_OK, ft, ftkit_resize(ft, "x", in, counts[i - 1]));
            CHECK(FTKIT_OK, ft, ftkit_recover(ft, &set));
            assert_int_equal(set, i);
            check_bytes("x", in, old, 0, counts[i - 1] * sizeof *old);
            unsigned char *want = filled(sizeof before, 1);
            check_bytes("before", before, want, 0, sizeof before);
            free(want);
            free(old);
            CHECK(FTKIT_OK, ft, ftkit_resize(ft, "x", x, counts[i]));
            free(in);
        }
        CHECK(FTKIT_OK, ft, ftkit_resize(ft, "x", x, counts[i]));
        save(ft);
        close_context(&ft);
        free(x);
    }
}

/* A list in the middle grows and shrinks in the same context, so that regions behind it
 * move through buffers that have been used. */
static void moving(void **state)
{
    (void)state;
    enum { AFTER = 70001 };
    void *list = NULL;
    size_t n = 0;
    char *after = malloc(AFTER);
    uint64_t x = 42;
    assert_non_null(after);
    for (int run = 0; run < 4; run++) {
        ftkit_ctx *ft = open_context();
        CHECK(FTKIT_OK, ft, ftkit_register_growing(ft, "list", &list, &n, MPI_CHAR, NULL, NULL));
        CHECK(FTKIT_OK, ft, ftkit_register(ft, "after", after, AFTER, MPI_CHAR));
        if (run > 0) {
            size_t bytes = n;
            void *want = filled(bytes, (uint64_t)run);
            free(list);
            list = NULL; /* a count without memory: a new process may start like this */
            if (run % 2)
                n = 0;
            memset(after, SCRIBBLE, AFTER);
            CHECK(FTKIT_OK, ft, ftkit_recover(ft, NULL));
            assert_int_equal(n, bytes);
            check_bytes("list", list, want, 0, bytes);
            free(want);
            want = filled(AFTER, (uint64_t)run + 50);
            check_bytes("after", after, want, 0, AFTER);
            free(want);
        } else {
            CHECK(FTKIT_NO_SET, ft, ftkit_recover(ft, NULL));
        }
        for (int set = 0; set < 8; set++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            /* ends near the end of a block, so that the gap behind it does too */
            n = 262144 * (1 + (size_t)(x >> 62)) - (size_t)(x >> 40) % 64;
            list = realloc(list, n);
            assert_non_null(list);
            fill(list, n, (uint64_t)run + 1);
            fill(after, AFTER, (uint64_t)run + 51);
            save(ft);
        }
        close_context(&ft);
    }
    free(list);
    free(after);
}

struct resizer {
    int calls, fail;
    size_t count;
};

static int resize(void **data, size_t count, void *arg)
{
    struct resizer *r = arg;
    r->calls++;
    r->count = count;
    if (r->fail)
        return r->fail;
    void *p = realloc(*data, count ? count * 4 : 1);
    if (!p)
        return 1;
    *data = p;
    return 0;
}

static void growing(void **state)
{
    (void)state;
    MPI_Datatype strided;
    struct resizer r = { 0 };
    size_t n = 1000;
    size_t nempty = 0;
    size_t npairs = 30;
    void *list = filled(n * 4, 1);
    void *empty = NULL;
    double *pairs = filled(npairs * 16, 2); /* of each pair the first is saved */
    uint64_t set = 0;
    MPI_Type_create_resized(MPI_DOUBLE, 0, 16, &strided);
    for (int run = 0; run < 4; run++) {
        ftkit_ctx *ft = open_context();
        CHECK(FTKIT_OK, ft, ftkit_register_growing(ft, "list", &list, &n, MPI_FLOAT, resize, &r));
        CHECK(FTKIT_OK, ft,
            ftkit_register_growing(ft, "empty", &empty, &nempty, MPI_INT, NULL, NULL));
        CHECK(FTKIT_OK, ft,
            ftkit_register_growing(ft, "pairs", (void **)&pairs, &npairs, strided, NULL, NULL));
        if (run == 0) {
            CHECK(FTKIT_NO_SET, ft, ftkit_recover(ft, &set));
            save(ft);
            close_context(&ft);
            n = 3;
            nempty = 2;
            empty = malloc(8);
            npairs = 1;
            continue;
        }
        if (run == 1) { /* the callback refuses: nothing is lost */
            r.fail = 5;
            CHECK_ERROR(FTKIT_ERR_CALLBACK, ft, "'list'|1000", ftkit_recover(ft, &set));
            CHECK_ERROR(FTKIT_ERR_CALLBACK, NULL, "'list'", ftkit_close(&ft));
            r.fail = 0;
            assert_int_equal(n, 3);
            continue;
        }
        memset(list, SCRIBBLE, 12);
        memset(pairs, SCRIBBLE, 16);
        if (run == 3) { /* as large as it was: nobody is asked */
            r.calls = 0;
            n = 1000;
        }
        CHECK(FTKIT_OK, ft, ftkit_recover(ft, &set));
        assert_int_equal(n, 1000);
        assert_int_equal(r.calls, run == 3 ? 0 : 2);
        assert_int_equal(r.count, 1000);
        assert_int_equal(nempty, 0);
        assert_int_equal(npairs, 30);
        void *want = filled(4000, 1);
        check_bytes("list", list, want, 0, 4000);
        free(want);
        want = filled(30 * 16, 2);
        for (size_t i = 0; i < 30; i++)
            check_bytes("pairs", pairs, want, 16 * i, 16 * i + 8);
        free(want);
        close_context(&ft);
    }
    MPI_Type_free(&strided);
    free(list);
    free(empty);
    free(pairs);
}

/* Columns of a matrix lie closer than they are long; the last one needs its whole length. */
static void columns(void **state)
{
    (void)state;
    enum { ROWS = 1000, COLS = 4 };
    const size_t bytes = ROWS * COLS * sizeof(double);
    MPI_Datatype column, resized, before;
    size_t n = COLS;
    void *m = filled(bytes, 1);
    MPI_Type_vector(ROWS, 1, COLS, MPI_DOUBLE, &column);
    MPI_Type_create_resized(column, 0, sizeof(double), &resized);
    MPI_Type_vector(2, 1, -1, MPI_DOUBLE, &before);
    for (int run = 0; run < 2; run++) {
        ftkit_ctx *ft = open_context();
        CHECK_ERROR(FTKIT_ERR_TYPE, ft, "'before'|realloc",
            ftkit_register_growing(ft, "before", &m, &n, before, NULL, NULL));
        CHECK(FTKIT_OK, ft, ftkit_register_growing(ft, "m", &m, &n, resized, NULL, NULL));
        CHECK(run ? FTKIT_OK : FTKIT_NO_SET, ft, ftkit_recover(ft, NULL));
        if (run == 0)
            save(ft);
        close_context(&ft);
        void *want = filled(bytes, 1);
        assert_int_equal(n, COLS);
        assert_true(malloc_usable_size(m) >= bytes);
        check_bytes("m", m, want, 0, bytes);
        free(want);
        free(m);
        m = NULL;
        n = 0;
    }
    MPI_Type_free(&column);
    MPI_Type_free(&resized);
    MPI_Type_free(&before);
}

/* ---- Serializers --------------------------------------------------------------------- */

struct object {
    unsigned char bytes[500];
    size_t n;
    const char *fail; /* the callback that fails */
    int measured, packed, unpacked;
};

static int measure(void *arg, size_t *bytes)
{
    struct object *o = arg;
    o->measured++;
    *bytes = o->n;
    return o->fail && strcmp(o->fail, "measure") == 0 ? -3 : 0;
}

static int pack(void *arg, void *buf, size_t bytes)
{
    struct object *o = arg;
    o->packed++;
    if (bytes != o->n)
        return 9;
    memcpy(buf, o->bytes, bytes);
    return o->fail && strcmp(o->fail, "pack") == 0 ? 1 : 0;
}

static int unpack(void *arg, const void *buf, size_t bytes)
{
    struct object *o = arg;
    o->unpacked++;
    if (o->fail && strcmp(o->fail, "unpack") == 0)
        return 1;
    memcpy(o->bytes, buf, bytes);
    o->n = bytes;
    return 0;
}

/* What cannot be cut is packed past the block that is due, and an empty region behind it
 * lies behind that block. */
static void empty_behind_uncut(void **state)
{
    (void)state;
    enum { PAIRS = 100000, N = 5 };
    MPI_Datatype strided;
    MPI_Type_create_resized(MPI_DOUBLE, 0, 2 * sizeof(double), &strided);
    for (int run = 0; run < 2; run++) {
        void *list = NULL;
        size_t nlist = 0;
        char after[N];
        double *pairs = filled(PAIRS * 16, (uint64_t)run + 1);
        double *want = filled(PAIRS * 16, 1);
        fill(after, sizeof after, (uint64_t)run + 3);
        ftkit_ctx *ft = open_context();
        CHECK(FTKIT_OK, ft, ftkit_register(ft, "pairs", pairs, PAIRS, strided));
        CHECK(FTKIT_OK, ft, ftkit_register(ft, "nothing", NULL, 0, strided));
        CHECK(FTKIT_OK, ft,
            ftkit_register_growing(ft, "list", &list, &nlist, MPI_DOUBLE, NULL, NULL));
        CHECK(FTKIT_OK, ft, ftkit_register(ft, "after", after, N, MPI_CHAR));
        CHECK(run ? FTKIT_OK : FTKIT_NO_SET, ft, ftkit_recover(ft, NULL));
        if (run == 0)
            save(ft);
        close_context(&ft);
        for (size_t i = 0; i < PAIRS; i++)
            check_bytes("pairs", pairs, want, 16 * i, 16 * i + 8);
        void *want_after = filled(N, 3);
        check_bytes("after", after, want_after, 0, N);
        assert_int_equal(nlist, 0);
        free(want_after);
        free(pairs);
        free(want);
        free(list);
    }
    MPI_Type_free(&strided);
}

static ftkit_ctx *open_with(struct object *o, struct object *zero, double *x)
{
    ftkit_serializer ops = { sizeof ops, measure, pack, unpack };
    ftkit_ctx *ft = open_context();
    CHECK(FTKIT_OK, ft, ftkit_register(ft, "x", x, 4, MPI_DOUBLE));
    CHECK(FTKIT_OK, ft, ftkit_register_serializer(ft, "object", &ops, o));
    CHECK(FTKIT_OK, ft, ftkit_register_serializer(ft, "zero", &ops, zero));
    memset(&ops, 0, sizeof ops); /* copied by the call */
    return ft;
}

static void serializers(void **state)
{
    (void)state;
    static const char *const calls[] = { "measure", "pack" };
    struct object o = { .n = 321 };
    struct object zero = { .n = 0 };
    struct object want;
    double x[4];
    uint64_t set = 0;
    fill(o.bytes, sizeof o.bytes, 1);
    fill(x, sizeof x, 2);
    ftkit_ctx *ft = open_with(&o, &zero, x);
    CHECK(FTKIT_NO_SET, ft, ftkit_recover(ft, &set));
    save(ft);
    assert_int_equal(o.packed, 1);
    assert_int_equal(o.unpacked, 0);
    want = o;
    /* a callback that fails costs the set and nothing else */
    for (size_t i = 0; i < COUNT(calls); i++) {
        fill(o.bytes, sizeof o.bytes, 7);
        o.n = 100;
        o.fail = calls[i];
        CHECK(FTKIT_OK, ft, ftkit_request(ft, 1));
        CHECK_ERROR(FTKIT_ERR_CALLBACK, ft, "'object'", ftkit_checkpoint(ft));
        assert_non_null(strstr(ftkit_detail(ft), calls[i]));
        assert_int_equal(query(ft).committed, 1);
        assert_int_equal(query(ft).durable, 1);
    }
    o.fail = NULL;
    close_context(&ft);
    /* the last set holds, also when its object cannot be read at the first attempt */
    memset(x, SCRIBBLE, sizeof x);
    o.fail = "unpack";
    ft = open_with(&o, &zero, x);
    CHECK_ERROR(FTKIT_ERR_CALLBACK, ft, "'object'|unpack", ftkit_recover(ft, &set));
    assert_int_equal(set, 0);
    CHECK_ERROR(FTKIT_ERR_CALLBACK, NULL, "'object'", ftkit_close(&ft));
    o.fail = NULL;
    ft = open_with(&o, &zero, x);
    CHECK(FTKIT_OK, ft, ftkit_recover(ft, &set));
    assert_int_equal(set, 1);
    assert_int_equal(o.n, 321);
    assert_memory_equal(o.bytes, want.bytes, 321);
    assert_int_equal(zero.unpacked, 1); /* once: not by the failed attempt */
    unsigned char *was = filled(sizeof x, 2);
    check_bytes("x", x, was, 0, sizeof x);
    free(was);
    /* and a good set follows the bad ones */
    fill(o.bytes, sizeof o.bytes, 8);
    o.n = 500;
    save(ft);
    close_context(&ft);
    want = o;
    memset(&o, 0, sizeof o);
    ft = open_with(&o, &zero, x);
    CHECK(FTKIT_OK, ft, ftkit_recover(ft, &set));
    assert_int_equal(o.n, 500);
    assert_memory_equal(o.bytes, want.bytes, 500);
    close_context(&ft);
}

/* The callback of ftkit_on_repair() runs once, before the regions are restored. */
struct callback {
    int runs, fail;
    double *x;
    double seen;
};

static int on_repair(ftkit_ctx *ft, MPI_Comm comm, void *arg)
{
    struct callback *c = arg;
    size_t one[1] = { 1 };
    size_t zero[1] = { 0 };
    int size = 0;
    c->runs++;
    c->seen = *c->x;
    if (MPI_Comm_size(comm, &size) != MPI_SUCCESS || size != 1 || comm != ftkit_comm(ft))
        return 77;
    if (ftkit_register_array(ft, "x", c->x, MPI_DOUBLE, 1, one, one, zero, NULL) != 0)
        return 78;
    return c->fail;
}

static void callbacks(void **state)
{
    (void)state;
    double x = 1.5;
    struct callback c = { .x = &x };
    ftkit_ctx *ft = open_context();
    CHECK(FTKIT_OK, ft, ftkit_on_repair(ft, on_repair, &c));
    CHECK(FTKIT_NO_SET, ft, ftkit_recover(ft, NULL));
    assert_int_equal(c.runs, 1);
    save(ft);
    assert_int_equal(c.runs, 1);
    close_context(&ft);
    x = -1;
    c.fail = 12;
    ft = open_context();
    CHECK(FTKIT_OK, ft, ftkit_on_repair(ft, on_repair, &c));
    CHECK_ERROR(FTKIT_ERR_CALLBACK, ft, "callback|12", ftkit_recover(ft, NULL));
    assert_true(x < 0);
    assert_int_equal(ftkit_close(&ft), FTKIT_ERR_CALLBACK);
    c.fail = 0;
    ft = open_context();
    CHECK(FTKIT_OK, ft, ftkit_on_repair(ft, on_repair, &c));
    CHECK(FTKIT_OK, ft, ftkit_recover(ft, NULL));
    assert_int_equal(c.runs, 3);
    assert_true(c.seen < 0 && x > 1);
    close_context(&ft);
}

/* ---- Global arrays ------------------------------------------------------------------- */

struct array {
    const char *name;
    MPI_Datatype elem;
    size_t bytes;
    int ndims;
    size_t global[FTKIT_DIMS_MAX], local[FTKIT_DIMS_MAX], start[FTKIT_DIMS_MAX];
    size_t halo[FTKIT_DIMS_MAX];
    int no_halo;
};

static size_t cells(const struct array *a)
{
    size_t n = 1;
    for (int d = 0; d < a->ndims; d++)
        n *= a->local[d] + 2 * a->halo[d];
    return n;
}

static void arrays(void **state)
{
    (void)state;
    const struct array all[] = {
        { "1", MPI_DOUBLE, 8, 1, { 1000 }, { 1000 }, { 0 }, { 0 }, 1 },
        { "1 halo", MPI_FLOAT, 4, 1, { 777 }, { 777 }, { 0 }, { 3 }, 0 },
        { "1 part", MPI_INT, 4, 1, { 777 }, { 100 }, { 500 }, { 2 }, 0 },
        { "1 none", MPI_INT, 4, 1, { 777 }, { 0 }, { 777 }, { 0 }, 1 },
        { "1 ghosts only", MPI_INT, 4, 1, { 777 }, { 0 }, { 9 }, { 2 }, 0 },
        { "2", MPI_INT64_T, 8, 2, { 31, 17 }, { 31, 17 }, { 0, 0 }, { 0, 0 }, 1 },
        { "2 halo", MPI_DOUBLE, 8, 2, { 200, 300 }, { 200, 300 }, { 0, 0 }, { 1, 1 }, 0 },
        { "2 mixed", MPI_C_DOUBLE_COMPLEX, 16, 2, { 9, 8 }, { 9, 8 }, { 0, 0 }, { 2, 0 }, 0 },
        { "2 part", MPI_SHORT, 2, 2, { 9, 8 }, { 4, 3 }, { 5, 2 }, { 1, 2 }, 0 },
        { "3", MPI_CHAR, 1, 3, { 11, 7, 5 }, { 11, 7, 5 }, { 0, 0, 0 }, { 0, 0, 0 }, 1 },
        { "3 halo", MPI_DOUBLE, 8, 3, { 40, 30, 20 }, { 40, 30, 20 }, { 0, 0, 0 }, { 1, 1, 1 }, 0 },
        { "3 mixed", MPI_LONG_DOUBLE, 16, 3, { 4, 3, 2 }, { 4, 3, 2 }, { 0, 0, 0 }, { 0, 2, 1 },
            0 },
        { "3 part", MPI_UINT16_T, 2, 3, { 9, 9, 9 }, { 3, 4, 5 }, { 1, 5, 2 }, { 1, 1, 1 }, 0 },
        { "3 flat", MPI_DOUBLE, 8, 3, { 5, 1, 1 }, { 5, 1, 1 }, { 0, 0, 0 }, { 1, 1, 1 }, 0 },
        { "15", MPI_DOUBLE, 8, 15, { 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2 },
            { 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2 }, { 0 }, { 0 }, 1 },
    };
    void *data[COUNT(all)];
    uint64_t set = 0;
    for (int run = 0; run < 2; run++) {
        ftkit_ctx *ft = open_context();
        for (size_t i = 0; i < COUNT(all); i++) {
            const struct array *a = &all[i];
            size_t bytes = cells(a) * a->bytes;
            data[i] = filled(bytes, run ? 1000 : i);
            CHECK(FTKIT_OK, ft,
                ftkit_register_array(ft, a->name, data[i], a->elem, a->ndims, a->global, a->local,
                    a->start, a->no_halo ? NULL : a->halo));
        }
        if (run == 0) {
            CHECK(FTKIT_NO_SET, ft, ftkit_recover(ft, &set));
            save(ft);
        } else {
            CHECK(FTKIT_OK, ft, ftkit_recover(ft, &set));
        }
        for (size_t i = 0; i < COUNT(all); i++) {
            size_t bytes = cells(&all[i]) * all[i].bytes;
            void *want = filled(bytes, i);
            check_bytes(all[i].name, data[i], want, 0, bytes);
            free(want);
            free(data[i]);
        }
        close_context(&ft);
    }
}

/* ---- Contexts side by side ----------------------------------------------------------- */

static void two_contexts(void **state)
{
    (void)state;
    int x[2] = { 1, 2 };
    ftkit_ctx *ft[2];
    for (int run = 0; run < 2; run++) {
        for (int i = 0; i < 2; i++) {
            setenv("FTKIT_CONTEXT_NAME", i ? "second context" : "first", 1);
            ft[i] = open_context();
            CHECK(FTKIT_OK, ft[i], ftkit_register(ft[i], "x", &x[i], 1, MPI_INT));
        }
        for (int i = 0; i < 2; i++)
            CHECK(run ? FTKIT_OK : FTKIT_NO_SET, ft[i], ftkit_recover(ft[i], NULL));
        assert_int_equal(x[0], run ? 11 : 1);
        assert_int_equal(x[1], run ? 12 : 2);
        x[0] += 10;
        x[1] += 10;
        for (int i = 0; i < 2; i++)
            save(ft[i]);
        x[0] = x[1] = -1;
        for (int i = 0; i < 2; i++)
            close_context(&ft[i]);
    }
    unsetenv("FTKIT_CONTEXT_NAME");
}

/* ---- Attributes ---------------------------------------------------------------------- */

/* A text of a dataset in a file of the set, "" when it is not there. */
static const char *attribute(uint64_t set, const char *file, const char *dataset, const char *name)
{
    static char text[FTKIT_NAME_MAX + 256];
    char path[128];
    snprintf(path, sizeof path, "default.ftkit/set-%010" PRIu64 "/%s", set, file);
    text[0] = '\0';
    hid_t f = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    assert_true(f >= 0);
    hid_t ds = H5Dopen2(f, dataset, H5P_DEFAULT);
    assert_true(ds >= 0);
    if (H5Aexists(ds, name) > 0) {
        hid_t a = H5Aopen(ds, name, H5P_DEFAULT);
        hid_t type = H5Aget_type(a);
        assert_true(H5Tget_size(type) <= sizeof text && H5Aread(a, type, text) >= 0);
        H5Tclose(type);
        H5Aclose(a);
    }
    H5Dclose(ds);
    H5Fclose(f);
    return text;
}

static void refused(ftkit_ctx *ft)
{
    char longer[300];
    memset(longer, 'x', sizeof longer);
    longer[256] = '\0';
    CHECK_ERROR(FTKIT_ERR_NOT_FOUND, ft, "region|'v'", ftkit_attribute(ft, "v", "a", "b"));
    CHECK_ERROR(FTKIT_ERR_EXISTS, ft, "'u'|'units'", ftkit_attribute(ft, "u", "units", "m"));
    CHECK_ERROR(FTKIT_ERR_SIZE, ft, "'a'|255", ftkit_attribute(ft, "u", "a", longer));
    CHECK_ERROR(FTKIT_ERR_ARG, ft, "'a'|NULL", ftkit_attribute(ft, "u", "a", NULL));
    CHECK_ERROR(FTKIT_ERR_ARG, ft, "'a'|0xff", ftkit_attribute(ft, "u", "a", "b\xff"));
    CHECK_ERROR(FTKIT_ERR_ARG, ft, "name|NULL", ftkit_attribute(ft, "u", NULL, "b"));
    CHECK_ERROR(FTKIT_ERR_ARG, ft, "name|NULL", ftkit_attribute(ft, NULL, "a", "b"));
    CHECK_ERROR(FTKIT_ERR_NAME, ft, "1 to 63", ftkit_attribute(ft, "u", "", "b"));
    CHECK_ERROR(FTKIT_ERR_NAME, ft, "ftkit.x", ftkit_attribute(ft, "u", "ftkit.x", "b"));
    CHECK_ERROR(
        FTKIT_ERR_NAME, ft, "ftkit.attributes|reserved", ftkit_unregister(ft, "ftkit.attributes"));
    longer[200] = '\0';
    int rc = FTKIT_OK;
    int n = 0;
    for (; n < 10000 && rc == FTKIT_OK; n++) {
        char name[16];
        snprintf(name, sizeof name, "many %d", n);
        rc = ftkit_attribute(ft, "rest", name, longer);
    }
    CHECK_ERROR(FTKIT_ERR_SIZE, ft, "1048576", rc);
    assert_in_range(n, 4500, 5200);
}

/* They are in the files of the run that has set them, on regions of every kind, and a set
 * with others, or without, is restored all the same. */
static void attributes(void **state)
{
    (void)state;
    static const char *const units[] = { NULL, "m/s",
        "\xc2\xb0"
        "C",
        NULL };
    const size_t n = 5;
    const size_t zero = 0;
    for (int run = 0; run < 4; run++) {
        double u[5] = { 0 };
        int step = 0;
        int rest = 0;
        ftkit_ctx *ft = open_context();
        CHECK(FTKIT_OK, ft, ftkit_register_array(ft, "u", u, MPI_DOUBLE, 1, &n, &n, &zero, NULL));
        CHECK(FTKIT_OK, ft, ftkit_register_replicated(ft, "step", &step, 1, MPI_INT));
        CHECK(FTKIT_OK, ft, ftkit_register(ft, "rest", &rest, 1, MPI_INT));
        if (units[run]) {
            CHECK(FTKIT_OK, ft, ftkit_attribute(ft, "u", "units", units[run]));
            CHECK(FTKIT_OK, ft, ftkit_attribute(ft, "u", "long name", ""));
            CHECK(FTKIT_OK, ft, ftkit_attribute(ft, "step", "units", "1"));
        }
        if (run == 2)
            refused(ft);
        CHECK(run ? FTKIT_OK : FTKIT_NO_SET, ft, ftkit_recover(ft, NULL));
        assert_int_equal(step, run);
        assert_true(u[4] == (run ? 0.5 * run : 0));
        if (query(ft).mode != FTKIT_MODE_RESTART)
            CHECK(FTKIT_ERR_STATE, ft, ftkit_attribute(ft, "u", "late", "x"));
        step++;
        u[4] = 0.5 * step;
        save(ft);
        uint64_t set = query(ft).durable;
        const char *want = units[run] ? units[run] : "";
        assert_string_equal(attribute(set, "master.h5", "u", "units"), want);
        assert_string_equal(attribute(set, "part-00000.h5", "rank_00000/u", "units"), want);
        assert_string_equal(attribute(set, "master.h5", "step", "units"), units[run] ? "1" : "");
        close_context(&ft);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(basic_types),
        TEST(derived_types),
        TEST(sizes),
        TEST(single_sizes),
        TEST(nothing_at_all),
        TEST(resized),
        TEST(moving),
        TEST(growing),
        TEST(columns),
        TEST(empty_behind_uncut),
        TEST(serializers),
        TEST(callbacks),
        TEST(arrays),
        TEST(two_contexts),
        TEST(attributes),
    };
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS || make_work() != 0)
        return 1;
    /* basic_types() asks for what may be missing */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int bad = cmocka_run_group_tests(tests, NULL, NULL);
    bad |= remove_work();
    MPI_Finalize();
    return bad != 0;
}
