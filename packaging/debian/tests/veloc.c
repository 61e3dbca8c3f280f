/* The calls of VeloC.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <veloc.h>

int main(int argc, char **argv)
{
    int x = argc, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int good = size == 2 && VELOC_Init(MPI_COMM_WORLD, argv[1]) == VELOC_SUCCESS
                     && VELOC_Mem_protect(0, &x, 1, sizeof x) == VELOC_SUCCESS
                     && VELOC_Restart_test("x", 0) == VELOC_FAILURE
                     && VELOC_Checkpoint("x", 1) == VELOC_SUCCESS
                     && VELOC_Finalize(1) == VELOC_SUCCESS;
    MPI_Finalize();
    return !good;
}
