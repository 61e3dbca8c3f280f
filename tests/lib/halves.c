/* MPI_Allgatherv as Open MPI implements it for small jobs: a gather and a broadcast.  It has the
 * same bug as in Open MPI: the return code of the broadcast is dropped.  So a process whose parent
 * in the tree has died gets MPI_SUCCESS, although nothing has been written.  To be preloaded;
 * FTKIT_HALVES=rank:nth kills the process of that rank in MPI_COMM_WORLD between the two halves
 * of its nth call.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void die_here(void)
{
    static const char line[] = "halves: killed between gather and broadcast\n";
    static int calls;
    int rank = -1, nth = 0;
    const char *when = getenv("FTKIT_HALVES"), *me = getenv("OMPI_COMM_WORLD_RANK");
    const char *log = getenv("FTKIT_FAULT_LOG");
    if (!when || !me || sscanf(when, "%d:%d", &rank, &nth) != 2)
        return;
    if (++calls != nth || rank != (int)strtol(me, NULL, 10))
        return;
    int fd = log ? open(log, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    if (fd < 0 || write(fd, line, sizeof line - 1) != sizeof line - 1)
        abort(); /* a test that cannot see its fault must not pass */
    (void)kill(getpid(), SIGKILL);
    (void)pause();
}

int PMPI_Allgatherv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
    const int *counts, const int *displs, MPI_Datatype recvtype, MPI_Comm comm)
{
    int n = 0, total = 0;
    int rc = PMPI_Comm_size(comm, &n);
    if (rc == MPI_SUCCESS)
        rc = PMPI_Gatherv(sendbuf, sendcount, sendtype, recvbuf, counts, displs, recvtype, 0, comm);
    if (rc != MPI_SUCCESS)
        return rc;
    die_here();
    for (int i = 0; i < n; i++) /* the tests place the blocks one behind the other */
        total += counts[i];
    (void)PMPI_Bcast(recvbuf, total, recvtype, 0, comm);
    return MPI_SUCCESS;
}
