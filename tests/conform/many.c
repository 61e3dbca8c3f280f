/* ranks: 2 4
 * A program may have as many communicators as it likes (MPI 4.0, 6.4): 500 in use at once,
 * and 10,000 made and freed.  A message is received on the communicator that the message
 * was sent on, by its tag or by any tag, posted or probed for (3.5, 3.8), also when the
 * message of another communicator has come before.  MPI_TAG_UB holds for each (9.1.2).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "conform.h"

enum { MANY = 500, ROUNDS = 10000, LONG = 200000, TAG = 3 };

static MPI_Comm comm[MANY];

/* Neighbours in a ring, in the order of ranks of a communicator. */
static int to(MPI_Comm c)
{
    int rank, size;
    OK(MPI_Comm_rank(c, &rank));
    OK(MPI_Comm_size(c, &size));
    return (rank + 1) % size;
}

static int from(MPI_Comm c)
{
    int rank, size;
    OK(MPI_Comm_rank(c, &rank));
    OK(MPI_Comm_size(c, &size));
    return (rank + size - 1) % size;
}

/* The world rank of the process before this one. */
static int neighbour(MPI_Comm c)
{
    int got = -1, before = from(c);
    MPI_Group all, mine;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
    OK(MPI_Comm_group(c, &mine));
    OK(MPI_Group_translate_ranks(mine, 1, &before, all, &got));
    OK(MPI_Group_free(&all));
    OK(MPI_Group_free(&mine));
    return got;
}

static void make_all(void)
{
    for (int i = 0; i < MANY; i++)
        switch (i % 4) {
        case 0:
            OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]));
            break;
        case 1: /* the parts of one split have ranks with different pasts */
            OK(MPI_Comm_split(MPI_COMM_WORLD, me % 2, -me, &comm[i]));
            break;
        case 2:
            OK(MPI_Comm_dup(comm[i - 1], &comm[i]));
            break;
        default:
            OK(MPI_Comm_split(comm[i - 3], 0, (me + i) % n, &comm[i]));
        }
}

static int value(int i, int rank)
{
    return 1000 * i + rank;
}

/* One message on each, received in another order than sent. */
static void all_apart(int stride, int tag)
{
    static int in[MANY], out[MANY];
    static MPI_Request r[MANY];
    MPI_Status s;
    for (int i = 0; i < MANY; i++) {
        out[i] = value(i, me);
        OK(MPI_Isend(&out[i], 1, MPI_INT, to(comm[i]), TAG, comm[i], &r[i]));
    }
    for (int k = 0; k < MANY; k++) {
        int i = (int)((long)k * stride % MANY);
        OK(MPI_Recv(&in[i], 1, MPI_INT, k % 2 ? MPI_ANY_SOURCE : from(comm[i]), tag, comm[i], &s));
        EQUAL(value(i, neighbour(comm[i])), in[i]);
        EQUAL(TAG, s.MPI_TAG);
        EQUAL(from(comm[i]), s.MPI_SOURCE);
    }
    OK(MPI_Waitall(MANY, r, MPI_STATUSES_IGNORE));
}

/* The same with receives that are posted before anything is sent. */
static void posted_first(int tag)
{
    static int in[MANY];
    static MPI_Request r[MANY];
    static MPI_Status s[MANY];
    for (int i = 0; i < MANY; i++)
        OK(MPI_Irecv(
            &in[i], 1, MPI_INT, i % 3 ? from(comm[i]) : MPI_ANY_SOURCE, tag, comm[i], &r[i]));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = MANY - 1; i >= 0; i--) {
        int out = value(i, me);
        OK(MPI_Send(&out, 1, MPI_INT, to(comm[i]), TAG, comm[i]));
    }
    OK(MPI_Waitall(MANY, r, s));
    for (int i = 0; i < MANY; i++) {
        EQUAL(value(i, neighbour(comm[i])), in[i]);
        EQUAL(TAG, s[i].MPI_TAG);
    }
}

/* A receive of any tag comes before a later one of the tag that is sent; what was sent
 * before on another communicator stays there. */
static void in_order(MPI_Comm a, MPI_Comm b)
{
    int in[4] = { 0 }, out[4] = { 1, 2, 3, 4 };
    MPI_Request r[3];
    MPI_Status s;
    OK(MPI_Irecv(&in[0], 1, MPI_INT, from(a), MPI_ANY_TAG, a, &r[0]));
    OK(MPI_Irecv(&in[1], 1, MPI_INT, from(a), 7, a, &r[1]));
    OK(MPI_Irecv(&in[2], 1, MPI_INT, from(a), MPI_ANY_TAG, a, &r[2]));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Send(&out[3], 1, MPI_INT, to(b), 8, b));
    for (int i = 0; i < 3; i++)
        OK(MPI_Send(&out[i], 1, MPI_INT, to(a), 7, a));
    OK(MPI_Waitall(3, r, MPI_STATUSES_IGNORE));
    OK(MPI_Recv(&in[3], 1, MPI_INT, from(b), MPI_ANY_TAG, b, &s));
    EQUAL(8, s.MPI_TAG);
    for (int i = 0; i < 4; i++)
        EQUAL(out[i], in[i]);
}

/* Long messages wait for their receiver; one of another communicator is in front. */
static void in_front(MPI_Comm a, MPI_Comm b)
{
    static int in[LONG], out[LONG];
    MPI_Request r[3];
    int small = -1, one = 1;
    for (int i = 0; i < LONG; i++)
        out[i] = i + me;
    OK(MPI_Isend(out, LONG, MPI_INT, to(b), 1, b, &r[0]));
    OK(MPI_Isend(out, LONG, MPI_INT, to(b), 2, b, &r[1]));
    OK(MPI_Isend(&one, 1, MPI_INT, to(a), 5, a, &r[2]));
    OK(MPI_Recv(&small, 1, MPI_INT, from(a), MPI_ANY_TAG, a, MPI_STATUS_IGNORE));
    EQUAL(1, small);
    for (int tag = 1; tag <= 2; tag++) {
        OK(MPI_Recv(in, LONG, MPI_INT, from(b), tag, b, MPI_STATUS_IGNORE));
        EQUAL(LONG - 1 + neighbour(b), in[LONG - 1]);
    }
    OK(MPI_Waitall(3, r, MPI_STATUSES_IGNORE));
}

/* Probes find what is of their communicator, and nothing else. */
static void probes(MPI_Comm a, MPI_Comm b)
{
    int flag = 1, in = 0, one = 1, two = 2;
    MPI_Message m;
    MPI_Request r[2];
    MPI_Status s;
    OK(MPI_Isend(&two, 1, MPI_INT, to(b), 6, b, &r[0]));
    OK(MPI_Probe(from(b), 6, b, &s)); /* it is there */
    OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, a, &flag, &s));
    EQUAL(0, flag);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Isend(&one, 1, MPI_INT, to(a), 5, a, &r[1]));
    OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, a, &s));
    EQUAL(5, s.MPI_TAG);
    OK(MPI_Mprobe(from(a), MPI_ANY_TAG, a, &m, &s));
    EQUAL(5, s.MPI_TAG);
    OK(MPI_Mrecv(&in, 1, MPI_INT, &m, &s));
    EQUAL(1, in);
    OK(MPI_Mprobe(MPI_ANY_SOURCE, 6, b, &m, &s));
    EQUAL(6, s.MPI_TAG);
    OK(MPI_Mrecv(&in, 1, MPI_INT, &m, &s));
    EQUAL(2, in);
    EQUAL(6, s.MPI_TAG);
    OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
}

static void tags(void)
{
    int *most = NULL, *here = NULL, flag = 0, also = 0;
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &flag));
    TRUE(flag && *most >= 32767);
    for (int i = 0; i < MANY; i += MANY / 10) {
        int in = 0;
        MPI_Status s;
        OK(MPI_Comm_get_attr(comm[i], MPI_TAG_UB, &here, &also));
        TRUE(!also || *here == *most);
        OK(MPI_Sendrecv(&i, 1, MPI_INT, to(comm[i]), *most, &in, 1, MPI_INT, from(comm[i]),
            i % 20 ? *most : MPI_ANY_TAG, comm[i], &s));
        EQUAL(i, in);
        EQUAL(*most, s.MPI_TAG);
    }
}

static void collectives(void)
{
    static int in[MANY], sum[MANY];
    static MPI_Request r[MANY];
    for (int i = 0; i < MANY; i++) {
        in[i] = i;
        OK(MPI_Iallreduce(&in[i], &sum[i], 1, MPI_INT, MPI_SUM, comm[i], &r[i]));
    }
    OK(MPI_Waitall(MANY, r, MPI_STATUSES_IGNORE));
    for (int i = 0; i < MANY; i++) {
        int size;
        OK(MPI_Comm_size(comm[i], &size));
        EQUAL(i * size, sum[i]);
    }
}

/* Any number, one after the other, while many are in use; few where the MPI makes them, which
 * is slow, or ranks share a core. */
static void again_and_again(void)
{
    const char *on = getenv("FTKIT_LOG_ENABLED");
    int rounds = on && strcmp(on, "true") == 0 && n == 2 ? ROUNDS : ROUNDS / 100;
    for (int i = 0; i < rounds; i++) {
        MPI_Comm c;
        int in = -1;
        OK(i % 2 ? MPI_Comm_dup(comm[i % MANY], &c)
                 : MPI_Comm_split(MPI_COMM_WORLD, me % 2, 0, &c));
        if (i % 10 == 0)
            OK(MPI_Sendrecv(&i, 1, MPI_INT, to(c), 1, &in, 1, MPI_INT, from(c), MPI_ANY_TAG, c,
                MPI_STATUS_IGNORE));
        EQUAL(i % 10 ? -1 : i, in);
        OK(MPI_Comm_free(&c));
    }
}

static void body(void)
{
    make_all();
    all_apart(1, TAG);
    all_apart(7, MPI_ANY_TAG);
    posted_first(TAG);
    posted_first(MPI_ANY_TAG);
    in_order(comm[MANY - 1], comm[MANY - 3]);
    in_front(comm[MANY - 1], comm[MANY - 2]);
    probes(comm[MANY - 3], comm[MANY - 4]);
    tags();
    collectives();
    again_and_again();
    for (int i = 0; i < MANY; i++)
        OK(MPI_Comm_free(&comm[(i + 3) % MANY]));
}

int main(int argc, char **argv)
{
    return conform(argc, argv, body);
}
