/* Open MPI alone: the leader of the other group dies inside of MPI_Intercomm_create.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The leaders exchange the sizes of their groups by messages with the tag of the call, and then
 * lists of processes.  The last rank does the first exchange by itself, and dies. */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#ifdef MPIX_ERR_PROC_FAILED
enum { TAG = 17 };

/* Returns only when the exchange has failed. */
static int meets_and_dies(int ranks)
{
    int one = 1, size = 0;
    MPI_Status st;
    if (PMPI_Send(&one, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD) == MPI_SUCCESS
        && PMPI_Recv(&size, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, &st) == MPI_SUCCESS
        && size == ranks - 1)
        raise(SIGKILL);
    return 1;
}

int main(int argc, char **argv)
{
    int rank, n, class = MPI_SUCCESS;
    MPI_Comm local, inter;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (PMPI_Comm_split(MPI_COMM_WORLD, rank == n - 1, rank, &local) != MPI_SUCCESS)
        return 1;
    if (rank == n - 1)
        return meets_and_dies(n);
    const int rc = PMPI_Intercomm_create(local, 0, MPI_COMM_WORLD, n - 1, TAG, &inter);
    MPI_Error_class(rc, &class);
    printf(class == MPIX_ERR_PROC_FAILED ? "OK bridge\n" : "error class %d\n", class);
    fflush(stdout);
    _exit(class != MPIX_ERR_PROC_FAILED); /* MPI_Finalize would wait for the last rank */
}
#else
int main(void)
{
    fputs("bridge: this MPI has no ULFM\n", stderr);
    return 1;
}
#endif
