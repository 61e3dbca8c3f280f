/* Datatypes: what each holds, and that packing moves its bytes and no others.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/type.h"
#include "store/segment.h"

#define ITEMS 5
#define HOLE 0xee

/* ---- Large copies ------------------------------------------------------------------------
 * To touch gigabytes takes seconds, and check_many() looks at their ends alone.  MPI and memcpy()
 * of this test copy the last MANY items or bytes of a larger piece, and these where they belong. */

#define MANY ((size_t)1 << 23)

/* The items of a piece that MPI does not pack; their bytes with holes and without. */
static int left_out(int n, MPI_Datatype t, ptrdiff_t *with_holes, int *packed)
{
    MPI_Aint lb, extent;
    int size;
    const int some = n > (int)MANY ? n - (int)MANY : 0;
    assert_int_equal(MPI_Type_get_extent(t, &lb, &extent), MPI_SUCCESS);
    assert_int_equal(MPI_Type_size(t, &size), MPI_SUCCESS);
    *with_holes = some * extent;
    *packed = some * size;
    return some;
}

int PMPI_Pack(const void *from, int n, MPI_Datatype t, void *to, int bytes, int *pos, MPI_Comm c)
{
    ptrdiff_t skip;
    int packed;
    const int some = left_out(n, t, &skip, &packed);
    int (*real)(const void *, int, MPI_Datatype, void *, int, int *, MPI_Comm) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Pack");
    *pos += packed;
    return real((const char *)from + skip, n - some, t, to, bytes, pos, c);
}

int PMPI_Unpack(const void *from, int bytes, int *pos, void *to, int n, MPI_Datatype t, MPI_Comm c)
{
    ptrdiff_t skip;
    int packed;
    const int some = left_out(n, t, &skip, &packed);
    int (*real)(const void *, int, int *, void *, int, MPI_Datatype, MPI_Comm) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Unpack");
    *pos += packed;
    return real(from, bytes, pos, (char *)to + skip, n - some, t, c);
}

#ifndef __SANITIZE_ADDRESS__ /* which has a memcpy() of its own */
void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    size_t n, at = bytes > MANY ? bytes - MANY : 0;
    for (; at < bytes; at += n) { /* forwards, as the windows of check_many() need it */
        n = bytes - at < 4096 ? bytes - at : 4096;
        memmove((char *)to + at, (const char *)from + at, n);
    }
    return to;
}
#endif

/* ---- Small copies ------------------------------------------------------------------------ */

/* Consecutive bytes of an item, relative to its address. */
struct run {
    ptrdiff_t at;
    size_t bytes;
};

static void check_made(MPI_Datatype t, struct ftk_type *made)
{
    int rc = ftk_type_make(t, made);
    if (rc != FTKIT_OK)
        fail_msg("ftk_type_make: %d: %s", rc, ftk_detail_text());
}

static unsigned char pattern(size_t i)
{
    return (unsigned char)(i * 7 + (i >> 8) * 13 + 1) % HOLE; /* never HOLE */
}

/* Pack ITEMS items and unpack them elsewhere; both must do what the runs of one item say.
 * Buffers have room around the items, which must stay as it was. */
static void check_runs(const struct ftk_type *t, const struct run *runs, size_t nruns)
{
    enum { ROOM = 4096 };
    static unsigned char from[4 * ROOM], to[4 * ROOM], want[4 * ROOM];
    static unsigned char packed[4 * ROOM], want_packed[4 * ROOM];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = pattern(i);
    memset(to, HOLE, sizeof to);
    memset(want, HOLE, sizeof want);
    memset(packed, HOLE, sizeof packed);
    memset(want_packed, HOLE, sizeof want_packed);
    size_t n = 0;
    for (ptrdiff_t k = 0; k < ITEMS; k++)
        for (size_t r = 0; r < nruns; r++) {
            ptrdiff_t at = 2 * ROOM + k * t->extent + runs[r].at;
            memcpy(want_packed + n, from + at, runs[r].bytes);
            memcpy(want + at, from + at, runs[r].bytes);
            n += runs[r].bytes;
        }
    assert_int_equal(n, ITEMS * t->item_bytes);
    assert_int_equal(ftk_type_pack(t, FTK_MEMORY_HOST, from + 2 * ROOM, ITEMS, packed), FTKIT_OK);
    assert_memory_equal(packed, want_packed, sizeof packed);
    assert_int_equal(ftk_type_unpack(t, FTK_MEMORY_HOST, packed, ITEMS, to + 2 * ROOM), FTKIT_OK);
    assert_memory_equal(to, want, sizeof to);
}

/* Describe a derived type, free it, and use the description. */
static void check_derived(MPI_Datatype *t, uint32_t basic, bool contiguous, ptrdiff_t extent,
    const struct run *runs, size_t nruns)
{
    struct ftk_type made;
    check_made(*t, &made);
    MPI_Type_free(t);
    assert_true(made.owned);
    assert_int_equal(made.basic, basic);
    assert_int_equal(made.contiguous, contiguous);
    assert_int_equal(made.extent, extent);
    size_t bytes = 0;
    ptrdiff_t first = runs[0].at, end = 0;
    for (size_t r = 0; r < nruns; r++) {
        ptrdiff_t upto = runs[r].at + (ptrdiff_t)runs[r].bytes;
        bytes += runs[r].bytes;
        first = runs[r].at < first ? runs[r].at : first;
        end = upto > end ? upto : end;
    }
    assert_int_equal(made.item_bytes, bytes);
    assert_int_equal(made.span_lb, first);
    assert_int_equal(made.span_end, end);
    check_runs(&made, runs, nruns);
    ftk_type_free(&made);
    assert_false(made.owned);
    ftk_type_free(&made); /* harmless */
}

#define RUN(...)                                                                                   \
    (const struct run[]){ __VA_ARGS__ }, sizeof((struct run[]){ __VA_ARGS__ }) / sizeof(struct run)

/* ---- Predefined types ---------------------------------------------------------------- */

/* bytes 0: a type of Fortran, which this MPI may lack or hold in another size */
struct named {
    const char *name;
    MPI_Datatype type;
    uint32_t basic;
    size_t bytes;
};
#define NAMED(type, basic, bytes)                                                                  \
    {                                                                                              \
        .name = #type, (type), (basic), (bytes)                                                    \
    }

static void check_named(const struct named *n)
{
    int size = 0;
    if (n->type == MPI_DATATYPE_NULL || MPI_Type_size(n->type, &size) != MPI_SUCCESS || size == 0) {
        assert_int_equal(n->bytes, 0); /* only what is optional may be missing */
        return;
    }
    struct ftk_type made;
    check_made(n->type, &made);
    if (made.basic != n->basic)
        fail_msg("%s is %s, not %s", n->name, ftk_basic_name(made.basic), ftk_basic_name(n->basic));
    size_t bytes = n->bytes ? n->bytes : ftk_basic_bytes(n->basic);
    assert_int_equal(made.item_bytes, bytes);
    assert_int_equal(made.extent, bytes);
    assert_int_equal(made.span_lb, 0);
    assert_true(made.contiguous);
    assert_false(made.owned);
    assert_true(made.mpi == n->type);
    check_runs(&made, RUN({ 0, bytes }));
    ftk_type_free(&made);
}

static void check_all_named(const struct named *n, size_t count)
{
    for (size_t i = 0; i < count; i++)
        check_named(&n[i]);
}

static void c_integers(void **state)
{
    (void)state;
    const struct named types[] = {
        NAMED(MPI_CHAR, FTK_T_CHAR, 1),
        NAMED(MPI_SIGNED_CHAR, FTK_T_I8, 1),
        NAMED(MPI_SHORT, FTK_T_I16, 2),
        NAMED(MPI_INT, FTK_T_I32, 4),
        NAMED(MPI_LONG, sizeof(long) == 8 ? FTK_T_I64 : FTK_T_I32, sizeof(long)),
        NAMED(MPI_LONG_LONG, FTK_T_I64, 8),
        NAMED(MPI_LONG_LONG_INT, FTK_T_I64, 8),
        NAMED(MPI_WCHAR, FTK_T_I32, 4),
        NAMED(MPI_UNSIGNED_CHAR, FTK_T_U8, 1),
        NAMED(MPI_UNSIGNED_SHORT, FTK_T_U16, 2),
        NAMED(MPI_UNSIGNED, FTK_T_U32, 4),
        NAMED(MPI_UNSIGNED_LONG, sizeof(long) == 8 ? FTK_T_U64 : FTK_T_U32, sizeof(long)),
        NAMED(MPI_UNSIGNED_LONG_LONG, FTK_T_U64, 8),
        NAMED(MPI_INT8_T, FTK_T_I8, 1),
        NAMED(MPI_INT16_T, FTK_T_I16, 2),
        NAMED(MPI_INT32_T, FTK_T_I32, 4),
        NAMED(MPI_INT64_T, FTK_T_I64, 8),
        NAMED(MPI_UINT8_T, FTK_T_U8, 1),
        NAMED(MPI_UINT16_T, FTK_T_U16, 2),
        NAMED(MPI_UINT32_T, FTK_T_U32, 4),
        NAMED(MPI_UINT64_T, FTK_T_U64, 8),
        NAMED(MPI_AINT, FTK_T_I64, 8),
        NAMED(MPI_COUNT, FTK_T_I64, 8),
        NAMED(MPI_OFFSET, FTK_T_I64, 8),
        NAMED(MPI_C_BOOL, FTK_T_BOOL, 1),
        NAMED(MPI_BYTE, FTK_T_OPAQUE, 1),
        NAMED(MPI_PACKED, FTK_T_OPAQUE, 1),
    };
    check_all_named(types, sizeof types / sizeof types[0]);
}

static void c_floats(void **state)
{
    (void)state;
    const struct named types[] = {
        NAMED(MPI_FLOAT, FTK_T_F32, 4),
        NAMED(MPI_DOUBLE, FTK_T_F64, 8),
        NAMED(MPI_LONG_DOUBLE, FTK_T_LONGDOUBLE, 16),
        NAMED(MPI_C_COMPLEX, FTK_T_C32, 8),
        NAMED(MPI_C_FLOAT_COMPLEX, FTK_T_C32, 8),
        NAMED(MPI_C_DOUBLE_COMPLEX, FTK_T_C64, 16),
        NAMED(MPI_C_LONG_DOUBLE_COMPLEX, FTK_T_CLONGDOUBLE, 32),
    };
    check_all_named(types, sizeof types / sizeof types[0]);
}

static void other_languages(void **state)
{
    (void)state;
    const struct named types[] = {
        NAMED(MPI_CHARACTER, FTK_T_CHAR, 0),
        NAMED(MPI_LOGICAL, FTK_T_I32, 0),
        NAMED(MPI_INTEGER, FTK_T_I32, 0),
        NAMED(MPI_INTEGER1, FTK_T_I8, 0),
        NAMED(MPI_INTEGER2, FTK_T_I16, 0),
        NAMED(MPI_INTEGER4, FTK_T_I32, 0),
        NAMED(MPI_INTEGER8, FTK_T_I64, 0),
        NAMED(MPI_REAL, FTK_T_F32, 0),
        NAMED(MPI_REAL4, FTK_T_F32, 0),
        NAMED(MPI_REAL8, FTK_T_F64, 0),
        NAMED(MPI_DOUBLE_PRECISION, FTK_T_F64, 0),
        NAMED(MPI_COMPLEX, FTK_T_C32, 0),
        NAMED(MPI_COMPLEX8, FTK_T_C32, 0),
        NAMED(MPI_COMPLEX16, FTK_T_C64, 0),
        NAMED(MPI_DOUBLE_COMPLEX, FTK_T_C64, 0),
        NAMED(MPI_CXX_BOOL, FTK_T_BOOL, 0),
        NAMED(MPI_CXX_FLOAT_COMPLEX, FTK_T_C32, 0),
        NAMED(MPI_CXX_DOUBLE_COMPLEX, FTK_T_C64, 0),
        NAMED(MPI_CXX_LONG_DOUBLE_COMPLEX, FTK_T_CLONGDOUBLE, 0),
    };
    check_all_named(types, sizeof types / sizeof types[0]);
}

/* The types of MPI_MINLOC are structs: opaque, and most have holes. */
static void pairs(void **state)
{
    (void)state;
    const struct {
        MPI_Datatype type;
        size_t value_bytes, second;
        ptrdiff_t extent;
    } types[] = {
        { MPI_FLOAT_INT, 4, 4, 8 },
        { MPI_DOUBLE_INT, 8, 8, 16 },
        { MPI_LONG_INT, sizeof(long), sizeof(long), 2 * sizeof(long) },
        { MPI_SHORT_INT, 2, 4, 8 },
        { MPI_2INT, 4, 4, 8 },
        { MPI_LONG_DOUBLE_INT, 16, 16, 32 },
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct ftk_type made;
        check_made(types[i].type, &made);
        assert_int_equal(made.basic, FTK_T_OPAQUE);
        assert_int_equal(made.item_bytes, types[i].value_bytes + 4);
        assert_int_equal(made.extent, types[i].extent);
        assert_int_equal(made.contiguous, made.item_bytes == (size_t)made.extent);
        assert_false(made.owned);
        check_runs(&made, RUN({ 0, types[i].value_bytes }, { (ptrdiff_t)types[i].second, 4 }));
        ftk_type_free(&made);
    }
}

/* MPI owns them although they have no name. */
static void f90_types(void **state)
{
    (void)state;
    MPI_Datatype t[3] = { MPI_DATATYPE_NULL, MPI_DATATYPE_NULL, MPI_DATATYPE_NULL };
    const uint32_t basic[3] = { FTK_T_F64, FTK_T_C32, FTK_T_I32 };
    if (MPI_Type_create_f90_real(15, 300, &t[0]) != MPI_SUCCESS
        || MPI_Type_create_f90_complex(6, 30, &t[1]) != MPI_SUCCESS
        || MPI_Type_create_f90_integer(9, &t[2]) != MPI_SUCCESS)
        skip(); /* an MPI without Fortran */
    for (int i = 0; i < 3; i++) {
        struct ftk_type made;
        check_made(t[i], &made);
        assert_int_equal(made.basic, basic[i]);
        assert_int_equal(made.item_bytes, ftk_basic_bytes(basic[i]));
        assert_false(made.owned);
        MPI_Datatype outer;
        MPI_Type_vector(2, 1, 3, t[i], &outer);
        ptrdiff_t size = (ptrdiff_t)made.item_bytes;
        check_derived(&outer, basic[i], false, 4 * size,
            RUN({ 0, made.item_bytes }, { 3 * size, made.item_bytes }));
        ftk_type_free(&made);
    }
}

/* ---- Derived types ------------------------------------------------------------------- */

static void contiguous(void **state)
{
    (void)state;
    MPI_Datatype inner, t;
    MPI_Type_contiguous(2, MPI_FLOAT, &inner);
    MPI_Type_contiguous(3, inner, &t);
    MPI_Type_free(&inner);
    check_derived(&t, FTK_T_F32, true, 24, RUN({ 0, 24 }));
    MPI_Type_contiguous(3, MPI_C_DOUBLE_COMPLEX, &t);
    check_derived(&t, FTK_T_C64, true, 48, RUN({ 0, 48 }));
    MPI_Type_contiguous(7, MPI_BYTE, &t);
    check_derived(&t, FTK_T_OPAQUE, true, 7, RUN({ 0, 7 }));
    MPI_Type_dup(MPI_INT64_T, &t);
    check_derived(&t, FTK_T_I64, true, 8, RUN({ 0, 8 }));
    MPI_Type_contiguous(3, MPI_DOUBLE_INT, &t);
    check_derived(&t, FTK_T_OPAQUE, false, 48,
        RUN({ 0, 8 }, { 8, 4 }, { 16, 8 }, { 24, 4 }, { 32, 8 }, { 40, 4 }));
    /* blocks that touch: no holes, whatever the constructor */
    MPI_Type_vector(3, 2, 2, MPI_SHORT, &t);
    check_derived(&t, FTK_T_I16, true, 12, RUN({ 0, 12 }));
}

static void vectors(void **state)
{
    (void)state;
    MPI_Datatype t;
    MPI_Type_vector(3, 2, 5, MPI_INT, &t);
    check_derived(&t, FTK_T_I32, false, 48, RUN({ 0, 8 }, { 20, 8 }, { 40, 8 }));
    MPI_Type_create_hvector(3, 1, 12, MPI_UINT16_T, &t);
    check_derived(&t, FTK_T_U16, false, 26, RUN({ 0, 2 }, { 12, 2 }, { 24, 2 }));
    /* backwards: the item begins before its address */
    MPI_Type_vector(3, 1, -2, MPI_DOUBLE, &t);
    check_derived(&t, FTK_T_F64, false, 40, RUN({ 0, 8 }, { -16, 8 }, { -32, 8 }));
}

static void indexed(void **state)
{
    (void)state;
    MPI_Datatype t;
    MPI_Type_indexed(2, (int[]){ 2, 1 }, (int[]){ 4, 0 }, MPI_INT, &t);
    check_derived(&t, FTK_T_I32, false, 24, RUN({ 16, 8 }, { 0, 4 }));
    MPI_Type_create_hindexed(2, (int[]){ 1, 3 }, (MPI_Aint[]){ 16, -8 }, MPI_FLOAT, &t);
    check_derived(&t, FTK_T_F32, false, 28, RUN({ 16, 4 }, { -8, 12 }));
    MPI_Type_create_indexed_block(3, 2, (int[]){ 0, 3, 7 }, MPI_CHAR, &t);
    check_derived(&t, FTK_T_CHAR, false, 9, RUN({ 0, 2 }, { 3, 2 }, { 7, 2 }));
    MPI_Type_create_hindexed_block(2, 1, (MPI_Aint[]){ 8, 24 }, MPI_C_BOOL, &t);
    check_derived(&t, FTK_T_BOOL, false, 17, RUN({ 8, 1 }, { 24, 1 }));
}

/* Out of order but without holes: copied as memory has it, and back. */
static void permuted(void **state)
{
    (void)state;
    MPI_Datatype t;
    MPI_Type_indexed(3, (int[]){ 1, 1, 1 }, (int[]){ 2, 0, 1 }, MPI_INT, &t);
    check_derived(&t, FTK_T_I32, true, 12, RUN({ 0, 12 }));
}

static void subarray(void **state)
{
    (void)state;
    MPI_Datatype t;
    MPI_Type_create_subarray(
        2, (int[]){ 4, 5 }, (int[]){ 2, 3 }, (int[]){ 1, 2 }, MPI_ORDER_C, MPI_DOUBLE, &t);
    check_derived(&t, FTK_T_F64, false, 160, RUN({ 56, 24 }, { 96, 24 }));
    MPI_Type_create_subarray(
        2, (int[]){ 4, 5 }, (int[]){ 4, 5 }, (int[]){ 0, 0 }, MPI_ORDER_FORTRAN, MPI_DOUBLE, &t);
    check_derived(&t, FTK_T_F64, true, 160, RUN({ 0, 160 }));
}

struct mixed {
    char c;
    double d;
    int i[2];
    short s;
};

static void make_mixed(MPI_Datatype *t)
{
    MPI_Datatype plain;
    MPI_Type_create_struct(4, (int[]){ 1, 1, 2, 1 },
        (MPI_Aint[]){ offsetof(struct mixed, c), offsetof(struct mixed, d),
            offsetof(struct mixed, i), offsetof(struct mixed, s) },
        (MPI_Datatype[]){ MPI_CHAR, MPI_DOUBLE, MPI_INT, MPI_SHORT }, &plain);
    MPI_Type_create_resized(plain, 0, sizeof(struct mixed), t);
    MPI_Type_free(&plain);
}

static void structs(void **state)
{
    (void)state;
    MPI_Datatype t;
    make_mixed(&t);
    check_derived(&t, FTK_T_OPAQUE, false, sizeof(struct mixed),
        RUN({ 0, 1 }, { 8, 8 }, { 16, 8 }, { 24, 2 }));
    /* members of one type keep it */
    MPI_Type_create_struct(
        2, (int[]){ 1, 2 }, (MPI_Aint[]){ 0, 24 }, (MPI_Datatype[]){ MPI_DOUBLE, MPI_DOUBLE }, &t);
    check_derived(&t, FTK_T_F64, false, 40, RUN({ 0, 8 }, { 24, 16 }));
    /* signed and unsigned are two, also when a third agrees with either */
    MPI_Type_create_struct(3, (int[]){ 1, 1, 1 }, (MPI_Aint[]){ 0, 4, 8 },
        (MPI_Datatype[]){ MPI_INT, MPI_UNSIGNED, MPI_INT }, &t);
    check_derived(&t, FTK_T_OPAQUE, true, 12, RUN({ 0, 12 }));
    /* the first one opaque, the others not */
    MPI_Type_create_struct(3, (int[]){ 4, 1, 1 }, (MPI_Aint[]){ 0, 4, 8 },
        (MPI_Datatype[]){ MPI_BYTE, MPI_INT, MPI_INT }, &t);
    check_derived(&t, FTK_T_OPAQUE, true, 12, RUN({ 0, 12 }));
}

static void resized(void **state)
{
    (void)state;
    MPI_Datatype t;
    MPI_Type_create_resized(MPI_INT, 0, 12, &t);
    check_derived(&t, FTK_T_I32, false, 12, RUN({ 0, 4 }));
    MPI_Type_create_resized(MPI_INT, -4, 12, &t); /* what counts is the extent */
    check_derived(&t, FTK_T_I32, false, 12, RUN({ 0, 4 }));
    MPI_Type_create_resized(MPI_INT, -4, 4, &t);
    check_derived(&t, FTK_T_I32, true, 4, RUN({ 0, 4 }));
    /* interleaved items: each extends beyond the beginning of the next */
    MPI_Datatype v;
    MPI_Type_vector(2, 1, 8, MPI_FLOAT, &v);
    MPI_Type_create_resized(v, 0, 4, &t);
    MPI_Type_free(&v);
    check_derived(&t, FTK_T_F32, false, 4, RUN({ 0, 4 }, { 32, 4 }));
}

/* Items that reach beyond the next one's address, and such as leave room behind them. */
static void room(void **state)
{
    (void)state;
    const struct ftk_type longer = { .extent = 8, .span_end = 100 };
    const struct ftk_type shorter = { .extent = 16, .span_end = 12 };
    const struct ftk_type still = { .extent = 0, .span_end = 4 };
    assert_int_equal(ftk_type_room(&longer, 0), 0);
    assert_int_equal(ftk_type_room(&longer, 1), 100);
    assert_int_equal(ftk_type_room(&longer, 4), 124);
    assert_int_equal(ftk_type_room(&shorter, 4), 64);
    assert_int_equal(ftk_type_room(&still, 4), 4);
    assert_true(ftk_type_room(&longer, SIZE_MAX / 8) == SIZE_MAX);
    assert_true(ftk_type_room(&longer, SIZE_MAX / 8 - 1) == SIZE_MAX);
    assert_true(ftk_type_room(&longer, SIZE_MAX) == SIZE_MAX);
}

static void nested(void **state)
{
    (void)state;
    MPI_Datatype m, v, t;
    make_mixed(&m);
    MPI_Type_vector(2, 1, 3, m, &v);
    MPI_Type_dup(v, &t);
    MPI_Type_free(&m);
    MPI_Type_free(&v);
    const ptrdiff_t e = sizeof(struct mixed);
    check_derived(&t, FTK_T_OPAQUE, false, 4 * e,
        RUN({ 0, 1 }, { 8, 8 }, { 16, 8 }, { 24, 2 }, { 3 * e, 1 }, { 3 * e + 8, 8 },
            { 3 * e + 16, 8 }, { 3 * e + 24, 2 }));
    /* a struct of different types over one basic type */
    MPI_Datatype d;
    MPI_Type_dup(MPI_INT64_T, &d);
    MPI_Type_vector(2, 1, 2, MPI_LONG_LONG, &v);
    MPI_Type_create_struct(2, (int[]){ 1, 1 }, (MPI_Aint[]){ 0, 16 }, (MPI_Datatype[]){ d, v }, &t);
    MPI_Type_free(&d);
    MPI_Type_free(&v);
    check_derived(&t, FTK_T_I64, false, 40, RUN({ 0, 8 }, { 16, 8 }, { 32, 8 }));
    MPI_Type_contiguous(1, MPI_UINT8_T, &t);
    for (int depth = 0; depth < 50; depth++) {
        MPI_Datatype outer;
        MPI_Type_contiguous(1, t, &outer);
        MPI_Type_free(&t);
        t = outer;
    }
    check_derived(&t, FTK_T_U8, true, 1, RUN({ 0, 1 }));
}

/* ---- Errors and limits --------------------------------------------------------------- */

static void check_refused(MPI_Datatype t)
{
    struct ftk_type made, before;
    memset(&made, 0x5a, sizeof made);
    before = made;
    assert_int_equal(ftk_type_make(t, &made), FTKIT_ERR_TYPE);
    assert_memory_equal(&made, &before, sizeof made);
}

static void empty_types(void **state)
{
    (void)state;
    MPI_Datatype t, v;
    check_refused(MPI_DATATYPE_NULL);
    MPI_Type_contiguous(0, MPI_INT, &t);
    check_refused(t);
    MPI_Type_create_resized(t, 0, 16, &v);
    check_refused(v);
    MPI_Type_free(&v);
    MPI_Type_free(&t);
}

static void no_items(void **state)
{
    (void)state;
    struct ftk_type made;
    MPI_Datatype t;
    check_made(MPI_INT, &made);
    assert_int_equal(ftk_type_pack(&made, FTK_MEMORY_HOST, NULL, 0, NULL), FTKIT_OK);
    assert_int_equal(ftk_type_unpack(&made, FTK_MEMORY_HOST, NULL, 0, NULL), FTKIT_OK);
    MPI_Type_vector(2, 1, 2, MPI_INT, &t);
    check_made(t, &made);
    MPI_Type_free(&t);
    assert_int_equal(ftk_type_pack(&made, FTK_MEMORY_HOST, NULL, 0, NULL), FTKIT_OK);
    assert_int_equal(ftk_type_unpack(&made, FTK_MEMORY_HOST, NULL, 0, NULL), FTKIT_OK);
    ftk_type_free(&made);
}

/* One item of more than 2 GiB: with holes MPI cannot pack it. */
static void large_item(void **state)
{
    (void)state;
    MPI_Datatype mib, t;
    struct ftk_type made;
    char byte = 1;
    MPI_Type_contiguous(1 << 20, MPI_BYTE, &mib);
    MPI_Type_vector(2048, 1, 2, mib, &t);
    check_made(t, &made);
    MPI_Type_free(&t);
    assert_int_equal(made.item_bytes, (size_t)1 << 31);
    assert_int_equal(ftk_type_pack(&made, FTK_MEMORY_HOST, &byte, 1, &byte), FTKIT_ERR_TYPE);
    assert_int_equal(ftk_type_unpack(&made, FTK_MEMORY_HOST, &byte, 1, &byte), FTKIT_ERR_TYPE);
    ftk_type_free(&made);
    MPI_Type_contiguous(4096, mib, &t); /* fine without: nothing is counted in an int */
    check_made(t, &made);
    MPI_Type_free(&t);
    MPI_Type_free(&mib);
    assert_int_equal(made.item_bytes, (size_t)1 << 32);
    assert_true(made.contiguous);
    ftk_type_free(&made);
}

/* ---- More than an int can count ---------------------------------------------------------
 * Gigabytes of address space that repeat one window of memory over and over.  After a
 * copy the windows hold its last lap; their lengths are prime numbers of pages, so that
 * a piece in the wrong place does not look like the right one. */

#define DATA_WINDOW ((size_t)1031 * 4096)
#define PACKED_WINDOW ((size_t)521 * 4096)

static unsigned char *map_window(size_t bytes, size_t window, size_t *mapped)
{
    int fd = memfd_create("window", 0);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)window), 0);
    *mapped = (bytes + window - 1) / window * window;
    unsigned char *p =
        mmap(NULL, *mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    for (size_t at = 0; at < *mapped; at += window)
        assert_ptr_equal(
            mmap(p + at, window, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0), p + at);
    close(fd);
    return p;
}

/* One byte per item, extent bytes apart. */
static void check_many(MPI_Datatype t, size_t extent, size_t count)
{
    struct ftk_type made;
    size_t data_bytes, packed_bytes, wrong = 0;
    unsigned char *data = map_window(count * extent, DATA_WINDOW, &data_bytes);
    unsigned char *packed = map_window(count, PACKED_WINDOW, &packed_bytes);
    check_made(t, &made);
    assert_int_equal(made.contiguous, extent == 1);
    assert_int_equal(made.item_bytes, 1);

    for (size_t i = 0; i < DATA_WINDOW; i++)
        data[i] = pattern(i);
    assert_int_equal(ftk_type_pack(&made, FTK_MEMORY_HOST, data, count, packed), FTKIT_OK);
    for (size_t i = count - PACKED_WINDOW; i < count; i++)
        wrong += packed[i] != pattern(i * extent % DATA_WINDOW);
    assert_int_equal(wrong, 0);

    for (size_t i = 0; i < PACKED_WINDOW; i++)
        packed[i] = pattern(3 * i);
    memset(data, HOLE, DATA_WINDOW);
    assert_int_equal(ftk_type_unpack(&made, FTK_MEMORY_HOST, packed, count, data), FTKIT_OK);
    for (size_t at = count * extent - DATA_WINDOW; at < count * extent; at++)
        wrong += data[at] != (at % extent ? HOLE : pattern(at / extent % PACKED_WINDOW * 3));
    assert_int_equal(wrong, 0);

    ftk_type_free(&made);
    munmap(data, data_bytes);
    munmap(packed, packed_bytes);
}

static void many_items(void **state)
{
    (void)state;
    if (!getenv("FTKIT_TEST_FEW")) /* where each takes long: only those with holes */
        check_many(MPI_CHAR, 1, ((size_t)1 << 32) + 12345);
    MPI_Datatype t;
    MPI_Type_create_resized(MPI_CHAR, 0, 2, &t);
    check_many(t, 2, ((size_t)1 << 31) + 12345);
    MPI_Type_free(&t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c_integers),
        cmocka_unit_test(c_floats),
        cmocka_unit_test(other_languages),
        cmocka_unit_test(pairs),
        cmocka_unit_test(f90_types),
        cmocka_unit_test(contiguous),
        cmocka_unit_test(vectors),
        cmocka_unit_test(indexed),
        cmocka_unit_test(permuted),
        cmocka_unit_test(subarray),
        cmocka_unit_test(structs),
        cmocka_unit_test(resized),
        cmocka_unit_test(room),
        cmocka_unit_test(nested),
        cmocka_unit_test(empty_types),
        cmocka_unit_test(no_items),
        cmocka_unit_test(large_item),
        cmocka_unit_test(many_items),
    };
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS)
        return 1;
    /* datatype calls report to either; f90_types() asks for what may be missing */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
