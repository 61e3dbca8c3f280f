/* Windows of the MPI in a program with the message log:
 *
 *   outside fence|pscw|locks|before|own
 *
 * fence, pscw, locks: on a communicator from before ftkit_open, with these epochs.  before: made
 * before ftkit_open.  own: none, but a window on a communicator of ftkit, and one of a process
 * alone.
 *
 * Rank 0 prints "OK checks"; the first mismatch ends the job.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "ftkit.h"

static int me, n, checks;

static void check(int good, const char *what)
{
    checks++;
    if (good)
        return;
    printf("outside: rank %d: %s\n", me, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}
#define OK(call) check((call) == MPI_SUCCESS, #call)

static void fences(MPI_Win win, int next)
{
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&me, 1, MPI_INT, next, 0, 1, MPI_INT, win));
    OK(MPI_Win_fence(0, win));
}

static void pscw(MPI_Win win, int next)
{
    const int last = (me + n - 1) % n;
    MPI_Group all, to, from;
    OK(MPI_Win_get_group(win, &all));
    OK(MPI_Group_incl(all, 1, &next, &to));
    OK(MPI_Group_incl(all, 1, &last, &from));
    OK(MPI_Win_post(from, 0, win));
    OK(MPI_Win_start(to, 0, win));
    OK(MPI_Put(&me, 1, MPI_INT, next, 0, 1, MPI_INT, win));
    OK(MPI_Win_complete(win));
    OK(MPI_Win_wait(win));
    OK(MPI_Group_free(&all));
    OK(MPI_Group_free(&to));
    OK(MPI_Group_free(&from));
}

static void locks(MPI_Win win, int next)
{
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, win));
    OK(MPI_Put(&me, 1, MPI_INT, next, 0, 1, MPI_INT, win));
    OK(MPI_Win_unlock(next, win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, win)); /* before the program reads */
    OK(MPI_Win_unlock(me, win));
}

/* A window of all ranks: each gets the number of the one before. */
static void use(MPI_Win win, const int *x, const char *how)
{
    const int next = (me + 1) % n;
    if (strcmp(how, "pscw") == 0)
        pscw(win, next);
    else if (strcmp(how, "locks") == 0)
        locks(win, next);
    else
        fences(win, next);
    check(*x == (me + n - 1) % n, "what MPI_Put has put");
    OK(MPI_Win_free(&win));
}

static void alone(void)
{
    int x = -1;
    MPI_Win win;
    OK(MPI_Win_create(&x, sizeof x, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&me, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
    OK(MPI_Win_fence(0, win));
    check(x == me, "the window of a process alone");
    OK(MPI_Win_free(&win));
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "fence";
    int x = -1, own = -1;
    ftkit_ctx *ft = NULL;
    MPI_Comm comm, before;
    MPI_Win win = MPI_WIN_NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &before);
    if (strcmp(how, "before") == 0)
        MPI_Win_create(&x, sizeof x, 1, MPI_INFO_NULL, before, &win);
    if (ftkit_open(MPI_COMM_WORLD, NULL, &ft) < 0 || ftkit_bind_comm(ft, &comm) < 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    check(ftkit_recover(ft, NULL) >= 0 && ftkit_checkpoint(ft) >= 0, "a set");
    if (strcmp(how, "own") == 0)
        alone();
    else if (win == MPI_WIN_NULL)
        OK(MPI_Win_create(&x, sizeof x, 1, MPI_INFO_NULL, before, &win));
    if (win != MPI_WIN_NULL)
        use(win, &x, how);
    OK(MPI_Win_create(&own, sizeof own, 1, MPI_INFO_NULL, comm, &win));
    use(win, &own, "fence");
    MPI_Comm_free(&before);
    check(ftkit_finish(ft) >= 0 && ftkit_close(&ft) >= 0, "the end");
    if (me == 0)
        printf("OK %d\n", checks);
    MPI_Finalize();
    return 0;
}
