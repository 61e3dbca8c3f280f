/* ranks: 1 3
 * teams: all
 * Operations of one item with a lock (MPI 4.0, 12.3.4): those of a predefined type, which may take
 * a shorter way, have the same outcome as those of a derived type of one such item, bit by bit.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "errors.h"

enum { WORDS = 8, ITEMS = 5 };

static int target;
static uint64_t *mine; /* [WORDS] of the window */
static MPI_Win win;

/* The item k of a type, at *to: values whose sums wrap, or are rounded. */
static void value(MPI_Datatype type, int k, void *to)
{
    const uint64_t bits = 0x9e3779b97f4a7c15U * (uint64_t)(k + 1);
    const float f = 1.0F / (float)(k + 3);
    const double d = 1.0 / (k + 3);
    int size;
    OK(MPI_Type_size(type, &size));
    memcpy(to, &bits, (size_t)size);
    if (type == MPI_FLOAT)
        memcpy(to, &f, sizeof f);
    if (type == MPI_DOUBLE)
        memcpy(to, &d, sizeof d);
}

/* The displacement of this rank's word number i at the target. */
static MPI_Aint word(int i)
{
    return (MPI_Aint)(me * WORDS + i) * (MPI_Aint)sizeof *mine;
}

static uint64_t read_word(int i)
{
    uint64_t x = 0;
    OK(MPI_Get(&x, sizeof x, MPI_BYTE, target, word(i), sizeof x, MPI_BYTE, win));
    OK(MPI_Win_flush(target, win));
    return x;
}

static void write_word(int i, uint64_t x)
{
    OK(MPI_Put(&x, sizeof x, MPI_BYTE, target, word(i), sizeof x, MPI_BYTE, win));
    OK(MPI_Win_flush(target, win));
}

/* Word 0 by the predefined type, word 1 by one of the same items. */
static void same(MPI_Datatype type, MPI_Datatype one, MPI_Op op)
{
    uint64_t x = 0, old[2] = { 7, 7 }, start = ~UINT64_C(0) / 3;
    int size;
    OK(MPI_Type_size(type, &size));
    value(type, 1, &start);
    value(type, 2, &x);
    for (int i = 0; i < 2; i++)
        write_word(i, start);
    OK(MPI_Fetch_and_op(&x, &old[0], type, target, word(0), op, win));
    OK(MPI_Get_accumulate(&x, 1, one, &old[1], 1, one, target, word(1), 1, one, op, win));
    OK(MPI_Win_flush(target, win));
    EQUAL(0, memcmp(&old[0], &old[1], sizeof old[0]));
    EQUAL(0, memcmp(&old[0], &start, (size_t)size));
    TRUE(read_word(0) == read_word(1));
    if (op == MPI_NO_OP)
        return;
    OK(MPI_Accumulate(&x, 1, type, target, word(0), 1, type, op, win));
    OK(MPI_Accumulate(&x, 1, one, target, word(1), 1, one, op, win));
    OK(MPI_Win_flush(target, win));
    TRUE(read_word(0) == read_word(1));
}

static void numbers(void)
{
    const MPI_Datatype types[] = { MPI_INT, MPI_UNSIGNED, MPI_LONG, MPI_UNSIGNED_LONG,
        MPI_LONG_LONG, MPI_UNSIGNED_LONG_LONG, MPI_INT32_T, MPI_UINT32_T, MPI_INT64_T, MPI_UINT64_T,
        MPI_AINT, MPI_OFFSET, MPI_COUNT, MPI_FLOAT, MPI_DOUBLE, MPI_SHORT, MPI_SIGNED_CHAR };
    const MPI_Op ops[] = { MPI_SUM, MPI_REPLACE, MPI_NO_OP, MPI_MAX };
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        MPI_Datatype one;
        OK(MPI_Type_contiguous(1, types[t], &one));
        OK(MPI_Type_commit(&one));
        for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
            same(types[t], one, ops[i]);
        OK(MPI_Type_free(&one));
    }
}

static void swaps(void)
{
    const int64_t first = -(INT64_C(3) << 33), second = 5;
    int64_t old = 0;
    int32_t x = 9, was = 0;
    write_word(2, (uint64_t)first);
    OK(MPI_Compare_and_swap(&second, &first, &old, MPI_INT64_T, target, word(2), win));
    OK(MPI_Win_flush(target, win));
    EQUAL(1, old == first);
    OK(MPI_Compare_and_swap(&first, &first, &old, MPI_INT64_T, target, word(2), win));
    OK(MPI_Win_flush(target, win));
    EQUAL(5, old);
    TRUE(read_word(2) == 5);
    OK(MPI_Compare_and_swap(&x, &(const int32_t){ 5 }, &was, MPI_INT32_T, target, word(2), win));
    OK(MPI_Win_flush(target, win));
    EQUAL(5, was);
    TRUE(read_word(2) == 9);
}

/* Items of other sizes than a word, and the bytes beside them. */
static void items(void)
{
    const int16_t five[ITEMS] = { 1, -2, 3, -4, 5 };
    int16_t got[ITEMS + 1] = { 0 };
    for (int i = 3; i < 6; i++)
        write_word(i, 0);
    OK(MPI_Put(five, ITEMS, MPI_INT16_T, target, word(3) + 2, ITEMS, MPI_INT16_T, win));
    OK(MPI_Win_flush(target, win));
    OK(MPI_Get(got, ITEMS, MPI_INT16_T, target, word(3) + 2, ITEMS, MPI_INT16_T, win));
    OK(MPI_Win_flush(target, win));
    EQUAL(0, memcmp(five, got, sizeof five));
    EQUAL(0, got[ITEMS]);
    EQUAL(0, (int)(read_word(3) & 0xffff));
    EQUAL(0, (int)(read_word(4) >> 32));
    OK(MPI_Put(five, 0, MPI_INT16_T, target, word(3), 0, MPI_INT16_T, win));
    OK(MPI_Put(five, 1, MPI_INT16_T, MPI_PROC_NULL, word(3), 1, MPI_INT16_T, win));
    OK(MPI_Win_flush(target, win));
    TRUE(read_word(5) == 0);
}

/* Mistakes are found on the shorter way, too, and change nothing. */
static void mistakes(void)
{
    const MPI_Aint bytes = (MPI_Aint)sizeof *mine * WORDS * n;
    int64_t x = 1, old = 3;
    const char *on = getenv("FTKIT_LOG_ENABLED");
    if (!on || strcmp(on, "true") != 0)
        return; /* without ftkit: Open MPI does not look */
    FAILS(MPI_ERR_DISP, MPI_Put(&x, 1, MPI_INT64_T, target, -1, 1, MPI_INT64_T, win));
    FAILS(MPI_ERR_RMA_RANGE, MPI_Get(&old, 1, MPI_INT64_T, target, bytes - 7, 1, MPI_INT64_T, win));
    FAILS(MPI_ERR_RMA_RANGE, MPI_Put(&x, 2, MPI_INT64_T, target, bytes - 8, 2, MPI_INT64_T, win));
    FAILS(MPI_ERR_RMA_RANGE,
        MPI_Fetch_and_op(&x, &old, MPI_INT64_T, target, INT64_MAX / 2, MPI_SUM, win));
    FAILS(MPI_ERR_RMA_RANGE, MPI_Compare_and_swap(&x, &x, &old, MPI_INT64_T, target, bytes, win));
    FAILS(MPI_ERR_RANK, MPI_Put(&x, 1, MPI_INT64_T, n, 0, 1, MPI_INT64_T, win));
    FAILS(MPI_ERR_COUNT, MPI_Put(&x, -1, MPI_INT64_T, target, 0, -1, MPI_INT64_T, win));
    EQUAL(3, old);
}

static void operations(void)
{
    const int rc = MPI_Win_lock_all(0, win);
    for (int round = 0; rc == MPI_SUCCESS && round < 2; round++) { /* the first may be messages */
        numbers();
        swaps();
        items();
        mistakes();
    }
    if (rc == MPI_SUCCESS)
        OK(MPI_Win_unlock_all(win));
    else /* several teams */
        FAILS(MPI_ERR_UNSUPPORTED_OPERATION, rc);
}

/* flavor: of MPI_Win_allocate, or of MPI_Win_allocate_shared. */
static void on_window(int flavor)
{
    const MPI_Aint bytes = (MPI_Aint)sizeof *mine * WORDS * n;
    int *is, flag, rc;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    if (flavor == MPI_WIN_FLAVOR_ALLOCATE)
        rc = MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, (void *)&mine, &win);
    else
        rc = MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, (void *)&mine, &win);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    if (rc == MPI_ERR_UNSUPPORTED_OPERATION && flavor == MPI_WIN_FLAVOR_SHARED)
        return; /* several teams, or a mode that does not record decisions */
    OK(rc);
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, (void *)&is, &flag));
    TRUE(flag && *is == flavor);
    memset(mine, 0, (size_t)bytes);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    operations();
    OK(MPI_Win_free(&win));
}

static void body(void)
{
    target = (me + 1) % n;
    on_window(MPI_WIN_FLAVOR_ALLOCATE);
    on_window(MPI_WIN_FLAVOR_SHARED);
}

int main(int argc, char **argv)
{
    return conform(argc, argv, body);
}
