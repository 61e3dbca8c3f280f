/* The solver of the programs in this directory: heat in a rod.  Each rank has a piece of CELLS
 * cells, with one ghost cell at each end.  The programs differ only in how they survive failures.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEAT_H
#define HEAT_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELLS 1000
#define STEPS 100

/* One end of the rod is hot, the other end is cold. */
static inline void heat_init(double *u, int rank)
{
    memset(u, 0, (CELLS + 2) * sizeof *u);
    for (int i = 0; i <= CELLS; i++)
        u[i] = rank == 0 ? 100.0 / (i + 1) : 1.0 / (i + 1);
}

static inline double *heat_new(int rank)
{
    double *u = malloc((CELLS + 2) * sizeof *u);
    if (!u)
        MPI_Abort(MPI_COMM_WORLD, 1);
    heat_init(u, rank);
    return u;
}

static inline void heat_step(double *u, MPI_Comm comm)
{
    int rank, size;
    double next[CELLS + 2];
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int left = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    int right = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
    MPI_Sendrecv(&u[1], 1, MPI_DOUBLE, left, 0, &u[CELLS + 1], 1, MPI_DOUBLE, right, 0, comm,
        MPI_STATUS_IGNORE);
    MPI_Sendrecv(
        &u[CELLS], 1, MPI_DOUBLE, right, 1, &u[0], 1, MPI_DOUBLE, left, 1, comm, MPI_STATUS_IGNORE);
    for (int i = 1; i <= CELLS; i++)
        next[i] = u[i] + 0.25 * (u[i - 1] - 2 * u[i] + u[i + 1]);
    memcpy(&u[1], &next[1], CELLS * sizeof *u);
}

/* Rank 0 prints a number that depends on every cell. */
static inline void heat_print(const double *u, int step, MPI_Comm comm)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    double mine = 0, sum = 0;
    for (int i = 1; i <= CELLS; i++)
        mine += (i + rank) * u[i];
    double *all = malloc((size_t)size * sizeof *all);
    if (!all)
        MPI_Abort(comm, 1);
    MPI_Gather(&mine, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, 0, comm);
    for (int r = 0; rank == 0 && r < size; r++)
        sum += all[r];
    if (rank == 0)
        printf("result: %d steps, %.17g\n", step, sum);
    free(all);
}

#endif
