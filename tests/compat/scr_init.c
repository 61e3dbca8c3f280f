/* A program whose Init fails on all ranks together: scr_init
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <scr.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (SCR_Init() != SCR_SUCCESS)
        printf("rank %d: Init has failed\n", rank);
    MPI_Finalize();
    return 0;
}
