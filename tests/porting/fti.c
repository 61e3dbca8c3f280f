/* Heat in a rod, protected by FTI: fti CONFIG
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <fti.h>

#include "heat.h"

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (FTI_Init(argv[1], MPI_COMM_WORLD) != FTI_SCES)
        MPI_Abort(MPI_COMM_WORLD, 1);

    int rank, step = 0;
    MPI_Comm_rank(FTI_COMM_WORLD, &rank);
    double *u = heat_new(rank);

    FTI_Protect(0, &step, 1, FTI_INTG);
    FTI_Protect(1, u, CELLS + 2, FTI_DBLE);
    if (FTI_Status() != 0 && FTI_Recover() != FTI_SCES)
        MPI_Abort(MPI_COMM_WORLD, 1);

    while (step < STEPS) {
        if (step % 5 == 0)
            FTI_Checkpoint(step / 5 + 1, step % 10 == 0 ? 4 : 2);
        heat_step(u, FTI_COMM_WORLD);
        step++;
    }

    heat_print(u, step, FTI_COMM_WORLD);
    free(u);
    FTI_Finalize();
    MPI_Finalize();
    return 0;
}
