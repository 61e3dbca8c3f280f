/* Jacobi's iteration on a rod, in the loop of listing 4.1 (source: bindings/shmem/fault.c).
 *
 *   jacobi [STEPS]
 *
 * PE 0 writes the result to the file out.  Places (kills.h): from 1 on the calls of SHMEM of a
 * step; 101: in front of shmem_checkpoint_all(); 102: in front of shmem_restart_pes(); 103: behind
 * it.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* usleep */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <shmem.h>

#include "kills.h"

enum { CELLS = 100, MOST = 400, HALF = 20 };

/* The state of the program: nothing of this is listed anywhere. */
int step;
static int done;
static double *u, *next; /* the heap: cells with a border */
static double most[2];   /* the largest change of this PE, and of all */
static double history[MOST];
static double *rows[2] = { history, history + HALF }; /* pointers to variables */
static long sync_[SHMEM_REDUCE_SYNC_SIZE];
static double work[SHMEM_REDUCE_MIN_WRKDATA_SIZE];

static int (*const say)(const char *) = puts; /* an address of a library */

static void set_up(void)
{
    u = shmem_malloc((CELLS + 2) * sizeof *u);
    next = shmem_calloc(CELLS + 2, sizeof *next);
    if (!u || !next)
        exit(3);
    for (int i = 0; i < CELLS + 2; i++)
        u[i] = (shmem_my_pe() * CELLS + i) % 17 / 17.0;
    shmem_barrier_all();
}

static void compute(void)
{
    const int me = shmem_my_pe(), n = shmem_n_pes();
    place(step);
    if (me > 0)
        shmem_double_p(&u[CELLS + 1], u[1], me - 1);
    place(step);
    if (me < n - 1)
        shmem_double_put(&u[0], &u[CELLS], 1, me + 1);
    place(step);
    shmem_barrier_all();
    place(step);
    most[0] = 0;
    for (int i = 1; i <= CELLS; i++) {
        next[i] = 0.25 * u[i - 1] + 0.5 * u[i] + 0.25 * u[i + 1];
        const double change = next[i] > u[i] ? next[i] - u[i] : u[i] - next[i];
        most[0] = change > most[0] ? change : most[0];
    }
    memcpy(u + 1, next + 1, CELLS * sizeof *u);
    shmem_double_max_to_all(&most[1], &most[0], 1, 0, 0, n, work, sync_);
    place(step);
    if (step < HALF)
        rows[0][step] = most[1];
    else
        rows[1][step - HALF] = most[1];
    shmem_barrier_all();
    place(step);
    step++;
}

static void report(int steps)
{
    FILE *f = shmem_my_pe() == 0 ? fopen("out", "w") : NULL;
    for (int pe = 0; f && pe < shmem_n_pes(); pe++) {
        double all[CELLS + 2];
        shmem_double_get(all, u, CELLS + 2, pe);
        for (int i = 1; i <= CELLS; i++)
            fprintf(f, "%a\n", all[i]);
    }
    for (int i = 0; f && i < steps; i++)
        fprintf(f, "%a\n", history[i]);
    if (f && fclose(f) == 0)
        say("OK");
}

int main(int argc, char **argv)
{
    const int steps = argc > 1 && atoi(argv[1]) <= MOST ? atoi(argv[1]) : 40;
    start_pes(0);
    if (shmem_ft_algo_init())
        set_up();
    do {
        places = 100;
        place(step);
        if (SHMEM_FT_SUCCESS != shmem_checkpoint_all()) {
            int *pes, *pes_status;
            size_t numpes;
            shmem_query_fault(&pes, &pes_status, &numpes);
            place(step);
            shmem_restart_pes(pes, &numpes);
            place(step);
            shmem_barrier_all();
            for (size_t i = 0; shmem_my_pe() == 0 && i < numpes; i++)
                printf("lost %d %d\n", pes[i], pes_status[i]);
            free(pes);
            free(pes_status);
        } else if (step < steps) {
            places = 0;
            compute();
        } else {
            done = 1;
        }
    } while (!done);
    report(steps);
    return 0;
}
