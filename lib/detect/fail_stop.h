/* The end of a job that has lost a process and cannot be repaired.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_FAIL_STOP_H
#define FTK_FAIL_STOP_H

#include "core/ftk.h"

/* For an MPI that lets the others live when a process dies, in an environment in which that
 * cannot be made use of: see to it that every process of the job ends.  comm has the
 * handler of the program; MPI_ERRORS_ARE_FATAL becomes one that does end it. */
int ftk_fail_stop_guard(MPI_Comm comm, MPI_Errhandler of_program);

/* Flush stdio and die of SIGKILL: the only end of a process that MPI reports to all others. */
_Noreturn void ftk_fail_stop_die(void);

#endif
