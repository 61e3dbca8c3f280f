/* What one-sided communication costs with the log, beside the windows of the MPI.
 *
 * The same operation is made by PMPI_ calls on a window of the MPI, and by MPI_ calls on one of
 * ftkit's.  A repetition is a set and then BLOCKS short blocks of both in turns; it gives the
 * fastest block of each (log.c has the reason).
 *
 *   win [-k KIND] [-w WAY] [-m MEMORY] [-o BOUND] [-t TEAM_SIZE] [-b BYTES] [-r REPETITIONS]
 *
 * KIND: put, get, acc (MPI_Accumulate, a sum of doubles), fop (MPI_Fetch_and_op, of 8 bytes).
 * WAY: flush (rank 0 has MPI_Win_lock_all, and each operation a flush; the other rank waits in a
 * barrier), rate (the same with a flush after 64 operations; time of an operation), fence (each
 * rank has an operation to the next rank between two fences; time of an operation and a fence).
 * MEMORY of the window of ftkit: allocate, shared (MPI_Win_allocate_shared), made (MPI_Win_create
 * on memory of MPI_Alloc_mem), plain (the same on other memory, which is reached by messages).
 * BOUND: mpi (the window of the MPI), copy (a memcpy() of the bytes), trip (the bytes to the other
 * rank and back, by PMPI_Send and PMPI_Recv).
 * TEAM_SIZE: ranks that roll back together; 0: log.teams = all, which flush and rate need.  The
 * ranks of a node then reach the memory of each other without messages.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <stdbool.h>

#include "bench.h"

enum { BLOCKS = 20, MANY = 64 /* operations before a flush */ };

/* The calls of one side. */
struct side {
    int (*put)(const void *, int, MPI_Datatype, int, MPI_Aint, int, MPI_Datatype, MPI_Win);
    int (*get)(void *, int, MPI_Datatype, int, MPI_Aint, int, MPI_Datatype, MPI_Win);
    int (*acc)(const void *, int, MPI_Datatype, int, MPI_Aint, int, MPI_Datatype, MPI_Op, MPI_Win);
    int (*fop)(const void *, void *, MPI_Datatype, int, MPI_Aint, MPI_Op, MPI_Win);
    int (*flush)(int, MPI_Win);
    int (*fence)(int, MPI_Win);
    int (*barrier)(MPI_Comm);
    MPI_Comm comm;
    MPI_Win win;
};

static struct side theirs = { PMPI_Put, PMPI_Get, PMPI_Accumulate, PMPI_Fetch_and_op,
    PMPI_Win_flush, PMPI_Win_fence, PMPI_Barrier, MPI_COMM_NULL, MPI_WIN_NULL };
static struct side ours = { MPI_Put, MPI_Get, MPI_Accumulate, MPI_Fetch_and_op, MPI_Win_flush,
    MPI_Win_fence, MPI_Barrier, MPI_COMM_NULL, MPI_WIN_NULL };

static const char *kind = "put", *way = "flush", *memory = "allocate", *bound = "mpi";
static int team_size;
static char *mine; /* [bytes], of the origin */
static char *room; /* of MEMORY made and plain */

static int option(int opt, const char *value)
{
    if (opt == 'k')
        kind = value;
    else if (opt == 'w')
        way = value;
    else if (opt == 'm')
        memory = value;
    else if (opt == 'o')
        bound = value;
    else
        team_size = atoi(value);
    return team_size < 0;
}

static bool is(const char *what, const char *name)
{
    return strcmp(what, name) == 0;
}

static int operate(const struct bench *b, const struct side *s, int target)
{
    const int n = (int)b->bytes, words = n / (int)sizeof(double);
    if (is(kind, "put"))
        return s->put(mine, n, MPI_BYTE, target, 0, n, MPI_BYTE, s->win);
    if (is(kind, "get"))
        return s->get(mine, n, MPI_BYTE, target, 0, n, MPI_BYTE, s->win);
    if (is(kind, "acc"))
        return s->acc(mine, words, MPI_DOUBLE, target, 0, words, MPI_DOUBLE, MPI_SUM, s->win);
    return s->fop(mine, mine + 8, MPI_INT64_T, target, 0, MPI_SUM, s->win);
}

static void passive(struct bench *b, const struct side *s, int ops)
{
    const int each = is(way, "rate") ? MANY : 1;
    int rc = MPI_SUCCESS;
    for (int i = 0; b->rank == 0 && i < ops; i++) {
        rc |= operate(b, s, 1);
        if ((i + 1) % each == 0)
            rc |= s->flush(1, s->win);
    }
    bench_mpi(b, rc, "operations with flush");
}

static void fences(struct bench *b, const struct side *s, int ops)
{
    int rc = MPI_SUCCESS;
    for (int i = 0; i < ops; i++) {
        rc |= operate(b, s, (b->rank + 1) % b->nranks);
        rc |= s->fence(0, s->win);
    }
    bench_mpi(b, rc, "operations with fences");
}

/* Seconds of an operation in a block: of the rank that took longest. */
static double block_s(struct bench *b, const struct side *s, int ops)
{
    double all;
    bench_mpi(b, s->barrier(s->comm), "barrier");
    const double start = bench_now_s();
    if (is(way, "fence"))
        fences(b, s, ops);
    else
        passive(b, s, ops);
    double took = is(way, "fence") || b->rank == 0 ? (bench_now_s() - start) / ops : 0;
    bench_mpi(b, s->barrier(s->comm), "barrier"); /* a target serves here */
    bench_mpi(b, PMPI_Allreduce(&took, &all, 1, MPI_DOUBLE, MPI_MAX, theirs.comm), "maximum");
    return all;
}

static double copy_s(const struct bench *b, char *to, int ops)
{
    const double start = bench_now_s();
    for (int i = 0; i < ops; i++) {
        memcpy(to, mine, b->bytes);
        __asm__ volatile("" : : "r"(to) : "memory");
    }
    return (bench_now_s() - start) / ops;
}

static double trip_s(struct bench *b, char *to, int ops)
{
    const int n = (int)b->bytes, other = 1 - b->rank;
    int rc = PMPI_Barrier(theirs.comm);
    const double start = bench_now_s();
    for (int i = 0; b->rank < 2 && i < ops; i++) {
        if (b->rank == 0)
            rc |= PMPI_Send(mine, n, MPI_BYTE, other, 0, theirs.comm);
        rc |= PMPI_Recv(to, n, MPI_BYTE, other, 0, theirs.comm, MPI_STATUS_IGNORE);
        if (b->rank == 1)
            rc |= PMPI_Send(mine, n, MPI_BYTE, other, 0, theirs.comm);
    }
    bench_mpi(b, rc, "a message and its answer");
    return (bench_now_s() - start) / ops;
}

static double bound_s(struct bench *b, char *to, int ops)
{
    if (is(bound, "copy"))
        return copy_s(b, to, ops);
    return is(bound, "trip") ? trip_s(b, to, ops) : block_s(b, &theirs, ops);
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

static void repetition(struct bench *b, char *to, int ops)
{
    double ftkit = 1e9, least_bound = 1e9;
    bench_checkpoint(b);
    (void)block_s(b, &ours, ops);
    (void)bound_s(b, to, ops);
    for (int i = 0; i < BLOCKS; i++) {
        least_bound = least(least_bound, bound_s(b, to, ops));
        ftkit = least(ftkit, block_s(b, &ours, ops));
    }
    bench_row(
        b, "ranks=%d bytes=%zu ftkit_s=%.4e bound_s=%.4e", b->nranks, b->bytes, ftkit, least_bound);
}

static void configure(void)
{
    char number[16];
    snprintf(number, sizeof number, "%d", team_size);
    bench_set("FTKIT_CHECKPOINT_PERIOD", "1 call");
    bench_set("FTKIT_LEVEL_HDF5_ENABLED", "false");
    bench_set("FTKIT_LOG_ENABLED", "true");
    if (team_size > 0)
        bench_set("FTKIT_LOG_TEAM_SIZE", number);
    else
        bench_set("FTKIT_LOG_TEAMS", "all");
}

static int open_ours(const struct bench *b, MPI_Aint bytes, void *at)
{
    if (is(memory, "allocate"))
        return MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, b->comm, at, &ours.win);
    if (is(memory, "shared"))
        return MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, b->comm, at, &ours.win);
    int rc = MPI_SUCCESS;
    if (is(memory, "made"))
        rc = MPI_Alloc_mem(bytes, MPI_INFO_NULL, (void *)&room);
    else
        room = bench_alloc(b, (size_t)bytes);
    *(char **)at = room;
    return rc == MPI_SUCCESS ? MPI_Win_create(room, bytes, 1, MPI_INFO_NULL, b->comm, &ours.win)
                             : rc;
}

static void open_windows(const struct bench *b, MPI_Aint bytes)
{
    void *at;
    ours.comm = b->comm;
    bench_mpi(b, PMPI_Comm_dup(MPI_COMM_WORLD, &theirs.comm), "duplicate");
    int rc = PMPI_Win_allocate(bytes, 1, MPI_INFO_NULL, theirs.comm, (void *)&at, &theirs.win);
    bench_mpi(b, rc, "a window of the MPI");
    memset(at, 0, (size_t)bytes);
    bench_mpi(b, open_ours(b, bytes, (void *)&at), "a window of ftkit");
    memset(at, 0, (size_t)bytes);
}

/* Locks need a set. */
static void begin(struct bench *b)
{
    bench_checkpoint(b);
    if (is(way, "fence")) {
        bench_mpi(b, PMPI_Win_fence(0, theirs.win) | MPI_Win_fence(0, ours.win), "fence");
        return;
    }
    bench_mpi(b, PMPI_Win_lock_all(0, theirs.win) | MPI_Win_lock_all(0, ours.win), "lock_all");
}

static void end(const struct bench *b)
{
    int rc = MPI_SUCCESS;
    if (!is(way, "fence"))
        rc = PMPI_Win_unlock_all(theirs.win) | MPI_Win_unlock_all(ours.win);
    rc |= PMPI_Win_free(&theirs.win) | MPI_Win_free(&ours.win) | PMPI_Comm_free(&theirs.comm);
    if (is(memory, "made"))
        rc |= MPI_Free_mem(room);
    bench_mpi(b, rc, "free");
}

int main(int argc, char **argv)
{
    struct bench b = { .bytes = 8, .reps = 5 };
    int step = 0;
    bench_options(&b, argc, argv, "b:r:k:w:m:o:t:", option);
    if ((!is(kind, "put") && !is(kind, "get") && !is(kind, "acc") && !is(kind, "fop"))
        || (!is(way, "flush") && !is(way, "rate") && !is(way, "fence")))
        bench_die(&b, "there is no kind '%s' with '%s'", kind, way);
    if ((!is(memory, "allocate") && !is(memory, "shared") && !is(memory, "made")
            && !is(memory, "plain"))
        || (!is(bound, "mpi") && !is(bound, "copy") && !is(bound, "trip")))
        bench_die(&b, "there is no memory '%s' with bound '%s'", memory, bound);
    configure();
    bench_open(&b, &argc, &argv);
    if (b.nranks < 2)
        bench_die(&b, "needs two ranks");
    mine = bench_alloc(&b, b.bytes + 16);
    char *to = bench_alloc(&b, b.bytes);
    memset(mine, 0, b.bytes + 16); /* sums of doubles stay in range */
    open_windows(&b, (MPI_Aint)b.bytes);
    bench_ft(&b, ftkit_register(b.ft, "step", &step, 1, MPI_INT), FTKIT_OK, "register");
    bench_ft(&b, ftkit_recover(b.ft, NULL), FTKIT_NO_SET, "recover");
    begin(&b);
    const int ops = b.bytes > 262144 ? MANY / 4 : b.bytes > 2048 ? MANY : 4 * MANY;
    for (; step < b.reps; step++)
        repetition(&b, to, is(way, "rate") && ops < MANY ? MANY : ops);
    end(&b);
    return bench_close(&b);
}
