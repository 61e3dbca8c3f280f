/* A state of chunks, each with items of one rank, for programs whose files are read by other ranks:
 * a step depends on all chunks, and not on the number of ranks.  Include check.h first.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef CHUNKS_H
#define CHUNKS_H

#include <stdint.h>

enum { CHUNKS = 12, ITEMS = 5000 };

/* The first chunk of a rank of so many. */
static int first_of(int rank, int ranks)
{
    return CHUNKS * rank / ranks;
}

static int64_t sum_of(MPI_Comm comm, int64_t mine)
{
    int64_t all = 0;
    (void)MPI_Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, comm);
    return all;
}

static void start_chunks(int64_t x[CHUNKS][ITEMS])
{
    for (int c = 0; c < CHUNKS; c++)
        for (int i = 0; i < ITEMS; i++)
            x[c][i] = c * 1000 + i;
}

/* Compute the next state of the chunks of this rank. */
static void step_chunks(MPI_Comm comm, int64_t x[CHUNKS][ITEMS], int64_t step)
{
    int64_t mine = 0;
    for (int c = first_of(me, n); c < first_of(me + 1, n); c++)
        mine += x[c][step] % 1000;
    const int64_t mean = sum_of(comm, mine);
    for (int c = first_of(me, n); c < first_of(me + 1, n); c++)
        for (int i = 0; i < ITEMS; i++)
            x[c][i] = x[c][i] % 1000003 * 7 + mean + c;
}

/* A sum over the chunks of all ranks. */
static int64_t sum_chunks(MPI_Comm comm, int64_t x[CHUNKS][ITEMS])
{
    int64_t mine = 0;
    for (int c = first_of(me, n); c < first_of(me + 1, n); c++)
        for (int i = 0; i < ITEMS; i++)
            mine += x[c][i] % 1000003 * (i % 13 + 1);
    return sum_of(comm, mine);
}

#endif
