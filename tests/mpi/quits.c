/* Open MPI alone: processes end with exit code 3 while others of the job still run.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Rank 1 does not call MPI_Finalize: the others do not wait for it there.  Rank 2 calls it: the
 * job goes on until rank 0 has ended, too. */
#define _GNU_SOURCE
#include <errno.h>
#include <mpi.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    long mine = getpid(), pid[3];
    if (MPI_Allgather(&mine, 1, MPI_LONG, pid, 1, MPI_LONG, MPI_COMM_WORLD) != MPI_SUCCESS)
        return 1;
    if (rank == 1)
        _exit(3);
    MPI_Finalize();
    if (rank == 2)
        return 3;
    for (int r = 1; r < 3; r++) /* until mpirun has seen the end of the process */
        while (kill((pid_t)pid[r], 0) == 0 || errno != ESRCH)
            poll(NULL, 0, 1);
    poll(NULL, 0, 1000); /* mpirun ended the job in this second */
    puts("OK quits");
    return 0;
}
