/* What debug.check = regions is for: work arrays that the loop writes.
 *
 *     unregistered [all]
 *
 * forgotten, hidden and late are written in each step, begun in the first one; with "all" they are
 * registered.  Prints
 * "OK step 20" on rank 0.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "core/ftk.h"
#include "ftkit.h"

#define N 300

double forgotten[N];        /* global, in no region */
static int hidden[N];       /* of this file */
static int late = 7;        /* with an initial value, in .data */
static volatile int begun;  /* only a replacement has another value */
static double constant[N];  /* written before the loop only */
static double state[N + 2]; /* a region with a halo */
static int step;            /* a region */
MPI_Comm bound;             /* set by a repair */
static struct {             /* an object that keeps a region */
    double items[N];
    int changes; /* differs after a rollback: the object's own business */
} grown;

static void *data_of_grown(void *arg)
{
    (void)arg;
    return grown.items;
}

static size_t count_of_grown(void *arg)
{
    (void)arg;
    return N;
}

static int resize_grown(void *arg, size_t n)
{
    (void)arg;
    return n != N;
}

static const ftkit_container box = { sizeof box, data_of_grown, count_of_grown, resize_grown,
    sizeof grown };

static void compute(void)
{
    double sum = 0;
    begun = 1;
    (void)FTK_FAULT("app.step");
    for (int i = 1; i <= N; i++) {
        forgotten[i - 1] = state[i] + constant[i - 1] + step;
        hidden[i - 1] += step + 1;
        state[i] = 0.5 * state[i] + forgotten[i - 1];
        grown.items[i - 1] += 1;
    }
    grown.changes++;
    late++;
    (void)MPI_Allreduce(&state[1], &sum, 1, MPI_DOUBLE, MPI_SUM, bound); /* a failure: ftkit */
    state[0] = sum;
}

int main(int argc, char **argv)
{
    ftkit_ctx *ft;
    int rank, rc;
    MPI_Init(&argc, &argv);
    if (ftkit_open(MPI_COMM_WORLD, NULL, &ft) != FTKIT_OK)
        return 1;
    MPI_Comm_rank(ftkit_comm(ft), &rank);
    for (int i = 0; i < N; i++)
        constant[i] = i;
    rc = ftkit_bind_comm(ft, &bound);
    if (rc == FTKIT_OK)
        rc = ftkit_register(ft, "state", state, N + 2, MPI_DOUBLE);
    if (rc == FTKIT_OK)
        rc = ftkit_register_container(ft, "grown", &box, &grown, MPI_DOUBLE);
    if (rc == FTKIT_OK)
        rc = ftkit_register_replicated(ft, "step", &step, 1, MPI_INT);
    if (rc == FTKIT_OK && argc > 1 && strcmp(argv[1], "all") == 0) {
        rc = ftkit_register(ft, "forgotten", forgotten, N, MPI_DOUBLE);
        rc = rc == FTKIT_OK ? ftkit_register(ft, "hidden", hidden, N, MPI_INT) : rc;
        rc = rc == FTKIT_OK ? ftkit_register(ft, "late", &late, 1, MPI_INT) : rc;
        rc = rc == FTKIT_OK ? ftkit_register(ft, "begun", (int *)&begun, 1, MPI_INT) : rc;
    }
    if (rc != FTKIT_OK || ftkit_recover(ft, NULL) < 0)
        return 1;
    for (;;) {
        rc = ftkit_checkpoint(ft);
        if (rc < 0)
            return 1;
        if (step >= 20) {
            if (ftkit_finish(ft) == FTKIT_ROLLED_BACK)
                continue;
            break;
        }
        compute();
        step++;
    }
    if (rank == 0)
        printf("OK step %d\n", step);
    rc = ftkit_close(&ft);
    MPI_Finalize();
    return rc != FTKIT_OK;
}
