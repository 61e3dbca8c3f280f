/* What the benchmarks share.
 *
 * A benchmark measures an operation of ftkit and, beside it in the same run, the work that
 * no implementation can do without.  The two take turns, so that whatever else the machine
 * does hits both.  Every repetition is printed as one line that scripts/bench collects:
 *
 *     bench NAME KEY=VALUE...      keys that end in _s are seconds, _ns nanoseconds
 *
 * Nothing is judged here: statistics and ratios are made of these lines.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_H
#define BENCH_H

#include <fcntl.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "ftkit.h"

#define BENCH_PIECE ((size_t)1 << 20)
#define BENCH_HUGE ((size_t)2 << 20)
#define BENCH_BYTES_MAX ((size_t)1 << 30) /* whole messages have an int count */

struct bench {
    const char *program;
    ftkit_ctx *ft;
    MPI_Comm comm;
    int rank, nranks;
    size_t bytes; /* per rank */
    int reps;
    char *data;            /* the region [bytes] */
    const char *directory; /* for files, where there are any */
};

/* A benchmark that cannot go on has no result; its job ends as a lost one. */
__attribute__((noreturn, format(printf, 2, 3))) static inline void bench_die(
    const struct bench *b, const char *fmt, ...)
{
    va_list ap;
    fprintf(stderr, "%s: rank %d: ", b->program, b->rank);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(1);
}

static inline void bench_mpi(const struct bench *b, int rc, const char *what)
{
    if (rc != MPI_SUCCESS)
        bench_die(b, "%s: MPI error %d", what, rc);
}

static inline void bench_ft(const struct bench *b, int rc, int want, const char *what)
{
    if (rc != want)
        bench_die(b, "%s: %s: %s", what, ftkit_strerror(rc), ftkit_detail(b->ft));
}

static inline double bench_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline double bench_max(const struct bench *b, double x)
{
    double all = 0;
    bench_mpi(b, MPI_Allreduce(&x, &all, 1, MPI_DOUBLE, MPI_MAX, b->comm), "maximum");
    return all;
}

/* From the start of the first rank to the end of the last: where ranks outnumber cores
 * some start late, and their wait is part of the time all of them take.  The ranks share
 * one machine, hence one clock. */
static inline double bench_time(struct bench *b, void (*run)(struct bench *b))
{
    bench_mpi(b, MPI_Barrier(b->comm), "barrier");
    double start = bench_now_s();
    run(b);
    double end = bench_now_s();
    return bench_max(b, end) + bench_max(b, -start);
}

/* Memory that has been touched, in huge pages where there are any: the bound shall not be
 * held up by what the library avoids. */
static inline char *bench_alloc(const struct bench *b, size_t bytes)
{
    size_t room = (bytes + BENCH_HUGE - 1) / BENCH_HUGE * BENCH_HUGE;
    char *p = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        bench_die(b, "no memory for %zu bytes", bytes);
    (void)madvise(p, room, MADV_HUGEPAGE); /* a hint */
    memset(p, 1 + b->rank, room);
    return p;
}

/* The region of a program: plain malloc(), not touched. */
static inline void bench_new_region(struct bench *b)
{
    b->data = malloc(b->bytes);
    if (!b->data)
        bench_die(b, "no memory for %zu bytes", b->bytes);
}

/* The same, touched. */
static inline void bench_region(struct bench *b)
{
    bench_new_region(b);
    for (size_t i = 0; i < b->bytes; i++)
        b->data[i] = (char)(i * 31 + i / 4096 + (size_t)b->rank);
}

/* One byte of every page changes, as in a program that has computed since. */
static inline void bench_touch(struct bench *b)
{
    for (size_t i = 0; i < b->bytes; i += 4096)
        b->data[i]++;
}

static inline size_t bench_size(const char *text)
{
    char *end;
    double n = strtod(text, &end);
    double unit = *end == 'k' ? 1024.0 : *end == 'M' ? 1048576.0 : *end == 'G' ? 1073741824.0 : 1;
    end += unit > 1;
    if (end == text || *end != '\0' || n < 1 || n * unit > (double)BENCH_BYTES_MAX)
        return 0;
    return (size_t)(n * unit);
}

/* -b BYTES[kMG]  -r REPETITIONS  -d DIRECTORY, if among the options; others go to more(),
 * which returns 0 for what it knows. */
static inline void bench_options(struct bench *b, int argc, char **argv, const char *options,
    int (*more)(int opt, const char *value))
{
    int opt;
    b->program = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
    while ((opt = getopt(argc, argv, options)) != -1) {
        int bad = 0;
        if (opt == 'b')
            bad = (b->bytes = bench_size(optarg)) == 0;
        else if (opt == 'r')
            bad = (b->reps = atoi(optarg)) < 1;
        else if (opt == 'd')
            b->directory = optarg;
        else
            bad = opt == '?' || !more || more(opt, optarg) != 0;
        if (bad) {
            fprintf(
                stderr, "usage: %s [-b BYTES[k|M|G]] [-r REPETITIONS] (%s)\n", b->program, options);
            exit(2);
        }
    }
}

static inline void bench_set(const char *key, const char *value)
{
    setenv(key, value, 1);
}

/* MPI and the context; the region is the caller's to register before it recovers. */
static inline void bench_open(struct bench *b, int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    /* a benchmark that gives up is not to be started again in its own job */
    bench_set("FTKIT_RECOVER_SUPPLY", "spare, end");
    int rc = ftkit_open(MPI_COMM_WORLD, NULL, &b->ft);
    if (rc != FTKIT_OK)
        bench_die(b, "open: %s: %s", ftkit_strerror(rc), ftkit_detail(NULL));
    bench_ft(b, ftkit_bind_comm(b->ft, &b->comm), FTKIT_OK, "bind");
    MPI_Comm_rank(b->comm, &b->rank);
    MPI_Comm_size(b->comm, &b->nranks);
}

static inline void bench_checkpoint(struct bench *b)
{
    bench_ft(b, ftkit_checkpoint(b->ft), FTKIT_OK, "checkpoint");
}

static inline int bench_close(struct bench *b)
{
    int rc = ftkit_close(&b->ft);
    if (rc != FTKIT_OK)
        bench_die(b, "close: %s: %s", ftkit_strerror(rc), ftkit_detail(NULL));
    free(b->data);
    MPI_Finalize();
    return 0;
}

/* Exchange bytes with the buddy (level.memory.map = pair, on one node) by the MPI alone. */
static inline void bench_exchange(
    const struct bench *b, MPI_Comm comm, const char *own, char *copy, size_t bytes)
{
    const int buddy = b->rank ^ 1;
    bench_mpi(b,
        PMPI_Sendrecv(own, (int)bytes, MPI_BYTE, buddy, 0, copy, (int)bytes, MPI_BYTE, buddy, 0,
            comm, MPI_STATUS_IGNORE),
        "exchange");
}

/* kB of a line of /proc/self/smaps_rollup. */
static inline double bench_smaps_kb(const char *name)
{
    char line[256];
    double kb = -1;
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, name, strlen(name)) == 0)
            kb = strtod(line + strlen(name), NULL);
    if (f)
        fclose(f);
    return kb;
}

/* Memory in use; pages the kernel may take back at any time are not. */
static inline double bench_used_bytes(void)
{
    return 1024 * (bench_smaps_kb("Rss:") - bench_smaps_kb("LazyFree:"));
}

/* Bytes that the last set sent to other ranks, for each byte that is registered. */
static inline double bench_moved(const struct bench *b)
{
    ftkit_info info = { .size = sizeof info };
    bench_ft(b, ftkit_query(b->ft, &info), FTKIT_OK, "query");
    return bench_max(b, (double)info.sent_bytes) / (double)b->bytes;
}

__attribute__((format(printf, 2, 3))) static inline void bench_row(
    const struct bench *b, const char *fmt, ...)
{
    va_list ap;
    if (b->rank != 0)
        return;
    printf("bench %s ", b->program);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
    fflush(stdout); /* this rank may be killed next */
}

/* Memory [bytes] that outlives a process, in a file that all name alike; zeroed at first. */
static inline void *bench_map(const struct bench *b, const char *file, size_t bytes)
{
    int fd = file ? open(file, O_RDWR | O_CREAT, 0600) : -1;
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        bench_die(b, "needs -f FILE that can be written");
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        bench_die(b, "%s: cannot be mapped", file);
    close(fd);
    return p;
}

#endif
