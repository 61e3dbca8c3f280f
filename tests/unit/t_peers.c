/* The table of other ranks: memory by partners, and not by ranks.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _DEFAULT_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/ftk.h"
#include "log/base/part.h"

enum { MANY = 1000000 };

/* Pages of the table that are in memory. */
static size_t pages_in_memory(size_t *all)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t bytes = ((size_t)ftk_peers.n + 1) * sizeof(struct ftk_peer);
    size_t used = 0;
    *all = (bytes + page - 1) / page;
    unsigned char *v = malloc(*all);
    assert_non_null(v);
    assert_int_equal(mincore(ftk_peers.at, bytes, v), 0);
    for (size_t i = 0; i < *all; i++)
        used += v[i] & 1;
    free(v);
    return used;
}

static void memory_by_partners(void **state)
{
    (void)state;
    size_t all;
    for (int partners = 1; partners <= 100; partners *= 10) {
        assert_int_equal(ftk_part_peers.open(MANY), FTKIT_OK);
        for (int i = 0; i < partners; i++)
            ftk_peer(i * (MANY / partners))->count[FTK_COUNT_PROGRAM].sent += 2;
        assert_int_equal(ftk_peers_count(), partners);
        const size_t used = pages_in_memory(&all);
        assert_in_range(used, 1, (size_t)2 * (size_t)partners + 1); /* an entry may cross a page */
        assert_true(all > 20000);
        assert_true((size_t)ftk_peers.room * sizeof *ftk_peers.list < 1000);
        ftk_part_peers.close();
        assert_int_equal(ftk_peers_count(), 0); /* as a spare, which has no table */
    }
}

static void partners_in_order(void **state)
{
    (void)state;
    static const int want[] = { 0, 3, 17, 18, 40, 99 }, order[] = { 40, 3, 99, 0, 18, 3, 17, 40 };
    assert_int_equal(ftk_part_peers.open(100), FTKIT_OK);
    assert_int_equal(ftk_peers_count(), 0);
    assert_int_equal(sizeof(struct ftk_peer), 144); /* as docs/design/scaling.md says */
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        ftk_peer(order[i])->count[FTK_COUNT_PROGRAM].received++;
    assert_int_equal(ftk_peers_count(), 6);
    for (int i = 0; i < 6; i++)
        assert_int_equal(ftk_peers_rank(i), want[i]);
    assert_int_equal(ftk_peer(3)->count[FTK_COUNT_PROGRAM].received, 2);
    assert_int_equal(ftk_peers.at[4].count[FTK_COUNT_PROGRAM].received, 0);
    assert_int_equal(ftk_peers_count(), 6);
    ftk_part_peers.close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_by_partners),
        cmocka_unit_test(partners_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
