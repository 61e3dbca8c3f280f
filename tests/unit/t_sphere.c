/* Which replica of a rank is odd, from the sums of the regions.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
/* after those, on which it builds */
#include <cmocka.h>

#include "replica/compare_messages.h"

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

/* ---- messages ------------------------------------------------------------------------ */

static struct ftk_message message(int dest, int tag, uint64_t number, uint64_t hash)
{
    return (struct ftk_message){
        .dest = dest, .context = 1, .tag = tag, .number = number, .bytes = 8, .hash = hash
    };
}

static void messages(void **state)
{
    struct ftk_message a[4] = { message(0, 1, 1, 10), message(0, 1, 2, 20), message(0, 2, 1, 30),
        message(1, 1, 1, 40) };
    struct ftk_message b[4], x;
    uint64_t sum[2];
    (void)state;
    memcpy(b, a, sizeof b);
    assert_false(ftk_messages_differ(NULL, 0, NULL, 0, &x, sum));
    assert_false(ftk_messages_differ(a, 4, b, 4, &x, sum));
    b[1].hash = 21;
    b[3].hash = 41;
    assert_true(ftk_messages_differ(a, 4, b, 4, &x, sum));
    assert_int_equal(x.number, 2); /* the first difference */
    assert_int_equal(sum[0], 20);
    assert_int_equal(sum[1], 21);
    b[1].hash = 20;
    b[3] = a[3];
    b[2].bytes = 9;
    assert_true(ftk_messages_differ(a, 4, b, 4, &x, sum));
    assert_int_equal(x.tag, 2);
    /* a message that only one of them has sent: in the middle, and at the end */
    assert_true(ftk_messages_differ(a, 4, a + 1, 3, &x, sum));
    assert_int_equal(x.number, 1);
    assert_int_equal(sum[0], 10);
    assert_int_equal(sum[1], 0);
    assert_true(ftk_messages_differ(a, 3, a, 4, &x, sum));
    assert_int_equal(x.dest, 1);
    assert_int_equal(sum[0], 0);
    assert_int_equal(sum[1], 40);
}

static void messages_of_collectives(void **state)
{
    struct ftk_message a[3] = { message(0, 1, 1, 10), message(0, 1, 2, 20), message(1, 1, 1, 40) };
    struct ftk_message x;
    uint64_t sum[2];
    (void)state;
    a[0].collective = a[1].collective = 1;
    /* b has not come to the second message of the collective */
    struct ftk_message b[2] = { a[0], a[2] };
    assert_false(ftk_messages_differ(a, 3, b, 2, &x, sum));
    assert_false(ftk_messages_differ(b, 2, a, 3, &x, sum));
    b[0].hash++;
    assert_true(ftk_messages_differ(a, 3, b, 2, &x, sum));
    assert_int_equal(x.collective, 1);
    b[0].hash--;
    b[1].hash++;
    assert_true(ftk_messages_differ(b, 2, a, 3, &x, sum));
    assert_int_equal(x.dest, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(messages),
        cmocka_unit_test(messages_of_collectives), cmocka_unit_test(same),
        cmocka_unit_test(two_differ), cmocka_unit_test(one_of_three_is_odd),
        cmocka_unit_test(no_majority), cmocka_unit_test(a_copy_is_no_witness) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
