/* Lines apart: ranks that take the steps of apart_step.c in one process, in many thousand orders.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Each run has a seed.  Rounds go by the real tallies (detect/tally.c) over a wire that delays
 * messages and keeps the order of each pair of ranks.  The rest is a model: messages of the program
 * and of ftkit are numbers, a set is what was saved of each rank.  Between any two steps a rank may
 * die, survivors notice it one after another, and more may die until the repair.  The oracle has
 * the states and rules of docs/model/apart.pml; a run that breaks a rule names its seed.
 *
 *     FTKIT_TEST_SEED=... the first seed; FTKIT_TEST_COUNT=... runs with, and without failures */
#include "t_apart_ranks.h"

#include <stdlib.h>

enum { STEPS = 700, CALM = 3000, RUNS = 4000 };

/* ---- events, as apart.c gathers them ----------------------------------------------------- */

static void listen(int rank)
{
    struct ftk_apart_event e = { .kind = FTK_ON_RESULT };
    struct ftk_vote v;
    if (!heard(rank, ftk_apart_round_of(ranks[rank].r.state), &v))
        return;
    e.words.error = (int)v.min[ERROR];
    e.words.local_error = (int)v.min[LOCAL_ERROR];
    (void)happens(rank, e);
}

static void hear_initiation(int rank)
{
    struct ftk_apart_event e = { .kind = FTK_ON_INITIATION };
    struct ftk_vote v;
    uint64_t number;
    if (!ftk_tally_announced(ranks[rank].tally, &number, &v))
        return;
    e.set = number / FTK_ROUND_MOST;
    e.words.durable = (int)v.min[DURABLE];
    e.words.local = v.min[LOCAL] == 1;
    e.words.want = (int)v.min[WANT];
    (void)happens(rank, e);
}

static void step_counting(int rank)
{
    struct rank *p = &ranks[rank];
    struct ftk_vote v;
    if (p->r.state != FTK_APART_INITIATED)
        take_numbers(COUNTS, rank);
    if (heard(rank, FTK_ROUND_CUT, &v))
        listen(rank);
    else if (p->r.state == FTK_APART_COUNTING && are_taken(p))
        (void)on(rank, FTK_ON_READY);
}

static void step_closing(int rank)
{
    struct rank *p = &ranks[rank];
    bool here = true;
    take_numbers(EARLY, rank);
    if (p->r.state == FTK_APART_CLOSED) {
        listen(rank);
        return;
    }
    for (int i = 0; i < n; i++) {
        if (p->got[i] < p->at_cut[i] && in_flight(i, rank) && !late())
            receive(rank, i);
        here = here && p->got[i] >= p->at_cut[i];
    }
    if (here && are_taken(p))
        (void)on(rank, FTK_ON_READY);
}

static void step_sizes(int rank)
{
    struct rank *p = &ranks[rank];
    struct set *s = set_of(p->r.set);
    if (chance(10))
        p->part_error = s->error[rank] = FTKIT_ERR_NOMEM;
    if (p->r.state == FTK_APART_SENDING)
        RULE(rank, all(s->has_memory)); /* segments travel to memory that is there */
    if (all(s->sealed) && !late())
        (void)on(rank, FTK_ON_READY);
}

static void step_files(int rank)
{
    struct rank *p = &ranks[rank];
    const struct set *s = set_of(p->r.set);
    if (!all(s->began) || late())
        return;
    p->writes = false;
    (void)happens(rank,
        (struct ftk_apart_event){ .kind = FTK_ON_FLUSHED, .words = { .error = s->flush_error } });
}

static void take_turn(int rank)
{
    struct rank *p = &ranks[rank];
    struct ftk_vote v;
    if (p->frozen || p->halted)
        return;
    if (p->writes) {
        step_files(rank);
        return;
    }
    if (!p->tally)
        p->tally = ftk_tally_open(&contexts[rank]);
    RULE(rank, p->tally && ftk_tally_poll(p->tally) == FTKIT_OK);
    if (rank == 0 && chance(3) && (p->r.state > FTK_APART_COUNTED || !heard(0, FTK_ROUND_CUT, &v)))
        (void)on(0, FTK_ON_PATIENCE);
    switch (p->r.state) {
    case FTK_APART_AWAY:
        hear_initiation(rank);
        break;
    case FTK_APART_INITIATED:
    case FTK_APART_COUNTING:
    case FTK_APART_COUNTED:
        step_counting(rank);
        break;
    case FTK_APART_CLOSING:
    case FTK_APART_CLOSED:
        step_closing(rank);
        break;
    case FTK_APART_SIZING:
    case FTK_APART_SENDING:
        step_sizes(rank);
        break;
    case FTK_APART_COMMITTED:
        (void)happens(
            rank, (struct ftk_apart_event){ .kind = FTK_ON_HOW, .how = set_of(p->r.set)->how });
        break;
    case FTK_APART_STARTING:
        step_files(rank);
        break;
    default:
        listen(rank);
    }
}

static int wants(const struct rank *p)
{
    return p->outside ? p->outside : p->requested == 2 ? FTK_WANT_DURABLE : p->requested;
}

static void look_for_due(void)
{
    struct ftk_apart_event e = { .kind = FTK_ON_DUE };
    struct rank *p = &ranks[0];
    struct ftk_vote v;
    if (p->r.busy && heard(0, FTK_ROUND_SEEN, &v))
        (void)on(0, FTK_ON_SEEN);
    if (p->r.busy || p->next_set >= SETS - 8)
        return;
    const int others = (int)ftk_tally_asked(p->tally), own = wants(p);
    e.words.want = others > own ? others : own;
    if (e.words.want == 0 && !chance(200))
        return;
    e.set = p->next_set;
    e.words.durable = e.words.want >= FTK_WANT_DURABLE ? 2 : (int)below(2);
    e.words.local = below(2) == 0;
    (void)happens(0, e);
    p->outside = 0;
}

static void checkpoint(int rank)
{
    struct rank *p = &ranks[rank];
    take_turn(rank);
    if (!p->tally || p->frozen || p->halted || p->writes)
        return;
    if (rank > 0 && p->r.state == FTK_APART_AWAY)
        (void)happens(
            rank, (struct ftk_apart_event){ .kind = FTK_ON_WANT, .words = { .want = wants(p) } });
    if (rank == 0 && p->r.state == FTK_APART_AWAY) {
        look_for_due();
        take_turn(0);
    }
    if (p->r.state == FTK_APART_INITIATED && may_cut(rank)) {
        p->outside = 0; /* the request from outside holds until a set is written for it */
        (void)on(rank, FTK_ON_CALL);
    }
}

/* ---- the other calls that all ranks make together ---------------------------------------- */

static void vote(int rank)
{
    struct rank *p = &ranks[rank];
    const uint64_t known = ftk_apart_knows(&p->r);
    p->voted_cut = ftk_apart_cut_for(&p->r, p->line);
    p->voted_newest = known > p->voted_cut ? known : p->voted_cut;
    p->meeting = VOTES;
}

static void learn(int rank)
{
    struct ftk_apart_event e = { .kind = FTK_ON_MEETING, .least = UINT64_MAX };
    for (int i = 0; i < n; i++) {
        const struct rank *p = &ranks[i];
        if (p->meeting == ELSEWHERE)
            return;
        e.least = p->voted_cut < e.least ? p->voted_cut : e.least;
        e.most = p->voted_cut > e.most ? p->voted_cut : e.most;
        e.set = p->voted_newest > e.set ? p->voted_newest : e.set;
    }
    if (!ranks[rank].tally)
        ranks[rank].tally = ftk_tally_open(&contexts[rank]);
    (void)happens(rank, e);
    ranks[rank].meeting = KNOWS;
}

static void meet(int rank)
{
    struct rank *p = &ranks[rank];
    bool over = true;
    if (p->meeting == ELSEWHERE)
        vote(rank);
    else if (p->meeting == VOTES && !late())
        learn(rank);
    if (p->meeting == KNOWS && (p->r.state == FTK_APART_AWAY || p->halted))
        p->meeting = GONE;
    for (int i = 0; i < n; i++)
        over = over && (ranks[i].meeting == GONE || ranks[i].dead);
    if (!over)
        return;
    for (int i = 0; i < n; i++)
        ranks[i].meeting = ELSEWHERE;
    meets = false;
    figures.meetings++;
}

/* ---- failures ---------------------------------------------------------------------------- */

static int living(void)
{
    int k = 0;
    for (int i = 0; i < n; i++)
        k += !ranks[i].dead;
    return k;
}

static void lose(int rank)
{
    ranks[rank].dead = true;
    figures.failures++;
    for (int i = 0; i < n; i++) { /* its last messages may have left it, or not */
        struct wire *w = &wires[rank][i];
        w->last -= below(w->last - w->first + 1);
    }
}

static void notice(int rank)
{
    struct rank *p = &ranks[rank];
    const bool lost = p->r.state == FTK_APART_STARTING
                      || (p->r.state == FTK_APART_COMMITTED && p->r.durable != 0);
    p->lost_flush = false;
    (void)on(rank, FTK_ON_FAILURE);
    p->frozen = true;
    RULE(rank, p->lost_flush == lost && !p->r.busy && !p->has_part);
    RULE(rank, p->r.state == (p->r.open ? FTK_APART_FROZEN : FTK_APART_AWAY));
}

/* The rank begins again at the line. */
static void restore(int rank, uint64_t line)
{
    struct rank *p = &ranks[rank];
    const struct set *s = set_of(line);
    if (p->dead) {
        close_tally(p);
        *p = (struct rank){ .weight = p->weight };
    } else {
        (void)on(rank, FTK_ON_ROLLBACK);
        RULE(rank, !p->open && !p->all_cut && !p->halted);
    }
    p->line = line;
    p->requested = p->owed = p->owed_at_cut = 0; /* the program asks again */
    memcpy(p->sent, s->sends[rank], sizeof p->sent);
    for (int i = 0; i < n; i++)
        p->got[i] =
            s->receives[rank][i] > s->sends[i][rank] ? s->receives[rank][i] : s->sends[i][rank];
    if (s->halts)
        p->halted = p->r.halted = true;
}

/* Staying ranks first: what rolls back is as of the line that they know. */
static void repair(void)
{
    uint64_t line = 0;
    for (int i = 0; i < n; i++)
        if (!ranks[i].dead && ranks[i].line > line)
            line = ranks[i].line;
    const struct set *s = set_of(line);
    RULE(0, all(s->cut) && all(s->sealed) && all(s->sent));
    for (int i = 0; i < n; i++) {
        struct rank *p = &ranks[i];
        const bool misses = p->open && p->r.set == line;
        me = i;
        if (p->dead)
            continue;
        if (p->r.open)
            (void)happens(i, (struct ftk_apart_event){ .kind = FTK_ON_LINE, .set = line });
        RULE(i, p->line == line && !p->open && p->r.state == FTK_APART_AWAY);
        figures.missed += misses;
    }
    const bool all_back = chance(100);
    for (int i = 0; i < n; i++) {
        me = i;
        if (ranks[i].dead || all_back || chance(150))
            restore(i, line);
        else if (s->halts)
            (void)on(i, FTK_ON_STAY);
    }
    for (int i = 0; i < n; i++) {
        ranks[i].next_set = line + 1;
        ranks[i].frozen = false;
        ranks[i].meeting = ELSEWHERE;
        sets[line].passed[i] = true;
        sets[line].withdrawn[i] = false;
    }
    for (uint64_t k = line + 1; k < SETS; k++)
        memset(&sets[k], 0, sizeof sets[k]);
    memset(wires, 0, sizeof wires);
    memset(letters, 0, sizeof letters);
    meets = false;
    epoch++;
    figures.repairs++;
}

/* ---- a run ------------------------------------------------------------------------------- */

static void run_rank(int rank)
{
    struct rank *p = &ranks[rank];
    me = rank;
    if (p->dead)
        return;
    if (living() < n && !p->frozen && (calm || chance(100)))
        notice(rank);
    if (p->frozen || p->halted)
        return;
    if (p->writes) {
        take_turn(rank);
    } else if (meets && (p->meeting != ELSEWHERE || calm || chance(200))) {
        take_turn(rank);
        if (!p->writes)
            meet(rank);
    } else if (calm || below(3) == 0) {
        compute(rank);
        checkpoint(rank);
    } else {
        compute(rank);
        take_turn(rank);
    }
    if (chance(8) && !p->halted) {
        const int kind = 1 + (int)below(2);
        p->requested = kind > p->requested ? kind : p->requested;
        p->owed = kind > p->owed ? kind : p->owed;
    }
    if (chance(2))
        p->outside = chance(60) ? FTK_WANT_HALT : FTK_WANT_OUTSIDE;
}

static int choose(void)
{
    unsigned sum = 0;
    for (int i = 0; i < n; i++)
        sum += ranks[i].weight;
    unsigned at = below(sum);
    for (int i = 0; i < n; i++) {
        if (at < ranks[i].weight)
            return i;
        at -= ranks[i].weight;
    }
    return 0;
}

static void repair_if_all_know(void)
{
    if (living() == n)
        return;
    for (int i = 0; i < n; i++)
        if (!ranks[i].dead && !ranks[i].frozen)
            return;
    if (living() > 1 && chance(200))
        lose((int)below((unsigned)n));
    if (living() > 0)
        repair();
}

static bool is_at_rest(void)
{
    int halted = 0;
    for (int i = 0; i < n; i++)
        halted += ranks[i].halted;
    if (halted == n)
        return true;
    for (int i = 0; i < n; i++) {
        const struct rank *p = &ranks[i];
        if (p->dead || p->r.state != FTK_APART_AWAY || p->r.busy || p->requested || p->owed
            || p->meeting != ELSEWHERE)
            return false;
    }
    return !meets;
}

static void begin(uint64_t s, int nranks)
{
    seed = s;
    chaos = s * 0x9e3779b97f4a7c15u + 1;
    n = nranks;
    calm = meets = false;
    memset(ranks, 0, sizeof ranks);
    memset(sets, 0, sizeof sets);
    memset(wires, 0, sizeof wires);
    memset(letters, 0, sizeof letters);
    memset(tickets, 0, sizeof tickets);
    for (int i = 0; i < n; i++) {
        contexts[i].rank = i;
        contexts[i].nranks = n;
        ranks[i].line = FIRST_LINE; /* which is together */
        ranks[i].next_set = FIRST_LINE + 1;
        ranks[i].weight = below(4) == 0 ? 1 : 10;
        sets[FIRST_LINE].cut[i] = sets[FIRST_LINE].sealed[i] = sets[FIRST_LINE].sent[i] = true;
    }
}

/* Whether some ranks have seen a commit, and others have not. */
static bool is_at_a_commit(void)
{
    for (int i = 1; i < n; i++)
        if (ranks[i].line != ranks[0].line)
            return true;
    return false;
}

static void end(void)
{
    for (int i = 0; i < n; i++)
        close_tally(&ranks[i]);
    figures.runs++;
}

static void run(uint64_t s, int nranks, unsigned failures_mille)
{
    begin(s, nranks);
    int left = 2;
    for (int t = 0; t < STEPS; t++, figures.steps++) {
        if (left > 0 && living() > 1 && chance(failures_mille * (is_at_a_commit() ? 10 : 1))) {
            const int rank = (int)below((unsigned)n);
            left -= !ranks[rank].dead;
            if (!ranks[rank].dead)
                lose(rank);
        }
        if (!meets && living() == n && chance(4))
            meets = true;
        run_rank(choose());
        repair_if_all_know();
    }
    if (s % 16 == 0) { /* the log closes in the middle */
        for (int i = 0; i < n; i++) {
            notice(i);
            (void)on(i, FTK_ON_ROLLBACK);
            RULE(i, !ranks[i].open && !ranks[i].halted && ranks[i].r.state == FTK_APART_AWAY);
        }
        end();
        return;
    }
    calm = true;
    for (int t = 0; t < CALM && !is_at_rest(); t++) {
        run_rank(t % n);
        repair_if_all_know();
    }
    RULE(0, is_at_rest()); /* no rank waits for ever, and no request of the program is lost */
    for (int i = 0; i < n; i++)
        figures.halts += ranks[i].halted;
    end();
}

static int set_up(void **state)
{
    (void)state;
    ftk_mpi_real.Isend = fake_isend;
    ftk_mpi_real.Irecv = fake_irecv;
    ftk_mpi_real.Test = fake_test;
    ftk_mpi_real.Wait = fake_wait;
    ftk_mpi_real.Cancel = fake_cancel;
    ftk_mpi_real.Request_free = fake_free;
    return 0;
}

static void runs(unsigned failures_mille)
{
    const char *const first = getenv("FTKIT_TEST_SEED"), *const many = getenv("FTKIT_TEST_COUNT");
    const uint64_t begin_at = first ? strtoull(first, NULL, 0) : 1;
    const uint64_t end_at = begin_at + (many ? strtoull(many, NULL, 0) : RUNS);
    memset(&figures, 0, sizeof figures);
    for (uint64_t s = begin_at; s < end_at; s++)
        run(s, 2 + (int)(s % (N_MOST - 1)), failures_mille);
    print_message("%lu runs, %lu steps, %lu commits (%lu missed), %lu withdrawn, %lu failures, "
                  "%lu repairs, %lu meetings, %lu times no patience, %lu ranks halted\n",
        figures.runs, figures.steps, figures.commits, figures.missed, figures.withdrawn,
        figures.failures, figures.repairs, figures.meetings, figures.patience, figures.halts);
}

static void without_failures(void **state)
{
    (void)state;
    runs(0);
    assert_true(figures.runs < RUNS
                || (figures.commits > 0 && figures.withdrawn > 0 && figures.meetings > 0
                    && figures.patience > 0 && figures.halts > 0));
}

static void with_failures(void **state)
{
    (void)state;
    runs(6);
    assert_true(
        figures.runs < RUNS
        || (figures.commits > 0 && figures.missed > 0 && figures.failures > figures.repairs));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(without_failures),
        cmocka_unit_test(with_failures) };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
