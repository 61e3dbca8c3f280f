/* What a set of a job with the message log costs beside its data: the votes, and a look of dynamic
 * teams.
 *
 * A rank has one number in a region.  Before each set it sends a message to the next rank, so that
 * there is something to look at.  A repetition gives the median of SETS sets.
 *
 *   vote [-t TEAM_SIZE] [-l SETS] [-r REPETITIONS]
 *
 * TEAM_SIZE: ranks that roll back together.  -l: log.teams = dynamic, and log.reteam = SETS sets.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "bench.h"

enum { SETS = 201, LENGTH = 1024 };

static int team_size = 1, every;
static MPI_Comm world; /* of the MPI */

static int option(int opt, const char *value)
{
    int *const number = opt == 't' ? &team_size : &every;
    *number = atoi(value);
    return *number < 1;
}

static void configure(void)
{
    char number[16], sets[24];
    snprintf(number, sizeof number, "%d", team_size);
    snprintf(sets, sizeof sets, "%d sets", every);
    bench_set("FTKIT_CHECKPOINT_PERIOD", "1 call");
    bench_set("FTKIT_LEVEL_HDF5_ENABLED", "false");
    bench_set("FTKIT_LOG_ENABLED", "true");
    bench_set("FTKIT_LOG_TEAM_SIZE", number);
    if (every > 0) {
        bench_set("FTKIT_LOG_TEAMS", "dynamic");
        bench_set("FTKIT_LOG_RETEAM", sets);
    }
}

static void message(const struct bench *b)
{
    static char to[LENGTH], from[LENGTH];
    const int next = (b->rank + 1) % b->nranks, previous = (b->rank + b->nranks - 1) % b->nranks;
    bench_mpi(b,
        MPI_Sendrecv(to, LENGTH, MPI_BYTE, next, 0, from, LENGTH, MPI_BYTE, previous, 0, b->comm,
            MPI_STATUS_IGNORE),
        "message");
}

static int by_time(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* Seconds of a set, of the rank that took longest: the median of SETS sets.  After a look rank 0
 * makes teams in a thread, and looks again when that has ended: the pause leaves it the time. */
static double set_s(struct bench *b)
{
    const struct timespec pause = { 0, 1000000 };
    double took[SETS], all[SETS];
    for (int i = 0; i < SETS; i++) {
        message(b);
        (void)nanosleep(&pause, NULL);
        bench_mpi(b, PMPI_Barrier(world), "barrier");
        const double start = bench_now_s();
        bench_checkpoint(b);
        took[i] = bench_now_s() - start;
    }
    bench_mpi(b, PMPI_Allreduce(took, all, SETS, MPI_DOUBLE, MPI_MAX, world), "maximum");
    qsort(all, SETS, sizeof *all, by_time);
    return all[SETS / 2];
}

int main(int argc, char **argv)
{
    struct bench b = { .reps = 5 };
    int step = 0;
    bench_options(&b, argc, argv, "r:t:l:", option);
    configure();
    bench_open(&b, &argc, &argv);
    bench_mpi(&b, PMPI_Comm_dup(MPI_COMM_WORLD, &world), "duplicate");
    bench_ft(&b, ftkit_register(b.ft, "step", &step, 1, MPI_INT), FTKIT_OK, "register");
    bench_ft(&b, ftkit_recover(b.ft, NULL), FTKIT_NO_SET, "recover");
    for (; step < b.reps; step++) {
        const double median = set_s(&b);
        bench_row(&b, "ranks=%d ftkit_s=%.4e", b.nranks, median);
    }
    bench_mpi(&b, PMPI_Comm_free(&world), "free");
    return bench_close(&b);
}
