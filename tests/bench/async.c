/* A set on the file system, written in the background: how long the caller is blocked.
 *
 * Bound: a set in memory only, taken just before; no program is blocked for less by a set
 * that has to survive at once.  For information: a set in memory taken while the helper
 * threads write, which shares cores and memory with them, and how long they take.
 *
 *   async -d DIRECTORY [-b BYTES] [-r REPETITIONS]
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "bench.h"

static void request(struct bench *b)
{
    bench_ft(b, ftkit_request(b->ft, 1), FTKIT_OK, "request");
}

static void run_wait(struct bench *b)
{
    bench_ft(b, ftkit_wait(b->ft), FTKIT_OK, "wait");
}

/* A set that goes to the file system, one while it does, and the rest of the time. */
static void measure(struct bench *b, double *blocked, double *during, double *rest)
{
    bench_touch(b);
    request(b);
    *blocked = bench_time(b, bench_checkpoint);
    bench_touch(b);
    *during = bench_time(b, bench_checkpoint);
    *rest = bench_time(b, run_wait);
}

int main(int argc, char **argv)
{
    struct bench b = { .bytes = (size_t)64 << 20, .reps = 9 };
    double blocked, during, rest;
    bench_options(&b, argc, argv, "b:r:d:", NULL);
    if (!b.directory)
        bench_die(&b, "needs -d DIRECTORY");
    bench_set("FTKIT_CHECKPOINT_PERIOD", "1 call");
    bench_set("FTKIT_LEVEL_HDF5_ENABLED", "true");
    bench_set("FTKIT_LEVEL_HDF5_DIRECTORY", b.directory);
    bench_set("FTKIT_LEVEL_HDF5_EVERY", "1000000 sets");
    bench_set("FTKIT_LEVEL_HDF5_ASYNCHRONOUS", "true");
    bench_open(&b, &argc, &argv);
    bench_region(&b);
    bench_ft(&b, ftkit_register(b.ft, "data", b.data, b.bytes, MPI_BYTE), FTKIT_OK, "register");
    bench_ft(&b, ftkit_recover(b.ft, NULL), FTKIT_NO_SET, "recover");
    for (int i = 0; i < 3; i++) /* from here on every set replaces one */
        measure(&b, &blocked, &during, &rest);
    for (int i = 0; i < b.reps; i++) {
        bench_checkpoint(&b); /* after the pause */
        bench_touch(&b);
        double memory = bench_time(&b, bench_checkpoint);
        measure(&b, &blocked, &during, &rest);
        bench_row(&b, "ranks=%d bytes=%zu ftkit_s=%.6f bound_s=%.6f during_s=%.6f written_s=%.6f",
            b.nranks, b.bytes, blocked, memory, during, during + rest);
    }
    return bench_close(&b);
}
