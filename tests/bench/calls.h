/* The two sides that a benchmark of the log compares: the calls of the MPI, and those of ftkit.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_CALLS_H
#define BENCH_CALLS_H

#include <mpi.h>

/* The calls of one side. */
struct calls {
    int (*send)(const void *, int, MPI_Datatype, int, int, MPI_Comm);
    int (*recv)(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status *);
    int (*isend)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
    int (*irecv)(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
    int (*waitall)(int, MPI_Request *, MPI_Status *);
    int (*allreduce)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
    int (*barrier)(MPI_Comm);
    int (*bcast)(void *, int, MPI_Datatype, int, MPI_Comm);
    int (*alltoall)(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm);
    int (*allgather)(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm);
    int (*reduce)(const void *, void *, int, MPI_Datatype, MPI_Op, int, MPI_Comm);
};

static const struct calls plain = { PMPI_Send, PMPI_Recv, PMPI_Isend, PMPI_Irecv, PMPI_Waitall,
    PMPI_Allreduce, PMPI_Barrier, PMPI_Bcast, PMPI_Alltoall, PMPI_Allgather, PMPI_Reduce };
static const struct calls ours = { MPI_Send, MPI_Recv, MPI_Isend, MPI_Irecv, MPI_Waitall,
    MPI_Allreduce, MPI_Barrier, MPI_Bcast, MPI_Alltoall, MPI_Allgather, MPI_Reduce };

struct side {
    const struct calls *mpi;
    MPI_Comm comm;
};

/* Columns of a grid of n ranks that is as square as it can be. */
static inline int columns(int n)
{
    int c = 1;
    for (int i = 1; i * i <= n; i++)
        c = n % i == 0 ? i : c;
    return n / c;
}

#endif
