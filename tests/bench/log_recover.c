/* From the death of a rank to the moment at which the whole job is again where it was.
 *
 * A loop of work, an exchange with two neighbours and a sum writes a set every PERIOD
 * iterations.  Now and then a rank kills itself by SIGKILL, OFFSET iterations behind a
 * set; the clock stops when the last rank is through the iteration in which that
 * happened. Without the log everybody returns to the set; with it the team of the lost
 * rank does.
 *
 * Bound: the processor time of the iterations that have to be done again and of the one
 * that was under way, by as many ranks at a time as there are cores.
 *
 * Also: iterations done twice by each rank that did not die (mean), by those of other
 * teams (the worst), and how long the repair took by itself.
 *
 *   log_recover -f FILE [-t TEAM_SIZE] [-b BYTES] [-r KILLS]     at least KILLS spares
 *
 * TEAM_SIZE 0: the log is off, a failure is one of all ranks.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <signal.h>
#include <stdbool.h>

#include "bench.h"

enum { PERIOD = 40, OFFSET = 30, RANKS = 16, KILLS = 16, HALO = 1024 /* doubles */ };

/* In a file that outlives every process. */
struct page {
    int kills;
    double killed_s[KILLS];
    double repair_s[KILLS][RANKS]; /* as its ranks tell it */
    double done_s[KILLS][RANKS];   /* the iteration of the kill was over */
    int runs[KILLS][RANKS];        /* iterations from the set to the kill, with repeats */
    double work_s[RANKS];          /* processor time of an iteration, the least */
};

struct job {
    struct bench b;
    int step;
    double *data;
    double in[2][HALO];
};

static const char *file;
static int team_size;
static struct page *page;

static int option(int opt, const char *value)
{
    if (opt == 'f')
        file = value;
    else
        team_size = atoi(value);
    return team_size < 0;
}

static int set_before(int k)
{
    return (k + 1) * PERIOD;
}

static int kill_step(int k)
{
    return set_before(k) + OFFSET;
}

static int victim(const struct bench *b, int k)
{
    return (2 * k + 1) % b->nranks;
}

/* ---- an iteration -------------------------------------------------------------------- */

static double processor_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void work(struct job *j)
{
    size_t n = j->b.bytes / sizeof(double);
    double *least = &page->work_s[j->b.rank];
    double start = processor_s();
    for (int pass = 0; pass < 8; pass++)
        for (size_t i = 1; i + 1 < n; i++)
            j->data[i] = 0.5 * j->data[i] + 0.25 * (j->data[i - 1] + j->data[i + 1]);
    double took = processor_s() - start;
    if (*least == 0 || took < *least)
        *least = took;
}

/* What comes of the neighbours is of this iteration, or the failure was not hidden. */
static int exchange(struct job *j)
{
    const struct bench *b = &j->b;
    int right = (b->rank + 1) % b->nranks, left = (b->rank + b->nranks - 1) % b->nranks;
    double out[HALO] = { j->step }, sum = 0, one = j->step;
    MPI_Request req[4];
    int rc = MPI_Irecv(j->in[0], HALO, MPI_DOUBLE, left, 0, b->comm, &req[0]);
    rc |= MPI_Irecv(j->in[1], HALO, MPI_DOUBLE, right, 1, b->comm, &req[1]);
    rc |= MPI_Isend(out, HALO, MPI_DOUBLE, right, 0, b->comm, &req[2]);
    rc |= MPI_Isend(out, HALO, MPI_DOUBLE, left, 1, b->comm, &req[3]);
    rc |= MPI_Waitall(4, req, MPI_STATUSES_IGNORE);
    if (rc == MPI_SUCCESS)
        rc = MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, b->comm);
    if (rc == MPI_SUCCESS
        && (j->in[0][0] != j->step || j->in[1][0] != j->step || sum != j->step * b->nranks))
        bench_die(b, "iteration %d got what is not of it", j->step);
    return rc;
}

static void die_perhaps(const struct job *j)
{
    int k = page->kills;
    if (k >= j->b.reps || j->step != kill_step(k) || j->b.rank != victim(&j->b, k))
        return;
    page->kills = k + 1;
    page->killed_s[k] = bench_now_s();
    kill(getpid(), SIGKILL);
}

static void note(const struct job *j)
{
    int k = j->step / PERIOD - 1;
    ftkit_info info = { .size = sizeof info };
    if (k < 0 || k >= j->b.reps || j->step > kill_step(k))
        return;
    page->runs[k][j->b.rank]++;
    if (j->step != kill_step(k))
        return;
    page->done_s[k][j->b.rank] = bench_now_s();
    bench_ft(&j->b, ftkit_query(j->b.ft, &info), FTKIT_OK, "query");
    page->repair_s[k][j->b.rank] = info.repair_s;
}

static void loop(struct job *j, bool due)
{
    while (j->step < set_before(j->b.reps)) {
        int rc = due ? ftkit_checkpoint(j->b.ft) : FTKIT_OK;
        if (rc != FTKIT_ROLLED_BACK)
            bench_ft(&j->b, rc, FTKIT_OK, "checkpoint");
        work(j);
        die_perhaps(j);
        bool good = exchange(j) == MPI_SUCCESS;
        if (good) {
            note(j);
            j->step++;
        }
        due = !good || j->step % PERIOD == 0;
    }
}

/* ---- the outcome --------------------------------------------------------------------- */

static double later(double a, double b)
{
    return a > b ? a : b;
}

static bool in_team(const struct bench *b, int r, int k)
{
    return team_size == 0 ? r == victim(b, k) : r / team_size == victim(b, k) / team_size;
}

static void report(struct bench *b, int k)
{
    double back = 0, repair = 0, work_s = 0, twice = 0, others = 0;
    int cores = (int)sysconf(_SC_NPROCESSORS_ONLN), returning = team_size;
    if (team_size == 0 || team_size > b->nranks)
        returning = b->nranks;
    for (int r = 0; r < b->nranks; r++) {
        double lost = page->runs[k][r] - (OFFSET + 1);
        back = later(back, page->done_s[k][r]);
        repair = later(repair, page->repair_s[k][r]);
        work_s = later(work_s, page->work_s[r]);
        if (r != victim(b, k))
            twice += lost / (b->nranks - 1);
        if (!in_team(b, r, k))
            others = later(others, lost);
    }
    double again = (OFFSET + 1) * work_s * ((returning + cores - 1) / cores);
    bench_row(b,
        "ranks=%d bytes=%zu ftkit_s=%.6f bound_s=%.6f repair_s=%.6f iteration_s=%.6f "
        "twice_each=%.2f others_each=%.0f victim=%d",
        b->nranks, b->bytes, back - page->killed_s[k], again, repair, work_s, twice, others,
        victim(b, k));
}

int main(int argc, char **argv)
{
    struct job j = { .b = { .bytes = (size_t)1 << 20, .reps = 3 } };
    char number[16];
    bench_options(&j.b, argc, argv, "b:r:f:t:", option);
    if (j.b.reps > KILLS)
        bench_die(&j.b, "at most %d kills", KILLS);
    page = bench_map(&j.b, file, sizeof *page);
    snprintf(number, sizeof number, "%d", team_size);
    bench_set("FTKIT_CHECKPOINT_PERIOD", "1 call");
    bench_set("FTKIT_LEVEL_HDF5_ENABLED", "false");
    bench_set("FTKIT_LOG_ENABLED", team_size > 0 ? "true" : "false");
    bench_set("FTKIT_LOG_TEAM_SIZE", number);
    bench_open(&j.b, &argc, &argv);
    if (j.b.nranks > RANKS)
        bench_die(&j.b, "at most %d ranks", RANKS);
    bench_region(&j.b);
    j.data = (double *)(void *)j.b.data;
    for (size_t i = 0; i < j.b.bytes / sizeof(double); i++)
        j.data[i] = (double)(i % 1000);
    bench_ft(
        &j.b, ftkit_register(j.b.ft, "data", j.b.data, j.b.bytes, MPI_BYTE), FTKIT_OK, "register");
    bench_ft(
        &j.b, ftkit_register_replicated(j.b.ft, "step", &j.step, 1, MPI_INT), FTKIT_OK, "step");
    int rc = ftkit_recover(j.b.ft, NULL);
    if (rc != FTKIT_NO_SET)
        bench_ft(&j.b, rc, FTKIT_OK, "recover");
    loop(&j, rc == FTKIT_NO_SET);
    bench_mpi(&j.b, MPI_Barrier(j.b.comm), "barrier"); /* all have told */
    for (int k = 0; k < j.b.reps; k++)
        report(&j.b, k);
    bench_ft(&j.b, ftkit_finish(j.b.ft), FTKIT_OK, "finish");
    return bench_close(&j.b);
}
