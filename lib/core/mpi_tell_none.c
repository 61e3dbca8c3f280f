/* Telling MPI that a process has ended (see mpi_tell.h): this MPI cannot be told.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "mpi_tell.h"

int ftk_mpi_job(void)
{
    return -1;
}

bool ftk_mpi_tell_lost(int job, int rank)
{
    (void)job;
    (void)rank;
    return false;
}
