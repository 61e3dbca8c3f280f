/* One interface for an MPI with ULFM (mpi_ulfm.c) and one without (mpi_plain.c).  The Makefile
 * chooses the file.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_MPI_SHIM_H
#define FTK_MPI_SHIM_H

#include "ftk.h"

/* Whether failures can be repaired in this job: ftkit is built with ULFM, ULFM is switched on,
 * and the settings of the MPI are safe.  If not, why [bytes] says what to change.  Local; call
 * this function on every process and take the minimum. */
bool ftk_mpi_can_repair(char *why, size_t bytes);

/* Whether this MPI keeps the other processes alive when one dies, even if that is not safe. */
bool ftk_mpi_outlives(void);

/* Whether an MPI return code means that a process has failed or that the communicator
 * was revoked because one has. */
bool ftk_mpi_is_failure(int mpi_rc);

/* Whether an MPI return code means that a receive from any source is still pending although a
 * process has failed. */
bool ftk_mpi_is_pending(int mpi_rc);

/* The code that MPI calls return on a rank that has to roll back. */
int ftk_mpi_failure_code(void);

/* Local: interrupt all calls on comm, on all ranks.  Safe on MPI_COMM_NULL. */
void ftk_mpi_revoke(MPI_Comm comm);

/* Collective over the live members of comm, which may be revoked: make a communicator of the live
 * members in their old order, with MPI_ERRORS_RETURN. */
int ftk_mpi_shrink(MPI_Comm comm, MPI_Comm *live);

/* Collective over the live members of comm, with the same result on all: *all = 1 if every member
 * has passed mine != 0 and no member has failed before that, else 0. */
int ftk_mpi_agree(MPI_Comm comm, int mine, int *all);

/* Make a communicator of this process alone.  The program may have attributes on MPI_COMM_SELF: a
 * duplicate would call their copy functions. */
static inline int ftk_mpi_alone(MPI_Comm *comm)
{
    return MPI_Comm_split(MPI_COMM_SELF, 0, 0, comm);
}

/* Free a communicator.  One on which processes have agreed (ftk_mpi_agree(), and the first argument
 * of ftk_mpi_shrink()) is freed by ftk_mpi_free_agreed().  MPI_COMM_NULL: no effect; after an error
 * the communicator is only not freed.  *comm becomes MPI_COMM_NULL. */
void ftk_mpi_free(MPI_Comm *comm);
/* MPI_Finalize has begun: free these communicators. */
void ftk_mpi_free_agreed(void);

/* Local: whether a process of comm is known to have failed. */
bool ftk_mpi_has_failed(MPI_Comm comm);

/* Local: the ranks in MPI_COMM_WORLD of members of comm that are no members of now, at most max.
 * Returns their number; members of another MPI_COMM_WORLD are left out.  *all: the number of all
 * members of comm that are no members of now, on every process the same. */
int ftk_mpi_missing_in(MPI_Comm comm, MPI_Comm now, int *world_ranks, int max, int *all);

/* Local: whether members of comm are known to have failed, and all of these are members of past and
 * none is a member of now.  past MPI_GROUP_NULL: false. */
bool ftk_mpi_failed_before(MPI_Comm comm, MPI_Group past, MPI_Comm now);

/* Local: the rank in MPI_COMM_WORLD of a member of comm; -1: it is of another MPI_COMM_WORLD. */
int ftk_mpi_world_rank(MPI_Comm comm, int rank);

/* Local: whether rank me of comm is the first member that is in this process's MPI_COMM_WORLD. */
bool ftk_mpi_is_first_in(MPI_Comm comm, int me);

/* If all members of comm that are known to have failed have ranks from first on, acknowledge
 * these failures, so that receives from any source continue, and put their number in *gone. */
bool ftk_mpi_ack_from(MPI_Comm comm, int first, int *gone);

#endif
