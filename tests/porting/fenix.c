/* Heat in a rod, repaired by Fenix: fenix, with SPARES processes more than ranks
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <fenix.h>

#include "heat.h"

#define SPARES 1

#define GROUP 0
enum { STEP, U };

static double *u; /* Fenix_Init() may return a second time, by longjmp() */
static int step;

/* The members of the group have the addresses of this process. */
static void restore(int rank)
{
    int flag;
    u = u ? u : heat_new(rank);
    Fenix_Data_member_restore(
        GROUP, STEP, &step, 1, FENIX_DATA_SNAPSHOT_LATEST, FENIX_DATA_SUBSET_IGNORE);
    Fenix_Data_member_restore(
        GROUP, U, u, CELLS + 2, FENIX_DATA_SNAPSHOT_LATEST, FENIX_DATA_SUBSET_IGNORE);
    Fenix_Data_member_attr_set(GROUP, STEP, FENIX_DATA_MEMBER_ATTRIBUTE_BUFFER, &step, &flag);
    Fenix_Data_member_attr_set(GROUP, U, FENIX_DATA_MEMBER_ATTRIBUTE_BUFFER, u, &flag);
}

int main(int argc, char **argv)
{
    int role, error, flag, rank, stamp;
    int policy[] = { 1, 1 }; /* a copy at the next rank */
    MPI_Comm comm;
    MPI_Init(&argc, &argv);
    Fenix_Init(&role, MPI_COMM_WORLD, &comm, &argc, &argv, SPARES, &error);
    if (error != FENIX_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);

    MPI_Comm_rank(comm, &rank);
    Fenix_Data_group_create(GROUP, comm, 0, 0, FENIX_DATA_POLICY_IN_MEMORY_RAID, policy, &flag);
    if (role == FENIX_ROLE_INITIAL_RANK) {
        u = heat_new(rank);
        Fenix_Data_member_create(GROUP, STEP, &step, 1, MPI_INT);
        Fenix_Data_member_create(GROUP, U, u, CELLS + 2, MPI_DOUBLE);
    } else {
        restore(rank);
    }

    while (step < STEPS) {
        if (step % 5 == 0) {
            Fenix_Data_member_store(GROUP, FENIX_DATA_MEMBER_ALL, FENIX_DATA_SUBSET_FULL);
            Fenix_Data_commit_barrier(GROUP, &stamp);
        }
        heat_step(u, comm);
        step++;
    }

    heat_print(u, step, comm);
    free(u);
    Fenix_Finalize();
    MPI_Finalize();
    return 0;
}
