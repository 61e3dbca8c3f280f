/* A restart: how long ftkit_recover() takes.
 *
 * From files.  Bound: every rank reads as many bytes from the files of the set, which are in the
 * page cache for both, into new memory, copies them to its region, and exchanges them with its
 * buddy, into new memory too: a job that has started is to survive the next failure.
 *
 * From slots (-k SCHEME: buddy, xor), in files of a memory file system.  Bound: every rank maps
 * files with as many bytes as its own segment and the copy or the parity that it holds, copies its
 * own to its region, and reads the others once.
 *
 *   restart -d DIRECTORY [-k SCHEME] [-b BYTES] [-r REPETITIONS]
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdint.h>

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

static const char *scheme; /* of slots; NULL: from files */
static volatile uint64_t read_sum;

static int option(int opt, const char *value)
{
    scheme = value;
    return opt != 'k';
}

/* A file of as many bytes as a rank has, or its mapping when there is a file already. */
static char *mapped(struct bench *b, const char *what, size_t bytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.%d", b->directory, what, b->rank);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        bench_die(b, "%s: %s", path, strerror(errno));
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED || close(fd) != 0)
        bench_die(b, "%s: %s", path, strerror(errno));
    return p;
}

static void read_once(const char *p, size_t bytes)
{
    uint64_t sum = 0, word;
    for (size_t i = 0; i + sizeof word <= bytes; i += sizeof word) {
        memcpy(&word, p + i, sizeof word);
        sum += word;
    }
    read_sum = sum;
}

/* The copy of the buddy, or the parity of a group of all ranks. */
static size_t held_bytes(const struct bench *b)
{
    return strcmp(scheme, "xor") == 0 ? b->bytes / (size_t)(b->nranks - 1) : b->bytes;
}

static void run_slots_bound(struct bench *b)
{
    size_t held = held_bytes(b);
    char *own = mapped(b, "own", b->bytes), *other = mapped(b, "held", held);
    read_once(other, held);
    memcpy(b->data, own, b->bytes);
    munmap(own, b->bytes);
    munmap(other, held);
}

static void fill(struct bench *b, const char *what, size_t bytes)
{
    char *p = mapped(b, what, bytes);
    memset(p, 1 + b->rank, bytes);
    munmap(p, bytes);
}

static void run_files_bound(struct bench *b)
{
    char *own = new_memory(b), *copy = new_memory(b);
    read_file(b, own);
    memcpy(b->data, own, b->bytes);
    bench_exchange(b, b->comm, own, copy, b->bytes);
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
    bench_options(&b, argc, argv, "b:r:d:k:", option);
    if (!b.directory)
        bench_die(&b, "needs -d DIRECTORY");
    bench_set("FTKIT_LEVEL_HDF5_DIRECTORY", b.directory);
    bench_set("FTKIT_CHECKPOINT_PERIOD", "1 call");
    bench_set("FTKIT_LEVEL_HDF5_EVERY", "1 set");
    bench_set("FTKIT_LEVEL_HDF5_WRITERS", "1"); /* the bound reads one part */
    if (scheme) {
        bench_set("FTKIT_LEVEL_HDF5_ENABLED", "false");
        bench_set("FTKIT_LEVEL_MEMORY_SCHEME", scheme);
        bench_set("FTKIT_LEVEL_MEMORY_PLACE", "file");
        bench_set("FTKIT_LEVEL_MEMORY_DIRECTORY", b.directory);
    }
    bench_open(&b, &argc, &argv);
    bench_region(&b);
    begin(&b);
    bench_ft(&b, ftkit_recover(b.ft, NULL), FTKIT_NO_SET, "recover");
    bench_ft(&b, ftkit_checkpoint(b.ft), FTKIT_OK, "checkpoint");
    if (scheme) {
        fill(&b, "own", b.bytes);
        fill(&b, "held", held_bytes(&b));
    }
    b.comm = MPI_COMM_WORLD; /* the context's goes with it; nothing is killed here */
    for (int i = 0; i < b.reps; i++) {
        end(&b);
        double bound = bench_time(&b, scheme ? run_slots_bound : run_files_bound);
        begin(&b);
        double took = bench_time(&b, run_recover);
        bench_row(
            &b, "ranks=%d bytes=%zu ftkit_s=%.6f bound_s=%.6f", b.nranks, b.bytes, took, bound);
    }
    return bench_close(&b);
}
