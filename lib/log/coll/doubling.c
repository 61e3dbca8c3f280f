/* Reductions by recursive doubling and halving.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH,
 * IJHPCA 19(1), 2005.  In round k ranks whose numbers differ in bit k exchange, so that before
 * round k each rank has combined the operands of 2^k consecutive ranks.  The operand of the lower
 * ranks comes first in each operation, so operands stay in order.
 *
 * The nearest ranks exchange first.  So the longest messages of the halving stay inside teams: a
 * team of t ranks sends twice the data to other teams, evenly shared out, as with a ring. */
#include "log/coll/build.h"

/* ---- recursive doubling: short operands, all ranks get the result ------------------------ */

/* With n ranks, not a power of two, the first 2 * extra ranks are pairs; the even rank of a pair
 * gives its operand to the odd one and gets the result from it. */
struct pairs {
    int power; /* the number of ranks that exchange: the largest power of two, at most n */
    int extra; /* n - power */
};

static struct pairs pairs_of(int n)
{
    struct pairs p = { 1, 0 };
    while (p.power <= n / 2)
        p.power *= 2;
    p.extra = n - p.power;
    return p;
}

/* The rank with number i among those that exchange. */
static int rank_at(const struct pairs *p, int i)
{
    return i < p->extra ? 2 * i + 1 : i + p->extra;
}

/* Two buffers of a rank: the operand so far, and room for the operand of a peer. */
struct operands {
    void *acc, *temp;
};

/* Combine the operand in temp, of the rank peer, with that in acc. */
static void combine(struct ftk_coll *c, struct operands *o, int peer, int count)
{
    if (peer < c->vc->rank) {
        ftk_step_reduce(c, o->temp, o->acc, (size_t)count);
        return;
    }
    ftk_step_reduce(c, o->acc, o->temp, (size_t)count);
    *o = (struct operands){ o->temp, o->acc };
}

static void exchange_all(struct ftk_coll *c, const struct pairs *p, struct operands *o)
{
    const struct ftk_side *r = &c->call.r;
    int me = c->vc->rank;
    int at = me < 2 * p->extra ? me / 2 : me - p->extra;
    for (int far = 1; far < p->power && !c->error; far *= 2) {
        int peer = rank_at(p, at ^ far);
        ftk_step_recv(c, o->temp, r->count, r->type, peer);
        ftk_step_send(c, o->acc, r->count, r->type, peer);
        ftk_step_fence(c);
        combine(c, o, peer, r->count);
    }
}

void ftk_build_doubling_allreduce(struct ftk_coll *c)
{
    const struct ftk_call *a = &c->call;
    const struct pairs p = pairs_of(c->vc->size);
    int me = c->vc->rank, count = a->r.count;
    void *place = ftk_coll_at(a->r.buf, 0);
    struct operands o = { place, ftk_coll_room(c, a->r.type, (size_t)count) };
    bool paired = me < 2 * p.extra;
    if (c->error)
        return;
    ftk_coll_copy_same(c, ftk_coll_input(a), place, count);
    if (paired && me % 2 == 0) {
        ftk_step_send(c, place, count, a->r.type, me + 1);
        ftk_step_fence(c);
        ftk_step_recv(c, place, count, a->r.type, me + 1);
        return;
    }
    if (paired) {
        ftk_step_recv(c, o.temp, count, a->r.type, me - 1);
        ftk_step_fence(c);
        combine(c, &o, me - 1, count);
    }
    exchange_all(c, &p, &o);
    if (paired)
        ftk_step_send(c, o.acc, count, a->r.type, me - 1);
    ftk_coll_copy_same(c, o.acc, place, count);
}

/* ---- recursive halving: long operands ---------------------------------------------------- */

/* Items lo .. hi - 1. */
struct part {
    size_t lo, hi;
};

enum { ROUNDS_MAX = 31 };

struct halving {
    const char *in;               /* the operand of this rank */
    char *place;                  /* where the result goes, as if there were room for all items */
    char *temp;                   /* room for half of the items */
    ptrdiff_t extent;             /* of an item */
    struct part part[ROUNDS_MAX]; /* before each round, the items that this rank still combines */
    int rounds;
};

static struct part half_of(struct part p, bool upper)
{
    size_t mid = p.lo + (p.hi - p.lo) / 2;
    return upper ? (struct part){ mid, p.hi } : (struct part){ p.lo, mid };
}

static void *items(const struct halving *h, const void *base, struct part p)
{
    return ftk_coll_at(base, (ptrdiff_t)p.lo * h->extent);
}

static void send_part(
    struct ftk_coll *c, const struct halving *h, const char *from, struct part p, int to)
{
    ftk_step_send(c, items(h, from, p), (int)(p.hi - p.lo), c->call.r.type, to);
}

static void recv_part(
    struct ftk_coll *c, const struct halving *h, char *into, struct part p, int from)
{
    ftk_step_recv(c, items(h, into, p), (int)(p.hi - p.lo), c->call.r.type, from);
}

/* A round: this rank gives half of its items to the peer, and combines the other half. */
struct round {
    int peer;
    struct part give, keep;
    bool commutes; /* the operation */
};

/* Combine the items of the peer with those of this rank, which are in place. */
static void combine_part(struct ftk_coll *c, const struct halving *h, const struct round *r)
{
    size_t n = r->keep.hi - r->keep.lo;
    void *own = items(h, h->place, r->keep);
    ftk_step_recv(c, h->temp, (int)n, c->call.r.type, r->peer);
    ftk_step_fence(c);
    if (r->commutes || r->peer < c->vc->rank) {
        ftk_step_reduce(c, h->temp, own, n);
        return;
    }
    ftk_step_reduce(c, own, h->temp, n);
    ftk_coll_copy_same(c, h->temp, own, (int)n);
}

/* The first round.  The operand of this rank is not changed, unless it is in place. */
static void first_round(struct ftk_coll *c, const struct halving *h, const struct round *r)
{
    size_t n = r->keep.hi - r->keep.lo;
    const void *own = items(h, h->in, r->keep);
    void *place = items(h, h->place, r->keep);
    send_part(c, h, h->in, r->give, r->peer);
    if (own != place && (r->commutes || c->vc->rank < r->peer)) {
        recv_part(c, h, h->place, r->keep, r->peer); /* without a copy of the operand */
        ftk_step_fence(c);
        ftk_step_reduce(c, own, place, n);
        return;
    }
    ftk_coll_copy_same(c, own, place, (int)n);
    combine_part(c, h, r);
}

static void halve(struct ftk_coll *c, struct halving *h)
{
    int me = c->vc->rank;
    bool commutes = ftk_coll_commutes(c);
    for (int k = 0; k < h->rounds && !c->error; k++) {
        int peer = me ^ (1 << k);
        struct round r = { peer, half_of(h->part[k], peer & (1 << k)),
            half_of(h->part[k], me & (1 << k)), commutes };
        if (k == 0) {
            first_round(c, h, &r);
        } else {
            send_part(c, h, h->place, r.give, peer);
            combine_part(c, h, &r);
        }
        h->part[k + 1] = r.keep;
    }
}

static void begin_halving(struct ftk_coll *c, struct halving *h)
{
    const struct ftk_side *r = &c->call.r;
    *h = (struct halving){ .in = ftk_coll_input(&c->call),
        .temp = ftk_coll_room(c, r->type, (size_t)r->count / 2 + 1),
        .extent = ftk_coll_shape(c, r->type).extent };
    h->part[0] = (struct part){ 0, (size_t)r->count };
    while (1 << h->rounds < c->vc->size)
        h->rounds++;
}

void ftk_build_halving_allreduce(struct ftk_coll *c)
{
    struct halving h;
    begin_halving(c, &h);
    h.place = ftk_coll_at(c->call.r.buf, 0);
    halve(c, &h);
    for (int k = h.rounds; k-- > 0 && !c->error;) {
        int peer = c->vc->rank ^ (1 << k);
        recv_part(c, &h, h.place, half_of(h.part[k], peer & (1 << k)), peer);
        send_part(c, &h, h.place, h.part[k + 1], peer);
        ftk_step_fence(c);
    }
}

void ftk_build_halving_reduce(struct ftk_coll *c)
{
    struct halving h;
    int me = c->vc->rank, root = c->call.root;
    begin_halving(c, &h);
    struct part keep = half_of(h.part[0], me & 1);
    if (me == root) { /* other ranks need room for the items of their first round only */
        h.place = ftk_coll_at(c->call.r.buf, 0);
    } else {
        char *room = ftk_coll_room(c, c->call.r.type, keep.hi - keep.lo);
        h.place = ftk_coll_at(room, -(ptrdiff_t)keep.lo * h.extent);
    }
    halve(c, &h);
    for (int k = h.rounds; k-- > 0 && !c->error;) {
        int peer = me ^ (1 << k);
        if ((me ^ root) & (1 << k)) { /* the peer is nearer to the root */
            send_part(c, &h, h.place, h.part[k + 1], peer);
            return;
        }
        recv_part(c, &h, h.place, half_of(h.part[k], peer & (1 << k)), peer);
        ftk_step_fence(c);
    }
}
