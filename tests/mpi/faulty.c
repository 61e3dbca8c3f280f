/* Programs with one mistake each, for `ftkit test`.
 *
 *     faulty MODE [STEPS [MS [KILLS]]]
 *
 * Sums up a value that each step changes, and writes the sum to the file "result".  A step takes MS
 * milliseconds.  After the steps the program calls ftkit_checkpoint() until KILLS kills have been
 * injected, however late `ftkit run` is: those that the output so far tells of, which is the file
 * "log", or, in a directory kill-N of `ftkit test`, "../kill-N.err".  The undisturbed run of
 * `ftkit test` has neither file.  MODE is the mistake:
 *
 *     none        there is none
 *     forgets     a variable that the next step needs is in no region
 *     chance      the result is another one in each run
 *     plain       the program does not use ftkit
 *     never       it does not call ftkit_checkpoint
 *     world       it communicates on MPI_COMM_WORLD after ftkit_open
 *     hangs       after a rollback it never ends
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ftkit.h"

static double sum;        /* a region */
static double growth = 1; /* a region, unless it is forgotten */
static int step;          /* a region */
static const char *mode = "none";
static int steps = 40, ms = 10, kills;

static int is(const char *what)
{
    return strcmp(mode, what) == 0;
}

static void compute(MPI_Comm comm)
{
    const struct timespec t = { ms / 1000, ms % 1000 * 1000000L }; /* the work of a step */
    double mine = growth, all = 0;
    (void)nanosleep(&t, NULL);
    growth += step + 1; /* whole numbers: no sum depends on the order of the ranks */
    (void)MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, comm); /* a failure: ftkit */
    sum += all;
}

/* The output of the job so far, or NULL. */
static FILE *open_output(void)
{
    char here[4096], path[4096];
    FILE *f = fopen("log", "r");
    const char *name = getcwd(here, sizeof here) ? strrchr(here, '/') : NULL;
    if (f || !name || strncmp(name, "/kill-", 6) != 0)
        return f;
    snprintf(path, sizeof path, "..%.4000s.err", name);
    return fopen(path, "r");
}

/* Whether a kill is to come.  Rank 0 looks; after a failure the answer of a rank is yes. */
static int awaits_kill(MPI_Comm comm)
{
    const struct timespec t = { 0, 2000000 };
    char line[1024];
    int more = 1, n = 0, rank;
    if (kills == 0)
        return 0;
    (void)nanosleep(&t, NULL);
    MPI_Comm_rank(comm, &rank);
    FILE *f = rank == 0 ? open_output() : NULL;
    while (f && fgets(line, sizeof line, f))
        n += strncmp(line, "ftkit run: killed", 17) == 0;
    if (rank == 0)
        more = f && n < kills;
    if (f)
        (void)fclose(f);
    return MPI_Bcast(&more, 1, MPI_INT, 0, comm) != MPI_SUCCESS || more;
}

static int write_result(int rank)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (rank != 0)
        return 0;
    printf("%d steps\n", step);
    FILE *f = fopen("result", "w");
    if (!f)
        return 1;
    fprintf(f, "sum %.17g\n", sum + (is("chance") ? (double)now.tv_nsec * 1e-9 : 0));
    return fclose(f) != 0;
}

static int plain(void)
{
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (; step < steps; step++)
        compute(MPI_COMM_WORLD);
    int rc = write_result(rank);
    MPI_Finalize();
    return rc;
}

static int prepare(ftkit_ctx *ft, MPI_Comm *comm)
{
    int rc = ftkit_bind_comm(ft, comm);
    if (rc == FTKIT_OK)
        rc = ftkit_register_replicated(ft, "step", &step, 1, MPI_INT);
    if (rc == FTKIT_OK)
        rc = ftkit_register_replicated(ft, "sum", &sum, 1, MPI_DOUBLE);
    if (rc == FTKIT_OK && !is("forgets"))
        rc = ftkit_register(ft, "growth", &growth, 1, MPI_DOUBLE);
    if (rc == FTKIT_OK)
        rc = ftkit_recover(ft, NULL);
    return rc < 0;
}

int main(int argc, char **argv)
{
    ftkit_ctx *ft;
    MPI_Comm comm;
    int rank, rc = FTKIT_OK;
    mode = argc > 1 ? argv[1] : mode;
    steps = argc > 2 ? atoi(argv[2]) : steps;
    ms = argc > 3 ? atoi(argv[3]) : ms;
    kills = argc > 4 ? atoi(argv[4]) : kills;
    MPI_Init(&argc, &argv);
    if (is("plain"))
        return plain();
    if (ftkit_open(MPI_COMM_WORLD, NULL, &ft) != FTKIT_OK || prepare(ft, &comm) != 0)
        return 1;
    for (;;) {
        rc = is("never") ? FTKIT_OK : ftkit_checkpoint(ft);
        if (rc < -39)
            return 1;
        while (rc == FTKIT_ROLLED_BACK && is("hangs"))
            (void)pause();
        if (step >= steps) {
            if (awaits_kill(comm))
                continue;
            rc = ftkit_finish(ft);
            if (rc == FTKIT_ROLLED_BACK)
                continue;
            break;
        }
        compute(is("world") ? MPI_COMM_WORLD : comm);
        step++;
    }
    MPI_Comm_rank(comm, &rank);
    rc = rc < 0 || write_result(rank) != 0;
    rc |= ftkit_close(&ft) != FTKIT_OK;
    MPI_Finalize();
    return rc;
}
