/* The plan of a repair with silent teams (log.silent): who rolls back, against a search of all sets
 * of teams.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "recover/plan.h"

enum { TEAMS = 8, RANKS = 100, SPARES = 16, GRAPHS = 1000 };

static const int spare_end[] = { FTK_SUPPLY_SPARE, FTK_SUPPLY_END };

/* A job: ranks in teams, of which some are silent; who has sent to which team since the line. */
struct job {
    int nranks, nteams;
    int number[TEAMS]; /* of each team: the numbers of teams may have gaps */
    int team[RANKS];   /* number of the team */
    bool silent[RANKS];
    int64_t sent_to[RANKS][(RANKS + 63) / 64];
    struct ftk_census_seg segs[RANKS][2];
    struct ftk_census_entry entries[RANKS + SPARES];
    struct ftk_census census;
    int lost[RANKS];
};

static int draw(int below)
{
    return (int)(rand() / (RAND_MAX + 1.0) * below);
}

static void send_to(struct job *j, int rank, int team)
{
    j->sent_to[rank][team / 64] |= (int64_t)((uint64_t)1 << (team % 64));
}

static bool has_sent(const struct job *j, int rank, int team)
{
    return (uint64_t)j->sent_to[rank][team / 64] >> (team % 64) & 1;
}

/* Teams have random members, and numbers of ranks, as those of nodes have. */
static void begin(struct job *j, int nranks, int nteams)
{
    memset(j, 0, sizeof *j);
    j->nranks = nranks;
    j->nteams = nteams;
    for (int t = 0, from = 0; t < nteams; t++) {
        j->number[t] = from + draw(nranks - nteams + t + 1 - from);
        from = j->number[t] + 1;
    }
    for (int r = 0; r < nranks; r++)
        j->team[r] = j->number[r < nteams ? r : draw(nteams)];
}

static void silence(struct job *j, int team)
{
    for (int r = 0; r < j->nranks; r++)
        j->silent[r] = j->silent[r] || j->team[r] == team;
}

/* The census of a running job in whose memory set 5 is, without the lost ranks. */
static void take_census(struct job *j)
{
    const int n = j->nranks;
    int at = 0;
    for (int i = 0; i < n + SPARES; i++) {
        struct ftk_census_entry *e = &j->entries[at];
        *e = (struct ftk_census_entry){ .rank = -1, .nranks = n, .node = 1000 + i };
        at += i >= n || !j->lost[i];
        if (i >= n)
            continue;
        const int buddy = (i + n / 2) % n;
        e->rank = i;
        e->epoch = 1;
        e->where = FTK_IN_LOOP;
        e->committed = 5;
        e->next_set = 6;
        j->segs[i][0] = (struct ftk_census_seg){ .set = 5, .rank = i, .nranks = n };
        j->segs[i][1] = (struct ftk_census_seg){ .set = 5, .rank = buddy, .nranks = n };
        e->segs = j->segs[i];
        e->nsegs = 2;
        e->sent_to = j->silent[i] ? j->sent_to[i] : NULL;
    }
    j->census = (struct ftk_census){ .n = at, .entries = j->entries };
}

static struct ftk_plan plan(struct job *j)
{
    struct ftk_plan p;
    const struct ftk_plan_rules rules = { .nranks = j->nranks,
        .map = FTK_MAP_RING,
        .scheme = ftk_scheme_of(FTK_SCHEME_BUDDY),
        .attempts = 10,
        .supply = spare_end,
        .nsupply = 2,
        .files = true,
        .team = j->team,
        .silent = j->silent };
    assert_int_equal(ftk_plan_make(&j->census, &rules, &p), FTKIT_OK);
    assert_int_equal(p.outcome, FTK_PLAN_GO);
    return p;
}

static struct ftk_census_entry *entry_of(struct job *j, int rank)
{
    for (int i = 0; i < j->census.n; i++)
        if (j->entries[i].rank == rank)
            return &j->entries[i];
    fail_msg("rank %d is lost", rank);
    return NULL;
}

/* ---- the definition: the smallest set of teams that has the lost ranks, and with a team each
 * silent team that has sent to it ---- */

static unsigned bit_of(const struct job *j, int team)
{
    for (int t = 0; t < j->nteams; t++)
        if (j->number[t] == team)
            return 1u << t;
    fail_msg("no team %d", team);
    return 0;
}

static bool is_closed(const struct job *j, unsigned set)
{
    for (int r = 0; r < j->nranks; r++) {
        if (set & bit_of(j, j->team[r]))
            continue;
        if (j->lost[r])
            return false;
        for (int t = 0; t < j->nteams; t++)
            if ((set >> t & 1) && j->silent[r] && has_sent(j, r, j->number[t]))
                return false;
    }
    return true;
}

static unsigned smallest_closed(const struct job *j)
{
    unsigned best = (1u << j->nteams) - 1;
    for (unsigned set = 0; set < 1u << j->nteams; set++)
        if (__builtin_popcount(set) < __builtin_popcount(best) && is_closed(j, set))
            best = set;
    return best;
}

/* One rank or two, but not one and the holder of its copy. */
static void lose_some(struct job *j)
{
    const int n = j->nranks, first = draw(n), second = draw(n);
    j->lost[first] = 1;
    if (draw(2) && (first + n / 2) % n != second && (second + n / 2) % n != first)
        j->lost[second] = 1;
}

static void random_graphs(void **state)
{
    static struct job j;
    int more = 0, fewer = 0, chains = 0;
    (void)state;
    srand(7);
    for (int k = 0; k < GRAPHS; k++) {
        const int nteams = 2 + draw(TEAMS - 1);
        begin(&j, nteams + draw(RANKS - nteams), nteams);
        for (int t = 0; t < nteams; t++)
            if (draw(3) > 0)
                silence(&j, j.number[t]);
        for (int i = draw(3 * nteams); i > 0; i--)
            send_to(&j, draw(j.nranks), j.number[draw(nteams)]);
        lose_some(&j);
        take_census(&j);
        struct ftk_plan p = plan(&j);
        const unsigned want = smallest_closed(&j);
        unsigned lost = 0, direct = 0;
        for (int r = 0; r < j.nranks; r++)
            lost |= j.lost[r] ? bit_of(&j, j.team[r]) : 0;
        for (int r = 0; r < j.nranks; r++)
            for (int t = 0; t < nteams; t++)
                if (j.silent[r] && (lost >> t & 1) && has_sent(&j, r, j.number[t]))
                    direct |= bit_of(&j, j.team[r]);
        more += want != lost;
        fewer += want != (1u << nteams) - 1;
        chains += want != (lost | direct);
        for (int r = 0; r < j.nranks; r++)
            if (p.back[r] != !!(want & bit_of(&j, j.team[r])))
                fail_msg("graph %d: rank %d: back is %d", k, r, p.back[r]);
        ftk_plan_free(&p);
    }
    /* the graphs have all that the rule is about */
    assert_true(more > GRAPHS / 10 && fewer > GRAPHS / 4 && chains > GRAPHS / 20);
}

/* ---- cases by hand --------------------------------------------------------------------- */

static void expect_back(struct job *j, const char *who)
{
    take_census(j);
    struct ftk_plan p = plan(j);
    for (int r = 0; r < j->nranks; r++)
        if (p.back[r] != (who[r] == 'b'))
            fail_msg("rank %d of %s: back is %d", r, who, p.back[r]);
    ftk_plan_free(&p);
}

/* Eight ranks, each a team; rank 0 is a silent hub. */
static void begin_star(struct job *j)
{
    begin(j, 8, 8);
    silence(j, 0);
}

static void a_star(void **state)
{
    struct job j;
    (void)state;
    begin_star(&j);
    for (int r = 1; r < 7; r++)
        send_to(&j, 0, r);
    j.lost[3] = 1;
    expect_back(&j, "b--b----");
    j.lost[3] = 0;
    j.lost[7] = 1; /* the hub has sent nothing to it since the line */
    expect_back(&j, "-------b");
    j.lost[7] = 0;
    j.lost[0] = 1; /* leaves keep what they have sent */
    expect_back(&j, "b-------");
}

/* What ranks that keep their messages have sent does not count. */
static void others_keep_their_messages(void **state)
{
    struct job j;
    (void)state;
    begin_star(&j);
    for (int r = 1; r < 8; r++)
        send_to(&j, r, 0);
    j.lost[0] = 1;
    expect_back(&j, "b-------");
}

/* A rank that waits for the line since an earlier failure takes silent teams along, too. */
static void a_rank_that_waits(void **state)
{
    struct job j;
    (void)state;
    begin_star(&j);
    send_to(&j, 0, 5);
    j.lost[2] = 1;
    take_census(&j);
    entry_of(&j, 5)->pending = FTK_PENDING_LINE;
    struct ftk_plan p = plan(&j);
    for (int r = 0; r < 8; r++)
        assert_int_equal(p.back[r], r == 0 || r == 2 || r == 5);
    ftk_plan_free(&p);
}

/* A rank of a silent team does not say to whom it has sent: all ranks roll back, unless this rank
 * rolls back anyway. */
static void not_known(void **state)
{
    struct job j;
    (void)state;
    for (int lost = 1; lost < 3; lost++) {
        begin_star(&j);
        silence(&j, 1);
        j.lost[lost] = 1;
        take_census(&j);
        if (lost == 2)
            entry_of(&j, 1)->sent_to = NULL;
        struct ftk_plan p = plan(&j);
        for (int r = 0; r < 8; r++)
            assert_int_equal(p.back[r], lost == 2 || r == 1);
        ftk_plan_free(&p);
    }
}

/* Before the first set each rank is a team, and keeps its messages. */
static void before_the_first_set(void **state)
{
    struct job j;
    (void)state;
    begin_star(&j);
    send_to(&j, 0, 3);
    j.lost[3] = 1;
    take_census(&j);
    for (int i = 0; i < j.census.n; i++) {
        j.entries[i].committed = 0;
        j.entries[i].nsegs = 0;
    }
    struct ftk_plan p = plan(&j);
    for (int r = 0; r < 8; r++)
        assert_int_equal(p.back[r], r == 3);
    ftk_plan_free(&p);
}

/* A silent rank that has left its loop cannot roll back. */
static void the_hub_has_left_its_loop(void **state)
{
    struct job j;
    (void)state;
    for (int sent = 0; sent < 2; sent++) {
        const struct ftk_plan_rules rules = { .nranks = 8,
            .map = FTK_MAP_RING,
            .scheme = ftk_scheme_of(FTK_SCHEME_BUDDY),
            .attempts = 10,
            .supply = spare_end,
            .nsupply = 2,
            .team = j.team,
            .silent = j.silent };
        struct ftk_plan p;
        begin_star(&j);
        if (sent)
            send_to(&j, 0, 3);
        j.lost[3] = 1;
        take_census(&j);
        entry_of(&j, 0)->where = FTK_IN_CLOSE;
        assert_int_equal(ftk_plan_make(&j.census, &rules, &p), FTKIT_OK);
        assert_int_equal(p.outcome, sent ? FTK_PLAN_FATAL : FTK_PLAN_GO);
        if (sent)
            assert_non_null(strstr(p.why, "log.silent"));
        ftk_plan_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(random_graphs), cmocka_unit_test(a_star),
        cmocka_unit_test(others_keep_their_messages), cmocka_unit_test(a_rank_that_waits),
        cmocka_unit_test(not_known), cmocka_unit_test(before_the_first_set),
        cmocka_unit_test(the_hub_has_left_its_loop) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
