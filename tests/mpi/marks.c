/* The collective steps of ftkit, one behind the other; MPI_Pcontrol() marks the end of each: 0
 * begin, 1 opening, 2 ftkit_recover, 3 to 5 a set, 6 a repair and a set, 7 a set, 8 ftkit_finish, 9
 * ftkit_close.
 *
 * The program sends nothing, but for -r: in each step each rank sends to its right neighbour.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "ftkit.h"

enum { STEPS = 4, REGION = 64 };

static uint64_t data[REGION], step;
static int ring;

static int bad(const char *what, int rc)
{
    if (rc != FTKIT_OK)
        fprintf(stderr, "marks: %s: %s\n", what, ftkit_strerror(rc));
    return rc != FTKIT_OK;
}

static void exchange(ftkit_ctx *ft)
{
    const MPI_Comm comm = ftkit_comm(ft);
    int rank, n;
    uint64_t in;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &n);
    if (ring)
        MPI_Sendrecv(&step, 1, MPI_UINT64_T, (rank + 1) % n, 1, &in, 1, MPI_UINT64_T,
            (rank + n - 1) % n, 1, comm, MPI_STATUS_IGNORE);
}

/* A set, and one step.  In the third step the last rank dies. */
static int make_step(ftkit_ctx *ft, const ftkit_info *info)
{
    const int rc = ftkit_checkpoint(ft);
    if (rc == FTKIT_OK)
        MPI_Pcontrol(3 + (int)step);
    if (step == STEPS || (rc != FTKIT_OK && rc != FTKIT_ROLLED_BACK))
        return bad("checkpoint", rc);
    exchange(ft);
    step++;
    if (step == 3 && info->incarnation == 0 && info->rank == info->nranks - 1)
        raise(SIGKILL);
    return 0;
}

int main(int argc, char **argv)
{
    ftkit_ctx *ft = NULL;
    ftkit_info info = { .size = sizeof info };
    ring = argc > 1 && strcmp(argv[1], "-r") == 0;
    MPI_Init(&argc, &argv);
    MPI_Pcontrol(0);
    int rc = ftkit_open(MPI_COMM_WORLD, NULL, &ft);
    if (rc == FTKIT_SPARE_DONE)
        return MPI_Finalize();
    MPI_Pcontrol(1);
    int failed = bad("open", rc)
                 || bad("register", ftkit_register(ft, "data", data, REGION, MPI_UINT64_T))
                 || bad("register", ftkit_register(ft, "step", &step, 1, MPI_UINT64_T));
    rc = failed ? rc : ftkit_recover(ft, NULL);
    failed = failed || rc < 0;
    MPI_Pcontrol(2);
    failed = failed || bad("query", ftkit_query(ft, &info));
    for (bool last = false; !failed && !last;) {
        last = step == STEPS;
        failed = make_step(ft, &info);
    }
    failed = failed || bad("finish", ftkit_finish(ft));
    MPI_Pcontrol(8);
    failed = bad("close", ftkit_close(&ft)) || failed;
    MPI_Pcontrol(9);
    MPI_Finalize();
    return failed;
}
