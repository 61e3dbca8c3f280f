/* Every collective of MPI in its three forms, with the shapes that go wrong: all roots,
 * in place, datatypes with gaps, nothing to send, neighbours met twice, operations that
 * do not commute, many under way at once.  What comes out is compared with what was
 * worked out without messages, byte by byte; so are gaps and margins.
 *
 *     coll_check [-m] [-f]
 *
 * Rank 0 prints "OK checks"; the first mismatch ends the job with exit code 1.  -f: few
 * shapes, for slow tools.  -m: leave out what the MPI's own collectives may do otherwise
 * (the same bits in all forms), or are known to do wrong: Open MPI 5.0 with non-blocking
 * exchanges on grids that have periodic dimensions of one or two ranks, and with
 * MPI_Ialltoallv and MPI_Ialltoallw in place.
 *
 * When FTKIT_LOG_ENABLED is "true" all of it goes through the message log of ftkit.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "overlog.h"

#define BLOCKS 64
#define PAD 16           /* ints before and behind what is used */
#define BLANK 0x5a5a5a5a /* what is in gaps */

static bool mild, few;
static long checks;
static int world_rank;
static const char *where = "?"; /* which communicator */
static MPI_Comm comm;
static int me, n;

#define FORMS(f) for (int f = 0; f < 3; f++)
static const char *const form_name[] = { "blocking", "non-blocking", "persistent" };

/* ---- checking ------------------------------------------------------------------------ */

static void die(const char *what, int form, long at)
{
    fprintf(stderr, "rank %d of the world, %d of %d on %s: %s, %s: wrong at %ld\n", world_rank, me,
        n, where, what, form_name[form], at);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void ok(int rc)
{
    if (rc != MPI_SUCCESS)
        die("a call", 0, rc);
}

static void expect(bool good, const char *what, int form, long at)
{
    checks++;
    if (!good)
        die(what, form, at);
}

/* Call it in one of the forms, all the way. */
#define DO(form, Name, name, ...)                                                                  \
    do {                                                                                           \
        MPI_Request q_ = MPI_REQUEST_NULL;                                                         \
        if ((form) == 0) {                                                                         \
            ok(MPI_##Name(__VA_ARGS__));                                                           \
            break;                                                                                 \
        }                                                                                          \
        if ((form) == 1) {                                                                         \
            ok(MPI_I##name(__VA_ARGS__, &q_));                                                     \
        } else {                                                                                   \
            ok(MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &q_));                                \
            ok(MPI_Start(&q_));                                                                    \
        }                                                                                          \
        ok(MPI_Wait(&q_, MPI_STATUS_IGNORE));                                                      \
        if ((form) == 2)                                                                           \
            ok(MPI_Request_free(&q_));                                                             \
    } while (0)

/* ---- kinds of items ------------------------------------------------------------------ */

enum { INT, GAP, BACKWARD, LATE, PAIR, TWOINT, KINDS };

static struct kind {
    MPI_Datatype type;
    int ints, stride, pos[2]; /* of data in an item; extent and places, in ints */
} kinds[KINDS];

static void resize(MPI_Datatype raw, int ints, MPI_Datatype *out)
{
    ok(MPI_Type_create_resized(raw, 0, (MPI_Aint)sizeof(int) * ints, out));
    ok(MPI_Type_commit(out));
    ok(MPI_Type_free(&raw));
}

static void make_kinds(void)
{
    MPI_Datatype raw;
    int three = 3;
    MPI_Aint turned[2] = { sizeof(int), 0 };
    int ones[2] = { 1, 1 };
    kinds[INT] = (struct kind){ MPI_INT, 1, 1, { 0, 0 } };
    kinds[GAP] = (struct kind){ MPI_DATATYPE_NULL, 2, 4, { 0, 2 } };
    ok(MPI_Type_vector(2, 1, 2, MPI_INT, &raw));
    resize(raw, 4, &kinds[GAP].type);
    kinds[BACKWARD] = (struct kind){ MPI_DATATYPE_NULL, 2, 2, { 1, 0 } };
    ok(MPI_Type_create_hindexed(2, ones, turned, MPI_INT, &raw));
    resize(raw, 2, &kinds[BACKWARD].type);
    kinds[LATE] = (struct kind){ MPI_DATATYPE_NULL, 1, 2, { 3, 0 } };
    ok(MPI_Type_create_indexed_block(1, 1, &three, MPI_INT, &raw));
    resize(raw, 2, &kinds[LATE].type);
    kinds[PAIR] = (struct kind){ MPI_DATATYPE_NULL, 2, 2, { 0, 1 } };
    ok(MPI_Type_contiguous(2, MPI_INT, &kinds[PAIR].type));
    ok(MPI_Type_commit(&kinds[PAIR].type));
    kinds[TWOINT] = (struct kind){ MPI_2INT, 2, 2, { 0, 1 } };
}

static void free_kinds(void)
{
    for (int k = 0; k < KINDS; k++)
        if (k != INT && k != TWOINT)
            ok(MPI_Type_free(&kinds[k].type));
}

/* ---- sides ------------------------------------------------------------------------------
 * Blocks in memory, and what should be there afterwards. */

struct side {
    int nblocks;
    int kind[BLOCKS], ints[BLOCKS];
    size_t at[BLOCKS], size; /* in ints */
    int *mem, *want;
    int counts[BLOCKS], displs[BLOCKS], bytes[BLOCKS];
    MPI_Aint far[BLOCKS];
    MPI_Datatype types[BLOCKS];
};

static int value(int seed, int i)
{
    return (int)((unsigned)seed * 7919u + (unsigned)i * 31u + 5u);
}

static void block(struct side *s, int i, int kind, int ints)
{
    s->kind[i] = kind;
    s->ints[i] = ints;
    s->nblocks = i + 1;
}

/* Give the blocks their places: one after the other, or apart and backwards. */
static void lay(struct side *s, bool apart)
{
    size_t at = 0;
    for (int j = 0; j < s->nblocks; j++) {
        int i = apart ? s->nblocks - 1 - j : j;
        const struct kind *k = &kinds[s->kind[i]];
        size_t items = (size_t)s->ints[i] / (size_t)k->ints;
        s->at[i] = at;
        s->counts[i] = (int)items;
        s->displs[i] = (int)at / k->stride;
        s->bytes[i] = (int)(at * sizeof(int));
        s->far[i] = s->bytes[i];
        s->types[i] = k->type;
        at += items * (size_t)k->stride;
        if (apart)
            at = (at + 11) / 4 * 4;
    }
    s->size = at + 2 * PAD;
    s->mem = malloc(s->size * sizeof(int));
    s->want = malloc(s->size * sizeof(int));
    if (!s->mem || !s->want)
        die("memory", 0, 0);
    for (size_t i = 0; i < s->size; i++)
        s->mem[i] = s->want[i] = BLANK;
}

static int *slot(const struct side *s, int *in, int i, int e)
{
    const struct kind *k = &kinds[s->kind[i]];
    return in + PAD + s->at[i] + (size_t)(e / k->ints) * (size_t)k->stride + k->pos[e % k->ints];
}

static void put(struct side *s, int *in, int i, int seed)
{
    for (int e = 0; e < s->ints[i]; e++)
        *slot(s, in, i, e) = value(seed, e);
}

/* To be sent: is there, and stays. */
static void give(struct side *s, int i, int seed)
{
    put(s, s->mem, i, seed);
    put(s, s->want, i, seed);
}

static int *buf(struct side *s)
{
    return s->mem + PAD;
}

static void check(struct side *s, const char *what, int form)
{
    size_t i = 0;
    while (i < s->size && s->mem[i] == s->want[i])
        i++;
    expect(i == s->size, what, form, (long)i - PAD);
    free(s->mem);
    free(s->want);
    *s = (struct side){ .mem = NULL };
}

/* ---- with a root --------------------------------------------------------------------- */

struct shape {
    int len; /* ints of a block, even */
    int ks, kr;
    bool in_place;
};

static void bcast(const struct shape *p, int root)
{
    static struct side s;
    FORMS(form)
    {
        block(&s, 0, me % 2 ? p->ks : p->kr, p->len);
        lay(&s, false);
        put(&s, s.want, 0, root + 1);
        if (me == root)
            put(&s, s.mem, 0, root + 1);
        DO(form, Bcast, bcast, buf(&s), s.counts[0], s.types[0], root, comm);
        check(&s, "bcast", form);
    }
}

static void gather(const struct shape *p, int root, bool v)
{
    static struct side s, r;
    FORMS(form)
    {
        block(&s, 0, p->ks, v ? p->len * (me % 3) : p->len);
        lay(&s, false);
        give(&s, 0, me + 1);
        for (int i = 0; i < n; i++)
            block(&r, i, p->kr, v ? p->len * (i % 3) : p->len);
        lay(&r, v);
        for (int i = 0; i < n && me == root; i++)
            put(&r, r.want, i, i + 1);
        bool in_place = p->in_place && me == root;
        if (in_place)
            put(&r, r.mem, me, me + 1);
        const void *from = in_place ? MPI_IN_PLACE : buf(&s);
        if (v)
            DO(form, Gatherv, gatherv, from, s.counts[0], s.types[0], buf(&r), r.counts, r.displs,
                r.types[0], root, comm);
        else
            DO(form, Gather, gather, from, s.counts[0], s.types[0], buf(&r), r.counts[0],
                r.types[0], root, comm);
        check(&s, "sent by gather", form);
        check(&r, v ? "gatherv" : "gather", form);
    }
}

static void scatter(const struct shape *p, int root, bool v)
{
    static struct side s, r;
    FORMS(form)
    {
        bool in_place = p->in_place && me == root;
        block(&r, 0, p->kr, v ? p->len * (me % 3) : p->len);
        lay(&r, false);
        if (!in_place)
            put(&r, r.want, 0, me + 1);
        for (int i = 0; i < n; i++)
            block(&s, i, p->ks, v ? p->len * (i % 3) : p->len);
        lay(&s, v);
        for (int i = 0; i < n && me == root; i++)
            give(&s, i, i + 1);
        void *to = in_place ? MPI_IN_PLACE : buf(&r);
        if (v)
            DO(form, Scatterv, scatterv, buf(&s), s.counts, s.displs, s.types[0], to, r.counts[0],
                r.types[0], root, comm);
        else
            DO(form, Scatter, scatter, buf(&s), s.counts[0], s.types[0], to, r.counts[0],
                r.types[0], root, comm);
        check(&s, "sent by scatter", form);
        check(&r, v ? "scatterv" : "scatter", form);
    }
}

/* ---- from all to all ----------------------------------------------------------------- */

static void allgather(const struct shape *p, bool v)
{
    static struct side s, r;
    FORMS(form)
    {
        block(&s, 0, p->ks, v ? p->len * (me % 3) : p->len);
        lay(&s, false);
        give(&s, 0, me + 1);
        for (int i = 0; i < n; i++)
            block(&r, i, p->kr, v ? p->len * (i % 3) : p->len);
        lay(&r, v);
        for (int i = 0; i < n; i++)
            put(&r, r.want, i, i + 1);
        if (p->in_place)
            put(&r, r.mem, me, me + 1);
        const void *from = p->in_place ? MPI_IN_PLACE : buf(&s);
        if (v)
            DO(form, Allgatherv, allgatherv, from, s.counts[0], s.types[0], buf(&r), r.counts,
                r.displs, r.types[0], comm);
        else
            DO(form, Allgather, allgather, from, s.counts[0], s.types[0], buf(&r), r.counts[0],
                r.types[0], comm);
        check(&s, "sent by allgather", form);
        check(&r, v ? "allgatherv" : "allgather", form);
    }
}

enum { PLAIN, V, W };

static int exchanged(const struct shape *p, int how, int from, int to)
{
    if (how == PLAIN)
        return p->len;
    return p->len * ((p->in_place ? from + to : from + 2 * to) % 3);
}

static void alltoall(const struct shape *p, int how)
{
    static struct side s, r;
    FORMS(form)
    {
        if (mild && form > 0 && p->in_place && how != PLAIN)
            continue;
        for (int i = 0; i < n; i++) {
            block(&s, i, how == W ? (i + p->ks) % 4 : p->ks, exchanged(p, how, me, i));
            block(&r, i, how == W ? (i + p->kr) % 4 : p->kr, exchanged(p, how, i, me));
        }
        lay(&s, how != PLAIN);
        lay(&r, how != PLAIN);
        for (int i = 0; i < n; i++) {
            give(&s, i, me * 100 + i);
            put(&r, r.want, i, i * 100 + me);
            if (p->in_place)
                put(&r, r.mem, i, me * 100 + i);
        }
        const void *from = p->in_place ? MPI_IN_PLACE : buf(&s);
        if (how == PLAIN)
            DO(form, Alltoall, alltoall, from, s.counts[0], s.types[0], buf(&r), r.counts[0],
                r.types[0], comm);
        else if (how == V)
            DO(form, Alltoallv, alltoallv, from, s.counts, s.displs, s.types[0], buf(&r), r.counts,
                r.displs, r.types[0], comm);
        else
            DO(form, Alltoallw, alltoallw, from, s.counts, s.bytes, s.types, buf(&r), r.counts,
                r.bytes, r.types, comm);
        check(&s, "sent by alltoall", form);
        check(&r, how == PLAIN ? "alltoall" : how == V ? "alltoallv" : "alltoallw", form);
    }
}

/* ---- reductions ---------------------------------------------------------------------- */

enum { SUM, ADD, COMPOSE, MAXLOC, OPS };
static MPI_Op ops[OPS];

/* Pairs (a, b) stand for the function x -> a x + b, done one after the other. */
static void compose(const int *f, int *g)
{
    unsigned a = (unsigned)f[0] * (unsigned)g[0];
    unsigned b = (unsigned)f[1] * (unsigned)g[0] + (unsigned)g[1];
    g[0] = (int)a;
    g[1] = (int)b;
}

static void on_pairs(void *in, void *inout, const int *len, const MPI_Datatype *type, bool add)
{
    MPI_Aint lb, extent;
    if (MPI_Type_get_extent(*type, &lb, &extent) != MPI_SUCCESS)
        return;
    size_t stride = (size_t)extent / sizeof(int), second = stride == 4 ? 2 : 1;
    for (size_t i = 0; i < (size_t)*len; i++) {
        const int *f = (int *)in + i * stride;
        int *g = (int *)inout + i * stride;
        int x[2] = { f[0], f[second] }, y[2] = { g[0], g[second] };
        if (add)
            y[0] = (int)((unsigned)x[0] + (unsigned)y[0]),
            y[1] = (int)((unsigned)x[1] + (unsigned)y[1]);
        else
            compose(x, y);
        g[0] = y[0];
        g[second] = y[1];
    }
}

static void add_pairs(void *in, void *inout, int *len, MPI_Datatype *type)
{
    on_pairs(in, inout, len, type, true);
}

static MPI_Datatype type_of_pairs; /* the one it was called with last */

static void compose_pairs(void *in, void *inout, int *len, MPI_Datatype *type)
{
    type_of_pairs = *type;
    on_pairs(in, inout, len, type, false);
}

/* What the ranks first .. last - 1 come to, into block i; operands begin with item skip.
 */
static void combine(struct side *s, int *in, int i, int op, int first, int last, int skip)
{
    for (int e = 0; e < s->ints[i] && first < last; e += kinds[s->kind[i]].ints) {
        bool pair = kinds[s->kind[i]].ints == 2;
        int at = e + skip * kinds[s->kind[i]].ints;
        int acc[2] = { value(first + 1, at), value(first + 1, at + 1) };
        for (int r = first + 1; r < last; r++) {
            int x[2] = { value(r + 1, at), value(r + 1, at + 1) };
            if (op == COMPOSE) {
                compose(acc, x);
                memcpy(acc, x, sizeof acc);
            } else if (op != MAXLOC) {
                acc[0] = (int)((unsigned)acc[0] + (unsigned)x[0]);
                acc[1] = (int)((unsigned)acc[1] + (unsigned)x[1]);
            } else if (x[0] > acc[0] || (x[0] == acc[0] && x[1] < acc[1])) {
                memcpy(acc, x, sizeof acc);
            }
        }
        *slot(s, in, i, e) = acc[0];
        if (pair)
            *slot(s, in, i, e + 1) = acc[1];
    }
}

struct reduction {
    int items, kind, op;
    bool in_place;
};

enum { ALLREDUCE, SCAN, EXSCAN };

/* One block in, one out. */
static void reduce_to_all(const struct reduction *p, int which)
{
    static struct side s, r;
    FORMS(form)
    {
        block(&s, 0, p->kind, p->items * kinds[p->kind].ints);
        block(&r, 0, p->kind, p->items * kinds[p->kind].ints);
        lay(&s, false);
        lay(&r, false);
        give(&s, 0, me + 1);
        if (p->in_place)
            put(&r, r.mem, 0, me + 1);
        combine(&r, r.want, 0, p->op, 0, which == ALLREDUCE ? n : which == SCAN ? me + 1 : me, 0);
        const void *from = p->in_place ? MPI_IN_PLACE : buf(&s);
        MPI_Datatype type = kinds[p->kind].type;
        if (which == ALLREDUCE)
            DO(form, Allreduce, allreduce, from, buf(&r), p->items, type, ops[p->op], comm);
        else if (which == SCAN)
            DO(form, Scan, scan, from, buf(&r), p->items, type, ops[p->op], comm);
        else
            DO(form, Exscan, exscan, from, buf(&r), p->items, type, ops[p->op], comm);
        if (which == EXSCAN && me == 0) /* anything may be there */
            memcpy(r.want, r.mem, r.size * sizeof(int));
        check(&s, "sent by a reduction", form);
        check(&r, which == ALLREDUCE ? "allreduce" : which == SCAN ? "scan" : "exscan", form);
    }
}

static void reduce(const struct reduction *p, int root)
{
    static struct side s, r;
    FORMS(form)
    {
        bool in_place = p->in_place && me == root;
        block(&s, 0, p->kind, p->items * kinds[p->kind].ints);
        block(&r, 0, p->kind, p->items * kinds[p->kind].ints);
        lay(&s, false);
        lay(&r, false);
        give(&s, 0, me + 1);
        if (in_place)
            put(&r, r.mem, 0, me + 1);
        if (me == root)
            combine(&r, r.want, 0, p->op, 0, n, 0);
        DO(form, Reduce, reduce, in_place ? MPI_IN_PLACE : buf(&s), me == root ? buf(&r) : NULL,
            p->items, kinds[p->kind].type, ops[p->op], root, comm);
        check(&s, "sent by reduce", form);
        check(&r, "reduce", form);
    }
}

static void reduce_scatter(const struct reduction *p, bool equal)
{
    static struct side s, r;
    int counts[BLOCKS], all = 0, before = 0, ints = kinds[p->kind].ints;
    for (int i = 0; i < n; i++) {
        counts[i] = equal ? p->items : p->items * (i % 3);
        before += i < me ? counts[i] : 0;
        all += counts[i];
    }
    FORMS(form)
    {
        block(&s, 0, p->kind, all * ints);
        lay(&s, false);
        give(&s, 0, me + 1);
        block(&r, 0, p->kind, (p->in_place ? all : counts[me]) * ints);
        lay(&r, false);
        if (p->in_place)
            put(&r, r.mem, 0, me + 1);
        r.ints[0] = counts[me] * ints;
        combine(&r, r.want, 0, p->op, 0, n, before);
        const void *from = p->in_place ? MPI_IN_PLACE : buf(&s);
        if (equal)
            DO(form, Reduce_scatter_block, reduce_scatter_block, from, buf(&r), p->items,
                kinds[p->kind].type, ops[p->op], comm);
        else
            DO(form, Reduce_scatter, reduce_scatter, from, buf(&r), counts, kinds[p->kind].type,
                ops[p->op], comm);
        if (p->in_place) { /* behind the result anything may be */
            size_t own = PAD + (size_t)counts[me] * (size_t)kinds[p->kind].stride;
            memcpy(r.want + own, r.mem + own, (r.size - own) * sizeof(int));
        }
        check(&s, "sent by reduce_scatter", form);
        check(&r, equal ? "reduce_scatter_block" : "reduce_scatter", form);
    }
}

/* The same bits in all forms and at all ranks, though the order of additions shows. */
static void same_bits(void)
{
    enum { N = 20000 };
    static double in[N], out[4][N];
    for (int i = 0; i < N; i++)
        in[i] = 1.0 / (1.0 + 17.0 * me + i) * (i % 2 ? 1e9 : 1e-9);
    for (int count = 1; count <= N; count = count < 100 ? count * 9 : count * 15) {
        FORMS(form)
        DO(form, Allreduce, allreduce, in, out[form], count, MPI_DOUBLE, MPI_SUM, comm);
        memcpy(out[3], in, sizeof in);
        DO(1, Allreduce, allreduce, MPI_IN_PLACE, out[3], count, MPI_DOUBLE, MPI_SUM, comm);
        for (int f = 1; f < 4; f++)
            expect(memcmp(out[0], out[f], (size_t)count * sizeof(double)) == 0, "bits", f % 3, f);
        memcpy(out[1], out[0], sizeof out[0]);
        ok(MPI_Bcast(out[1], count, MPI_DOUBLE, 0, comm));
        expect(memcmp(out[0], out[1], (size_t)count * sizeof(double)) == 0, "others' bits", 0, 0);
    }
}

static void double_int(void)
{
    struct di {
        double x;
        int i;
    } in[5], out[5];
    FORMS(form)
    {
        for (int i = 0; i < 5; i++)
            in[i] = (struct di){ .x = (me * 7 + i * 3) % 5, .i = me };
        DO(form, Allreduce, allreduce, in, out, 5, MPI_DOUBLE_INT, MPI_MINLOC, comm);
        for (int i = 0; i < 5; i++) {
            int best = 0;
            for (int r = 0; r < n; r++)
                if ((r * 7 + i * 3) % 5 < (best * 7 + i * 3) % 5)
                    best = r;
            expect(out[i].i == best, "MPI_MINLOC", form, i);
        }
    }
}

/* ---- neighbours ---------------------------------------------------------------------- */

/* Who is next to whom, for every rank, and which block of the sender comes in. */
struct hood {
    int kind; /* MPI_CART, MPI_GRAPH, MPI_DIST_GRAPH */
    int nin[BLOCKS], nout[BLOCKS];
    int in[BLOCKS][8], out[BLOCKS][8];
    bool tight; /* a periodic dimension of one or two ranks */
};

static int block_of(const struct hood *h, int to, int i)
{
    int from = h->in[to][i], nth = 0, j;
    if (h->kind == MPI_CART)
        return i ^ 1;
    for (j = 0; j < i; j++)
        nth += h->in[to][j] == from;
    for (j = 0; h->out[from][j] != to || nth-- > 0; j++)
        continue;
    return j;
}

static void neighbor_allgather(const struct shape *p, const struct hood *h, bool v)
{
    static struct side s, r;
    int counts_by_rank = v ? 3 : 1;
    FORMS(form)
    {
        block(&s, 0, p->ks, p->len * (me % counts_by_rank + 1));
        lay(&s, false);
        give(&s, 0, me + 1);
        r.nblocks = 0;
        for (int i = 0; i < h->nin[me]; i++) {
            int from = h->in[me][i];
            block(&r, i, p->kr, p->len * (from < 0 ? 1 : from % counts_by_rank + 1));
        }
        lay(&r, v);
        for (int i = 0; i < h->nin[me]; i++)
            if (h->in[me][i] >= 0)
                put(&r, r.want, i, h->in[me][i] + 1);
        MPI_Datatype type = kinds[p->kr].type;
        if (v)
            DO(form, Neighbor_allgatherv, neighbor_allgatherv, buf(&s), s.counts[0], s.types[0],
                buf(&r), r.counts, r.displs, type, comm);
        else
            DO(form, Neighbor_allgather, neighbor_allgather, buf(&s), s.counts[0], s.types[0],
                buf(&r), p->len / kinds[p->kr].ints, type, comm);
        check(&s, "sent by neighbor_allgather", form);
        check(&r, v ? "neighbor_allgatherv" : "neighbor_allgather", form);
    }
}

/* Ints of block i of a rank. */
static int told(const struct shape *p, int how, int rank, int i)
{
    return how == PLAIN ? p->len : p->len * ((rank + i) % 3);
}

static void neighbor_alltoall(const struct shape *p, const struct hood *h, int how)
{
    static struct side s, r;
    FORMS(form)
    {
        if (mild && form > 0 && h->tight)
            continue;
        s.nblocks = r.nblocks = 0;
        for (int i = 0; i < h->nout[me]; i++)
            block(&s, i, how == W ? (i + p->ks) % 4 : p->ks, told(p, how, me, i));
        for (int i = 0; i < h->nin[me]; i++) {
            int from = h->in[me][i];
            block(&r, i, how == W ? (i + p->kr) % 4 : p->kr,
                from < 0 ? p->len : told(p, how, from, block_of(h, me, i)));
        }
        lay(&s, how != PLAIN);
        lay(&r, how != PLAIN);
        for (int i = 0; i < h->nout[me]; i++)
            give(&s, i, me * 100 + i);
        for (int i = 0; i < h->nin[me]; i++)
            if (h->in[me][i] >= 0)
                put(&r, r.want, i, h->in[me][i] * 100 + block_of(h, me, i));
        MPI_Datatype ts = kinds[p->ks].type, tr = kinds[p->kr].type;
        if (how == PLAIN)
            DO(form, Neighbor_alltoall, neighbor_alltoall, buf(&s), p->len / kinds[p->ks].ints, ts,
                buf(&r), p->len / kinds[p->kr].ints, tr, comm);
        else if (how == V)
            DO(form, Neighbor_alltoallv, neighbor_alltoallv, buf(&s), s.counts, s.displs, ts,
                buf(&r), r.counts, r.displs, tr, comm);
        else
            DO(form, Neighbor_alltoallw, neighbor_alltoallw, buf(&s), s.counts, s.far, s.types,
                buf(&r), r.counts, r.far, r.types, comm);
        check(&s, "sent by neighbor_alltoall", form);
        check(&r, "neighbor_alltoall", form);
    }
}

static void among_neighbours(const struct hood *h)
{
    const struct shape shapes[] = { { 2, INT, INT, false }, { 0, INT, INT, false },
        { 6, GAP, LATE, false }, { 40000, BACKWARD, INT, false } };
    for (size_t i = 0; i < (few ? 3 : sizeof shapes / sizeof *shapes); i++) {
        neighbor_allgather(&shapes[i], h, false);
        neighbor_allgather(&shapes[i], h, true);
        neighbor_alltoall(&shapes[i], h, PLAIN);
        neighbor_alltoall(&shapes[i], h, V);
        neighbor_alltoall(&shapes[i], h, W);
    }
}

/* On a communicator with a topology that has been made of base. */
static void enter(MPI_Comm c, const char *name)
{
    comm = c;
    where = name;
    ok(MPI_Comm_rank(comm, &me));
    ok(MPI_Comm_size(comm, &n));
}

static void grid(MPI_Comm base, int ndims, const int *dims, const int *periods)
{
    static struct hood h;
    MPI_Comm c;
    h = (struct hood){ .kind = MPI_CART };
    ok(MPI_Cart_create(base, ndims, dims, periods, 0, &c));
    if (c == MPI_COMM_NULL)
        return;
    enter(c, "a grid");
    for (int d = 0, block_size = n; d < ndims; d++) {
        block_size /= dims[d];
        h.tight |= periods[d] && dims[d] <= 2;
        for (int r = 0; r < n; r++) {
            int x = r / block_size % dims[d], down = x - 1, upper = x + 1;
            int low = r + (down < 0 ? dims[d] - 1 : -1) * block_size;
            int high = r + (upper == dims[d] ? 1 - dims[d] : 1) * block_size;
            h.in[r][2 * d] = down < 0 && !periods[d] ? MPI_PROC_NULL : low;
            h.in[r][2 * d + 1] = upper == dims[d] && !periods[d] ? MPI_PROC_NULL : high;
            h.nin[r] = 2 * (d + 1);
        }
    }
    memcpy(h.out, h.in, sizeof h.in);
    memcpy(h.nout, h.nin, sizeof h.nin);
    among_neighbours(&h);
    ok(MPI_Comm_free(&c));
}

static void grids(MPI_Comm base)
{
    int size;
    ok(MPI_Comm_size(base, &size));
    for (int periodic = 0; periodic < 2; periodic++) {
        int p[3] = { periodic, 1, periodic };
        for (int len = 1; len <= size; len++)
            grid(base, 1, &len, p);
        grid(base, 2, (int[]){ 1, size }, p);
        grid(base, 2, (int[]){ size, 1 }, p);
        if (size >= 4)
            grid(base, 2, (int[]){ 2, size / 2 }, p);
        if (size >= 4)
            grid(base, 3, (int[]){ 2, 1, 2 }, p);
    }
}

static void dist_graph(MPI_Comm base, bool adjacent)
{
    static struct hood h;
    MPI_Comm c;
    int size, rank, total = 0, sources[BLOCKS], degrees[BLOCKS], to[8 * BLOCKS];
    int weights[8 * BLOCKS]; /* gcc takes MPI_UNWEIGHTED for an array of no elements */
    ok(MPI_Comm_size(base, &size));
    ok(MPI_Comm_rank(base, &rank));
    h = (struct hood){ .kind = MPI_DIST_GRAPH };
    for (int i = 0; i < 8 * BLOCKS; i++)
        weights[i] = i;
    for (int r = 0; r < size; r++) { /* to the next twice, to oneself, to rank 0 */
        int next = (r + 1) % size, out[] = { next, r, next, 0 };
        h.nout[r] = r % 4 == 3 ? 0 : !adjacent ? 2 : r < 3 ? 4 : 3;
        memcpy(h.out[r], out, sizeof out);
        for (int i = 0; i < h.nout[r]; i++)
            h.in[out[i]][h.nin[out[i]]++] = r;
    }
    for (int r = 0; r < size && rank == 0; r++) {
        sources[r] = r;
        degrees[r] = h.nout[r];
        memcpy(to + total, h.out[r], sizeof(int) * (size_t)h.nout[r]);
        total += h.nout[r];
    }
    if (adjacent)
        ok(MPI_Dist_graph_create_adjacent(base, h.nin[rank], h.in[rank], weights, h.nout[rank],
            h.out[rank], weights, MPI_INFO_NULL, 0, &c));
    else
        ok(MPI_Dist_graph_create(
            base, rank == 0 ? size : 0, sources, degrees, to, weights, MPI_INFO_NULL, 0, &c));
    enter(c, adjacent ? "an adjacent graph" : "a distributed graph");
    if (!adjacent) { /* the order of neighbours is not ours */
        int a, b, w, ignore[16];
        int mine[17] = { 0 };
        ok(MPI_Dist_graph_neighbors_count(c, &a, &b, &w));
        mine[0] = a | b << 8;
        ok(MPI_Dist_graph_neighbors(c, a, mine + 1, ignore, b, mine + 9, ignore));
        static int all[BLOCKS][17];
        ok(MPI_Allgather(mine, 17, MPI_INT, all, 17, MPI_INT, c));
        for (int r = 0; r < n; r++) {
            h.nin[r] = all[r][0] & 255;
            h.nout[r] = all[r][0] >> 8;
            memcpy(h.in[r], all[r] + 1, sizeof h.in[r]);
            memcpy(h.out[r], all[r] + 9, sizeof h.out[r]);
        }
    }
    among_neighbours(&h);
    ok(MPI_Comm_free(&c));
}

/* Everybody next to the two beside it, and rank 0 next to itself. */
static void graph(MPI_Comm base)
{
    static struct hood h;
    MPI_Comm c;
    int size, total = 0, index[BLOCKS], edges[8 * BLOCKS];
    ok(MPI_Comm_size(base, &size));
    h = (struct hood){ .kind = MPI_GRAPH };
    for (int r = 0; r < size; r++) {
        int out[] = { (r + 1) % size, (r + size - 1) % size, 0 };
        h.nin[r] = h.nout[r] = r == 0 ? 3 : 2;
        memcpy(h.in[r], out, sizeof out);
        memcpy(h.out[r], out, sizeof out);
        memcpy(edges + total, out, sizeof(int) * (size_t)h.nout[r]);
        index[r] = total += h.nout[r];
    }
    ok(MPI_Graph_create(base, size, index, edges, 0, &c));
    enter(c, "a graph");
    among_neighbours(&h);
    ok(MPI_Comm_free(&c));
}

/* ---- many at once -------------------------------------------------------------------- */

/* Different ones on two communicators, waited for in different orders. */
static void in_flight(MPI_Comm other)
{
    enum { N = 9000 };
    static int a[N], b[N], c[N], d[BLOCKS * 10], e[BLOCKS], sum[N], got[10];
    MPI_Request q[8];
    for (int turn = 0; turn < 6; turn++) {
        for (int i = 0; i < N; i++)
            a[i] = me == n - 1 ? value(turn, i) : 0, b[i] = me + i, c[i] = 0;
        for (int i = 0; i < 10 * n; i++)
            d[i] = me == 0 ? i + turn : 0;
        ok(MPI_Ibarrier(comm, &q[0]));
        ok(MPI_Ibcast(a, N, MPI_INT, n - 1, comm, &q[1]));
        ok(MPI_Iallreduce(b, sum, N, MPI_INT, MPI_SUM, other, &q[2]));
        ok(MPI_Iscan(b, c, 10, MPI_INT, MPI_SUM, comm, &q[3]));
        ok(MPI_Iscatter(d, 10, MPI_INT, got, 10, MPI_INT, 0, comm, &q[4]));
        ok(MPI_Iallgather(&turn, 1, MPI_INT, e, 1, MPI_INT, other, &q[5]));
        ok(MPI_Ibarrier(other, &q[6]));
        ok(MPI_Ireduce(b, c + 20, 10, MPI_INT, MPI_MAX, 0, comm, &q[7]));
        int done, left = 8;
        if (turn % 3 == 0)
            ok(MPI_Waitall(8, q, MPI_STATUSES_IGNORE));
        else if (turn % 3 == 1)
            for (int i = 0; i < 8; i++)
                ok(MPI_Wait(&q[me % 2 ? i : 7 - i], MPI_STATUS_IGNORE));
        else
            for (; left > 0; left--)
                ok(MPI_Waitany(8, q, &done, MPI_STATUS_IGNORE));
        for (int i = 0; i < N; i++) {
            expect(a[i] == value(turn, i), "bcast in flight", 1, i);
            expect(sum[i] == n * (n - 1) / 2 + n * i, "allreduce in flight", 1, i);
        }
        for (int i = 0; i < 10; i++) {
            expect(c[i] == me * (me + 1) / 2 + (me + 1) * i, "scan in flight", 1, i);
            expect(got[i] == me * 10 + i + turn, "scatter in flight", 1, i);
            expect(me > 0 || c[20 + i] == n - 1 + i, "reduce in flight", 1, i);
        }
        for (int i = 0; i < n; i++)
            expect(e[i] == turn, "allgather in flight", 1, i);
    }
}

/* More than there are slots, complete at the end; blocking ones in between. */
static void outstanding(void)
{
    enum { N = 150 };
    MPI_Request q[N];
    int in[N], out[N], sum = 0, flag = 0;
    for (int i = 0; i < N; i++) {
        in[i] = me == i % n ? i : -1;
        out[i] = -1;
        if (i % 2)
            ok(MPI_Iallreduce(&in[i], &out[i], 1, MPI_INT, MPI_MAX, comm, &q[i]));
        else
            ok(MPI_Ibcast(&in[i], 1, MPI_INT, i % n, comm, &q[i]));
        if (i % 50 == 49)
            ok(MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, comm));
    }
    expect(sum == (N - 1) * n, "allreduce among others", 0, sum);
    while (!flag)
        ok(MPI_Testall(N, q, &flag, MPI_STATUSES_IGNORE));
    for (int i = 0; i < N; i++)
        expect((i % 2 ? out[i] : in[i]) == i, "outstanding", 1, i);
}

/* Started many times, and not in the order in which they were made. */
static void persistent(void)
{
    MPI_Request q[3];
    int x = 0, y = 0, sum = 0;
    ok(MPI_Bcast_init(&x, 1, MPI_INT, 0, comm, MPI_INFO_NULL, &q[0]));
    ok(MPI_Allreduce_init(&y, &sum, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &q[1]));
    ok(MPI_Barrier_init(comm, MPI_INFO_NULL, &q[2]));
    for (int turn = 0; turn < 70; turn++) {
        x = me == 0 ? turn : -1;
        y = turn + me;
        int first = mild ? 0 : (me + turn) % 3;
        if (turn % 7 == 0) {
            ok(MPI_Startall(3, q));
        } else {
            for (int i = 0; i < 3; i++)
                ok(MPI_Start(&q[(first + i) % 3]));
        }
        if (turn % 2)
            ok(MPI_Barrier(comm));
        ok(MPI_Waitall(3, q, MPI_STATUSES_IGNORE));
        expect(x == turn, "bcast, started again", 2, turn);
        expect(sum == n * turn + n * (n - 1) / 2, "allreduce, started again", 2, turn);
    }
    for (int i = 0; i < 3; i++)
        ok(MPI_Request_free(&q[i]));
}

/* Types, operations and communicators freed while they are needed. */
static void freed_early(void)
{
    static struct side s;
    MPI_Datatype type;
    MPI_Op op;
    MPI_Comm c;
    MPI_Datatype named;
    MPI_Request q[3], p;
    int in[2] = { me + 2, me }, out[2], want[2] = { 2, 0 };
    ok(MPI_Comm_dup(comm, &c));
    ok(MPI_Type_dup(kinds[PAIR].type, &type));
    ok(MPI_Op_create(compose_pairs, 0, &op));
    named = type;
    type_of_pairs = type; /* where nothing is added up */
    ok(MPI_Iallreduce(in, out, 1, type, op, c, &q[0]));
    ok(MPI_Ibarrier(c, &q[1]));
    ok(MPI_Type_free(&type));
    ok(MPI_Op_free(&op));
    block(&s, 0, GAP, 50000);
    lay(&s, false);
    put(&s, s.want, 0, n);
    if (me == n - 1)
        put(&s, s.mem, 0, n);
    ok(MPI_Type_dup(kinds[GAP].type, &type));
    ok(MPI_Ibcast(buf(&s), s.counts[0], type, n - 1, c, &q[2]));
    ok(MPI_Type_free(&type));
    if (!mild)
        ok(MPI_Comm_free(&c));
    ok(MPI_Waitall(3, q, MPI_STATUSES_IGNORE));
    if (mild)
        ok(MPI_Comm_free(&c));
    check(&s, "bcast of a freed type", 1);
    for (int r = 1; r < n; r++) {
        int x[2] = { r + 2, r };
        compose(want, x);
        memcpy(want, x, sizeof want);
    }
    expect(memcmp(want, out, sizeof want) == 0, "allreduce with a freed operation", 1, 0);
    expect(type_of_pairs == named, "the type an operation is given", 1, 0);
    if (mild)
        return;
    ok(MPI_Type_dup(kinds[PAIR].type, &type));
    ok(MPI_Op_create(compose_pairs, 0, &op));
    ok(MPI_Allreduce_init(in, out, 1, type, op, comm, MPI_INFO_NULL, &p));
    ok(MPI_Type_free(&type));
    ok(MPI_Op_free(&op));
    for (int i = 0; i < 3; i++) {
        memset(out, 0, sizeof out);
        ok(MPI_Start(&p));
        ok(MPI_Wait(&p, MPI_STATUS_IGNORE));
        expect(memcmp(want, out, sizeof want) == 0, "the same, persistent", 2, i);
    }
    ok(MPI_Request_free(&p));
}

static void errors(void)
{
    int x = 0, class = MPI_SUCCESS;
    int rc = MPI_Bcast(&x, 1, MPI_INT, n, comm);
    ok(MPI_Error_class(rc, &class));
    expect(class == MPI_ERR_ROOT, "a root that is none", 0, class);
    rc = MPI_Allreduce(&x, &x, -1, MPI_INT, MPI_SUM, comm);
    ok(MPI_Error_class(rc, &class));
    expect(class == MPI_ERR_COUNT, "a negative count", 0, class);
}

/* ---- all of it ----------------------------------------------------------------------- */

static void data(void)
{
    static const int len[] = { 2, 0, 6, 600, 20000 };
    static const int pair[][2] = { { INT, INT }, { GAP, LATE }, { INT, GAP }, { BACKWARD, INT } };
    for (size_t l = 0; l < (few ? 3 : sizeof len / sizeof *len); l++) {
        for (size_t k = 0; k < sizeof pair / sizeof *pair; k++) {
            for (int in_place = 0; in_place < 2; in_place++) {
                struct shape p = { len[l], pair[k][0], pair[k][1], in_place };
                for (int root = 0; root<n; root += len[l]> 600 && root + 2 < n ? n - 2 : 1) {
                    bcast(&p, root);
                    gather(&p, root, false);
                    gather(&p, root, true);
                    scatter(&p, root, false);
                    scatter(&p, root, true);
                }
                allgather(&p, false);
                allgather(&p, true);
                for (int how = PLAIN; how <= W; how++)
                    alltoall(&p, how);
            }
        }
    }
}

static void reductions(void)
{
    static const int items[] = { 1, 0, 7, 300, 3000, 25000 };
    static const int how[][2] = { { INT, SUM }, { PAIR, ADD }, { GAP, ADD }, { PAIR, COMPOSE },
        { GAP, COMPOSE }, { TWOINT, MAXLOC } };
    for (size_t l = 0; l < (few ? 3 : sizeof items / sizeof *items); l++) {
        for (size_t k = 0; k < sizeof how / sizeof *how; k++) {
            for (int in_place = 0; in_place < 2; in_place++) {
                struct reduction p = { items[l], how[k][0], how[k][1], in_place };
                for (int root = 0; root<n; root += items[l]> 300 && root + 2 < n ? n - 2 : 1)
                    reduce(&p, root);
                reduce_to_all(&p, ALLREDUCE);
                reduce_to_all(&p, SCAN);
                reduce_to_all(&p, EXSCAN);
                reduce_scatter(&p, true);
                reduce_scatter(&p, false);
            }
        }
    }
    struct reduction large = { 90000, PAIR, COMPOSE, 0 };
    reduce(&large, n - 1);
    reduce_to_all(&large, ALLREDUCE);
    double_int();
    if (!mild)
        same_bits();
}

static void everything(MPI_Comm c, MPI_Comm other, const char *name)
{
    enter(c, name);
    FORMS(form)
    for (int i = 0; i < 3; i++)
        DO(form, Barrier, barrier, comm);
    data();
    reductions();
    in_flight(other);
    outstanding();
    persistent();
    freed_early();
    errors();
}

static void log_close(ftkit_ctx *ft)
{
    if (ft && ftkit_close(&ft) != FTKIT_OK)
        die("ftkit_close", 0, 0);
}

int main(int argc, char **argv)
{
    MPI_Comm other, half;
    long all = 0;
    ok(MPI_Init(&argc, &argv));
    ftkit_ctx *ft;
    int opened = overlog_open(&ft);
    if (opened < 0)
        die(ftkit_detail(ft), 0, opened);
    for (int i = 1; i < argc; i++) {
        mild |= strcmp(argv[i], "-m") == 0;
        few |= strcmp(argv[i], "-f") == 0;
    }
    ok(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    ok(MPI_Comm_rank(MPI_COMM_WORLD, &world_rank));
    make_kinds();
    ops[SUM] = MPI_SUM;
    ops[MAXLOC] = MPI_MAXLOC;
    ok(MPI_Op_create(add_pairs, 1, &ops[ADD]));
    ok(MPI_Op_create(compose_pairs, 0, &ops[COMPOSE]));
    ok(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    ok(MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, -world_rank, &half)); /* backwards */
    everything(MPI_COMM_WORLD, other, "the world");
    everything(half, half, "half of it");
    grids(MPI_COMM_WORLD);
    graph(MPI_COMM_WORLD);
    dist_graph(MPI_COMM_WORLD, true);
    dist_graph(MPI_COMM_WORLD, false);
    enter(MPI_COMM_WORLD, "the world");
    ok(MPI_Reduce(&checks, &all, 1, MPI_LONG, MPI_SUM, 0, comm));
    ok(MPI_Op_free(&ops[ADD]));
    ok(MPI_Op_free(&ops[COMPOSE]));
    ok(MPI_Comm_free(&half));
    ok(MPI_Comm_free(&other));
    free_kinds();
    if (world_rank == 0)
        printf("OK %ld\n", all);
    log_close(ft);
    ok(MPI_Finalize());
    return 0;
}
