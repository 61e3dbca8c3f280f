/* Lists of ranks in words.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
/* after those, on which it builds */
#include <cmocka.h>

#include "core/ranks.h"

/* in: a digit for each rank */
static void is(const char *in, size_t bytes, const char *want)
{
    int flags[64];
    char text[200];
    int n = (int)strlen(in), all = 0;
    for (int r = 0; r < n; r++)
        all += flags[r] = in[r] != '0';
    memset(text, 'x', sizeof text);
    assert_int_equal(ftk_ranks_text(flags, n, text, bytes), all);
    assert_string_equal(text, want);
    assert_true(strlen(text) < bytes);
}

static void words(void **state)
{
    (void)state;
    is("", 100, "no rank");
    is("0000", 100, "no rank");
    is("0001", 100, "rank 3");
    is("11", 100, "ranks 0 and 1");
    is("110001", 100, "ranks 0, 1 and 5");
    is("1111111100001", 100, "ranks 0-7 and 12");
    is("111", 100, "ranks 0-2");
    is("0111011", 100, "ranks 1-3, 5 and 6");
    is("1011100111", 100, "ranks 0, 2-4 and 7-9");
}

static void long_ones(void **state)
{
    (void)state;
    is("1010101010101010", 48, "ranks 0, 2 and 6 more");
    is("1010101010101010", 100, "ranks 0, 2, 4, 6, 8, 10, 12 and 14");
    is("1010101010101010101010101010101010101010", 64, "ranks 0, 2, 4, 6, 8, 10, 12 and 13 more");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(words), cmocka_unit_test(long_ones) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
