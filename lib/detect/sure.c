/* Collectives that prove their result (see sure.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "proof.h"
#include "sure.h"

/* One call: the buffers out and in have the blocks with their seals. */
struct call {
    const struct ftk_sure *s;
    enum ftk_proof_kind kind;
    int me, n, root;
    char *out, *in;
    size_t out_bytes, in_bytes;
    int *to, *to_at, *from, *from_at; /* [n] lengths and offsets, if the blocks differ in length */
    MPI_Datatype type;                /* of a reduction */
    MPI_Op op;
    struct kept *room; /* to keep the buffers */
};

/* ---- buffers that are kept ----------------------------------------------------------- */

static struct kept {
    struct kept *next;
    bool old;
    void *v[3];
} * kept;

static void keep(struct call *c)
{
    *c->room = (struct kept){ .next = kept, .v = { c->out, c->in, c->to } };
    kept = c->room;
}

void ftk_sure_close(void)
{
    for (struct kept **at = &kept; *at;) {
        struct kept *k = *at;
        if (!k->old) {
            k->old = true;
            at = &k->next;
            continue;
        }
        *at = k->next;
        for (int i = 0; i < 3; i++)
            free(k->v[i]);
        free(k);
    }
}

/* ---- one call ------------------------------------------------------------------------ */

static int fail(const struct call *c, int mpi_rc)
{
    return c->s->ch ? ftk_chan_break(c->s->ch, mpi_rc, c->s->what)
                    : ftk_fail_mpi(mpi_rc, c->s->what);
}

static int begin_call(struct call *c, enum ftk_proof_kind kind, const struct ftk_sure *s)
{
    *c = (struct call){ .s = s, .kind = kind };
    int rc = MPI_Comm_size(s->comm, &c->n);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_rank(s->comm, &c->me);
    return rc == MPI_SUCCESS ? FTKIT_OK : fail(c, rc);
}

static int no_room(struct call *c)
{
    free(c->out);
    free(c->in);
    free(c->to);
    free(c->room);
    c->out = NULL; /* finish_min() looks at this */
    if (c->s->ch) {
        const int rc = ftk_chan_break(c->s->ch, MPI_ERR_NO_MEM, c->s->what);
        return rc != FTKIT_OK ? rc : FTKIT_ERR_PEER;
    }
    return ftk_fail(
        FTKIT_ERR_NOMEM, "%s: buffers of %zu and %zu bytes", c->s->what, c->out_bytes, c->in_bytes);
}

/* Allocate the buffers of both sides, and wipe the buffer that MPI writes. */
static int allocate(struct call *c, size_t out, size_t in, bool lists)
{
    c->out_bytes = out;
    c->in_bytes = in;
    if (out > INT_MAX || in > INT_MAX)
        return no_room(c);
    c->out = malloc(out + 1);
    c->in = malloc(in + 1);
    c->to = lists ? malloc(4 * (size_t)c->n * sizeof *c->to) : NULL;
    c->room = malloc(sizeof *c->room);
    if (!c->out || !c->in || (lists && !c->to) || !c->room)
        return no_room(c);
    if (lists) {
        c->to_at = c->to + c->n;
        c->from = c->to + 2 * (size_t)c->n;
        c->from_at = c->to + 3 * (size_t)c->n;
    }
    ftk_proof_wipe(c->in, in);
    return FTKIT_OK;
}

static int start(struct call *c)
{
    MPI_Comm comm = c->s->comm;
    switch (c->kind) {
    case FTK_PROOF_BCAST:
        return MPI_Bcast(c->in, (int)c->in_bytes, MPI_BYTE, c->root, comm);
    case FTK_PROOF_ALLGATHER:
        return MPI_Allgather(
            c->out, (int)c->out_bytes, MPI_BYTE, c->in, (int)c->out_bytes, MPI_BYTE, comm);
    case FTK_PROOF_ALLGATHERV:
        return MPI_Allgatherv(
            c->out, (int)c->out_bytes, MPI_BYTE, c->in, c->from, c->from_at, MPI_BYTE, comm);
    case FTK_PROOF_ALLTOALL:
        return MPI_Alltoall(c->out, (int)c->out_bytes / c->n, MPI_BYTE, c->in,
            (int)c->in_bytes / c->n, MPI_BYTE, comm);
    case FTK_PROOF_ALLTOALLV:
        return MPI_Alltoallv(
            c->out, c->to, c->to_at, MPI_BYTE, c->in, c->from, c->from_at, MPI_BYTE, comm);
    default:
        return MPI_Allreduce(c->out, c->in, 1, c->type, c->op, comm);
    }
}

static int start_polled(struct call *c, MPI_Request *req)
{
    MPI_Comm comm = c->s->comm;
    switch (c->kind) {
    case FTK_PROOF_BCAST:
        return MPI_Ibcast(c->in, (int)c->in_bytes, MPI_BYTE, c->root, comm, req);
    case FTK_PROOF_ALLGATHER:
        return MPI_Iallgather(
            c->out, (int)c->out_bytes, MPI_BYTE, c->in, (int)c->out_bytes, MPI_BYTE, comm, req);
    case FTK_PROOF_ALLGATHERV:
        return MPI_Iallgatherv(
            c->out, (int)c->out_bytes, MPI_BYTE, c->in, c->from, c->from_at, MPI_BYTE, comm, req);
    case FTK_PROOF_ALLTOALL:
        return MPI_Ialltoall(c->out, (int)c->out_bytes / c->n, MPI_BYTE, c->in,
            (int)c->in_bytes / c->n, MPI_BYTE, comm, req);
    case FTK_PROOF_ALLTOALLV:
        return MPI_Ialltoallv(
            c->out, c->to, c->to_at, MPI_BYTE, c->in, c->from, c->from_at, MPI_BYTE, comm, req);
    default:
        return MPI_Iallreduce(c->out, c->in, 1, c->type, c->op, comm, req);
    }
}

/* Begin the call on the channel. */
static int begin_polled(struct call *c, MPI_Request *req)
{
    (void)FTK_FAULT("sure.begin");
    if (c->s->ch->broken)
        return ftk_fail(FTKIT_ERR_PEER, "%s: a rank has failed", c->s->what);
    int rc = start_polled(c, req);
    return rc == MPI_SUCCESS ? FTKIT_OK : fail(c, rc);
}

/* Injected: a call that has ended with rc had success, and has written nothing. */
static void lose_result(struct call *c, int rc)
{
    if (FTK_FAULT("sure.none") && rc == FTKIT_OK
        && (c->kind != FTK_PROOF_BCAST || c->me != c->root))
        ftk_proof_wipe(c->in, c->in_bytes);
}

/* Make the MPI call.  The caller checks the result. */
static int run_call(struct call *c)
{
    MPI_Request req = MPI_REQUEST_NULL;
    int rc;
    if (c->s->ch) {
        rc = begin_polled(c, &req);
        rc = rc == FTKIT_OK ? ftk_chan_wait(c->s->ch, &req, 1, c->s->what) : rc;
    } else {
        (void)FTK_FAULT("sure.begin");
        rc = start(c);
        rc = rc == MPI_SUCCESS ? FTKIT_OK : fail(c, rc);
    }
    lose_result(c, rc);
    return rc;
}

/* End the call.  good: the result is proven.  After an error the buffers are kept. */
static int end_call(struct call *c, int rc, bool good)
{
    const enum ftk_proof_end end = ftk_proof_end(rc == FTKIT_OK, good);
    if (end == FTK_PROOF_UNPROVEN) {
        rc = c->s->ch ? ftk_chan_break(c->s->ch, MPI_ERR_OTHER, c->s->what) : FTKIT_ERR_MPI;
        (void)ftk_fail(rc, "%s: MPI has returned success without a result", c->s->what);
    }
    if (end != FTK_PROOF_PROVEN) {
        keep(c);
        return rc;
    }
    free(c->out);
    free(c->in);
    free(c->to);
    free(c->room);
    return rc;
}

/* ---- calls that move blocks ---------------------------------------------------------- */

int ftk_sure_bcast(const struct ftk_sure *s, int root, void *buf, size_t bytes)
{
    struct call c;
    int rc = begin_call(&c, FTK_PROOF_BCAST, s);
    c.root = root;
    if (rc == FTKIT_OK)
        rc = allocate(&c, 0, ftk_proof_bytes(bytes), false);
    if (rc != FTKIT_OK)
        return rc;
    if (c.me == root)
        (void)ftk_proof_put(c.kind, c.in, buf, bytes, root, FTK_PROOF_ALL);
    rc = run_call(&c);
    bool good = rc == FTKIT_OK && ftk_proof_holds(c.kind, c.in, bytes, root, FTK_PROOF_ALL);
    if (good && c.me != root && bytes > 0)
        memcpy(buf, c.in, bytes);
    return end_call(&c, rc, good);
}

/* If the seals of all blocks are right, copy the data to in.  False: a seal is wrong. */
static bool take_data(const struct call *c, const size_t *from, size_t each, int to, void *in)
{
    return ftk_proof_take(c->kind, c->in, c->n, from, each, to, in);
}

static int prepare_gather(struct call *c, const struct ftk_sure *s, const void *mine, size_t bytes)
{
    int rc = begin_call(c, FTK_PROOF_ALLGATHER, s);
    if (rc == FTKIT_OK)
        rc = allocate(c, ftk_proof_bytes(bytes), (size_t)c->n * ftk_proof_bytes(bytes), false);
    if (rc == FTKIT_OK)
        (void)ftk_proof_put(c->kind, c->out, mine, bytes, c->me, FTK_PROOF_ALL);
    return rc;
}

int ftk_sure_allgather(const struct ftk_sure *s, const void *mine, size_t bytes, void *all)
{
    struct call c;
    int rc = prepare_gather(&c, s, mine, bytes);
    if (rc != FTKIT_OK)
        return rc;
    rc = run_call(&c);
    return end_call(&c, rc, rc == FTKIT_OK && take_data(&c, NULL, bytes, FTK_PROOF_ALL, all));
}

struct ftk_gather {
    struct call c;
    size_t bytes; /* of a block */
    MPI_Request req;
};

int ftk_sure_gather_begin(
    const struct ftk_sure *s, const void *mine, size_t bytes, struct ftk_gather **out)
{
    struct ftk_gather *g = *out = calloc(1, sizeof *g);
    if (!g)
        return ftk_chan_break(s->ch, MPI_ERR_NO_MEM, s->what);
    g->bytes = bytes;
    g->req = MPI_REQUEST_NULL;
    int rc = prepare_gather(&g->c, s, mine, bytes);
    if (rc == FTKIT_OK) {
        rc = begin_polled(&g->c, &g->req);
        if (rc == FTKIT_OK)
            return rc;
        rc = end_call(&g->c, rc, false);
    }
    free(g);
    *out = NULL;
    return rc;
}

int ftk_sure_gather_step(struct ftk_gather **at, void *all, bool *done)
{
    struct ftk_gather *g = *at;
    int rc = ftk_chan_test(g->c.s->ch, &g->req, 1, g->c.s->what, done);
    if (rc == FTKIT_OK && !*done)
        return rc;
    lose_result(&g->c, rc);
    rc =
        end_call(&g->c, rc, rc == FTKIT_OK && take_data(&g->c, NULL, g->bytes, FTK_PROOF_ALL, all));
    free(g);
    *at = NULL;
    return rc;
}

void ftk_sure_gather_drop(struct ftk_gather **at)
{
    struct ftk_gather *g = *at;
    if (!g)
        return;
    /* after a failure the communicator is revoked and the request ends */
    int rc = ftk_chan_wait(g->c.s->ch, &g->req, 1, g->c.s->what);
    (void)end_call(&g->c, rc, true);
    free(g);
    *at = NULL;
}

static size_t sum_of(const size_t *v, int n)
{
    size_t sum = 0;
    for (int i = 0; i < n && sum <= INT_MAX; i++)
        sum += v[i] <= INT_MAX ? ftk_proof_bytes(v[i]) : v[i] / 2;
    return sum;
}

static void list(const size_t *v, int n, int *counts, int *at)
{
    int sum = 0;
    for (int i = 0; i < n; i++) {
        counts[i] = (int)ftk_proof_bytes(v[i]);
        at[i] = sum;
        sum += counts[i];
    }
}

int ftk_sure_allgatherv(const struct ftk_sure *s, const void *mine, const size_t *bytes, void *all)
{
    struct call c;
    int rc = begin_call(&c, FTK_PROOF_ALLGATHERV, s);
    if (rc == FTKIT_OK)
        rc = allocate(&c, ftk_proof_bytes(bytes[c.me]), sum_of(bytes, c.n), true);
    if (rc != FTKIT_OK)
        return rc;
    list(bytes, c.n, c.from, c.from_at);
    (void)ftk_proof_put(c.kind, c.out, mine, bytes[c.me], c.me, FTK_PROOF_ALL);
    rc = run_call(&c);
    return end_call(&c, rc, rc == FTKIT_OK && take_data(&c, bytes, 0, FTK_PROOF_ALL, all));
}

int ftk_sure_alltoall(const struct ftk_sure *s, const void *out, size_t bytes, void *in)
{
    struct call c;
    int rc = begin_call(&c, FTK_PROOF_ALLTOALL, s);
    if (rc == FTKIT_OK)
        rc = allocate(
            &c, (size_t)c.n * ftk_proof_bytes(bytes), (size_t)c.n * ftk_proof_bytes(bytes), false);
    if (rc != FTKIT_OK)
        return rc;
    char *at = c.out;
    for (int i = 0; i < c.n; i++)
        at = ftk_proof_put(c.kind, at, (const char *)out + (size_t)i * bytes, bytes, c.me, i);
    rc = run_call(&c);
    return end_call(&c, rc, rc == FTKIT_OK && take_data(&c, NULL, bytes, c.me, in));
}

int ftk_sure_alltoallv(
    const struct ftk_sure *s, const void *out, const size_t *to, void *in, const size_t *from)
{
    struct call c;
    int rc = begin_call(&c, FTK_PROOF_ALLTOALLV, s);
    if (rc == FTKIT_OK)
        rc = allocate(&c, sum_of(to, c.n), sum_of(from, c.n), true);
    if (rc != FTKIT_OK)
        return rc;
    list(to, c.n, c.to, c.to_at);
    list(from, c.n, c.from, c.from_at);
    char *at = c.out;
    for (int i = 0; i < c.n; i++) {
        at = ftk_proof_put(c.kind, at, out, to[i], c.me, i);
        out = to[i] > 0 ? (const char *)out + to[i] : out;
    }
    rc = run_call(&c);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): end() frees the buffers, or keep() has them */
    return end_call(&c, rc, rc == FTKIT_OK && take_data(&c, from, 0, c.me, in));
}

/* ---- reductions ---------------------------------------------------------------------- */

static void reduce(void *in, void *inout, int *len, MPI_Datatype *type)
{
    int bytes = 0;
    if (MPI_Type_size(*type, &bytes) != MPI_SUCCESS)
        return; /* then the sum is wrong, and the call fails */
    size_t words = (size_t)bytes / sizeof(int64_t);
    const int64_t *a = in;
    int64_t *b = inout;
    for (int k = 0; k < *len; k++, a += words, b += words)
        ftk_proof_reduce(a, b, words);
}

static int prepare_min(struct call *c, const struct ftk_sure *s, const int64_t *v, int n)
{
    const uint64_t bytes = (uint64_t)n * sizeof *v;
    int rc = begin_call(c, FTK_PROOF_REDUCE, s);
    if (rc == FTKIT_OK)
        rc = allocate(c, bytes + sizeof(uint64_t), bytes + sizeof(uint64_t), false);
    if (rc != FTKIT_OK)
        return rc;
    const uint64_t mine = ftk_proof_number(c->me);
    memcpy(c->out, &mine, sizeof mine);
    if (bytes > 0) /* v may be NULL */
        memcpy(c->out + sizeof mine, v, bytes);
    c->type = MPI_DATATYPE_NULL;
    c->op = MPI_OP_NULL;
    int mrc = MPI_Type_contiguous(1 + n, MPI_INT64_T, &c->type);
    if (mrc == MPI_SUCCESS)
        mrc = MPI_Type_commit(&c->type);
    if (mrc == MPI_SUCCESS)
        mrc = MPI_Op_create(reduce, 1, &c->op);
    return mrc == MPI_SUCCESS ? FTKIT_OK : fail(c, mrc);
}

/* The MPI call has returned rc, or was not made after an error. */
static int finish_min(struct call *c, int rc, int64_t *v, int n)
{
    const uint64_t bytes = (uint64_t)n * sizeof *v;
    uint64_t sum = 0;
    if (!c->out)
        return rc; /* there was no memory */
    if (c->op != MPI_OP_NULL)
        (void)MPI_Op_free(&c->op); /* a call that still runs has its own references */
    if (c->type != MPI_DATATYPE_NULL)
        (void)MPI_Type_free(&c->type);
    memcpy(&sum, c->in, sizeof sum);
    bool good = rc == FTKIT_OK && sum == ftk_proof_sum(c->n);
    if (good && bytes > 0)
        memcpy(v, c->in + sizeof sum, bytes);
    return end_call(c, rc, good);
}

int ftk_sure_min(const struct ftk_sure *s, int64_t *v, int n)
{
    struct call c;
    int rc = prepare_min(&c, s, v, n);
    if (rc == FTKIT_OK)
        rc = run_call(&c);
    return finish_min(&c, rc, v, n);
}

struct ftk_minimum {
    struct call c;
    int n;
    MPI_Request req;
};

int ftk_sure_min_begin(const struct ftk_sure *s, const int64_t *v, int n, struct ftk_minimum **out)
{
    struct ftk_minimum *m = *out = calloc(1, sizeof *m);
    if (!m)
        return ftk_chan_break(s->ch, MPI_ERR_NO_MEM, s->what);
    m->n = n;
    m->req = MPI_REQUEST_NULL;
    int rc = prepare_min(&m->c, s, v, n);
    if (rc == FTKIT_OK)
        rc = begin_polled(&m->c, &m->req);
    if (rc == FTKIT_OK)
        return rc;
    rc = finish_min(&m->c, rc, NULL, 0);
    free(m);
    *out = NULL;
    return rc;
}

int ftk_sure_min_step(struct ftk_minimum **at, int64_t *v, bool *done)
{
    struct ftk_minimum *m = *at;
    int rc = ftk_chan_test(m->c.s->ch, &m->req, 1, m->c.s->what, done);
    if (rc == FTKIT_OK && !*done)
        return rc;
    lose_result(&m->c, rc);
    rc = finish_min(&m->c, rc, v, m->n);
    free(m);
    *at = NULL;
    return rc;
}

void ftk_sure_min_drop(struct ftk_minimum **at)
{
    struct ftk_minimum *m = *at;
    if (!m)
        return;
    /* after a failure the communicator is revoked and the request ends */
    int rc = ftk_chan_wait(m->c.s->ch, &m->req, 1, m->c.s->what);
    (void)finish_min(&m->c, rc == FTKIT_OK ? FTKIT_ERR_PEER : rc, NULL, 0);
    free(m);
    *at = NULL;
}

int ftk_sure_meet(const struct ftk_sure *s)
{
    return ftk_sure_min(s, NULL, 0);
}

/* ---- communicators ------------------------------------------------------------------- */

/* Whether made has these members of comm, in this order. */
static int compare(const struct ftk_sure *s, MPI_Comm made, const int *members, int n, bool *same)
{
    MPI_Group of = MPI_GROUP_NULL, all = MPI_GROUP_NULL, want = MPI_GROUP_NULL;
    int how = MPI_UNEQUAL, me = MPI_UNDEFINED;
    int rc = MPI_Comm_group(made, &of);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_group(s->comm, &all);
    if (rc == MPI_SUCCESS && members)
        rc = MPI_Group_incl(all, n, members, &want);
    if (rc == MPI_SUCCESS)
        rc = MPI_Group_compare(of, members ? want : all, &how);
    if (rc == MPI_SUCCESS)
        rc = MPI_Group_rank(of, &me);
    *same = how == MPI_IDENT && me != MPI_UNDEFINED;
    if (of != MPI_GROUP_NULL)
        (void)MPI_Group_free(&of);
    if (all != MPI_GROUP_NULL)
        (void)MPI_Group_free(&all);
    if (want != MPI_GROUP_NULL && want != MPI_GROUP_EMPTY)
        (void)MPI_Group_free(&want);
    return rc;
}

int ftk_sure_comm(const struct ftk_sure *s, int mpi_rc, MPI_Comm *made, const int *members, int n)
{
    bool same = false;
    if (FTK_FAULT("sure.comm") && mpi_rc == MPI_SUCCESS && *made != MPI_COMM_NULL) {
        (void)MPI_Comm_free(made); /* injected: success, and no communicator was made */
        *made = MPI_COMM_NULL;
    }
    if (mpi_rc == MPI_SUCCESS && *made != MPI_COMM_NULL)
        mpi_rc = MPI_Comm_set_errhandler(*made, MPI_ERRORS_RETURN);
    if (mpi_rc == MPI_SUCCESS && *made == MPI_COMM_NULL)
        same = members && n == 0;
    else if (mpi_rc == MPI_SUCCESS)
        mpi_rc = compare(s, *made, members, n, &same);
    if (mpi_rc == MPI_SUCCESS && same)
        return FTKIT_OK;
    *made = MPI_COMM_NULL; /* a constructor that failed may leave anything in its output */
    return mpi_rc != MPI_SUCCESS
               ? ftk_fail_mpi(mpi_rc, s->what)
               : ftk_fail(
                   FTKIT_ERR_MPI, "%s: MPI has returned success without the communicator", s->what);
}
