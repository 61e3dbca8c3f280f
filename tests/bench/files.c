/* Taking the files that the program has written into a set: from the return of its callback to
 * that of ftkit_checkpoint(), without copies for other ranks.
 *
 * Bound: cp -r of the same files within the same memory file system.
 *
 *   files [-b BYTES] [-r REPETITIONS]
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "bench.h"

enum { FILES = 4 };

static struct bench *bench;
static double written_s; /* when the callback ended */
static char from[] = "/dev/shm/ftkit-bench-XXXXXX", to[] = "/dev/shm/ftkit-bench-XXXXXX";

static int write_files(void *arg, const char *dir)
{
    const struct bench *b = arg;
    const size_t part = b->bytes / FILES;
    char path[2048];
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s/part-%d", dir, i);
        FILE *f = fopen(path, "w");
        if (!f || fwrite(b->data + (size_t)i * part, 1, part, f) != part || fclose(f) != 0)
            return -1;
    }
    written_s = bench_now_s();
    return 0;
}

static int read_files(void *arg, const char *dir)
{
    (void)arg;
    (void)dir;
    return 0;
}

static void run(const char *what, const char *a, const char *b)
{
    char command[256];
    snprintf(command, sizeof command, "%s %s %s", what, a, b);
    if (system(command) != 0)
        bench_die(bench, "%s", command);
}

static double copy_s(void)
{
    char all[64];
    run("rm -rf", to, "");
    snprintf(all, sizeof all, "%s/", to);
    const double start = bench_now_s();
    run("cp -r", from, all);
    return bench_now_s() - start;
}

int main(int argc, char **argv)
{
    struct bench b = { .bytes = 64u << 20, .reps = 15 };
    const ftkit_files ops = { sizeof ops, write_files, read_files };
    bench = &b;
    bench_options(&b, argc, argv, "b:r:", NULL);
    bench_set("FTKIT_LEVEL_HDF5_ENABLED", "false");
    bench_set("FTKIT_LEVEL_MEMORY_SCHEME", "own");
    bench_set("FTKIT_CHECKPOINT_PERIOD", "1 calls");
    bench_open(&b, &argc, &argv);
    bench_region(&b);
    if (!mkdtemp(from) || !mkdtemp(to) || write_files(&b, from) != 0)
        bench_die(&b, "no files in /dev/shm");
    bench_ft(&b, ftkit_register_files(b.ft, "files", &ops, &b), FTKIT_OK, "register");
    bench_ft(&b, ftkit_recover(b.ft, NULL), FTKIT_NO_SET, "recover");
    bench_checkpoint(&b); /* the buffers of both sets are touched */
    bench_checkpoint(&b);
    for (int i = 0; i < b.reps; i++) {
        const double bound = copy_s();
        bench_checkpoint(&b);
        const double taken = bench_now_s() - written_s;
        bench_row(
            &b, "ranks=%d bytes=%zu ftkit_s=%.4e bound_s=%.4e", b.nranks, b.bytes, taken, bound);
    }
    run("rm -rf", from, to);
    return bench_close(&b);
}
