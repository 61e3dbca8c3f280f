/* A set of a line apart in memory, with buddy copies, in steady state.
 *
 *   apart [-k KIND] [-b BYTES] [-r REPETITIONS]        an even number of ranks
 *
 * KIND: cut (default), the longest call of ftkit_checkpoint() while a set is written, of all ranks.
 * Its bound is one memcpy and one XXH3 of the same bytes.  commit: from the request for a set until
 * all ranks have seen its commit; the ranks do nothing but call ftkit_checkpoint().  Its bound is
 * that of a set together: one memcpy, and one exchange of the bytes with the buddy.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <stdbool.h>
#include <xxhash.h>

#include "bench.h"

static char *own, *copy; /* what the library keeps: the own set and the buddy's */
static MPI_Comm world;   /* of the MPI */
static const char *kind = "cut";
static double longest; /* call of the last set, s */
static uint64_t sink;

static int option(int opt, const char *value)
{
    kind = value;
    return opt != 'k' || (strcmp(kind, "cut") != 0 && strcmp(kind, "commit") != 0);
}

static void run_memcpy(struct bench *b)
{
    memcpy(own, b->data, b->bytes);
}

static void run_hash(struct bench *b)
{
    sink += XXH3_64bits(b->data, b->bytes);
}

static void run_exchange(struct bench *b)
{
    bench_exchange(b, world, own, copy, b->bytes);
}

static uint64_t committed(const struct bench *b)
{
    ftkit_info info = { .size = sizeof info };
    bench_ft(b, ftkit_query(b->ft, &info), FTKIT_OK, "query");
    return info.committed;
}

static void call(struct bench *b)
{
    const double begin = bench_now_s();
    bench_checkpoint(b);
    const double took = bench_now_s() - begin;
    longest = took > longest ? took : longest;
}

/* A set, until all ranks have seen its commit. */
static void write_set(struct bench *b)
{
    MPI_Request all;
    int done = 0;
    const uint64_t before = committed(b);
    longest = 0;
    bench_ft(b, ftkit_request(b->ft, 0), FTKIT_OK, "request");
    while (committed(b) == before)
        call(b);
    bench_mpi(b, PMPI_Ibarrier(world, &all), "barrier");
    while (!done) {
        call(b);
        bench_mpi(b, PMPI_Test(&all, &done, MPI_STATUS_IGNORE), "barrier");
    }
}

int main(int argc, char **argv)
{
    struct bench b = { .bytes = (size_t)64 << 20, .reps = 15 };
    bench_options(&b, argc, argv, "b:r:k:", option);
    bench_set("FTKIT_CHECKPOINT_LINE", "apart");
    bench_set("FTKIT_CHECKPOINT_PERIOD", "1000000 calls"); /* sets come by request */
    bench_set("FTKIT_LEVEL_HDF5_ENABLED", "false");
    bench_set("FTKIT_LOG_ENABLED", "true");
    bench_open(&b, &argc, &argv);
    if (b.nranks % 2 != 0)
        bench_die(&b, "%d ranks cannot be paired", b.nranks);
    bench_mpi(&b, PMPI_Comm_dup(MPI_COMM_WORLD, &world), "duplicate");
    bench_region(&b);
    own = bench_alloc(&b, b.bytes);
    copy = bench_alloc(&b, b.bytes);
    bench_ft(&b, ftkit_register(b.ft, "data", b.data, b.bytes, MPI_BYTE), FTKIT_OK, "register");
    bench_ft(&b, ftkit_recover(b.ft, NULL), FTKIT_NO_SET, "recover");
    for (int i = 0; i < 3; i++)
        write_set(&b);
    run_exchange(&b);
    for (int i = 0; i < b.reps; i++) {
        bench_touch(&b);
        const double copied = bench_time(&b, run_memcpy), hashed = bench_time(&b, run_hash);
        const double sent = bench_time(&b, run_exchange);
        bench_touch(&b);
        const double set = bench_time(&b, write_set), cut = bench_max(&b, longest);
        const bool is_cut = strcmp(kind, "cut") == 0;
        bench_row(&b,
            "ranks=%d bytes=%zu ftkit_s=%.6f bound_s=%.6f memcpy_s=%.6f hash_s=%.6f "
            "exchange_s=%.6f cut_s=%.6f commit_s=%.6f",
            b.nranks, b.bytes, is_cut ? cut : set, is_cut ? copied + hashed : copied + sent, copied,
            hashed, sent, cut, set);
    }
    munmap(own, b.bytes);
    munmap(copy, b.bytes);
    bench_mpi(&b, PMPI_Comm_free(&world), "free");
    return sink == 1 ? 1 : bench_close(&b); /* sink: the hashes are used */
}
