/* What ftkit relies on when a receiver dies: the sender lives on, also when the end of a message
 * arrives after the sender knows of the death.  Three ranks: 1 receives from 0 and dies, and its
 * last word to 0 stands in a queue behind many messages of 2.  All queues have to be first in,
 * first out (btl_sm_fbox_threshold).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* usleep, ftruncate */
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#ifdef MPIX_ERR_PROC_FAILED

#define BIG (1 << 16) /* bytes that the receiver fetches itself */
#define MANY 300 /* messages: the runtime looks for failures several times while 0 takes them */

enum { BEGUN, QUEUED, KNOWN, FLAGS };
enum { TAG_BIG = 1, TAG_MANY, TAG_LAST };

static atomic_int *flags; /* set by one rank, awaited by another, without a call of MPI */
static char big[BIG], small[8];

static void await(int flag)
{
    while (!flags[flag])
        usleep(100);
}

/* Rank 0 takes nothing out of its queue before 2 knows of the death. */
static int sends(void)
{
    MPI_Request both[2];
    MPI_Status status[2] = { { 0 }, { 0 } };
    int done = 0, class = MPI_SUCCESS;
    MPI_Irecv(small, sizeof small, MPI_BYTE, 2, TAG_LAST, MPI_COMM_WORLD, &both[1]);
    MPI_Isend(big, BIG, MPI_BYTE, 1, TAG_BIG, MPI_COMM_WORLD, &both[0]);
    flags[BEGUN] = 1;
    await(KNOWN);
    while (!done) {
        MPI_Testall(2, both, &done, status);
    }
    MPI_Error_class(status[0].MPI_ERROR, &class);
    if (class != MPIX_ERR_PROC_FAILED)
        printf("MISSED: the send ended before rank 0 knew of the death\n");
    return class == MPIX_ERR_PROC_FAILED;
}

static void receives_and_dies(void)
{
    await(QUEUED);
    MPI_Recv(big, BIG, MPI_BYTE, 0, TAG_BIG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    raise(SIGKILL);
}

static void fills(void)
{
    MPI_Request from_1, many[MANY];
    MPI_Irecv(small, sizeof small, MPI_BYTE, 1, TAG_LAST, MPI_COMM_WORLD, &from_1);
    await(BEGUN);
    for (int i = 0; i < MANY; i++)
        MPI_Isend(big, sizeof small, MPI_BYTE, 0, TAG_MANY, MPI_COMM_WORLD, &many[i]);
    flags[QUEUED] = 1;
    MPI_Wait(&from_1, MPI_STATUS_IGNORE); /* ends with the death of 1 */
    MPI_Send(big, sizeof small, MPI_BYTE, 0, TAG_LAST, MPI_COMM_WORLD);
    flags[KNOWN] = 1;
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int fd = open("outlived.flags", O_RDWR | O_CREAT, 0600); /* in the directory of the job */
    if (fd < 0 || ftruncate(fd, FLAGS * sizeof *flags) != 0)
        return 1;
    flags = mmap(NULL, FLAGS * sizeof *flags, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (flags == MAP_FAILED)
        return 1;
    MPI_Barrier(MPI_COMM_WORLD);
    int good = 1;
    if (rank == 0)
        good = sends();
    else if (rank == 1)
        receives_and_dies();
    else
        fills();
    if (rank == 0 && good)
        printf("OK outlived\n");
    fflush(stdout);
    _exit(!good); /* MPI_Finalize would wait for rank 1 */
}
#else
int main(void)
{
    fputs("outlived: this MPI has no ULFM\n", stderr);
    return 1;
}
#endif
