/* ranks: 1 2
 * Communicators and requests that the log does not own: MPI_COMM_SELF, and duplicates of it and of
 * MPI_COMM_WORLD from before ftkit_open().  MPI_Waitany and its kin pass over inactive requests
 * (MPI 4.0, 3.7.5), also over those that were made, started or complete before; everything else
 * holds for these communicators as for others.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "conform.h"

static MPI_Comm self, world;   /* duplicates */
static MPI_Request early[2];   /* made before; started there, and complete */
static MPI_Request idle[2];    /* made before, not started there */
static MPI_Request pending[1]; /* started before; its message comes later */
static int early_in, idle_in, pending_in;
static const int out = 7;

static void pair(MPI_Comm c, int to, int *in, MPI_Request q[2])
{
    OK(MPI_Send_init(&out, 1, MPI_INT, to, 5, c, &q[0]));
    OK(MPI_Recv_init(in, 1, MPI_INT, to, 5, c, &q[1]));
}

static void make(void)
{
    OK(MPI_Comm_dup(MPI_COMM_SELF, &self));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &world));
    pair(self, 0, &early_in, early);
    pair(MPI_COMM_SELF, 0, &idle_in, idle);
    OK(MPI_Recv_init(&pending_in, 1, MPI_INT, 0, 6, self, &pending[0]));
    OK(MPI_Startall(2, early));
    OK(MPI_Start(&pending[0]));
    for (int done = 0; !done;) /* complete, and not reported */
        OK(MPI_Request_get_status(early[1], &done, MPI_STATUS_IGNORE));
}

static void all_inactive(int n_, MPI_Request q[])
{
    int index = 0, flag = 0, count = 0, indices[3];
    MPI_Status s[3];
    OK(MPI_Waitany(n_, q, &index, s));
    EQUAL(MPI_UNDEFINED, index);
    OK(MPI_Testany(n_, q, &index, &flag, s));
    TRUE(flag && index == MPI_UNDEFINED);
    OK(MPI_Waitsome(n_, q, &count, indices, s));
    EQUAL(MPI_UNDEFINED, count);
    OK(MPI_Testsome(n_, q, &count, indices, s));
    EQUAL(MPI_UNDEFINED, count);
    OK(MPI_Testall(n_, q, &flag, s));
    TRUE(flag);
    OK(MPI_Test(&q[0], &flag, s));
    TRUE(flag && s[0].MPI_SOURCE == MPI_ANY_SOURCE && s[0].MPI_TAG == MPI_ANY_TAG);
    OK(MPI_Request_get_status(q[0], &flag, s));
    TRUE(flag);
    OK(MPI_Wait(&q[0], s));
    OK(MPI_Waitall(n_, q, s));
    TRUE(q[0] != MPI_REQUEST_NULL);
}

/* Both requests are active: each is reported once, with its status. */
static void each_once(MPI_Request q[2], int from)
{
    int index, seen[2] = { 0, 0 };
    MPI_Status s;
    for (int i = 0; i < 2; i++) {
        OK(MPI_Waitany(2, q, &index, &s));
        TRUE(index == 0 || index == 1);
        seen[index]++;
        if (index == 1)
            TRUE(s.MPI_SOURCE == from && s.MPI_TAG == 5);
    }
    EQUAL(1, seen[0]);
    EQUAL(1, seen[1]);
    all_inactive(2, q);
}

static void any_and_some(int from, MPI_Request q[2])
{
    int index, flag, count, indices[2], sum = 0, turns = 0;
    MPI_Status s[2];
    OK(MPI_Startall(2, q));
    each_once(q, from);
    OK(MPI_Startall(2, q));
    for (int left = 2; left > 0 && turns < 100000000; turns++) {
        OK(MPI_Testany(2, q, &index, &flag, s));
        TRUE(!flag || index != MPI_UNDEFINED);
        left -= flag;
    }
    all_inactive(2, q);
    OK(MPI_Startall(2, q));
    while (sum < 2) {
        OK(MPI_Waitsome(2, q, &count, indices, s));
        TRUE(count == 1 || count == 2);
        sum += count;
    }
    all_inactive(2, q);
    OK(MPI_Startall(2, q));
    OK(MPI_Waitall(2, q, s));
    EQUAL(5, s[1].MPI_TAG);
    all_inactive(2, q);
}

/* With a request of the log in the array. */
static void mixed(MPI_Request *one)
{
    int index = -1, in = 0;
    MPI_Request q[3] = { *one, MPI_REQUEST_NULL, MPI_REQUEST_NULL };
    OK(MPI_Irecv(&in, 1, MPI_INT, me, 9, MPI_COMM_WORLD, &q[1]));
    OK(MPI_Send(&out, 1, MPI_INT, me, 9, MPI_COMM_WORLD));
    OK(MPI_Waitany(3, q, &index, MPI_STATUS_IGNORE));
    EQUAL(1, index);
    EQUAL(out, in);
    OK(MPI_Waitany(3, q, &index, MPI_STATUS_IGNORE));
    EQUAL(MPI_UNDEFINED, index);
}

static void persistent(void)
{
    MPI_Comm all[] = { MPI_COMM_SELF, self, world };
    int in = 0, to[] = { 0, 0, n - 1 - me };
    MPI_Request q[2], b;
    each_once(early, 0);
    EQUAL(out, early_in);
    any_and_some(0, early);
    all_inactive(2, idle);
    any_and_some(0, idle);
    mixed(&idle[0]);
    OK(MPI_Send(&out, 1, MPI_INT, 0, 6, self));
    OK(MPI_Wait(&pending[0], MPI_STATUS_IGNORE));
    EQUAL(out, pending_in);
    all_inactive(1, pending);
    for (int i = 0; i < 3; i++) {
        pair(all[i], to[i], &in, q);
        all_inactive(2, q);
        any_and_some(to[i], q);
        OK(MPI_Request_free(&q[0]));
        OK(MPI_Request_free(&q[1]));
        OK(MPI_Barrier_init(all[i], MPI_INFO_NULL, &b));
        all_inactive(1, &b);
        OK(MPI_Start(&b));
        OK(MPI_Wait(&b, MPI_STATUS_IGNORE));
        all_inactive(1, &b);
        OK(MPI_Request_free(&b));
    }
    for (int i = 0; i < 2; i++) {
        OK(MPI_Request_free(&early[i]));
        OK(MPI_Request_free(&idle[i]));
    }
    OK(MPI_Request_free(&pending[0]));
}

/* ---- the other families -------------------------------------------------------------- */

static void messages(MPI_Comm c, int rank)
{
    int in = 0, flag = 0, count = 0;
    MPI_Request q;
    MPI_Message m;
    MPI_Status s;
    OK(MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 1, c, &q));
    OK(MPI_Ssend(&out, 1, MPI_INT, rank, 1, c));
    OK(MPI_Wait(&q, &s));
    TRUE(in == out && s.MPI_SOURCE == rank);
    OK(MPI_Isend(&out, 1, MPI_INT, rank, 2, c, &q));
    OK(MPI_Probe(rank, 2, c, &s));
    OK(MPI_Iprobe(rank, 2, c, &flag, &s));
    OK(MPI_Mprobe(rank, 2, c, &m, &s));
    OK(MPI_Get_count(&s, MPI_INT, &count));
    TRUE(flag && count == 1);
    OK(MPI_Mrecv(&in, 1, MPI_INT, &m, &s));
    OK(MPI_Wait(&q, &s));
    OK(MPI_Isend(&out, 1, MPI_INT, rank, 2, c, &q));
    OK(MPI_Mprobe(rank, 2, c, &m, &s));
    OK(MPI_Wait(&q, &s));
    OK(MPI_Imrecv(&in, 1, MPI_INT, &m, &q));
    OK(MPI_Wait(&q, &s));
    in = 0;
    OK(MPI_Sendrecv(&out, 1, MPI_INT, rank, 3, &in, 1, MPI_INT, rank, 3, c, &s));
    EQUAL(out, in);
    OK(MPI_Sendrecv_replace(&in, 1, MPI_INT, rank, 3, rank, 3, c, &s));
    EQUAL(out, in);
    OK(MPI_Irecv(&in, 1, MPI_INT, rank, 8, c, &q));
    OK(MPI_Cancel(&q));
    OK(MPI_Wait(&q, &s));
    OK(MPI_Test_cancelled(&s, &flag));
    TRUE(flag);
}

static void collectives(MPI_Comm c, int size)
{
    int one = 1, sum = 0, all[2] = { 0, 0 };
    MPI_Request q;
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, c));
    EQUAL(size, sum);
    OK(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, c, &q));
    OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
    EQUAL(size, sum);
    OK(MPI_Allgather(&one, 1, MPI_INT, all, 1, MPI_INT, c));
    EQUAL(size, all[0] + all[1]);
    OK(MPI_Barrier(c));
}

static void attributes(MPI_Comm c)
{
    int *most = NULL, flag = 0, length = 0, key = MPI_KEYVAL_INVALID, value = 3, *got = NULL;
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Comm copy;
    OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    OK(MPI_Comm_set_attr(c, key, &value));
    OK(MPI_Comm_dup(c, &copy));
    OK(MPI_Comm_get_attr(copy, key, &got, &flag));
    TRUE(flag && got == &value);
    OK(MPI_Comm_free(&copy));
    OK(MPI_Comm_delete_attr(c, key));
    OK(MPI_Comm_free_keyval(&key));
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &flag));
    TRUE(flag && *most >= 32767);
    OK(MPI_Comm_set_name(c, "foreign"));
    OK(MPI_Comm_get_name(c, name, &length));
    EQUAL(7, length);
}

static void constructors(MPI_Comm c, int rank, int size)
{
    MPI_Comm d;
    MPI_Group g;
    MPI_Request q;
    int result, got, none = 0;
    OK(MPI_Comm_group(c, &g));
    OK(MPI_Comm_create(c, g, &d));
    OK(MPI_Comm_compare(c, d, &result));
    EQUAL(MPI_CONGRUENT, result);
    OK(MPI_Comm_free(&d));
    OK(MPI_Comm_create_group(c, g, 4, &d));
    OK(MPI_Comm_free(&d));
    OK(MPI_Group_free(&g));
    OK(MPI_Comm_idup(c, &d, &q));
    OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
    OK(MPI_Comm_size(d, &got));
    EQUAL(size, got);
    OK(MPI_Comm_disconnect(&d));
    OK(MPI_Comm_split(c, rank, 0, &d));
    OK(MPI_Comm_size(d, &got));
    EQUAL(1, got);
    OK(MPI_Comm_free(&d));
    OK(MPI_Cart_create(c, 1, &size, &none, 0, &d));
    OK(MPI_Topo_test(d, &got));
    EQUAL(MPI_CART, got);
    OK(MPI_Cart_rank(d, &rank, &got));
    EQUAL(rank, got);
    OK(MPI_Comm_free(&d));
    OK(MPI_Comm_compare(c, MPI_COMM_WORLD, &result));
    EQUAL(size == n ? MPI_CONGRUENT : MPI_UNEQUAL, result);
}

static void between(void) /* an intercommunicator of the MPI */
{
    MPI_Comm inter, both;
    int size = 0, in = 0;
    if (n != 2)
        return;
    OK(MPI_Intercomm_create(self, 0, world, 1 - me, 11, &inter));
    OK(MPI_Comm_remote_size(inter, &size));
    EQUAL(1, size);
    OK(MPI_Sendrecv(&me, 1, MPI_INT, 0, 1, &in, 1, MPI_INT, 0, 1, inter, MPI_STATUS_IGNORE));
    EQUAL(1 - me, in);
    OK(MPI_Intercomm_merge(inter, me, &both));
    OK(MPI_Comm_size(both, &size));
    EQUAL(2, size);
    OK(MPI_Comm_free(&both));
    OK(MPI_Comm_free(&inter));
}

static void body(void)
{
    MPI_Comm all[] = { MPI_COMM_SELF, self, world };
    persistent();
    for (int i = 0; i < 3; i++) {
        int rank, size;
        OK(MPI_Comm_rank(all[i], &rank));
        OK(MPI_Comm_size(all[i], &size));
        messages(all[i], rank);
        collectives(all[i], size);
        attributes(all[i]);
        constructors(all[i], rank, size);
    }
    between();
    OK(MPI_Comm_free(&self));
    OK(MPI_Comm_free(&world));
}

int main(int argc, char **argv)
{
    before_open = make;
    return conform(argc, argv, body);
}
