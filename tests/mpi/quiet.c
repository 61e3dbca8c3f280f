/* With the message log ftkit_checkpoint() is called when nothing is under way: what is makes
 * the call fail with FTKIT_ERR_STATE on all ranks, no set is written, and nothing is lost;
 * when the program has completed it, the next call writes the set.
 *
 * A set at every call (checkpoint.period = 1 calls), two ranks at least.  Prints "OK checks"
 * on rank 0; the first mismatch ends the job with exit code 1.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "overlog.h"

#define BIG (1 << 17) /* ints: more than what is sent at once */

static int next, before;
static ftkit_ctx *ft;
static MPI_Comm comm;
static int in[2][BIG], out[2][BIG];

static unsigned long committed(void)
{
    ftkit_info info = { .size = sizeof info };
    EQUAL(FTKIT_OK, ftkit_query(ft, &info));
    return (unsigned long)info.committed;
}

static void refused(int line)
{
    unsigned long set = committed();
    int rc = ftkit_checkpoint(ft);
    check_at(__FILE__, line, ftkit_detail(ft), rc, FTKIT_ERR_STATE);
    check_at(__FILE__, line, "committed", (long)committed(), (long)set);
}
#define REFUSED() refused(__LINE__)

static void written(int line)
{
    unsigned long set = committed();
    int rc = ftkit_checkpoint(ft);
    check_at(__FILE__, line, ftkit_detail(ft), rc, FTKIT_OK);
    check_at(__FILE__, line, "committed", (long)committed(), (long)set + 1);
}
#define WRITTEN() written(__LINE__)

static int value(int rank, int message, int i)
{
    return 1000003 * rank + 101 * message + i;
}

static int *fill(int message, int count)
{
    for (int i = 0; i < count; i++)
        out[message][i] = value(me, message, i);
    return out[message];
}

static void came(const int *what, int message, int count)
{
    int wrong = 0;
    for (int i = 0; i < count; i++)
        wrong += what[i] != value(before, message, i);
    EQUAL(0, wrong);
}

static void receive(int message, int count)
{
    memset(in[message], 0, sizeof in[message]);
    OK(MPI_Recv(in[message], count, MPI_INT, before, message, comm, MPI_STATUS_IGNORE));
    came(in[message], message, count);
}

/* Its message comes only later; source as seen from rank 0, which alone waits. */
static void receive_before_send(int source)
{
    MPI_Request q = MPI_REQUEST_NULL;
    memset(in[0], 0, sizeof in[0]);
    if (me == 0)
        OK(MPI_Irecv(in[0], BIG, MPI_INT, source, 0, comm, &q));
    REFUSED();
    REFUSED(); /* again */
    if (next == 0)
        OK(MPI_Send(fill(0, BIG), BIG, MPI_INT, 0, 0, comm));
    OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
    if (me == 0)
        came(in[0], 0, BIG);
    WRITTEN();
}

/* Two messages are there and one receive: the second one stays for the next receive. */
static void receive_one_of_two(int count)
{
    MPI_Request q[3];
    memset(in, 0, sizeof in);
    OK(MPI_Irecv(in[0], count, MPI_INT, before, 5, comm, &q[0]));
    OK(MPI_Isend(fill(0, count), count, MPI_INT, next, 5, comm, &q[1]));
    OK(MPI_Isend(fill(1, count), count, MPI_INT, next, 5, comm, &q[2]));
    REFUSED();
    OK(MPI_Waitall(3, q, MPI_STATUSES_IGNORE));
    came(in[0], 0, count);
    WRITTEN(); /* with the message that nobody waits for */
    OK(MPI_Recv(in[1], count, MPI_INT, before, 5, comm, MPI_STATUS_IGNORE));
    came(in[1], 1, count);
    WRITTEN();
}

/* Nobody waits for it, but somebody has to begin it again. */
static void receive_given_up(int count)
{
    MPI_Request q;
    memset(in[0], 0, sizeof in[0]);
    OK(MPI_Irecv(in[0], count, MPI_INT, before, 6, comm, &q));
    OK(MPI_Request_free(&q));
    REFUSED();
    OK(MPI_Ssend(fill(0, count), count, MPI_INT, next, 6, comm));
    OK(MPI_Barrier(comm));
    came(in[0], 0, count);
    WRITTEN();
}

typedef int send_fn(
    const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm on, MPI_Request *q);

/* Complete or not, the program has not been told. */
static void send_not_waited_for(send_fn *isend, int count)
{
    MPI_Request q = MPI_REQUEST_NULL;
    if (me == n - 1)
        OK(isend(fill(0, count), count, MPI_INT, 0, 0, comm, &q));
    REFUSED();
    if (me == 0)
        receive(0, count);
    OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
    WRITTEN();
}

/* Nobody waits for it, so it is like a message of MPI_Send(). */
static void send_given_up(int count)
{
    MPI_Request q;
    OK(MPI_Isend(fill(1, count), count, MPI_INT, next, 1, comm, &q));
    OK(MPI_Request_free(&q));
    WRITTEN();
    receive(1, count);
    WRITTEN();
}

static void matched(int count)
{
    MPI_Message m = MPI_MESSAGE_NULL;
    MPI_Status st;
    int got = -1;
    if (next == 0)
        OK(MPI_Send(fill(0, count), count, MPI_INT, 0, 3, comm));
    if (me == 0)
        OK(MPI_Mprobe(before, 3, comm, &m, &st));
    REFUSED();
    if (me == 0) {
        OK(MPI_Get_count(&st, MPI_INT, &got));
        EQUAL(count, got);
        memset(in[0], 0, sizeof in[0]);
        OK(MPI_Mrecv(in[0], count, MPI_INT, &m, MPI_STATUS_IGNORE));
        came(in[0], 0, count);
    }
    WRITTEN();
}

static void collective(void)
{
    MPI_Request q;
    int sum = -1;
    OK(MPI_Iallreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm, &q));
    REFUSED();
    OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
    EQUAL(n * (n - 1) / 2, sum);
    WRITTEN();
}

static void persistent(int count)
{
    MPI_Request q[2];
    OK(MPI_Recv_init(in[0], count, MPI_INT, before, 4, comm, &q[0]));
    OK(MPI_Send_init(out[0], count, MPI_INT, next, 4, comm, &q[1]));
    for (int round = 0; round < 2; round++) {
        WRITTEN(); /* they are at rest */
        memset(in[0], 0, sizeof in[0]);
        (void)fill(0, count);
        OK(MPI_Startall(2, q));
        REFUSED();
        OK(MPI_Waitall(2, q, MPI_STATUSES_IGNORE));
        came(in[0], 0, count);
    }
    WRITTEN();
    OK(MPI_Request_free(&q[0]));
    OK(MPI_Request_free(&q[1]));
}

static void all_with(int count)
{
    receive_one_of_two(count);
    send_not_waited_for(MPI_Isend, count);
    send_not_waited_for(MPI_Issend, count);
    send_given_up(count);
    receive_given_up(count);
    matched(count);
    persistent(count);
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    int rc = overlog_open(&ft);
    check_at(__FILE__, __LINE__, ftkit_detail(ft), rc < 0 ? rc : FTKIT_OK, FTKIT_OK);
    comm = ftkit_comm(ft);
    OK(MPI_Comm_rank(comm, &me));
    OK(MPI_Comm_size(comm, &n));
    next = (me + 1) % n;
    before = (me + n - 1) % n;
    receive_before_send(n - 1);
    receive_before_send(MPI_ANY_SOURCE);
    collective();
    all_with(3);
    all_with(BIG);
    if (me == 0)
        printf("OK %ld\n", checks);
    EQUAL(FTKIT_OK, ftkit_close(&ft));
    return MPI_Finalize() == MPI_SUCCESS ? 0 : 1;
}
