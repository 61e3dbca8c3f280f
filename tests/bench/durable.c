/* A set on the file system, written synchronously.
 *
 * Bound: as many writers write and fsync the same bytes into new files of the same
 * directory, then remove the file they wrote before, as every steady state must.  What
 * ftkit takes for it is a durable set less the set in memory it begins with, which is
 * measured just before; the removal of an old set is part of it.
 *
 *   durable -d DIRECTORY [-b BYTES] [-r REPETITIONS] [-w WRITERS] [-n]
 *
 * Each writer is the first rank of a node and writes for all; with -n there is one node, and ftkit
 * chooses its writers.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>

#include "bench.h"

static int writers = 1;
static int one_node; /* -n */
static int nranks;   /* of which one in nranks / writers writes for all in its node */
static char path[4096], older[4096]; /* what this writer writes, and what it wrote before */

static int option(int opt, const char *value)
{
    if (opt == 'n')
        one_node = 1;
    else
        writers = atoi(value);
    return (opt != 'w' && opt != 'n') || writers < 1;
}

static void write_all(struct bench *b, int fd)
{
    for (size_t done = 0; done < b->bytes;) {
        ssize_t n = write(fd, b->data + done, b->bytes - done);
        if (n < 0 && errno != EINTR)
            bench_die(b, "%s: %s", path, strerror(errno));
        done += n > 0 ? (size_t)n : 0;
    }
}

static void run_raw(struct bench *b)
{
    int per_writer = b->nranks / writers;
    if (b->rank % per_writer != 0)
        return;
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (fd < 0)
        bench_die(b, "%s: %s", path, strerror(errno));
    for (int i = 0; i < per_writer; i++)
        write_all(b, fd);
    if (fsync(fd) != 0 || close(fd) != 0 || (*older && unlink(older) != 0))
        bench_die(b, "%s: %s", path, strerror(errno));
}

static void run_durable(struct bench *b)
{
    bench_ft(b, ftkit_request(b->ft, 1), FTKIT_OK, "request");
    bench_checkpoint(b);
}

int main(int argc, char **argv)
{
    struct bench b = { .bytes = (size_t)64 << 20, .reps = 7 };
    char per_node[16];
    const char *size = getenv("OMPI_COMM_WORLD_SIZE");
    bench_options(&b, argc, argv, "b:r:d:w:n", option);
    nranks = size ? atoi(size) : writers; /* no spares: nothing is killed here */
    if (!b.directory || nranks % writers != 0)
        bench_die(&b, "needs -d DIRECTORY, and ranks that are a multiple of the writers");
    snprintf(per_node, sizeof per_node, "%d", one_node ? nranks : nranks / writers);
    bench_set("FTKIT_TOPOLOGY_RANKS_PER_NODE", per_node);
    bench_set("FTKIT_LEVEL_HDF5_WRITERS", one_node ? "0" : "1");
    bench_set("FTKIT_CHECKPOINT_PERIOD", "1 call");
    bench_set("FTKIT_LEVEL_HDF5_ENABLED", "true");
    bench_set("FTKIT_LEVEL_HDF5_DIRECTORY", b.directory);
    bench_set("FTKIT_LEVEL_HDF5_EVERY", "1000000 sets");
    bench_set("FTKIT_LEVEL_HDF5_ASYNCHRONOUS", "false");
    bench_open(&b, &argc, &argv);
    if (b.nranks != nranks)
        bench_die(&b, "%d ranks of %d processes", b.nranks, nranks);
    bench_region(&b);
    bench_ft(&b, ftkit_register(b.ft, "data", b.data, b.bytes, MPI_BYTE), FTKIT_OK, "register");
    bench_ft(&b, ftkit_recover(b.ft, NULL), FTKIT_NO_SET, "recover");
    for (int i = 0; i < 3; i++) /* from here on every set replaces one */
        run_durable(&b);
    for (int i = -1; i < b.reps; i++) {
        bench_touch(&b);
        snprintf(path, sizeof path, "%s/raw.%d.%d", b.directory, b.rank, i);
        double raw = bench_time(&b, run_raw);
        memcpy(older, path, sizeof older);
        bench_touch(&b);
        double memory = bench_time(&b, bench_checkpoint);
        double durable = bench_time(&b, run_durable);
        if (i < 0)
            continue; /* the first raw file replaced none */
        bench_row(&b, "ranks=%d bytes=%zu writers=%d ftkit_s=%.6f bound_s=%.6f memory_s=%.6f",
            b.nranks, b.bytes, writers, durable - memory, raw, memory);
    }
    (void)unlink(older); /* only writers have one */
    return bench_close(&b);
}
