/* Records of nodes become failures of the machine.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
/* after those, on which it builds */
#include <cmocka.h>

#include "model/coalesce.h"

#define HOUR 3600.0

static void is_record(const struct ftk_coalesce_record *r, double at_s, int node)
{
    assert_true(r->at_s >= at_s && r->at_s <= at_s);
    assert_int_equal(r->node, node);
}

static void is_failure(const struct ftk_coalesce_failure *f, double at_s, int nodes, double repair)
{
    assert_true(f->at_s >= at_s && f->at_s <= at_s);
    assert_true(f->repair_s >= repair && f->repair_s <= repair);
    assert_int_equal(f->nodes, nodes);
}

/* The window begins with the last record that counts, not with one that was dropped. */
static void same_node(void **state)
{
    struct ftk_coalesce_record v[] = { { 9 * HOUR, 1, 3 }, { 0, 1, 3 }, { 5 * HOUR, 1, 3 },
        { 6 * HOUR, 1, 3 }, { 7 * HOUR, 1, 4 }, { 12.5 * HOUR, 1, 4 }, { 13.5 * HOUR, 1, 4 } };
    (void)state;
    assert_int_equal(ftk_coalesce_same_node(v, 7, 6 * HOUR), 4);
    is_record(&v[0], 0, 3);
    is_record(&v[1], 7 * HOUR, 4);
    is_record(&v[2], 9 * HOUR, 3);
    is_record(&v[3], 13.5 * HOUR, 4);
}

static void no_window(void **state)
{
    struct ftk_coalesce_record v[] = { { 2, 1, 3 }, { 1, 1, 3 }, { 1, 1, 2 }, { 1, 1, 3 } };
    (void)state;
    assert_int_equal(ftk_coalesce_same_node(v, 0, 0), 0);
    assert_int_equal(ftk_coalesce_same_node(v, 4, 0), 3); /* the same twice is one */
    is_record(&v[0], 1, 2);
    is_record(&v[1], 1, 3);
    is_record(&v[2], 2, 3);
}

/* Less than a minute after the first, not after the last. */
static void together(void **state)
{
    struct ftk_coalesce_record v[] = { { 0, 5, 1 }, { 59, 7, 2 }, { 60, -1, 3 }, { 90, -1, 3 },
        { 119, -1, 4 }, { 500, 2, 1 } };
    struct ftk_coalesce_failure f[6];
    (void)state;
    assert_int_equal(ftk_coalesce_together(v, 6, 60, f), 3);
    is_failure(&f[0], 0, 2, 7);
    is_failure(&f[1], 60, 2, -1); /* node 3 twice */
    is_failure(&f[2], 500, 1, 2);
}

static void same_time(void **state)
{
    struct ftk_coalesce_record v[] = { { 0, 5, 1 }, { 0, 6, 7 }, { 1, 1, 2 } };
    struct ftk_coalesce_failure f[3];
    (void)state;
    assert_int_equal(ftk_coalesce_together(v, 0, 0, f), 0);
    assert_int_equal(ftk_coalesce_together(v, 3, 0, f), 2);
    is_failure(&f[0], 0, 2, 6);
    is_failure(&f[1], 1, 1, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(same_node), cmocka_unit_test(no_window),
        cmocka_unit_test(together), cmocka_unit_test(same_time) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
