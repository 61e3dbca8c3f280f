/* What teams that follow the communication log, beside random teams of the same size: TeamLB of
 * Meneses, PhD thesis, University of Illinois, 2013, sections 5.3 and 5.4.
 *
 *   t_team_share --table          prints the table of docs/log.md
 *
 * The thesis measures three programs of 256 ranks or cores: LBTest, BT of the NAS multi-zone
 * benchmarks, and Mol3D.  This test computes what these programs send.  Ranks have the order of the
 * program, or a random order: then no rule of ranks shows the teams, as after load balancing by
 * GreedyLB.
 *
 * On a torus the least share that any teams can have is known.  A set of t ranks has most bytes
 * between its members when it is a stack of columns whose heights do not rise (compression;
 * Bollobas and Leader, Combinatorica 11, 1991).  So the search for the best set looks at these
 * stacks alone.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ftk.h"
#include "core/team_cut.h"

enum { RANKS_MAX = 512, NEIGHBOURS = 26, RANDOM_TEAMS = 10, SETS_MAX = 16 };

enum { ORDERS = 3 }; /* random ones */

#define NEAR 1.15    /* of the least share */
#define TEAM_LB 0.56 /* what TeamLB logs of what GreedyLB logs: section 5.4, BT on 64 cores */

/* A torus of ranks, of which each sends weight[|dx|][|dy|][|dz|] bytes to each of the ranks at
 * distances of 0 or 1; or zones of BT, if zones is not NULL. */
struct pattern {
    const char *name;
    int grid[3];
    bool open; /* the ends of the grid do not meet */
    uint64_t weight[2][2][2];
    const struct zones *zones;
};

/* The mesh of a class of BT, in grid[0] x grid[1] zones. */
struct zones {
    int mesh[3];
};

struct matrix {
    struct ftk_pair pairs[RANKS_MAX * NEIGHBOURS];
    size_t npairs;
    int n;
};

static struct matrix matrix;
static uint64_t random_state;

/* ---- what the programs send -------------------------------------------------------------- */

static int ranks_of(const struct pattern *p)
{
    return p->grid[0] * p->grid[1] * p->grid[2];
}

static int rank_at(const struct pattern *p, const int at[3])
{
    return at[0] + p->grid[0] * (at[1] + p->grid[1] * at[2]);
}

static void add(struct matrix *m, int from, int to, uint64_t bytes)
{
    if (bytes > 0)
        m->pairs[m->npairs++] = (struct ftk_pair){ from, to, 1, bytes };
}

/* Cells of one dimension in n zones whose sizes grow by a constant factor, 4.5 in all: zone_setup
 * of BT. */
static int zone_cells(int cells, int n, int zone)
{
    const double factor = exp(log(4.5) / (n - 1));
    const double smallest = cells * (factor - 1) / (pow(factor, n) - 1);
    int end[2];
    for (int i = 0; i < 2; i++)
        end[i] = (int)(smallest * (pow(factor, zone + i) - 1) / (factor - 1) + 0.45);
    return end[1] - (zone == 0 ? 0 : end[0]);
}

/* Bytes that a zone sends to a neighbour in a dimension: a face of five numbers, without its
 * rim. */
static uint64_t zone_face(const struct pattern *p, const int at[3], int dimension)
{
    const int along = 1 - dimension, *mesh = p->zones->mesh;
    const int cells = zone_cells(mesh[along], p->grid[along], at[along]);
    return sizeof(double) * 5 * (uint64_t)((cells - 2) * (mesh[2] - 2));
}

/* Bytes to the neighbour at distance d, of which no part is more than 1. */
static uint64_t bytes_to(const struct pattern *p, const int at[3], const int d[3])
{
    const int far[3] = { abs(d[0]), abs(d[1]), abs(d[2]) };
    if (!p->zones)
        return p->weight[far[0]][far[1]][far[2]];
    return far[0] + far[1] == 1 && far[2] == 0 ? zone_face(p, at, far[0] == 1 ? 0 : 1) : 0;
}

static void send_from(struct matrix *m, const struct pattern *p, const int at[3])
{
    for (int i = 0; i < 27; i++) {
        const int d[3] = { i % 3 - 1, i / 3 % 3 - 1, i / 9 - 1 };
        int to[3];
        bool inside = i != 13; /* not the rank itself */
        for (int k = 0; k < 3; k++) {
            to[k] = (at[k] + d[k] + p->grid[k]) % p->grid[k];
            inside = inside && (d[k] == 0 || p->grid[k] > 2);
            inside = inside && (!p->open || to[k] == at[k] + d[k]);
        }
        if (inside)
            add(m, rank_at(p, at), rank_at(p, to), bytes_to(p, at, d));
    }
}

static void fill(struct matrix *m, const struct pattern *p)
{
    int at[3];
    m->n = ranks_of(p);
    m->npairs = 0;
    assert_true(m->n <= RANKS_MAX);
    for (at[2] = 0; at[2] < p->grid[2]; at[2]++)
        for (at[1] = 0; at[1] < p->grid[1]; at[1]++)
            for (at[0] = 0; at[0] < p->grid[0]; at[0]++)
                send_from(m, p, at);
}

/* LBTest: 4,096 objects, each of which sends 1 KiB to its six neighbours.  A rank has 2 x 2 x 4 of
 * them.  Mol3D: a rank has a cell, whose atoms go to all cells that touch it. */
static const struct zones class_b = { { 304, 208, 17 } }, class_c = { { 480, 320, 28 } };
static const struct pattern lbtest = { "LBTest", { 8, 8, 4 }, false,
    { { { 0, 4096 }, { 8192, 0 } }, { { 8192, 0 }, { 0, 0 } } }, NULL };
static const struct pattern mol3d = { "Mol3D", { 8, 8, 4 }, false,
    { { { 0, 8640 }, { 8640, 8640 } }, { { 8640, 8640 }, { 8640, 8640 } } }, NULL };
static const struct pattern bt_b = { "BT-MZ, class B", { 8, 8, 1 }, false, { { { 0 } } },
    &class_b };
static const struct pattern bt_c = { "BT-MZ, class C", { 16, 16, 1 }, false, { { { 0 } } },
    &class_c };
static const struct pattern jacobi = { "Jacobi3D", { 4, 8, 8 }, true,
    { { { 0, 8 }, { 8, 0 } }, { { 8, 0 }, { 0, 0 } } }, NULL };
static const struct pattern mg = { "MG, class D", { 8, 8, 8 }, false,
    { { { 0, 8 }, { 8, 0 } }, { { 8, 0 }, { 0, 0 } } }, NULL };

/* ---- orders and teams -------------------------------------------------------------------- */

static int below(int n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int)((random_state >> 33) % (uint64_t)n);
}

static void shuffle(int *a, int n)
{
    for (int i = n - 1; i > 0; i--) {
        const int j = below(i + 1), x = a[i];
        a[i] = a[j];
        a[j] = x;
    }
}

/* The ranks change places: the communication of each rank becomes that of another one. */
static void permute(struct matrix *m)
{
    int place[RANKS_MAX];
    for (int r = 0; r < m->n; r++)
        place[r] = r;
    shuffle(place, m->n);
    for (size_t i = 0; i < m->npairs; i++) {
        m->pairs[i].from = place[m->pairs[i].from];
        m->pairs[i].to = place[m->pairs[i].to];
    }
}

static void blocks(const struct matrix *m, int size, int *team)
{
    for (int r = 0; r < m->n; r++)
        team[r] = r / size;
}

static void ours(const struct matrix *m, int size, int *team)
{
    int have[RANKS_MAX] = { 0 };
    const struct ftk_team_cut c = { .n = m->n,
        .per_unit = 1,
        .k = ftk_team_cut_teams(m->n, 1, size),
        .pairs = m->pairs,
        .npairs = m->npairs };
    assert_int_equal(FTKIT_OK, ftk_team_cut_make(&c, team));
    for (int r = 0; r < m->n; r++)
        have[team[r]]++;
    for (int t = 0; t < c.k; t++)
        assert_int_equal(size, have[t]);
}

/* The share of the bytes that goes to other teams. */
static double share(const struct matrix *m, const int *team)
{
    uint64_t all = 0;
    for (size_t i = 0; i < m->npairs; i++)
        all += m->pairs[i].bytes;
    return (double)ftk_team_cut_between(m->pairs, m->npairs, team).bytes / (double)all;
}

/* Of random teams: the mean of several. */
static double share_of_random(const struct matrix *m, int size)
{
    int team[RANKS_MAX];
    double sum = 0;
    blocks(m, size, team);
    for (int i = 0; i < RANDOM_TEAMS; i++) {
        shuffle(team, m->n);
        sum += share(m, team);
    }
    return sum / RANDOM_TEAMS;
}

/* ---- the least share --------------------------------------------------------------------- */

/* Places of a ring of n in an order whose beginnings are good sets: from the middle to both
 * sides. */
static int ring_place(int n, int i)
{
    return (n / 2 + (i % 2 ? (i + 1) / 2 : n - i / 2)) % n;
}

static int ring_distance(int n, int a, int b)
{
    const int d = abs(a - b);
    return d < n - d ? d : n - d;
}

struct stack {
    const struct pattern *p;
    int height[SETS_MAX + 1][SETS_MAX + 1];
    int at[SETS_MAX][3]; /* places of the set */
    int n, size;
    uint64_t most;
};

static void weigh(struct stack *s)
{
    uint64_t sum = 0;
    for (int a = 0; a < s->n; a++)
        for (int b = 0; b < s->n; b++) {
            int far[3], most = 0;
            for (int k = 0; k < 3; k++) {
                far[k] = ring_distance(s->p->grid[k], s->at[a][k], s->at[b][k]);
                most = far[k] > most ? far[k] : most;
            }
            sum += a != b && most <= 1 ? s->p->weight[far[0]][far[1]][far[2]] : 0;
        }
    s->most = sum > s->most ? sum : s->most;
}

/* Continue the stack with column j of row i. */
static void pile(struct stack *s, int i, int j)
{
    const int *grid = s->p->grid;
    if (s->n == s->size) {
        weigh(s);
        return;
    }
    if (i == grid[0])
        return;
    int most = j == grid[1] ? 0 : grid[2];
    most = j > 0 && s->height[i][j - 1] < most ? s->height[i][j - 1] : most;
    most = i > 0 && j < grid[1] && s->height[i - 1][j] < most ? s->height[i - 1][j] : most;
    most = s->size - s->n < most ? s->size - s->n : most;
    for (int h = 1; h <= most; h++) {
        int *at = s->at[s->n++];
        at[0] = ring_place(grid[0], i);
        at[1] = ring_place(grid[1], j);
        at[2] = ring_place(grid[2], h - 1);
        s->height[i][j] = h;
        pile(s, i, j + 1);
    }
    s->n -= most > 0 ? most : 0;
    s->height[i][j] = 0;
    if (j > 0) /* the row ends here */
        pile(s, i + 1, 0);
}

/* The least share of a torus with teams of so many ranks. */
static double least(const struct pattern *p, int size)
{
    uint64_t sent = 0;
    struct stack s = { .p = p, .size = size };
    for (int i = 0; i < 27; i++)
        sent += i == 13 ? 0 : p->weight[i % 3 != 1][i / 3 % 3 != 1][i / 9 != 1];
    assert_true(size <= SETS_MAX && !p->open && !p->zones);
    pile(&s, 0, 0);
    return 1 - (double)s.most / ((double)sent * size);
}

/* ---- the tests --------------------------------------------------------------------------- */

/* Members that two sets of places of a ring have in common; near: and pairs of neighbours. */
static int common(int n, unsigned a, unsigned b, bool near)
{
    const unsigned all = (1u << n) - 1;
    const unsigned up = (b << 1 | b >> (n - 1)) & all, down = (b >> 1 | b << (n - 1)) & all;
    int sum = 0;
    for (int i = 0; i < n; i++) {
        sum += a >> i & b >> i & 1 ? 1 : 0;
        sum += near && a >> i & up >> i & 1 ? 1 : 0;
        sum += near && a >> i & down >> i & 1 ? 1 : 0;
    }
    return sum;
}

/* As many places as a set has, from the beginning of the order. */
static unsigned first_of(int n, unsigned set)
{
    unsigned first = 0;
    for (int i = 0, left = common(n, set, set, false); i < left; i++)
        first |= 1u << ring_place(n, i);
    return first;
}

/* The premise of the search for the best set: in each line of a torus, the places from the
 * beginning of the order have most bytes in the line and to the other lines. */
static void t_premise(void **state)
{
    (void)state;
    for (int n = 4; n <= 8; n += 4)
        for (unsigned a = 0; a < 1u << n; a++)
            for (unsigned b = 0; b < 1u << n; b++)
                for (int near = 0; near < 2; near++)
                    assert_true(
                        common(n, a, b, near) <= common(n, first_of(n, a), first_of(n, b), near));
}

static void within(double want, double is, double tolerance)
{
    if (!(fabs(is - want) <= tolerance))
        fail_msg("%g, not %g +- %g", is, want, tolerance);
}

/* The least share where it is plain: 2 x 2 ranks, 2 x 2 x 2 ranks, a ring of 4 columns. */
static void t_least(void **state)
{
    (void)state;
    within(1 - 16.0 / 40, least(&lbtest, 4), 1e-12);
    within(1 - 20.0 / 40, least(&lbtest, 8), 1e-12);
    within(1 - 3.0 / 26, least(&mol3d, 4), 1e-12);
    within(1 - 7.0 / 26, least(&mol3d, 8), 1e-12);
}

/* A row of the table: shares of the bytes that go between teams. */
struct row {
    const struct pattern *p;
    int size;
    double blocks, random;
    double ours;       /* ranks in order */
    double mean, most; /* ranks in random orders */
    double least;      /* 0: not known */
};

static const struct row table[] = { { .p = &lbtest, .size = 4 }, { .p = &lbtest, .size = 8 },
    { .p = &lbtest, .size = 16 }, { .p = &lbtest, .size = 32 }, { .p = &bt_b, .size = 4 },
    { .p = &bt_b, .size = 8 }, { .p = &bt_b, .size = 16 }, { .p = &bt_c, .size = 4 },
    { .p = &bt_c, .size = 8 }, { .p = &bt_c, .size = 16 }, { .p = &bt_c, .size = 32 },
    { .p = &mol3d, .size = 4 }, { .p = &mol3d, .size = 8 }, { .p = &mol3d, .size = 16 },
    { .p = &mol3d, .size = 32 }, { .p = &jacobi, .size = 16 }, { .p = &mg, .size = 16 } };

static struct row measure(const struct row *of)
{
    struct row r = *of;
    int team[RANKS_MAX];
    random_state = (uint64_t)r.size;
    fill(&matrix, r.p);
    blocks(&matrix, r.size, team);
    r.blocks = share(&matrix, team);
    r.random = share_of_random(&matrix, r.size);
    ours(&matrix, r.size, team);
    r.ours = share(&matrix, team);
    for (int i = 0; i < ORDERS; i++) {
        permute(&matrix);
        ours(&matrix, r.size, team);
        const double x = share(&matrix, team);
        r.mean += x / ORDERS;
        r.most = x > r.most ? x : r.most;
    }
    if (!r.p->open && !r.p->zones && r.size <= SETS_MAX)
        r.least = least(r.p, r.size);
    return r;
}

/* What holds in each row: the ratio of TeamLB, or nearly the least share if no teams of this size
 * have that ratio. */
static void check(const struct row *r)
{
    const int n = ranks_of(r->p);
    const double worst = r->most > r->ours ? r->most : r->ours;
    print_message(
        "# %s, teams of %d: blocks %.3f, random %.3f, ours %.3f, %.3f to %.3f, least %.3f\n",
        r->p->name, r->size, r->blocks, r->random, r->ours, r->mean, r->most, r->least);
    /* a random pair of ranks is in one team with this probability */
    within((double)(n - r->size) / (n - 1), r->random, 0.02);
    assert_true(r->ours <= r->blocks);
    assert_true(r->least <= r->ours && r->least <= r->mean);
    if (r->least > 0)
        assert_true(worst <= NEAR * r->least);
    if (r->least <= TEAM_LB * r->random)
        assert_true(worst <= TEAM_LB * r->random);
}

static void t_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct row r = measure(&table[i]);
        check(&r);
        if (r.p == &jacobi) /* table 5.2: teams of 16 */
            assert_true(r.ours <= 0.37 && r.most <= 0.37);
        if (r.p == &mg)
            assert_true(r.ours <= 0.53 && r.most <= 0.53);
        if (r.p == &mol3d && r.size >= 8) /* figure 5.7(b): a margin higher than 20 % */
            assert_true(r.ours <= 0.8 * r.random && r.most <= 0.8 * r.random);
    }
}

/* In the middle of the run each rank gets the communication of another one.  The old teams log as
 * much as random ones then. */
struct change {
    double before, old, new;
};

static struct change change(const struct pattern *p, int size)
{
    int team[RANKS_MAX];
    struct change c;
    random_state = (uint64_t)size;
    fill(&matrix, p);
    ours(&matrix, size, team);
    c.before = share(&matrix, team);
    permute(&matrix);
    c.old = share(&matrix, team);
    ours(&matrix, size, team);
    c.new = share(&matrix, team);
    return c;
}

static void t_change(void **state)
{
    (void)state;
    for (int size = 4; size <= 32; size *= 2) {
        const struct change c = change(&lbtest, size);
        const double random = share_of_random(&matrix, size);
        const double least_of = size <= SETS_MAX ? least(&lbtest, size) : 0;
        print_message("# a change, teams of %d: %.3f, the old teams then %.3f, new ones %.3f\n",
            size, c.before, c.old, c.new);
        within(random, c.old, 0.05);
        assert_true(c.new <= 0.8 * c.old); /* so log.reteam_gain of 20 % begins them */
        if (least_of <= TEAM_LB * c.old)
            assert_true(c.new <= TEAM_LB *c.old);
    }
}

static int percent(double x)
{
    return (int)(100 * x + 0.5);
}

static int print_table(void)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct row r = measure(&table[i]);
        printf("| %s | %d | %d | %d %% | %d %% | %d %% | %d %% | %.2f | ", r.p->name, matrix.n,
            r.size, percent(r.random), percent(r.blocks), percent(r.ours), percent(r.mean),
            r.mean / r.random);
        if (r.least > 0)
            printf("%d %% |\n", percent(r.least));
        else
            printf("|\n");
    }
    for (int size = 4; size <= 32; size *= 2) {
        const struct change c = change(&lbtest, size);
        printf("| %d | %d %% | %d %% | %d %% |\n", size, percent(c.before), percent(c.old),
            percent(c.new));
    }
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_premise),
        cmocka_unit_test(t_least),
        cmocka_unit_test(t_table),
        cmocka_unit_test(t_change),
    };
    if (argc > 1 && strcmp(argv[1], "--table") == 0)
        return print_table();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
