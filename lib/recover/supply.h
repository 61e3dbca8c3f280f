/* Supply of processes: spawning.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_SUPPLY_H
#define FTK_SUPPLY_H

#include "core/context.h"

/* Spawn n processes of a program; merged: the members of s in their order, then the spawned
 * processes.  Collective over s.  A local error of rank 0 makes the spawn fail on all members.
 * *refused: after an error: all members of s have agreed that the attempt has failed. */
int ftk_supply_spawn(
    struct ftkit_ctx *ctx, MPI_Comm s, int program, int n, MPI_Comm *merged, bool *refused);
/* Return whether a repair has spawned this process.  True at most once in a process: for its first
 * context. */
bool ftk_supply_is_spawned(void);
/* In a spawned process of a job of several programs: the number of its program.  Else -1. */
int ftk_supply_program(void);
/* ... the directory of ctx->programs; "": there is none. */
const char *ftk_supply_directory(void);
/* In a spawned process: check that this process is in the directory of its program.  FTKIT_ERR_IO:
 * the directory is missing on this node, and mpirun has chosen another one. */
int ftk_supply_check_directory(void);
/* In a spawned process: make the communicator that ftk_supply_spawn() makes in the others.  *job:
 * their ctx->job.  If they have given up, the process ends. */
int ftk_supply_join(MPI_Comm *merged, uint64_t *job);

#endif
