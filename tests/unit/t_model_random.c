/* Random numbers for models: the same bits everywhere, and the laws that they promise.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* after those, on which it builds */
#include <cmocka.h>

#include "model/random.h"

enum { DRAWS = 1000000 };

static struct ftk_random seeded(uint64_t seed)
{
    struct ftk_random r;
    ftk_random_seed(&r, seed, FTK_RANDOM_GAPS);
    return r;
}

static void near(double is, double want, double tolerance)
{
    if (!(fabs(is - want) <= tolerance))
        fail_msg("%.17g is not %.17g +- %g", is, want, tolerance);
}

/* Within four standard errors of the mean of DRAWS numbers. */
static void is_mean(double sum, double mean, double deviation)
{
    near(sum / DRAWS, mean, 4 * deviation / sqrt(DRAWS));
}

/* From the bit patterns of the first draws. */
static void same_bits(void **state)
{
    struct ftk_random r = seeded(1);
    double table[1024], v[10];
    (void)state;
    ftk_random_zipf_table(5.4, 1024, table);
    v[0] = ftk_random_unit(&r);
    v[1] = ftk_random_normal(&r);
    v[2] = ftk_random_exponential(&r, 3);
    v[3] = ftk_random_weibull(&r, 0.7, 28800);
    v[4] = ftk_random_lognormal(&r, 3600, 1.2);
    v[5] = ftk_random_geometric(&r, 0.1);
    v[6] = ftk_random_zipf(&r, table, 1024);
    v[7] = table[0];
    v[8] = ftk_random_log(10);
    v[9] = ftk_random_exp(-20.5);
    static const double want[10] = { 0x1.deebac5433753p-1, 0x1.7087cfa85206ep-2,
        0x1.5e281f54e5622p+1, 0x1.6e27799cff503p+16, 0x1.99281251977b6p+11, 5, 1,
        0x1.f2730ae2ab23ap-1, 0x1.26bb1bbb55516p+1, 0x1.57a3afeed00acp-30 };
    for (int i = 0; i < 10; i++) {
        if (memcmp(&v[i], &want[i], sizeof v[i]) != 0)
            fail_msg("number %d is %a, not %a", i, v[i], want[i]);
    }
    r = seeded(1);
    uint64_t all = 0;
    for (int i = 0; i < DRAWS; i++)
        all ^= ftk_random_bits(&r) + (uint64_t)i;
    assert_int_equal(all, 8556033043253393035U);
}

/* As those of the C library, within what random.h says. */
static void functions(void **state)
{
    (void)state;
    for (double x = 1e-300; x < 1e300; x *= 1.37)
        near(ftk_random_log(x), log(x), 1e-15 * fabs(log(x)));
    for (double x = 0.5; x < 2; x += 0.00037)
        near(ftk_random_log(x), log(x), 1e-15 * fabs(log(x)));
    for (double x = -700; x < 700; x += 0.137)
        near(ftk_random_exp(x) / exp(x), 1, 1e-15 * fmax(1, fabs(x)));
    near(ftk_random_log(1), 0, 0);
    near(ftk_random_exp(0), 1, 0);
    near(ftk_random_exp(-800), 0, 0);
    assert_true(isinf(ftk_random_exp(800)));
}

static void streams(void **state)
{
    struct ftk_random r[4];
    (void)state;
    ftk_random_seed(&r[0], 7, FTK_RANDOM_GAPS);
    ftk_random_seed(&r[1], 7, FTK_RANDOM_SIZES);
    ftk_random_seed(&r[2], 8, FTK_RANDOM_GAPS);
    ftk_random_seed(&r[3], 7, FTK_RANDOM_GAPS);
    uint64_t a = ftk_random_bits(&r[0]);
    assert_int_not_equal(a, ftk_random_bits(&r[1]));
    assert_int_not_equal(a, ftk_random_bits(&r[2]));
    assert_int_equal(a, ftk_random_bits(&r[3]));
}

static void continuous(void **state)
{
    struct ftk_random r = seeded(3);
    double unit = 0, normal = 0, square = 0, gap = 0, weibull = 0, repair = 0;
    (void)state;
    for (int i = 0; i < DRAWS; i++) {
        double u = ftk_random_unit(&r), z = ftk_random_normal(&r);
        assert_true(u > 0 && u < 1);
        unit += u;
        normal += z;
        square += z * z;
        gap += ftk_random_exponential(&r, 5);
        weibull += ftk_random_weibull(&r, 2, 3);
        repair += log(ftk_random_lognormal(&r, 10, 1.5));
    }
    is_mean(unit, 0.5, sqrt(1 / 12.0));
    is_mean(normal, 0, 1);
    is_mean(square, 1, sqrt(2));
    is_mean(gap, 5, 5);
    is_mean(weibull, 3 * tgamma(1.5), 3 * sqrt(1 - pow(tgamma(1.5), 2)));
    is_mean(repair, log(10), 1.5);
}

static void whole(void **state)
{
    struct ftk_random r = seeded(4);
    double table[3], below[3] = { 0 }, zipf[3] = { 0 }, geometric = 0;
    (void)state;
    ftk_random_zipf_table(1, 3, table); /* 6/11, 3/11, 2/11 */
    near(table[2], 1, 0);
    for (int i = 0; i < DRAWS; i++) {
        below[ftk_random_below(&r, 3)]++;
        zipf[ftk_random_zipf(&r, table, 3) - 1]++;
        geometric += ftk_random_geometric(&r, 0.25);
    }
    for (int i = 0; i < 3; i++) {
        double p = 6.0 / 11 / (i + 1);
        is_mean(below[i], 1 / 3.0, sqrt(2 / 9.0));
        is_mean(zipf[i], p, sqrt(p * (1 - p)));
    }
    is_mean(geometric, 4, sqrt(12));
    assert_int_equal(ftk_random_geometric(&r, 1), 1);
    assert_int_equal(ftk_random_geometric(&r, 1e-15), INT_MAX);
    assert_int_equal(ftk_random_below(&r, 1), 0);
    assert_int_equal(ftk_random_zipf(&r, table, 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(same_bits), cmocka_unit_test(functions),
        cmocka_unit_test(streams), cmocka_unit_test(continuous), cmocka_unit_test(whole) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
