/* The standard input of a run (input.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTKIT_TOOLS_INPUT_H
#define FTKIT_TOOLS_INPUT_H

#include "tools.h"

/* Look at the standard input of `ftkit run`.  Afterwards the environment of a job names it. */
void ftk_input_begin(const struct ftk_run *r);
/* Before mpirun is started: the descriptor that becomes its standard input, or -1: ours does. */
int ftk_input_attempt(void);
/* mpirun was started: give it what the descriptor promises. */
void ftk_input_give(void);
/* mpirun has ended. */
void ftk_input_end(void);

#endif
