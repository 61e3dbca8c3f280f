/* Two contexts with a log, one after the other; in between a datatype goes and another comes,
 * which has the same handle more often than not.  Two ranks; prints "OK checks".
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"
#include "overlog.h"

#define MOST 64 /* ints */

static MPI_Datatype make(int ints)
{
    MPI_Datatype t;
    OK(MPI_Type_contiguous(ints, MPI_INT, &t));
    OK(MPI_Type_commit(&t));
    return t;
}

static void exchange(MPI_Datatype t, int ints)
{
    int out[MOST], in[MOST], count = -1;
    MPI_Status st;
    for (int i = 0; i < MOST; i++) {
        out[i] = i + 1;
        in[i] = -1;
    }
    if (me == 0)
        OK(MPI_Send(out, 1, t, 1, 5, MPI_COMM_WORLD));
    if (me != 1)
        return;
    OK(MPI_Recv(in, MOST, MPI_INT, 0, 5, MPI_COMM_WORLD, &st));
    OK(MPI_Get_count(&st, MPI_INT, &count));
    EQUAL(ints, count);
    for (int i = 0; i < MOST; i++)
        EQUAL(i < ints ? i + 1 : -1, in[i]);
}

static void context_with(MPI_Datatype t, int ints)
{
    ftkit_ctx *ft;
    TRUE(overlog_open(&ft) >= 0);
    exchange(t, ints);
    EQUAL(FTKIT_OK, ftkit_finish(ft));
    EQUAL(FTKIT_OK, ftkit_close(&ft));
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &me));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &n));
    MPI_Datatype t = make(2);
    context_with(t, 2);
    OK(MPI_Type_free(&t)); /* while no log is on */
    t = make(20);
    context_with(t, 20);
    OK(MPI_Type_free(&t));
    if (me == 0)
        printf("OK %ld\n", checks);
    return MPI_Finalize() == MPI_SUCCESS ? 0 : 1;
}
