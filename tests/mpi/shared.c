/* A window with shared memory in the loop of a program: each rank has cells, and reads the borders
 * of its neighbours, and writes into the memory of others, without a call of MPI for it.  Variants
 * (-m):
 *
 *   halo     Jacobi steps on the cells of all ranks, with loads of the neighbours; set-up writes
 *            the first values of all ranks, from rank 0
 *   mixed    the same, and each rank adds to a sum in the memory of rank 0: by MPI_Accumulate and
 *            by a store into a place of its own
 *   inside   as halo, with a window that is made in the first step: no set can have it
 *   early    the same, with a window that is made behind ftkit_recover() and before the first set
 *   each     as halo, with a further window that each step makes and frees: a rollback leaves none
 *   alone    as halo, and each rank has a window that it shares with nobody
 *   later    the same, with a window that the first step makes: no set can have it
 *   gone     as alone, and a start behind a failure does not make this window: a mistake
 *   flag     as halo, and each step has a loop that waits for a value in the memory of rank 0
 *
 * Set-up loads from the memory of others, and gives the values to ftkit_decide() or MPI_Bcast().
 * A step passes app.mid and app.inflight once, between stores and loads.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <math.h>

#include "foreign.h"

static struct {
    enum { HALO, MIXED, INSIDE, EARLY, EACH, ALONE, LATER, GONE, FLAG } how;
    int cells, n;
    double *u;       /* [2 * cells] of this rank, in shared memory: two fields */
    uint64_t *state; /* registered: a hash, what is wrong */
    int64_t *sums;   /* [ranks + 2] of rank 0, in shared memory; the last one is the flag */
    int64_t *own;    /* a sum, in the memory of self */
    double seen[2];  /* in set-up, in the memory of another rank and in that of rank 0 */
    MPI_Win win, sum, each, self;
    MPI_Comm one; /* of this rank alone */
} w = { .win = MPI_WIN_NULL,
    .sum = MPI_WIN_NULL,
    .each = MPI_WIN_NULL,
    .self = MPI_WIN_NULL,
    .one = MPI_COMM_NULL };

static int prepare(struct foreign *f)
{
    static const char *const names[] = { "halo", "mixed", "inside", "early", "each", "alone",
        "later", "gone", "flag" };
    int start;
    const int how = foreign_variant(f, names, sizeof names / sizeof *names);
    if (how < 0)
        return 1;
    w.how = how;
    w.n = f->nranks;
    w.cells = foreign_block(f->size, f->nranks, f->rank, &start);
    w.state = foreign_state(f, 2);
    return w.state == NULL;
}

/* The field of a rank in a step, by a load of the address; *cells: how many. */
static double *field_of(int rank, int step, int *cells)
{
    MPI_Aint bytes = 0;
    int unit = 0;
    double *at = NULL;
    if (MPI_Win_shared_query(w.win, rank, &bytes, &unit, (void *)&at) != MPI_SUCCESS)
        return NULL;
    *cells = (int)(bytes / (MPI_Aint)sizeof *at) / 2;
    return at + (step % 2 == 0 ? 0 : *cells);
}

static int make(struct foreign *f)
{
    int64_t *mine;
    int rc = MPI_Win_allocate_shared(2 * (MPI_Aint)w.cells * (MPI_Aint)sizeof *w.u,
        (int)sizeof *w.u, MPI_INFO_NULL, f->comm, (void *)&w.u, &w.win);
    rc |= MPI_Win_allocate_shared(f->rank == 0 ? (w.n + 2) * (MPI_Aint)sizeof *mine : 0,
        (int)sizeof *mine, MPI_INFO_NULL, f->comm, (void *)&mine, &w.sum);
    MPI_Aint bytes;
    int unit;
    if (rc == MPI_SUCCESS)
        rc = MPI_Win_shared_query(w.sum, MPI_PROC_NULL, &bytes, &unit, (void *)&w.sums);
    if (rc == MPI_SUCCESS)
        rc = MPI_Barrier(f->comm);
    return rc;
}

/* Rank 0 writes the first values of all.  A replacement of rank 0 does so while the others are
 * further. */
static int fill(struct foreign *f)
{
    int cells = 0, k = 0;
    for (int r = 0; f->rank == 0 && r < w.n; r++) {
        double *u = field_of(r, 0, &cells);
        for (int i = 0; u && i < cells; i++, k++)
            u[i] = u[i + cells] = sin(0.1 * k);
    }
    for (int r = 0; f->rank == 0 && r <= w.n + 1; r++)
        w.sums[r] = 0;
    int rc = MPI_Win_sync(w.win);
    rc |= MPI_Barrier(f->comm);
    rc |= MPI_Win_sync(w.win);
    (void)FTK_FAULT("app.filled");
    return rc;
}

/* A replacement loads zeros here: the values of the lost process come from the log. */
static int look(struct foreign *f)
{
    int n = 0;
    const double *next = field_of((f->rank + 1) % w.n, 0, &n);
    const double *first = field_of(0, 0, &n);
    w.seen[0] = next ? next[n / 2] : -1;
    w.seen[1] = first && f->rank == 0 ? first[n / 2] : -1;
    int bad = ftkit_decide(f->ft, &w.seen[0], sizeof w.seen[0]) != FTKIT_OK;
    return bad || MPI_Bcast(&w.seen[1], 1, MPI_DOUBLE, 0, f->comm) != MPI_SUCCESS;
}

static bool has_seen(const struct foreign *f)
{
    int start, cells = foreign_block(f->size, w.n, (f->rank + 1) % w.n, &start);
    const int next = start + cells / 2;
    cells = foreign_block(f->size, w.n, 0, &start);
    const int first = cells / 2;
    return w.seen[0] == sin(0.1 * next) && w.seen[1] == sin(0.1 * first);
}

static int make_own(void)
{
    if (w.self != MPI_WIN_NULL)
        MPI_Win_free(&w.self); /* of before a rollback */
    int rc = MPI_Win_allocate_shared(
        sizeof *w.own, (int)sizeof *w.own, MPI_INFO_NULL, w.one, (void *)&w.own, &w.self);
    if (rc == MPI_SUCCESS)
        *w.own = 0;
    return rc;
}

static int connect_ranks(struct foreign *f)
{
    if (w.how == INSIDE || w.how == EARLY)
        return 0;
    const char *attempt = getenv("FTKIT_RUN_ATTEMPT");
    const bool again = attempt && strcmp(attempt, "0") != 0;
    int rc = make(f) != MPI_SUCCESS || fill(f) != MPI_SUCCESS || look(f) != 0;
    if (rc == 0 && (w.how == ALONE || w.how == LATER || w.how == GONE))
        rc = MPI_Comm_split(f->comm, f->rank, 0, &w.one) != MPI_SUCCESS;
    if (rc == 0 && (w.how == ALONE || (w.how == GONE && !again)))
        rc = make_own() != MPI_SUCCESS;
    return rc;
}

static void disconnect(void)
{
    if (w.win != MPI_WIN_NULL)
        MPI_Win_free(&w.win);
    if (w.sum != MPI_WIN_NULL)
        MPI_Win_free(&w.sum);
    if (w.self != MPI_WIN_NULL)
        MPI_Win_free(&w.self);
    if (w.one != MPI_COMM_NULL)
        MPI_Comm_free(&w.one);
}

static void jacobi(struct foreign *f)
{
    int n = 0, last = 0, next = 0;
    const double *u = field_of(f->rank, f->step, &n);
    const double *low = f->rank > 0 ? field_of(f->rank - 1, f->step, &last) : NULL;
    const double *high = f->rank < w.n - 1 ? field_of(f->rank + 1, f->step, &next) : NULL;
    double *to = field_of(f->rank, f->step + 1, &n);
    if (!u || !to)
        return; /* this rank rolls back */
    for (int i = 0; i < n; i++) {
        const double left = i > 0 ? u[i - 1] : low ? low[last - 1] : 0;
        const double right = i < n - 1 ? u[i + 1] : high ? high[0] : 0;
        to[i] = 0.5 * u[i] + 0.25 * left + 0.25 * right;
        if (i == n / 2)
            (void)FTK_FAULT("app.inflight");
    }
    w.state[0] = foreign_mix(w.state[0], (uint64_t)(int64_t)(to[n / 2] * 1e9));
}

static void add(struct foreign *f)
{
    const int64_t more = f->step + 1;
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.sum);
    MPI_Accumulate(&more, 1, MPI_INT64_T, 0, w.n, 1, MPI_INT64_T, MPI_SUM, w.sum);
    MPI_Win_unlock(0, w.sum);
    w.sums[f->rank] += more;
}

/* All ranks wait for rank 0.  A failure ends the loop by the error of MPI_Win_sync(). */
static void await_flag(struct foreign *f)
{
    volatile int64_t *flag = &w.sums[w.n + 1];
    if (f->rank == 0)
        *flag = f->step + 1;
    while (*flag != f->step + 1 && MPI_Win_sync(w.sum) == MPI_SUCCESS)
        ;
}

/* After a rollback the handle is one of before. */
static void make_another(struct foreign *f)
{
    int *mine;
    if (w.each != MPI_WIN_NULL)
        MPI_Win_free(&w.each);
    if (MPI_Win_allocate_shared(
            sizeof *mine, (int)sizeof *mine, MPI_INFO_NULL, f->comm, (void *)&mine, &w.each)
        == MPI_SUCCESS)
        *mine = f->step;
}

/* Files of shared memory that this process has mapped: of each the first page, and more of it.  Two
 * mappings of one may be in one line.  Other files of windows have one page. */
static int files(void)
{
    enum { MOST = 64 };
    const unsigned long page = (unsigned long)sysconf(_SC_PAGESIZE);
    unsigned long known[MOST], node, begin, end, at;
    char line[512];
    int n = 0;
    FILE *in = fopen("/proc/self/maps", "r");
    while (in && n < MOST && fgets(line, sizeof line, in)) {
        int i = 0;
        if (!strstr(line, "/memfd:ftkit-win")
            || sscanf(line, "%lx-%lx %*s %lx %*s %lu", &begin, &end, &at, &node) != 4
            || (at == 0 && end - begin <= page))
            continue;
        while (i < n && known[i] != node)
            i++;
        known[i] = node;
        n += i == n;
    }
    return in && fclose(in) == 0 ? n : -1;
}

static void step(struct foreign *f)
{
    if (w.how == EACH)
        make_another(f);
    if (w.how == INSIDE && f->step == 0) {
        disconnect(); /* the windows of before a rollback */
        if (make(f) != MPI_SUCCESS || fill(f) != MPI_SUCCESS)
            return;
    }
    if (w.how == INSIDE && w.win == MPI_WIN_NULL)
        return;
    if (w.how == LATER && f->step == 0 && make_own() != MPI_SUCCESS)
        return;
    jacobi(f);
    (void)FTK_FAULT("app.mid");
    if (w.how == MIXED)
        add(f);
    if (w.self != MPI_WIN_NULL)
        *w.own += f->step + 1;
    if (w.how == FLAG)
        await_flag(f);
    MPI_Win_sync(w.win);
    MPI_Barrier(f->comm);
    MPI_Win_sync(w.win);
    if (w.each != MPI_WIN_NULL)
        MPI_Win_free(&w.each);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    int n = 0;
    const double *u = field_of(f->rank, f->step, &n);
    const int64_t want = w.how == MIXED ? (int64_t)f->step * (f->step + 1) / 2 : 0;
    for (int i = 0; u && i < n; i++)
        w.state[0] = foreign_mix(w.state[0], (uint64_t)(int64_t)(u[i] * 1e9));
    w.state[1] += w.sums[f->rank] != want || w.sums[w.n] != want * w.n;
    w.state[1] += w.how != INSIDE && w.how != EARLY && !has_seen(f);
    const int own = files() - 2; /* a replacement has private memory in place of the file */
    w.state[1] += w.how == ALONE || w.how == GONE ? own != 0 && own != 1 : own != (w.how == LATER);
    if (w.how == ALONE || w.how == LATER)
        w.state[1] += *w.own != (int64_t)f->step * (f->step + 1) / 2;
    return foreign_counted(f, w.state[0], w.state[1], hash, detail, room);
}

static void release(void)
{
    free(w.state);
}

/* A loop that goes on when no set can have its window. */
static int loop_without_sets(struct foreign *f)
{
    for (int rc, last = FTKIT_OK;; last = rc) {
        rc = ftkit_checkpoint(f->ft);
        if (foreign_fatal(rc) && rc != last)
            (void)foreign_complain(f, "checkpoint", rc);
        if (foreign_fatal(rc) && rc != FTKIT_ERR_STATE)
            return 1;
        if (f->step >= f->steps) {
            if (foreign_end(f, &rc))
                return rc;
            continue;
        }
        foreign_watch(f);
        (void)FTK_FAULT("app.step");
        step(f);
        f->step++;
    }
}

static int loop(struct foreign *f)
{
    if (w.how == EARLY && (make(f) != MPI_SUCCESS || fill(f) != MPI_SUCCESS))
        return 1;
    const bool without = w.how == INSIDE || w.how == EARLY || w.how == LATER;
    return without ? loop_without_sets(f) : foreign_loop(f);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "shared", 40, 400, prepare, connect_ranks, disconnect,
        step, verdict, release };
    return foreign_run(argc, argv, &app, loop);
}
