/* t_apart: sets, ranks, their messages and what the actions of a step do to them.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef T_APART_RANKS_H
#define T_APART_RANKS_H

#include "detect/tally.h"
#include "log/recovery/apart_step.h"
#include "t_apart_wire.h"

enum { SETS = 64, FIRST_LINE = 1 };

/* ---- sets, as a restore would find them -------------------------------------------------- */

static struct set {
    bool halts, durable;
    enum ftk_apart_how how;
    int flush_error;
    bool cut[N_MOST], settled[N_MOST], sealed[N_MOST], has_memory[N_MOST], sent[N_MOST],
        began[N_MOST];
    int error[N_MOST], failures[N_MOST];
    bool passed[N_MOST], withdrawn[N_MOST];                   /* of ranks that live */
    unsigned sends[N_MOST][N_MOST], receives[N_MOST][N_MOST]; /* at the cut: [rank][other] */
} sets[SETS];

/* ---- ranks ------------------------------------------------------------------------------- */

enum meeting { ELSEWHERE, VOTES, KNOWS, GONE };
enum { COUNTS, EARLY, TAGS };

static struct rank {
    struct ftk_apart_rank r;
    struct ftk_tally *tally;
    bool dead, frozen, writes;
    bool open, all_cut, halted; /* as the log sees them */
    bool has_part, lost_flush;
    int part_error, part_local;
    uint64_t line, next_set;
    int requested, outside, owed; /* by the program; from outside; of the program, not yet done */
    int owed_at_cut;              /* ... which the open set is for */
    enum meeting meeting;
    uint64_t voted_cut, voted_newest;
    unsigned sent[N_MOST], got[N_MOST]; /* messages of the program */
    unsigned at_cut[N_MOST], early[N_MOST];
    bool knows[N_MOST];       /* at_cut */
    bool waits[TAGS][N_MOST]; /* numbers of this rank that were not taken */
    unsigned weight;          /* how often the rank runs */
} ranks[N_MOST];

/* Numbers of messages on their way: [tag][from][to]. */
static struct letter {
    int n;
    uint64_t set[16];
    unsigned number[16];
} letters[TAGS][N_MOST][N_MOST];

static struct ftkit_ctx contexts[N_MOST];
static bool meets; /* the ranks meet in another call */
static uint64_t epoch;
static struct figures {
    unsigned long runs, steps, commits, missed, failures, repairs, withdrawn, meetings, patience,
        halts;
} figures;

static void die(const char *rule, int rank)
{
    printf("seed %llu, %d ranks: rank %d breaks the rule: %s\n", (unsigned long long)seed, n, rank,
        rule);
    for (int i = 0; i < n; i++)
        printf("    rank %d: state %d set %llu line %llu open %d busy %d dead %d meeting %d "
               "requested %d owed %d\n",
            i, (int)ranks[i].r.state, (unsigned long long)ranks[i].r.set,
            (unsigned long long)ranks[i].line, ranks[i].open, ranks[i].r.busy, ranks[i].dead,
            (int)ranks[i].meeting, ranks[i].requested, ranks[i].owed);
    fail();
}

static struct set *set_of(uint64_t number)
{
    RULE(me, number < SETS);
    return &sets[number];
}

static bool all(const bool *v)
{
    for (int i = 0; i < n; i++)
        if (!v[i])
            return false;
    return true;
}

static int happens(int rank, struct ftk_apart_event e);

static int on(int rank, enum ftk_apart_event_kind kind)
{
    return happens(rank, (struct ftk_apart_event){ .kind = kind });
}

static uint64_t round_number(uint64_t set, enum ftk_apart_round round)
{
    return set * FTK_ROUND_MOST + round;
}

enum { ERROR, DURABLE, LOCAL, WANT, LOCAL_ERROR };

static bool heard(int rank, enum ftk_apart_round round, struct ftk_vote *v)
{
    return ftk_tally_heard(ranks[rank].tally, round_number(ranks[rank].r.set, round), v);
}

static void close_tally(struct rank *p)
{
    in_close = true;
    ftk_tally_close(p->tally);
    in_close = false;
    p->tally = NULL;
}

/* ---- messages of the program ------------------------------------------------------------- */

static void receive(int rank, int from)
{
    struct rank *p = &ranks[rank];
    const unsigned number = ++p->got[from];
    const struct set *s = set_of(p->r.set);
    if (p->r.open && s->cut[from] && number > s->receives[rank][from]
        && number <= s->sends[from][rank]) /* late: a copy is kept */
        RULE(rank, p->open && (!p->all_cut || (p->knows[from] && number <= p->at_cut[from])));
}

static bool in_flight(int from, int to)
{
    return ranks[from].sent[to] > ranks[to].got[from];
}

static bool may_cut(int rank)
{
    for (int i = 0; i < n; i++)
        if (ranks[rank].sent[i] < ranks[i].got[rank])
            return false; /* it replays */
    return true;
}

static void compute(int rank)
{
    const int other = (int)below((unsigned)n);
    if (below(2) == 0 && ranks[rank].sent[other] < ranks[other].got[rank] + 6)
        ranks[rank].sent[other]++;
    else if (in_flight(other, rank))
        receive(rank, other);
    if (!may_cut(rank) && calm)
        for (int i = 0; i < n; i++)
            if (ranks[rank].sent[i] < ranks[i].got[rank])
                ranks[rank].sent[i] = ranks[i].got[rank];
}

/* ---- numbers ----------------------------------------------------------------------------- */

static void send_number(int tag, int from, int to, uint64_t set, unsigned number)
{
    struct letter *l = &letters[tag][from][to];
    RULE(from, l->n < 16);
    l->set[l->n] = set;
    l->number[l->n++] = number;
    ranks[from].waits[tag][to] = true;
}

static void take_numbers(int tag, int rank)
{
    struct rank *p = &ranks[rank];
    for (int from = 0; from < n; from++) {
        struct letter *l = &letters[tag][from][rank];
        for (; l->n > 0 && !late(); l->n--) {
            if (l->set[0] == p->r.set && tag == COUNTS) {
                p->at_cut[from] = l->number[0];
                p->knows[from] = true;
            } else if (l->set[0] == p->r.set) {
                p->early[from] = l->number[0];
            }
            if (l->set[0] == ranks[from].r.set)
                ranks[from].waits[tag][rank] = false;
            memmove(l->set, l->set + 1, sizeof l->set - sizeof *l->set);
            memmove(l->number, l->number + 1, sizeof l->number - sizeof *l->number);
        }
    }
}

static bool are_taken(const struct rank *p)
{
    for (int i = 0; i < n; i++)
        if (p->waits[COUNTS][i] || p->waits[EARLY][i])
            return false;
    return true;
}

static unsigned early_of(const struct set *s, int from, int to)
{
    return s->receives[to][from] > s->sends[from][to] ? s->receives[to][from] - s->sends[from][to]
                                                      : 0;
}

/* ---- actions ----------------------------------------------------------------------------- */

static void fails(int rank, int code)
{
    (void)happens(
        rank, (struct ftk_apart_event){ .kind = FTK_ON_ERROR, .words = { .error = code } });
}

static void copy_log(int rank)
{
    struct rank *p = &ranks[rank];
    struct set *s = set_of(p->r.set);
    RULE(rank, !s->cut[rank] && !p->open && p->line < p->r.set && may_cut(rank));
    s->cut[rank] = true;
    memcpy(s->sends[rank], p->sent, sizeof p->sent);
    memcpy(s->receives[rank], p->got, sizeof p->got);
    memset(p->knows, 0, sizeof p->knows);
    memset(p->early, 0, sizeof p->early);
    p->owed_at_cut = p->owed;
    p->owed = 0;
    if (chance(20)) {
        s->error[rank] = FTKIT_ERR_STATE;
        fails(rank, FTKIT_ERR_STATE);
    }
}

/* Late and early messages are known, on both sides. */
static void settle(int rank)
{
    const struct rank *p = &ranks[rank];
    struct set *s = set_of(p->r.set);
    RULE(rank, all(s->cut));
    s->settled[rank] = true;
    for (int i = 0; i < n; i++) {
        RULE(rank, p->knows[i] && p->at_cut[i] == s->sends[i][rank]);
        RULE(rank, p->got[i] >= s->sends[i][rank]);
        RULE(rank, p->early[i] == early_of(s, rank, i));
    }
}

static void send_early(int rank)
{
    const struct rank *p = &ranks[rank];
    const struct set *s = set_of(p->r.set);
    for (int i = 0; i < n; i++) {
        RULE(rank, p->knows[i]); /* round CUT: all counts were taken */
        if (early_of(s, i, rank) > 0)
            send_number(EARLY, rank, i, p->r.set, early_of(s, i, rank));
    }
}

static void commit(int rank, int want)
{
    const struct rank *p = &ranks[rank];
    struct set *s = set_of(p->r.set);
    RULE(rank, all(s->cut) && all(s->sealed) && all(s->sent));
    for (int i = 0; i < n; i++)
        RULE(rank, s->error[i] == FTKIT_OK && !s->withdrawn[i]);
    s->durable = p->r.durable == 2 || want >= FTK_WANT_DURABLE;
    s->halts = want == FTK_WANT_HALT;
    figures.commits++;
}

static void pass_line(int rank)
{
    struct rank *p = &ranks[rank];
    struct set *s = set_of(p->r.set);
    RULE(rank, p->open && p->line < p->r.set);
    p->line = p->r.set;
    p->next_set = p->r.set + 1;
    s->passed[rank] = true;
    if (p->owed_at_cut == 2 && p->r.durable != 2 && p->r.want < FTK_WANT_DURABLE)
        p->owed = 2;
    p->owed_at_cut = 0;
    for (int i = 0; i < n; i++)
        RULE(rank, !s->withdrawn[i] || ranks[i].dead);
}

static void withdraw(int rank)
{
    struct rank *p = &ranks[rank];
    struct set *s = set_of(p->r.set);
    RULE(rank, p->open);
    s->withdrawn[rank] = true;
    p->owed = p->owed_at_cut > p->owed ? p->owed_at_cut : p->owed;
    p->owed_at_cut = 0;
    figures.withdrawn++;
    for (int i = 0; i < n; i++)
        RULE(rank, !s->passed[i] || ranks[i].dead);
}

static void say(int rank, const struct ftk_apart_action *a)
{
    struct rank *p = &ranks[rank];
    struct set *s = set_of(p->r.set);
    struct ftk_vote v;
    ftk_vote_init(&v);
    v.min[ERROR] = a->words.error;
    v.min[LOCAL_ERROR] = a->words.local_error;
    if (a->round == FTK_ROUND_SIZED)
        s->has_memory[rank] = true;
    if (a->round == FTK_ROUND_SENT)
        s->sent[rank] = true;
    RULE(
        rank, ftk_tally_say(p->tally, round_number(p->r.set, a->round), &v, a->act == FTK_DO_SAY_UP)
                  == FTKIT_OK);
}

static void announce(int rank, const struct ftk_apart_action *a)
{
    const bool begins = a->act == FTK_DO_INITIATE;
    const uint64_t set = begins ? a->set : ranks[rank].r.set;
    struct ftk_vote v;
    ftk_vote_init(&v);
    if (begins) {
        struct set *s = set_of(set);
        v.voters = 0;
        v.min[DURABLE] = a->words.durable;
        v.min[LOCAL] = a->words.local;
        v.min[WANT] = a->words.want;
        for (int i = 0; i < n; i++) { /* a message crosses one line at most */
            RULE(rank, ranks[i].r.state == FTK_APART_AWAY || ranks[i].meeting != ELSEWHERE
                           || ranks[i].dead);
            RULE(rank, !s->cut[i]);
        }
        memset(s, 0, sizeof *s);
        s->how = (enum ftk_apart_how)below(4);
        if (s->how == FTK_HOW_AFTER && calm)
            s->how = FTK_HOW_NOT;
        s->flush_error = chance(50) ? FTKIT_ERR_IO : FTKIT_OK;
    } else {
        v.min[ERROR] = a->words.error;
        figures.patience++;
    }
    RULE(rank, ftk_tally_announce(ranks[rank].tally,
                   round_number(set, begins ? FTK_ROUND_INITIATE : FTK_ROUND_CUT), &v)
                   == FTKIT_OK);
}

static void part(int rank, const struct ftk_apart_action *a)
{
    struct rank *p = &ranks[rank];
    struct set *s = set_of(p->r.set);
    switch (a->act) {
    case FTK_DO_COPY_LOG:
        copy_log(rank);
        break;
    case FTK_DO_COPY_REGIONS:
        RULE(rank, p->open && !p->has_part);
        if (p->r.error != FTKIT_OK)
            break;
        p->has_part = true;
        p->part_error = s->error[rank] = chance(20) ? FTKIT_ERR_NOMEM : FTKIT_OK;
        p->part_local = FTKIT_OK;
        break;
    case FTK_DO_FINISH:
        settle(rank);
        break;
    case FTK_DO_SEAL:
        RULE(rank, p->has_part && s->settled[rank]);
        s->sealed[rank] = true;
        break;
    case FTK_DO_BEGIN_LOCAL:
        RULE(rank, p->has_part && p->r.local);
        p->part_local = chance(50) ? FTKIT_ERR_IO : FTKIT_OK;
        break;
    case FTK_DO_END_LOCAL:
        RULE(rank, p->has_part && p->r.local);
        break;
    case FTK_DO_COMMIT:
        RULE(rank, p->has_part);
        commit(rank, a->number);
        break;
    case FTK_DO_END_CUT:
        p->has_part = false;
        p->part_error = p->part_local = FTKIT_OK;
        break;
    default:
        break;
    }
}

static void act(int rank, const struct ftk_apart_action *a)
{
    struct rank *p = &ranks[rank];
    switch (a->act) {
    case FTK_DO_INITIATE:
    case FTK_DO_END_ROUND:
        announce(rank, a);
        break;
    case FTK_DO_SAY:
    case FTK_DO_SAY_UP:
        say(rank, a);
        break;
    case FTK_DO_VOID:
        if (p->tally)
            ftk_tally_void(p->tally, round_number(a->set, a->round));
        break;
    case FTK_DO_ASK:
        RULE(rank, ftk_tally_ask(p->tally, a->number) == FTKIT_OK);
        break;
    case FTK_DO_END_TALLY:
        close_tally(p);
        p->writes = false;
        break;
    case FTK_DO_START_FLUSH:
        set_of(p->r.set)->began[rank] = true;
        break;
    case FTK_DO_WRITE_FILES:
        set_of(p->r.set)->began[rank] = p->writes = true;
        break;
    case FTK_DO_SHOW:
        p->open = p->r.open;
        p->all_cut = p->r.all_cut;
        p->halted = p->r.halted;
        RULE(rank, p->open || p->r.served == 0);
        break;
    case FTK_DO_SEND_COUNTS:
        for (int i = 0; i < n; i++)
            send_number(COUNTS, rank, i, p->r.set, p->sent[i]);
        break;
    case FTK_DO_STOP:
        RULE(rank, all(set_of(p->r.set)->cut));
        break;
    case FTK_DO_SEND_EARLY:
        send_early(rank);
        break;
    case FTK_DO_DROP_NUMBERS:
        memset(p->waits, 0, sizeof p->waits);
        break;
    case FTK_DO_PASS_LINE:
        pass_line(rank);
        break;
    case FTK_DO_DISCARD:
        withdraw(rank);
        break;
    case FTK_DO_HALT:
        RULE(rank, p->halted && p->line > 0 && set_of(p->line)->halts);
        break;
    case FTK_DO_REQUEST:
        p->requested = a->number;
        break;
    case FTK_DO_NUMBER:
        p->next_set = a->set;
        break;
    case FTK_DO_NUMBER_PAST:
        if (p->next_set <= a->set)
            p->next_set = a->set + 1;
        break;
    case FTK_DO_FAIL: /* each rank once */
        RULE(rank, a->words.error != FTKIT_OK && set_of(a->set)->failures[rank]++ == 0);
        break;
    case FTK_DO_FLUSH_LOST:
        p->lost_flush = true;
        break;
    default:
        part(rank, a);
    }
}

static int happens(int rank, struct ftk_apart_event e)
{
    struct rank *p = &ranks[rank];
    struct ftk_apart_actions todo;
    e.first = rank == 0;
    e.requested = p->requested;
    e.cut_error = p->has_part ? p->part_error : FTKIT_OK;
    e.cut_local_error = p->has_part ? p->part_local : FTKIT_OK;
    ftk_apart_step(&p->r, &e, &todo);
    RULE(rank, todo.n <= (int)(sizeof todo.v / sizeof *todo.v));
    for (int i = 0; i < todo.n; i++)
        act(rank, &todo.v[i]);
    return todo.n;
}

#endif
