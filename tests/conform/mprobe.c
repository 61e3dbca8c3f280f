/* ranks: 2 3
 * MPI_Improbe returns without the help of the sender (MPI 4.0, 3.8.2), and messages do not
 * overtake each other while one of them arrives (3.5).
 *
 * Rank 0 sends a long message and a short one behind it, and waits outside of MPI: for a byte
 * in a pipe.  Only rank 0 can send the rest of the long message (direct copies between processes
 * are off).  Rank 1 calls MPI_Improbe, then writes the byte, and receives.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conform.h"

enum { LIMIT_S = 20, LONG = 1 << 20, SHORT = 3, TAG = 5, CALLS = 50, TIMES = 10 };

static char out[LONG], in[LONG];
static int go;

static void wait_outside(void)
{
    struct pollfd p = { .fd = go, .events = POLLIN };
    char c;
    int ready = poll(&p, 1, LIMIT_S * 1000);
    if (ready != 1)
        fprintf(stderr, "rank 0: rank 1 does not return from MPI_Improbe\n");
    EQUAL(1, ready);
    EQUAL(1, read(go, &c, 1));
}

static void send_both(MPI_Comm comm, char mark, bool wait)
{
    MPI_Request r[2];
    memset(out, mark, sizeof out);
    OK(MPI_Isend(out, LONG, MPI_BYTE, 1, TAG, comm, &r[0]));
    OK(MPI_Isend(out, SHORT, MPI_BYTE, 1, TAG, comm, &r[1]));
    if (wait)
        wait_outside();
    OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
}

static void is_message(const MPI_Status *s, int bytes, char mark)
{
    int count;
    OK(MPI_Get_count(s, MPI_BYTE, &count));
    EQUAL(bytes, count);
    EQUAL(TAG, s->MPI_TAG);
    EQUAL(0, s->MPI_SOURCE);
    EQUAL(mark, in[0]);
    EQUAL(mark, in[bytes - 1]);
    memset(in, 0, sizeof in);
}

/* How rank 1 asks for the long message once more when MPI_Improbe has not given it. */
enum how { IMPROBE, MPROBE, RECV, IRECV, HOWS };

static void take_long(MPI_Comm comm, int source, int tag, enum how how, char mark)
{
    MPI_Message m = MPI_MESSAGE_NULL;
    MPI_Request r;
    MPI_Status s;
    int flag = 0;
    for (int i = 0; i < CALLS && !flag; i++)
        OK(MPI_Improbe(source, tag, comm, &flag, &m, &s));
    if (!flag && how == IRECV)
        OK(MPI_Irecv(in, LONG, MPI_BYTE, source, tag, comm, &r));
    EQUAL(1, write(go, "x", 1));
    while (!flag && how == IMPROBE)
        OK(MPI_Improbe(source, tag, comm, &flag, &m, &s));
    if (!flag && how == MPROBE) {
        OK(MPI_Mprobe(source, tag, comm, &m, &s));
        flag = 1;
    }
    if (flag)
        OK(MPI_Mrecv(in, LONG, MPI_BYTE, &m, &s));
    else if (how == RECV)
        OK(MPI_Recv(in, LONG, MPI_BYTE, source, tag, comm, &s));
    else
        OK(MPI_Wait(&r, &s));
    is_message(&s, LONG, mark);
}

static void one(MPI_Comm comm, int source, int tag, enum how how)
{
    static char mark;
    MPI_Message m;
    MPI_Status s;
    mark = (char)(mark % 100 + 1);
    OK(MPI_Barrier(comm));
    if (me == 0)
        send_both(comm, mark, true);
    if (me == 1) {
        take_long(comm, source, tag, how, mark);
        OK(MPI_Mprobe(source, tag, comm, &m, &s));
        OK(MPI_Mrecv(in, LONG, MPI_BYTE, &m, &s));
        is_message(&s, SHORT, mark);
    }
    OK(MPI_Barrier(comm));
}

/* A long message of rank 0 arrives while rank 1 takes one of rank 2, on another communicator. */
static void two(MPI_Comm comm, MPI_Comm other)
{
    MPI_Message m;
    MPI_Request r;
    MPI_Status s;
    int flag = 0, word = 0;
    OK(MPI_Barrier(comm));
    if (me == 2) {
        word = 7;
        OK(MPI_Isend(out, LONG, MPI_BYTE, 1, TAG, other, &r));
        OK(MPI_Wait(&r, &s));
    }
    if (me == 0)
        send_both(comm, 8, true);
    if (me == 1) {
        for (int i = 0; i < CALLS && !flag; i++)
            OK(MPI_Improbe(0, TAG, comm, &flag, &m, &s));
        MPI_Message of;
        OK(MPI_Mprobe(2, TAG, other, &of, &s));
        OK(MPI_Mrecv(in, LONG, MPI_BYTE, &of, &s));
        EQUAL(2, s.MPI_SOURCE);
        EQUAL(1, write(go, "x", 1));
        if (!flag)
            OK(MPI_Mprobe(0, TAG, comm, &m, &s));
        OK(MPI_Mrecv(in, LONG, MPI_BYTE, &m, &s));
        is_message(&s, LONG, 8);
        OK(MPI_Recv(in, LONG, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &s));
        is_message(&s, SHORT, 8);
    }
    EQUAL(me == 2 ? 7 : 0, word);
    OK(MPI_Barrier(comm));
}

static void body(void)
{
    MPI_Comm other;
    if (me == 0)
        EQUAL(0, mkfifo("pipe", 0600));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    go = open("pipe", O_RDWR | O_CLOEXEC);
    TRUE(go >= 0);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    for (int i = 0; i < TIMES; i++)
        for (enum how how = 0; how < HOWS; how++) {
            one(MPI_COMM_WORLD, 0, TAG, how);
            one(other, 0, MPI_ANY_TAG, how);
            one(MPI_COMM_WORLD, MPI_ANY_SOURCE, TAG, how);
            one(other, MPI_ANY_SOURCE, MPI_ANY_TAG, how);
        }
    for (int i = 0; n > 2 && i < TIMES; i++)
        two(MPI_COMM_WORLD, other);
    OK(MPI_Comm_free(&other));
}

int main(int argc, char **argv)
{
    return conform(argc, argv, body);
}
