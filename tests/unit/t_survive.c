/* What a loss costs, as `ftkit config --ranks` says it: every loss of small jobs against the plan
 * of the repair that would follow, the known shares of buddies, samples, and bytes.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "recover/plan.h"
#include "recover/world.h"

#define MOST 40     /* processes of a world */
#define MOST_SEGS 8 /* of a process */

static struct ftk_config config(void)
{
    struct ftk_config c = { .scheme = FTK_SCHEME_BUDDY,
        .group = 8,
        .parity = 2,
        .local_scheme = FTK_SCHEME_NONE,
        .local_group = 8,
        .local_parity = 2,
        .h5_enabled = true,
        .supply = { FTK_SUPPLY_SPARE, FTK_SUPPLY_END },
        .nsupply = 2,
        .mtbf_s = 86400 };
    return c;
}

static struct ftk_world world(const struct ftk_config *c, int nranks, int nspares, int per_node)
{
    struct ftk_world w;
    int of[4096], n = nranks + nspares;
    for (int i = 0; i < n; i++)
        of[i] = i / per_node;
    assert_int_equal(ftk_world_make(c, FTK_REPAIRS_PROCESSES, nranks, nspares, of,
                         (n + per_node - 1) / per_node, &w),
        FTKIT_OK);
    return w;
}

/* ---- the plan ------------------------------------------------------------------------ */

/* A running job: its processes with what the layout of each rank says that they keep. */
struct running {
    struct ftk_census c;
    struct ftk_census_entry entries[2 * MOST];
    struct ftk_census_seg segs[MOST][MOST_SEGS];
    int64_t members[MOST][FTK_GROUP_MAX];
    int spare_on[MOST]; /* node of each spare */
};

static struct ftk_level level_of(const struct ftk_config *c)
{
    return (struct ftk_level){ .on = true,
        .scheme = ftk_scheme_of(c->scheme),
        .map = c->map,
        .group = c->group,
        .parity = c->parity };
}

static void keep(struct running *j, int at, struct ftk_census_seg s)
{
    int n = j->entries[at].nsegs++;
    assert_true(n < MOST_SEGS);
    j->segs[at][n] = s;
}

static void begin(struct running *j, const struct ftk_world *w)
{
    memset(j, 0, sizeof *j);
    struct ftk_level l = level_of(w->cfg);
    for (int r = 0; r < w->nranks; r++)
        j->entries[r] = (struct ftk_census_entry){ .rank = r,
            .nranks = w->nranks,
            .node = w->node[r],
            .where = FTK_IN_LOOP,
            .has_callback = 1,
            .epoch = 1,
            .committed = 5,
            .segs = j->segs[r] };
    for (int r = 0; r < w->nranks; r++) {
        struct ftk_layout to;
        struct ftk_census_seg own = { .set = 5, .rank = r, .nranks = w->nranks };
        assert_int_equal(ftk_layout_make(&l, r, w->nranks, w->node, &to), FTKIT_OK);
        keep(j, r, own);
        for (int i = r; to.holder && i < l.scheme->copies * w->nranks; i += w->nranks)
            if (to.holder[i] >= 0)
                keep(j, to.holder[i], own);
        for (uint32_t i = 0; i < to.group.n; i++)
            j->members[r][i] = to.group.rank[i];
        own.n = to.group.m > 0 ? (int)to.group.n : 0;
        own.m = (int)to.group.m;
        own.members = j->members[r];
        if (own.n > 0)
            keep(j, r, own);
        ftk_layout_free(&to);
    }
    j->c = (struct ftk_census){ .n = w->nranks, .entries = j->entries };
    for (int node = 0; node < w->nnodes; node++)
        for (int i = 0; i < w->spares[node]; i++)
            j->entries[j->c.n++] = (struct ftk_census_entry){
                .rank = -1, .nranks = w->nranks, .node = node, .where = FTK_IN_OPEN, .epoch = 1
            };
}

/* Remove the processes of a loss, from the last to the first. */
static void lose(struct running *j, const struct ftk_world *w, int loss, const int *unit, int k)
{
    for (int p = j->c.n - 1; p >= 0; p--) {
        bool gone = false;
        for (int i = 0; i < k; i++)
            gone = gone
                   || (loss == FTK_LOSS_PROCESSES ? p < w->nranks && p == unit[i]
                                                  : j->entries[p].node == unit[i]);
        if (!gone)
            continue;
        j->c.n--;
        memmove(&j->entries[p], &j->entries[p + 1], (size_t)(j->c.n - p) * sizeof j->entries[0]);
    }
}

static struct ftk_plan_rules rules_of(const struct ftk_world *w)
{
    const struct ftk_config *c = w->cfg;
    return (struct ftk_plan_rules){ .nranks = w->nranks,
        .map = c->map,
        .scheme = ftk_scheme_of(c->scheme),
        .files = c->h5_enabled,
        .attempts = 10,
        .supply = c->supply,
        .nsupply = c->nsupply };
}

/* What the repair of the job does with the loss; spawned processes come on a node of their own. */
static struct ftk_fate by_repair(struct running *j, const struct ftk_world *w)
{
    const struct ftk_plan_rules r = rules_of(w);
    struct ftk_fate f = { w->cfg->h5_enabled ? FTK_SOURCE_FILES : FTK_SOURCE_NONE, false };
    struct ftk_plan p;
    assert_int_equal(ftk_plan_make(&j->c, &r, &p), FTKIT_OK);
    if (p.outcome == FTK_PLAN_SPAWN) {
        for (int i = 0; i < p.nspawn; i++)
            j->entries[j->c.n++] = (struct ftk_census_entry){
                .rank = -1, .nranks = w->nranks, .node = 1000, .where = FTK_IN_OPEN
            };
        ftk_plan_free(&p);
        assert_int_equal(ftk_plan_make(&j->c, &r, &p), FTKIT_OK);
    }
    if (p.outcome == FTK_PLAN_GO)
        f = (struct ftk_fate){ p.from_file ? FTK_SOURCE_FILES : FTK_SOURCE_MEMORY, true };
    ftk_plan_free(&p);
    return f;
}

/* Whether a relaunch finds the set in the slots of the nodes that are left: rank 0 adopts all. */
static bool by_slots(struct running *j, const struct ftk_world *w, int loss, const int *unit, int k)
{
    static struct ftk_census_seg all[MOST * MOST_SEGS];
    int n = 0;
    begin(j, w);
    for (int r = 0; r < w->nranks; r++) {
        bool gone = false;
        for (int i = 0; i < k && loss == FTK_LOSS_NODES; i++)
            gone = gone || j->entries[r].node == unit[i];
        for (int i = 0; i < j->entries[r].nsegs && !gone; i++)
            all[n++] = j->segs[r][i];
        j->entries[r].nsegs = 0;
    }
    j->entries[0].segs = all;
    j->entries[0].nsegs = n;
    const struct ftk_plan_rules r = rules_of(w);
    struct ftk_plan p;
    assert_int_equal(ftk_plan_make(&j->c, &r, &p), FTKIT_OK);
    bool whole = p.outcome == FTK_PLAN_GO && !p.from_file;
    ftk_plan_free(&p);
    return whole;
}

static struct ftk_fate by_plan(const struct ftk_world *w, int loss, const int *unit, int k)
{
    static struct running j;
    struct ftk_fate f = { w->cfg->h5_enabled ? FTK_SOURCE_FILES : FTK_SOURCE_NONE, false };
    if (loss != FTK_LOSS_NODES || w->repairs == FTK_REPAIRS_NODES) {
        begin(&j, w);
        lose(&j, w, loss, unit, k);
        if (j.c.n > 0)
            f = by_repair(&j, w);
    }
    if (!f.in_job && w->level[FTK_LEVEL_MEMORY].outlives && by_slots(&j, w, loss, unit, k))
        f.source = FTK_SOURCE_MEMORY;
    return f;
}

/* Compare all losses of one to three units, and the counts. */
static void compare_with(
    const struct ftk_config *c, int nranks, int nspares, int per_node, enum ftk_repairs repairs)
{
    struct ftk_world w = world(c, nranks, nspares, per_node);
    w.repairs = repairs;
    for (int loss = FTK_LOSS_PROCESSES; loss <= FTK_LOSS_NODES; loss++) {
        int n = ftk_world_units(&w, loss);
        uint64_t source[4][FTK_SOURCES] = { { 0 } }, in_job[4] = { 0 };
        for (int all = 1; all < 1 << (n < 12 ? n : 12); all++) {
            int unit[12], k = 0;
            for (int i = 0; i < 12 && i < n; i++)
                if (all >> i & 1)
                    unit[k++] = i;
            if (k > 3)
                continue;
            struct ftk_fate want = by_plan(&w, loss, unit, k);
            struct ftk_fate got = ftk_world_fate(&w, loss, unit, k);
            if (got.source != want.source || got.in_job != want.in_job)
                fail_msg(
                    "repairs %d, scheme %d map %d, %d ranks, %d spares, %d on a node: loss %d of "
                    "%d %d %d (%d): source %d in job %d, the plan says %d, %d",
                    repairs, c->scheme, c->map, nranks, nspares, per_node, loss, unit[0],
                    k > 1 ? unit[1] : -1, k > 2 ? unit[2] : -1, k, got.source, got.in_job,
                    want.source, want.in_job);
            source[k][want.source]++;
            in_job[k] += want.in_job;
        }
        for (int k = 1; k <= 3 && k <= n && n <= 12; k++) {
            struct ftk_survival s;
            ftk_world_count(&w, loss, k, 1000000, 1, &s);
            assert_true(s.exact);
            assert_int_equal(s.in_job, in_job[k]);
            for (int i = 0; i < FTK_SOURCES; i++)
                assert_int_equal(s.source[i], source[k][i]);
        }
    }
    ftk_world_free(&w);
}

static void compare(const struct ftk_config *c, int nranks, int nspares, int per_node)
{
    compare_with(c, nranks, nspares, per_node, FTK_REPAIRS_PROCESSES);
    compare_with(c, nranks, nspares, per_node, FTK_REPAIRS_NODES);
}

static const int shapes[][3] = { { 1, 1, 1 }, { 2, 1, 1 }, { 4, 1, 5 }, { 5, 2, 2 }, { 6, 3, 3 },
    { 7, 1, 2 }, { 8, 2, 2 }, { 9, 0, 3 }, { 9, 3, 4 }, { 12, 12, 8 } };
#define SHAPES (sizeof shapes / sizeof *shapes)

static void as_the_plan_says(void **state)
{
    static const int schemes[] = { FTK_SCHEME_OWN, FTK_SCHEME_BUDDY, FTK_SCHEME_XOR,
        FTK_SCHEME_RS };
    (void)state;
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        for (size_t k = 0; k < SHAPES; k++)
            for (int map = FTK_MAP_PAIR; map <= FTK_MAP_RING; map++) {
                struct ftk_config c = config();
                c.scheme = schemes[i];
                c.map = map;
                c.group = 2 + (int)k % 4;
                c.parity = 1 + (int)k % 3;
                c.h5_enabled = k % 2 == 0;
                compare(&c, shapes[k][0], shapes[k][1], shapes[k][2]);
            }
}

static void with_every_supply(void **state)
{
    static const int supplies[][2] = { { FTK_SUPPLY_SPARE, FTK_SUPPLY_END },
        { FTK_SUPPLY_SPARE, FTK_SUPPLY_SPAWN }, { FTK_SUPPLY_SHRINK, FTK_SUPPLY_END },
        { FTK_SUPPLY_END, 0 } };
    (void)state;
    for (size_t i = 0; i < sizeof supplies / sizeof *supplies; i++)
        for (size_t k = 0; k < SHAPES; k++)
            for (int files = 0; files < 2; files++) {
                struct ftk_config c = config();
                c.supply[0] = supplies[i][0];
                c.supply[1] = supplies[i][1];
                c.nsupply = supplies[i][0] == FTK_SUPPLY_END ? 1 : 2;
                c.h5_enabled = files;
                compare(&c, shapes[k][0], shapes[k][1], shapes[k][2]);
            }
}

/* Without files a job that has lost data in its processes ends, and its slots serve the next. */
static void with_slots(void **state)
{
    static const int schemes[] = { FTK_SCHEME_OWN, FTK_SCHEME_BUDDY, FTK_SCHEME_RS };
    (void)state;
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        for (size_t k = 0; k < SHAPES; k++) {
            struct ftk_config c = config();
            c.scheme = schemes[i];
            c.place = FTK_PLACE_SHARED;
            c.group = 3;
            c.parity = 1;
            c.h5_enabled = false;
            compare(&c, shapes[k][0], shapes[k][1], shapes[k][2]);
        }
}

/* With files the job goes on, and reads the slots of nodes that still have a process. */
static void slots_in_the_job(void **state)
{
    (void)state;
    struct ftk_config c = config();
    c.place = FTK_PLACE_SHARED;
    struct ftk_world w = world(&c, 8, 8, 4); /* 2 ranks and 2 spares on each of 4 nodes */
    const int buddies[] = { 0, 2 }, nodes[] = { 0, 1 }, far[] = { 0, 2 };
    assert_int_equal(w.nnodes, 4);
    struct ftk_fate f = ftk_world_fate(&w, FTK_LOSS_PROCESSES, buddies, 2);
    assert_true(f.source == FTK_SOURCE_MEMORY && f.in_job);
    const int four[] = { 0, 1, 2, 3 }; /* all ranks of two buddy nodes: the spares read the slots */
    f = ftk_world_fate(&w, FTK_LOSS_PROCESSES, four, 4);
    assert_true(f.source == FTK_SOURCE_MEMORY && f.in_job);
    f = ftk_world_fate(&w, FTK_LOSS_NODE_PROCESSES, nodes, 2);
    assert_true(f.source == FTK_SOURCE_FILES && f.in_job);
    f = ftk_world_fate(&w, FTK_LOSS_NODES, nodes, 2);
    assert_true(f.source == FTK_SOURCE_FILES && !f.in_job);
    f = ftk_world_fate(&w, FTK_LOSS_NODES, far, 2);
    assert_true(f.source == FTK_SOURCE_MEMORY && !f.in_job);
    ftk_world_free(&w);
    c.supply[0] = FTK_SUPPLY_SHRINK; /* slots serve only as many ranks as wrote the set */
    w = world(&c, 8, 0, 2);
    f = ftk_world_fate(&w, FTK_LOSS_PROCESSES, buddies, 2);
    assert_true(f.source == FTK_SOURCE_FILES && f.in_job);
    ftk_world_free(&w);
    c.supply[0] = FTK_SUPPLY_SPARE;
    c.place = FTK_PLACE_MEMORY;
    w = world(&c, 8, 8, 4);
    f = ftk_world_fate(&w, FTK_LOSS_PROCESSES, buddies, 2);
    assert_true(f.source == FTK_SOURCE_FILES && f.in_job);
    const int whole[] = { 0, 1, 2 };
    f = ftk_world_fate(&w, FTK_LOSS_PROCESSES, whole, 3);
    assert_true(f.source == FTK_SOURCE_FILES && f.in_job);
    c.log_enabled = true; /* an older set needs a new start */
    f = ftk_world_fate(&w, FTK_LOSS_PROCESSES, buddies, 2);
    assert_true(f.source == FTK_SOURCE_FILES && !f.in_job);
    f = ftk_world_fate(&w, FTK_LOSS_NODES, far, 1);
    assert_true(f.source == FTK_SOURCE_FILES && !f.in_job);
    ftk_world_free(&w);
}

static void second_level(void **state)
{
    (void)state;
    struct ftk_config c = config();
    c.local_scheme = FTK_SCHEME_RS;
    c.local_place = FTK_PLACE_SHARED;
    c.local_group = 4;
    struct ftk_world w = world(&c, 8, 8, 4);
    const int buddies[] = { 0, 2 }, nodes[] = { 0, 1 };
    struct ftk_fate f = ftk_world_fate(&w, FTK_LOSS_PROCESSES, buddies, 1);
    assert_true(f.source == FTK_SOURCE_MEMORY && f.in_job);
    f = ftk_world_fate(&w, FTK_LOSS_PROCESSES, buddies, 2);
    assert_true(f.source == FTK_SOURCE_LOCAL && f.in_job);
    f = ftk_world_fate(&w, FTK_LOSS_NODE_PROCESSES, nodes, 2);
    assert_true(f.source == FTK_SOURCE_LOCAL && f.in_job);
    f = ftk_world_fate(&w, FTK_LOSS_NODES, nodes, 2);
    assert_true(f.source == FTK_SOURCE_LOCAL && !f.in_job);
    ftk_world_free(&w);
    c.supply[0] = FTK_SUPPLY_SHRINK; /* it serves only as many ranks as wrote the set */
    w = world(&c, 8, 0, 2);
    f = ftk_world_fate(&w, FTK_LOSS_PROCESSES, buddies, 2);
    assert_true(f.source == FTK_SOURCE_FILES && f.in_job);
    ftk_world_free(&w);
}

/* ---- counting ------------------------------------------------------------------------ */

/* The shares that t_map.c derives: (n-2)/(n-1) for pairs, (n-3)/(n-1) for a ring. */
static void known_shares(void **state)
{
    (void)state;
    for (int n = 4; n <= 64; n += 2) {
        for (int map = FTK_MAP_PAIR; map <= FTK_MAP_RING; map++) {
            struct ftk_config c = config();
            struct ftk_survival s;
            c.map = map;
            struct ftk_world w = world(&c, 2 * n, 2 * n, 4); /* 2 ranks on each of n nodes */
            assert_int_equal(w.nnodes, n);
            ftk_world_count(&w, FTK_LOSS_NODE_PROCESSES, 2, 1000000, 1, &s);
            assert_true(s.exact && s.looked == (uint64_t)(n * (n - 1) / 2));
            uint64_t good = (uint64_t)(map == FTK_MAP_PAIR ? n - 2 : n - 3);
            assert_int_equal(s.source[FTK_SOURCE_MEMORY] * (uint64_t)(n - 1), s.looked * good);
            ftk_world_free(&w);
        }
    }
}

static void samples(void **state)
{
    (void)state;
    for (int k = 2; k <= 3; k++) {
        struct ftk_config c = config();
        struct ftk_survival all, some, again;
        struct ftk_world w = world(&c, 60, 30, 3); /* 30 nodes */
        ftk_world_count(&w, FTK_LOSS_NODE_PROCESSES, k, 100000, 7, &all);
        ftk_world_count(&w, FTK_LOSS_NODE_PROCESSES, k, 4000, 7, &some);
        ftk_world_count(&w, FTK_LOSS_NODE_PROCESSES, k, 4000, 7, &again);
        assert_true(all.exact);
        if (k == 2) { /* 435 pairs of 2 times 2 ranks */
            assert_true(some.exact);
        } else {
            double share = (double)all.source[0] / (double)all.looked;
            double found = (double)some.source[0] / (double)some.looked;
            assert_false(some.exact);
            assert_true(ftk_survival_error(&some, some.source[0]) > 0.005);
            assert_true(fabs(share - found) < ftk_survival_error(&some, some.source[0]));
        }
        assert_int_equal(some.source[0], again.source[0]);
        assert_true(ftk_survival_error(&all, all.source[0]) <= 0);
        ftk_world_free(&w);
    }
    /* none of 1000 does not mean none: 1 - 0.001^(1/1000) is 0.7 % */
    const struct ftk_survival none = { .looked = 1000 };
    assert_true(ftk_survival_error(&none, 0) > 0.0069 && ftk_survival_error(&none, 0) < 0.012);
}

/* Where nothing outlives the job, one look is enough. */
static void all_alike(void **state)
{
    (void)state;
    struct ftk_config c = config();
    struct ftk_survival s;
    struct ftk_world w = world(&c, 1000, 0, 1);
    ftk_world_count(&w, FTK_LOSS_NODES, 3, 1000, 1, &s);
    assert_true(s.exact);
    assert_int_equal(s.source[FTK_SOURCE_FILES], s.looked);
    ftk_world_count(&w, FTK_LOSS_NODE_PROCESSES, 3, 1000, 1, &s);
    assert_false(s.exact);
    ftk_world_free(&w);
}

/* ---- bytes --------------------------------------------------------------------------- */

static void near(double want, uint64_t bytes, uint64_t data)
{
    double times = (double)bytes / (double)data;
    if (times < want || times > 1.01 * want + 8192.0 / (double)data)
        fail_msg("%.4f x, not about %.4f x", times, want);
}

static void bytes_of_sets(void **state)
{
    (void)state;
    uint64_t of[64], data = (uint64_t)64 << 20;
    struct ftk_config c = config();
    for (int scheme = FTK_SCHEME_OWN; scheme <= FTK_SCHEME_RS; scheme++) {
        c.scheme = scheme;
        struct ftk_world w = world(&c, 16, 0, 2); /* 8 nodes: groups of 8 */
        uint64_t segment = ftk_world_bytes(&w, FTK_LEVEL_MEMORY, data, of);
        near(1, segment, data);
        for (int r = 0; r < 16; r++)
            near(scheme == FTK_SCHEME_OWN     ? 1
                 : scheme == FTK_SCHEME_BUDDY ? 2
                 : scheme == FTK_SCHEME_XOR   ? 1 + 1.0 / 7
                                              : 1 + 2.0 / 6,
                of[r], data);
        ftk_world_free(&w);
    }
    c.scheme = FTK_SCHEME_BUDDY; /* 4 ranks and 2: a holder of the small node keeps two copies */
    struct ftk_world w = world(&c, 6, 0, 4);
    (void)ftk_world_bytes(&w, FTK_LEVEL_MEMORY, data, of);
    near(3, of[4], data);
    near(2, of[0], data);
    near(1, of[3], data);
    ftk_world_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(as_the_plan_says),
        cmocka_unit_test(with_every_supply), cmocka_unit_test(with_slots),
        cmocka_unit_test(slots_in_the_job), cmocka_unit_test(second_level),
        cmocka_unit_test(known_shares), cmocka_unit_test(samples), cmocka_unit_test(all_alike),
        cmocka_unit_test(bytes_of_sets) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
