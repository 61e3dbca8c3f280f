/* Random programs: what each rank does is derived from a seed, the same on all ranks.
 *
 * A program is a list of events, which are messages and collectives.  Each rank does its part in
 * the order of the events.  A wait comes behind the begin of what it waits for, in this order.  So
 * the program cannot deadlock, even when every send waits for its receive: whoever has to come
 * to the first event that is not complete can come there.
 *
 * There are two streams of random numbers.  The stream of all decides what the ranks have to agree
 * in: events, tags, lengths.  The stream of a rank decides its own matters: which call of MPI it
 * uses, in which order it waits, where it pauses, and where it calls ftkit_checkpoint().
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef SCRIPT_H
#define SCRIPT_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SLOTS = 18,      /* requests with their memory */
    PERSISTENT = 16, /* the last two are persistent: a receive, a send */
    FIXED = 8,       /* words of a persistent one */
    MOST = 12000,    /* words in the memory of a slot */
    HALF = MOST / 2, /* a collective receives behind this word */
    WILD_TAG = 1000,
    LATE_TAG = 100,
    LATE = 5 /* messages of a part that are received late, at most, and that are wild: twice that */
};

enum what {
    CALL,
    JOIN, /* ftkit_wait() */
    STEP,
    MID,
    INFLIGHT,
    PAUSE,
    SEND,
    SSEND,
    ISEND,
    ISSEND,
    RECV,
    IRECV,
    PROBE,
    IPROBE, /* until there is a message, which is received */
    LOOK,   /* once */
    MPROBE,
    MRECV,
    SENDRECV,
    START,
    COLL,
    ICOLL,
    WAIT,
    WAITALL,
    WAITANY,
    WAITSOME,
    TESTANY, /* until one is complete */
    TEST,    /* once */
    CANCEL,  /* the receive that was begun last, which is begun again unless it has a message */
    TAKE     /* the content of a receive or a collective goes into the state */
};

enum coll { ALLREDUCE, BCAST, GATHER, ALLTOALL, ALLGATHER, BARRIER, COLLS };
enum { WORLD, SUB, COMMS }; /* SUB: ranks that are even, or odd */

/* What a part of a round has. */
enum { P2P, RING, WILD, ANYTAG, COLLECTIVE, PERSIST, PARTS };

/* Ranks are those of WORLD. */
struct op {
    enum what what;
    int round;
    int slot;
    int comm;
    int peer, from; /* from: of SENDRECV; peer of COLL: the root in its communicator */
    int tag, words;
    uint32_t event, span; /* span: of a wild receive: which gets one of the events from event on */
    unsigned mask;        /* slots to wait for */
    enum coll coll;
};

/* Slots that are begun together, waited for, and whose content is taken in this order. */
struct bundle {
    int slots[2 * LATE];
    int n;
    bool late; /* not to be waited for before the end of the part */
};

struct script {
    int rank, nranks;
    bool apart;     /* ranks call ftkit_checkpoint where they like */
    bool middle;    /* all ranks also call it in the middle of a round */
    bool waits;     /* all ranks call ftkit_wait() behind some rounds */
    bool asks;      /* some calls of ftkit_checkpoint come with a request for a durable set */
    bool cancels;   /* receives are cancelled while their messages come */
    bool ahead;     /* requests may stay under way when a round ends */
    int rare;       /* this rank calls so many times less often */
    unsigned parts; /* kinds of parts, a bit each */
    struct op *ops; /* [n] of this rank */
    int n, room, round;
    uint32_t event;
    uint64_t all, own; /* the two streams */
    unsigned busy;     /* slots */
    struct bundle open[SLOTS];
    int nopen;
};

struct message {
    int source, dest, comm, tag, words;
    uint32_t event, span; /* as of an op */
    bool any_tag, late;
};

/* splitmix64 */
static inline uint64_t script_next(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

static inline int script_below(uint64_t *state, int n)
{
    return (int)((script_next(state) >> 33) % (uint64_t)n);
}

static inline struct op *script_add(struct script *s, enum what what)
{
    if (s->n == s->room) {
        s->room = 2 * s->room + 256;
        s->ops = realloc(s->ops, (size_t)s->room * sizeof *s->ops);
        if (!s->ops)
            abort();
    }
    struct op *o = &s->ops[s->n++];
    *o = (struct op){ .what = what, .round = s->round, .span = 1, .event = s->event };
    return o;
}

/* An op, perhaps with a pause or a call of ftkit_checkpoint() before it. */
static inline struct op *script_op(struct script *s, enum what what)
{
    if (script_below(&s->own, 12) == 0)
        script_add(s, PAUSE);
    if (script_below(&s->own, 24 * s->rare) == 0 && s->apart)
        script_add(s, CALL);
    return script_add(s, what);
}

/* ---- waiting ---------------------------------------------------------------------------- */

static inline void script_shuffle(uint64_t *state, int *list, int n)
{
    for (int i = n - 1; i > 0; i--) {
        int k = script_below(state, i + 1), was = list[i];
        list[i] = list[k];
        list[k] = was;
    }
}

static inline void script_each(struct script *s, enum what what, const int *slots, int n)
{
    for (int i = 0; i < n; i++)
        script_op(s, what)->mask = 1U << slots[i];
}

/* Wait for slots in one of the ways of MPI. */
static inline void script_wait(struct script *s, unsigned mask)
{
    int slots[SLOTS], n = 0;
    for (int i = 0; i < SLOTS; i++)
        if (mask >> i & 1)
            slots[n++] = i;
    script_shuffle(&s->own, slots, n);
    switch (script_below(&s->own, 6)) {
    case 0:
        script_each(s, WAIT, slots, n);
        break;
    case 1:
        script_each(s, TEST, slots, n);
        script_shuffle(&s->own, slots, n);
        script_each(s, WAIT, slots, n);
        break;
    case 2:
        for (int i = 0; i < n; i++)
            script_op(s, WAITANY)->mask = mask;
        break;
    case 3:
        for (int i = 0; i < n; i++)
            script_op(s, TESTANY)->mask = mask;
        break;
    case 4:
        script_op(s, WAITSOME)->mask = mask;
        script_op(s, WAITALL)->mask = mask;
        break;
    default:
        script_op(s, WAITALL)->mask = mask;
        break;
    }
}

/* Complete bundles, some or all of those that are not late. */
static inline void script_close(struct script *s, bool some)
{
    struct bundle closing[SLOTS];
    unsigned mask = 0;
    int kept = 0, n = 0;
    for (int i = 0; i < s->nopen; i++) {
        const struct bundle b = s->open[i];
        if (b.late || (some && s->ahead && script_below(&s->own, 3) == 0)) {
            s->open[kept++] = b;
            continue;
        }
        closing[n++] = b;
        for (int k = 0; k < b.n; k++)
            mask |= 1U << b.slots[k];
    }
    s->nopen = kept;
    if (mask)
        script_wait(s, mask);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < closing[i].n; k++)
            script_op(s, TAKE)->slot = closing[i].slots[k];
    s->busy &= ~mask;
}

/* A slot for what is begun now. */
static inline int script_slot(struct script *s)
{
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < PERSISTENT; i++)
            if (!(s->busy >> i & 1)) {
                s->busy |= 1U << i;
                return i;
            }
        script_close(s, false);
    }
    abort();
}

static inline void script_open(struct script *s, const int *slots, int n, bool late)
{
    struct bundle *b = &s->open[s->nopen++];
    *b = (struct bundle){ .n = n, .late = late };
    memcpy(b->slots, slots, (size_t)n * sizeof *slots);
}

/* ---- messages ----------------------------------------------------------------------------- */

static inline int script_words(struct script *s)
{
    int k = script_below(&s->all, 12), w = script_below(&s->all, 2500);
    if (k == 0)
        return 0;
    if (k == 1)
        return 8200 + w; /* more than 64 KiB */
    return k < 8 ? 1 + w % 6 : 1 + w;
}

static inline struct op *script_message(struct script *s, enum what what, const struct message *m)
{
    struct op *o = script_op(s, what);
    o->comm = m->comm;
    o->peer = what <= ISSEND ? m->dest : m->source;
    o->tag = what > ISSEND && m->any_tag ? MPI_ANY_TAG : m->tag;
    o->words = m->words;
    o->event = m->event;
    o->span = m->span;
    return o;
}

static inline void script_send(struct script *s, const struct message *m)
{
    int k = script_below(&s->own, 4);
    if (s->rank != m->source)
        return;
    if (m->late || m->source == m->dest)
        k |= 2;
    if (k < 2) {
        script_message(s, k == 0 ? SEND : SSEND, m);
        return;
    }
    int slot = script_slot(s);
    script_message(s, k == 2 ? ISEND : ISSEND, m)->slot = slot;
    script_open(s, &slot, 1, m->late);
}

/* Perhaps cancel the receive of a slot, before another one is begun. */
static inline void script_cancel(struct script *s, int slot)
{
    if (!s->cancels || script_below(&s->own, 3) != 0)
        return;
    if (script_below(&s->own, 2) == 0)
        script_add(s, PAUSE);
    script_add(s, CANCEL)->slot = slot;
}

static inline void script_receive(struct script *s, const struct message *m)
{
    static const enum what ways[] = { RECV, RECV, IRECV, IRECV, IRECV, PROBE, IPROBE, MPROBE };
    if (s->rank != m->dest)
        return;
    if (script_below(&s->own, 6) == 0)
        script_message(s, LOOK, m);
    enum what way = ways[script_below(&s->own, 8)];
    if (way == IRECV) {
        int slot = script_slot(s);
        script_message(s, way, m)->slot = slot;
        script_cancel(s, slot);
        script_open(s, &slot, 1, false);
        return;
    }
    script_message(s, way, m);
    if (way == MPROBE)
        script_message(s, MRECV, m);
}

/* A message that dest gets in turn. */
static inline void script_pass(struct script *s, int source, int dest, int words)
{
    struct message m = { .source = source, .dest = dest, .tag = 4, .words = words, .span = 1 };
    m.event = ++s->event;
    script_send(s, &m);
    script_receive(s, &m);
}

/* ---- parts of a round ----------------------------------------------------------------------- */

/* Messages between any ranks.  The late ones are received at the end, in another order. */
static inline void script_p2p(struct script *s, bool any_tag)
{
    struct message late[LATE];
    int order[LATE], nlate = 0, count = 2 + script_below(&s->all, 2 * s->nranks);
    for (int i = 0; i < count; i++) {
        struct message m = { .span = 1 };
        m.source = script_below(&s->all, s->nranks);
        m.dest = script_below(&s->all, s->nranks);
        m.tag = 1 + script_below(&s->all, 3);
        m.words = script_words(s);
        m.event = ++s->event;
        bool other = script_below(&s->all, 4) == 0;
        if (other && m.source % 2 == m.dest % 2)
            m.comm = SUB;
        m.late = script_below(&s->all, 5) == 0 && !any_tag && nlate < LATE;
        m.any_tag = any_tag && script_below(&s->all, 2) == 0;
        if (m.late) {
            m.tag = LATE_TAG + nlate;
            order[nlate] = nlate;
            late[nlate++] = m;
        }
        script_send(s, &m);
        if (!m.late)
            script_receive(s, &m);
    }
    script_shuffle(&s->all, order, nlate);
    for (int i = 0; i < nlate; i++)
        script_receive(s, &late[order[i]]);
    for (int i = 0; i < s->nopen; i++)
        s->open[i].late = false;
}

static inline void script_ring(struct script *s)
{
    int shift = 1 + script_below(&s->all, s->nranks - 1), words = script_words(s);
    struct message m = { .tag = 5, .words = words, .span = 1, .event = ++s->event };
    int next = (s->rank + shift) % s->nranks, prev = (s->rank + s->nranks - shift) % s->nranks;
    if (script_below(&s->own, 2) == 0) {
        m.source = prev;
        m.dest = next;
        struct op *o = script_message(s, SENDRECV, &m);
        o->peer = next;
        o->from = prev;
        return;
    }
    m.source = s->rank;
    m.dest = next;
    m.late = true; /* not to be waited for before the receive */
    script_send(s, &m);
    m.source = prev;
    m.dest = s->rank;
    m.late = false;
    script_receive(s, &m);
    for (int i = 0; i < s->nopen; i++)
        s->open[i].late = false;
}

/* The receives of the rank that takes messages of any source. */
static inline void script_wild_receives(struct script *s, struct message m, int count)
{
    static const enum what ways[] = { RECV, IRECV, IRECV, PROBE, IPROBE, MPROBE };
    enum what way = ways[script_below(&s->own, 6)];
    int slots[2 * LATE] = { 0 };
    m.source = MPI_ANY_SOURCE;
    m.words = MOST;
    if (way == IRECV && PERSISTENT - __builtin_popcount(s->busy & 0xffff) < count)
        script_close(s, false);
    for (int i = 0; i < count; i++) {
        if (script_below(&s->own, 6) == 0)
            script_message(s, LOOK, &m);
        if (way == IRECV)
            slots[i] = script_slot(s);
        script_message(s, way, &m)->slot = slots[i];
        if (way == IRECV)
            script_cancel(s, slots[i]);
        if (way == MPROBE)
            script_message(s, MRECV, &m);
    }
    if (way == IRECV)
        script_open(s, slots, count, false);
}

/* One rank takes messages of others as they come; others learn of the order. */
static inline void script_wild(struct script *s)
{
    int count = 0, dest = script_below(&s->all, s->nranks);
    int least = (dest + 1 + script_below(&s->all, s->nranks - 1)) % s->nranks;
    struct message m = { .dest = dest, .event = s->event + 1 };
    m.tag = WILD_TAG + (int)m.event;
    for (int source = 0; source < s->nranks; source++) {
        int n = source == dest ? 0 : script_below(&s->all, 3) + (source == least);
        for (; n > 0 && count < 2 * LATE; n--, count++) {
            struct message one = m;
            one.source = source;
            one.words = 3 + script_words(s);
            one.event = ++s->event;
            one.span = 1;
            if (s->rank == source && script_below(&s->own, 2) == 0)
                script_add(s, PAUSE);
            script_send(s, &one);
        }
    }
    m.span = (uint32_t)count;
    if (s->rank == dest)
        script_wild_receives(s, m, count);
    for (int n = 1 + script_below(&s->all, 2); n > 0; n--)
        script_pass(s, dest, (dest + 1 + script_below(&s->all, s->nranks - 1)) % s->nranks, 3 + n);
}

/* Ranks in a communicator. */
static inline int script_size(const struct script *s, int comm)
{
    return comm == WORLD ? s->nranks : (s->nranks + (s->rank % 2 == 0)) / 2;
}

static inline void script_collective(struct script *s)
{
    bool begun = script_below(&s->all, 2) == 0, large = script_below(&s->all, 6) == 0;
    enum coll coll = (enum coll)script_below(&s->all, COLLS);
    int comm = script_below(&s->all, 3) == 0 ? SUB : WORLD, few = script_below(&s->all, 5);
    int root = script_below(&s->all, s->nranks), slot = 0;
    ++s->event;
    if (begun)
        slot = script_slot(s);
    struct op *o = script_op(s, begun ? ICOLL : COLL);
    o->coll = coll;
    o->comm = comm;
    o->peer = root % script_size(s, comm);
    o->slot = slot;
    o->words = coll == ALLREDUCE ? 2 + 2 * (large ? 1000 : few)
               : coll == BCAST   ? 3 + (large ? 9000 : few)
                                 : 3 + (large ? 300 : few);
    if (begun)
        script_open(s, &slot, 1, false);
}

/* A persistent receive of any source and a persistent send, to the next rank. */
static inline void script_persistent(struct script *s)
{
    static const int slots[2] = { PERSISTENT, PERSISTENT + 1 };
    if (s->busy >> PERSISTENT)
        script_close(s, false);
    ++s->event;
    for (int i = 0; i < 2; i++) {
        struct op *o = script_op(s, START);
        o->slot = slots[i];
        o->words = FIXED;
        o->peer = (s->rank + (i ? 1 : s->nranks - 1)) % s->nranks;
        s->busy |= 1U << slots[i];
    }
    script_open(s, slots, 2, false);
}

static inline void script_part(struct script *s)
{
    int kind;
    do
        kind = script_below(&s->all, PARTS);
    while (!(s->parts >> kind & 1));
    switch (kind) {
    case P2P:
    case ANYTAG:
        script_p2p(s, kind == ANYTAG);
        break;
    case RING:
        script_ring(s);
        break;
    case WILD:
        script_wild(s);
        break;
    case COLLECTIVE:
        script_collective(s);
        break;
    default:
        script_persistent(s);
        break;
    }
}

/* ---- the whole ------------------------------------------------------------------------------ */

static inline bool script_variant(struct script *s, const char *variant)
{
    static const char *const names[PARTS] = { "p2p", "ring", "wild", "anytag", "collective",
        "persistent" };
    char text[128], *rest = NULL;
    unsigned parts = 0;
    snprintf(text, sizeof text, "%s", variant ? variant : "together");
    for (char *w = strtok_r(text, ",", &rest); w; w = strtok_r(NULL, ",", &rest)) {
        int k = 0;
        while (k < PARTS && strcmp(w, names[k]) != 0)
            k++;
        if (k < PARTS)
            parts |= 1U << k;
        else if (strcmp(w, "apart") == 0)
            s->apart = true;
        else if (strcmp(w, "ask") == 0)
            s->asks = true;
        else if (strcmp(w, "wait") == 0)
            s->waits = true;
        else if (strcmp(w, "ahead") == 0)
            s->ahead = true;
        else if (strcmp(w, "cancel") == 0)
            s->cancels = true;
        else if (strcmp(w, "middle") == 0)
            s->middle = true;
        else if (strcmp(w, "together") != 0)
            return false;
    }
    if (parts)
        s->parts = parts;
    return true;
}

/* A call of ftkit_wait(), with calls of ftkit_checkpoint() around it on some ranks. */
static inline void script_join(struct script *s)
{
    for (int i = 0; i < 3; i++)
        if (i == 1)
            script_add(s, JOIN);
        else if (s->apart && script_below(&s->own, 2) == 0)
            script_add(s, CALL);
}

/* The script of a rank: false, when the variant is wrong.  Without a list of kinds the seed chooses
 * kinds. */
static inline bool script_make(struct script *s, int rounds, int seed, const char *variant)
{
    s->all = (uint64_t)seed;
    s->own = script_next(&s->all) + (uint64_t)s->rank * 0x632be59bd9b4e019;
    script_next(&s->own);
    for (int k = 0; k < PARTS; k++)
        if (script_below(&s->all, 4) < (k == ANYTAG ? 1 : 3))
            s->parts |= 1U << k;
    if (!s->parts)
        s->parts = 1U << P2P;
    s->ahead = script_below(&s->all, 2) == 0;
    int rare = script_below(&s->all, 2 * s->nranks);
    s->rare = s->rank == rare ? 7 : 1;
    if (!script_variant(s, variant))
        return false;
    for (s->round = 0; s->round < rounds; s->round++) {
        if (!s->apart || s->round == 0 || script_below(&s->own, 3 * s->rare) == 0)
            script_add(s, CALL);
        script_add(s, STEP);
        script_part(s);
        if (s->middle)
            script_add(s, CALL);
        script_op(s, MID);
        script_part(s);
        script_op(s, INFLIGHT);
        script_close(s, s->round < rounds - 1);
        if (s->waits && s->round % 3 == 2)
            script_join(s);
    }
    return true;
}

#endif
