/* A program whose Init fails on all ranks together: veloc_init CONFIG
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <veloc.h>

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 2 || VELOC_Init(MPI_COMM_WORLD, argv[1]) != VELOC_SUCCESS)
        printf("rank %d: Init has failed\n", rank);
    MPI_Finalize();
    return 0;
}
