/* How processes of the job have ended, as mpirun has reported to `ftkit run`.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_RUN_ENDS_H
#define FTK_RUN_ENDS_H

#include "ftk.h"

/* A process, and its end. */
struct ftk_run_end {
    int job, world_rank; /* ftk_mpi_job(), and the rank in MPI_COMM_WORLD */
    uint64_t node;       /* ftk_run_node() of the process; 0: not known */
    int reason, code;    /* as in ftkit_failure */
};

/* A hash of the name that mpirun gives the node of this process; 0: not known. */
uint64_t ftk_run_node(void);
/* Look for the ends of n processes in the file of `ftkit run`.  An end that is not found keeps its
 * reason and code.  Without the file this function does nothing. */
void ftk_run_ends(struct ftk_run_end *e, int n);

#endif
