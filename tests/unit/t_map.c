/* Who keeps whose copy: exact numbers of the failures that each map survives.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "store/map.h"

#define MAX_RANKS 512

static int domain[MAX_RANKS];
static int holder[MAX_RANKS];

/* One rank in each of n domains. */
static void map_singles(int map, int n)
{
    for (int r = 0; r < n; r++)
        domain[r] = r;
    assert_int_equal(ftk_map_buddies(map, n, domain, holder), 0);
}

/* ---- Pairs of failures --------------------------------------------------------------- */

/* Of all pairs of failed ranks, those that take a segment and its copy. */
static int lost_pairs(int n)
{
    int lost = 0;
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++)
            lost += holder[a] == b || holder[b] == a;
    return lost;
}

static void two_failures_pair(void **state)
{
    (void)state;
    for (int n = 4; n <= 64; n++) {
        map_singles(FTK_MAP_PAIR, n);
        int lost = lost_pairs(n), all = n * (n - 1) / 2;
        assert_int_equal(lost, n % 2 == 0 ? n / 2 : (n + 3) / 2);
        if (n % 2 == 0) /* (n-2)/(n-1) of all survive */
            assert_int_equal((all - lost) * (n - 1), all * (n - 2));
    }
}

static void two_failures_ring(void **state)
{
    (void)state;
    for (int n = 4; n <= 64; n++) {
        map_singles(FTK_MAP_RING, n);
        int lost = lost_pairs(n), all = n * (n - 1) / 2;
        assert_int_equal(lost, n);
        assert_int_equal((all - lost) * (n - 1), all * (n - 3));
    }
}

/* ---- Given maps ---------------------------------------------------------------------- */

static void check_map(int map, int n, const int *domains, int own, const int *want)
{
    memset(holder, 0x7f, sizeof holder);
    assert_int_equal(ftk_map_buddies(map, n, domains, holder), own);
    for (int r = 0; r < n; r++)
        if (holder[r] != want[r])
            fail_msg(
                "map %d, %d ranks: rank %d is kept by %d, not %d", map, n, r, holder[r], want[r]);
    assert_int_equal(holder[n], 0x7f7f7f7f);
}

#define CHECK_MAP(map, own, domains, ...)                                                          \
    check_map((map), (int)(sizeof(domains) / sizeof((domains)[0])), (domains), (own),              \
        (const int[]){ __VA_ARGS__ })

static void small_maps(void **state)
{
    (void)state;
    const int two[] = { 0, 1 }, three[] = { 7, 8, 9 }, five[] = { 5, 4, 3, 2, 1 };
    CHECK_MAP(FTK_MAP_PAIR, 0, two, 1, 0);
    CHECK_MAP(FTK_MAP_RING, 0, two, 1, 0);
    CHECK_MAP(FTK_MAP_PAIR, 0, three, 1, 2, 0);
    CHECK_MAP(FTK_MAP_RING, 0, three, 1, 2, 0);
    /* the odd one out joins the last pair; domains come in the order of their ranks */
    CHECK_MAP(FTK_MAP_PAIR, 0, five, 1, 0, 3, 4, 2);
    CHECK_MAP(FTK_MAP_RING, 0, five, 1, 2, 3, 4, 0);
    /* any numbers, in any order: ranks 0 2 | 1 4 | 3 5 */
    const int mixed[] = { INT_MAX, INT_MIN, INT_MAX, -1, INT_MIN, -1 };
    CHECK_MAP(FTK_MAP_PAIR, 0, mixed, 1, 3, 4, 0, 5, 2);
    /* unequal: ranks 0 1 2 3 | 4 5, in turn to 4 and 5 */
    const int unequal[] = { 1, 1, 1, 1, 2, 2 };
    CHECK_MAP(FTK_MAP_PAIR, 0, unequal, 4, 5, 4, 5, 0, 1);
}

/* Without a second domain the copies survive a process, and the map says so. */
static void one_domain(void **state)
{
    (void)state;
    const int one[] = { 3 }, two[] = { 3, 3 }, three[] = { 3, 3, 3 };
    const int four[] = { 3, 3, 3, 3 }, five[] = { 3, 3, 3, 3, 3 };
    CHECK_MAP(FTK_MAP_PAIR, 1, one, -1);
    CHECK_MAP(FTK_MAP_RING, 1, one, -1);
    CHECK_MAP(FTK_MAP_PAIR, 2, two, 1, 0);
    CHECK_MAP(FTK_MAP_PAIR, 3, three, 1, 2, 0);
    CHECK_MAP(FTK_MAP_PAIR, 4, four, 1, 0, 3, 2);
    CHECK_MAP(FTK_MAP_PAIR, 5, five, 1, 0, 3, 4, 2);
    CHECK_MAP(FTK_MAP_RING, 4, four, 1, 2, 3, 0);
    CHECK_MAP(FTK_MAP_RING, 5, five, 1, 2, 3, 4, 0);
}

static void four_by_four(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        int map = way % 2 ? FTK_MAP_RING : FTK_MAP_PAIR;
        bool cyclic = way / 2; /* ranks dealt round the domains, or in blocks */
        int load[16] = { 0 };
        for (int r = 0; r < 16; r++)
            domain[r] = cyclic ? r % 4 : r / 4;
        assert_int_equal(ftk_map_buddies(map, 16, domain, holder), 0);
        for (int r = 0; r < 16; r++) {
            load[holder[r]]++;
            int next = map == FTK_MAP_RING ? (domain[r] + 1) % 4 : domain[r] ^ 1;
            assert_int_equal(domain[holder[r]], next);
            /* the j-th goes to the j-th */
            assert_int_equal(cyclic ? holder[r] / 4 : holder[r] % 4, cyclic ? r / 4 : r % 4);
        }
        for (int r = 0; r < 16; r++)
            assert_int_equal(load[r], 1);
    }
}

/* ---- Any domains --------------------------------------------------------------------- */

static uint64_t seed;

static int rnd(int n) /* 0..n-1; splitmix64 */
{
    uint64_t z = seed += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (int)((z ^ z >> 31) % (uint64_t)n);
}

/* Number of domains in use among 0..ndomains-1, and the size of each. */
static int measure(int n, int ndomains, int *size)
{
    int used = 0;
    memset(size, 0, (size_t)ndomains * sizeof *size);
    for (int r = 0; r < n; r++)
        used += size[domain[r]]++ == 0;
    return used;
}

/* Every domain gives to one other, and every holder gets its fair part of that. */
static void check_load(int n, int ndomains, const int *size)
{
    for (int d = 0; d < ndomains; d++) {
        int load[MAX_RANKS] = { 0 };
        int to = -1;
        for (int r = 0; r < n; r++) {
            if (domain[r] != d)
                continue;
            assert_true(holder[r] >= 0 && holder[r] < n);
            assert_true(to == -1 || to == domain[holder[r]]);
            to = domain[holder[r]];
            load[holder[r]]++;
        }
        for (int r = 0; r < n && to >= 0; r++) {
            if (domain[r] != to)
                continue;
            assert_true(load[r] <= (size[d] + size[to] - 1) / size[to]);
            assert_true(load[r] >= size[d] / size[to]);
        }
    }
}

/* Ranks whose segment and copy both go when domain d does. */
static int lost_with(int n, int d)
{
    int lost = 0;
    for (int r = 0; r < n; r++)
        lost += domain[r] == d && domain[holder[r]] == d;
    return lost;
}

static void random_domains(void **state)
{
    (void)state;
    int size[64];
    seed = 3;
    for (int i = 0; i < 4000; i++) {
        int n = 2 + rnd(i % 10 == 0 ? MAX_RANKS - 2 : 60);
        int ndomains = 2 + rnd(i % 3 == 0 ? 2 : 62);
        int skew = 1 + rnd(4); /* the more, the more unequal */
        for (int r = 0; r < n; r++) {
            domain[r] = rnd(ndomains);
            for (int k = 1; k < skew; k++)
                domain[r] = rnd(domain[r] + 1);
        }
        int used = measure(n, ndomains, size);
        int map = rnd(2) ? FTK_MAP_PAIR : FTK_MAP_RING;
        assert_int_equal(ftk_map_buddies(map, n, domain, holder), used == 1 ? n : 0);
        for (int r = 0; r < n; r++) {
            assert_int_not_equal(holder[r], r);
            assert_true(used == 1 || domain[holder[r]] != domain[r]);
        }
        if (used == 1)
            continue;
        check_load(n, ndomains, size);
        for (int d = 0; d < ndomains; d++)
            assert_int_equal(lost_with(n, d), 0);
    }
}

/* Groups of every size for every way to spread ranks: nobody with a neighbour. */
static void groups(void **state)
{
    (void)state;
    for (int n = 1; n <= 70; n++) {
        for (int per_node = 1; per_node <= 5; per_node++) {
            for (int size = 2; size <= 32; size += 3) {
                int where[70], group[70], count[70] = { 0 };
                for (int r = 0; r < n; r++)
                    where[r] = 500 - r / per_node * 7;
                int ngroups = ftk_map_groups(size, n, where, group);
                bool alone = n <= per_node;
                int most = 0, least = n;
                for (int r = 0; r < n; r++) {
                    assert_in_range(group[r], 0, ngroups - 1);
                    count[group[r]]++;
                    for (int q = 0; q < r && !alone; q++)
                        assert_false(group[q] == group[r] && where[q] == where[r]);
                }
                for (int g = 0; g < ngroups; g++) {
                    most = count[g] > most ? count[g] : most;
                    least = count[g] < least ? count[g] : least;
                }
                assert_true(most <= size && most - least <= 1);
                int enough = (n + size - 1) / size;
                assert_int_equal(ngroups, !alone && per_node > enough ? per_node : enough);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_failures_pair),
        cmocka_unit_test(two_failures_ring),
        cmocka_unit_test(small_maps),
        cmocka_unit_test(one_domain),
        cmocka_unit_test(four_by_four),
        cmocka_unit_test(random_domains),
        cmocka_unit_test(groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
