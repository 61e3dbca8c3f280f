/* Notice to MPI that a process has ended (see mpi_notify.h): this MPI takes no notice.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "mpi_notify.h"

int ftk_mpi_job(void)
{
    return -1;
}

bool ftk_mpi_notify_lost(int job, int rank)
{
    (void)job;
    (void)rank;
    return false;
}
