/* A sort by buckets and a pipeline, in the loop of listing 4.1.
 *
 *   sort [STEPS]
 *
 * Each PE gives keys to the PE of their bucket, at a place that it gets by an atomic addition.  So
 * the order of keys differs from run to run, and their sorted sequence does not.  Then rows of a
 * grid go from PE to PE, each with a flag.  PE 0 writes the result to the file out.  Places as in
 * jacobi.c.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* usleep */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <shmem.h>

#include "kills.h"

enum { KEYS = 40, PES = 64, ROWS = 6, WIDTH = 5 };

/* The state of the program: nothing of this is listed anywhere. */
static int step, done;
static long long filled;       /* keys in the bucket of this PE */
static int *bucket;            /* the heap: room for all keys */
static double from_left[ROWS]; /* the last value of each row of the PE before */
static int *flag; /* the heap: [ROWS], the step in which each value has come; behind the value by
                     shmem_fence() alone, because the two are in different memory */
static double grid[ROWS][WIDTH + 1];
static uint64_t history; /* a hash of what this PE has seen */

static uint64_t mix(uint64_t a, uint64_t b)
{
    const uint64_t x = (a ^ b * 0x9e3779b97f4a7c15U) * 0xff51afd7ed558ccdU;
    return x ^ x >> 29;
}

static void set_up(void)
{
    bucket = shmem_malloc(sizeof *bucket * KEYS * (size_t)shmem_n_pes());
    flag = shmem_calloc(ROWS, sizeof *flag);
    if (!bucket || !flag)
        exit(3);
    for (int i = 0; i < WIDTH + 1; i++)
        grid[0][i] = shmem_my_pe() * WIDTH + i;
}

static int by_size(const void *a, const void *b)
{
    const int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* Between the loss of a PE and shmem_checkpoint_all() no value may be used as a place. */
static void sort(void)
{
    const int me = shmem_my_pe(), n = shmem_n_pes();
    filled = 0;
    shmem_barrier_all();
    for (int to = 0, many; to < n; to++) {
        int keys[KEYS];
        many = 0;
        for (int i = 0; i < KEYS; i++) {
            const uint64_t key = mix((uint64_t)step * PES + (uint64_t)me, (uint64_t)i);
            if ((int)(key % (uint64_t)n) == to)
                keys[many++] = (int)(key >> 40);
        }
        place(step);
        const long long at = shmem_longlong_atomic_fetch_add(&filled, many, to);
        if (shmem_ft_failed())
            return;
        shmem_int_put(bucket + at, keys, (size_t)many, to);
    }
    place(step);
    shmem_barrier_all();
    if (shmem_ft_failed())
        return;
    qsort(bucket, (size_t)filled, sizeof *bucket, by_size);
    for (long long i = 0; i < filled; i++)
        history = mix(history, (uint64_t)bucket[i]);
}

/* Each row waits for that of the PE before, and needs the row above. */
static void pipeline(void)
{
    const int me = shmem_my_pe(), n = shmem_n_pes();
    for (int j = 1; j < ROWS; j++) {
        if (me > 0) {
            shmem_int_wait_until(&flag[j], SHMEM_CMP_EQ, step + 1);
            grid[j][0] = from_left[j];
        } else {
            grid[j][0] = j + step;
        }
        for (int i = 1; i <= WIDTH; i++)
            grid[j][i] = 0.5 * grid[j][i - 1] + 0.25 * grid[j - 1][i] + 0.125 * grid[j - 1][i - 1];
        if (me == n - 1)
            continue;
        shmem_double_p(&from_left[j], grid[j][WIDTH], me + 1);
        shmem_fence();
        if (j == ROWS / 2)
            place(step);
        shmem_int_p(&flag[j], step + 1, me + 1);
    }
    place(step);
    shmem_barrier_all(); /* the next step writes from_left */
}

static void report(void)
{
    FILE *f = shmem_my_pe() == 0 ? fopen("out", "w") : NULL;
    for (int pe = 0; f && pe < shmem_n_pes(); pe++) {
        uint64_t seen;
        fprintf(f, "%a", shmem_double_g(&grid[ROWS - 1][WIDTH], pe));
        shmem_getmem(&seen, &history, sizeof seen, pe);
        fprintf(f, " %llx\n", (unsigned long long)seen);
    }
    if (f && fclose(f) == 0)
        puts("OK");
}

int main(int argc, char **argv)
{
    const int steps = argc > 1 ? atoi(argv[1]) : 40;
    shmem_init();
    if (shmem_ft_algo_init())
        set_up();
    do {
        places = 100;
        place(step);
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            restart_lost(step);
        } else if (step < steps) {
            places = 0;
            sort();
            pipeline();
            step++;
        } else {
            done = 1;
        }
    } while (!done);
    report();
    return 0;
}
