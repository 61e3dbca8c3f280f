/* A memory set with buddy copies, in steady state.
 *
 * Bound: one memcpy of the same bytes into a warm buffer, and one exchange of them with the
 * buddy as one message, measured one after the other and summed.  For information: the
 * exchange in pieces of 1 MiB, and memcpy and exchange piece by piece (what a pipeline
 * without checksums and votes takes).
 *
 *   buddy [-b BYTES] [-r REPETITIONS]        an even number of ranks
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "bench.h"

static char *own, *copy; /* what the library keeps: our own set and the buddy's */

static void run_memcpy(struct bench *b)
{
    memcpy(own, b->data, b->bytes);
}

static void exchange(struct bench *b, size_t at, size_t bytes)
{
    bench_exchange(b, b->comm, own + at, copy + at, bytes);
}

static void run_exchange(struct bench *b)
{
    exchange(b, 0, b->bytes);
}

static size_t piece(const struct bench *b, size_t at)
{
    return b->bytes - at < BENCH_PIECE ? b->bytes - at : BENCH_PIECE;
}

static void run_pieces(struct bench *b)
{
    for (size_t at = 0; at < b->bytes; at += BENCH_PIECE)
        exchange(b, at, piece(b, at));
}

static void run_pipeline(struct bench *b)
{
    for (size_t at = 0; at < b->bytes; at += BENCH_PIECE) {
        memcpy(own + at, b->data + at, piece(b, at));
        exchange(b, at, piece(b, at));
    }
}

int main(int argc, char **argv)
{
    struct bench b = { .bytes = (size_t)64 << 20, .reps = 15 };
    bench_options(&b, argc, argv, "b:r:", NULL);
    bench_set("FTKIT_CHECKPOINT_PERIOD", "1 call");
    bench_set("FTKIT_LEVEL_HDF5_ENABLED", "false");
    bench_open(&b, &argc, &argv);
    if (b.nranks % 2 != 0)
        bench_die(&b, "%d ranks cannot be paired", b.nranks);
    bench_region(&b);
    own = bench_alloc(&b, b.bytes);
    copy = bench_alloc(&b, b.bytes);
    bench_ft(&b, ftkit_register(b.ft, "data", b.data, b.bytes, MPI_BYTE), FTKIT_OK, "register");
    bench_ft(&b, ftkit_recover(b.ft, NULL), FTKIT_NO_SET, "recover");
    double before = bench_used_bytes();
    for (int i = 0; i < 3; i++)
        bench_checkpoint(&b);
    double held = bench_max(&b, (bench_used_bytes() - before) / (double)b.bytes);
    run_exchange(&b);
    for (int i = 0; i < b.reps; i++) {
        bench_touch(&b);
        double copied = bench_time(&b, run_memcpy);
        double whole = bench_time(&b, run_exchange);
        bench_touch(&b);
        double set = bench_time(&b, bench_checkpoint);
        double pieces = bench_time(&b, run_pieces);
        bench_touch(&b);
        double pipeline = bench_time(&b, run_pipeline);
        bench_row(&b,
            "ranks=%d bytes=%zu ftkit_s=%.6f bound_s=%.6f memcpy_s=%.6f exchange_s=%.6f "
            "pieces_s=%.6f pipeline_s=%.6f held=%.3f moved=%.3f",
            b.nranks, b.bytes, set, copied + whole, copied, whole, pieces, pipeline, held,
            bench_moved(&b));
    }
    munmap(own, b.bytes);
    munmap(copy, b.bytes);
    return bench_close(&b);
}
