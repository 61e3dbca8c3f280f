/* A rank that comes last to each fence of a window, and waits for nobody there, still handles
 * messages.
 *
 * Ranks 0 and 1 have a window of their own, and meet in its fences until rank 2 has written into
 * the memory of rank 0.  For this rank 2 needs a lock of rank 0, by a message.  Rank 0 works
 * between two fences, so that it is the last one.
 *
 * Fault points: app.step; app.mid once a step.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <time.h>

#include "foreign.h"

/* Words of the windows; a step has so many fences at most. */
enum { TURN, STOP, WORDS, FENCES_MOST = 500000, WORK_NS = 20000 };

static struct {
    volatile uint64_t *turn; /* [WORDS] of all */
    volatile uint64_t *stop; /* [WORDS] of pair */
    uint64_t *state;         /* registered: a hash, what is wrong */
    MPI_Comm two;
    MPI_Win all, pair;
} w = { .two = MPI_COMM_NULL, .all = MPI_WIN_NULL, .pair = MPI_WIN_NULL };

static int prepare(struct foreign *f)
{
    w.state = foreign_state(f, 2);
    return !w.state || f->nranks < 3;
}

static int make(MPI_Comm comm, MPI_Win *win, volatile uint64_t **words)
{
    void *memory;
    int rc = MPI_Win_allocate(
        WORDS * sizeof(uint64_t), sizeof(uint64_t), MPI_INFO_NULL, comm, (void *)&memory, win);
    if (rc != MPI_SUCCESS)
        return rc;
    memset(memory, 0, WORDS * sizeof(uint64_t));
    *words = memory;
    return MPI_Win_set_errhandler(*win, MPI_ERRORS_RETURN);
}

static int connect_ranks(struct foreign *f)
{
    int rc = MPI_Comm_split(f->comm, f->rank < 2 ? 0 : MPI_UNDEFINED, 0, &w.two);
    if (rc == MPI_SUCCESS)
        rc = make(f->comm, &w.all, &w.turn);
    if (rc == MPI_SUCCESS && w.two != MPI_COMM_NULL)
        rc = make(w.two, &w.pair, &w.stop);
    return rc != MPI_SUCCESS || MPI_Barrier(f->comm) != MPI_SUCCESS;
}

static void disconnect(void)
{
    if (w.pair != MPI_WIN_NULL)
        MPI_Win_free(&w.pair);
    if (w.all != MPI_WIN_NULL)
        MPI_Win_free(&w.all);
    if (w.two != MPI_COMM_NULL)
        MPI_Comm_free(&w.two);
}

static void work(void)
{
    struct timespec from, now;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - from.tv_sec) * 1000000000L + now.tv_nsec - from.tv_nsec < WORK_NS);
}

/* Rank 0 ends the fences of both when it has what rank 2 writes: it puts the number of the step and
 * that of the fences.  Rank 1 may see them one fence early. */
static void meet(const struct foreign *f)
{
    const uint64_t end = (uint64_t)f->step + 1;
    uint64_t last = FENCES_MOST;
    int rc = MPI_Win_fence(0, w.pair);
    for (uint64_t fences = 0; rc == MPI_SUCCESS && fences < last; fences++) {
        if (f->rank == 0)
            work();
        if (f->rank == 0 && last == FENCES_MOST && w.turn[TURN] == end) {
            last = fences + 2;
            const uint64_t both = end << 32 | last;
            rc = MPI_Put(&both, 1, MPI_UINT64_T, 1, STOP, 1, MPI_UINT64_T, w.pair);
        }
        if (rc == MPI_SUCCESS)
            rc = MPI_Win_fence(0, w.pair);
        if (f->rank == 1 && w.stop[STOP] >> 32 == end)
            last = (uint32_t)w.stop[STOP];
    }
    w.state[1] += rc == MPI_SUCCESS && f->rank == 0 && w.turn[TURN] != end;
}

static void write_turn(const struct foreign *f)
{
    const uint64_t end = (uint64_t)f->step + 1;
    int rc = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w.all);
    if (rc == MPI_SUCCESS)
        rc = MPI_Put(&end, 1, MPI_UINT64_T, 0, TURN, 1, MPI_UINT64_T, w.all);
    if (rc == MPI_SUCCESS)
        MPI_Win_unlock(0, w.all);
}

static void step(struct foreign *f)
{
    (void)FTK_FAULT("app.mid");
    if (f->rank < 2)
        meet(f);
    else if (f->rank == 2)
        write_turn(f);
    if (MPI_Barrier(f->comm) == MPI_SUCCESS)
        w.state[0] = foreign_mix(w.state[0], (uint64_t)f->step);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    return foreign_counted(f, w.state[0], w.state[1], hash, detail, room);
}

static void release(void)
{
    free(w.state);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "latecomer", 20, 3, prepare, connect_ranks, disconnect,
        step, verdict, release };
    return foreign_run(argc, argv, &app, NULL);
}
