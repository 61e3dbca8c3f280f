/* ranks: 2
 * Persistent requests and calls that complete several requests (MPI 4.0, 3.7.3, 3.7.5, 3.9,
 * 3.11): one at rest is complete at once with an empty status and stays; calls of which no request
 * is active say MPI_UNDEFINED; a receive from MPI_PROC_NULL has its status; a request that is freed
 * under way takes its course.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "conform.h"

enum { MARK = 4711, TURNS = 3 };

static MPI_Status marked(void)
{
    MPI_Status s;
    s.MPI_SOURCE = s.MPI_TAG = -7;
    s.MPI_ERROR = MARK;
    return s;
}

static void check_empty(const MPI_Status *s)
{
    int count = -1, cancelled = -1;
    EQUAL(MPI_ANY_SOURCE, s->MPI_SOURCE);
    EQUAL(MPI_ANY_TAG, s->MPI_TAG);
    OK(MPI_Get_count(s, MPI_INT, &count));
    EQUAL(0, count);
    OK(MPI_Test_cancelled(s, &cancelled));
    EQUAL(0, cancelled);
}

/* None of the two requests is active; they may be null. */
static void check_at_rest(MPI_Request r[2])
{
    MPI_Request before[2] = { r[0], r[1] };
    MPI_Status s = marked(), all[2];
    int flag = 0, index = 7, some = 7, indices[2];
    OK(MPI_Wait(&r[0], &s));
    EQUAL(MARK, s.MPI_ERROR);
    check_empty(&s);
    s = marked();
    OK(MPI_Test(&r[1], &flag, &s));
    TRUE(flag);
    check_empty(&s);
    flag = 0;
    s = marked();
    OK(MPI_Request_get_status(r[0], &flag, &s));
    TRUE(flag);
    check_empty(&s);
    s = marked();
    OK(MPI_Waitany(2, r, &index, &s));
    EQUAL(MPI_UNDEFINED, index);
    check_empty(&s);
    index = 7;
    flag = 0;
    OK(MPI_Testany(2, r, &index, &flag, &s));
    TRUE(flag);
    EQUAL(MPI_UNDEFINED, index);
    OK(MPI_Waitsome(2, r, &some, indices, all));
    EQUAL(MPI_UNDEFINED, some);
    some = 7;
    OK(MPI_Testsome(2, r, &some, indices, all));
    EQUAL(MPI_UNDEFINED, some);
    flag = 0;
    OK(MPI_Testall(2, r, &flag, all));
    TRUE(flag);
    check_empty(&all[0]);
    OK(MPI_Waitall(2, r, all));
    check_empty(&all[1]);
    TRUE(r[0] == before[0] && r[1] == before[1]);
}

/* Started again and again, completed in each way; a count of nothing is a message, too. */
static void persistent(int count)
{
    const int peer = 1 - me;
    int out[4] = { 0 }, in[4] = { 0 }, index, some, indices[2];
    MPI_Request r[2];
    MPI_Status s, all[2];
    OK(MPI_Recv_init(in, 4, MPI_INT, peer, 1, MPI_COMM_WORLD, &r[0]));
    OK(MPI_Send_init(out, count, MPI_INT, peer, 1, MPI_COMM_WORLD, &r[1]));
    check_at_rest(r);
    for (int turn = 0; turn < 2 * TURNS; turn++) {
        int got = -1;
        out[0] = 100 * me + turn;
        in[0] = -1;
        OK(MPI_Startall(2, r));
        if (turn % 2 == 0) {
            for (int done = 0; done < 2; done++) {
                s = marked();
                OK(MPI_Waitany(2, r, &index, &s));
                EQUAL(MARK, s.MPI_ERROR);
                TRUE(index == 0 || index == 1);
                if (index == 0)
                    OK(MPI_Get_count(&s, MPI_INT, &got));
            }
        } else {
            for (int done = 0; done < 2; done += some) {
                OK(MPI_Waitsome(2, r, &some, indices, all));
                for (int i = 0; i < some; i++)
                    if (indices[i] == 0)
                        OK(MPI_Get_count(&all[i], MPI_INT, &got));
            }
        }
        EQUAL(count, got);
        EQUAL(count ? 100 * peer + turn : -1, in[0]);
        check_at_rest(r);
    }
    OK(MPI_Request_free(&r[0]));
    OK(MPI_Request_free(&r[1]));
    EQUAL(1, r[0] == MPI_REQUEST_NULL && r[1] == MPI_REQUEST_NULL);
    check_at_rest(r);
}

static void nobody(void)
{
    MPI_Request r;
    MPI_Status s = marked();
    int count = -1, flag = 0;
    OK(MPI_Recv(NULL, 0, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &s));
    EQUAL(MPI_PROC_NULL, s.MPI_SOURCE);
    EQUAL(MPI_ANY_TAG, s.MPI_TAG);
    EQUAL(MARK, s.MPI_ERROR);
    OK(MPI_Get_count(&s, MPI_INT, &count));
    EQUAL(0, count);
    s = marked();
    OK(MPI_Irecv(NULL, 0, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &r));
    OK(MPI_Test(&r, &flag, &s));
    TRUE(flag);
    EQUAL(MPI_PROC_NULL, s.MPI_SOURCE);
    EQUAL(MARK, s.MPI_ERROR);
    OK(MPI_Isend(NULL, 0, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &r));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
}

/* Freed under way: the message comes all the same. */
static void freed(void)
{
    static int out[20000], in[20000];
    const int peer = 1 - me;
    MPI_Request r;
    for (int words = 1; words <= 20000; words *= 10) {
        out[0] = out[words - 1] = words + me;
        OK(MPI_Isend(out, words, MPI_INT, peer, 4, MPI_COMM_WORLD, &r));
        OK(MPI_Request_free(&r));
        OK(MPI_Recv(in, 20000, MPI_INT, peer, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        EQUAL(words + peer, in[0]);
        EQUAL(words + peer, in[words - 1]);
        OK(MPI_Barrier(MPI_COMM_WORLD)); /* the message has been received */
    }
}

static void body(void)
{
    persistent(4);
    persistent(0);
    nobody();
    freed();
}

int main(int argc, char **argv)
{
    return conform(argc, argv, body);
}
