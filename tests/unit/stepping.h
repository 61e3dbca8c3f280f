/* Stepping: a protocol of several ranks in one process, one step after the other.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A test has a model: ranks whose steps call the decisions of the library, without MPI.  The
 * scheduler chooses the next step by a seed: a step of a rank, the arrival of a message, the notice
 * of a death, or a death.  A channel from one rank to another keeps the order of messages, as the
 * MPI does on one communicator; nothing else is in order.  In each run some ranks and channels are
 * much slower than others.  A death comes between any two steps; of the messages that the rank has
 * sent on a channel, the last ones may be lost.
 *
 * Each run has a seed of its own.  FTKIT_TEST_SEED repeats the run with this seed alone.
 * FTKIT_TEST_COUNT is the number of runs. */
#ifndef FTK_TESTS_STEPPING_H
#define FTK_TESTS_STEPPING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after those, on which it builds */
#include <cmocka.h>

enum { STEP_RANKS = 8, STEP_CHANNELS = 4, STEP_TRACE = 48, STEP_SLOWEST = 6 };

struct step_message {
    struct step_message *next;
    int from, to, channel, kind;
    size_t bytes;
    unsigned char data[];
};

struct step_queue {
    struct step_message *first, **last; /* last: where the next one goes; NULL: empty */
    unsigned weight;
};

struct stepping;

/* The model.  NULL: never, or nothing. */
struct step_ops {
    bool (*can)(void *model, int rank); /* the rank can make a step of its own */
    void (*step)(void *model, int rank);
    void (*arrive)(void *model, const struct step_message *m);
    void (*die)(void *model, int rank);
    void (*notice)(void *model, int rank, int dead); /* rank learns that dead has died */
    void (*check)(void *model);                      /* after each step: what holds always */
    void (*end)(void *model); /* no step is left: what holds then, and that no rank waits */
};

struct stepping {
    uint64_t seed, random;
    int n;
    int deaths;       /* still to come */
    uint64_t next_at; /* the step before which the next one comes */
    bool dead[STEP_RANKS];
    bool unnoticed[STEP_RANKS][STEP_RANKS]; /* by rank and by dead rank */
    unsigned weight[STEP_RANKS];
    struct step_queue queue[STEP_RANKS][STEP_RANKS][STEP_CHANNELS]; /* from, to, channel */
    uint64_t steps;
    char trace[STEP_TRACE][48];
};

/* ---- chance ---------------------------------------------------------------------------- */

static inline uint64_t step_random(struct stepping *s)
{
    uint64_t z = (s->random += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* A number of 0 .. n - 1. */
static inline int step_choose(struct stepping *s, int n)
{
    return (int)(step_random(s) % (uint64_t)n);
}

/* ---- failing ----------------------------------------------------------------------------- */

static inline void step_note(struct stepping *s, const char *kind, int a, int b, int channel)
{
    snprintf(
        s->trace[s->steps % STEP_TRACE], sizeof s->trace[0], "%s %d %d %d", kind, a, b, channel);
    s->steps++;
}

/* Ends the test unless the condition holds. */
#define STEP_EXPECT(s, condition)                                                                  \
    do {                                                                                           \
        if (!(condition))                                                                          \
            step_fail((s), #condition, __FILE__, __LINE__);                                        \
    } while (0)

static inline void step_fail(const struct stepping *s, const char *what, const char *file, int line)
{
    const uint64_t first = s->steps > STEP_TRACE ? s->steps - STEP_TRACE : 0;
    print_error("FTKIT_TEST_SEED=%llu, %d ranks, step %llu: not true: %s\n",
        (unsigned long long)s->seed, s->n, (unsigned long long)s->steps, what);
    for (uint64_t i = first; i < s->steps; i++)
        print_error("    %llu: %s\n", (unsigned long long)i, s->trace[i % STEP_TRACE]);
    _fail(file, line);
}

/* ---- messages ---------------------------------------------------------------------------- */

static inline void step_send(
    struct stepping *s, int from, int to, int channel, int kind, const void *data, size_t bytes)
{
    struct step_queue *q = &s->queue[from][to][channel];
    if (s->dead[from] || s->dead[to])
        return;
    struct step_message *m = malloc(sizeof *m + bytes);
    STEP_EXPECT(s, m != NULL);
    m->next = NULL;
    m->from = from;
    m->to = to;
    m->channel = channel;
    m->kind = kind;
    m->bytes = bytes;
    if (bytes > 0)
        memcpy(m->data, data, bytes);
    *(q->last ? q->last : &q->first) = m;
    q->last = &m->next;
}

/* The caller frees the message. */
static inline struct step_message *step_take(struct step_queue *q)
{
    struct step_message *m = q->first;
    if (!m)
        return NULL;
    q->first = m->next;
    if (!q->first)
        q->last = NULL;
    return m;
}

/* How many messages are on the way. */
static inline int step_in_flight(const struct stepping *s, int from, int to, int channel)
{
    int n = 0;
    for (const struct step_message *m = s->queue[from][to][channel].first; m; m = m->next)
        n++;
    return n;
}

/* Lose the messages of a queue but the first ones. */
static inline void step_lose(struct step_queue *q, int kept)
{
    struct step_message **at = &q->first;
    for (; *at && kept > 0; kept--)
        at = &(*at)->next;
    q->last = at == &q->first ? NULL : at;
    for (struct step_message *m = *at, *next; m; m = next) {
        next = m->next;
        free(m);
    }
    *at = NULL;
}

/* ---- deaths ------------------------------------------------------------------------------ */

/* The next death: in the first few steps as often as late in a long run. */
static inline void step_plan_death(struct stepping *s)
{
    s->next_at = s->steps + (uint64_t)step_choose(s, 2 << step_choose(s, 9));
}

static inline void step_kill(struct stepping *s, const struct step_ops *ops, void *model, int rank)
{
    step_note(s, "death of", rank, -1, -1);
    s->dead[rank] = true;
    for (int to = 0; to < s->n; to++)
        for (int c = 0; c < STEP_CHANNELS; c++) {
            step_lose(&s->queue[to][rank][c], 0);
            step_lose(&s->queue[rank][to][c], step_choose(s, step_in_flight(s, rank, to, c) + 1));
        }
    for (int r = 0; r < s->n; r++) {
        s->unnoticed[r][rank] = !s->dead[r];
        s->unnoticed[rank][r] = false;
    }
    if (ops->die)
        ops->die(model, rank);
}

static inline bool step_death(struct stepping *s, const struct step_ops *ops, void *model)
{
    int alive = 0;
    if (s->deaths == 0 || s->steps < s->next_at)
        return false;
    for (int r = 0; r < s->n; r++)
        alive += !s->dead[r];
    s->deaths--;
    step_plan_death(s);
    if (alive < 2)
        return false;
    int rank = step_choose(s, s->n);
    while (s->dead[rank])
        rank = (rank + 1) % s->n;
    step_kill(s, ops, model, rank);
    return true;
}

/* ---- the scheduler ----------------------------------------------------------------------- */

/* Count down the weights of all steps that are possible to the one that chance has chosen: visit
 * returns whether this is the step.  Two rounds: the first one with left = SIZE_MAX sums them. */
struct step_choice {
    uint64_t sum, left;
    bool found;
    enum step_kind { STEP_OWN, STEP_ARRIVAL, STEP_NOTICE } kind;
    int a, b, channel;
};

static inline void step_visit(
    struct step_choice *c, unsigned weight, enum step_kind kind, int a, int b, int channel)
{
    c->sum += weight;
    if (c->found || c->sum <= c->left)
        return;
    c->found = true;
    c->kind = kind;
    c->a = a;
    c->b = b;
    c->channel = channel;
}

static inline void step_visit_all(
    struct stepping *s, const struct step_ops *ops, void *model, struct step_choice *c)
{
    c->sum = 0;
    for (int r = 0; r < s->n; r++) {
        if (s->dead[r])
            continue;
        if (ops->can && ops->can(model, r))
            step_visit(c, s->weight[r], STEP_OWN, r, -1, -1);
        for (int from = 0; from < s->n; from++) {
            if (s->unnoticed[r][from] && ops->notice)
                step_visit(c, s->weight[r], STEP_NOTICE, r, from, -1);
            for (int k = 0; k < STEP_CHANNELS; k++)
                if (s->queue[from][r][k].first)
                    step_visit(c, s->queue[from][r][k].weight, STEP_ARRIVAL, r, from, k);
        }
    }
}

/* Make one step; false: none is left. */
static inline bool step_once(struct stepping *s, const struct step_ops *ops, void *model)
{
    struct step_choice c = { .left = UINT64_MAX };
    if (step_death(s, ops, model))
        return true;
    step_visit_all(s, ops, model, &c);
    if (c.sum == 0)
        return false;
    c.left = step_random(s) % c.sum;
    step_visit_all(s, ops, model, &c);
    if (c.kind == STEP_OWN) {
        step_note(s, "step of", c.a, -1, -1);
        ops->step(model, c.a);
    } else if (c.kind == STEP_NOTICE) {
        step_note(s, "notice to, of", c.a, c.b, -1);
        s->unnoticed[c.a][c.b] = false;
        ops->notice(model, c.a, c.b);
    } else {
        struct step_message *m = step_take(&s->queue[c.b][c.a][c.channel]);
        step_note(s, "arrival at, from, on", c.a, c.b, c.channel);
        ops->arrive(model, m);
        free(m);
    }
    return true;
}

/* Make all steps of a run, at most so many.  More steps: some rank waits for ever. */
static inline void step_run(
    struct stepping *s, const struct step_ops *ops, void *model, uint64_t most)
{
    while (step_once(s, ops, model)) {
        if (ops->check)
            ops->check(model);
        STEP_EXPECT(s, s->steps < most);
    }
    if (ops->end)
        ops->end(model);
}

/* A run of n ranks with so many deaths. */
static inline void step_begin(struct stepping *s, uint64_t seed, int n, int deaths)
{
    s->seed = seed;
    s->n = n;
    s->deaths = deaths;
    for (int a = 0; a < n; a++) {
        s->weight[a] = 1u << step_choose(s, STEP_SLOWEST);
        for (int b = 0; b < n; b++)
            for (int c = 0; c < STEP_CHANNELS; c++)
                s->queue[a][b][c].weight = 1u << step_choose(s, STEP_SLOWEST);
    }
    step_plan_death(s);
}

static inline void step_clear(struct stepping *s)
{
    for (int a = 0; a < s->n; a++)
        for (int b = 0; b < s->n; b++)
            for (int c = 0; c < STEP_CHANNELS; c++)
                step_lose(&s->queue[a][b][c], 0);
}

/* Call run(s) for many seeds; run calls step_begin(s, s->seed, n, deaths) and step_run().
 * tests/long/units.t tries all of the seeds. */
static inline void step_many(uint64_t runs, void (*run)(struct stepping *s))
{
    const char *one = getenv("FTKIT_TEST_SEED"), *many = getenv("FTKIT_TEST_COUNT");
    const uint64_t first = one ? strtoull(one, NULL, 10) : 20261127;
    const uint64_t some = getenv("FTKIT_TEST_ALL") ? runs : runs / 4;
    const uint64_t count = many ? strtoull(many, NULL, 10) : one ? 1 : some;
    static struct stepping s;
    print_message("FTKIT_TEST_SEED=%llu and the next %llu\n", (unsigned long long)first,
        (unsigned long long)(count - 1));
    for (uint64_t i = 0; i < count; i++) {
        memset(&s, 0, sizeof s);
        s.seed = s.random = first + i;
        run(&s);
        step_clear(&s);
    }
}

#endif
