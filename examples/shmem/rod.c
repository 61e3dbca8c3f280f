/* Heat in a rod, with OpenSHMEM: PEs are lost, and the result stays the same to the last bit.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *   ftkit run -n 4 --spares 1 -- build/examples/shmem/rod STEPS RESULT [PIDS MILLISECONDS]
 *
 * Nothing is listed: shmem_checkpoint_all() saves the heap, and the global and static variables.
 * The loop is listing 4.1 of P. Hao, A checkpointing restart approach for OpenSHMEM fault tolerance
 * (University of Houston, 2016).  PIDS.0, PIDS.1 ... get the process and the step of each PE, and a
 * step takes so many milliseconds more: a script may kill a process then. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <shmem.h>

enum { CELLS = 1000, SET_STEPS = 10 }; /* cells of a PE; steps between two sets */

static int step, done;
static double *u, *next; /* in the heap: the cells of this PE, with a neighbour at each end */

static void stop(const char *what)
{
    fprintf(stderr, "rod: PE %d: %s: %s\n", shmem_my_pe(), what, strerror(errno));
    shmem_global_exit(1);
}

static void set_up(void)
{
    const int me = shmem_my_pe();
    u = shmem_calloc(CELLS + 2, sizeof *u);
    next = shmem_calloc(CELLS + 2, sizeof *next);
    if (!u || !next)
        stop("no room in the heap");
    for (int i = 1; i <= CELLS; i++) /* hot pieces in a cold rod */
        u[i] = (me * CELLS + i) / 100 % 3 == 0 ? 100 : 20;
}

/* One step: the cells at the ends go to the neighbours, which have the others. */
static void advance(void)
{
    const int me = shmem_my_pe(), n = shmem_n_pes();
    if (me > 0)
        shmem_double_p(&u[CELLS + 1], u[1], me - 1);
    if (me < n - 1)
        shmem_double_p(&u[0], u[CELLS], me + 1);
    shmem_barrier_all();
    for (int i = 1; i <= CELLS; i++)
        next[i] = u[i] + 0.25 * (u[i - 1] - 2 * u[i] + u[i + 1]);
    shmem_barrier_all(); /* all have read what their neighbours put */
    memcpy(u + 1, next + 1, CELLS * sizeof *u);
    step++;
}

/* Replace a file, so that a reader sees the old line or the new one. */
static void tell_step(const char *pids)
{
    char path[512], fresh[520];
    snprintf(path, sizeof path, "%s.%d", pids, shmem_my_pe());
    snprintf(fresh, sizeof fresh, "%s.new", path);
    FILE *f = fopen(fresh, "w");
    if (!f || fprintf(f, "%ld %d\n", (long)getpid(), step) < 0 || fclose(f) != 0
        || rename(fresh, path) != 0)
        stop(path);
}

static void wait_a_moment(long ms)
{
    const struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
    (void)nanosleep(&t, NULL); /* a signal may end the moment */
}

/* PE 0 gets the cells of all, and writes the temperatures.  After a loss the cells are worthless,
 * so the file gets its name only when no PE was lost.  True: PE 0 has written the file. */
static bool write_result(const char *path)
{
    double all[CELLS + 2];
    char fresh[512];
    if (shmem_my_pe() != 0)
        return false;
    snprintf(fresh, sizeof fresh, "%s.new", path);
    FILE *f = fopen(fresh, "wb");
    for (int pe = 0; f && pe < shmem_n_pes(); pe++) {
        shmem_double_get(all, u, CELLS + 2, pe);
        if (fwrite(all + 1, sizeof *all, CELLS, f) != CELLS)
            stop(fresh);
    }
    if (!f || fclose(f) != 0)
        stop(fresh);
    if (shmem_ft_failed())
        return false;
    if (rename(fresh, path) != 0)
        stop(path);
    return true;
}

static void recover(void)
{
    int *pes, *status;
    size_t n;
    shmem_query_fault(&pes, &status, &n);
    shmem_restart_pes(pes, n);
    shmem_barrier_all();
    for (size_t i = 0; shmem_my_pe() == 0 && i < n; i++)
        printf("rod: PE %d was lost; all go on from step %d\n", pes[i], step);
    fflush(stdout);
    free(pes);
    free(status);
}

int main(int argc, char **argv)
{
    start_pes(0); /* substitutes wait here */
    const int steps = argc > 2 ? atoi(argv[1]) : 0;
    if (steps < 1 || argc == 4) {
        fprintf(stderr, "usage: rod STEPS RESULT [PIDS MILLISECONDS]\n");
        shmem_global_exit(2);
    }
    if (shmem_ft_algo_init())
        set_up();
    while (!done) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            recover();
            continue;
        }
        done = step == steps;
        for (int i = 0; i < SET_STEPS && step < steps && !shmem_ft_failed(); i++) {
            if (argc > 4) {
                tell_step(argv[3]);
                wait_a_moment(atol(argv[4]));
            }
            advance();
        }
    }
    if (write_result(argv[2]))
        printf("rod: %d steps on %d PEs\n", step, shmem_n_pes());
    return 0;
}
