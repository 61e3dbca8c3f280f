/* Pieces of work from a counter, flags in a ring, a lock, and a list in the heap that grows: what
 * jacobi.c does not have, in the same loop.  No result depends on the order of the PEs.
 *
 *   pieces [STEPS]
 *
 * PE 0 writes the result to the file out.  Places as in jacobi.c; in each fifth step 8 and 9 are
 * inside of shmem_malloc().  With GROWN each PE adds a line to the file GROWN.<pe>: STEP, and 1 if
 * shmem_malloc() has given memory, 0 if not, 2 if the PE has not made the call because of a loss.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <shmem.h>

#include "kills.h"

enum { PIECES = 12, WORDS = 5, MORE = 40 /* entries of the list for each fifth step */ };

/* The state of the program: nothing of this is listed anywhere. */
static int step, done;
static long counter, total;      /* on PE 0: the next piece; the sum of all */
static long lock, held;          /* on the last PE: the sum of who had the lock */
static long flag, in[2 * WORDS]; /* from the PE before */
static long history;             /* a hash of what this PE has seen */
static long *list;               /* the heap: of all PEs, step by step */
static long entries;             /* of the list, in use */
static long gathered[64];        /* a word of each PE */
static shmem_ctx_t ctx;
static long sync_[SHMEM_COLLECT_SYNC_SIZE];

static int is_in_malloc;

/* The library calls this function, too.  The real one has another address in a substitute. */
int MPI_Allreduce(
    const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    int (*real)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
    *(void **)&real = dlsym(RTLD_NEXT, "MPI_Allreduce");
    if (is_in_malloc)
        place(step);
    const int rc = real(from, to, count, type, op, comm);
    if (is_in_malloc)
        place(step);
    return rc;
}

static void note_memory(int given)
{
    const char *name = getenv("GROWN");
    char path[512];
    if (!name)
        return;
    snprintf(path, sizeof path, "%s.%d", name, shmem_my_pe());
    FILE *f = fopen(path, "a");
    if (!f || fprintf(f, "%d %d\n", step, given) < 0 || fclose(f) != 0)
        exit(3);
}

/* Sums of long must not overflow. */
static long mix(long a, long b)
{
    uint64_t x = ((uint64_t)a ^ (uint64_t)b * 0x9e3779b97f4a7c15U) * 0xff51afd7ed558ccdU;
    return (long)((x ^ x >> 29) >> 24);
}

static void set_up(void)
{
    list = shmem_calloc(MORE, sizeof *list);
    if (!list || shmem_ctx_create(0, &ctx) != 0)
        exit(3);
    history = shmem_my_pe();
}

/* PE 0 sets the counter for the next step, because each PE takes one piece too many. */
static void work(void)
{
    const long end = (step + 1L) * PIECES;
    long sum = 0;
    for (long k; (k = shmem_long_atomic_fetch_inc(&counter, 0)) < end && !shmem_ft_failed();)
        sum += mix(k, 3);
    place(step);
    shmem_ctx_long_atomic_add(ctx, &total, sum, 0);
    place(step);
    shmem_barrier_all();
    if (shmem_my_pe() == 0)
        counter = end;
    shmem_barrier_all();
    place(step);
}

static void with_lock(void)
{
    const int last = shmem_n_pes() - 1;
    shmem_set_lock(&lock);
    const long was = shmem_long_g(&held, last);
    place(step);
    shmem_long_p(&held, was + mix(shmem_my_pe(), step), last);
    shmem_quiet();
    place(step);
    shmem_clear_lock(&lock);
}

static void around_the_ring(void)
{
    const int me = shmem_my_pe(), n = shmem_n_pes(), to = (me + 1) % n;
    long out[2 * WORDS];
    for (int i = 0; i < 2 * WORDS; i++)
        out[i] = mix(history, i);
    shmem_ctx_long_put_nbi(ctx, in, out, WORDS, to);
    shmem_long_iput(in + WORDS, out + WORDS, 1, 2, (WORDS + 1) / 2, to);
    shmem_fence();
    place(step);
    shmem_long_p(&flag, step + 1, to);
    shmem_long_wait_until(&flag, SHMEM_CMP_GE, step + 1);
    place(step);
    for (int i = 0; i < 2 * WORDS; i++)
        history = mix(history, in[i]);
}

/* Blocks of the heap are made, moved and freed between sets.  After a loss the calls give NULL. */
static void grow(void)
{
    const size_t room = (size_t)(step / 5 + 2) * MORE;
    is_in_malloc = 1;
    long *other = shmem_malloc((size_t)(step % 7 + 1) * sizeof *other);
    is_in_malloc = 0;
    note_memory(other != NULL);
    long *more = shmem_realloc(list, room * sizeof *list);
    place(step);
    if (!other || !more)
        return;
    list = more;
    shmem_free(other);
}

static void gather(void)
{
    const int n = shmem_n_pes();
    shmem_fcollect64(gathered, &history, 1, 0, 0, n, sync_);
    place(step);
    for (int i = 0; i < n && i < MORE / 5; i++)
        list[entries + i] = gathered[i];
    entries += n < MORE / 5 ? n : MORE / 5;
}

static void advance(void)
{
    work();
    with_lock();
    around_the_ring();
    if (step % 5 == 4 && !shmem_ft_failed())
        grow();
    else if (step % 5 == 4)
        note_memory(2);
    if (!shmem_ft_failed())
        gather();
    shmem_barrier_all();
    place(step);
    step++;
}

static void report(void)
{
    FILE *f = shmem_my_pe() == 0 ? fopen("out", "w") : NULL;
    if (f)
        fprintf(f, "%ld %ld\n", total, shmem_long_g(&held, shmem_n_pes() - 1));
    for (int pe = 0; f && pe < shmem_n_pes(); pe++)
        fprintf(f, "%ld %ld\n", shmem_long_g(&history, pe), shmem_long_g(&list[entries - 1], pe));
    for (long i = 0; f && i < entries; i++)
        fprintf(f, "%ld\n", list[i]);
    if (f && fclose(f) == 0)
        puts("OK");
}

int main(int argc, char **argv)
{
    const int steps = argc > 1 ? atoi(argv[1]) : 40;
    start_pes(0);
    if (shmem_ft_algo_init())
        set_up();
    while (!done) {
        places = 100;
        place(step);
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            restart_lost(step);
        } else if (step < steps) {
            places = 0;
            advance();
        } else {
            done = 1;
        }
    }
    report();
    return 0;
}
