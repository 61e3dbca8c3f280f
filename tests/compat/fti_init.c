/* A program whose Init fails on all ranks together: fti_init CONFIG
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <fti.h>

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 2 || FTI_Init(argv[1], MPI_COMM_WORLD) != FTI_SCES)
        printf("rank %d: Init has failed\n", rank);
    MPI_Finalize();
    return 0;
}
