/* A set in a place that outlives its process, own copies only, in steady state.
 *
 * Bound: a memcpy of the same bytes into a file of that place that is mapped and has been
 * written before, and for files and persistent memory that are none in truth an msync.
 *
 *   place -k PLACE -d DIRECTORY [-b BYTES] [-r REPETITIONS]
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>

#include "bench.h"

static const char *place = "shared";
static char path[4096];
static char *mapped;

static int option(int opt, const char *value)
{
    place = value;
    return opt != 'k';
}

static void map_file(struct bench *b)
{
    snprintf(path, sizeof path, "%s/ftkit-bench.%d", b->directory, (int)getpid());
    int fd = open(path, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (fd < 0 || posix_fallocate(fd, 0, (off_t)b->bytes) != 0)
        bench_die(b, "%s: %s", path, strerror(errno));
    mapped = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED || unlink(path) != 0 || close(fd) != 0)
        bench_die(b, "%s: %s", path, strerror(errno));
}

static void run_raw(struct bench *b)
{
    memcpy(mapped, b->data, b->bytes);
    if (strcmp(place, "shared") != 0 && msync(mapped, b->bytes, MS_SYNC) != 0)
        bench_die(b, "%s: %s", path, strerror(errno));
}

int main(int argc, char **argv)
{
    struct bench b = { .bytes = (size_t)64 << 20, .reps = 9, .directory = "/dev/shm" };
    bench_options(&b, argc, argv, "b:r:k:d:", option);
    bench_set("FTKIT_CHECKPOINT_PERIOD", "1 call");
    bench_set("FTKIT_LEVEL_HDF5_ENABLED", "false");
    bench_set("FTKIT_LEVEL_MEMORY_SCHEME", "own");
    bench_set("FTKIT_LEVEL_MEMORY_PLACE", place);
    bench_set("FTKIT_LEVEL_MEMORY_DIRECTORY", b.directory);
    bench_open(&b, &argc, &argv);
    bench_region(&b);
    map_file(&b);
    bench_ft(&b, ftkit_register(b.ft, "data", b.data, b.bytes, MPI_BYTE), FTKIT_OK, "register");
    bench_ft(&b, ftkit_recover(b.ft, NULL), FTKIT_NO_SET, "recover");
    for (int i = 0; i < 3; i++) {
        bench_checkpoint(&b);
        run_raw(&b);
    }
    for (int i = 0; i < b.reps; i++) {
        bench_touch(&b);
        double raw = bench_time(&b, run_raw);
        bench_touch(&b);
        double set = bench_time(&b, bench_checkpoint);
        bench_row(&b, "ranks=%d bytes=%zu ftkit_s=%.6f bound_s=%.6f", b.nranks, b.bytes, set, raw);
    }
    munmap(mapped, b.bytes);
    return bench_close(&b);
}
