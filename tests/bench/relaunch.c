/* From the death of a job to the moment at which all ranks of its relaunch are restored.
 *
 * All ranks kill themselves by SIGKILL behind a barrier; the sets lie in shared memory, which
 * outlives the job.  `ftkit run` relaunches it.  The clock starts before the first rank is killed,
 * and stops when ftkit_recover() has returned on the last rank.
 *
 * The parts: main, until the last process has come to main(); open, until the last rank has come to
 * ftkit_recover(); restore, the rest.
 *
 * Bound: as many ranks start, and each maps a file and copies as many bytes as a rank has.  The
 * start is not measured here: scripts/bench runs `relaunch -e` by mpirun with the same options, and
 * adds the median of the times until its ranks have met.
 *
 *   relaunch -f FILE [-b BYTES] [-r KILLS]
 *   relaunch -e              start, meet, print the time of CLOCK_MONOTONIC
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <signal.h>
#include <stdbool.h>

#include "bench.h"

/* In a file that outlives every process. */
struct page {
    double killed_s;
    int kills;
};

static const char *file;
static bool empty;

static int option(int opt, const char *value)
{
    if (opt == 'f')
        file = value;
    else
        empty = true;
    return 0;
}

/* A job that only starts. */
static int meet(struct bench *b, int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &b->rank);
    bench_mpi(b, MPI_Barrier(MPI_COMM_WORLD), "barrier");
    bench_row(b, "met_s=%.6f", bench_now_s());
    MPI_Finalize();
    return 0;
}

static char byte_of(const struct bench *b, size_t i)
{
    return (char)(i * 31 + i / 4096 + (size_t)b->rank * 7);
}

static void fill(struct bench *b)
{
    for (size_t i = 0; i < b->bytes; i++)
        b->data[i] = byte_of(b, i);
}

static void check(const struct bench *b)
{
    for (size_t i = 0; i < b->bytes; i++)
        if (b->data[i] != byte_of(b, i))
            bench_die(b, "byte %zu is not what was saved", i);
}

static int slot; /* a file of shared memory, as long as the region */

static void copy(struct bench *b)
{
    char *p = mmap(NULL, b->bytes, PROT_READ, MAP_SHARED, slot, 0);
    if (p == MAP_FAILED)
        bench_die(b, "no shared memory");
    memcpy(b->data, p, b->bytes);
    munmap(p, b->bytes);
}

static double copy_s(struct bench *b)
{
    slot = memfd_create("bound", 0);
    if (slot < 0 || ftruncate(slot, (off_t)b->bytes) != 0
        || pwrite(slot, b->data, b->bytes, 0) != (ssize_t)b->bytes)
        bench_die(b, "no shared memory");
    double took = bench_time(b, copy);
    close(slot);
    return took;
}

static void report(struct bench *b, const struct page *page, double main_s, double open_s)
{
    double back = bench_max(b, bench_now_s());
    double started = bench_max(b, main_s), opened = bench_max(b, open_s);
    double copy = copy_s(b);
    check(b);
    bench_row(b,
        "ranks=%d bytes=%zu ftkit_s=%.6f bound_s=%.6f main_s=%.6f open_s=%.6f restore_s=%.6f",
        b->nranks, b->bytes, back - page->killed_s, copy, started - page->killed_s,
        opened - started, back - opened);
}

static void kill_all(struct bench *b, struct page *page)
{
    if (b->rank == 0) {
        page->kills++;
        page->killed_s = bench_now_s();
    }
    (void)MPI_Barrier(b->comm); /* fails where others are dead already */
    kill(getpid(), SIGKILL);
}

int main(int argc, char **argv)
{
    struct bench b = { .bytes = (size_t)64 << 20, .reps = 1 };
    double main_s = bench_now_s();
    bench_options(&b, argc, argv, "b:r:f:e", option);
    if (empty)
        return meet(&b, &argc, &argv);
    struct page *page = bench_map(&b, file, sizeof *page);
    bench_set("FTKIT_CHECKPOINT_PERIOD", "1 call");
    bench_set("FTKIT_LEVEL_HDF5_ENABLED", "false");
    bench_set("FTKIT_LEVEL_MEMORY_PLACE", "shared");
    bench_open(&b, &argc, &argv);
    bench_new_region(&b);
    bench_ft(&b, ftkit_register(b.ft, "data", b.data, b.bytes, MPI_BYTE), FTKIT_OK, "register");
    double open_s = bench_now_s();
    int rc = ftkit_recover(b.ft, NULL);
    if (rc != FTKIT_NO_SET) {
        bench_ft(&b, rc, FTKIT_OK, "recover");
        report(&b, page, main_s, open_s);
    }
    fill(&b);
    for (int i = 0; i < 2; i++)
        bench_checkpoint(&b);
    bool again = page->kills < b.reps;
    bench_mpi(&b, MPI_Barrier(b.comm), "barrier"); /* all have read the count */
    if (again)
        kill_all(&b, page);
    bench_ft(&b, ftkit_finish(b.ft), FTKIT_OK, "finish");
    return bench_close(&b);
}
