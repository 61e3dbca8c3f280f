/* What put, get and atomic calls of OpenSHMEM cost inside a node.
 *
 *   shmem_rma [-k KIND] [-b BYTES] [-r REPETITIONS]
 *
 * KIND: put (with shmem_quiet() each), get, or add (shmem_long_atomic_fetch_add()).  PE 0 makes the
 * calls, and PE 1 waits in a barrier.  A repetition gives the fastest of some short blocks.
 *
 * Bound: memcpy() of the bytes in the memory of one process; of add an atomic addition there.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <stdbool.h>

#include <shmem.h>

#include "bench.h"

enum { BLOCKS = 20 };

static const char *kind = "put";
static char *there, *mine; /* the heap; of the caller alone */
static size_t bytes;

static int option(int opt, const char *value)
{
    (void)opt;
    kind = value;
    return strcmp(kind, "put") != 0 && strcmp(kind, "get") != 0 && strcmp(kind, "add") != 0;
}

static void call(void)
{
    if (*kind == 'g') {
        shmem_getmem(mine, there, bytes, 1);
    } else if (*kind == 'a') {
        (void)shmem_long_atomic_fetch_add((long *)(void *)there, 1, 1);
    } else {
        shmem_putmem(there, mine, bytes, 1);
        shmem_quiet();
    }
}

static void copy(void)
{
    if (*kind == 'a')
        __atomic_fetch_add((long *)(void *)there, 1, __ATOMIC_SEQ_CST);
    else
        memcpy(there, mine, bytes);
    __asm__ volatile("" : : "r"(there) : "memory");
}

static double block_s(void (*run)(void), int ops)
{
    const double start = bench_now_s();
    for (int i = 0; i < ops; i++)
        run();
    return (bench_now_s() - start) / ops;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

static void repetition(const struct bench *b, int ops)
{
    double ftkit = 1e9, bound = 1e9;
    shmem_barrier_all();
    for (int i = 0; b->rank == 0 && i < BLOCKS; i++) {
        bound = least(bound, block_s(copy, ops));
        ftkit = least(ftkit, block_s(call, ops));
    }
    shmem_barrier_all(); /* PE 1 waits here */
    bench_row(b, "ranks=%d bytes=%zu ftkit_s=%.4e bound_s=%.4e", b->nranks, bytes, ftkit, bound);
}

int main(int argc, char **argv)
{
    struct bench b = { .bytes = 8, .reps = 5 };
    bench_options(&b, argc, argv, "b:r:k:", option);
    bench_set("FTKIT_LEVEL_HDF5_ENABLED", "false");
    shmem_init();
    b.rank = shmem_my_pe();
    b.nranks = shmem_n_pes();
    bytes = b.bytes;
    there = shmem_malloc(bytes);
    mine = bench_alloc(&b, bytes);
    if (!there || b.nranks != 2)
        bench_die(&b, "needs two PEs and a heap");
    memset(there, 0, bytes);
    for (int i = 0; i < b.reps; i++)
        repetition(&b, bytes > 65536 ? 20 : 2000);
    shmem_finalize();
    return 0;
}
