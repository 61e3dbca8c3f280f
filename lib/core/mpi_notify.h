/* Notice to MPI that a process has ended, when its runtime has not found that.  The Makefile
 * chooses the file: lib/core/mpi_notify_pmix.c, or mpi_notify_none.c for an MPI whose runtime
 * takes no notice.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_MPI_NOTIFY_H
#define FTK_MPI_NOTIFY_H

#include "ftk.h"

/* The number of this process's job, which is that of its MPI_COMM_WORLD; -1: not known. */
int ftk_mpi_job(void);

/* Report to all processes of the job that this process has failed: job is its ftk_mpi_job(), rank
 * its rank in MPI_COMM_WORLD.  Without effect on a process that MPI knows to have failed.  Does not
 * wait; any thread may call this function.  False: the runtime takes no notice. */
bool ftk_mpi_notify_lost(int job, int rank);

#endif
