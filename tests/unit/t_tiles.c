/* Blocks of arrays: every overlap and every gap is found, and none is made up.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "core/ftk.h"
#include "set/tiles.h"

#define MAX_WORDS 250000

static uint64_t words[MAX_WORDS];
static int n, ndims;
static uint64_t global[FTKIT_DIMS_MAX];

static uint64_t *box(int k)
{
    return words + (size_t)k * 2 * (size_t)ndims;
}

static enum ftk_tiles_fault check(struct ftk_tiles_place *at)
{
    const struct ftk_tiles t = { n, ndims, 2 * (size_t)ndims, words };
    enum ftk_tiles_fault fault;
    assert_int_equal(ftk_tiles_check(&t, global, &fault, at), FTKIT_OK);
    return fault;
}

static bool has(int k, const uint64_t *cell)
{
    for (int d = 0; d < ndims; d++)
        if (cell[d] < box(k)[d] || cell[d] - box(k)[d] >= box(k)[ndims + d])
            return false;
    return true;
}

/* ---- Against counting each cell ---------------------------------------------------------- */

/* Cut a part of the array into blocks at random places. */
static void cut(const uint64_t *start, const uint64_t *len, int depth)
{
    int d = rand() % ndims;
    if (depth == 0 || len[d] < 2 || n >= 60) {
        memcpy(box(n), start, (size_t)ndims * sizeof *start);
        memcpy(box(n) + ndims, len, (size_t)ndims * sizeof *len);
        n++;
        return;
    }
    uint64_t s[FTKIT_DIMS_MAX], l[FTKIT_DIMS_MAX];
    uint64_t at = 1 + (uint64_t)rand() % (len[d] - 1);
    memcpy(s, start, sizeof s);
    memcpy(l, len, sizeof l);
    l[d] = at;
    cut(s, l, depth - 1);
    s[d] += at;
    l[d] = len[d] - at;
    cut(s, l, depth - 1);
}

/* The fault by counting; *missing: cells in no block. */
static enum ftk_tiles_fault count_cells(uint64_t *missing)
{
    uint64_t all = 1;
    bool twice = false;
    *missing = 0;
    for (int d = 0; d < ndims; d++)
        all *= global[d];
    for (uint64_t i = 0; i < all; i++) {
        uint64_t cell[FTKIT_DIMS_MAX], rest = i;
        int hits = 0;
        for (int d = ndims - 1; d >= 0; d--) {
            cell[d] = rest % global[d];
            rest /= global[d];
        }
        for (int k = 0; k < n; k++)
            hits += has(k, cell);
        *missing += hits == 0;
        twice = twice || hits > 1;
    }
    return twice ? FTK_TILES_OVERLAP : *missing > 0 ? FTK_TILES_GAP : FTK_TILES_EXACT;
}

/* Change one block, or take one away. */
static void spoil(void)
{
    uint64_t *b = box(rand() % n);
    const int d = rand() % ndims;
    switch (rand() % 4) {
    case 0:
        break;
    case 1: /* shorter */
        b[ndims + d] -= b[ndims + d] > 0;
        break;
    case 2: /* longer */
        b[ndims + d] += b[d] + b[ndims + d] < global[d];
        break;
    default: /* moved */
        b[d] -= b[d] > 0;
        break;
    }
}

static void as_counted(void **state)
{
    int seen[3] = { 0, 0, 0 };
    (void)state;
    srand(1);
    for (int round = 0; round < 3000; round++) {
        const uint64_t zero[FTKIT_DIMS_MAX] = { 0 };
        struct ftk_tiles_place at;
        uint64_t missing;
        ndims = 1 + round % 3;
        for (int d = 0; d < ndims; d++)
            global[d] = 1 + (uint64_t)rand() % (ndims == 1 ? 60 : 12);
        n = 0;
        cut(zero, global, 6);
        spoil();
        enum ftk_tiles_fault want = count_cells(&missing), got = check(&at);
        if (got != want)
            fail_msg("round %d: fault %d, not %d", round, got, want);
        seen[got]++;
        if (got == FTK_TILES_OVERLAP
            && (at.a >= at.b || !has(at.a, at.cell) || !has(at.b, at.cell)))
            fail_msg("round %d: blocks %d and %d do not overlap there", round, at.a, at.b);
        if (got == FTK_TILES_GAP)
            assert_int_equal(at.missing, missing);
        for (int k = 0; got == FTK_TILES_GAP && k < n; k++)
            if (has(k, at.cell))
                fail_msg("round %d: the cell is in block %d", round, k);
    }
    assert_true(seen[0] > 300 && seen[1] > 300 && seen[2] > 300);
}

/* ---- Many ranks ---------------------------------------------------------------------------- */

/* Of this process: other processes of the machine do not count. */
static double cpu_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* side x side x depth blocks; the time of one check in seconds. */
static double regular(int side, int depth)
{
    struct ftk_tiles_place at;
    ndims = 3;
    n = 0;
    global[0] = global[1] = 10 * (uint64_t)side;
    global[2] = 10 * (uint64_t)depth;
    for (int i = 0; i < side * side * depth; i++, n++) {
        uint64_t *b = box(n);
        b[0] = 10 * (uint64_t)(i % side);
        b[1] = 10 * (uint64_t)(i / side % side);
        b[2] = 10 * (uint64_t)(i / side / side);
        b[3] = b[4] = b[5] = 10;
    }
    double begin_s = cpu_s();
    assert_int_equal(check(&at), FTK_TILES_EXACT);
    double s = cpu_s() - begin_s;
    box(n / 2 + 1)[0]--;
    assert_int_equal(check(&at), FTK_TILES_OVERLAP);
    assert_int_equal(at.a, n / 2);
    assert_int_equal(at.b, n / 2 + 1);
    box(n / 2 + 1)[0]++;
    box(n - 1)[3]--;
    assert_int_equal(check(&at), FTK_TILES_GAP);
    assert_int_equal(at.missing, 100);
    return s;
}

static void many(void **state)
{
    (void)state;
    double small = regular(5, 20), middle = regular(10, 40), large = regular(50, 16);
    print_message("500 blocks %.2f ms, 4000 blocks %.2f ms, 40000 blocks %.2f ms\n", 1e3 * small,
        1e3 * middle, 1e3 * large);
    assert_true(large < 1000 * small); /* by n log n 140 times, by n^2 6400 times */
}

/* Sizes whose product exceeds 64 bits, empty blocks, the most dimensions. */
static void corners(void **state)
{
    struct ftk_tiles_place at;
    (void)state;
    ndims = 3;
    n = 1;
    for (int d = 0; d < 3; d++) {
        global[d] = UINT64_C(1) << 40;
        box(0)[d] = 0;
        box(0)[3 + d] = d == 0 ? 5 : UINT64_C(1) << 10;
    }
    assert_int_equal(check(&at), FTK_TILES_GAP);
    assert_false(has(0, at.cell));
    ndims = FTKIT_DIMS_MAX;
    n = 2;
    memset(words, 0, sizeof words);
    for (int d = 0; d < ndims; d++) {
        global[d] = 1;
        box(1)[ndims + d] = 1; /* the block of rank 0 is empty */
    }
    assert_int_equal(check(&at), FTK_TILES_EXACT);
    global[3] = 0;
    box(1)[ndims + 3] = 0;
    assert_int_equal(check(&at), FTK_TILES_EXACT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_counted),
        cmocka_unit_test(many),
        cmocka_unit_test(corners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
