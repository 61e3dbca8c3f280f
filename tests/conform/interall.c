/* ranks: 2 4 5
 * Collectives on intercommunicators (MPI 4.0, 6.2.2 and 6.2.3) in their three forms: what
 * goes from one rank goes to the other group, what comes to one rank comes from there;
 * the others take their part in both directions at once, with sizes that may differ.
 * Operands are combined in the order of the ranks of a group.  There is no MPI_Scan, and
 * nothing in place.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "intergroups.h"

#include <string.h>

enum { LARGE = 40000, ROOM = LARGE };

/* Blocking, non-blocking, persistent.  Open MPI 5.0.7 itself hangs in MPI_Ibcast. */
static int forms(void)
{
    return over_log() ? 3 : 1;
}

/* Call it in one of the forms, all the way. */
#define DO(form, Name, name, ...)                                                                  \
    do {                                                                                           \
        MPI_Request q_ = MPI_REQUEST_NULL;                                                         \
        if ((form) == 0) {                                                                         \
            OK(MPI_##Name(__VA_ARGS__));                                                           \
            break;                                                                                 \
        }                                                                                          \
        if ((form) == 1) {                                                                         \
            OK(MPI_I##name(__VA_ARGS__, &q_));                                                     \
        } else {                                                                                   \
            OK(MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &q_));                                \
            OK(MPI_Start(&q_));                                                                    \
        }                                                                                          \
        OK(MPI_Wait(&q_, MPI_STATUS_IGNORE));                                                      \
        if ((form) == 2)                                                                           \
            OK(MPI_Request_free(&q_));                                                             \
    } while (0)

static int out[ROOM], in[ROOM];

/* What a rank of the world has at i. */
static int value(int rank, int i)
{
    return 1000 * (rank + 1) + i % 997;
}

static void fill(int items)
{
    for (int i = 0; i < items; i++)
        out[i] = value(me, i);
    memset(in, 0, sizeof in);
}

/* items of in from at on are those that a rank has from there on. */
static void is_from(int rank, int at, int items, int there)
{
    for (int i = 0; i < items; i++)
        if (in[at + i] != value(rank, there + i))
            EQUAL(value(rank, there + i), in[at + i]);
    checks++;
}

/* What this process gives for a root: the r-th rank of a side. */
static int root_of(const struct groups *g, int side, int r)
{
    if (g->side[me] != side)
        return r;
    return g->rank == r ? MPI_ROOT : MPI_PROC_NULL;
}

static int size_of(const struct groups *g, int side)
{
    return g->side[me] == side ? g->nmine : g->ntheirs;
}

/* Every rank of both groups is the root once. */
#define EACH_ROOT(g, form, side, r)                                                                \
    for (int form = 0; form < forms(); form++)                                                     \
        for (int side = 0; side < 2; side++)                                                       \
            for (int r = 0, root = root_of(g, side, 0); r < size_of(g, side);                      \
                 root = root_of(g, side, ++r))

/* ---- with a root
 * ------------------------------------------------------------------------*/

static void bcast(struct groups *g)
{
    const int sizes[] = { 1, 0, 300, LARGE };
    MPI_Datatype gaps;
    EACH_ROOT(g, form, side, r)
    {
        for (int k = 0; k < 4; k++) {
            fill(sizes[k]);
            DO(form, Bcast, bcast,
                root == MPI_ROOT ? out
                : root < 0       ? NULL
                                 : in,
                root == MPI_PROC_NULL ? 0 : sizes[k], MPI_INT, root, g->inter);
            if (root >= 0)
                is_from(g->theirs[r], 0, sizes[k], 0);
        }
    }
    /* into another type of the same items */
    OK(MPI_Type_vector(100, 1, 2, MPI_INT, &gaps));
    OK(MPI_Type_commit(&gaps));
    EACH_ROOT(g, form, side, r)
    {
        fill(100);
        if (root < 0)
            DO(form, Bcast, bcast, out, 100, MPI_INT, root, g->inter);
        else
            DO(form, Bcast, bcast, in, 1, gaps, root, g->inter);
        for (int i = 0; i < 200 && root >= 0; i++)
            EQUAL(i % 2 ? 0 : value(g->theirs[r], i / 2), in[i]);
    }
    OK(MPI_Type_free(&gaps));
}

/* Rank i of a group has i + 1 items in the forms with a v, three in those without. */
static void gather(struct groups *g)
{
    int counts[MOST], displs[MOST];
    for (int i = 0; i < g->ntheirs; i++) {
        counts[i] = i + 1;
        displs[i] = 10 * (g->ntheirs - 1 - i);
    }
    EACH_ROOT(g, form, side, r)
    {
        fill(20);
        DO(form, Gather, gather, out, 3, MPI_INT, in, 3, MPI_INT, root, g->inter);
        for (int i = 0; i < g->ntheirs && root == MPI_ROOT; i++)
            is_from(g->theirs[i], 3 * i, 3, 0);
        fill(20);
        DO(form, Gatherv, gatherv, out, g->rank + 1, MPI_INT, in, counts, displs, MPI_INT, root,
            g->inter);
        for (int i = 0; i < g->ntheirs && root == MPI_ROOT; i++)
            is_from(g->theirs[i], displs[i], counts[i], 0);
    }
}

static void scatter(struct groups *g)
{
    int counts[MOST], displs[MOST];
    for (int i = 0; i < g->ntheirs; i++) {
        counts[i] = i + 1;
        displs[i] = 10 * (g->ntheirs - 1 - i);
    }
    EACH_ROOT(g, form, side, r)
    {
        fill(200);
        DO(form, Scatter, scatter, out, 3, MPI_INT, in, 3, MPI_INT, root, g->inter);
        if (root >= 0)
            is_from(g->theirs[r], 0, 3, 3 * g->rank);
        fill(200);
        DO(form, Scatterv, scatterv, out, counts, displs, MPI_INT, in, g->rank + 1, MPI_INT, root,
            g->inter);
        if (root >= 0)
            is_from(g->theirs[r], 0, g->rank + 1, 10 * (g->nmine - 1 - g->rank));
    }
}

/* ---- everybody has something for the other group
 * ------------------------------------------*/

/* The two groups may give different amounts: three and two items. */
static void allgather(struct groups *g)
{
    int counts[MOST], displs[MOST];
    int give = g->side[me] ? 3 : 2, take = g->side[me] ? 2 : 3;
    MPI_Datatype pair;
    for (int i = 0; i < g->ntheirs; i++) {
        counts[i] = i + take;
        displs[i] = 10 * (g->ntheirs - 1 - i);
    }
    for (int form = 0; form < forms(); form++) {
        fill(20);
        DO(form, Allgather, allgather, out, give, MPI_INT, in, take, MPI_INT, g->inter);
        for (int i = 0; i < g->ntheirs; i++)
            is_from(g->theirs[i], take * i, take, 0);
        fill(20);
        DO(form, Allgatherv, allgatherv, out, g->rank + give, MPI_INT, in, counts, displs, MPI_INT,
            g->inter);
        for (int i = 0; i < g->ntheirs; i++)
            is_from(g->theirs[i], displs[i], counts[i], 0);
        fill(2000);
        DO(form, Allgather, allgather, out, 2000, MPI_INT, in, 2000, MPI_INT, g->inter);
        for (int i = 0; i < g->ntheirs; i++)
            is_from(g->theirs[i], 2000 * i, 2000, 0);
    }
    OK(MPI_Type_vector(2, 1, 3, MPI_INT, &pair)); /* two items and a gap between them */
    OK(MPI_Type_commit(&pair));
    for (int form = 0; form < forms(); form++) {
        fill(20);
        DO(form, Allgather, allgather, out, 2, MPI_INT, in, 1, pair, g->inter);
        for (int i = 0; i < g->ntheirs; i++) {
            EQUAL(value(g->theirs[i], 0), in[4 * i]);
            EQUAL(0, in[4 * i + 1]);
            EQUAL(value(g->theirs[i], 1), in[4 * i + 3]);
        }
    }
    OK(MPI_Type_free(&pair));
}

/* Items that rank a of side 0 and rank b of side 1 have for each other. */
static int share(const struct groups *g, int peer)
{
    int a = g->side[me] ? peer : g->rank, b = g->side[me] ? g->rank : peer;
    return (a + 2 * b) % 4;
}

static void alltoall(struct groups *g)
{
    int counts[MOST], displs[MOST], bytes[MOST];
    MPI_Datatype types[MOST];
    for (int i = 0; i < g->ntheirs; i++) {
        counts[i] = share(g, i);
        displs[i] = 10 * i;
        bytes[i] = (int)sizeof(int) * displs[i];
        types[i] = MPI_INT;
    }
    for (int form = 0; form < forms(); form++) {
        fill(200);
        DO(form, Alltoall, alltoall, out, 2, MPI_INT, in, 2, MPI_INT, g->inter);
        for (int i = 0; i < g->ntheirs; i++)
            is_from(g->theirs[i], 2 * i, 2, 2 * g->rank);
        fill(200);
        DO(form, Alltoallv, alltoallv, out, counts, displs, MPI_INT, in, counts, displs, MPI_INT,
            g->inter);
        for (int i = 0; i < g->ntheirs; i++)
            is_from(g->theirs[i], displs[i], counts[i], 10 * g->rank);
        fill(200);
        DO(form, Alltoallw, alltoallw, out, counts, bytes, types, in, counts, bytes, types,
            g->inter);
        for (int i = 0; i < g->ntheirs; i++)
            is_from(g->theirs[i], displs[i], counts[i], 10 * g->rank);
    }
}

/* ---- reductions
 * ---------------------------------------------------------------------------*/

/* The sum of what the ranks of a list have at i. */
static int sum(const int *list, int count, int i)
{
    int all = 0;
    for (int k = 0; k < count; k++)
        all += value(list[k], i);
    return all;
}

static void is_sum(const int *list, int count, int items, int from)
{
    for (int i = 0; i < items; i++)
        if (in[i] != sum(list, count, from + i))
            EQUAL(sum(list, count, from + i), in[i]);
    checks++;
}

/* Affine functions x -> a x + b, one after the other: they do not commute. */
static void compose(void *first, void *then, int *len, MPI_Datatype *type)
{
    unsigned *x = first, *y = then;
    (void)type;
    for (int i = 0; i < *len; i++, x += 2, y += 2) {
        unsigned a = x[0] * y[0], b = y[0] * x[1] + y[1];
        y[0] = a;
        y[1] = b;
    }
}

static void composed(const int *list, int count)
{
    unsigned all[2] = { 1, 0 }, got[2];
    for (int k = 0; k < count; k++) {
        unsigned next[2] = { (unsigned)value(list[k], 0), (unsigned)value(list[k], 1) };
        int one = 1;
        compose(all, next, &one, NULL);
        memcpy(all, next, sizeof all);
    }
    memcpy(got, in, sizeof got);
    EQUAL(all[0], got[0]);
    EQUAL(all[1], got[1]);
}

static void reduce(struct groups *g)
{
    const int sizes[] = { 1, 0, 7, LARGE };
    MPI_Op op;
    OK(MPI_Op_create(compose, 0, &op));
    EACH_ROOT(g, form, side, r)
    {
        for (int k = 0; k < 4; k++) {
            fill(sizes[k]);
            DO(form, Reduce, reduce, out, in, sizes[k], MPI_INT, MPI_SUM, root, g->inter);
            if (root == MPI_ROOT)
                is_sum(g->theirs, g->ntheirs, sizes[k], 0);
        }
        fill(2);
        DO(form, Reduce, reduce, out, in, 1, MPI_2INT, op, root, g->inter);
        if (root == MPI_ROOT)
            composed(g->theirs, g->ntheirs);
    }
    for (int form = 0; form < forms(); form++) {
        for (int k = 0; k < 4; k++) {
            fill(sizes[k]);
            DO(form, Allreduce, allreduce, out, in, sizes[k], MPI_INT, MPI_SUM, g->inter);
            is_sum(g->theirs, g->ntheirs, sizes[k], 0);
        }
        fill(2);
        DO(form, Allreduce, allreduce, out, in, 1, MPI_2INT, op, g->inter);
        composed(g->theirs, g->ntheirs);
    }
    OK(MPI_Op_free(&op));
}

/* As many items as both sizes divide; with counts the first rank has one less than its
 * share, the last one more. */
static void reduce_scatter(struct groups *g)
{
    int counts[MOST], share = 2 * g->ntheirs, from = 0;
    for (int i = 0; i < g->nmine; i++)
        counts[i] = share;
    counts[0]--;
    counts[g->nmine - 1]++;
    for (int i = 0; i < g->rank; i++)
        from += counts[i];
    for (int form = 0; form < forms(); form++) {
        fill(share * g->nmine);
        DO(form, Reduce_scatter_block, reduce_scatter_block, out, in, share, MPI_INT, MPI_SUM,
            g->inter);
        is_sum(g->theirs, g->ntheirs, share, share * g->rank);
        fill(share * g->nmine);
        DO(form, Reduce_scatter, reduce_scatter, out, in, counts, MPI_INT, MPI_SUM, g->inter);
        is_sum(g->theirs, g->ntheirs, counts[g->rank], from);
    }
}

/* ---- without data, several at once, and what there is not
 * -----------------------------------*/

/* Nobody leaves a barrier before all ranks of the other group have come to it: one of
 * them is late, until every rank of the other group has seen that it is not through. */
static void late(struct groups *g, int side, int form)
{
    MPI_Request q = MPI_REQUEST_NULL;
    int flag = 0, is_late = g->side[me] == side && g->rank == 0;
    for (int i = 0; i < g->ntheirs && is_late; i++)
        OK(MPI_Recv(&flag, 1, MPI_INT, i, 5, g->inter, MPI_STATUS_IGNORE));
    if (form == 1) {
        OK(MPI_Ibarrier(g->inter, &q));
    } else {
        OK(MPI_Barrier_init(g->inter, MPI_INFO_NULL, &q));
        OK(MPI_Start(&q));
    }
    for (int i = 0; i < 20 && g->side[me] != side; i++) {
        OK(MPI_Test(&q, &flag, MPI_STATUS_IGNORE));
        EQUAL(0, flag);
    }
    if (g->side[me] != side)
        OK(MPI_Send(&flag, 1, MPI_INT, 0, 5, g->inter));
    OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
    if (form == 2)
        OK(MPI_Request_free(&q));
}

static void barrier(struct groups *g)
{
    OK(MPI_Barrier(g->inter));
    for (int form = 1; form < forms(); form++) {
        late(g, 0, form);
        late(g, 1, form);
    }
    OK(MPI_Barrier(g->inter));
}

static void several(struct groups *g)
{
    MPI_Request q[4];
    int all = 0, got[MOST], first = -1;
    if (forms() == 1)
        return;
    fill(10);
    OK(MPI_Iallreduce(&out[1], &all, 1, MPI_INT, MPI_SUM, g->inter, &q[0]));
    OK(MPI_Iallgather(&out[2], 1, MPI_INT, got, 1, MPI_INT, g->inter, &q[1]));
    OK(MPI_Ibcast(g->side[me] ? &out[3] : &first, 1, MPI_INT, root_of(g, 1, 0), g->inter, &q[2]));
    OK(MPI_Iallreduce(out, in, 10, MPI_INT, MPI_SUM, g->inter, &q[3]));
    for (int i = 3; i >= 0; i--)
        OK(MPI_Wait(&q[i], MPI_STATUS_IGNORE));
    EQUAL(sum(g->theirs, g->ntheirs, 1), all);
    for (int i = 0; i < g->ntheirs; i++)
        EQUAL(value(g->theirs[i], 2), got[i]);
    EQUAL(g->side[me] ? -1 : value(g->theirs[0], 3), first);
    is_sum(g->theirs, g->ntheirs, 10, 0);
}

static void fails(int rc)
{
    TRUE(rc != MPI_SUCCESS);
}

static void mistakes(struct groups *g)
{
    MPI_Request q;
    fails(MPI_Bcast(in, 1, MPI_INT, g->ntheirs, g->inter));
    if (!over_log())
        return; /* Open MPI 5.0.7 crashes in MPI_Scan, and takes some others */
    fails(MPI_Scan(out, in, 1, MPI_INT, MPI_SUM, g->inter));
    fails(MPI_Exscan(out, in, 1, MPI_INT, MPI_SUM, g->inter));
    fails(MPI_Iscan(out, in, 1, MPI_INT, MPI_SUM, g->inter, &q));
    fails(MPI_Allreduce(MPI_IN_PLACE, in, 1, MPI_INT, MPI_SUM, g->inter));
    fails(MPI_Allgather(MPI_IN_PLACE, 1, MPI_INT, in, 1, MPI_INT, g->inter));
    fails(MPI_Reduce(MPI_IN_PLACE, in, 1, MPI_INT, MPI_SUM, 0, g->inter));
    fails(MPI_Neighbor_allgather(out, 1, MPI_INT, in, 1, MPI_INT, g->inter));
    fails(MPI_Gather(out, 1, MPI_INT, in, 1, MPI_INT, -77, g->inter));
}

static void body(void)
{
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    groups_each(bcast);
    groups_each(gather);
    groups_each(scatter);
    groups_each(allgather);
    groups_each(alltoall);
    groups_each(reduce);
    groups_each(reduce_scatter);
    groups_each(barrier);
    groups_each(several);
    groups_each(mistakes);
}

int main(int argc, char **argv)
{
    return conform(argc, argv, body);
}
