/* Datatypes as words: a type that is read moves the same bytes as the type that was written, and
 * damaged words are refused.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "log/base/typemap.h"

enum { ROOM = 4096, KINDS = 17 };

/* Types with each constructor; some are made of others. */
static void make(int kind, MPI_Datatype *out)
{
    const int ones[2] = { 1, 3 }, places[2] = { 2, 9 };
    const MPI_Aint bytes[2] = { 16, 72 };
    MPI_Datatype a = MPI_DATATYPE_NULL;
    if (kind == 12 || kind == 13)
        make(2, &a);
    switch (kind) {
    case 0:
        MPI_Type_contiguous(7, MPI_INT, out);
        break;
    case 1:
        MPI_Type_vector(3, 2, 5, MPI_DOUBLE, out);
        break;
    case 2:
        MPI_Type_create_hvector(3, 2, 40, MPI_SHORT, out);
        break;
    case 3:
        MPI_Type_indexed(2, ones, places, MPI_FLOAT, out);
        break;
    case 4:
        MPI_Type_create_hindexed(2, ones, bytes, MPI_INT64_T, out);
        break;
    case 5:
        MPI_Type_create_indexed_block(2, 2, places, MPI_CHAR, out);
        break;
    case 6:
        MPI_Type_create_hindexed_block(2, 2, bytes, MPI_INT, out);
        break;
    case 7:
        MPI_Type_create_struct(2, ones, bytes, (MPI_Datatype[]){ MPI_DOUBLE, MPI_CHAR }, out);
        break;
    case 8:
        MPI_Type_create_subarray(3, (int[]){ 4, 5, 6 }, (int[]){ 2, 2, 3 }, (int[]){ 1, 2, 3 },
            MPI_ORDER_FORTRAN, MPI_INT, out);
        break;
    case 9:
        MPI_Type_create_darray(4, 3, 2, (int[]){ 8, 6 },
            (int[]){ MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK },
            (int[]){ 2, MPI_DISTRIBUTE_DFLT_DARG }, (int[]){ 2, 2 }, MPI_ORDER_C, MPI_DOUBLE, out);
        break;
    case 10:
        MPI_Type_create_resized(MPI_INT, -8, 32, out);
        break;
    case 11:
        MPI_Type_dup(MPI_DOUBLE, out);
        break;
    case 12:
        MPI_Type_create_struct(2, ones, bytes, (MPI_Datatype[]){ a, a }, out);
        break;
    case 13:
        MPI_Type_contiguous(2, a, out);
        break;
    case 14:
        MPI_Type_create_f90_real(6, MPI_UNDEFINED, out);
        break;
    case 15:
        MPI_Type_create_f90_integer(9, out);
        break;
    default:
        *out = MPI_DOUBLE_INT;
        break;
    }
    if (a != MPI_DATATYPE_NULL)
        MPI_Type_free(&a);
    if (kind < 14)
        MPI_Type_commit(out);
}

/* What one item of the type takes from memory, in its order. */
static int packed(MPI_Datatype t, char *out)
{
    static _Alignas(16) char memory[ROOM];
    int at = 0;
    for (int i = 0; i < ROOM; i++)
        memory[i] = (char)(i * 7 + i / 251);
    assert_int_equal(MPI_Pack(memory + 64, 1, t, out, ROOM, &at, MPI_COMM_SELF), MPI_SUCCESS);
    return at;
}

static void assert_same(MPI_Datatype a, MPI_Datatype b)
{
    static char x[ROOM], y[ROOM];
    MPI_Aint lb[2], extent[2];
    int n = packed(a, x);
    assert_int_equal(packed(b, y), n);
    assert_memory_equal(x, y, (size_t)n);
    MPI_Type_get_extent(a, &lb[0], &extent[0]);
    MPI_Type_get_extent(b, &lb[1], &extent[1]);
    assert_int_equal(lb[0], lb[1]);
    assert_int_equal(extent[0], extent[1]);
}

static void all_kinds(void **state)
{
    struct ftk_typemap m = { 0 };
    struct ftk_types types;
    MPI_Datatype t[KINDS];
    uint64_t ref[KINDS], again;
    (void)state;
    for (int i = 0; i < KINDS; i++) {
        make(i, &t[i]);
        assert_int_equal(ftk_typemap_add(&m, t[i], &ref[i]), FTKIT_OK);
    }
    const size_t n = m.n;
    for (int i = 0; i < KINDS; i++) {
        assert_int_equal(ftk_typemap_add(&m, t[i], &again), FTKIT_OK);
        assert_int_equal(again, ref[i]);
    }
    assert_int_equal(m.n, n); /* each once */
    const uint64_t *at = m.w.v;
    assert_int_equal(ftk_types_read(&at, m.w.v + m.w.n, m.n, &types), FTKIT_OK);
    assert_ptr_equal(at, m.w.v + m.w.n);
    for (int i = 0; i < KINDS; i++) {
        assert_same(t[i], ftk_types_of(&types, ref[i]));
        if (i < 14)
            MPI_Type_free(&t[i]);
    }
    ftk_types_free(&types, PMPI_Type_free);
    ftk_typemap_free(&m);
}

/* A type of 64 levels is written; one more is refused, and leaves nothing behind. */
static void deep(void **state)
{
    struct ftk_typemap m = { 0 };
    MPI_Datatype t[66];
    uint64_t ref;
    (void)state;
    MPI_Type_contiguous(1, MPI_INT, &t[0]);
    for (int i = 1; i < 66; i++)
        MPI_Type_contiguous(1, t[i - 1], &t[i]);
    assert_int_equal(ftk_typemap_add(&m, t[63], &ref), FTKIT_OK);
    assert_int_equal(m.n, 64);
    ftk_typemap_free(&m);
    assert_int_equal(ftk_typemap_add(&m, t[65], &ref), FTKIT_ERR_UNSUPPORTED);
    assert_int_equal(m.n, 0);
    ftk_typemap_free(&m);
    for (int i = 0; i < 66; i++)
        MPI_Type_free(&t[i]);
}

/* References that stand for nothing. */
static void no_type(void **state)
{
    const struct ftk_types none = { 0 };
    (void)state;
    assert_true(ftk_types_of(&none, 0) == MPI_DATATYPE_NULL);
    assert_true(ftk_types_of(&none, UINT64_MAX) == MPI_DATATYPE_NULL);
    assert_true(ftk_types_of(&none, (UINT64_C(1) << 32) + 5000) == MPI_DATATYPE_NULL);
}

/* Each word changed: refused, or another type; never a fault. */
static void damaged(void **state)
{
    struct ftk_typemap m = { 0 };
    const uint64_t values[] = { 0, 1, UINT64_MAX, INT32_MAX, UINT64_C(1) << 31, 1000 };
    size_t refused = 0;
    (void)state;
    for (int i = 0; i < KINDS; i++) {
        MPI_Datatype t;
        uint64_t ref;
        make(i, &t);
        assert_int_equal(ftk_typemap_add(&m, t, &ref), FTKIT_OK);
        if (i < 14)
            MPI_Type_free(&t);
    }
    for (size_t i = 0; i < m.w.n; i++)
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            struct ftk_types types;
            const uint64_t was = m.w.v[i], *at = m.w.v;
            m.w.v[i] = values[k];
            if (ftk_types_read(&at, m.w.v + m.w.n, m.n, &types) == FTKIT_OK)
                ftk_types_free(&types, PMPI_Type_free);
            else
                refused++;
            m.w.v[i] = was;
        }
    for (size_t n = 0; n < m.w.n; n++) { /* cut short */
        struct ftk_types types;
        const uint64_t *at = m.w.v;
        assert_int_not_equal(ftk_types_read(&at, m.w.v + n, m.n, &types), FTKIT_OK);
    }
    assert_true(refused > m.w.n);
    ftk_typemap_free(&m);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(all_kinds), cmocka_unit_test(deep),
        cmocka_unit_test(no_type), cmocka_unit_test(damaged) };
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS)
        return 1;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
