/* Collectives on intercommunicators (MPI-4.0, 6.2.3).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Where one message can serve a group, rank 0 of the group sends it: the combined operands of a
 * group go from its rank 0 to rank 0 of the other group, and from there by the schedules of
 * intracommunicators.  While such a schedule is built, c->vc is the local group, and the program's
 * arguments are replaced. */
#include <limits.h>

#include "log/coll/build.h"
#include "log/vcomm/inter.h"

#define WINDOW 256 /* messages that a process has under way at most; of pairs ... */
#define PAIRS 32   /* ... these many */

/* The number in a step of rank r of the remote group. */
static int far(const struct ftk_coll *c, int r)
{
    return c->vc->size + r;
}

static void *place(const struct ftk_side *s)
{
    return ftk_coll_at(s->buf, 0);
}

/* ---- arguments ----------------------------------------------------------------------- */

static bool has_root(enum ftk_coll_kind kind)
{
    return kind == FTK_BCAST || kind == FTK_GATHER || kind == FTK_GATHERV || kind == FTK_SCATTER
           || kind == FTK_SCATTERV || kind == FTK_REDUCE;
}

static bool is_root(const struct ftk_coll *c)
{
    return c->call.root == MPI_ROOT;
}

/* Which sides a process of a call with a root has: the root has one, the ranks of the
 * other group have the other. */
static bool sends(const struct ftk_call *a)
{
    bool from_root = a->kind == FTK_SCATTER || a->kind == FTK_SCATTERV;
    if (a->kind == FTK_BARRIER || a->kind == FTK_BCAST)
        return false;
    return !has_root(a->kind) || (a->root == MPI_ROOT) == from_root;
}

static bool receives(const struct ftk_call *a)
{
    bool to_root = a->kind == FTK_GATHER || a->kind == FTK_GATHERV || a->kind == FTK_REDUCE;
    if (a->kind == FTK_BARRIER)
        return false;
    return a->kind == FTK_BCAST || !has_root(a->kind) || (a->root == MPI_ROOT) == to_root;
}

static void check(struct ftk_coll *c)
{
    const struct ftk_call *a = &c->call;
    if (a->kind == FTK_SCAN || a->kind == FTK_EXSCAN || a->kind == FTK_NEIGHBOR_ALLGATHER
        || a->kind == FTK_NEIGHBOR_ALLTOALL)
        ftk_coll_fail(c, MPI_ERR_COMM);
    if (has_root(a->kind) && a->root != MPI_ROOT && a->root != MPI_PROC_NULL
        && (a->root < 0 || a->root >= c->vc->remote->size))
        ftk_coll_fail(c, MPI_ERR_ROOT);
    if (has_root(a->kind) && a->root == MPI_PROC_NULL)
        return; /* nothing else counts */
    if ((sends(a) && ftk_in_place(&a->s)) || (receives(a) && ftk_in_place(&a->r)))
        ftk_coll_fail(c, MPI_ERR_ARG);
    if (!ftk_coll_reduces(c))
        return;
    if (a->op == MPI_OP_NULL)
        ftk_coll_fail(c, MPI_ERR_OP);
    if (!a->r.counts && a->r.count < 0)
        ftk_coll_fail(c, MPI_ERR_COUNT);
    if (a->r.type == MPI_DATATYPE_NULL)
        ftk_coll_fail(c, MPI_ERR_TYPE);
}

/* ---- both groups as one -------------------------------------------------------------- */

/* A schedule of an intracommunicator that has the ranks of both groups, in the order of
 * ftk_vcomm_nth(). */
static void together(struct ftk_coll *c, void (*build)(struct ftk_coll *))
{
    struct ftk_vcomm *vc = c->vc;
    struct ftk_vcomm both = { .size = ftk_vcomm_members(vc), .rank = ftk_vcomm_place(vc) };
    int before = vc->remote->first ? vc->remote->size : 0;
    c->vc = &both;
    build(c);
    c->vc = vc;
    for (size_t i = 0; i < c->nsteps; i++) {
        struct ftk_step *s = &c->steps[i];
        if (s->kind != FTK_STEP_SEND && s->kind != FTK_STEP_RECV)
            continue;
        s->peer = s->peer < before ? far(c, s->peer) : s->peer - before;
    }
}

/* ---- with a root --------------------------------------------------------------------- */

static void broadcast(struct ftk_coll *c)
{
    const struct ftk_side *r = &c->call.r;
    if (is_root(c)) {
        ftk_step_send(c, r->buf, r->count, r->type, far(c, 0));
        return;
    }
    if (c->vc->rank == 0)
        ftk_step_recv(c, place(r), r->count, r->type, far(c, c->call.root));
    ftk_step_fence(c);
    ftk_build_bcast(c, place(r), r->count, r->type, 0);
}

static void gather(struct ftk_coll *c)
{
    const struct ftk_side *s = &c->call.s;
    if (!is_root(c)) {
        ftk_step_send(c, s->buf, s->count, s->type, far(c, c->call.root));
        return;
    }
    for (int i = 0; i < c->vc->remote->size && !c->error; i++) {
        struct ftk_block b = ftk_coll_block(c, &c->call.r, i);
        ftk_step_recv(c, b.at, b.count, b.type, far(c, i));
        if (i % WINDOW == WINDOW - 1)
            ftk_step_fence(c);
    }
}

static void scatter(struct ftk_coll *c)
{
    const struct ftk_side *r = &c->call.r;
    if (!is_root(c)) {
        ftk_step_recv(c, place(r), r->count, r->type, far(c, c->call.root));
        return;
    }
    for (int i = 0; i < c->vc->remote->size && !c->error; i++) {
        struct ftk_block b = ftk_coll_block(c, &c->call.s, i);
        ftk_step_send(c, b.at, b.count, b.type, far(c, i));
        if (i % WINDOW == WINDOW - 1)
            ftk_step_fence(c);
    }
}

/* ---- reductions ---------------------------------------------------------------------- */

/* Combine the operands of the local group; the result on rank 0, NULL on other ranks. */
static void *combined(struct ftk_coll *c, int count)
{
    struct ftk_call call = c->call;
    void *all = c->vc->rank == 0 ? ftk_coll_room(c, call.r.type, (size_t)count) : NULL;
    if (c->error)
        return NULL;
    c->call.root = 0;
    c->call.r = (struct ftk_side){ .buf = all, .count = count, .type = call.r.type };
    ftk_build_reduce(c);
    ftk_step_fence(c);
    c->call = call;
    return all;
}

static void reduce(struct ftk_coll *c)
{
    const struct ftk_side *r = &c->call.r;
    if (is_root(c)) {
        ftk_step_recv(c, place(r), r->count, r->type, far(c, 0));
        return;
    }
    const void *all = combined(c, r->count);
    if (c->vc->rank == 0)
        ftk_step_send(c, all, r->count, r->type, far(c, c->call.root));
}

/* The ranks 0 of both groups exchange the results of their groups. */
static void swap(struct ftk_coll *c, const void *ours, void *theirs, int count)
{
    if (c->vc->rank == 0) {
        ftk_step_recv(c, theirs, count, c->call.r.type, far(c, 0));
        ftk_step_send(c, ours, count, c->call.r.type, far(c, 0));
    }
    ftk_step_fence(c);
}

static void allreduce(struct ftk_coll *c)
{
    const struct ftk_side *r = &c->call.r;
    const void *ours = combined(c, r->count);
    swap(c, ours, place(r), r->count);
    ftk_build_bcast(c, place(r), r->count, r->type, 0);
}

/* The counts are of the local group; their sum is the same in both groups. */
static void reduce_scatter(struct ftk_coll *c)
{
    const struct ftk_side *r = &c->call.r;
    MPI_Datatype type = r->type;
    int n = c->vc->size, me = c->vc->rank;
    int64_t sum = 0, at = 0;
    for (int i = 0; i < n; i++) {
        int count = r->counts ? r->counts[i] : r->count;
        if (count < 0 || sum + count > INT_MAX)
            ftk_coll_fail(c, MPI_ERR_COUNT);
        sum += count;
    }
    if (c->error || sum == 0)
        return;
    const void *ours = combined(c, (int)sum);
    char *theirs = me == 0 ? ftk_coll_room(c, type, (size_t)sum) : NULL;
    if (c->error)
        return;
    swap(c, ours, theirs, (int)sum);
    for (int i = 0; me == 0 && i < n; i++) {
        int count = r->counts ? r->counts[i] : r->count;
        const void *from = ftk_coll_at(theirs, (ptrdiff_t)at * ftk_coll_shape(c, type).extent);
        if (i == 0)
            ftk_step_copy(c, from, count, type, place(r), count, type);
        else
            ftk_step_send(c, from, count, type, i);
        at += count;
    }
    if (me > 0)
        ftk_step_recv(c, place(r), r->counts ? r->counts[me] : r->count, type, 0);
}

/* ---- from all ranks to all ranks of the other group ---------------------------------- */

/* All ranks of the local group get the blocks that rank 0 has, packed if they fit into
 * one message. */
static void spread(struct ftk_coll *c, const size_t *off, int nblocks)
{
    const struct ftk_side *r = &c->call.r;
    bool direct = ftk_coll_is_packed(c, off, nblocks), leads = c->vc->rank == 0;
    if (off[nblocks] > INT_MAX) {
        for (int i = 0; i < nblocks && !c->error; i++) {
            struct ftk_block b = ftk_coll_block(c, r, i);
            ftk_build_bcast(c, b.at, b.count, b.type, 0);
        }
        return;
    }
    char *all = direct ? place(r) : ftk_coll_temp(c, off[nblocks]);
    for (int pass = 0; pass < 2 && !c->error; pass++) {
        for (int i = 0; i < nblocks && !direct && leads == (pass == 0) && !c->error; i++) {
            struct ftk_block b = ftk_coll_block(c, r, i);
            if (leads)
                ftk_step_copy(c, b.at, b.count, b.type, all + off[i], (int)b.bytes, MPI_PACKED);
            else
                ftk_step_copy(c, all + off[i], (int)b.bytes, MPI_PACKED, b.at, b.count, b.type);
        }
        if (pass == 0)
            ftk_build_bcast(c, all, (int)off[nblocks], MPI_PACKED, 0);
        ftk_step_fence(c);
    }
}

static void allgather(struct ftk_coll *c)
{
    const struct ftk_side *s = &c->call.s;
    int nblocks = c->vc->remote->size;
    const size_t *off = ftk_coll_offsets(c, nblocks);
    if (!off)
        return;
    ftk_step_send(c, s->buf, s->count, s->type, far(c, 0));
    for (int i = 0; c->vc->rank == 0 && i < nblocks && !c->error; i++) {
        struct ftk_block b = ftk_coll_block(c, &c->call.r, i);
        ftk_step_recv(c, b.at, b.count, b.type, far(c, i));
        if (i % WINDOW == WINDOW - 1)
            ftk_step_fence(c);
    }
    ftk_step_fence(c);
    if (c->vc->size > 1)
        spread(c, off, nblocks);
}

/* In round k two ranks whose sum is k (modulo the size of the larger group) exchange. */
static void alltoall(struct ftk_coll *c)
{
    int there = c->vc->remote->size, me = c->vc->rank;
    int rounds = there > c->vc->size ? there : c->vc->size;
    for (int k = 0; k < rounds && !c->error; k++) {
        int peer = (k - me + rounds) % rounds;
        if (peer < there) {
            struct ftk_block in = ftk_coll_block(c, &c->call.r, peer);
            struct ftk_block out = ftk_coll_block(c, &c->call.s, peer);
            ftk_step_recv(c, in.at, in.count, in.type, far(c, peer));
            ftk_step_send(c, out.at, out.count, out.type, far(c, peer));
        }
        if (k % PAIRS == PAIRS - 1)
            ftk_step_fence(c);
    }
}

/* ---- all of them --------------------------------------------------------------------- */

void ftk_build_inter(struct ftk_coll *c)
{
    check(c);
    if (c->error)
        return;
    if (has_root(c->call.kind) && c->call.root == MPI_PROC_NULL) {
        c->call = (struct ftk_call){ .kind = FTK_BARRIER }; /* without an operation */
        return;
    }
    switch (c->call.kind) {
    case FTK_BARRIER:
        together(c, ftk_build_barrier);
        break;
    case FTK_EXCHANGE:
        together(c, ftk_build_allgather);
        break;
    case FTK_BCAST:
        broadcast(c);
        break;
    case FTK_GATHER:
    case FTK_GATHERV:
        gather(c);
        break;
    case FTK_SCATTER:
    case FTK_SCATTERV:
        scatter(c);
        break;
    case FTK_REDUCE:
        reduce(c);
        break;
    case FTK_ALLREDUCE:
        allreduce(c);
        break;
    case FTK_REDUCE_SCATTER:
        reduce_scatter(c);
        break;
    case FTK_ALLGATHER:
        allgather(c);
        break;
    case FTK_ALLTOALL:
        alltoall(c);
        break;
    default:
        ftk_coll_fail(c, MPI_ERR_COMM);
        break; /* check() has found it */
    }
}
