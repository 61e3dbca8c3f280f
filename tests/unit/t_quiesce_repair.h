/* A repair in many orders of steps: announce, drain, withdraw (part of t_quiesce.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The ranks post receives, from any source or from one, and send messages, short or long: of a long
 * one the envelope comes first.  A process that dies may have sent a part of a message, or only
 * some messages.  The MPI matches an envelope with the first receive that can have it.  Then each
 * survivor goes through the steps of recovery/quiesce.c, which recovery/quiesce_step.c chooses, and
 * acts as recovery/withdraw.c.  A further death ends the attempt, and the next one counts on.  In
 * some runs the ranks have drained at a line, and only some have heard whether the set is
 * committed.
 * What holds when the ranks are quiet:
 *
 *   - a survivor has all messages of the survivors, each once
 *   - a receive that was matched with the cut message of a dead rank is bound to that rank, if a
 *     later receive has got another message that the first one could have had
 *   - the gaps of a channel are the messages that are missing there
 *   - the match is ambiguous only when several ranks are dead
 *   - a rank at a line whose outcome nobody knows has received nothing since
 *   - no rank waits for ever */
#ifndef FTK_TESTS_QUIESCE_REPAIR_H
#define FTK_TESTS_QUIESCE_REPAIR_H

#include "stepping.h"

#include "log/recovery/draining.h"
#include "log/recovery/quiesce_step.h"

enum { ENVELOPES, NUMBERS, REVOKES, REST }; /* channels; REST: of long messages */
enum { REVOKE, VERDICT };                   /* on REVOKES */
enum { RECEIVES = 12, MESSAGES_MOST = 128, OF_ANY = MPI_ANY_SOURCE };

struct incoming {
    int from; /* -1: none */
    uint64_t number;
    bool whole;
};

struct receive {
    int source;
    enum { POSTED, COMPLETE, CANCELLED } state;
    struct incoming match; /* the truth, of which the log sees only what is whole */
    bool bound, drained; /* drained: no receive of the program, but a message behind all of them */
};

static struct survivor {
    enum { RUNS, WAITS, QUIESCES, IS_QUIET } state;
    enum ftk_quiesce_step step;
    enum ftk_line_state line;
    struct ftk_job_state knows, told; /* told: by an attempt to repair, for the next ones */
    int left, nreceives, nunexpected;
    int nwithdrawn; /* receives that this attempt has withdrawn */
    bool cancels;   /* all receives are cancelled: none is matched any more */
    struct receive receive[RECEIVES + MESSAGES_MOST];
    struct incoming unexpected[MESSAGES_MOST];
    uint64_t sent[STEP_RANKS], received[STEP_RANKS], announced[STEP_RANKS];
    uint64_t got[STEP_RANKS];  /* bit n: message n of that rank; the truth */
    uint64_t rest[STEP_RANKS]; /* bit n: the rest of message n has come before its envelope */
    bool member[STEP_RANKS], heard[STEP_RANKS]; /* of this attempt */
    uint64_t attempt;
    struct ftk_job_state job; /* as this attempt has shared it */
} survivor[STEP_RANKS];

static struct repair {
    struct stepping *s;
    bool ambiguous;       /* in the next attempt all ranks roll back */
    int dead[STEP_RANKS]; /* of this attempt */
} repair;

struct number_words {
    uint64_t attempt, count;
};

/* ---- the MPI ------------------------------------------------------------------------------- */

static bool takes(const struct receive *q, int from)
{
    return q->source == OF_ANY || q->source == from;
}

static void match_or_keep(struct survivor *r, const struct incoming *m)
{
    for (int i = 0; i < r->nreceives; i++) {
        struct receive *q = &r->receive[i];
        if (q->state == POSTED && !r->cancels && q->match.from < 0 && takes(q, m->from)) {
            q->match = *m;
            return;
        }
    }
    STEP_EXPECT(repair.s, r->nunexpected < MESSAGES_MOST);
    r->unexpected[r->nunexpected++] = *m;
}

static void post(struct survivor *r, int source)
{
    struct receive *q = &r->receive[r->nreceives++];
    *q = (struct receive){ .source = source, .match = { .from = -1 } };
    for (int i = 0; i < r->nunexpected; i++)
        if (takes(q, r->unexpected[i].from)) {
            q->match = r->unexpected[i];
            memmove(r->unexpected + i, r->unexpected + i + 1,
                (size_t)(--r->nunexpected - i) * sizeof *r->unexpected);
            return;
        }
}

static void the_rest_comes(struct survivor *r, int from, uint64_t number)
{
    for (int i = 0; i < r->nreceives; i++)
        if (r->receive[i].match.from == from && r->receive[i].match.number == number)
            r->receive[i].match.whole = true;
    for (int i = 0; i < r->nunexpected; i++)
        if (r->unexpected[i].from == from && r->unexpected[i].number == number)
            r->unexpected[i].whole = true;
    r->rest[from] |= UINT64_C(1) << number;
}

/* ---- the log ------------------------------------------------------------------------------- */

static void record(struct survivor *r, const struct incoming *m)
{
    const uint64_t bit = UINT64_C(1) << m->number;
    STEP_EXPECT(repair.s, m->whole && !(r->got[m->from] & bit));
    r->got[m->from] |= bit;
    r->received[m->from]++;
}

static bool is_whole(const struct receive *q)
{
    return q->state == POSTED && q->match.from >= 0 && q->match.whole;
}

/* Whether the log records the complete receive i: no earlier receive from any source is open that
 * could have had its message. */
static bool is_in_turn(const struct survivor *r, int i)
{
    for (int k = 0; k < i; k++)
        if (r->receive[k].state != COMPLETE && r->receive[k].source == OF_ANY)
            return false;
    return true;
}

static void look_at_receives(struct survivor *r)
{
    for (int i = 0; i < r->nreceives; i++)
        if (is_whole(&r->receive[i]) && is_in_turn(r, i)) {
            record(r, &r->receive[i].match);
            r->receive[i].state = COMPLETE;
        }
}

static size_t unreported(const struct survivor *r, int from)
{
    size_t n = 0;
    for (int i = 0; i < r->nreceives; i++)
        n += is_whole(&r->receive[i]) && r->receive[i].match.from == from;
    return n;
}

static bool lacks(const struct survivor *r, int from)
{
    return ftk_draining_is_behind(r->received[from], unreported(r, from), r->announced[from]);
}

/* Take the first unexpected message of a rank, if it is whole. */
static bool drain_one(struct survivor *r, int from)
{
    for (int i = 0; i < r->nunexpected; i++)
        if (r->unexpected[i].from == from) {
            if (!r->unexpected[i].whole)
                return false; /* the MPI has only its envelope */
            record(r, &r->unexpected[i]);
            r->receive[r->nreceives++] = (struct receive){
                .source = from, .state = COMPLETE, .match = r->unexpected[i], .drained = true
            };
            memmove(r->unexpected + i, r->unexpected + i + 1,
                (size_t)(--r->nunexpected - i) * sizeof *r->unexpected);
            return true;
        }
    return false;
}

static bool is_at_lost_line(const struct survivor *r)
{
    return ftk_quiesce_is_at_lost_line(
        r->line, r->job.lines > r->knows.lines, r->job.nouts, r->knows.nouts);
}

/* Whether all messages of the members are here. */
static bool has_all(const struct survivor *r)
{
    for (int k = 0; k < repair.s->n; k++)
        if (r->member[k] && lacks(r, k))
            return false;
    return true;
}

static void drain(struct survivor *r)
{
    if (r->state != QUIESCES || r->step != FTK_QUIESCE_DRAIN || is_at_lost_line(r))
        return;
    look_at_receives(r);
    for (int k = 0; k < repair.s->n; k++)
        while (r->member[k] && lacks(r, k) && drain_one(r, k))
            ;
}

static void find_ambiguous(void)
{
    int dead = 0;
    for (int k = 0; k < repair.s->n; k++)
        dead += repair.dead[k];
    STEP_EXPECT(repair.s, dead > 1);
    repair.ambiguous = true;
}

/* An earlier receive could have had the message of receive i: the message of a dead rank matched
 * it. */
static bool bind_before(struct survivor *r, int i)
{
    int first;
    for (int k = 0; k < i; k++) {
        struct receive *q = &r->receive[k];
        if (q->state != CANCELLED || q->source != OF_ANY || repair.dead[r->receive[i].match.from])
            continue;
        if (!ftk_quiesce_is_sure(q->source, repair.dead, repair.s->n, &first)) {
            find_ambiguous();
            return false;
        }
        q->source = first;
        q->bound = true;
    }
    return true;
}

/* Withdraw receive i, as recovery/withdraw.c.  When all ranks roll back, nothing is bound. */
static bool withdraw(struct survivor *r, int i)
{
    struct receive *q = &r->receive[i];
    if (!is_whole(q) || is_at_lost_line(r)) {
        q->state = q->state == COMPLETE ? COMPLETE : CANCELLED;
        return true;
    }
    if (!repair.ambiguous && !bind_before(r, i))
        return false;
    record(r, &q->match);
    q->state = COMPLETE;
    return true;
}

/* The gaps of the channel of a dead rank (recovery/suppress.c: put_gaps). */
static bool find_gaps(struct survivor *r, int from, uint64_t *gaps)
{
    int first;
    uint64_t n = 0;
    *gaps = 0;
    for (int i = 0; i < r->nreceives; i++) {
        struct receive *q = &r->receive[i];
        uint64_t after = 0;
        for (int k = i + 1; q->state == CANCELLED && takes(q, from) && k < r->nreceives; k++)
            after += r->receive[k].state == COMPLETE && r->receive[k].match.from == from;
        if (after == 0)
            continue;
        if (!ftk_quiesce_is_sure(q->source, repair.dead, repair.s->n, &first)) {
            find_ambiguous();
            return false;
        }
        q->source = from;
        q->bound = true;
        *gaps |= UINT64_C(1) << (r->received[from] - after + ++n);
    }
    return true;
}

/* ---- what holds ------------------------------------------------------------------------------ */

static void check_receives(const struct survivor *r)
{
    for (int i = 0; i < r->nreceives; i++) {
        const struct receive *q = &r->receive[i];
        STEP_EXPECT(repair.s, q->state != POSTED);
        if (q->bound)
            STEP_EXPECT(repair.s, q->match.from == q->source);
        for (int k = i + 1; q->state == CANCELLED && q->source == OF_ANY && k < r->nreceives; k++)
            STEP_EXPECT(repair.s, r->receive[k].state != COMPLETE || r->receive[k].drained);
    }
}

static void check_channel(struct survivor *r, int from, int me)
{
    uint64_t gaps = 0;
    if (!repair.s->dead[from] && from != me) {
        STEP_EXPECT(repair.s, r->received[from] == survivor[from].sent[me]);
        STEP_EXPECT(repair.s, step_in_flight(repair.s, from, me, ENVELOPES) == 0);
        return;
    }
    if (!repair.dead[from] || !find_gaps(r, from, &gaps))
        return;
    const uint64_t upto = r->received[from] + (uint64_t)__builtin_popcountll(gaps);
    STEP_EXPECT(repair.s, r->got[from] == ((((UINT64_C(2) << upto) - 1) ^ 1) & ~gaps));
}

static void become_quiet(struct survivor *r, int me)
{
    const struct ftk_job_state nothing = { 0 };
    const bool lost = r->line == FTK_LINE_DRAINED && !ftk_quiesce_is_ahead(&r->told, &nothing);
    r->state = IS_QUIET;
    for (int k = 0; k < repair.s->n; k++) {
        if (lost)
            STEP_EXPECT(repair.s, r->got[k] == 0);
        if (!repair.ambiguous)
            check_channel(r, k, me);
    }
    if (!repair.ambiguous)
        check_receives(r);
}

/* ---- attempts ---------------------------------------------------------------------------- */

static void give_up(int me)
{
    struct survivor *r = &survivor[me];
    for (int to = 0; to < repair.s->n; to++)
        if (to != me)
            step_send(repair.s, me, to, REVOKES, REVOKE, &r->attempt, sizeof r->attempt);
    r->state = WAITS;
}

static void enter_repair(int me)
{
    if (survivor[me].state == RUNS)
        give_up(me);
    survivor[me].state = WAITS;
}

static void later(struct ftk_job_state *a, const struct ftk_job_state *b)
{
    if (ftk_quiesce_is_ahead(b, a))
        *a = *b;
}

static void enter_attempt(int me, const struct ftk_job_state *job)
{
    struct stepping *s = repair.s;
    struct survivor *r = &survivor[me];
    r->state = QUIESCES;
    r->step = FTK_QUIESCE_ANNOUNCE;
    r->nwithdrawn = 0;
    r->attempt++;
    r->job = r->told = *job;
    for (int k = 0; k < s->n; k++) {
        const struct number_words w = { r->attempt, r->sent[k] };
        r->member[k] = k != me && !s->dead[k];
        r->heard[k] = false;
        s->unnoticed[me][k] = false; /* known: it is no member */
        if (r->member[k])
            step_send(s, me, k, NUMBERS, 0, &w, sizeof w);
    }
}

/* The survivors have met, and shared what they know; the members are alive. */
static void begin_attempt(void)
{
    struct stepping *s = repair.s;
    struct ftk_job_state job = { 0 };
    for (int r = 0; r < s->n; r++)
        if (!s->dead[r] && survivor[r].state != WAITS)
            return;
    for (int r = 0; r < s->n; r++) {
        repair.dead[r] = s->dead[r];
        if (s->dead[r])
            continue;
        later(&job, &survivor[r].knows);
        later(&job, &survivor[r].told);
    }
    for (int r = 0; r < s->n; r++)
        if (!s->dead[r])
            enter_attempt(r, &job);
}

/* ---- steps --------------------------------------------------------------------------------- */

static bool has_heard_all(const struct survivor *r)
{
    for (int k = 0; k < repair.s->n; k++)
        if (r->member[k] && !r->heard[k])
            return false;
    return true;
}

static bool can_repair(void *arg, int me)
{
    const struct survivor *r = &survivor[me];
    (void)arg;
    if (r->state == QUIESCES)
        return r->step == FTK_QUIESCE_ANNOUNCE ? has_heard_all(r)
               : r->step == FTK_QUIESCE_DRAIN  ? is_at_lost_line(r) || has_all(r)
                                               : true;
    return r->state == RUNS && r->line == FTK_LINE_AWAY && r->left > 0;
}

static void step_of_quiesce(struct survivor *r, int me)
{
    if (r->step == FTK_QUIESCE_WITHDRAW && r->nwithdrawn < r->nreceives) {
        if (!withdraw(r, r->nwithdrawn++))
            give_up(me);
        return;
    }
    r->step = ftk_quiesce_next(r->step, false);
    r->cancels = r->cancels || r->step == FTK_QUIESCE_WITHDRAW;
    drain(r);
    if (r->step == FTK_QUIESCE_END)
        become_quiet(r, me);
}

static void step_of_sender(struct survivor *r, int me)
{
    struct stepping *s = repair.s;
    const int other = (me + 1 + step_choose(s, s->n - 1)) % s->n;
    r->left--;
    if (step_choose(s, 4) == 0)
        look_at_receives(r);
    if (r->nreceives < RECEIVES && step_choose(s, 2)) {
        post(r, step_choose(s, 2) ? OF_ANY : other);
        return;
    }
    const struct incoming m = { me, ++r->sent[other], step_choose(s, 2) };
    step_send(s, me, other, ENVELOPES, 0, &m, sizeof m);
    if (!m.whole)
        step_send(s, me, other, REST, 0, &m, sizeof m);
}

static void step_repair(void *arg, int me)
{
    (void)arg;
    if (survivor[me].state == QUIESCES)
        step_of_quiesce(&survivor[me], me);
    else
        step_of_sender(&survivor[me], me);
}

static void hear_revoke(struct survivor *r, const struct step_message *m)
{
    uint64_t attempt;
    if (m->kind == VERDICT) {
        if (r->state == RUNS) { /* the communicator is not revoked */
            memcpy(&r->knows, m->data, sizeof r->knows);
            r->line = FTK_LINE_AWAY;
        }
        return;
    }
    memcpy(&attempt, m->data, sizeof attempt);
    if (attempt == r->attempt && r->state != WAITS)
        enter_repair(m->to);
    begin_attempt();
}

static void arrive_repair(void *arg, const struct step_message *m)
{
    struct survivor *r = &survivor[m->to];
    struct number_words w;
    struct incoming in;
    (void)arg;
    if (m->channel == REVOKES) {
        hear_revoke(r, m);
    } else if (m->channel == NUMBERS) {
        memcpy(&w, m->data, sizeof w);
        if (w.attempt != r->attempt)
            return; /* on the communicator of an attempt that has ended */
        r->announced[m->from] = w.count;
        r->heard[m->from] = true;
    } else {
        memcpy(&in, m->data, sizeof in);
        in.whole = in.whole || r->rest[m->from] >> in.number & 1;
        if (m->channel == REST)
            the_rest_comes(r, m->from, in.number);
        else
            match_or_keep(r, &in);
        drain(r);
    }
}

static void notice(void *arg, int me, int dead)
{
    (void)arg;
    (void)dead;
    enter_repair(me);
    begin_attempt();
}

static void die(void *arg, int rank)
{
    (void)arg;
    (void)rank;
    begin_attempt(); /* all others may be waiting for this rank */
}

static void end_repair(void *arg)
{
    int lost = 0;
    (void)arg;
    for (int me = 0; me < repair.s->n; me++)
        lost += repair.s->dead[me];
    for (int me = 0; me < repair.s->n; me++)
        if (!repair.s->dead[me])
            STEP_EXPECT(repair.s, survivor[me].state == (lost > 0 ? IS_QUIET : RUNS));
}

/* Rank 0 knows the outcome of the set, and the others hear of it. */
static void begin_at_line(struct stepping *s)
{
    const bool committed = step_choose(s, 2);
    const struct ftk_job_state knows = { .lines = committed, .nouts = !committed };
    survivor[0].knows = knows;
    for (int r = 1; r < s->n; r++) {
        survivor[r].line = FTK_LINE_DRAINED;
        for (int i = step_choose(s, 3); i > 0; i--)
            post(&survivor[r], step_choose(s, 2) ? OF_ANY : step_choose(s, r));
        step_send(s, 0, r, REVOKES, VERDICT, &knows, sizeof knows);
    }
}

static void run_repair(struct stepping *s)
{
    static const struct step_ops ops = { .can = can_repair,
        .step = step_repair,
        .arrive = arrive_repair,
        .die = die,
        .notice = notice,
        .end = end_repair };
    const int n = 3 + step_choose(s, 4);
    memset(&repair, 0, sizeof repair);
    memset(survivor, 0, sizeof survivor);
    repair.s = s;
    s->n = n;
    for (int r = 0; r < n; r++)
        survivor[r].left = step_choose(s, 24);
    step_begin(s, s->seed, n, 1 + step_choose(s, 2));
    if (step_choose(s, 2))
        begin_at_line(s);
    step_run(s, &ops, NULL, 20000);
}

static void a_repair(void **state)
{
    (void)state;
    step_many(20000, run_repair);
}

#endif
