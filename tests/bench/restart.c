/* A restart from files: how long ftkit_recover() takes.
 *
 * Bound: every rank reads as many bytes from the files of the set, which are in the page
 * cache for both, into new memory, copies them to its region, and exchanges them with its
 * buddy, into new memory too: a job that has started is to survive the next failure.
 *
 *   restart -d DIRECTORY [-b BYTES] [-r REPETITIONS]
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <glob.h>

#include "bench.h"

static char *new_memory(struct bench *b)
{
    char *p = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        bench_die(b, "no memory for %zu bytes", b->bytes);
    (void)madvise(p, b->bytes, MADV_HUGEPAGE); /* a hint */
    return p;
}

static void read_file(struct bench *b, char *to)
{
    char pattern[4096];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/*.ftkit/set-*/part-00000.h5", b->directory);
    if (glob(pattern, 0, NULL, &found) != 0)
        bench_die(b, "%s: no part of a set", pattern);
    int fd = open(found.gl_pathv[found.gl_pathc - 1], O_RDONLY);
    off_t at = (off_t)b->bytes * b->rank;
    for (size_t done = 0; fd >= 0 && done < b->bytes;) {
        ssize_t n = pread(fd, to + done, b->bytes - done, at + (off_t)done);
        if (n <= 0)
            bench_die(b, "%s: %s", pattern, n < 0 ? strerror(errno) : "it is too short");
        done += (size_t)n;
    }
    if (fd < 0 || close(fd) != 0)
        bench_die(b, "%s: %s", pattern, strerror(errno));
    globfree(&found);
}

static void run_bound(struct bench *b)
{
    char *own = new_memory(b), *copy = new_memory(b);
    int buddy = b->rank ^ 1; /* level.memory.map = pair, on one node */
    read_file(b, own);
    memcpy(b->data, own, b->bytes);
    bench_mpi(b,
        MPI_Sendrecv(own, (int)b->bytes, MPI_BYTE, buddy, 0, copy, (int)b->bytes, MPI_BYTE, buddy,
            0, b->comm, MPI_STATUS_IGNORE),
        "exchange");
    munmap(own, b->bytes);
    munmap(copy, b->bytes);
}

static void run_recover(struct bench *b)
{
    bench_ft(b, ftkit_recover(b->ft, NULL), FTKIT_OK, "recover");
}

static void begin(struct bench *b)
{
    if (!b->ft && ftkit_open(MPI_COMM_WORLD, NULL, &b->ft) != FTKIT_OK)
        bench_die(b, "open: %s", ftkit_detail(NULL));
    bench_ft(b, ftkit_register(b->ft, "data", b->data, b->bytes, MPI_BYTE), FTKIT_OK, "register");
}

static void end(struct bench *b)
{
    int rc = ftkit_close(&b->ft);
    if (rc != FTKIT_OK)
        bench_die(b, "close: %s: %s", ftkit_strerror(rc), ftkit_detail(NULL));
}

int main(int argc, char **argv)
{
    struct bench b = { .bytes = (size_t)64 << 20, .reps = 7 };
    bench_options(&b, argc, argv, "b:r:d:", NULL);
    if (!b.directory)
        bench_die(&b, "needs -d DIRECTORY");
    bench_set("FTKIT_LEVEL_HDF5_DIRECTORY", b.directory);
    bench_set("FTKIT_CHECKPOINT_PERIOD", "1 call");
    bench_set("FTKIT_LEVEL_HDF5_EVERY", "1 set");
    bench_open(&b, &argc, &argv);
    bench_region(&b);
    begin(&b);
    bench_ft(&b, ftkit_recover(b.ft, NULL), FTKIT_NO_SET, "recover");
    bench_ft(&b, ftkit_checkpoint(b.ft), FTKIT_OK, "checkpoint");
    b.comm = MPI_COMM_WORLD; /* the context's goes with it; nothing is killed here */
    for (int i = 0; i < b.reps; i++) {
        end(&b);
        double bound = bench_time(&b, run_bound);
        begin(&b);
        double took = bench_time(&b, run_recover);
        bench_row(
            &b, "ranks=%d bytes=%zu ftkit_s=%.6f bound_s=%.6f", b.nranks, b.bytes, took, bound);
    }
    return bench_close(&b);
}
