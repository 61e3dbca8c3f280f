/* Collectives with a root, and the barrier.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Binomial trees for what is small: the ranks below a node follow each other, so that
 * nearly all messages stay inside a team.  Large broadcasts go in segments along the
 * tree, or along a chain when there are more segments than ranks (Pjesivac-Grbovic et
 * al., Performance Analysis of MPI Collective Operations, 2007). */
#include <limits.h>

#include "log/coll/build.h"

#define LARGE_BCAST (64 << 10) /* bytes from which on it is cut into segments ... */
#define SEGMENT (256 << 10)    /* of at least these many, */
#define SEGMENTS 128           /* these many at most */
#define SMALL_BLOCK 2048       /* blocks up to this are gathered by a tree */
#define WINDOW 256             /* messages that a root has under way at most */
#define GROUP (1 << 30)        /* bytes that are packed at once */

/* Dissemination (Hensgen, Finkel & Manber, IJPP 17(1), 1988) takes half the hops of a tree up and
 * down.  Its messages have no bytes, so their log entries are small. */
void ftk_build_barrier(struct ftk_coll *c)
{
    int n = c->vc->size, rank = c->vc->rank;
    for (int far = 1; far<n; far = far> n / 2 ? n : 2 * far) {
        ftk_step_signal(c, (rank + far) % n);
        ftk_step_await(c, (rank - far + n) % n);
        ftk_step_fence(c);
    }
}

/* ---- broadcast ----------------------------------------------------------------------- */

/* Items into bytes, or back. */
static void pack_all(
    struct ftk_coll *c, void *buf, int count, MPI_Datatype type, char *packed, bool unpack)
{
    struct ftk_shape s = ftk_coll_shape(c, type);
    int step = s.size > 0 && s.size < GROUP ? (int)(GROUP / s.size) : 1;
    for (int i = 0, n; i < count && !c->error; i += n) {
        n = count - i < step ? count - i : step;
        int bytes = (int)((size_t)n * s.size);
        void *at = ftk_coll_at(buf, (ptrdiff_t)i * s.extent);
        char *p = packed + (size_t)i * s.size;
        if (unpack)
            ftk_step_copy(c, p, bytes, MPI_PACKED, at, n, type);
        else
            ftk_step_copy(c, at, n, type, p, bytes, MPI_PACKED);
    }
}

/* A rank receives the next segment while it sends the segment before. */
static void pipeline(struct ftk_coll *c, char *data, size_t bytes, const struct ftk_tree *t)
{
    size_t seg = bytes / SEGMENTS > SEGMENT ? bytes / SEGMENTS : SEGMENT;
    if (c->vc->size == 2 && bytes <= INT_MAX)
        seg = bytes; /* no rank passes segments on */
    size_t n = (bytes + seg - 1) / seg;
    for (size_t k = 0; k <= n; k++) {
        size_t in = k * seg, out = in - seg;
        int in_bytes = (int)(k == n ? 0 : bytes - in < seg ? bytes - in : seg);
        int out_bytes = (int)(k == 0 ? 0 : bytes - out < seg ? bytes - out : seg);
        if (t->parent >= 0 && k < n)
            ftk_step_recv(c, data + in, in_bytes, MPI_PACKED, t->parent);
        for (int i = t->nkids - 1; i >= 0 && k > 0; i--)
            ftk_step_send(c, data + out, out_bytes, MPI_PACKED, t->kid[i]);
        ftk_step_fence(c);
    }
}

static void chain(const struct ftk_coll *c, int root, struct ftk_tree *t)
{
    int n = c->vc->size, me = c->vc->rank;
    t->at = (me - root + n) % n;
    t->parent = me == root ? -1 : (me - 1 + n) % n;
    t->nkids = (me + 1) % n == root ? 0 : 1;
    t->kid[0] = (me + 1) % n;
}

/* The segments are bytes, because other ranks may have other types with as many bytes. */
static void bcast_large(
    struct ftk_coll *c, void *buf, int count, const struct ftk_shape *s, int root)
{
    struct ftk_tree t;
    size_t bytes = (size_t)count * s->size;
    char *data = s->plain ? buf : ftk_coll_temp(c, bytes);
    if (c->error)
        return;
    if ((size_t)c->vc->size <= bytes / SEGMENT || c->vc->size == 2)
        chain(c, root, &t);
    else
        ftk_coll_tree(c->vc, root, &t);
    if (!s->plain && t.parent < 0)
        pack_all(c, buf, count, s->type, data, false);
    pipeline(c, data, bytes, &t);
    if (!s->plain && t.parent >= 0)
        pack_all(c, buf, count, s->type, data, true);
}

void ftk_build_bcast(struct ftk_coll *c, void *buf, int count, MPI_Datatype type, int root)
{
    if (count < 0)
        ftk_coll_fail(c, MPI_ERR_COUNT);
    if (count <= 0 || c->error)
        return;
    struct ftk_shape s = ftk_coll_shape(c, type);
    if (c->vc->size == 1 || s.size == 0 || c->error)
        return;
    if ((size_t)count * s.size >= LARGE_BCAST) {
        bcast_large(c, buf, count, &s, root);
        return;
    }
    struct ftk_tree t;
    ftk_coll_tree(c->vc, root, &t);
    if (t.parent >= 0)
        ftk_step_recv(c, buf, count, type, t.parent);
    ftk_step_fence(c);
    for (int i = t.nkids - 1; i >= 0; i--)
        ftk_step_send(c, buf, count, type, t.kid[i]);
}

void ftk_build_broadcast(struct ftk_coll *c)
{
    const struct ftk_side *r = &c->call.r;
    ftk_build_bcast(c, ftk_coll_at(r->buf, 0), r->count, r->type, c->call.root);
}

/* ---- gather -------------------------------------------------------------------------- */

/* too_long: bytes that come from each rank when there is less room for them, else 0. */
static void gather_linear(struct ftk_coll *c, size_t too_long)
{
    int n = c->vc->size, me = c->vc->rank, root = c->call.root;
    const struct ftk_side *s = &c->call.s, *r = &c->call.r;
    if (me != root) {
        ftk_step_send(c, s->buf, s->count, s->type, root);
        return;
    }
    void *nowhere = ftk_coll_temp(c, too_long);
    for (int i = 0; i < n && !c->error; i++) {
        struct ftk_block b = ftk_coll_block(c, r, i);
        if (i != me && too_long)
            ftk_step_recv(c, nowhere, (int)too_long, MPI_PACKED, i);
        else if (i != me)
            ftk_step_recv(c, b.at, b.count, b.type, i);
        else if (!ftk_in_place(s))
            ftk_step_copy(c, s->buf, s->count, s->type, b.at, b.count, b.type);
        if (i % WINDOW == WINDOW - 1)
            ftk_step_fence(c);
    }
}

/* The packed blocks of the ranks below this one, in the order of the tree. */
static void gather_tree(struct ftk_coll *c, size_t bytes)
{
    struct ftk_tree t;
    const struct ftk_side *s = &c->call.s, *r = &c->call.r;
    int root = c->call.root, n = c->vc->size;
    bool is_root = c->vc->rank == root;
    ftk_coll_tree(c->vc, root, &t);
    bool direct = is_root && root == 0 && ftk_coll_shape(c, r->type).plain
                  && bytes == ftk_coll_block_bytes(c, r);
    if (t.below == 1) {
        ftk_step_send(c, s->buf, s->count, s->type, t.parent);
        return;
    }
    char *base = direct ? ftk_coll_at(r->buf, 0) : ftk_coll_temp(c, (size_t)t.below * bytes);
    if (c->error)
        return;
    for (int i = 0; i < t.nkids; i++)
        ftk_step_recv(
            c, base + (bytes << i), (int)((size_t)t.size[i] * bytes), MPI_PACKED, t.kid[i]);
    if (!is_root)
        ftk_step_copy(c, s->buf, s->count, s->type, base, (int)bytes, MPI_PACKED);
    ftk_step_fence(c);
    if (!is_root)
        ftk_step_send(c, base, (int)((size_t)t.below * bytes), MPI_PACKED, t.parent);
    for (int j = 0; is_root && j < n; j++) {
        struct ftk_block b = ftk_coll_block(c, r, (j + root) % n);
        if (j == 0 && !ftk_in_place(s))
            ftk_step_copy(c, s->buf, s->count, s->type, b.at, b.count, b.type);
        else if (j > 0 && !direct)
            ftk_step_copy(
                c, base + (size_t)j * bytes, (int)bytes, MPI_PACKED, b.at, b.count, b.type);
    }
}

/* A root whose own block is longer than its buffer assumes that all blocks are, and receives what
 * the other ranks send. */
void ftk_build_gather(struct ftk_coll *c)
{
    const struct ftk_call *a = &c->call;
    bool is_root = c->vc->rank == a->root;
    size_t bytes = ftk_coll_block_bytes(c, is_root ? &a->r : &a->s);
    size_t own = is_root && !ftk_in_place(&a->s) ? ftk_coll_block_bytes(c, &a->s) : bytes;
    size_t comes = own > bytes ? own : bytes;
    if (comes > 0 && comes <= SMALL_BLOCK && c->vc->size > 2)
        gather_tree(c, comes);
    else if (comes > INT_MAX)
        ftk_coll_fail(c, MPI_ERR_COUNT);
    else
        gather_linear(c, comes > bytes ? comes : 0);
}

void ftk_build_gatherv(struct ftk_coll *c)
{
    gather_linear(c, 0);
}

/* ---- scatter ------------------------------------------------------------------------- */

static void scatter_linear(struct ftk_coll *c)
{
    int n = c->vc->size, me = c->vc->rank, root = c->call.root;
    const struct ftk_side *s = &c->call.s, *r = &c->call.r;
    if (me != root) {
        ftk_step_recv(c, ftk_coll_at(r->buf, 0), r->count, r->type, root);
        return;
    }
    for (int i = 0; i < n && !c->error; i++) {
        struct ftk_block b = ftk_coll_block(c, s, i);
        if (i != me)
            ftk_step_send(c, b.at, b.count, b.type, i);
        else if (!ftk_in_place(r))
            ftk_step_copy(c, b.at, b.count, b.type, ftk_coll_at(r->buf, 0), r->count, r->type);
        if (i % WINDOW == WINDOW - 1)
            ftk_step_fence(c);
    }
}

/* The packed blocks that this rank passes on, in the order of the tree. */
static char *scatter_take(struct ftk_coll *c, const struct ftk_tree *t, size_t bytes)
{
    const struct ftk_side *s = &c->call.s;
    int n = c->vc->size, root = c->call.root;
    bool is_root = t->parent < 0;
    if (is_root && root == 0 && ftk_coll_shape(c, s->type).plain)
        return ftk_coll_at(s->buf, 0);
    char *base = ftk_coll_temp(c, (size_t)t->below * bytes);
    if (c->error)
        return base;
    if (!is_root)
        ftk_step_recv(c, base, (int)((size_t)t->below * bytes), MPI_PACKED, t->parent);
    for (int j = 1; is_root && j < n; j++) {
        struct ftk_block b = ftk_coll_block(c, s, (j + root) % n);
        ftk_step_copy(c, b.at, b.count, b.type, base + (size_t)j * bytes, (int)bytes, MPI_PACKED);
    }
    ftk_step_fence(c);
    return base;
}

static void scatter_tree(struct ftk_coll *c, size_t bytes)
{
    struct ftk_tree t;
    const struct ftk_side *s = &c->call.s, *r = &c->call.r;
    void *mine = ftk_coll_at(r->buf, 0);
    ftk_coll_tree(c->vc, c->call.root, &t);
    if (t.below == 1) {
        ftk_step_recv(c, mine, r->count, r->type, t.parent);
        return;
    }
    char *base = scatter_take(c, &t, bytes);
    if (c->error)
        return;
    for (int i = t.nkids - 1; i >= 0; i--)
        ftk_step_send(
            c, base + (bytes << i), (int)((size_t)t.size[i] * bytes), MPI_PACKED, t.kid[i]);
    if (t.parent >= 0) {
        ftk_step_copy(c, base, (int)bytes, MPI_PACKED, mine, r->count, r->type);
    } else if (!ftk_in_place(r)) {
        struct ftk_block b = ftk_coll_block(c, s, c->call.root);
        ftk_step_copy(c, b.at, b.count, b.type, mine, r->count, r->type);
    }
}

void ftk_build_scatter(struct ftk_coll *c)
{
    const struct ftk_call *a = &c->call;
    size_t bytes = ftk_coll_block_bytes(c, c->vc->rank == a->root ? &a->s : &a->r);
    if (bytes > 0 && bytes <= SMALL_BLOCK && c->vc->size > 2)
        scatter_tree(c, bytes);
    else
        scatter_linear(c);
}

void ftk_build_scatterv(struct ftk_coll *c)
{
    scatter_linear(c);
}
