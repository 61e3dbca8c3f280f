/* Taking a file that all ranks have written together into a set: from ftkit_files_end() to the
 * return of ftkit_step(), without copies for other ranks.
 *
 * Bound: the ranks copy their parts of the same file to another file, at the same time.
 *
 *   joint -d DIRECTORY [-b BYTES of a rank] [-r REPETITIONS]
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "bench.h"

static char dir[1100]; /* where the ranks write together */

static void put(struct bench *b, int fd, const char *from)
{
    const off_t at = (off_t)b->rank * (off_t)b->bytes;
    for (size_t done = 0; done < b->bytes; done += BENCH_PIECE)
        if (pwrite(fd, from + done, BENCH_PIECE, at + (off_t)done) != (ssize_t)BENCH_PIECE)
            bench_die(b, "write");
}

static int open_new(const struct bench *b, const char *path)
{
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    if (fd < 0)
        bench_die(b, "%s", path);
    return fd;
}

/* This rank's part of the file in the directory, to another file. */
static void copy(struct bench *b)
{
    static char piece[BENCH_PIECE];
    char path[2048];
    snprintf(path, sizeof path, "%s/state", dir);
    int from = open_new(b, path);
    snprintf(path, sizeof path, "%s/copy", b->directory);
    int to = open_new(b, path);
    const off_t at = (off_t)b->rank * (off_t)b->bytes;
    for (size_t done = 0; done < b->bytes; done += BENCH_PIECE)
        if (pread(from, piece, BENCH_PIECE, at + (off_t)done) != (ssize_t)BENCH_PIECE
            || pwrite(to, piece, BENCH_PIECE, at + (off_t)done) != (ssize_t)BENCH_PIECE)
            bench_die(b, "copy");
    if (close(from) != 0 || close(to) != 0)
        bench_die(b, "close");
}

static void take(struct bench *b)
{
    int rc = FTKIT_OK;
    bench_ft(b, ftkit_files_end(b->ft, "state", 1), FTKIT_OK, "end");
    if (!ftkit_step(b->ft, &rc) || rc != FTKIT_OK)
        bench_die(b, "step: %s: %s", ftkit_strerror(rc), ftkit_detail(b->ft));
}

/* Write the file, which the next step takes. */
static void repetition(struct bench *b, double *taken_s, double *bound_s)
{
    char path[2048];
    bench_ft(b, ftkit_files_begin(b->ft, "state", dir, sizeof dir), FTKIT_OK, "begin");
    snprintf(path, sizeof path, "%s/state", dir);
    int fd = open_new(b, path);
    put(b, fd, b->data);
    if (close(fd) != 0)
        bench_die(b, "close");
    *bound_s = bench_time(b, copy);
    *taken_s = bench_time(b, take);
}

int main(int argc, char **argv)
{
    struct bench b = { .bytes = 16u << 20, .reps = 15 };
    double taken, bound;
    int rc = FTKIT_OK;
    bench_options(&b, argc, argv, "b:r:d:", NULL);
    if (!b.directory || b.bytes % BENCH_PIECE != 0)
        bench_die(&b, "needs -d DIRECTORY and a multiple of 1 MiB");
    bench_set("FTKIT_LEVEL_HDF5_DIRECTORY", b.directory);
    bench_set("FTKIT_LEVEL_HDF5_EVERY", "1000000 sets");
    bench_set("FTKIT_LEVEL_MEMORY_SCHEME", "own");
    bench_set("FTKIT_CHECKPOINT_PERIOD", "1 calls");
    bench_open(&b, &argc, &argv);
    b.data = calloc(1, b.bytes);
    if (!b.data)
        bench_die(&b, "no memory");
    memset(b.data, b.rank + 1, b.bytes);
    bench_ft(&b, ftkit_register_joint_files(b.ft, "state"), FTKIT_OK, "register");
    if (!ftkit_step(b.ft, &rc) || rc != FTKIT_NO_SET)
        bench_die(&b, "step: %s: %s", ftkit_strerror(rc), ftkit_detail(b.ft));
    repetition(&b, &taken, &bound); /* the buffers of both sets are touched */
    repetition(&b, &taken, &bound);
    for (int i = 0; i < b.reps; i++) {
        repetition(&b, &taken, &bound);
        bench_row(
            &b, "ranks=%d bytes=%zu ftkit_s=%.4e bound_s=%.4e", b.nranks, b.bytes, taken, bound);
    }
    return bench_close(&b);
}
