/* A memory set of which few blocks have changed.
 *
 * Compared with a whole set of the same bytes, in the same run, written because the set
 * before it had changed as a whole.  The processes stand for nodes, but all is memory: a
 * block that is not sent is copied at the same cost, and comparing it comes on top, so this
 * is what it costs at most; what it saves is the network.  For information: a set that was
 * taken for an incremental one and has changed as a whole, and the bytes that moved.
 *
 *   increment [-b BYTES] [-r REPETITIONS] [-c PERCENT] [-k SCHEME]
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <stdint.h>

#include "bench.h"
#include "store/segment.h"

static int percent = 10;
static const char *scheme = "buddy";

/* The blocks that change are others each time. */
static void touch_some(struct bench *b, int turn)
{
    size_t blocks = b->bytes / FTK_SEG_BLOCK, n = blocks * (size_t)percent / 100;
    for (size_t i = 0; i < n; i++) {
        size_t block = (i * 7 + (size_t)(turn * 11 + b->rank * 3)) % blocks;
        for (size_t at = 0; at < FTK_SEG_BLOCK; at += 4096)
            b->data[block * FTK_SEG_BLOCK + at]++;
    }
}

static int more(int opt, const char *value)
{
    if (opt == 'k')
        scheme = value;
    else
        percent = atoi(value);
    return (opt != 'k' && opt != 'c') || percent < 0 || percent > 100;
}

int main(int argc, char **argv)
{
    struct bench b = { .bytes = (size_t)64 << 20, .reps = 15 };
    bench_options(&b, argc, argv, "b:r:c:k:", more);
    bench_set("FTKIT_CHECKPOINT_PERIOD", "1 call");
    bench_set("FTKIT_LEVEL_HDF5_ENABLED", "false");
    bench_set("FTKIT_LEVEL_MEMORY_SCHEME", scheme);
    bench_set("FTKIT_TOPOLOGY_RANKS_PER_NODE", "1"); /* inside a node auto sends all */
    bench_open(&b, &argc, &argv);
    bench_region(&b);
    bench_ft(&b, ftkit_register(b.ft, "data", b.data, b.bytes, MPI_BYTE), FTKIT_OK, "register");
    bench_ft(&b, ftkit_recover(b.ft, NULL), FTKIT_NO_SET, "recover");
    for (int i = 0; i < 4; i++)
        bench_checkpoint(&b);
    for (int i = 0; i < b.reps; i++) {
        bench_touch(&b);
        double surprised = bench_time(&b, bench_checkpoint);
        bench_touch(&b);
        double whole = bench_time(&b, bench_checkpoint);
        double whole_moved = bench_moved(&b);
        touch_some(&b, 2 * i);
        bench_checkpoint(&b); /* whole for the last time */
        touch_some(&b, 2 * i + 1);
        double set = bench_time(&b, bench_checkpoint);
        bench_row(&b,
            "ranks=%d bytes=%zu ftkit_s=%.6f bound_s=%.6f surprised_s=%.6f moved=%.3f "
            "whole_moved=%.3f",
            b.nranks, b.bytes, set, whole, surprised, bench_moved(&b), whole_moved);
    }
    return bench_close(&b);
}
