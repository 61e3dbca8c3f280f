/* Collectives in which every rank has something for every other.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>

#include "log/coll/build.h"

#define LARGE (64 << 10) /* bytes of all from which on they go round a ring, */
#define SHARE 1024       /* with at least these many per rank on the average; */
#define LARGER (2 << 20) /* the same where ranks double the distance */
#define WINDOW 32        /* pairs of ranks that exchange at once */

/* ---- allgather ----------------------------------------------------------------------- */

size_t *ftk_coll_offsets(struct ftk_coll *c, int nblocks)
{
    size_t *off = ftk_coll_temp(c, ((size_t)nblocks + 1) * sizeof *off);
    if (!off)
        return NULL;
    off[0] = 0;
    for (int i = 0; i < nblocks; i++)
        off[i + 1] = off[i] + ftk_coll_block(c, &c->call.r, i).bytes;
    return off;
}

static void own_block(struct ftk_coll *c)
{
    const struct ftk_side *s = &c->call.s;
    struct ftk_block b = ftk_coll_block(c, &c->call.r, c->vc->rank);
    if (!ftk_in_place(s))
        ftk_step_copy(c, s->buf, s->count, s->type, b.at, b.count, b.type);
}

/* Send the own block as it is in the program's buffer, and copy it into the receive buffer
 * meanwhile. */
static void send_own(struct ftk_coll *c, int to)
{
    const struct ftk_side *s = &c->call.s;
    struct ftk_block b = ftk_coll_block(c, &c->call.r, c->vc->rank);
    if (ftk_in_place(s))
        ftk_step_send(c, b.at, b.count, b.type, to);
    else
        ftk_step_send(c, s->buf, s->count, s->type, to);
    own_block(c);
}

static void allgather_ring(struct ftk_coll *c)
{
    int n = c->vc->size, me = c->vc->rank, left = (me + n - 1) % n, right = (me + 1) % n;
    for (int k = 0; k < n - 1 && !c->error; k++) {
        struct ftk_block in = ftk_coll_block(c, &c->call.r, (me + 2 * n - 1 - k) % n);
        struct ftk_block out = ftk_coll_block(c, &c->call.r, (me + n - k) % n);
        ftk_step_recv(c, in.at, in.count, in.type, left);
        if (k == 0)
            send_own(c, right);
        else
            ftk_step_send(c, out.at, out.count, out.type, right);
        ftk_step_fence(c);
    }
}

bool ftk_coll_is_packed(struct ftk_coll *c, const size_t *off, int nblocks)
{
    const struct ftk_side *r = &c->call.r;
    struct ftk_shape s = ftk_coll_shape(c, r->type);
    for (int i = 0; r->displs && s.plain && i < nblocks; i++)
        if (r->displs[i] < 0 || (size_t)r->displs[i] * s.size != off[i])
            return false;
    return s.plain;
}

/* The blocks of all ranks, packed. */
struct packed {
    char *all;   /* the receive buffer itself, or a temporary */
    bool direct; /* the receive buffer itself */
    const size_t *off;
};

/* false: an error. */
static bool packed_blocks(struct ftk_coll *c, const size_t *off, struct packed *p)
{
    int n = c->vc->size;
    p->off = off;
    p->direct = ftk_coll_is_packed(c, off, n);
    p->all = p->direct ? ftk_coll_at(c->call.r.buf, 0) : ftk_coll_temp(c, off[n]);
    return !c->error;
}

/* Copy the own block from the receive buffer into a temporary. */
static void pack_own(struct ftk_coll *c, const struct packed *p)
{
    int me = c->vc->rank;
    struct ftk_block b = ftk_coll_block(c, &c->call.r, me);
    if (!p->direct)
        ftk_step_copy(c, b.at, b.count, b.type, p->all + p->off[me], (int)b.bytes, MPI_PACKED);
}

/* Copy the blocks of the other ranks from a temporary into the receive buffer. */
static void unpack_blocks(struct ftk_coll *c, const struct packed *p)
{
    for (int i = 0; i < c->vc->size && !p->direct && !c->error; i++) {
        struct ftk_block b = ftk_coll_block(c, &c->call.r, i);
        if (i != c->vc->rank)
            ftk_step_copy(c, p->all + p->off[i], (int)b.bytes, MPI_PACKED, b.at, b.count, b.type);
    }
}

/* Receive or send the packed blocks of the ranks first .. first + n - 1. */
static void recv_blocks(struct ftk_coll *c, const struct packed *p, int first, int n, int from)
{
    size_t bytes = p->off[first + n] - p->off[first];
    ftk_step_recv(c, p->all + p->off[first], (int)bytes, MPI_PACKED, from);
}

static void send_blocks(struct ftk_coll *c, const struct packed *p, int first, int n, int to)
{
    size_t bytes = p->off[first + n] - p->off[first];
    ftk_step_send(c, p->all + p->off[first], (int)bytes, MPI_PACKED, to);
}

/* Up a tree to rank 0 and down again, packed. */
static void allgather_tree(struct ftk_coll *c, const size_t *off)
{
    int n = c->vc->size, me = c->vc->rank;
    struct ftk_tree t;
    struct packed p;
    ftk_coll_tree(c->vc, 0, &t);
    if (!packed_blocks(c, off, &p))
        return;
    for (int i = 0; i < t.nkids; i++)
        recv_blocks(c, &p, t.kid[i], t.size[i], t.kid[i]);
    own_block(c);
    pack_own(c, &p);
    ftk_step_fence(c);
    if (t.parent >= 0)
        send_blocks(c, &p, me, t.below, t.parent);
    ftk_step_fence(c); /* what is sent is received, too */
    ftk_build_bcast(c, p.all, (int)off[n], MPI_PACKED, 0);
    ftk_step_fence(c);
    unpack_blocks(c, &p);
}

/* Recursive doubling (Thakur, Rabenseifner and Gropp, Optimization of Collective Communication
 * Operations in MPICH, 2005): in each round two ranks exchange the blocks that they have.  The
 * number of ranks is a power of two. */
static void allgather_doubling(struct ftk_coll *c, const size_t *off)
{
    int n = c->vc->size, me = c->vc->rank;
    struct packed p;
    if (!packed_blocks(c, off, &p))
        return;
    for (int far = 1; far < n && !c->error; far *= 2) {
        int peer = me ^ far;
        recv_blocks(c, &p, peer & ~(far - 1), far, peer);
        if (far == 1) {
            send_own(c, peer);
            pack_own(c, &p);
        } else {
            send_blocks(c, &p, me & ~(far - 1), far, peer);
        }
        ftk_step_fence(c);
    }
    unpack_blocks(c, &p);
}

void ftk_build_allgather(struct ftk_coll *c)
{
    size_t n = (size_t)c->vc->size;
    const size_t *off = ftk_coll_offsets(c, c->vc->size);
    if (!off || c->error)
        return;
    bool doubles = ftk_is_power_of_two((int)n);
    size_t large = doubles && n <= FTK_FEW_RANKS ? LARGER : LARGE;
    if (off[n] > INT_MAX || (off[n] >= large && off[n] / n >= SHARE))
        allgather_ring(c);
    else if (n == 1)
        own_block(c);
    else if (doubles)
        allgather_doubling(c, off);
    else if (off[n] > 0)
        allgather_tree(c, off);
}

/* ---- alltoall ------------------------------------------------------------------------ */

/* A call in which this rank sends longer blocks than it has room to receive: the bytes of a block,
 * which is the length that blocks from other ranks are assumed to have; else 0. */
static size_t longer(struct ftk_coll *c)
{
    const struct ftk_side *s = &c->call.s, *r = &c->call.r;
    if (s->counts || s->types || r->counts || r->types)
        return 0;
    size_t out = ftk_coll_block_bytes(c, s), in = ftk_coll_block_bytes(c, r);
    return out > in && out <= INT_MAX ? out : 0;
}

/* In round k two ranks whose sum is k (modulo the number of ranks) exchange.  A window of rounds is
 * under way at once.  With MPI_IN_PLACE a block is copied before the received block replaces it. */
void ftk_build_alltoall(struct ftk_coll *c)
{
    int n = c->vc->size, me = c->vc->rank;
    const struct ftk_side *s = &c->call.s, *r = &c->call.r;
    bool in_place = ftk_in_place(s);
    size_t too_long = in_place ? 0 : longer(c);
    void *nowhere = ftk_coll_temp(c, too_long);
    for (int k = 0; k < n && !c->error; k++) {
        int peer = (k - me + n) % n;
        struct ftk_block in = ftk_coll_block(c, r, peer);
        struct ftk_block out = in_place ? in : ftk_coll_block(c, s, peer);
        if (peer == me && !in_place) {
            ftk_step_copy(c, out.at, out.count, out.type, in.at, in.count, in.type);
        } else if (peer != me) {
            if (in_place && in.bytes > 0) {
                out.at = ftk_coll_room(c, in.type, (size_t)in.count);
                ftk_step_copy(c, in.at, in.count, in.type, out.at, in.count, in.type);
            }
            if (too_long) /* for the room here: taken in all the same */
                ftk_step_recv(c, nowhere, (int)too_long, MPI_PACKED, peer);
            else
                ftk_step_recv(c, in.at, in.count, in.type, peer);
            ftk_step_send(c, out.at, out.count, out.type, peer);
        }
        if (k % WINDOW == WINDOW - 1)
            ftk_step_fence(c);
    }
}
