/* Kills a rank in one of its calls of MPI; to be preloaded.  FTKIT_TEST_KILL=RANK:CALL,... has
 * ranks of MPI_COMM_WORLD, and numbers of their calls from 1.  Counted are the calls that LAMMPS
 * makes in its runs and around its restart files.  MPI_Finalize() writes how many there were to
 * standard error.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static long calls, fatal = -1;

/* The number of the call in which this rank dies; 0: none. */
static long fatal_call(void)
{
    const char *list = getenv("FTKIT_TEST_KILL"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    long victim, call;
    int used = 0;
    while (list && rank && sscanf(list, "%ld:%ld%n", &victim, &call, &used) == 2) {
        if (victim == strtol(rank, NULL, 10))
            return call;
        list += used + (list[used] == ',');
    }
    return 0;
}

/* Counts a call; returns the function of this name of the next library, libftkit_mpi or the MPI. */
static void *counted(const char *name)
{
    if (fatal < 0)
        fatal = fatal_call();
    if (++calls == fatal)
        (void)kill(getpid(), SIGKILL);
    return dlsym(RTLD_NEXT, name);
}

#define NEXT(name) __typeof__(&name) next = (__typeof__(&name))counted(#name)

int MPI_Send(const void *buf, int n, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    NEXT(MPI_Send);
    return next(buf, n, type, dest, tag, comm);
}

int MPI_Irecv(
    void *buf, int n, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request *request)
{
    NEXT(MPI_Irecv);
    return next(buf, n, type, source, tag, comm, request);
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    NEXT(MPI_Wait);
    return next(request, status);
}

int MPI_Sendrecv(const void *out, int nout, MPI_Datatype tout, int dest, int stag, void *in,
    int nin, MPI_Datatype tin, int source, int rtag, MPI_Comm comm, MPI_Status *status)
{
    NEXT(MPI_Sendrecv);
    return next(out, nout, tout, dest, stag, in, nin, tin, source, rtag, comm, status);
}

int MPI_Allreduce(const void *in, void *out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    NEXT(MPI_Allreduce);
    return next(in, out, n, type, op, comm);
}

int MPI_Bcast(void *buf, int n, MPI_Datatype type, int root, MPI_Comm comm)
{
    NEXT(MPI_Bcast);
    return next(buf, n, type, root, comm);
}

int MPI_Finalize(void)
{
    fprintf(stderr, "kill: rank %s has made %ld calls\n", getenv("OMPI_COMM_WORLD_RANK"), calls);
    return PMPI_Finalize();
}
