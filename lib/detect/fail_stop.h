/* The end of a job that has lost a process and cannot be repaired.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_FAIL_STOP_H
#define FTK_FAIL_STOP_H

#include "core/ftk.h"

/* For an MPI that keeps the other processes alive when one dies, in a job without repair: make
 * sure that every process of the job ends.  of_program is the program's handler of comm;
 * MPI_ERRORS_ARE_FATAL is replaced by a handler that ends the process by a signal. */
int ftk_fail_stop_guard(MPI_Comm comm, MPI_Errhandler of_program);

/* Flush stdio and die of SIGKILL: the only end of a process that MPI reports to all others. */
_Noreturn void ftk_fail_stop_die(void);

#endif
