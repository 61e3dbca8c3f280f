/* The two times of the cost of failures in OpenSHMEM (P. Hao, University of Houston 2016, 6.1: s
 * sets and f losses cost s T_b + f (T_r + T_s), and T_s is the work that is repeated).
 *
 *   shmem [-k KIND] [-f FILE] [-b BYTES] [-r REPETITIONS]      restart: at least REPETITIONS spares
 *
 * KIND: set (T_b: shmem_checkpoint_all() with BYTES in the heap of each PE; mib_s: of a MiB), or
 * restart (T_r: from the death of the last PE, which the others learn in a barrier, until
 * shmem_restart_pes() has returned on all PEs; call_s: this call and shmem_query_fault()).
 *
 * Bound of a set: memcpy() and the exchange with the buddy.  Bound of a restart: a new process gets
 * its segment in memory that nobody has touched, of the kind of the heap, and that of its buddy.
 * Each PE copies one.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <signal.h>
#include <stdbool.h>

#include <shmem.h>

#include "bench.h"

enum { SETS_BETWEEN = 3, PES = 16, TAG = 1 };

/* In a file that outlives every process. */
struct page {
    int kills;
    double killed_s, call_s[PES], back_s[PES];
};

/* Of this process alone.  It is on the stack: variables of the program are symmetric, and a
 * substitute gets those of the lost PE. */
struct job {
    struct bench b;
    struct page *page;
    char *own, *other; /* [bytes] */
};

static const char *kind = "set", *file; /* until shmem_init() */
static int sets;
static char *data; /* the heap: [bytes] */

static int option(int opt, const char *value)
{
    if (opt == 'k')
        kind = value;
    else
        file = value;
    return strcmp(kind, "set") != 0 && strcmp(kind, "restart") != 0;
}

/* ---- a set ----------------------------------------------------------------------------- */

static void copy_and_exchange(const struct job *j)
{
    memcpy(j->own, data, j->b.bytes);
    bench_exchange(&j->b, j->b.comm, j->own, j->other, j->b.bytes);
}

static void save(const struct job *j)
{
    if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS)
        bench_die(&j->b, "no set");
}

/* From the start of the first PE to the end of the last. */
static double time_of(const struct job *j, void (*run)(const struct job *j))
{
    double at[2], all[2];
    bench_mpi(&j->b, PMPI_Barrier(j->b.comm), "barrier");
    at[0] = -bench_now_s();
    run(j);
    at[1] = bench_now_s();
    bench_mpi(&j->b, PMPI_Allreduce(at, all, 2, MPI_DOUBLE, MPI_MAX, j->b.comm), "maximum");
    return all[0] + all[1];
}

static void measure_sets(struct job *j)
{
    save(j); /* buffers are there */
    for (int i = 0; i < j->b.reps; i++) {
        j->b.data = data;
        bench_touch(&j->b);
        const double bound = time_of(j, copy_and_exchange), took = time_of(j, save);
        bench_row(&j->b, "ranks=%d bytes=%zu ftkit_s=%.6f bound_s=%.6f mib_s=%.6e", j->b.nranks,
            j->b.bytes, took, bound, took / (double)j->b.bytes * (double)BENCH_PIECE);
    }
}

/* ---- a restart ------------------------------------------------------------------------- */

/* Memory of the kind of the heap that nobody has touched: [bytes]. */
static char *untouched(const struct job *j)
{
    void *p = mmap(NULL, j->b.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        bench_die(&j->b, "mmap");
    return p;
}

/* PEs 0 and 1 are never lost, and no other process has their ranks in j->b.comm. */
static double copies_s(const struct job *j)
{
    const int n = (int)j->b.bytes;
    const double start = bench_now_s();
    for (int i = 0; i < 2 && j->b.rank == 0; i++)
        bench_mpi(&j->b, PMPI_Send(data, n, MPI_BYTE, 1, TAG, j->b.comm), "message");
    if (j->b.rank == 1) {
        char *heap = untouched(j);
        for (int i = 0; i < 2; i++)
            bench_mpi(&j->b,
                PMPI_Recv(i ? j->own : heap, n, MPI_BYTE, 0, TAG, j->b.comm, MPI_STATUS_IGNORE),
                "message");
        if (munmap(heap, j->b.bytes))
            bench_die(&j->b, "munmap");
    }
    if (j->b.rank == 0)
        memcpy(j->own, data, j->b.bytes);
    return bench_now_s() - start;
}

static void report(const struct job *j)
{
    double back = 0, call = 0, copies = 1e9;
    for (int i = 0; i < j->b.nranks; i++) {
        back = j->page->back_s[i] > back ? j->page->back_s[i] : back;
        call = j->page->call_s[i] > call ? j->page->call_s[i] : call;
    }
    for (int i = 0; i < 3; i++) {
        const double took = copies_s(j);
        copies = took < copies ? took : copies;
    }
    bench_row(&j->b, "ranks=%d bytes=%zu ftkit_s=%.6f bound_s=%.6f call_s=%.6f", j->b.nranks,
        j->b.bytes, back - j->page->killed_s, copies, call);
}

static void come_back(const struct job *j)
{
    int *pes, *why;
    size_t n;
    const double start = bench_now_s();
    shmem_query_fault(&pes, &why, &n);
    shmem_restart_pes(pes, n);
    j->page->back_s[j->b.rank] = bench_now_s();
    j->page->call_s[j->b.rank] = j->page->back_s[j->b.rank] - start;
    if (n != 1 || pes[0] != j->b.nranks - 1)
        bench_die(&j->b, "another PE was lost");
    free(pes);
    free(why);
    shmem_barrier_all(); /* all have noted their times */
    report(j);
    shmem_barrier_all();
    sets = 0;
}

static void lose_the_last(const struct job *j)
{
    shmem_barrier_all(); /* all have read the count */
    if (j->b.rank == j->b.nranks - 1) {
        const struct timespec nap = { 0, 5000000 }; /* the others are in the barrier by now */
        (void)nanosleep(&nap, NULL);
        j->page->kills++;
        j->page->killed_s = bench_now_s();
        kill(getpid(), SIGKILL);
    }
    shmem_barrier_all();
}

static void measure_restarts(const struct job *j)
{
    for (;;) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS)
            come_back(j);
        else if (sets++ < SETS_BETWEEN) /* so that each buffer has been used before a loss */
            continue;
        else if (j->page->kills == j->b.reps)
            return;
        else
            lose_the_last(j);
    }
}

int main(int argc, char **argv)
{
    struct job j = { .b = { .bytes = (size_t)64 << 20, .reps = 3 } };
    char size[32];
    bench_options(&j.b, argc, argv, "b:r:k:f:", option);
    const bool restarts = strcmp(kind, "restart") == 0;
    snprintf(size, sizeof size, "%zu", j.b.bytes + BENCH_HUGE);
    bench_set("SHMEM_SYMMETRIC_SIZE", size);
    bench_set("FTKIT_LEVEL_HDF5_ENABLED", "false");
    MPI_Init(&argc, &argv);
    bench_mpi(&j.b, PMPI_Comm_dup(MPI_COMM_WORLD, &j.b.comm), "duplicate"); /* with the spares */
    j.own = bench_alloc(&j.b, j.b.bytes);
    j.other = bench_alloc(&j.b, j.b.bytes);
    if (restarts)
        j.page = bench_map(&j.b, file, sizeof(struct page));
    shmem_init();
    j.b.rank = shmem_my_pe();
    j.b.nranks = shmem_n_pes();
    if (j.b.nranks > PES)
        bench_die(&j.b, "at most %d PEs", PES);
    if (shmem_ft_algo_init()) {
        data = shmem_malloc(j.b.bytes);
        if (!data)
            bench_die(&j.b, "no heap");
        memset(data, 1 + j.b.rank, j.b.bytes);
    }
    if (restarts)
        measure_restarts(&j);
    else
        measure_sets(&j);
    shmem_finalize();
    MPI_Finalize();
    return 0;
}
