/* Requests of `ftkit run` to the ranks (asks.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTKIT_TOOLS_ASKS_H
#define FTKIT_TOOLS_ASKS_H

#include "tools.h"

/* Make the page of the run, which outlives an attempt. */
void ftk_asks_begin(const struct ftk_run *r);
/* A new attempt begins. */
void ftk_asks_attempt(void);
/* SIGUSR1 to `ftkit run`: ask the ranks for a durable set. */
void ftk_asks_set(pid_t mpirun);
/* Another signal to `ftkit run`: ask the ranks for a halt.  false: they are not asked, because
 * checkpoint.signals is false; the signal is handed on to the program. */
bool ftk_asks_halt(pid_t mpirun, int sig);

#endif
