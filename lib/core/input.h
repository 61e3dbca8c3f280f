/* The standard input of a process that becomes rank 0.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * mpirun gives standard input to rank 0 of MPI_COMM_WORLD alone, and /dev/null to all others.  A
 * program that reads its input on rank 0 would find nothing there when another process has become
 * rank 0.  `ftkit run` names a file with the input (tools/input.c). */
#ifndef FTK_INPUT_H
#define FTK_INPUT_H

#include "ftk.h"

#define FTK_INPUT_VARIABLE "FTKIT_RUN_INPUT" /* "OFFSET PATH" */

/* This process is rank 0 of the program now: if its standard input is /dev/null, it becomes the
 * input of the run, from the beginning. */
void ftk_input_take(void);

#endif
