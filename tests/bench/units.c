/* What ftkit_run_units() costs without a failure, for each unit: beside calls of the function.
 *
 *   units [-r REPETITIONS]
 *
 * With the message log and log.helpers.  A repetition has CALLS calls of UNITS units that do
 * nothing.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <stdbool.h>

#include "bench.h"

enum { UNITS = 32, CALLS = 20000 };

static int nothing(const void *in, size_t in_bytes, void *out, size_t out_bytes, void *arg)
{
    (void)in_bytes;
    (void)out_bytes;
    (void)arg;
    *(char *)out = *(const char *)in;
    return 0;
}

static ftkit_unit_fn *volatile direct = nothing; /* called as ftkit calls it */
static char from[UNITS], to[UNITS];
static const void *in[UNITS];
static void *out[UNITS];
static size_t bytes[UNITS];

/* Seconds of a unit. */
static double unit_s(struct bench *b, bool by_ftkit)
{
    int wrong = 0;
    const double start = bench_now_s();
    for (int k = 0; k < CALLS; k++)
        if (by_ftkit)
            wrong |= ftkit_run_units(b->ft, "nothing", UNITS, in, bytes, out, bytes);
        else
            for (int i = 0; i < UNITS; i++)
                wrong |= direct(in[i], bytes[i], out[i], bytes[i], NULL);
    const double took = bench_now_s() - start;
    bench_ft(b, wrong, FTKIT_OK, "units");
    return took / CALLS / UNITS;
}

static int option(int opt, const char *value)
{
    (void)opt;
    (void)value;
    return 1;
}

int main(int argc, char **argv)
{
    struct bench b = { .reps = 7 };
    int step = 0;
    for (int i = 0; i < UNITS; i++) {
        in[i] = &from[i];
        out[i] = &to[i];
        bytes[i] = 1;
    }
    bench_options(&b, argc, argv, "r:", option);
    bench_set("FTKIT_LEVEL_HDF5_ENABLED", "false");
    bench_set("FTKIT_LOG_ENABLED", "true");
    bench_set("FTKIT_LOG_TEAMS", "rank");
    bench_set("FTKIT_LOG_HELPERS", "8");
    bench_open(&b, &argc, &argv);
    bench_ft(&b, ftkit_register(b.ft, "step", &step, 1, MPI_INT), FTKIT_OK, "register");
    bench_ft(&b, ftkit_unit(b.ft, "nothing", nothing, NULL), FTKIT_OK, "unit");
    bench_ft(&b, ftkit_recover(b.ft, NULL), FTKIT_NO_SET, "recover");
    bench_checkpoint(&b);
    for (; step < b.reps; step++) {
        const double bound = unit_s(&b, false), took = unit_s(&b, true);
        bench_row(&b, "ranks=%d ftkit_s=%.4e bound_s=%.4e", b.nranks, took, bound);
    }
    return bench_close(&b);
}
