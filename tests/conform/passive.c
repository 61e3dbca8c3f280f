/* ranks: 1 3
 * teams: all
 * Windows with locks (MPI 4.0, 12.5.3 to 12.5.5): with one team of all ranks they work as without
 * the log, with several teams each call is an error of MPI that names the key.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "errors.h"

static int refused; /* locks are not possible */

static void refusals(MPI_Win win)
{
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_Win_lock_all(0, win));
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
}

/* Two locks at once, taken in one order by all ranks: nobody waits for ever. */
static void two_locks(MPI_Win win, const int *x)
{
    const int first = 0, second = n - 1;
    for (int round = 0; round < 20; round++) {
        int sum[2];
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, first, 0, win));
        if (second != first)
            OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, second, 0, win));
        OK(MPI_Get(&sum[0], 1, MPI_INT, first, 0, 1, MPI_INT, win));
        OK(MPI_Get(&sum[1], 1, MPI_INT, second, 1, 1, MPI_INT, win));
        OK(MPI_Win_flush_local_all(win));
        sum[0]++;
        sum[1]++;
        OK(MPI_Put(&sum[1], 1, MPI_INT, second, 1, 1, MPI_INT, win));
        OK(MPI_Put(&sum[0], 1, MPI_INT, first, 0, 1, MPI_INT, win));
        OK(MPI_Win_unlock(first, win));
        if (second != first)
            OK(MPI_Win_unlock(second, win));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, win));
    if (me == first)
        EQUAL(20 * n, x[0]);
    if (me == second)
        EQUAL(20 * n, x[1]);
    OK(MPI_Win_unlock(me, win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void count(MPI_Win win)
{
    const int one = 1;
    int was, least = -1;
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 50; i++) {
        OK(MPI_Fetch_and_op(&one, &was, MPI_INT, 0, 2, MPI_SUM, win));
        OK(MPI_Win_flush(0, win));
        TRUE(was > least);
        least = was;
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Fetch_and_op(NULL, &was, MPI_INT, 0, 2, MPI_NO_OP, win));
    OK(MPI_Win_flush_local(0, win));
    EQUAL(50 * n, was);
    OK(MPI_Win_unlock_all(win));
}

/* A rank looks at its memory until another rank has written. */
static void flags(MPI_Win win, volatile int *x)
{
    const int one = 1;
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Accumulate(&one, 1, MPI_INT, (me + 1) % n, 3, 1, MPI_INT, MPI_REPLACE, win));
    OK(MPI_Win_flush((me + 1) % n, win));
    while (x[3] == 0)
        OK(MPI_Win_sync(win));
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* A rank repeats operations on itself until another rank has written: they serve the others. */
static void own(MPI_Win win)
{
    const int one = 1;
    int flag = 0;
    if (me != 0) {
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
        OK(MPI_Accumulate(&one, 1, MPI_INT, 0, 8, 1, MPI_INT, MPI_SUM, win));
        OK(MPI_Win_unlock(0, win));
    }
    while (me == 0 && flag < n - 1) {
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
        OK(MPI_Get(&flag, 1, MPI_INT, 0, 8, 1, MPI_INT, win));
        OK(MPI_Win_unlock(0, win));
    }
    OK(MPI_Win_lock_all(0, win));
    if (me != 0) {
        OK(MPI_Accumulate(&one, 1, MPI_INT, 0, 9, 1, MPI_INT, MPI_SUM, win));
        OK(MPI_Win_flush(0, win));
    }
    for (flag = 0; me == 0 && flag < n - 1;) {
        MPI_Request q;
        OK(MPI_Rget(&flag, 1, MPI_INT, 0, 9, 1, MPI_INT, win, &q));
        OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void requests(MPI_Win win)
{
    int put = me, got = -1, add = 1, old = -1, to = (me + 1) % n;
    MPI_Request q[4];
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Rput(&put, 1, MPI_INT, to, 4, 1, MPI_INT, win, &q[0]));
    OK(MPI_Wait(&q[0], MPI_STATUS_IGNORE));
    OK(MPI_Win_flush_all(win));
    OK(MPI_Rget(&got, 1, MPI_INT, to, 4, 1, MPI_INT, win, &q[0]));
    OK(MPI_Raccumulate(&add, 1, MPI_INT, to, 5, 1, MPI_INT, MPI_SUM, win, &q[1]));
    OK(MPI_Rget_accumulate(
        &add, 1, MPI_INT, &old, 1, MPI_INT, to, 6, 1, MPI_INT, MPI_SUM, win, &q[2]));
    OK(MPI_Rget(&got, 0, MPI_INT, MPI_PROC_NULL, 0, 0, MPI_INT, win, &q[3]));
    OK(MPI_Waitall(4, q, MPI_STATUSES_IGNORE));
    EQUAL(me, got);
    EQUAL(0, old);
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Requests of windows that are deleted: windows after them may have the same memory. */
static void of_old_windows(void)
{
    enum { MANY = 16 };
    int x[MANY] = { 0 }, got[MANY], done, to = (me + 1) % n;
    MPI_Win win[MANY];
    MPI_Request q[MANY], last;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++) {
            OK(MPI_Win_create(&x[i], sizeof *x, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win[i]));
            OK(MPI_Win_lock_all(0, win[i]));
        }
        for (int i = 0; round == 0 && i < MANY; i++) {
            for (int k = 0; k < 4; k++) {
                OK(MPI_Rget(&got[i], 1, MPI_INT, to, 0, 1, MPI_INT, win[i], &last));
                if (k < 3)
                    OK(MPI_Wait(&last, MPI_STATUS_IGNORE));
            }
            q[i] = last;
        }
        for (int i = 0; round == 1 && i < MANY; i++) {
            OK(MPI_Test(&q[i], &done, MPI_STATUS_IGNORE));
            TRUE(done);
        }
        for (int i = 0; i < MANY; i++)
            OK(MPI_Win_unlock_all(win[i]));
        for (int i = 0; i < MANY; i++)
            OK(MPI_Win_free(&win[i]));
    }
}

/* A lock waits for the end of an exposure, which looks at many messages meanwhile. */
static void exposed(MPI_Win win, const int *x)
{
    int y = 5, seen = 0;
    MPI_Group world, origin, target;
    const int zero = 0, one = 1;
    if (n < 3)
        return;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_incl(world, 1, &zero, &origin));
    OK(MPI_Group_incl(world, 1, &one, &target));
    if (me == 1)
        OK(MPI_Win_post(origin, 0, win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (me == 2) {
        OK(MPI_Send(&y, 1, MPI_INT, 1, 0, MPI_COMM_WORLD));
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win));
        OK(MPI_Put(&y, 1, MPI_INT, 1, 8, 1, MPI_INT, win));
        OK(MPI_Win_unlock(1, win));
    }
    if (me == 1)
        OK(MPI_Recv(&y, 1, MPI_INT, 2, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; me < 2 && i < 200; i++)
        OK(MPI_Sendrecv(&i, 1, MPI_INT, 1 - me, 0, &seen, 1, MPI_INT, 1 - me, 0, MPI_COMM_WORLD,
            MPI_STATUS_IGNORE));
    if (me == 1)
        EQUAL(0, x[8]);
    if (me == 0) {
        OK(MPI_Win_start(target, 0, win));
        OK(MPI_Win_complete(win));
    }
    if (me == 1)
        OK(MPI_Win_wait(win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (me == 1)
        EQUAL(5, x[8]);
    if (me == 2)
        OK(MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (me == 1)
        FAILS(MPI_ERR_RMA_SYNC, MPI_Win_post(origin, 0, win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (me == 2)
        OK(MPI_Win_unlock(1, win));
    OK(MPI_Group_free(&world));
    OK(MPI_Group_free(&origin));
    OK(MPI_Group_free(&target));
}

static void errors(MPI_Win win)
{
    enum { FAR_AWAY = 1 << 30 };
    int y = 0, z = 0;
    MPI_Request q;
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_unlock_all(win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_unlock(0, win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_flush(0, win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Rput(&y, 1, MPI_INT, 0, 0, 1, MPI_INT, win, &q));
    FAILS(MPI_ERR_LOCKTYPE, MPI_Win_lock(-5, 0, 0, win));
    FAILS(MPI_ERR_RANK, MPI_Win_lock(MPI_LOCK_SHARED, n, 0, win));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_fence(0, win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_start(MPI_GROUP_EMPTY, 0, win));
    FAILS(MPI_ERR_RANK, MPI_Rput(&y, 1, MPI_INT, n, 0, 1, MPI_INT, win, &q));
    FAILS(MPI_ERR_RMA_RANGE, MPI_Rget(&y, 1, MPI_INT, 0, FAR_AWAY, 1, MPI_INT, win, &q));
    FAILS(MPI_ERR_RMA_RANGE, MPI_Fetch_and_op(&y, &z, MPI_INT, 0, FAR_AWAY, MPI_SUM, win));
    OK(MPI_Win_unlock(0, win));
}

static void body(void)
{
    const char *on = getenv("FTKIT_LOG_ENABLED"), *teams = getenv("FTKIT_LOG_TEAMS");
    int *x;
    MPI_Win win;
    const int logged = on && strcmp(on, "true") == 0;
    refused = logged && !(teams && strcmp(teams, "all") == 0);
    OK(MPI_Win_allocate(16 * sizeof *x, sizeof *x, MPI_INFO_NULL, MPI_COMM_WORLD, &x, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    for (int i = 0; i < 16; i++)
        x[i] = 0;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (refused) {
        refusals(win);
    } else {
        two_locks(win, x);
        count(win);
        flags(win, x);
        own(win);
        requests(win);
        if (logged) {
            of_old_windows();
            exposed(win, x);
            errors(win);
        }
    }
    OK(MPI_Win_free(&win));
}

int main(int argc, char **argv)
{
    return conform(argc, argv, body);
}
