/* Collective calls with data.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "own.h"

/* Whether an object is symmetric; one of no bytes needs no address. */
static bool is_symmetric(const char *call, const void *dest, size_t bytes)
{
    struct ftk_shmem_place p = { 0 };
    return bytes == 0 || ftk_shmem_find(call, dest, bytes, ftk_shmem.me, &p);
}

/* Data of an active set that the calls can pass to MPI: blocks of n elements. */
static bool begin(const char *call, void *dest, int blocks, size_t n, size_t bytes, int start,
    int log_stride, int size, struct ftk_shmem_set *s)
{
    if (!ftk_shmem_set(call, start, log_stride, size, s))
        return false;
    const size_t all = (size_t)blocks * bytes;
    if (n > INT_MAX / all)
        return ftk_shmem_mistake(
            "%s: %zu elements of %zu bytes: too many in one call", call, n, all);
    return is_symmetric(call, dest, n * all);
}

/* ---- broadcast, collect -------------------------------------------------------------- */

/* The root keeps its own dest. */
static void broadcast(const char *call, void *dest, const void *source, size_t bytes, int root,
    const struct ftk_shmem_set *s)
{
    if ((root < 0 || root >= s->size)
        && !ftk_shmem_mistake("%s: the root is %d, of a set of %d PEs", call, root, s->size))
        return;
    void *data = s->rank == root ? (void *)(uintptr_t)source : dest;
    (void)ftk_shmem_done(call, ftk_shmem_broadcast(s, root, data, bytes));
}

/* Each PE has a number of bytes of its own. */
static void collect(
    const char *call, void *dest, const void *source, size_t bytes, const struct ftk_shmem_set *s)
{
    const uint64_t mine = bytes;
    uint64_t *all = calloc((size_t)s->size, sizeof *all);
    char *at = dest;
    if (!all)
        ftk_shmem_end("%s: no memory", call);
    bool good = ftk_shmem_done(call, ftk_shmem_gather(s, &mine, sizeof mine, all));
    for (int i = 0; good && i < s->size; at += all[i++]) {
        good = is_symmetric(call, at, all[i]);
        if (good && i == s->rank && bytes > 0)
            memmove(at, source, bytes);
        if (good)
            good = ftk_shmem_done(call, ftk_shmem_broadcast(s, i, at, all[i]));
    }
    free(all);
}

/* ---- all to all ------------------------------------------------------------------------ */

static void *copy(const char *call, const void *source, size_t bytes)
{
    void *all = malloc(bytes + 1);
    if (all)
        return memcpy(all, source, bytes);
    ftk_shmem_end("%s: no memory", call);
}

static void alltoall(
    const char *call, void *dest, const void *source, size_t bytes, const struct ftk_shmem_set *s)
{
    (void)ftk_shmem_done(call, ftk_shmem_exchange(s, source, bytes, dest));
}

/* Element i of the block for PE k is at (k * n + i) * stride. */
static void alltoalls(const char *call, void *dest, const void *source, ptrdiff_t dst,
    ptrdiff_t sst, size_t n, size_t bytes, const struct ftk_shmem_set *s)
{
    const size_t all = n * (size_t)s->size;
    const size_t most = all > 0 ? (size_t)PTRDIFF_MAX / bytes / all : PTRDIFF_MAX;
    if ((dst < 1 || sst < 1 || (size_t)dst > most || (size_t)sst > most)
        && !ftk_shmem_mistake("%s: strides of %td and %td", call, dst, sst))
        return;
    if (all > 0 && !is_symmetric(call, dest, ((all - 1) * (size_t)dst + 1) * bytes))
        return;
    char *from = calloc(all + 1, bytes), *to = calloc(all + 1, bytes);
    if (!from || !to)
        ftk_shmem_end("%s: no memory", call);
    for (size_t i = 0; i < all; i++)
        memcpy(from + i * bytes, (const char *)source + i * (size_t)sst * bytes, bytes);
    if (ftk_shmem_done(call, ftk_shmem_exchange(s, from, n * bytes, to)))
        for (size_t i = 0; i < all; i++)
            memcpy((char *)dest + i * (size_t)dst * bytes, to + i * bytes, bytes);
    free(from);
    free(to);
}

#define SET PE_start, logPE_stride, PE_size
#define CALLS(bits)                                                                                \
    void shmem_broadcast##bits(void *dest, const void *source, size_t nelems, int PE_root,         \
        int PE_start, int logPE_stride, int PE_size, long *pSync)                                  \
    {                                                                                              \
        struct ftk_shmem_set s = { 0 };                                                            \
        (void)pSync;                                                                               \
        if (begin(__func__, dest, 1, nelems, (bits) / 8, SET, &s))                                 \
            broadcast(__func__, dest, source, nelems *((bits) / 8), PE_root, &s);                  \
    }                                                                                              \
    void shmem_collect##bits(void *dest, const void *source, size_t nelems, int PE_start,          \
        int logPE_stride, int PE_size, long *pSync)                                                \
    {                                                                                              \
        struct ftk_shmem_set s = { 0 };                                                            \
        (void)pSync;                                                                               \
        if (begin(__func__, dest, 1, nelems, (bits) / 8, SET, &s))                                 \
            collect(__func__, dest, source, nelems *((bits) / 8), &s);                             \
    }                                                                                              \
    void shmem_fcollect##bits(void *dest, const void *source, size_t nelems, int PE_start,         \
        int logPE_stride, int PE_size, long *pSync)                                                \
    {                                                                                              \
        struct ftk_shmem_set s = { 0 };                                                            \
        (void)pSync;                                                                               \
        if (begin(__func__, dest, PE_size, nelems, (bits) / 8, SET, &s))                           \
            (void)ftk_shmem_done(                                                                  \
                __func__, ftk_shmem_gather(&s, source, nelems *((bits) / 8), dest));               \
    }                                                                                              \
    void shmem_alltoall##bits(void *dest, const void *source, size_t nelems, int PE_start,         \
        int logPE_stride, int PE_size, long *pSync)                                                \
    {                                                                                              \
        struct ftk_shmem_set s = { 0 };                                                            \
        (void)pSync;                                                                               \
        if (begin(__func__, dest, PE_size, nelems, (bits) / 8, SET, &s))                           \
            alltoall(__func__, dest, source, nelems *((bits) / 8), &s);                            \
    }                                                                                              \
    void shmem_alltoalls##bits(void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst,       \
        size_t nelems, int PE_start, int logPE_stride, int PE_size, long *pSync)                   \
    {                                                                                              \
        struct ftk_shmem_set s = { 0 };                                                            \
        (void)pSync;                                                                               \
        if (begin(__func__, dest, PE_size, nelems, (bits) / 8, SET, &s))                           \
            alltoalls(__func__, dest, source, dst, sst, nelems, (bits) / 8, &s);                   \
    }
CALLS(32)
CALLS(64)

/* ---- reductions ------------------------------------------------------------------------ */

/* dest and source may be the same. */
static void reduce(const char *call, void *dest, const void *source, int n, size_t bytes,
    MPI_Datatype type, MPI_Op op, const struct ftk_shmem_set *s)
{
    void *data = copy(call, source, (size_t)n * bytes);
    if (ftk_shmem_done(call, ftk_shmem_reduce(s, data, n, type, op)))
        memcpy(dest, data, (size_t)n * bytes);
    free(data);
}

/* types as arguments have no parentheses */
// NOLINTBEGIN(bugprone-macro-parentheses)
#define REDUCE(name, type, mpi, op, mpi_op)                                                        \
    void shmem_##name##_##op##_to_all(type *dest, const type *source, int nreduce, int PE_start,   \
        int logPE_stride, int PE_size, type *pWrk, long *pSync)                                    \
    {                                                                                              \
        struct ftk_shmem_set s = { 0 };                                                            \
        (void)pWrk;                                                                                \
        (void)pSync;                                                                               \
        if (nreduce > 0 && begin(__func__, dest, 1, (size_t)nreduce, sizeof *dest, SET, &s))       \
            reduce(__func__, dest, source, nreduce, sizeof *dest, mpi, mpi_op, &s);                \
    }
#define BITS(name, type, mpi)                                                                      \
    REDUCE(name, type, mpi, and, MPI_BAND)                                                         \
    REDUCE(name, type, mpi, or, MPI_BOR)                                                           \
    REDUCE(name, type, mpi, xor, MPI_BXOR)
#define ORDER(name, type, mpi)                                                                     \
    REDUCE(name, type, mpi, max, MPI_MAX)                                                          \
    REDUCE(name, type, mpi, min, MPI_MIN)
#define NUMBERS(name, type, mpi)                                                                   \
    REDUCE(name, type, mpi, sum, MPI_SUM)                                                          \
    REDUCE(name, type, mpi, prod, MPI_PROD)
SHMEM_REDUCE_BITS(BITS)
SHMEM_REDUCE_ORDER(ORDER)
SHMEM_REDUCE_NUMBERS(NUMBERS)
// NOLINTEND(bugprone-macro-parentheses)
