/* Collectives: every step does one, another one each step, on another communicator, now
 * blocking, now non-blocking, now persistent, with another root and another length.  What
 * comes out goes bit by bit into the state of the rank, from which the next step takes
 * what it puts in: a sum whose last bit is another one changes all that follows.
 *
 * The communicators: all ranks, halves across and inside teams of two, backwards, all but
 * the last rank, a grid; one that is made and freed in a step, and one that is made in one
 * step and freed some steps later.  A step passes app.mid once: between the begin and the
 * wait of what does not block, and before what does.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

#define RANKS 16  /* at most */
#define LONG 3000 /* doubles of the longest contribution */
#define ROOM (LONG * RANKS)
#define NEIGHBOURS 4

enum { WORLD, ACROSS, INSIDE, BACKWARDS, MOST, GRID, LASTING };

static struct {
    uint64_t state;   /* of the rank, registered */
    double *in, *out; /* [ROOM] */
    size_t used;      /* of out */
    MPI_Comm comms[LASTING];
    MPI_Comm some; /* lives for some steps */
    MPI_Datatype pair;
    MPI_Op compose;
    MPI_Request kept[3]; /* persistent from the beginning */
    double kept_in[RANKS], kept_out[3][RANKS];
    /* of the collective of this step */
    MPI_Comm comm;
    int form, me, n, root, len;
    int counts[RANKS], from[RANKS], displs[RANKS], fdispls[RANKS];
    int bytes[RANKS], fbytes[RANKS];
    MPI_Datatype types[RANKS];
} c;

static const int lengths[] = { 1, 7, 64, 65, 600, LONG };

/* In one of three forms, all the way. */
#define DO(Name, name, ...)                                                                        \
    do {                                                                                           \
        MPI_Request q_ = MPI_REQUEST_NULL;                                                         \
        if (c.form == 0) {                                                                         \
            (void)FTK_FAULT("app.mid");                                                            \
            MPI_##Name(__VA_ARGS__);                                                               \
            break;                                                                                 \
        }                                                                                          \
        if (c.form == 1) {                                                                         \
            MPI_I##name(__VA_ARGS__, &q_);                                                         \
        } else {                                                                                   \
            MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &q_);                                    \
            MPI_Start(&q_);                                                                        \
        }                                                                                          \
        (void)FTK_FAULT("app.mid");                                                                \
        MPI_Wait(&q_, MPI_STATUS_IGNORE);                                                          \
        if (c.form == 2)                                                                           \
            MPI_Request_free(&q_);                                                                 \
    } while (0)

/* What is between two ranks of a collective with different counts; now and then nothing. */
static int between(int a, int b)
{
    return c.len * ((a + 2 * b) % 3) / 2;
}

static void lay_out(int n)
{
    for (int i = 0, at = 0, fat = 0; i < n; i++) {
        c.counts[i] = between(c.me, i);
        c.from[i] = between(i, c.me);
        c.displs[i] = at;
        c.fdispls[i] = fat;
        c.bytes[i] = at * (int)sizeof(double);
        c.fbytes[i] = fat * (int)sizeof(double);
        c.types[i] = MPI_DOUBLE;
        at += c.counts[i];
        fat += c.from[i];
        c.used = (size_t)fat;
    }
}

/* ---- the collectives ----------------------------------------------------------------- */

static void barrier(void)
{
    DO(Barrier, barrier, c.comm);
}

static void bcast(void)
{
    if (c.me == c.root)
        memcpy(c.out, c.in, (size_t)c.len * sizeof *c.out);
    c.used = (size_t)c.len;
    DO(Bcast, bcast, c.out, c.len, MPI_DOUBLE, c.root, c.comm);
}

static void gather(void)
{
    c.used = (size_t)(c.len * c.n);
    DO(Gather, gather, c.in, c.len, MPI_DOUBLE, c.out, c.len, MPI_DOUBLE, c.root, c.comm);
}

static void gatherv(void)
{
    int sent = between(c.me, c.root);
    lay_out(c.n);
    DO(Gatherv, gatherv, c.in, sent, MPI_DOUBLE, c.out, c.from, c.fdispls, MPI_DOUBLE, c.root,
        c.comm);
}

static void scatter(void)
{
    c.used = (size_t)c.len;
    DO(Scatter, scatter, c.in, c.len, MPI_DOUBLE, c.out, c.len, MPI_DOUBLE, c.root, c.comm);
}

static void scatterv(void)
{
    lay_out(c.n);
    c.used = (size_t)between(c.root, c.me);
    DO(Scatterv, scatterv, c.in, c.counts, c.displs, MPI_DOUBLE, c.out, (int)c.used, MPI_DOUBLE,
        c.root, c.comm);
}

static void allgather(void)
{
    c.used = (size_t)(c.len * c.n);
    DO(Allgather, allgather, c.in, c.len, MPI_DOUBLE, c.out, c.len, MPI_DOUBLE, c.comm);
}

static void allgatherv(void)
{
    int at = 0;
    for (int i = 0; i < c.n; i++) {
        c.from[i] = between(i, 0);
        c.fdispls[i] = at;
        at += c.from[i];
    }
    c.used = (size_t)at;
    DO(Allgatherv, allgatherv, c.in, between(c.me, 0), MPI_DOUBLE, c.out, c.from, c.fdispls,
        MPI_DOUBLE, c.comm);
}

static void alltoall(void)
{
    c.used = (size_t)(c.len * c.n);
    DO(Alltoall, alltoall, c.in, c.len, MPI_DOUBLE, c.out, c.len, MPI_DOUBLE, c.comm);
}

static void alltoallv(void)
{
    lay_out(c.n);
    DO(Alltoallv, alltoallv, c.in, c.counts, c.displs, MPI_DOUBLE, c.out, c.from, c.fdispls,
        MPI_DOUBLE, c.comm);
}

static void alltoallw(void)
{
    lay_out(c.n);
    DO(Alltoallw, alltoallw, c.in, c.counts, c.bytes, c.types, c.out, c.from, c.fbytes, c.types,
        c.comm);
}

static void reduce(void)
{
    c.used = (size_t)c.len;
    DO(Reduce, reduce, c.in, c.out, c.len, MPI_DOUBLE, MPI_SUM, c.root, c.comm);
}

static void allreduce(void)
{
    c.used = (size_t)c.len;
    DO(Allreduce, allreduce, c.in, c.out, c.len, MPI_DOUBLE, MPI_SUM, c.comm);
}

/* An operation that depends on the order. */
static void composed(void)
{
    c.used = 2 * (size_t)c.len;
    DO(Allreduce, allreduce, c.in, c.out, c.len, c.pair, c.compose, c.comm);
}

static void reduce_scatter(void)
{
    for (int i = 0; i < c.n; i++)
        c.from[i] = between(i, 1);
    c.used = (size_t)c.from[c.me];
    DO(Reduce_scatter, reduce_scatter, c.in, c.out, c.from, MPI_DOUBLE, MPI_SUM, c.comm);
}

static void reduce_scatter_block(void)
{
    c.used = (size_t)c.len;
    DO(Reduce_scatter_block, reduce_scatter_block, c.in, c.out, c.len, MPI_DOUBLE, MPI_SUM, c.comm);
}

static void scan(void)
{
    c.used = (size_t)c.len;
    DO(Scan, scan, c.in, c.out, c.len, MPI_DOUBLE, MPI_SUM, c.comm);
}

static void exscan(void)
{
    c.used = (size_t)c.len;
    DO(Exscan, exscan, c.in, c.out, c.len, MPI_DOUBLE, MPI_SUM, c.comm);
}

/* Several at once, waited for out of their order. */
static void several(void)
{
    MPI_Request q[4];
    const size_t n = (size_t)c.len;
    double *next = c.out + n * (size_t)(1 + c.n);
    if (c.me == c.root)
        memcpy(c.out, c.in, n * sizeof *c.out);
    c.used = n * (size_t)(2 + c.n);
    if (c.used > ROOM)
        return;
    MPI_Ibcast(c.out, c.len, MPI_DOUBLE, c.root, c.comm, &q[0]);
    MPI_Iallgather(c.in, c.len, MPI_DOUBLE, c.out + n, c.len, MPI_DOUBLE, c.comm, &q[1]);
    MPI_Ibarrier(c.comm, &q[2]);
    MPI_Iscan(c.in, next, c.len, MPI_DOUBLE, MPI_SUM, c.comm, &q[3]);
    (void)FTK_FAULT("app.mid");
    for (int i = 0; i < 4; i++)
        MPI_Wait(&q[(3 - i + c.me) % 4], MPI_STATUS_IGNORE);
}

/* Those of before the loop, all of them or one. */
static void started(void)
{
    int first = c.len % 2 ? 0 : c.len / 2 % 3, last = c.len % 2 ? 3 : first + 1;
    for (int i = 0; i < RANKS; i++)
        c.kept_in[i] = c.kept_out[0][i] = c.in[i];
    for (int i = first; i < last; i++)
        MPI_Start(&c.kept[i]);
    (void)FTK_FAULT("app.mid");
    MPI_Waitall(3, c.kept, MPI_STATUSES_IGNORE);
    memcpy(c.out, c.kept_out, sizeof c.kept_out);
    c.used = sizeof c.kept_out / sizeof *c.out;
}

/* ---- with the neighbours on the grid ------------------------------------------------- */

static void neighbor_allgather(void)
{
    c.used = (size_t)(c.len * NEIGHBOURS);
    DO(Neighbor_allgather, neighbor_allgather, c.in, c.len, MPI_DOUBLE, c.out, c.len, MPI_DOUBLE,
        c.comm);
}

/* Opposite neighbours have the same count in both directions. */
static void lay_out_neighbours(int first, int second)
{
    int at = 0;
    for (int i = 0; i < NEIGHBOURS; i++) {
        c.counts[i] = c.from[i] = i / 2 ? second : first;
        c.displs[i] = c.fdispls[i] = at;
        c.types[i] = MPI_DOUBLE;
        at += c.counts[i];
    }
    c.used = (size_t)at;
}

static void neighbor_allgatherv(void)
{
    lay_out_neighbours(c.len, c.len);
    DO(Neighbor_allgatherv, neighbor_allgatherv, c.in, c.len, MPI_DOUBLE, c.out, c.from, c.fdispls,
        MPI_DOUBLE, c.comm);
}

static void neighbor_alltoall(void)
{
    c.used = (size_t)(c.len * NEIGHBOURS);
    DO(Neighbor_alltoall, neighbor_alltoall, c.in, c.len, MPI_DOUBLE, c.out, c.len, MPI_DOUBLE,
        c.comm);
}

static void neighbor_alltoallv(void)
{
    lay_out_neighbours(c.len, c.len / 2);
    DO(Neighbor_alltoallv, neighbor_alltoallv, c.in, c.counts, c.displs, MPI_DOUBLE, c.out, c.from,
        c.fdispls, MPI_DOUBLE, c.comm);
}

static void neighbor_alltoallw(void)
{
    MPI_Aint far[NEIGHBOURS];
    lay_out_neighbours(c.len / 2, c.len);
    for (int i = 0; i < NEIGHBOURS; i++)
        far[i] = c.displs[i] * (MPI_Aint)sizeof(double);
    DO(Neighbor_alltoallw, neighbor_alltoallw, c.in, c.counts, far, c.types, c.out, c.from, far,
        c.types, c.comm);
}

static const struct collective {
    void (*call)(void);
    int on; /* the one communicator it is for, or -1 */
} collectives[] = { { barrier, -1 }, { bcast, -1 }, { gather, -1 }, { gatherv, -1 },
    { scatter, -1 }, { scatterv, -1 }, { allgather, -1 }, { allgatherv, -1 }, { alltoall, -1 },
    { alltoallv, -1 }, { alltoallw, -1 }, { reduce, -1 }, { allreduce, -1 }, { composed, -1 },
    { reduce_scatter, -1 }, { reduce_scatter_block, -1 }, { scan, -1 }, { exscan, -1 },
    { several, -1 }, { started, WORLD }, { neighbor_allgather, GRID },
    { neighbor_allgatherv, GRID }, { neighbor_alltoall, GRID }, { neighbor_alltoallv, GRID },
    { neighbor_alltoallw, GRID } };

enum { CALLS = sizeof collectives / sizeof *collectives };

/* ---- the program --------------------------------------------------------------------- */

/* Pairs (a, b) stand for the function x -> a x + b, done one after the other. */
static void compose(void *in, void *inout, int *len, MPI_Datatype *type)
{
    const double *f = in;
    double *g = inout;
    (void)type;
    for (int i = 0; i < *len; i++, f += 2, g += 2) {
        g[1] = f[1] * g[0] + g[1];
        g[0] = f[0] * g[0];
    }
}

static int prepare(struct foreign *f)
{
    if (f->nranks > RANKS)
        return 1;
    c.in = calloc(ROOM, sizeof *c.in);
    c.out = calloc(ROOM, sizeof *c.out);
    if (!c.in || !c.out)
        return 1;
    c.state = foreign_mix((uint64_t)f->rank, 5);
    c.some = MPI_COMM_NULL;
    for (int i = 0; i < LASTING; i++)
        c.comms[i] = MPI_COMM_NULL;
    MPI_Type_contiguous(2, MPI_DOUBLE, &c.pair);
    MPI_Type_commit(&c.pair);
    MPI_Op_create(compose, 0, &c.compose);
    return ftkit_register(f->ft, "state", &c.state, 1, MPI_UINT64_T) != FTKIT_OK
           || ftkit_register_comm(f->ft, "some", &c.some) != FTKIT_OK;
}

static int connect_ranks(struct foreign *f)
{
    int dims[2] = { 0, 0 }, rc = 0;
    const int periods[2] = { 1, 1 };
    MPI_Dims_create(f->nranks, 2, dims);
    rc |= MPI_Comm_dup(f->comm, &c.comms[WORLD]);
    rc |= MPI_Comm_split(f->comm, f->rank % 2, f->rank, &c.comms[ACROSS]);
    rc |= MPI_Comm_split(f->comm, f->rank / 2, f->rank, &c.comms[INSIDE]);
    rc |= MPI_Comm_split(f->comm, 0, -f->rank, &c.comms[BACKWARDS]);
    rc |= MPI_Comm_split(f->comm, f->rank < f->nranks - 1 ? 0 : MPI_UNDEFINED, 0, &c.comms[MOST]);
    rc |= MPI_Cart_create(f->comm, 2, dims, periods, 0, &c.comms[GRID]);
    rc |= MPI_Bcast_init(
        c.kept_out[0], RANKS, MPI_DOUBLE, 0, c.comms[WORLD], MPI_INFO_NULL, &c.kept[0]);
    rc |= MPI_Allreduce_init(c.kept_in, c.kept_out[1], RANKS, MPI_DOUBLE, MPI_SUM, c.comms[WORLD],
        MPI_INFO_NULL, &c.kept[1]);
    rc |= MPI_Alltoall_init(c.kept_in, 1, MPI_DOUBLE, c.kept_out[2], 1, MPI_DOUBLE, c.comms[WORLD],
        MPI_INFO_NULL, &c.kept[2]);
    return rc != MPI_SUCCESS;
}

static void disconnect(void)
{
    for (int i = 0; i < 3; i++)
        if (c.kept[i] != MPI_REQUEST_NULL)
            MPI_Request_free(&c.kept[i]);
    for (int i = 0; i < LASTING; i++)
        if (c.comms[i] != MPI_COMM_NULL)
            MPI_Comm_free(&c.comms[i]);
}

/* Full bits, some orders of magnitude, both signs: sums are rounded. */
static double value(uint64_t seed, int i)
{
    uint64_t bits = foreign_mix((uint64_t)i, seed);
    double x = (double)(bits >> 11) * 0x1p-53 - 0.5;
    return x * (double)(1 << bits % 20);
}

static void collective(const struct foreign *f, const struct collective *op, MPI_Comm comm)
{
    MPI_Comm_rank(comm, &c.me);
    MPI_Comm_size(comm, &c.n);
    c.comm = comm;
    c.root = (f->step * 3 + f->step / 5) % c.n;
    c.len = lengths[(f->step * 5 + f->step / CALLS) % (int)(sizeof lengths / sizeof(int))];
    c.used = 0;
    for (int i = 0; i < ROOM; i++) {
        if (i < c.len * 2 * RANKS || i < RANKS)
            c.in[i] = value(c.state, i);
        c.out[i] = 0;
    }
    op->call();
    c.state = XXH3_64bits_withSeed(c.out, c.used * sizeof *c.out, c.state + 1);
}

/* One that is made, used and freed. */
static void passing(const struct foreign *f, const struct collective *op)
{
    MPI_Comm made = MPI_COMM_NULL;
    int rc = f->step % 2 ? MPI_Comm_dup(c.comms[ACROSS], &made)
                         : MPI_Comm_split(f->comm, (f->rank + f->step / 4) % 2, 0, &made);
    if (rc != MPI_SUCCESS)
        return;
    collective(f, op, made);
    MPI_Comm_free(&made);
}

/* One that is made in a step and freed in a later one. */
static MPI_Comm lasting(const struct foreign *f)
{
    int phase = f->step % 5;
    if (phase == 0) {
        if (MPI_Comm_split(f->comm, f->step % 10 ? f->rank / 2 : f->rank % 2, -f->rank, &c.some)
            != MPI_SUCCESS)
            c.some = MPI_COMM_NULL;
    }
    return phase < 3 ? c.some : MPI_COMM_NULL;
}

static void step(struct foreign *f)
{
    const struct collective *op = &collectives[f->step % CALLS];
    MPI_Comm some = lasting(f);
    int on = f->step * 3 / 2 % (LASTING + 2);
    c.form = (f->step + f->step / CALLS) % 3;
    if (op->on >= 0)
        collective(f, op, c.comms[op->on]);
    else if (on == LASTING && some != MPI_COMM_NULL)
        collective(f, op, some);
    else if (on >= LASTING)
        passing(f, op);
    else if (c.comms[on] != MPI_COMM_NULL)
        collective(f, op, c.comms[on]);
    if (f->step % 5 == 3 && c.some != MPI_COMM_NULL)
        MPI_Comm_free(&c.some);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    *hash = foreign_total(f, foreign_mix(c.state, (uint64_t)f->rank));
    snprintf(detail, room, "%d collectives", (int)CALLS);
    return true;
}

static void release(void)
{
    MPI_Op_free(&c.compose);
    MPI_Type_free(&c.pair);
    free(c.in);
    free(c.out);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "collect", 75, 1, prepare, connect_ranks, disconnect,
        step, verdict, release };
    return foreign_main(argc, argv, &app);
}
