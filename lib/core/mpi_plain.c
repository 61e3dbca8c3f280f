/* MPI without ULFM: no failure is repaired in the job; the program is restarted.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "mpi_shim.h"

bool ftk_mpi_can_repair(char *why, size_t bytes)
{
    snprintf(why, bytes, "this build of ftkit is for an MPI without ULFM");
    return false;
}

bool ftk_mpi_outlives(void)
{
    return false;
}

bool ftk_mpi_is_failure(int mpi_rc)
{
    (void)mpi_rc;
    return false;
}

bool ftk_mpi_is_pending(int mpi_rc)
{
    (void)mpi_rc;
    return false;
}

int ftk_mpi_failure_code(void)
{
    return MPI_ERR_OTHER;
}

void ftk_mpi_revoke(MPI_Comm comm)
{
    (void)comm;
}

int ftk_mpi_shrink(MPI_Comm comm, MPI_Comm *live)
{
    return MPI_Comm_dup(comm, live);
}

void ftk_mpi_free(MPI_Comm *comm)
{
    if (*comm != MPI_COMM_NULL)
        (void)MPI_Comm_free(comm); /* after an error it is only not freed */
    *comm = MPI_COMM_NULL;
}

void ftk_mpi_free_agreed(void)
{
}

int ftk_mpi_agree(MPI_Comm comm, int mine, int *all)
{
    return MPI_Allreduce(&mine, all, 1, MPI_INT, MPI_LAND, comm);
}

bool ftk_mpi_ack_from(MPI_Comm comm, int first, int *gone)
{
    (void)comm;
    (void)first;
    (void)gone;
    return false;
}

bool ftk_mpi_has_failed(MPI_Comm comm)
{
    (void)comm;
    return false;
}

int ftk_mpi_missing_in(MPI_Comm comm, MPI_Comm now, int *world_ranks, int max, int *all)
{
    (void)comm;
    (void)now;
    (void)world_ranks;
    (void)max;
    *all = 0;
    return 0;
}

bool ftk_mpi_failed_before(MPI_Comm comm, MPI_Group past, MPI_Comm now)
{
    (void)comm;
    (void)past;
    (void)now;
    return false;
}

int ftk_mpi_world_rank(MPI_Comm comm, int rank)
{
    (void)comm;
    return rank;
}

bool ftk_mpi_is_first_in(MPI_Comm comm, int me)
{
    (void)comm;
    return me == 0;
}
