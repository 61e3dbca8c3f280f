/* Teams with few bytes between them: exact sizes, groups that are found, never worse than blocks.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ftk.h"
#include "core/team_cut.h"

enum { RANKS_MAX = 64, GRAPHS = 300 };

static struct ftk_pair pairs[RANKS_MAX * RANKS_MAX];

static uint64_t cut_of(const struct ftk_team_cut *c, const int *team)
{
    return ftk_team_cut_between(c->pairs, c->npairs, team).bytes;
}

/* The sizes differ by a unit at most, and units stay whole. */
static void check_sizes(const struct ftk_team_cut *c, const int *team)
{
    int units[RANKS_MAX] = { 0 }, n = ftk_team_cut_units(c->n, c->per_unit);
    for (int r = 0; r < c->n; r++) {
        assert_in_range(team[r], 0, c->k - 1);
        assert_int_equal(team[r], team[r - r % c->per_unit]);
        units[team[r]] += r % c->per_unit == 0;
    }
    for (int t = 0; t < c->k; t++)
        assert_in_range(units[t], n / c->k, n / c->k + (n % c->k != 0));
}

static void make(const struct ftk_team_cut *c, int *team)
{
    assert_int_equal(FTKIT_OK, ftk_team_cut_make(c, team));
    check_sizes(c, team);
}

/* Groups of 4 in an order that no rule of ranks shows, with a weak ring through all. */
static void t_groups(void **state)
{
    int order[RANKS_MAX], group[RANKS_MAX], team[RANKS_MAX];
    (void)state;
    srand(7);
    for (int n = 8; n <= RANKS_MAX; n += 8) {
        struct ftk_team_cut c = { .n = n, .per_unit = 1, .k = n / 4, .pairs = pairs };
        for (int r = 0; r < n; r++)
            order[r] = r;
        for (int r = n - 1; r > 0; r--) {
            int q = rand() % (r + 1), o = order[r];
            order[r] = order[q];
            order[q] = o;
        }
        for (int r = 0; r < n; r++)
            group[order[r]] = r / 4;
        for (int a = 0; a < n; a++)
            for (int b = 0; b < n; b++)
                if (a != b && (group[a] == group[b] || b == (a + 1) % n))
                    pairs[c.npairs++] =
                        (struct ftk_pair){ a, b, 1, group[a] == group[b] ? 4096 : 64 };
        make(&c, team);
        assert_int_equal(cut_of(&c, group), cut_of(&c, team));
    }
}

/* The least cut of all divisions into two teams of these sizes. */
static uint64_t least(const struct ftk_team_cut *c)
{
    uint64_t best = UINT64_MAX;
    int team[RANKS_MAX];
    for (unsigned mask = 0; mask < 1u << c->n; mask++) {
        int in = 0;
        for (int r = 0; r < c->n; r++) {
            team[r] = mask >> r & 1 ? 0 : 1;
            in += team[r] == 0;
        }
        if (in == (c->n + 1) / 2 && cut_of(c, team) < best)
            best = cut_of(c, team);
    }
    return best;
}

/* Random graphs: never worse than blocks; for small ones mostly the best that there is. */
static void t_random(void **state)
{
    int team[RANKS_MAX], block[RANKS_MAX], optimal = 0;
    (void)state;
    srand(41);
    for (int i = 0; i < GRAPHS; i++) {
        struct ftk_team_cut c = { .n = 4 + rand() % 7, .per_unit = 1, .k = 2, .pairs = pairs };
        for (int a = 0; a < c.n; a++)
            for (int b = 0; b < c.n; b++)
                if (a != b && rand() % 3 == 0)
                    pairs[c.npairs++] = (struct ftk_pair){ a, b, 1, (uint64_t)(rand() % 1000) };
        for (int r = 0; r < c.n; r++)
            block[r] = r >= (c.n + 1) / 2;
        make(&c, team);
        const uint64_t cut = cut_of(&c, team), best = least(&c);
        assert_true(cut <= cut_of(&c, block));
        assert_true(cut >= best);
        optimal += cut == best;
    }
    assert_in_range(optimal, GRAPHS * 9 / 10, GRAPHS);
}

/* Units of several ranks stay together, and the last one may be smaller. */
static void t_units(void **state)
{
    int team[RANKS_MAX];
    (void)state;
    struct ftk_team_cut c = { .n = 22, .per_unit = 4, .k = 3, .pairs = pairs };
    for (int r = 0; r < c.n; r++) /* units 0 and 3, 1 and 4, 2 and 5 */
        if (r + 12 < c.n)
            pairs[c.npairs++] = (struct ftk_pair){ r, r + 12, 1, 100 };
    make(&c, team);
    assert_int_equal(0, cut_of(&c, team));
    assert_int_equal(6, ftk_team_cut_units(22, 4));
    assert_int_equal(3, ftk_team_cut_teams(22, 4, 8));
    assert_int_equal(2, ftk_team_cut_teams(22, 4, 12));
    assert_int_equal(6, ftk_team_cut_teams(22, 4, 4));
    assert_int_equal(1, ftk_team_cut_teams(22, 4, 24));
}

/* Nothing to choose: no messages, one team, teams of one rank. */
static void t_ends(void **state)
{
    int team[RANKS_MAX];
    (void)state;
    struct ftk_team_cut c = { .n = 6, .per_unit = 1, .k = 2, .pairs = pairs };
    make(&c, team);
    for (int r = 0; r < c.n; r++)
        assert_int_equal(r / 3, team[r]);
    pairs[0] = (struct ftk_pair){ 0, 5, 1, 10 };
    c.npairs = 1;
    c.k = 1;
    make(&c, team);
    c.k = 6;
    make(&c, team);
    for (int r = 0; r < c.n; r++)
        assert_int_equal(r, team[r]);
    const atomic_bool stop = true;
    c.k = 2;
    c.stop = &stop;
    assert_int_equal(FTKIT_ERR_STATE, ftk_team_cut_make(&c, team));
    c.npairs = ((size_t)1 << 28) + 1;
    assert_int_equal(FTKIT_ERR_ARG, ftk_team_cut_make(&c, team));
}

static int all_in_one(const struct ftk_team_graph *g, int attempt, int *part)
{
    memset(part, 0, (size_t)g->n * sizeof *part);
    return attempt == 0 ? FTKIT_OK : ftk_fail(FTKIT_ERR_INTERNAL, "asked too often");
}

/* What the caller's function divides badly is made exact; its error is an error. */
static void t_divide(void **state)
{
    int team[RANKS_MAX];
    (void)state;
    struct ftk_team_cut c = { .n = 9,
        .per_unit = 1,
        .k = 3,
        .pairs = pairs,
        .npairs = 2,
        .divide = all_in_one,
        .attempts = 1 };
    pairs[0] = (struct ftk_pair){ 0, 8, 1, 10 };
    pairs[1] = (struct ftk_pair){ 1, 7, 1, 10 };
    make(&c, team);
    assert_int_equal(0, cut_of(&c, team));
    c.attempts = 2;
    assert_int_equal(FTKIT_ERR_INTERNAL, ftk_team_cut_make(&c, team));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_groups),
        cmocka_unit_test(t_random),
        cmocka_unit_test(t_units),
        cmocka_unit_test(t_ends),
        cmocka_unit_test(t_divide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
