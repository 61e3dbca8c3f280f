/* The model of the cost of failures in OpenSHMEM (P. Hao, University of Houston 2016, 6.1), beside
 * the cost of a run: s sets and f losses cost s T_b + f (T_r + T_s).
 *
 *   shmem_model [-n LOSSES] [-f FILE] [-b BYTES]      at least LOSSES spares
 *
 * The program is Jacobi in one dimension with BYTES for each PE and 16 sets, as in 6 of the thesis.
 * It runs once without sets and losses, then with them.  ftkit_s is the time that the second run
 * takes more.  bound_s is the model, of tb_s (the median of the sets), tr_s (from the death of a PE
 * until shmem_restart_pes() has returned on all PEs) and ts_s (from the set to the death); the last
 * two are means of the losses.  The last PE is lost, in the middle between two sets.  A loss costs
 * one more set, because the loop calls shmem_checkpoint_all() again, as in listing 4.1.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <signal.h>
#include <stdbool.h>

#include <shmem.h>

#include "bench.h"

enum { SETS = 16, SET_STEPS = 16, STEPS = SETS * SET_STEPS, FIRST = 3, EACH = 4 };
enum { PES = 16, LOSSES = 3, TIMES = SETS + LOSSES + 1 };

/* In a file that outlives every process. */
struct page {
    int sets, kills;
    double start_s, set_s[TIMES], line_s, killed_s, back_s[PES];
    double restart_s, lost_s; /* of all losses */
    double plain_s;
};

/* Of this process alone, on the stack: variables of the program are symmetric. */
struct job {
    struct bench b;
    struct page *page;
};

static const char *file; /* until shmem_init() */
static int losses;
static int step;
static size_t cells;     /* of a PE */
static double *u, *next; /* the heap: the cells, with a neighbour at each end */

static int option(int opt, const char *value)
{
    if (opt == 'n')
        losses = atoi(value);
    else
        file = value;
    return losses < 0 || losses > LOSSES;
}

static void set_up(const struct bench *b)
{
    cells = b->bytes / (2 * sizeof *u);
    u = shmem_calloc(cells + 2, sizeof *u);
    next = shmem_calloc(cells + 2, sizeof *next);
    if (!u || !next)
        bench_die(b, "no heap");
    for (size_t i = 0; i < cells; i++)
        u[i + 1] = (double)(i / 100 % 3 + (size_t)b->rank);
}

/* The last PE, in the middle of an interval. */
static void die_if_due(const struct job *j)
{
    struct page *p = j->page;
    if (j->b.rank != j->b.nranks - 1 || p->kills == losses
        || step != (p->kills + 1) * EACH * SET_STEPS + SET_STEPS / 2)
        return;
    p->kills++;
    p->killed_s = bench_now_s();
    kill(getpid(), SIGKILL);
}

static void advance(const struct bench *b)
{
    if (b->rank > 0)
        shmem_double_p(&u[cells + 1], u[1], b->rank - 1);
    if (b->rank < b->nranks - 1)
        shmem_double_p(&u[0], u[cells], b->rank + 1);
    shmem_barrier_all();
    for (size_t i = 1; i <= cells; i++)
        next[i] = u[i] + 0.25 * (u[i - 1] - 2 * u[i] + u[i + 1]);
    double *old = u;
    u = next;
    next = old;
    shmem_barrier_all();
    step++;
}

/* All PEs are back. */
static void come_back(const struct job *j)
{
    struct page *p = j->page;
    int *pes, *why;
    size_t n;
    double back = 0;
    shmem_query_fault(&pes, &why, &n);
    shmem_restart_pes(pes, n);
    p->back_s[j->b.rank] = bench_now_s();
    free(pes);
    free(why);
    shmem_barrier_all();
    for (int i = 0; i < j->b.nranks; i++)
        back = p->back_s[i] > back ? p->back_s[i] : back;
    if (j->b.rank != 0)
        return;
    p->restart_s += back - p->killed_s;
    p->lost_s += p->killed_s - p->line_s;
}

static void note_set(const struct job *j, double start)
{
    struct page *p = j->page;
    if (p->sets == TIMES)
        bench_die(&j->b, "too many sets");
    p->line_s = bench_now_s();
    p->set_s[p->sets++] = p->line_s - start;
}

static void run_with_sets(const struct job *j)
{
    for (;;) {
        const double start = bench_now_s();
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            come_back(j);
            continue;
        }
        if (j->b.rank == 0)
            note_set(j, start);
        if (step == STEPS)
            return;
        do {
            die_if_due(j);
            advance(&j->b);
        } while (step % SET_STEPS != 0 && !shmem_ft_failed());
    }
}

/* The undisturbed run, and the first sets, which make the buffers. */
static void begin(const struct job *j)
{
    set_up(&j->b);
    shmem_barrier_all();
    const double start = bench_now_s();
    while (step < STEPS)
        advance(&j->b);
    if (j->b.rank == 0)
        j->page->plain_s = bench_now_s() - start;
    step = 0;
    for (int i = 0; i < FIRST; i++)
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS)
            bench_die(&j->b, "no set");
    if (j->b.rank == 0)
        j->page->start_s = bench_now_s();
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const struct job *j)
{
    struct page *p = j->page;
    const double took = bench_now_s() - p->start_s - p->plain_s;
    const int f = losses > 0 ? losses : 1;
    if (p->kills != losses)
        bench_die(&j->b, "%d losses of %d", p->kills, losses);
    qsort(p->set_s, (size_t)p->sets, sizeof *p->set_s, by_size);
    const double tb = p->set_s[p->sets / 2], model = p->sets * tb + p->restart_s + p->lost_s;
    bench_row(&j->b,
        "ranks=%d bytes=%zu ftkit_s=%.6f bound_s=%.6f sets=%d losses=%d tb_s=%.6f tr_s=%.6f "
        "ts_s=%.6f plain_s=%.6f",
        j->b.nranks, j->b.bytes, took, model, p->sets, losses, tb, p->restart_s / f, p->lost_s / f,
        p->plain_s);
}

int main(int argc, char **argv)
{
    struct job j = { .b = { .bytes = (size_t)16 << 20, .reps = 1 } };
    char size[32];
    bench_options(&j.b, argc, argv, "b:r:n:f:", option);
    snprintf(size, sizeof size, "%zu", j.b.bytes + BENCH_HUGE);
    bench_set("SHMEM_SYMMETRIC_SIZE", size);
    bench_set("FTKIT_LEVEL_HDF5_ENABLED", "false");
    j.page = bench_map(&j.b, file, sizeof(struct page));
    shmem_init();
    j.b.rank = shmem_my_pe();
    j.b.nranks = shmem_n_pes();
    if (j.b.nranks > PES)
        bench_die(&j.b, "at most %d PEs", PES);
    if (shmem_ft_algo_init())
        begin(&j);
    run_with_sets(&j);
    if (j.b.rank == 0)
        report(&j);
    shmem_finalize();
    return 0;
}
