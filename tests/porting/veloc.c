/* Heat in a rod, protected by VeloC: veloc CONFIG
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <veloc.h>

#include "heat.h"

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (VELOC_Init(MPI_COMM_WORLD, argv[1]) != VELOC_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);

    int rank, step = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double *u = heat_new(rank);

    VELOC_Mem_protect(0, &step, 1, sizeof step);
    VELOC_Mem_protect(1, u, CELLS + 2, sizeof *u);
    int version = VELOC_Restart_test("heat", 0);
    if (version > 0 && VELOC_Restart("heat", version) != VELOC_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);

    while (step < STEPS) {
        heat_step(u, MPI_COMM_WORLD);
        step++;
        if (step % 5 == 0 && VELOC_Checkpoint("heat", step) != VELOC_SUCCESS)
            fprintf(stderr, "step %d: no checkpoint\n", step);
    }

    heat_print(u, step, MPI_COMM_WORLD);
    free(u);
    VELOC_Finalize(1);
    MPI_Finalize();
    return 0;
}
