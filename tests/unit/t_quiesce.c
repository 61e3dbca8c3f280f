/* Draining at the line in many orders of steps: no cut with a counted message in flight.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The ranks send messages, take part in collectives, and come to the line at different times.  Each
 * rank asks and acts as recovery/line.c does, and recovery/draining.c chooses the steps.  A send
 * may be held back, a receive may be complete and not recorded yet, and collectives go on until a
 * rank has met the others.  What holds:
 *
 *   - when a rank has drained, it has recorded all messages that others have sent to it
 *   - nobody sends after a rank has drained
 *   - planes: no collective can go on when all ranks have drained
 *   - no rank waits for ever */
#include "stepping.h"

#include "log/recovery/draining.h"
#include "t_quiesce_repair.h"

enum { SENDS = 6, COLLS = 3, ROUNDS = 4 };
enum { MESSAGES, COUNTS };    /* channels */
enum { OF_PROGRAM, OF_COLL }; /* kinds of messages: a collective is OF_COLL + its number */

struct coll {
    bool begun;
    int sent, received, arrived; /* messages around the ring; arrived: and not received */
};

struct rank {
    int left;   /* what the program still does before the line */
    int nbegun; /* collectives */
    int unsent; /* messages that are held back */
    int held_to[64], held_kind[64];
    struct coll coll[COLLS];
    uint64_t sent[STEP_RANKS], received[STEP_RANKS], announced[STEP_RANKS];
    uint64_t there[STEP_RANKS];      /* arrived, not taken */
    uint64_t unrecorded[STEP_RANKS]; /* complete receives at which nobody has looked */
    bool at_line, here;
    struct ftk_draining drain;
    int round, nheard;               /* of the exchange under way; nheard: messages of it */
    bool announcing, any, early[64]; /* words of the others, by exchange */
    int early_n[64];
    uint64_t early_count[64][STEP_RANKS];
    uint64_t sent_before;
    int behind; /* looks until collectives have caught up */
};

static struct model {
    struct stepping *s;
    bool planes, holds;
    int ncolls;
    struct rank rank[STEP_RANKS];
} model;

struct words {
    uint64_t round, count, any;
};

/* ---- messages ---------------------------------------------------------------------------- */

static bool has_drained(const struct rank *r)
{
    return r->drain.state == FTK_DRAINING_DRAINED;
}

static void send_now(struct rank *r, int me, int to, int kind)
{
    for (int k = 0; k < model.s->n; k++) /* the line is the same on all ranks */
        STEP_EXPECT(model.s, !has_drained(&model.rank[k]));
    r->sent[to]++;
    step_send(model.s, me, to, MESSAGES, kind, NULL, 0);
}

/* A held send is not overtaken. */
static void send_or_hold(struct rank *r, int me, int to, int kind)
{
    if (r->unsent == 0 && !(model.holds && step_choose(model.s, 3) == 0)) {
        send_now(r, me, to, kind);
        return;
    }
    r->held_to[r->unsent] = to;
    r->held_kind[r->unsent++] = kind;
}

static void release_held(struct rank *r, int me)
{
    if (r->unsent == 0 || step_choose(model.s, 2))
        return;
    send_now(r, me, r->held_to[0], r->held_kind[0]);
    r->unsent--;
    memmove(r->held_to, r->held_to + 1, (size_t)r->unsent * sizeof r->held_to[0]);
    memmove(r->held_kind, r->held_kind + 1, (size_t)r->unsent * sizeof r->held_kind[0]);
}

static bool holds_of(const struct rank *r, int kind)
{
    for (int i = 0; i < r->unsent; i++)
        if (r->held_kind[i] == kind)
            return true;
    return false;
}

/* ---- collectives ------------------------------------------------------------------------- */

static bool is_under_way(const struct rank *r, int k)
{
    const struct coll *c = &r->coll[k];
    return c->begun && (c->sent < ROUNDS || c->received < ROUNDS || holds_of(r, OF_COLL + k));
}

static bool any_coll(const struct rank *r)
{
    for (int k = 0; k < COLLS; k++)
        if (is_under_way(r, k))
            return true;
    return false;
}

/* Each message to the right neighbour waits for the one before it from the left. */
static void coll_go_on(struct rank *r, int me)
{
    for (int k = 0; k < COLLS; k++) {
        struct coll *c = &r->coll[k];
        while (c->begun && c->arrived > 0) {
            c->arrived--;
            c->received++;
        }
        while (c->begun && c->sent < ROUNDS && c->sent <= c->received) {
            c->sent++;
            send_or_hold(r, me, (me + 1) % model.s->n, OF_COLL + k);
        }
    }
}

/* Whether a collective could send: with planes none can at the line. */
static bool can_go_on(const struct rank *r)
{
    for (int k = 0; k < COLLS; k++)
        if (r->coll[k].begun && r->coll[k].sent < ROUNDS
            && r->coll[k].sent <= r->coll[k].received + r->coll[k].arrived)
            return true;
    return false;
}

/* ---- the exchange of counts -------------------------------------------------------------- */

static void begin_exchange(struct rank *r, int me, bool word)
{
    r->announcing = true;
    r->any = r->any || word;
    for (int to = 0; to < model.s->n; to++) {
        const struct words w = { (uint64_t)r->round, r->sent[to], word };
        if (to != me)
            step_send(model.s, me, to, COUNTS, 0, &w, sizeof w);
    }
}

/* Whether the words of all have come. */
static bool end_exchange(struct rank *r, int me, bool *any)
{
    const int at = r->round;
    if (r->early_n[at] < model.s->n - 1)
        return false;
    for (int k = 0; k < model.s->n; k++)
        if (k != me)
            r->announced[k] = r->early_count[at][k];
    *any = r->any || r->early[at];
    r->announcing = r->any = false;
    r->round++;
    STEP_EXPECT(model.s, r->round < 64);
    return true;
}

/* ---- a rank at the line, as recovery/line.c ---------------------------------------------- */

/* One look: messages that are there go to posted receives, or wait. */
static void look(struct rank *r, int me)
{
    release_held(r, me);
}

static void record_one(struct rank *r)
{
    for (int k = 0; k < model.s->n; k++)
        if (r->unrecorded[k] > 0 && step_choose(model.s, 2)) {
            r->unrecorded[k]--;
            r->received[k]++;
        }
}

static bool is_behind(const struct rank *r, int k)
{
    return ftk_draining_is_behind(r->received[k], r->unrecorded[k], r->announced[k]);
}

/* Take the announced messages that are there; whether all have come. */
static bool drain_all(struct rank *r)
{
    bool behind = false;
    for (int k = 0; k < model.s->n; k++) {
        while (r->there[k] > 0 && is_behind(r, k)) {
            r->there[k]--;
            r->received[k]++;
        }
        behind = behind || is_behind(r, k);
    }
    return !behind;
}

static bool is_unrecorded(const struct rank *r)
{
    for (int k = 0; k < model.s->n; k++)
        if (ftk_draining_is_behind(r->received[k], 0, r->announced[k]))
            return true;
    return false;
}

static uint64_t messages_sent(const struct rank *r)
{
    uint64_t sum = 0;
    for (int k = 0; k < model.s->n; k++)
        sum += r->sent[k];
    return sum;
}

/* The answer; false: there is none yet. */
static bool ask(struct rank *r, int me, bool *yes)
{
    *yes = false;
    switch (r->drain.state) {
    case FTK_DRAINING_RELEASE:
    case FTK_DRAINING_RELEASE_HERE:
        *yes = r->unsent > 0;
        return true;
    case FTK_DRAINING_CATCH_UP:
        *yes = any_coll(r) && r->behind > 0;
        return true;
    case FTK_DRAINING_MEET:
        STEP_EXPECT(model.s, r->announcing || r->behind == 0 || !any_coll(r));
        if (!r->announcing)
            begin_exchange(r, me, any_coll(r));
        else
            coll_go_on(r, me);
        r->here = end_exchange(r, me, yes);
        return r->here;
    case FTK_DRAINING_MEET_AGAIN:
        if (!r->announcing)
            begin_exchange(r, me, false);
        return end_exchange(r, me, yes);
    case FTK_DRAINING_RECEIVE:
        look(r, me);
        return drain_all(r);
    case FTK_DRAINING_RECORD:
        *yes = is_unrecorded(r);
        return true;
    case FTK_DRAINING_ADVANCE:
        if (!r->announcing) {
            const uint64_t before = messages_sent(r);
            coll_go_on(r, me);
            begin_exchange(r, me, messages_sent(r) != before);
        }
        return end_exchange(r, me, yes);
    default:
        *yes = step_choose(model.s, 3) == 0;
        return true;
    }
}

static void step_at_line(struct rank *r, int me)
{
    bool yes;
    if (!ask(r, me, &yes))
        return;
    const enum ftk_draining_action action = ftk_draining_step(&r->drain, yes);
    if (action == FTK_DRAINING_NOTHING)
        return;
    STEP_EXPECT(model.s, action != FTK_DRAINING_LOOK_ON || !r->here);
    r->behind -= r->behind > 0;
    look(r, me);
    if (action == FTK_DRAINING_LOOK_ON)
        coll_go_on(r, me);
    if (action == FTK_DRAINING_POLL)
        record_one(r);
}

/* ---- the program ------------------------------------------------------------------------- */

static void step_of_program(struct rank *r, int me)
{
    struct stepping *s = model.s;
    const int n = s->n;
    release_held(r, me);
    coll_go_on(r, me);
    record_one(r);
    if (step_choose(s, 2))
        return;
    if (r->left-- == 0) {
        while (r->nbegun < model.ncolls) /* all ranks begin the same collectives */
            r->coll[r->nbegun++].begun = true;
        r->at_line = true;
    } else if (r->nbegun < model.ncolls && step_choose(s, 2)) {
        r->coll[r->nbegun++].begun = true;
    } else {
        send_or_hold(r, me, (me + 1 + step_choose(s, n - 1)) % n, OF_PROGRAM);
    }
}

static bool can(void *arg, int me)
{
    const struct rank *r = &model.rank[me];
    (void)arg;
    if (!r->at_line)
        return true;
    if (r->announcing && r->early_n[r->round] < model.s->n - 1) /* it waits; collectives go on */
        return r->drain.state == FTK_DRAINING_MEET && can_go_on(r);
    if (r->drain.state == FTK_DRAINING_RECEIVE) {
        for (int k = 0; k < model.s->n; k++)
            if (is_behind(r, k) && r->there[k] == 0)
                return r->unsent > 0;
    }
    return !has_drained(r);
}

static void step(void *arg, int me)
{
    struct rank *r = &model.rank[me];
    (void)arg;
    if (!r->at_line) {
        step_of_program(r, me);
        return;
    }
    step_at_line(r, me);
    if (!has_drained(r))
        return;
    for (int k = 0; k < model.s->n; k++) {
        STEP_EXPECT(model.s, model.rank[k].sent[me] == r->received[k]);
        STEP_EXPECT(model.s, step_in_flight(model.s, k, me, MESSAGES) == 0);
    }
}

static void arrive(void *arg, const struct step_message *m)
{
    struct rank *r = &model.rank[m->to];
    struct words w;
    (void)arg;
    if (m->channel == COUNTS) {
        memcpy(&w, m->data, sizeof w);
        r->early_count[w.round][m->from] = w.count;
        r->early[w.round] = r->early[w.round] || w.any;
        r->early_n[w.round]++;
        return;
    }
    if (m->kind >= OF_COLL) {
        r->coll[m->kind - OF_COLL].arrived++;
        r->unrecorded[m->from]++; /* collectives post their receives */
    } else if (step_choose(model.s, 2)) {
        r->unrecorded[m->from]++;
    } else {
        r->there[m->from]++;
    }
}

static void end(void *arg)
{
    (void)arg;
    for (int me = 0; me < model.s->n; me++) {
        STEP_EXPECT(model.s, has_drained(&model.rank[me]));
        STEP_EXPECT(model.s, !model.planes || !can_go_on(&model.rank[me]));
    }
}

static void run(struct stepping *s)
{
    static const struct step_ops ops = { .can = can, .step = step, .arrive = arrive, .end = end };
    const int n = 2 + step_choose(s, 4);
    memset(&model, 0, sizeof model);
    model.s = s;
    model.planes = step_choose(s, 2);
    model.ncolls = step_choose(s, COLLS + 1);
    model.holds = !model.planes && step_choose(s, 2); /* as draining.h says */
    for (int r = 0; r < n; r++) {
        model.rank[r].left = step_choose(s, SENDS);
        model.rank[r].behind = step_choose(s, 4);
        model.rank[r].drain.planes = model.planes;
    }
    step_begin(s, s->seed, n, 0);
    step_run(s, &ops, &model, 20000);
}

static void the_line(void **state)
{
    (void)state;
    step_many(4000, run);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_line), cmocka_unit_test(a_repair) };
    return cmocka_run_group_tests_name("draining", tests, NULL, NULL);
}
