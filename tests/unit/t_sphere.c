/* Which replica of a rank is odd, from the sums of the regions.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
/* after those, on which it builds */
#include <cmocka.h>

#include "replica/compare.h"

enum { REGIONS = 3 };

static bool majority = true;

/* sums, sizes: a letter for each region of each plane, such as "abc abc abd" */
static struct ftk_comparison decide(const char *sums, const char *sizes, int *odd)
{
    uint64_t sum[3 * REGIONS], bytes[3 * REGIONS];
    struct ftk_comparison c;
    const int planes = (int)(strlen(sums) + 1) / (REGIONS + 1);
    for (int p = 0; p < planes; p++)
        for (int i = 0; i < REGIONS; i++) {
            sum[p * REGIONS + i] = (uint64_t)sums[p * (REGIONS + 1) + i];
            bytes[p * REGIONS + i] = (uint64_t)sizes[p * (REGIONS + 1) + i];
        }
    ftk_sphere_decide(sum, bytes, planes, majority, REGIONS, odd, &c);
    return c;
}

static void same(void **state)
{
    int odd[REGIONS];
    (void)state;
    assert_int_equal(decide("abc abc", "xyz xyz", odd).result, FTK_SPHERE_SAME);
    assert_int_equal(decide("abc abc abc", "xyz xyz xyz", odd).result, FTK_SPHERE_SAME);
    for (int i = 0; i < REGIONS; i++)
        assert_int_equal(odd[i], -1);
}

static void two_differ(void **state)
{
    int odd[REGIONS];
    (void)state;
    struct ftk_comparison c = decide("abc aDc", "xyz xyz", odd);
    assert_int_equal(c.result, FTK_SPHERE_DIFFERS);
    assert_int_equal(c.region, 1);
    assert_int_equal(c.plane, 1);
    assert_int_equal(c.sum[0], 'b');
    assert_int_equal(c.sum[1], 'D');
    assert_int_equal(odd[1], -1);
    c = decide("abc abc", "xyz xyw", odd); /* as equal sums of other sizes */
    assert_int_equal(c.result, FTK_SPHERE_DIFFERS);
    assert_int_equal(c.region, 2);
}

static void one_of_three_is_odd(void **state)
{
    static const char *const sums[] = { "abD abc abc", "abc abD abc", "abc abc abD" };
    int odd[REGIONS];
    (void)state;
    for (int p = 0; p < 3; p++) {
        struct ftk_comparison c = decide(sums[p], "xyz xyz xyz", odd);
        assert_int_equal(c.result, FTK_SPHERE_MENDED);
        assert_int_equal(c.region, 2);
        assert_int_equal(c.plane, p);
        assert_int_equal(c.sum[0], 'c');
        assert_int_equal(c.sum[1], 'D');
        assert_int_equal(odd[2], p);
        assert_int_equal(odd[0], -1);
    }
    /* other replicas are odd in other regions */
    struct ftk_comparison c = decide("Abc abc abD", "xyz xyz xyz", odd);
    assert_int_equal(c.result, FTK_SPHERE_MENDED);
    assert_int_equal(odd[0], 0);
    assert_int_equal(odd[1], -1);
    assert_int_equal(odd[2], 2);
}

static void no_majority(void **state)
{
    int odd[REGIONS];
    (void)state;
    struct ftk_comparison c = decide("abc aDc aEc", "xyz xyz xyz", odd);
    assert_int_equal(c.result, FTK_SPHERE_DIFFERS);
    assert_int_equal(c.region, 1);
    assert_int_equal(odd[1], -1);
    /* one region is clear, another is not: nothing is mended, and the unclear one is told */
    c = decide("Abc aDc aEc", "xyz xyz xyz", odd);
    assert_int_equal(c.result, FTK_SPHERE_DIFFERS);
    assert_int_equal(c.region, 1);
    /* the odd one has another size: its contents cannot be put in place */
    c = decide("abc abc abD", "xyz xyz xyw", odd);
    assert_int_equal(c.result, FTK_SPHERE_DIFFERS);
    assert_int_equal(c.region, 2);
}

/* A replica in a plane that stands still has a copy of the segment of its sibling. */
static void a_copy_is_no_witness(void **state)
{
    int odd[REGIONS];
    (void)state;
    majority = false;
    struct ftk_comparison c = decide("abc abD abc", "xyz xyz xyz", odd);
    majority = true;
    assert_int_equal(c.result, FTK_SPHERE_DIFFERS);
    assert_int_equal(c.region, 2);
    assert_int_equal(c.plane, 1);
    assert_int_equal(odd[2], -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(same), cmocka_unit_test(two_differ),
        cmocka_unit_test(one_of_three_is_odd), cmocka_unit_test(no_majority),
        cmocka_unit_test(a_copy_is_no_witness) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
