/* Messages of this process to `ftkit run`: lines in the file of FTKIT_RUN_STATE (tools/state.c
 * has their meaning).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_RUN_STATE_H
#define FTK_RUN_STATE_H

#include "ftk.h"

/* Append one line to the file; does nothing without `ftkit run`. */
void ftk_run_state(const char *fmt, ...) FTK_PRINTF(1, 2);
/* Append a line about the process with this rank in MPI_COMM_WORLD.  what: "idle": it is a spare of
 * a context that is closed; "joined": it was spawned. */
void ftk_run_process(const char *what, int world_rank);
/* Lines "lost": a repair of a context has found that members of before, which are no members of
 * now, have failed.  repair: its number, the same on all processes; 0: the context is opened. */
void ftk_run_lost(MPI_Comm before, MPI_Comm now, int repair, const char *context);
/* The number of the `ftkit run`, and a hash of the name that mpirun gives the MPI job; 0: none, or
 * not known. */
uint64_t ftk_run_number(void);
uint64_t ftk_run_mpi(void);
/* Whether mpirun goes on when a node is lost, as `ftkit run` has found out. */
bool ftk_run_survives_nodes(void);
/* Map a file of bytes bytes in the directory of the run, shared with `ftkit run`, which makes the
 * file.  NULL: there is none that this node sees.  The mapping stays until the process ends. */
void *ftk_run_map(const char *name, size_t bytes);
/* Whether this process can write to the file. */
bool ftk_run_sees(void);
/* A start has failed with rc.  If a relaunch would meet the same error, append a line with the
 * thread's detail. */
void ftk_run_hopeless(int rc);

#endif
