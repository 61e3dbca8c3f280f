/* Telling MPI that a process has ended, where its runtime does not (lib/core/mpi_tell_pmix.c, and
 * mpi_tell_none.c for an MPI whose runtime cannot be told).  The Makefile chooses the file.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_MPI_TELL_H
#define FTK_MPI_TELL_H

#include "ftk.h"

/* The number of this process's job, which is that of its MPI_COMM_WORLD; -1: not known. */
int ftk_mpi_job(void);

/* Report to all processes of the job that this process has failed: job is its ftk_mpi_job(), rank
 * its rank in MPI_COMM_WORLD.  Without effect on a process that MPI knows to have failed.  Does not
 * wait; any thread may call this function.  False: the runtime cannot be told. */
bool ftk_mpi_tell_lost(int job, int rank);

#endif
