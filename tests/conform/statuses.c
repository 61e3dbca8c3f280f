/* ranks: 2
 * Calls that complete one operation leave MPI_ERROR of the status as it was (MPI 4.0,
 * 3.2.5); source, tag and count are those of the message.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "conform.h"

enum { MARK = 4711, ITEMS = 3 };

static MPI_Status marked(void)
{
    MPI_Status s;
    s.MPI_SOURCE = s.MPI_TAG = -7;
    s.MPI_ERROR = MARK;
    return s;
}

static void check(MPI_Status *s, int source, int tag)
{
    int count = -1;
    EQUAL(MARK, s->MPI_ERROR);
    EQUAL(source, s->MPI_SOURCE);
    EQUAL(tag, s->MPI_TAG);
    OK(MPI_Get_count(s, MPI_INT, &count));
    EQUAL(ITEMS, count);
}

/* The calls that look at a message, then those that take one. */
static void look(int peer)
{
    MPI_Status s = marked();
    int flag = 0;
    OK(MPI_Probe(peer, 1, MPI_COMM_WORLD, &s));
    check(&s, peer, 1);
    s = marked();
    OK(MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &flag, &s));
    TRUE(flag);
    check(&s, peer, 1);
}

static void take(int peer)
{
    int in[ITEMS];
    MPI_Message m;
    MPI_Request r;
    MPI_Status s = marked();
    OK(MPI_Recv(in, ITEMS, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &s));
    check(&s, peer, 1);
    s = marked();
    OK(MPI_Mprobe(peer, 2, MPI_COMM_WORLD, &m, &s));
    check(&s, peer, 2);
    s = marked();
    OK(MPI_Mrecv(in, ITEMS, MPI_INT, &m, &s));
    check(&s, peer, 2);
    s = marked();
    OK(MPI_Irecv(in, ITEMS, MPI_INT, peer, 3, MPI_COMM_WORLD, &r));
    OK(MPI_Wait(&r, &s));
    check(&s, peer, 3);
}

static void body(void)
{
    const int peer = 1 - me;
    int out[ITEMS] = { me, 2, 3 };
    MPI_Request r[3];
    for (int tag = 1; tag <= 3; tag++)
        OK(MPI_Isend(out, ITEMS, MPI_INT, peer, tag, MPI_COMM_WORLD, &r[tag - 1]));
    look(peer);
    take(peer);
    OK(MPI_Waitall(3, r, MPI_STATUSES_IGNORE));
}

int main(int argc, char **argv)
{
    return conform(argc, argv, body);
}
