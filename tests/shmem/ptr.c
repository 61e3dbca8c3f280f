/* Loads and stores in the memory of other PEs (shmem_ptr), in the loop of listing 4.1.
 *
 *   ptr [STEPS [WAY]]
 *
 * A step stores into the memory of the next PE, loads from that of the PE before, and adds to
 * counters of all PEs by atomic calls.  PE 0 writes the result to the file out, which is the same
 * by messages: where shmem_ptr() gives nothing, the step uses put and get.  Places as in jacobi.c,
 * of which the step has four.
 *
 * WAY: far    no PE has the memory of another one
 *      near   each PE has that of all others, and its operations need no call of these
 *      both   that of some
 * Each is checked in each step.  Without WAY nothing is.
 *
 * The addresses of a restart are those of before; until the program asks again, a store ends in a
 * signal.  A store behind a loss, and before the restart, does no harm.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <shmem.h>

#include "kills.h"

enum { WIDTH = 9, PES = 16 };

static int step, done;
static double *row; /* the heap: [WIDTH], of the PE before */
static double own[WIDTH];
static long *count; /* the heap: [WIDTH] that all PEs have added */
static long *ticks; /* the heap: [2] of the PE before: how many, and the last one */
static uint64_t history;

/* On the stack of main(): nothing of this is restored. */
struct pointers {
    double *at[PES]; /* row of each PE; NULL: not asked for, or none */
    bool is_old;     /* of before a restart */
};

static uint64_t mix(uint64_t a, double value)
{
    uint64_t b;
    memcpy(&b, &value, sizeof b);
    const uint64_t x = (a ^ b * 0x9e3779b97f4a7c15U) * 0xff51afd7ed558ccdU;
    return x ^ x >> 29;
}

static void stop(const char *why)
{
    fprintf(stderr, "PE %d, step %d: %s\n", shmem_my_pe(), step, why);
    shmem_global_exit(EXIT_FAILURE);
}

static void set_up(void)
{
    row = shmem_calloc(WIDTH, sizeof *row);
    count = shmem_calloc(WIDTH, sizeof *count);
    ticks = shmem_calloc(2, sizeof *ticks);
    if (!row || !count || !ticks)
        exit(3);
    for (int i = 0; i < WIDTH; i++)
        own[i] = shmem_my_pe() + 0.25 * i;
}

/* ---- a signal in place of a store ---------------------------------------------------- */

static sigjmp_buf before_store;

static void on_signal(int signal)
{
    siglongjmp(before_store, signal);
}

static bool can_store(volatile double *at)
{
    struct sigaction was, mine = { .sa_handler = on_signal };
    volatile bool can = false;
    if (sigaction(SIGSEGV, &mine, &was) != 0)
        stop("no handler");
    if (sigsetjmp(before_store, 1) == 0) {
        *at = -1;
        can = true;
    }
    if (sigaction(SIGSEGV, &was, NULL) != 0)
        stop("no handler");
    return can;
}

/* ---- pointers ------------------------------------------------------------------------ */

static void ask(struct pointers *p, const char *way)
{
    int has = 0;
    for (int pe = 0; pe < shmem_n_pes(); pe++) {
        double *const was = p->at[pe];
        if (p->is_old && was && pe != shmem_my_pe() && can_store(was))
            stop("an address of before the restart is in use");
        double *const now = shmem_ptr(row, pe);
        if (shmem_ft_failed())
            return;
        if (was && now && was != now)
            stop("the address of a PE has changed");
        p->at[pe] = now;
        has += now && pe != shmem_my_pe();
    }
    p->is_old = false;
    const int all = shmem_n_pes() - 1;
    if ((strcmp(way, "far") == 0 && has > 0) || (strcmp(way, "near") == 0 && has < all)
        || (strcmp(way, "both") == 0 && (has == 0 || has == all)))
        stop("shmem_ptr gives too much or too little");
}

/* A PE looks at its memory, and makes no call meanwhile.  No PE is lost here. */
static void tick(void)
{
    const struct timespec pause = { 0, 1000000 };
    const int next = (shmem_my_pe() + 1) % shmem_n_pes();
    const volatile long *const mine = ticks;
    shmem_barrier_all(); /* all have asked */
    if (shmem_ft_failed())
        return;
    shmem_long_atomic_inc(&ticks[0], next);
    shmem_long_p(&ticks[1], step + 1, next);
    shmem_quiet();
    for (int i = 0; i < 20000 && (mine[0] != step + 1 || mine[1] != step + 1); i++)
        (void)nanosleep(&pause, NULL); /* a shorter one does no harm */
    if (mine[0] != step + 1 || mine[1] != step + 1)
        stop("an operation needs a call of its target");
}

static void give(const struct pointers *p, int pe, const double *from)
{
    if (p->at[pe])
        memcpy(p->at[pe], from, sizeof own);
    else
        shmem_double_put(row, from, WIDTH, pe);
}

static void take(const struct pointers *p, int pe, double *to)
{
    if (p->at[pe])
        memcpy(to, p->at[pe], sizeof own);
    else
        shmem_double_get(to, row, WIDTH, pe);
}

/* ---- the loop ------------------------------------------------------------------------ */

static void compute(struct pointers *p, const char *way)
{
    const int me = shmem_my_pe(), n = shmem_n_pes();
    double seen[WIDTH] = { 0 };
    ask(p, way);
    if (strcmp(way, "near") == 0)
        tick();
    place(step);
    give(p, (me + 1) % n, own);
    for (int i = 0; i < WIDTH; i++)
        shmem_long_atomic_add(&count[i], step + i, (me + i) % n);
    place(step);
    shmem_barrier_all();
    take(p, (me + 2) % n, seen); /* what the PE between has given */
    for (int i = 0; i < WIDTH; i++)
        own[i] = 0.5 * own[i] + 0.25 * row[i] + 0.125 * seen[(i + 1) % WIDTH];
    place(step);
    shmem_barrier_all();
    for (int i = 0; i < WIDTH; i++)
        history = mix(history, own[i]);
    if (shmem_ft_failed()) /* no other PE has the memory of a lost one */
        give(p, (me + 1) % n, own);
    place(step);
}

static void report(void)
{
    FILE *f = shmem_my_pe() == 0 ? fopen("out", "w") : NULL;
    shmem_barrier_all();
    for (int pe = 0; f && pe < shmem_n_pes(); pe++) {
        uint64_t seen;
        shmem_getmem(&seen, &history, sizeof seen, pe);
        fprintf(f, "%a %llx", shmem_double_g(&own[1], pe), (unsigned long long)seen);
        for (int i = 0; i < WIDTH; i++)
            fprintf(f, " %ld", shmem_long_g(&count[i], pe));
        fprintf(f, "\n");
    }
    if (f && fclose(f) == 0)
        puts("OK");
}

int main(int argc, char **argv)
{
    const int steps = argc > 1 ? atoi(argv[1]) : 40;
    const char *way = argc > 2 ? argv[2] : "";
    struct pointers p = { 0 };
    shmem_init();
    if (shmem_n_pes() > PES)
        stop("too many PEs");
    if (shmem_ft_algo_init())
        set_up();
    do {
        places = 100;
        place(step);
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            p.is_old = true;
            restart_lost(step);
        } else if (step < steps) {
            places = 0;
            compute(&p, way);
            step++;
        } else {
            done = 1;
        }
    } while (!done);
    report();
    return 0;
}
