/* Arrays that grow: contents, room, and no memory (core/grow.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/grow.h"

enum { MANY = 1000 };

static void keeps_items(void **state)
{
    (void)state;
    size_t *v = NULL, room = 0, grown = 0;
    for (size_t n = 0; n < MANY; n++) {
        const size_t before = room;
        assert_true(ftk_grow(&v, &room, n + 1, sizeof *v));
        assert_true(room > n);
        assert_true(room == before || n == before); /* only a full array grows */
        grown += room != before;
        v[n] = 3 * n;
    }
    for (size_t n = 0; n < MANY; n++)
        assert_int_equal(v[n], 3 * n);
    assert_int_equal(grown, 8); /* 8, 16 .. 1024 */
    free(v);
}

static void jumps(void **state)
{
    (void)state;
    char(*v)[3] = NULL;
    size_t room = 0;
    assert_true(ftk_grow(&v, &room, MANY, sizeof *v));
    assert_int_equal(room, 1024);
    v[MANY - 1][2] = 'x';
    assert_true(ftk_grow(&v, &room, 1025, sizeof *v));
    assert_int_equal(room, 2048);
    assert_int_equal(v[MANY - 1][2], 'x');
    free(v);
}

static void by_one(void **state)
{
    (void)state;
    uint32_t *v = NULL;
    for (size_t n = 0; n < MANY; n++) {
        const uint32_t *before = v;
        assert_true(ftk_grow_by_one(&v, n, sizeof *v));
        assert_true(v == before || (n & (n - 1)) == 0); /* the room is a power of two */
        v[n] = (uint32_t)n;
    }
    for (size_t n = 0; n < MANY; n++)
        assert_int_equal(v[n], n);
    free(v);
}

/* A size that no machine has.  The address sanitizer ends the process where malloc() returns
 * NULL. */
#ifdef __SANITIZE_ADDRESS__
#define TOO_MUCH SIZE_MAX
#else
#define TOO_MUCH (SIZE_MAX / 16)
#endif

/* The array and its room are as before. */
static void no_memory(void **state)
{
    (void)state;
    uint64_t *v = NULL, *before;
    size_t room = 0;
    assert_true(ftk_grow(&v, &room, 1, sizeof *v));
    v[0] = 7;
    before = v;
    const size_t needs[] = { SIZE_MAX, SIZE_MAX / 2 + 2, SIZE_MAX / sizeof *v + 1, TOO_MUCH };
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
        assert_false(ftk_grow(&v, &room, needs[i], sizeof *v));
        assert_int_equal(room, 8);
        assert_ptr_equal(v, before);
        assert_int_equal(v[0], 7);
    }
    assert_false(ftk_grow_by_one(&v, SIZE_MAX / 2 + 1, sizeof *v));
    assert_false(ftk_grow_by_one(&v, (SIZE_MAX / 2 + 1) / 8, sizeof *v));
    assert_ptr_equal(v, before);
    free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(keeps_items), cmocka_unit_test(jumps),
        cmocka_unit_test(by_one), cmocka_unit_test(no_memory) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
