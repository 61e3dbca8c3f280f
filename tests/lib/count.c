/* Counts what ftkit hands to the MPI; to be preloaded.  MPI_Pcontrol(k) writes the numbers since
 * the last call to standard error, and begins again:
 *
 *   count: mark K rank R messages M bytes B collectives C bytes B heap H
 *
 * Messages: of MPI_Isend, MPI_Issend and MPI_Send, with their bytes.  Collectives: calls, and the
 * bytes that this rank gets.  What the MPI sends within a collective does not count.  heap: bytes
 * of malloc() in use.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static struct {
    unsigned long messages, message_bytes, collectives, collective_bytes;
} count;

static unsigned long bytes_of(int n, MPI_Datatype type)
{
    int size = 0;
    return PMPI_Type_size(type, &size) == MPI_SUCCESS ? (unsigned long)n * (unsigned long)size : 0;
}

static int size_of(MPI_Comm comm)
{
    int n = 0;
    return PMPI_Comm_size(comm, &n) == MPI_SUCCESS ? n : 0;
}

static void message(int n, MPI_Datatype type)
{
    count.messages++;
    count.message_bytes += bytes_of(n, type);
}

static void collective(unsigned long bytes)
{
    count.collectives++;
    count.collective_bytes += bytes;
}

static unsigned long sum_of(const int v[], int n, MPI_Datatype type)
{
    unsigned long sum = 0;
    for (int i = 0; i < n; i++)
        sum += bytes_of(v[i], type);
    return sum;
}

/* A function of the MPI, by both of its names: an interposition layer in the program calls the
 * second one. */
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define WRAP(name, parameters, arguments, counts)                                                  \
    int MPI_##name parameters                                                                      \
    {                                                                                              \
        counts;                                                                                    \
        return NEXT(MPI_##name) arguments;                                                         \
    }                                                                                              \
    int PMPI_##name parameters                                                                     \
    {                                                                                              \
        counts;                                                                                    \
        return NEXT(PMPI_##name) arguments;                                                        \
    }
#define EACH(n, type) collective((unsigned long)size_of(c) * bytes_of(n, type))

WRAP(Send, (const void *b, int n, MPI_Datatype t, int d, int g, MPI_Comm c), (b, n, t, d, g, c),
    message(n, t))
WRAP(Isend, (const void *b, int n, MPI_Datatype t, int d, int g, MPI_Comm c, MPI_Request *q),
    (b, n, t, d, g, c, q), message(n, t))
WRAP(Issend, (const void *b, int n, MPI_Datatype t, int d, int g, MPI_Comm c, MPI_Request *q),
    (b, n, t, d, g, c, q), message(n, t))
WRAP(Bcast, (void *b, int n, MPI_Datatype t, int root, MPI_Comm c), (b, n, t, root, c),
    collective(bytes_of(n, t)))
WRAP(Ibcast, (void *b, int n, MPI_Datatype t, int root, MPI_Comm c, MPI_Request *q),
    (b, n, t, root, c, q), collective(bytes_of(n, t)))
WRAP(Allreduce, (const void *b, void *r, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c),
    (b, r, n, t, o, c), collective(bytes_of(n, t)))
WRAP(Iallreduce,
    (const void *b, void *r, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Request *q),
    (b, r, n, t, o, c, q), collective(bytes_of(n, t)))
WRAP(Allgather,
    (const void *b, int n, MPI_Datatype t, void *r, int rn, MPI_Datatype rt, MPI_Comm c),
    (b, n, t, r, rn, rt, c), EACH(rn, rt))
WRAP(Iallgather,
    (const void *b, int n, MPI_Datatype t, void *r, int rn, MPI_Datatype rt, MPI_Comm c,
        MPI_Request *q),
    (b, n, t, r, rn, rt, c, q), EACH(rn, rt))
WRAP(Alltoall, (const void *b, int n, MPI_Datatype t, void *r, int rn, MPI_Datatype rt, MPI_Comm c),
    (b, n, t, r, rn, rt, c), EACH(rn, rt))
WRAP(Ialltoall,
    (const void *b, int n, MPI_Datatype t, void *r, int rn, MPI_Datatype rt, MPI_Comm c,
        MPI_Request *q),
    (b, n, t, r, rn, rt, c, q), EACH(rn, rt))
WRAP(Allgatherv,
    (const void *b, int n, MPI_Datatype t, void *r, const int rn[], const int at[], MPI_Datatype rt,
        MPI_Comm c),
    (b, n, t, r, rn, at, rt, c), collective(sum_of(rn, size_of(c), rt)))
WRAP(Iallgatherv,
    (const void *b, int n, MPI_Datatype t, void *r, const int rn[], const int at[], MPI_Datatype rt,
        MPI_Comm c, MPI_Request *q),
    (b, n, t, r, rn, at, rt, c, q), collective(sum_of(rn, size_of(c), rt)))
WRAP(Alltoallv,
    (const void *b, const int n[], const int s[], MPI_Datatype t, void *r, const int rn[],
        const int at[], MPI_Datatype rt, MPI_Comm c),
    (b, n, s, t, r, rn, at, rt, c), collective(sum_of(rn, size_of(c), rt)))
WRAP(Ialltoallv,
    (const void *b, const int n[], const int s[], MPI_Datatype t, void *r, const int rn[],
        const int at[], MPI_Datatype rt, MPI_Comm c, MPI_Request *q),
    (b, n, s, t, r, rn, at, rt, c, q), collective(sum_of(rn, size_of(c), rt)))

static void write_counts(int mark)
{
    const struct mallinfo2 m = mallinfo2();
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    fprintf(stderr,
        "count: mark %d rank %s messages %lu bytes %lu collectives %lu bytes %lu heap %zu\n", mark,
        rank ? rank : "-1", count.messages, count.message_bytes, count.collectives,
        count.collective_bytes, m.uordblks + m.hblkhd);
    count.messages = count.message_bytes = count.collectives = count.collective_bytes = 0;
}

int MPI_Pcontrol(const int mark, ...)
{
    write_counts(mark);
    return MPI_SUCCESS;
}

int PMPI_Pcontrol(const int mark, ...)
{
    write_counts(mark);
    return MPI_SUCCESS;
}
