/* ftkit_checkpoint() while nothing is due, which is how a program calls it nearly always.
 *
 * Bound: a call of an empty function.
 *
 *   due [-r REPETITIONS]
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "bench.h"

enum { CALLS = 20000 };

/* The empty statement keeps the call from being optimized away. */
__attribute__((noinline)) static int nothing(ftkit_ctx *ft)
{
    __asm__ volatile("" : : "r"(ft) : "memory");
    return FTKIT_OK;
}

static double per_call_ns(ftkit_ctx *ft, int (*call)(ftkit_ctx *ft), int *rc)
{
    double start = bench_now_s();
    for (int i = 0; i < CALLS; i++)
        *rc |= call(ft);
    return 1e9 * (bench_now_s() - start) / CALLS;
}

int main(int argc, char **argv)
{
    struct bench b = { .bytes = 1024, .reps = 30 };
    bench_options(&b, argc, argv, "b:r:", NULL);
    bench_set("FTKIT_CHECKPOINT_PERIOD", "1000000 calls");
    bench_set("FTKIT_LEVEL_HDF5_ENABLED", "false");
    bench_open(&b, &argc, &argv);
    if (b.reps > 40)
        bench_die(&b, "at most 40 repetitions: then a set is due");
    bench_region(&b);
    bench_ft(&b, ftkit_register(b.ft, "data", b.data, b.bytes, MPI_BYTE), FTKIT_OK, "register");
    bench_ft(&b, ftkit_recover(b.ft, NULL), FTKIT_NO_SET, "recover");
    bench_ft(&b, ftkit_checkpoint(b.ft), FTKIT_OK, "first set");
    for (int i = 0; i < b.reps; i++) {
        int rc = FTKIT_OK;
        bench_mpi(&b, MPI_Barrier(b.comm), "barrier");
        double empty = per_call_ns(b.ft, nothing, &rc);
        double due = per_call_ns(b.ft, ftkit_checkpoint, &rc);
        bench_ft(&b, rc, FTKIT_OK, "checkpoint");
        empty = bench_max(&b, empty);
        due = bench_max(&b, due);
        bench_row(&b, "ranks=%d ftkit_s=%.4e bound_s=%.4e", b.nranks, 1e-9 * due, 1e-9 * empty);
    }
    return bench_close(&b);
}
