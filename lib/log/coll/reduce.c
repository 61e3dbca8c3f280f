/* Collectives that combine what the ranks have.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Long operands: recursive halving on a power of two of ranks (doubling.c); on other numbers of
 * ranks a ring, if the operation is commutative (Patarasuk and Yuan, Bandwidth Optimal All-reduce
 * Algorithms, 2009).  With the tree, the halving and the ring twice the data cross the border of a
 * team.
 *
 * An allreduce of short operands on few ranks: recursive doubling.  On many ranks each rank would
 * log a message for each doubling beyond its team, so there and for all else: up a binomial tree
 * over the ranks in order, to rank 0, and down again.  Every node has a run of ranks below it and
 * takes its children in order, so operands stay in order. */
#include <limits.h>

#include "log/coll/build.h"

#define LARGE (64 << 10)   /* bytes from which on each rank combines a part, */
#define SHARE (2 << 10)    /* of at least these many bytes */
#define LARGER (512 << 10) /* the same for a reduce, where one rank alone needs the result */
#define SMALL (4 << 10)    /* bytes up to which an allreduce on few ranks doubles the distance */
#define SERIAL (8 << 10)   /* bytes from which on children come one by one: less memory */

const void *ftk_coll_input(const struct ftk_call *a)
{
    return ftk_in_place(&a->s) ? a->r.buf : a->s.buf;
}

bool ftk_coll_commutes(struct ftk_coll *c)
{
    int yes = 0;
    int rc = PMPI_Op_commutative(c->call.op, &yes);
    if (rc != MPI_SUCCESS)
        ftk_coll_fail(c, rc);
    return yes != 0;
}

static size_t bytes_of(struct ftk_coll *c, size_t count)
{
    return count * ftk_coll_shape(c, c->call.r.type).size;
}

/* Whether the ranks share the work: each combines a part of the items. */
static bool is_shared(struct ftk_coll *c, size_t count)
{
    size_t n = (size_t)c->vc->size, bytes = bytes_of(c, count);
    return n > 1 && bytes >= LARGE && bytes / n >= SHARE && count >= n;
}

/* ---- the tree ------------------------------------------------------------------------ */

/* Combine the operands below this rank and send the result up; the last result goes into dest, if
 * that is given, and must not be where the operand is.  Returns the address of the result of this
 * rank. */
static const void *up(struct ftk_coll *c, const struct ftk_tree *t, int count, void *dest)
{
    MPI_Datatype type = c->call.r.type;
    const void *acc = ftk_coll_input(&c->call);
    void *from[32];
    bool serial = (size_t)count * ftk_coll_shape(c, type).size > SERIAL;
    for (int i = 0; i < t->nkids; i++) {
        if (dest && i == t->nkids - 1)
            from[i] = dest;
        else
            from[i] = serial && i >= 2 ? from[i - 2] : ftk_coll_room(c, type, (size_t)count);
        ftk_step_recv(c, from[i], count, type, t->kid[i]);
        if (!serial)
            continue;
        ftk_step_fence(c);
        ftk_step_reduce(c, acc, from[i], (size_t)count); /* acc: lower ranks */
        acc = from[i];
    }
    ftk_step_fence(c);
    for (int i = 0; i < t->nkids && !serial; i++) {
        ftk_step_reduce(c, acc, from[i], (size_t)count);
        acc = from[i];
    }
    if (t->parent >= 0)
        ftk_step_send(c, acc, count, type, t->parent);
    return acc;
}

void ftk_coll_copy_same(struct ftk_coll *c, const void *from, void *into, int count)
{
    if (from != into)
        ftk_step_copy(c, from, count, c->call.r.type, into, count, c->call.r.type);
}

/* ---- the ring ------------------------------------------------------------------------ */

/* Items of rank i: off[i] .. off[i + 1] - 1. */
static size_t *equal_shares(struct ftk_coll *c, size_t count)
{
    size_t n = (size_t)c->vc->size;
    size_t *off = ftk_coll_temp(c, (n + 1) * sizeof *off);
    for (size_t i = 0; off && i <= n; i++)
        off[i] = count / n * i + (i < count % n ? i : count % n);
    return off;
}

static void *item(struct ftk_coll *c, const void *buf, size_t i)
{
    return ftk_coll_at(buf, (ptrdiff_t)i * ftk_coll_shape(c, c->call.r.type).extent);
}

/* The share of this rank, combined; into dest, or else into memory of the schedule. */
static void *ring(struct ftk_coll *c, const size_t *off, void *dest)
{
    int n = c->vc->size, me = c->vc->rank, left = (me + n - 1) % n, right = (me + 1) % n;
    const void *in = ftk_coll_input(&c->call), *out = item(c, in, off[left]);
    MPI_Datatype type = c->call.r.type;
    size_t most = 0;
    for (int i = 0; i < n; i++)
        most = off[i + 1] - off[i] > most ? off[i + 1] - off[i] : most;
    void *temp[2] = { ftk_coll_room(c, type, most), ftk_coll_room(c, type, most) }, *to = NULL;
    for (int s = 0; s < n - 1 && !c->error; s++) {
        int give = (me + 2 * n - 1 - s) % n, take = (me + 2 * n - 2 - s) % n;
        size_t ngive = off[give + 1] - off[give], ntake = off[take + 1] - off[take];
        to = s == n - 2 && dest ? dest : temp[s % 2];
        ftk_step_recv(c, to, (int)ntake, type, left);
        ftk_step_send(c, out, (int)ngive, type, right);
        ftk_step_fence(c);
        ftk_step_reduce(c, item(c, in, off[take]), to, ntake);
        out = to;
    }
    return to;
}

/* Each rank gets every share. */
static void ring_spread(struct ftk_coll *c, const size_t *off, void *buf)
{
    int n = c->vc->size, me = c->vc->rank, left = (me + n - 1) % n, right = (me + 1) % n;
    for (int s = 0; s < n - 1; s++) {
        int give = (me + n - s) % n, take = (me + 2 * n - 1 - s) % n;
        ftk_step_recv(
            c, item(c, buf, off[take]), (int)(off[take + 1] - off[take]), c->call.r.type, left);
        ftk_step_send(
            c, item(c, buf, off[give]), (int)(off[give + 1] - off[give]), c->call.r.type, right);
        ftk_step_fence(c);
    }
}

/* ---- reduce -------------------------------------------------------------------------- */

static void reduce_ring(struct ftk_coll *c, int count)
{
    const struct ftk_call *a = &c->call;
    int me = c->vc->rank, root = a->root;
    size_t *off = equal_shares(c, (size_t)count);
    if (!off)
        return;
    size_t mine = off[me + 1] - off[me];
    void *place = me == root ? item(c, a->r.buf, off[me]) : NULL;
    void *got = ring(c, off, me == root && !ftk_in_place(&a->s) ? place : NULL);
    if (me != root) {
        ftk_step_send(c, got, (int)mine, a->r.type, root);
        return;
    }
    ftk_coll_copy_same(c, got, place, (int)mine);
    for (int i = 0; i < c->vc->size; i++)
        if (i != me)
            ftk_step_recv(c, item(c, a->r.buf, off[i]), (int)(off[i + 1] - off[i]), a->r.type, i);
}

void ftk_build_reduce(struct ftk_coll *c)
{
    const struct ftk_call *a = &c->call;
    int me = c->vc->rank, count = a->r.count;
    struct ftk_tree t;
    bool shared =
        c->vc->size > 2 && bytes_of(c, (size_t)count) >= LARGER && is_shared(c, (size_t)count);
    if (shared && ftk_is_power_of_two(c->vc->size)) {
        ftk_build_halving_reduce(c);
        return;
    }
    if (shared && ftk_coll_commutes(c)) {
        reduce_ring(c, count);
        return;
    }
    if (count == 0 || c->error)
        return;
    void *place = me == a->root ? ftk_coll_at(a->r.buf, 0) : NULL;
    ftk_coll_tree(c->vc, 0, &t);
    const void *got = up(c, &t, count, me == 0 && !ftk_in_place(&a->s) ? place : NULL);
    if (me == 0 && a->root == 0) {
        ftk_coll_copy_same(c, got, place, count);
    } else if (me == 0) {
        ftk_step_send(c, got, count, a->r.type, a->root);
    } else if (me == a->root) {
        if (got == place) /* is being sent */
            ftk_step_fence(c);
        ftk_step_recv(c, place, count, a->r.type, 0);
    }
}

static void allreduce_ring(struct ftk_coll *c, size_t count)
{
    const struct ftk_call *a = &c->call;
    int me = c->vc->rank;
    size_t *off = equal_shares(c, count);
    if (!off)
        return;
    void *place = ftk_coll_at(a->r.buf, 0), *mine = item(c, place, off[me]);
    const void *got = ring(c, off, ftk_in_place(&a->s) ? NULL : mine);
    ftk_coll_copy_same(c, got, mine, (int)(off[me + 1] - off[me]));
    ring_spread(c, off, place);
}

void ftk_build_allreduce(struct ftk_coll *c)
{
    const struct ftk_call *a = &c->call;
    int me = c->vc->rank, count = a->r.count;
    bool in_place = ftk_in_place(&a->s);
    void *place = ftk_coll_at(a->r.buf, 0);
    struct ftk_tree t;
    bool shared = is_shared(c, (size_t)count);
    if (shared && ftk_is_power_of_two(c->vc->size)) {
        ftk_build_halving_allreduce(c);
        return;
    }
    if (shared && ftk_coll_commutes(c)) {
        allreduce_ring(c, (size_t)count);
        return;
    }
    if (count == 0 || c->error)
        return;
    if (c->vc->size <= FTK_FEW_RANKS && bytes_of(c, (size_t)count) <= SMALL) {
        ftk_build_doubling_allreduce(c);
        return;
    }
    ftk_coll_tree(c->vc, 0, &t);
    const void *got = up(c, &t, count, me == 0 && !in_place ? place : NULL);
    if (me == 0)
        ftk_coll_copy_same(c, got, place, count);
    else if (got == place)
        ftk_step_fence(c); /* is being sent */
    ftk_build_bcast(c, place, count, a->r.type, 0);
}

/* ---- reduce-scatter ------------------------------------------------------------------ */

static size_t *given_shares(struct ftk_coll *c)
{
    const struct ftk_side *r = &c->call.r;
    size_t n = (size_t)c->vc->size;
    size_t *off = ftk_coll_temp(c, (n + 1) * sizeof *off);
    if (!off)
        return NULL;
    off[0] = 0;
    for (size_t i = 0; i < n; i++) {
        int count = r->counts ? r->counts[i] : r->count;
        if (count < 0)
            ftk_coll_fail(c, MPI_ERR_COUNT);
        off[i + 1] = off[i] + (size_t)(count < 0 ? 0 : count);
    }
    return off;
}

void ftk_build_reduce_scatter(struct ftk_coll *c)
{
    const struct ftk_call *a = &c->call;
    int n = c->vc->size, me = c->vc->rank;
    const size_t *off = given_shares(c);
    struct ftk_tree t;
    if (!off || c->error || off[n] == 0)
        return;
    int mine = (int)(off[me + 1] - off[me]);
    void *place = ftk_coll_at(a->r.buf, 0);
    if (is_shared(c, off[n]) && ftk_coll_commutes(c)) {
        const void *got = ring(c, off, ftk_in_place(&a->s) ? NULL : place);
        ftk_coll_copy_same(c, got, place, mine);
        return;
    }
    if (off[n] > INT_MAX) {
        ftk_coll_fail(c, MPI_ERR_COUNT);
        return;
    }
    ftk_coll_tree(c->vc, 0, &t);
    const void *got = up(c, &t, (int)off[n], NULL);
    if (me > 0) {
        if (got == place)
            ftk_step_fence(c);
        ftk_step_recv(c, place, mine, a->r.type, 0);
        return;
    }
    for (int i = 1; i < n; i++)
        ftk_step_send(c, item(c, got, off[i]), (int)(off[i + 1] - off[i]), a->r.type, i);
    if (got == place)
        ftk_step_fence(c);
    ftk_coll_copy_same(c, got, place, mine);
}

/* ---- scans ------------------------------------------------------------------------------
 * Hillis and Steele, Data Parallel Algorithms, 1986: after round k a rank has combined
 * the 2^k operands up to its own; what comes in is of lower ranks. */

/* Over the ranks from lowest on; acc holds the operand of this one. */
static void scan_up(struct ftk_coll *c, void *acc, int lowest)
{
    int n = c->vc->size, me = c->vc->rank, count = c->call.r.count;
    MPI_Datatype type = c->call.r.type;
    void *temp = ftk_coll_room(c, type, (size_t)count);
    for (int64_t d = 1; d < n - lowest && me >= lowest && !c->error; d <<= 1) {
        if (me - d >= lowest)
            ftk_step_recv(c, temp, count, type, (int)(me - d));
        if (me + d < n)
            ftk_step_send(c, acc, count, type, (int)(me + d));
        ftk_step_fence(c);
        if (me - d >= lowest)
            ftk_step_reduce(c, temp, acc, (size_t)count);
    }
}

void ftk_build_scan(struct ftk_coll *c)
{
    const struct ftk_call *a = &c->call;
    void *place = ftk_coll_at(a->r.buf, 0);
    ftk_coll_copy_same(c, ftk_coll_input(a), place, a->r.count);
    scan_up(c, place, 0);
}

/* First the operands move up by one rank. */
void ftk_build_exscan(struct ftk_coll *c)
{
    const struct ftk_call *a = &c->call;
    int n = c->vc->size, me = c->vc->rank, count = a->r.count;
    void *place = ftk_coll_at(a->r.buf, 0), *to = place;
    if (ftk_in_place(&a->s))
        to = ftk_coll_room(c, a->r.type, (size_t)count);
    if (c->error)
        return;
    if (me > 0)
        ftk_step_recv(c, to, count, a->r.type, me - 1);
    if (me + 1 < n)
        ftk_step_send(c, ftk_coll_input(a), count, a->r.type, me + 1);
    ftk_step_fence(c);
    if (me > 0)
        ftk_coll_copy_same(c, to, place, count);
    scan_up(c, place, 1);
}
