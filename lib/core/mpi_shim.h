/* What differs between an MPI with ULFM and one without, behind one interface:
 * mpi_ulfm.c or mpi_plain.c, chosen by the Makefile.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_MPI_SHIM_H
#define FTK_MPI_SHIM_H

#include "ftk.h"

/* Whether failures can be repaired in this job: built with ULFM, ULFM switched on, and the
 * MPI configured so that it is safe.  When not, why [bytes] says what to change.  Local;
 * evaluate it on every process and take the minimum. */
bool ftk_mpi_can_repair(char *why, size_t bytes);

/* Whether this MPI lets the others live when a process dies, safely or not. */
bool ftk_mpi_outlives(void);

/* Whether an MPI return code means that a process has failed or that the communicator
 * was revoked because one has. */
bool ftk_mpi_is_failure(int mpi_rc);

/* Whether it means that a receive from any source waits although a process has failed. */
bool ftk_mpi_is_pending(int mpi_rc);

/* The code that calls return whose rank has to fall back. */
int ftk_mpi_failure_code(void);

/* Local: interrupt everyone who uses comm.  Safe on MPI_COMM_NULL. */
void ftk_mpi_revoke(MPI_Comm comm);

/* Collective over the live members of comm, which may be revoked: the live ones, in
 * their old order, in a new communicator with MPI_ERRORS_RETURN. */
int ftk_mpi_shrink(MPI_Comm comm, MPI_Comm *live);

/* Collective over the live members of comm, uniform: *all = 1 when everyone gave 1 and
 * nobody failed before giving its word, else 0. */
int ftk_mpi_agree(MPI_Comm comm, int mine, int *all);

/* Local: whether a process of MPI_COMM_WORLD is known to have failed. */
bool ftk_mpi_knows_failed(void);

/* Local: up to max ranks in MPI_COMM_WORLD of members of comm that are known to have failed; how
 * many they are.  Members of another MPI_COMM_WORLD are left out. */
int ftk_mpi_failed_in(MPI_Comm comm, int *world_ranks, int max);

/* Local: the rank in MPI_COMM_WORLD of a member of comm; -1: it is of another MPI_COMM_WORLD. */
int ftk_mpi_world_rank(MPI_Comm comm, int rank);

/* Local: whether rank me of comm is the first one there of this process's MPI_COMM_WORLD. */
bool ftk_mpi_is_first_in(MPI_Comm comm, int me);

/* If every member of comm known to have failed has a rank of at least first, acknowledge
 * them, so that receives from any source go on, and tell their number in *gone. */
bool ftk_mpi_ack_from(MPI_Comm comm, int first, int *gone);

#endif
