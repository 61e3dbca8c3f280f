/* The calls of FTI.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <fti.h>

int main(int argc, char **argv)
{
    int x = argc, size;
    MPI_Init(&argc, &argv);
    const int good = FTI_Init(argv[1], MPI_COMM_WORLD) == FTI_SCES
                     && MPI_Comm_size(FTI_COMM_WORLD, &size) == MPI_SUCCESS && size == 2
                     && FTI_Protect(0, &x, 1, FTI_INTG) == FTI_SCES && FTI_Status() == 0
                     && FTI_Checkpoint(1, 4) == FTI_DONE && FTI_Finalize() == FTI_SCES;
    MPI_Finalize();
    return !good;
}
