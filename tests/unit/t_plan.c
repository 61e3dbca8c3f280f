/* The plan of a repair from hand-made censuses.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ranks.h"
#include "recover/plan.h"

static const int spare_spawn_end[] = { FTK_SUPPLY_SPARE, FTK_SUPPLY_SPAWN, FTK_SUPPLY_END };
static const int spare_end[] = { FTK_SUPPLY_SPARE, FTK_SUPPLY_END };
static const int shrink[] = { FTK_SUPPLY_SHRINK };

static struct ftk_plan_rules rules(int nranks, const int *supply, int nsupply)
{
    return (struct ftk_plan_rules){ .nranks = nranks,
        .map = FTK_MAP_PAIR,
        .scheme = ftk_scheme_of(FTK_SCHEME_BUDDY),
        .files = false,
        .attempts = 10,
        .supply = supply,
        .nsupply = nsupply };
}
#define RULES(n, s) rules((n), (s), (int)(sizeof(s) / sizeof((s)[0])))

/* A census of n processes on nodes of per_node, nobody with a rank. */
#define SEG(s, r, n) ((struct ftk_census_seg){ .set = (s), .rank = (r), .nranks = (n) })

static struct ftk_census newcomers(int n, int per_node, int wanted)
{
    struct ftk_census c = { .n = n };
    c.entries = calloc((size_t)n, sizeof *c.entries);
    for (int i = 0; i < n; i++)
        c.entries[i] = (struct ftk_census_entry){
            .rank = -1, .nranks = wanted, .node = 1000 + i / per_node, .where = FTK_IN_OPEN
        };
    return c;
}

/* A running job: ranks 0..nranks-1, each with its segment and its buddy's of sets. */
static struct ftk_census running(int nranks, int nspares, uint64_t committed)
{
    struct ftk_census c = newcomers(nranks + nspares, 1, nranks);
    struct ftk_census_seg *segs = calloc(2 * (size_t)nranks, sizeof *segs);
    c.segs = segs;
    for (int i = 0; i < nranks; i++) {
        struct ftk_census_entry *e = &c.entries[i];
        e->rank = i;
        e->epoch = 1;
        e->where = FTK_IN_LOOP;
        e->committed = committed;
        e->next_set = committed + 1;
        segs[2 * i] = SEG(committed, i, nranks);
        segs[2 * i + 1] = SEG(committed, i ^ 1, nranks);
        e->segs = &segs[2 * i];
        e->nsegs = committed ? 2 : 0;
    }
    return c;
}

static void lose(struct ftk_census *c, int proc)
{
    c->n--;
    memmove(&c->entries[proc], &c->entries[proc + 1], (size_t)(c->n - proc) * sizeof *c->entries);
}

static struct ftk_plan plan(struct ftk_census *c, struct ftk_plan_rules r)
{
    struct ftk_plan p;
    assert_int_equal(ftk_plan_make(c, &r, &p), FTKIT_OK);
    ftk_census_free(c);
    return p;
}

/* All others have died while these were spawned: in the first opening, or in a repair. */
static void spawned_alone(void **state)
{
    (void)state;
    for (int n = 1; n < 4; n++) {
        struct ftk_census c = newcomers(n, 1, 0);
        struct ftk_plan p = plan(&c, RULES(0, spare_spawn_end));
        assert_int_equal(p.outcome, FTK_PLAN_FATAL);
        assert_int_equal(p.code, FTKIT_ERR_LOST);
        assert_non_null(strstr(p.why, "every working rank is lost"));
        ftk_plan_free(&p);
        c = newcomers(n, 1, 0);
        c.entries[n - 1].nranks = 2; /* one that was started with the job: it opens */
        p = plan(&c, RULES(0, spare_spawn_end));
        assert_int_equal(p.outcome, n == 1 ? FTK_PLAN_SPAWN : FTK_PLAN_GO);
        assert_int_equal(p.nranks, 2);
        ftk_plan_free(&p);
    }
}

static void opening_spreads_spares(void **state)
{
    (void)state;
    struct ftk_census c = newcomers(10, 5, 8);
    struct ftk_plan p = plan(&c, RULES(8, spare_end));
    assert_int_equal(p.outcome, FTK_PLAN_GO);
    assert_true(p.fresh);
    assert_int_equal(p.nranks, 8);
    const int want[] = { 0, 1, 2, 3, -1, 4, 5, 6, 7, -1 }; /* the last of each node */
    assert_memory_equal(p.rank_of, want, sizeof want);
    for (int r = 0; r < 8; r++)
        assert_int_equal(p.holder[r], (r + 4) % 8); /* in the other node */
    assert_int_equal(p.pending, FTK_PENDING_LOAD);
    assert_false(p.rollback);
    ftk_plan_free(&p);
}

static void opening_with_losses(void **state)
{
    (void)state;
    struct ftk_census c = newcomers(8, 5, 8); /* both spares are dead already */
    struct ftk_plan p = plan(&c, RULES(8, spare_end));
    assert_int_equal(p.outcome, FTK_PLAN_GO);
    ftk_plan_free(&p);
    c = newcomers(7, 5, 8);
    p = plan(&c, RULES(8, spare_end));
    assert_int_equal(p.outcome, FTK_PLAN_FATAL);
    ftk_plan_free(&p);
    c = newcomers(7, 5, 8);
    p = plan(&c, RULES(8, spare_spawn_end));
    assert_int_equal(p.outcome, FTK_PLAN_SPAWN);
    assert_int_equal(p.nspawn, 1);
    ftk_plan_free(&p);
    c = newcomers(8, 5, 8);
    c.entries[7].nranks = 0; /* a process that was spawned to open knows no number */
    p = plan(&c, RULES(0, spare_spawn_end));
    assert_int_equal(p.outcome, FTK_PLAN_GO);
    assert_int_equal(p.nranks, 8);
    ftk_plan_free(&p);
}

/* A job of nodes with as many ranks each, which has lost one of them.  spares[m]: on node m.
 * placed[m]: how many of the lost ranks are on node m then. */
static void lose_a_node(int nodes, int ranks, const int *spares, int lost, int *placed)
{
    int all = 0, node[64], n = 0;
    for (int m = 0; m < nodes; m++)
        all += spares[m];
    struct ftk_census c = running(ranks, all, 5);
    for (int r = 0; r < ranks; r++)
        c.entries[r].node = 1000 + r % nodes; /* buddies are on different nodes */
    for (int m = 0, i = ranks; m < nodes; m++)
        for (int k = 0; k < spares[m]; k++)
            c.entries[i++].node = 1000 + m;
    for (int i = c.n - 1; i >= 0; i--)
        if (c.entries[i].node == 1000 + lost)
            lose(&c, i);
    for (n = 0; n < c.n; n++)
        node[n] = c.entries[n].node - 1000;
    struct ftk_plan p = plan(&c, RULES(ranks, spare_end));
    assert_int_equal(p.outcome, FTK_PLAN_GO);
    assert_false(p.from_file);
    memset(placed, 0, (size_t)nodes * sizeof *placed);
    for (int i = 0; i < n; i++)
        if (p.rank_of[i] >= 0 && p.is_new[p.rank_of[i]])
            placed[node[i]]++;
    ftk_plan_free(&p);
}

/* The ranks of a lost node are spread over the nodes, as far as spares are there. */
static void a_lost_node_is_spread(void **state)
{
    (void)state;
    int at[4];
    for (int lost = 0; lost < 4; lost++) {
        lose_a_node(4, 12, (const int[]){ 1, 1, 1, 1 }, lost, at);
        for (int m = 0; m < 4; m++)
            assert_int_equal(at[m], m != lost);
        lose_a_node(4, 24, (const int[]){ 4, 4, 4, 4 }, lost, at);
        for (int m = 0; m < 4; m++)
            assert_int_equal(at[m], m == lost ? 0 : 2);
    }
    lose_a_node(4, 8, (const int[]){ 0, 0, 1, 3 }, 0, at); /* no better can be had */
    assert_memory_equal(at, ((const int[]){ 0, 0, 1, 1 }), sizeof at);
    lose_a_node(4, 12, (const int[]){ 0, 0, 1, 3 }, 0, at);
    assert_memory_equal(at, ((const int[]){ 0, 0, 1, 2 }), sizeof at);
}

/* A node of spares alone is the emptiest one until it has as many ranks as the others: so it takes
 * all ranks of the lost node, whatever spares are elsewhere. */
static void a_node_of_spares_is_filled(void **state)
{
    (void)state;
    struct ftk_census c = running(6, 6, 5);
    static const int node[] = { 0, 1, 0, 1, 0, 1, 0, 1, 2, 2, 2, 2 };
    for (int i = 0; i < 12; i++)
        c.entries[i].node = 1000 + node[i];
    lose(&c, 6); /* the spare of node 0, then its ranks */
    lose(&c, 4);
    lose(&c, 2);
    lose(&c, 0);
    struct ftk_plan p = plan(&c, RULES(6, spare_end));
    assert_int_equal(p.outcome, FTK_PLAN_GO);
    for (int i = 0; i < 4; i++) /* processes: three ranks and the spare of node 1, then node 2 */
        assert_true(i < 3 ? p.rank_of[i] >= 0 : p.rank_of[i] < 0);
    int there = 0;
    for (int i = 4; i < 8; i++)
        there += p.rank_of[i] >= 0;
    assert_int_equal(there, 3);
    ftk_plan_free(&p);
}

static void one_lost(void **state)
{
    (void)state;
    for (int lost = 0; lost < 8; lost++) {
        struct ftk_census c = running(8, 2, 5);
        lose(&c, lost);
        struct ftk_plan p = plan(&c, RULES(8, spare_end));
        assert_int_equal(p.outcome, FTK_PLAN_GO);
        assert_int_equal(p.line, 5);
        assert_int_equal(p.pending, FTK_PENDING_LINE);
        assert_true(p.rollback);
        assert_false(p.from_file);
        for (int r = 0; r < 8; r++) {
            assert_int_equal(p.is_new[r], r == lost);
            assert_int_equal(p.need_own[r], r == lost);
            assert_int_not_equal(p.holder[r], r);
        }
        /* the segment comes from its buddy; the buddy's copy has to be made again */
        assert_int_equal(p.rank_of[p.source[lost]], lost ^ 1);
        assert_int_equal(p.need_copy[lost ^ 1], 1);
        ftk_plan_free(&p);
    }
}

static void buddies_lost(void **state)
{
    (void)state;
    for (int files = 0; files < 2; files++) {
        struct ftk_census c = running(8, 2, 5);
        lose(&c, 3);
        lose(&c, 2);
        struct ftk_plan_rules r = RULES(8, spare_end);
        r.files = files;
        struct ftk_plan p = plan(&c, r);
        assert_int_equal(p.outcome, files ? FTK_PLAN_GO : FTK_PLAN_FATAL);
        if (files)
            assert_true(p.from_file);
        else
            assert_int_equal(p.code, FTKIT_ERR_LOST);
        ftk_plan_free(&p);
    }
}

/* All segments are there, but one never holds: its rank has said so. */
static void given_up(void **state)
{
    (void)state;
    for (int set = 4; set <= 5; set++)
        for (int files = 0; files < 2; files++) {
            struct ftk_census c = running(8, 2, 5);
            c.entries[3].unusable = (uint64_t)set;
            struct ftk_plan_rules r = RULES(8, spare_end);
            r.files = files;
            r.repair = true;
            struct ftk_plan p = plan(&c, r);
            assert_int_equal(p.from_file, set == 5);
            assert_int_equal(p.outcome, files || set == 4 ? FTK_PLAN_GO : FTK_PLAN_FATAL);
            if (p.outcome == FTK_PLAN_FATAL)
                assert_int_equal(p.code, FTKIT_ERR_LOST);
            ftk_plan_free(&p);
        }
    struct ftk_census c = running(8, 2, 5); /* the copies of a level that does hold */
    c.entries[3].unusable = 5;
    struct ftk_plan p = plan(&c, RULES(8, spare_end));
    assert_false(p.from_file);
    ftk_plan_free(&p);
}

/* An attempt that failed may leave segments with a spare that the next one does not take:
 * it has no rank, so it cannot send them. */
static void spare_with_segments(void **state)
{
    (void)state;
    const struct ftk_census_seg left[2] = { SEG(5, 0, 4), SEG(5, 1, 4) };
    for (int files = 0; files < 2; files++) {
        struct ftk_census c = running(4, 3, 5);
        c.entries[6].segs = left;
        c.entries[6].nsegs = 2;
        lose(&c, 1);
        lose(&c, 0);
        struct ftk_plan_rules r = RULES(4, spare_end);
        r.files = files;
        struct ftk_plan p = plan(&c, r);
        assert_int_equal(p.rank_of[4], -1);
        assert_int_equal(p.outcome, files ? FTK_PLAN_GO : FTK_PLAN_FATAL);
        assert_true(p.from_file);
        for (int q = 0; q < 2; q++)
            assert_int_equal(p.source[q], -1);
        ftk_plan_free(&p);
    }
}

static void newest_commit_wins(void **state)
{
    (void)state;
    /* one survivor has seen set 6 committed; all have sealed both sets */
    struct ftk_census c = running(4, 1, 5);
    struct ftk_census_seg segs[4][4];
    for (int i = 0; i < 4; i++) {
        const struct ftk_census_seg s[4] = { SEG(5, i, 4), SEG(5, i ^ 1, 4), SEG(6, i, 4),
            SEG(6, i ^ 1, 4) };
        memcpy(segs[i], s, sizeof s);
        c.entries[i].segs = segs[i];
        c.entries[i].nsegs = 4;
    }
    c.entries[2].committed = 6;
    lose(&c, 0);
    struct ftk_plan p = plan(&c, RULES(4, spare_end));
    assert_int_equal(p.line, 6);
    assert_false(p.from_file);
    ftk_plan_free(&p);
    /* nobody alive has seen it */
    c = running(4, 1, 5);
    for (int i = 0; i < 4; i++) {
        c.entries[i].segs = segs[i];
        c.entries[i].nsegs = 4;
    }
    lose(&c, 2);
    p = plan(&c, RULES(4, spare_end));
    assert_int_equal(p.line, 5);
    ftk_plan_free(&p);
}

/* In places that outlive a process there may be a try of the line's number that came to
 * nothing; it is of another stamp, or of another run, and counts for nothing. */
static void another_try(void **state)
{
    (void)state;
    for (int first = 0; first < 4; first++)
        for (int other = 0; other < 2; other++) {
            struct ftk_census c = running(4, 1, 5);
            struct ftk_census_seg segs[4][4];
            for (int i = 0; i < 4; i++) {
                struct ftk_census_seg *s = segs[i];
                for (int k = 0; k < 4; k++) {
                    s[k] = SEG(5, k % 2 ? i ^ 1 : i, 4);
                    s[k].run = other && k < 2 ? 70 : 7;
                    s[k].epoch_id = k < 2 ? 80 : 8;
                }
                c.entries[i].segs = s;
                c.entries[i].nsegs = 4;
                c.entries[i].committed = 0;
                c.entries[i].run = (uint64_t)(1000 + i);
            }
            /* who knows the line has only this */
            c.entries[first].committed = 5;
            c.entries[first].run = 7;
            c.entries[first].segs = &segs[first][2];
            c.entries[first].nsegs = 2;
            c.entries[first ^ 2].nsegs = 2; /* and here there is only the other */
            struct ftk_plan p = plan(&c, RULES(4, spare_end));
            assert_int_equal(p.line, 5);
            assert_int_equal(p.run, 7);
            assert_int_equal(p.written.run, 7);
            assert_int_equal(p.written.epoch_id, 8);
            for (int r = 0; r < 4; r++)
                assert_int_equal(p.source[r], r == (first ^ 2) ? r ^ 1 : r);
            for (int r = 0; r < 4; r++)
                assert_int_equal(p.need_own[r], r == (first ^ 2));
            assert_false(p.from_file);
            ftk_plan_free(&p);
        }
}

static void other_tries_are_released(void **state)
{
    const struct {
        uint64_t set, run, epoch_id;
        bool kept;
    } all[] = { { 5, 7, 8, true }, { 5, 7, 80, false }, { 5, 70, 8, false }, { 4, 7, 80, true } };
    const struct ftk_plan p = { .line = 5, .written = { 7, 8 } };
    struct ftk_mem mem = { 0 };
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct ftk_mem_seg *s = NULL;
        assert_int_equal(ftk_mem_take(&mem, all[i].set, i, 4, 4096, &s), FTKIT_OK);
        *(struct ftk_seg_header *)(void *)s->buf =
            (struct ftk_seg_header){ .run = all[i].run, .epoch_id = all[i].epoch_id };
        assert_int_equal(ftk_mem_seal(s), FTKIT_OK);
    }
    ftk_plan_clear(&p, &mem);
    for (int i = 0; i < 4; i++)
        assert_int_equal(ftk_mem_find(&mem, all[i].set, i) != NULL, all[i].kept);
    ftk_mem_close(&mem, false);
}

static void before_the_first_set(void **state)
{
    (void)state;
    struct ftk_census c = running(4, 1, 0);
    lose(&c, 1);
    struct ftk_plan p = plan(&c, RULES(4, spare_end));
    assert_int_equal(p.outcome, FTK_PLAN_GO);
    assert_int_equal(p.pending, FTK_PENDING_FRESH);
    assert_false(p.rollback);
    ftk_plan_free(&p);
    c = running(4, 1, 0);
    c.entries[3].app_errors = 1; /* its state cannot be known */
    lose(&c, 1);
    p = plan(&c, RULES(4, spare_end));
    assert_int_equal(p.outcome, FTK_PLAN_FATAL);
    ftk_plan_free(&p);
    c = running(4, 1, 0);
    for (int i = 0; i < 4; i++)
        c.entries[i].where = FTK_IN_SETUP;
    lose(&c, 1);
    p = plan(&c, RULES(4, spare_end));
    assert_int_equal(p.pending, FTK_PENDING_LOAD);
    ftk_plan_free(&p);
}

static void supply_ladder(void **state)
{
    (void)state;
    struct ftk_census c = running(4, 0, 5);
    lose(&c, 1);
    struct ftk_plan p = plan(&c, RULES(4, spare_end));
    assert_int_equal(p.outcome, FTK_PLAN_FATAL);
    assert_non_null(strstr(p.why, "1 of 4 ranks lost, 0 spares left"));
    ftk_plan_free(&p);
    c = running(4, 0, 5);
    lose(&c, 1);
    p = plan(&c, RULES(4, shrink)); /* no callback: the program cannot divide its data */
    assert_int_equal(p.outcome, FTK_PLAN_FATAL);
    ftk_plan_free(&p);
    c = running(4, 0, 5);
    for (int i = 0; i < 4; i++)
        c.entries[i].has_callback = 1;
    lose(&c, 1);
    p = plan(&c, RULES(4, shrink));
    assert_int_equal(p.outcome, FTK_PLAN_GO);
    assert_int_equal(p.nranks, 3);
    assert_int_equal(p.pending, FTK_PENDING_SHRUNK);
    assert_int_equal(p.line_nranks, 4);
    const int sources[] = { 0, 0, 1, 2 }; /* segment 1 from its buddy, rank 0 */
    for (int r = 0; r < 4; r++)
        assert_int_equal(p.rank_of[p.source[r]], sources[r]);
    ftk_plan_free(&p);
}

/* Ranks of groups of four neighbours with m parities; nobody keeps copies. */
static struct ftk_census grouped(int nranks, int nspares, int m, uint64_t committed)
{
    static int64_t members[64];
    struct ftk_census c = running(nranks, nspares, committed);
    for (int i = 0; i < nranks; i++) {
        members[i] = i;
        c.segs[2 * i + 1] = SEG(committed, i, nranks);
        c.segs[2 * i + 1].n = 4;
        c.segs[2 * i + 1].m = m;
        c.segs[2 * i + 1].members = &members[i / 4 * 4];
    }
    return c;
}

static struct ftk_plan_rules parity_rules(int nranks)
{
    struct ftk_plan_rules r = RULES(nranks, spare_end);
    r.scheme = ftk_scheme_of(FTK_SCHEME_RS);
    return r;
}

/* Every set of up to three lost ranks of eight in groups of four. */
static void what_parity_makes_up_for(void **state)
{
    (void)state;
    for (int m = 1; m <= 3; m++) {
        for (unsigned lost = 1; lost < 256; lost++) {
            int first = __builtin_popcount(lost & 15), second = __builtin_popcount(lost >> 4);
            if (first + second > 4)
                continue;
            struct ftk_census c = grouped(8, 4, m, 5);
            for (int r = 7; r >= 0; r--)
                if (lost >> r & 1)
                    lose(&c, r);
            struct ftk_plan p = plan(&c, parity_rules(8));
            bool good = first <= m && second <= m;
            assert_int_equal(p.outcome, good ? FTK_PLAN_GO : FTK_PLAN_FATAL);
            assert_int_equal(p.from_file, !good);
            char names[100];
            int gone[8];
            for (int r = 0; r < 8; r++)
                gone[r] = (lost >> r & 1) && (r < 4 ? first : second) > m;
            assert_int_equal(ftk_ranks_text(gone, 8, names, sizeof names) > 0, !good);
            if (!good) /* all of them, and no others */
                assert_string_equal(strstr(p.why, " of rank") + 4, names);
            for (int r = 0; r < 8; r++) {
                if (good)
                    assert_int_equal(p.source[r], p.proc_of[r]);
                if (good)
                    assert_int_equal(p.need_own[r], 0); /* rebuilt where it belongs */
            }
            if (good)
                assert_int_equal(p.ngroups, (first > 0) + (second > 0));
            ftk_plan_free(&p);
        }
    }
}

/* A group is given its parity back also when no data are lost. */
static void lost_parity_is_made_again(void **state)
{
    (void)state;
    struct ftk_census c = grouped(4, 1, 1, 5);
    c.entries[2].nsegs = 1; /* its parity was corrupt */
    struct ftk_plan p = plan(&c, parity_rules(4));
    assert_int_equal(p.ngroups, 1);
    assert_int_equal(p.groups[0].parity_to[2], 2);
    for (int i = 0; i < 4; i++)
        assert_int_equal(p.groups[0].data_to[i], -1);
    ftk_plan_free(&p);
    /* nonsense in a census is passed over */
    c = grouped(4, 1, 1, 5);
    int64_t wild[4] = { 0, 1, 2, 77 };
    for (int i = 0; i < 4; i++)
        c.segs[2 * i + 1].members = wild;
    lose(&c, 1);
    p = plan(&c, parity_rules(4));
    assert_int_equal(p.outcome, FTK_PLAN_FATAL);
    ftk_plan_free(&p);
}

static void closing(void **state)
{
    (void)state;
    struct ftk_census c = running(4, 1, 5);
    for (int i = 0; i < 4; i++)
        c.entries[i].where = FTK_IN_CLOSE;
    c.entries[2].where = FTK_ALL_CLOSED;
    struct ftk_plan p = plan(&c, RULES(4, spare_end));
    assert_int_equal(p.outcome, FTK_PLAN_CLOSE);
    ftk_plan_free(&p);
    c = running(4, 1, 5);
    for (int i = 0; i < 4; i++)
        c.entries[i].where = FTK_ALL_CLOSED;
    lose(&c, 0); /* what its program does behind ftkit_close is missing */
    p = plan(&c, RULES(4, spare_end));
    assert_int_equal(p.outcome, FTK_PLAN_FATAL);
    ftk_plan_free(&p);
    c = running(4, 1, 5);
    c.entries[2].where = FTK_IN_CLOSE; /* cannot go back to its loop */
    lose(&c, 0);
    p = plan(&c, RULES(4, spare_end));
    assert_int_equal(p.outcome, FTK_PLAN_FATAL);
    ftk_plan_free(&p);
}

static void all_working_ranks_lost(void **state)
{
    (void)state;
    struct ftk_census c = running(4, 3, 5);
    for (int i = 0; i < 4; i++)
        lose(&c, 0);
    for (int i = 0; i < c.n; i++)
        c.entries[i].epoch = 1;
    struct ftk_plan p = plan(&c, RULES(4, spare_spawn_end));
    assert_int_equal(p.outcome, FTK_PLAN_FATAL);
    assert_int_equal(p.code, FTKIT_ERR_LOST);
    ftk_plan_free(&p);
}

static void trouble_and_repetition(void **state)
{
    (void)state;
    struct ftk_census c = running(4, 1, 5);
    c.entries[3].local_error = FTKIT_ERR_NOMEM;
    struct ftk_plan p = plan(&c, RULES(4, spare_end));
    assert_int_equal(p.outcome, FTK_PLAN_FATAL);
    assert_int_equal(p.code, FTKIT_ERR_NOMEM);
    ftk_plan_free(&p);
    for (int repeats = 9; repeats <= 10; repeats++) {
        c = running(4, 1, 5);
        c.entries[1].repeats = (struct ftk_repeats){ .of = 5, .weight = repeats * FTK_REPEAT };
        lose(&c, 0);
        p = plan(&c, RULES(4, spare_end));
        assert_int_equal(p.outcome, repeats < 10 ? FTK_PLAN_GO : FTK_PLAN_FATAL);
        ftk_plan_free(&p);
    }
}

/* One rank alone dies again and again, with the same set as the line; the calls of the survivors
 * may differ by one.  Another rank, another call, or another line begins the count anew. */
static void a_rank_dies_again(void **state)
{
    const struct ftk_repeats twice = { .of = 5, .weight = 8, .deaths = 2, .rank = 1, .calls = 7 };
    const struct {
        uint64_t of, calls;
        int lost, outcome, deaths, weight;
    } cases[] = { { 5, 7, 1, FTK_PLAN_FATAL, 3, 0 }, { 5, 8, 1, FTK_PLAN_FATAL, 3, 0 },
        { 5, 9, 1, FTK_PLAN_GO, 1, 12 }, { 5, 7, 2, FTK_PLAN_GO, 1, 12 },
        { 4, 7, 1, FTK_PLAN_GO, 1, 4 } };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ftk_census c = running(4, 1, 5);
        for (int k = 0; k < c.n; k++) {
            c.entries[k].repeats = twice;
            c.entries[k].repeats.of = cases[i].of;
            c.entries[k].calls = cases[i].calls;
        }
        lose(&c, cases[i].lost);
        struct ftk_plan p = plan(&c, RULES(4, spare_end));
        assert_int_equal(p.outcome, cases[i].outcome);
        assert_int_equal(p.repeats.deaths, cases[i].deaths);
        assert_int_equal(p.repeats.weight, cases[i].weight);
        ftk_plan_free(&p);
    }
}

/* Replicas differ: their team goes back; if the same set differs again, all ranks do. */
static void replicas_differ(void **state)
{
    static const int team[] = { 0, 1, 0, 1 };
    (void)state;
    struct ftk_plan_rules teams = RULES(4, spare_end);
    teams.team = team;
    for (int how = FTK_DIFFERS_NOT; how <= FTK_DIFFERS_ALL; how++) {
        struct ftk_census c = running(4, 1, 5);
        c.entries[3].differs = how;
        struct ftk_plan p = plan(&c, teams);
        assert_int_equal(p.outcome, FTK_PLAN_GO);
        assert_int_equal(p.lost, 0);
        for (int r = 0; r < 4; r++)
            assert_int_equal(
                p.back[r], how == FTK_DIFFERS_ALL || (how == FTK_DIFFERS_HERE && r % 2 == 1));
        ftk_plan_free(&p);
    }
}

/* Two planes of two ranks: 0 and 1, 2 and 3. */
static struct ftk_plan_rules two_planes(void)
{
    static const int team[] = { 0, 1, 0, 1 };
    struct ftk_plan_rules r = RULES(4, spare_end);
    r.team = team;
    r.replicas = 2;
    r.lost = FTK_LOST_CLONE;
    return r;
}

static void expect_back(const struct ftk_plan *p, const char *who)
{
    for (int r = 0; r < 4; r++)
        assert_int_equal(p->back[r], who[r] == 'b');
}

/* A plane that has lost a rank stands still, and gets the state of the other one. */
static void a_plane_takes_over(void **state)
{
    (void)state;
    for (int lost = 0; lost < 4; lost++) {
        struct ftk_census c = running(4, 1, 5);
        for (int i = 0; i < 4; i++)
            c.entries[i].calls = 70 + (uint64_t)i;
        lose(&c, lost);
        struct ftk_plan p = plan(&c, two_planes());
        assert_int_equal(p.outcome, FTK_PLAN_GO);
        assert_int_equal(p.pending, FTK_PENDING_CLONE);
        assert_int_equal(p.stale, lost < 2 ? 1 : 2);
        assert_int_equal(
            p.clone_at, lost < 2 ? 74 : 72); /* one more than the most of a whole one */
        expect_back(&p, lost < 2 ? "bb--" : "--bb");
        ftk_plan_free(&p);
    }
}

/* The plane waits still when its next rank is lost; when the other plane loses one, all go back. */
static void a_plane_that_waits(void **state)
{
    (void)state;
    for (int lost = 0; lost < 4; lost++) {
        struct ftk_census c = running(4, 2, 5);
        c.entries[0].pending = c.entries[1].pending = FTK_PENDING_CLONE;
        c.entries[0].where = FTK_IN_SETUP;
        lose(&c, lost);
        struct ftk_plan p = plan(&c, two_planes());
        assert_int_equal(p.pending, lost < 2 ? FTK_PENDING_CLONE : FTK_PENDING_LINE);
        assert_int_equal(p.stale, lost < 2);
        expect_back(&p, lost < 2 ? "bb--" : "bbbb");
        ftk_plan_free(&p);
    }
}

/* A replacement comes to a node without another replica of its rank, if there is one. */
static void a_spare_away_from_siblings(void **state)
{
    (void)state;
    for (int alone = 0; alone < 2; alone++) {
        struct ftk_census c = running(4, 2, 5);
        struct ftk_plan_rules r = two_planes();
        c.entries[4].node = c.entries[2].node; /* of the other replica of rank 0 */
        c.entries[5].node = c.entries[alone ? 2 : 1].node;
        const int want = alone ? 4 : 5;
        lose(&c, 0);
        struct ftk_plan p = plan(&c, r);
        assert_int_equal(p.outcome, FTK_PLAN_GO);
        assert_int_equal(p.proc_of[0], want - 1); /* the census has lost its first process */
        ftk_plan_free(&p);
    }
}

/* No segment of rank 0 is left: its other replica, rank 2, has the same. */
static void a_segment_of_a_sibling(void **state)
{
    (void)state;
    for (int replicas = 1; replicas <= 2; replicas++) {
        struct ftk_census c = running(4, 1, 5);
        struct ftk_plan_rules r = two_planes();
        r.lost = FTK_LOST_REPLAY;
        r.replicas = replicas;
        c.entries[1].nsegs = 0; /* neither its own one nor its copy of that of rank 0 */
        lose(&c, 0);
        struct ftk_plan p = plan(&c, r);
        if (replicas == 1) {
            assert_int_equal(p.outcome, FTK_PLAN_FATAL);
        } else {
            assert_int_equal(p.outcome, FTK_PLAN_GO);
            assert_int_equal(p.as[0], 2);
            assert_int_equal(p.rank_of[p.source[0]], 2);
            assert_int_equal(p.as[1], 3);
            assert_int_equal(p.rank_of[p.source[1]], 3);
            assert_int_equal(p.as[2], 2);
            assert_true(p.need_own[0] && p.need_own[1] && !p.need_own[2]);
            assert_false(p.from_file);
        }
        ftk_plan_free(&p);
    }
}

/* Two ranks of a group with one parity are lost: siblings have their segments, with other bytes.
 * So no parity of this group may stay, and those of the other group stay. */
static void parity_after_siblings(void **state)
{
    (void)state;
    for (int lost = 1; lost <= 2; lost++) {
        struct ftk_census c = grouped(8, 2, 1, 5);
        struct ftk_plan_rules r = parity_rules(8);
        struct ftk_mem mem = { 0 };
        r.replicas = 2;
        lose(&c, 2);
        if (lost == 2)
            lose(&c, 1);
        for (int i = 0; i < 8; i++) {
            struct ftk_mem_seg *s = NULL;
            assert_int_equal(ftk_mem_take(&mem, 5, i, 8, 4096, &s), FTKIT_OK);
            s->parity = true;
            assert_int_equal(ftk_mem_seal(s), FTKIT_OK);
        }
        struct ftk_plan p = plan(&c, r);
        assert_int_equal(p.outcome, FTK_PLAN_GO);
        assert_false(p.from_file);
        assert_int_equal(p.ngroups, 1);
        assert_int_equal(p.groups[0].anew, lost == 2);
        assert_int_equal(p.as[2], lost == 2 ? 6 : 2);
        ftk_plan_void(&p, &mem);
        for (int i = 0; i < 8; i++)
            assert_int_equal(ftk_mem_find_parity(&mem, 5, i) != NULL, lost == 1 || i >= 4);
        ftk_mem_close(&mem, false);
        ftk_plan_free(&p);
    }
}

/* No set will come: the lost rank returns to the line, and nobody else does.  If its plane stands
 * still already, the whole plane returns. */
static void no_set_will_come(void **state)
{
    (void)state;
    for (int how = 0; how < 2; how++) {
        struct ftk_census c = running(4, 1, 5);
        c.entries[3].sets = FTK_SETS_LATER + how;
        lose(&c, 0);
        struct ftk_plan p = plan(&c, two_planes());
        assert_int_equal(p.outcome, FTK_PLAN_GO);
        assert_int_equal(p.pending, FTK_PENDING_LINE);
        assert_int_equal(p.stale, 0);
        expect_back(&p, "b---");
        ftk_plan_free(&p);
    }
    for (int why = 0; why < 3; why++) {
        struct ftk_census c = running(4, 1, 5);
        struct ftk_plan_rules r = two_planes();
        c.entries[3].sets = FTK_SETS_LATER;
        r.all = why == 0; /* determinants of a follower are lost: the leader has them */
        c.entries[1].ambiguous = why == 1;
        c.entries[0].pending = c.entries[1].pending = why == 2 ? FTK_PENDING_CLONE : 0;
        if (why < 2)
            lose(&c, 0);
        struct ftk_plan p = plan(&c, r);
        assert_int_equal(p.stale, 0);
        expect_back(&p, "bb--");
        ftk_plan_free(&p);
    }
}

/* The outcomes that a lost leader has decided cannot be read: a plane that went on would decide
 * them anew.  So all go back, also where a plane could be cloned. */
static void outcomes_of_a_leader_are_lost(void **state)
{
    (void)state;
    for (int sets = FTK_SETS_COME; sets <= FTK_SETS_LATER; sets++) {
        struct ftk_census c = running(4, 1, 5);
        struct ftk_plan_rules r = two_planes();
        c.entries[3].sets = sets;
        r.all = r.led = true;
        lose(&c, 0);
        struct ftk_plan p = plan(&c, r);
        assert_int_equal(p.outcome, FTK_PLAN_GO);
        assert_int_equal(p.pending, FTK_PENDING_LINE);
        assert_int_equal(p.stale, 0);
        expect_back(&p, "bbbb");
        ftk_plan_free(&p);
    }
}

/* Whether a rank has made the call that wrote the line, which is the first one of replacements. */
static void a_call_that_is_passed(void **state)
{
    (void)state;
    static const int team[] = { 0, 1, 0, 1 };
    struct ftk_plan_rules r = RULES(4, spare_end);
    for (int how = 0; how < 6; how++) {
        struct ftk_census c = running(4, 1, how == 4 ? 0 : 5);
        for (int i = 0; i < 5; i++)
            c.entries[i].sets = FTK_SETS_LATER; /* all wait in ftkit_wait() */
        c.entries[3].sets = how == 1 ? FTK_SETS_COME : FTK_SETS_LATER;
        if (how == 2) { /* comes from its set-up */
            c.entries[3].sets = FTK_SETS_COME;
            c.entries[3].where = FTK_IN_SETUP;
        }
        if (how == 5) /* waits for the set of a halt in ftkit_checkpoint() */
            c.entries[3].sets = FTK_SETS_OVER;
        r.team = how == 3 ? team : NULL; /* two ranks go on */
        lose(&c, 0);
        struct ftk_plan p = plan(&c, r);
        assert_int_equal(p.line_passed, how == 1 || how == 3 || how == 5);
        ftk_plan_free(&p);
    }
}

/* A rank of the plane that has lost another one has left its loop: it does not come back. */
static void a_rank_has_left_its_loop(void **state)
{
    (void)state;
    struct ftk_census c = running(4, 1, 5);
    c.entries[1].where = FTK_IN_CLOSE;
    c.entries[1].sets = FTK_SETS_OVER;
    lose(&c, 0);
    struct ftk_plan p = plan(&c, two_planes());
    assert_int_equal(p.outcome, FTK_PLAN_GO);
    assert_int_equal(p.stale, 0);
    expect_back(&p, "b---");
    ftk_plan_free(&p);
    c = running(4, 1, 5);
    c.entries[1].sets = FTK_SETS_LATER; /* in a plane that is given up anyway */
    lose(&c, 0);
    p = plan(&c, two_planes());
    assert_int_equal(p.stale, 1);
    ftk_plan_free(&p);
}

/* No plane is known to be right: teams go back, as without planes. */
static void no_whole_plane(void **state)
{
    (void)state;
    struct ftk_census c = running(4, 2, 5);
    lose(&c, 0);
    lose(&c, 1); /* rank 2 */
    struct ftk_plan p = plan(&c, two_planes());
    assert_int_equal(p.pending, FTK_PENDING_LINE);
    expect_back(&p, "b-b-");
    ftk_plan_free(&p);
    c = running(4, 2, 5);
    c.entries[1].differs = FTK_DIFFERS_HERE; /* its sibling, rank 3, may not know yet */
    lose(&c, 0);
    p = plan(&c, two_planes());
    assert_int_equal(p.pending, FTK_PENDING_LINE);
    expect_back(&p, "bbbb");
    ftk_plan_free(&p);
    c = running(4, 1, 0); /* there is no line */
    lose(&c, 0);
    p = plan(&c, two_planes());
    assert_int_equal(p.stale, 0);
    expect_back(&p, "b---");
    ftk_plan_free(&p);
}

/* Repairs in a row that replace nobody: the program's calls do not fit together. */
static void nobody_lost_again(void **state)
{
    (void)state;
    struct ftk_plan_rules limit = RULES(4, spare_end), none = limit;
    none.attempts = 0;
    for (int repeats = 9; repeats <= 10; repeats++) {
        struct ftk_census c = running(4, 1, 5);
        c.entries[1].repeats = (struct ftk_repeats){ .of = 5, .weight = repeats * FTK_REPEAT };
        struct ftk_plan p = plan(&c, limit);
        assert_int_equal(p.outcome, repeats < 10 ? FTK_PLAN_GO : FTK_PLAN_FATAL);
        if (repeats == 10) {
            assert_int_equal(p.code, FTKIT_ERR_MISMATCH);
            assert_non_null(strstr(p.why, "no rank is missing"));
        }
        ftk_plan_free(&p);
        c = running(4, 1, 5);
        c.entries[1].repeats = (struct ftk_repeats){ .of = 5, .weight = repeats * FTK_REPEAT };
        p = plan(&c, none);
        assert_int_equal(p.outcome, FTK_PLAN_GO);
        ftk_plan_free(&p);
    }
}

static void hash_tells_plans_apart(void **state)
{
    (void)state;
    uint64_t seen[8];
    for (int lost = 0; lost < 8; lost++) {
        struct ftk_census c = running(8, 2, 5);
        lose(&c, lost);
        struct ftk_plan p = plan(&c, RULES(8, spare_end));
        seen[lost] = ftk_plan_hash(&p);
        for (int k = 0; k < lost; k++)
            assert_true(seen[k] != seen[lost]);
        ftk_plan_free(&p);
    }
}

/* 8,000 processes: a plan must cost far less than a repair (this is no timed test: with
 * quadratic costs it would run into the runner's limit). */
static void large(void **state)
{
    (void)state;
    struct ftk_census c = newcomers(8000, 16, 7500);
    struct ftk_plan p = plan(&c, RULES(7500, spare_end));
    assert_int_equal(p.outcome, FTK_PLAN_GO);
    ftk_plan_free(&p);
    for (int i = 0; i < 20; i++) {
        c = running(8000, 16, 5);
        lose(&c, 400 * i);
        p = plan(&c, RULES(8000, spare_end));
        assert_int_equal(p.lost, 1);
        ftk_plan_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(spawned_alone),
        cmocka_unit_test(opening_spreads_spares), cmocka_unit_test(opening_with_losses),
        cmocka_unit_test(a_lost_node_is_spread), cmocka_unit_test(a_node_of_spares_is_filled),
        cmocka_unit_test(one_lost), cmocka_unit_test(buddies_lost), cmocka_unit_test(given_up),
        cmocka_unit_test(spare_with_segments), cmocka_unit_test(newest_commit_wins),
        cmocka_unit_test(another_try), cmocka_unit_test(other_tries_are_released),
        cmocka_unit_test(before_the_first_set), cmocka_unit_test(supply_ladder),
        cmocka_unit_test(what_parity_makes_up_for), cmocka_unit_test(lost_parity_is_made_again),
        cmocka_unit_test(closing), cmocka_unit_test(all_working_ranks_lost),
        cmocka_unit_test(trouble_and_repetition), cmocka_unit_test(a_rank_dies_again),
        cmocka_unit_test(nobody_lost_again), cmocka_unit_test(replicas_differ),
        cmocka_unit_test(a_plane_takes_over), cmocka_unit_test(a_plane_that_waits),
        cmocka_unit_test(a_spare_away_from_siblings), cmocka_unit_test(a_segment_of_a_sibling),
        cmocka_unit_test(parity_after_siblings), cmocka_unit_test(no_set_will_come),
        cmocka_unit_test(outcomes_of_a_leader_are_lost), cmocka_unit_test(a_call_that_is_passed),
        cmocka_unit_test(a_rank_has_left_its_loop), cmocka_unit_test(no_whole_plane),
        cmocka_unit_test(hash_tells_plans_apart), cmocka_unit_test(large) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
