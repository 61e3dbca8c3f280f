/* Windows of MPI in the loop of a program: operations between ranks by MPI_Put, MPI_Get and
 * accumulates, in epochs of the variant (-m):
 *
 *   fence    the borders of a block of cells go to the neighbours by fences
 *   pscw     the same by MPI_Win_post, start, complete and wait
 *   test     the same, and MPI_Win_test instead of MPI_Win_wait
 *   gets     reads, accumulates of derived types, fetches and swaps between random ranks, by fences
 *   counter  ranks take pieces of work from a counter, with MPI_Win_lock_all and MPI_Fetch_and_op;
 *            the sum does not depend on which rank takes a piece
 *   locks    exclusive locks, puts and gets with requests
 *   served   as counter; the set-up of a replacement goes on until the other ranks ask for locks
 *   made     windows made in the loop, whose locks are taken at once
 *   kept     each step leaves a complete request to the next one, in an epoch of all steps; its end
 *            and an exclusive lock follow in the order of MPI
 *   open     as pscw; behind each step a set is refused, because an epoch is open
 *   held     as locks; behind each step a set is refused, because a lock is held
 *   posted   as pscw; set-up opens an epoch of post and start, which the loop closes
 *   self     as pscw; set-up opens an epoch and completes what this rank sends to itself, and the
 *            loop has the other rank of this epoch
 *   fenced   as fence; set-up opens an epoch with operations, which the loop closes
 *
 * A step passes app.mid once and app.inflight once, inside an epoch.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <math.h>

#include "foreign.h"

enum { MANY = 64, PIECES = 24 };

static struct {
    enum {
        FENCE,
        FENCED,
        PSCW,
        OPEN,
        POSTED,
        SELF,
        TEST,
        GETS,
        COUNTER,
        SERVED,
        LOCKS,
        HELD,
        MADE,
        KEPT
    } how;
    int cells;        /* of this rank */
    double *u, *next; /* [cells + 2], with a border; [cells] */
    int64_t *values;  /* [MANY + 2] of a window of MPI_Win_allocate */
    uint64_t *state;  /* registered: a hash, what is wrong, the result of a request */
    MPI_Request kept; /* registered */
    MPI_Win win, all; /* of u; of values */
    MPI_Group both;   /* the neighbours */
    MPI_Datatype odd; /* every second value */
    int low, high;
} w = { .win = MPI_WIN_NULL,
    .all = MPI_WIN_NULL,
    .both = MPI_GROUP_NULL,
    .odd = MPI_DATATYPE_NULL,
    .kept = MPI_REQUEST_NULL };

static int with_open_epoch(struct foreign *f)
{
    MPI_Win_post(w.both, 0, w.win);
    MPI_Win_start(w.both, 0, w.win);
    const int rc = ftkit_checkpoint(f->ft);
    w.state[1] += rc != FTKIT_ERR_STATE;
    MPI_Win_complete(w.win);
    MPI_Win_wait(w.win);
    return FTKIT_OK;
}

/* A set is refused, and takes nothing away: the lock still counts. */
static int with_held_lock(struct foreign *f)
{
    const int next = (f->rank + 1) % f->nranks;
    const int64_t more = 1;
    char text[96];
    snprintf(text, sizeof text, "a lock is held (call MPI_Win_unlock before); target %d is locked",
        next);
    MPI_Win_lock(f->step % 2 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, next, 0, w.all);
    w.state[1] += ftkit_checkpoint(f->ft) != FTKIT_ERR_STATE;
    w.state[1] += strstr(ftkit_detail(f->ft), text) == NULL;
    MPI_Accumulate(&more, 1, MPI_INT64_T, next, 0, 1, MPI_INT64_T, MPI_SUM, w.all);
    MPI_Win_unlock(next, w.all);
    return FTKIT_OK;
}

static bool is_begun_in_set_up(void)
{
    return w.how == FENCED || w.how == POSTED || w.how == SELF;
}

static int prepare(struct foreign *f)
{
    static const char *const names[] = { "fence", "fenced", "pscw", "open", "posted", "self",
        "test", "gets", "counter", "served", "locks", "held", "made", "kept" };
    int start;
    const int how = foreign_variant(f, names, sizeof names / sizeof *names);
    if (how < 0)
        return 1;
    w.how = how;
    f->after = w.how == OPEN ? with_open_epoch : w.how == HELD ? with_held_lock : NULL;
    w.cells = foreign_block(f->size, f->nranks, f->rank, &start);
    w.u = calloc((size_t)w.cells + 2, sizeof *w.u);
    w.next = calloc((size_t)w.cells + 2, sizeof *w.next);
    w.state = foreign_state(f, 3);
    if (!w.u || !w.next || !w.state
        || ftkit_register_requests(f->ft, "kept", &w.kept, 1) != FTKIT_OK)
        return 1;
    for (int k = 0; k < w.cells; k++)
        w.u[k + 1] = sin(0.1 * (start + k));
    return ftkit_register(f->ft, "u", w.u, (size_t)w.cells + 2, MPI_DOUBLE) != FTKIT_OK;
}

/* Cells of the neighbours: as many as this rank has, or one more or fewer. */
static int cells_of(const struct foreign *f, int rank)
{
    return foreign_block(f->size, f->nranks, rank, NULL);
}

static void put_borders(const struct foreign *f)
{
    if (w.low != MPI_PROC_NULL)
        MPI_Put(&w.u[1], 1, MPI_DOUBLE, w.low, cells_of(f, w.low) + 1, 1, MPI_DOUBLE, w.win);
    (void)FTK_FAULT("app.inflight");
    MPI_Put(&w.u[w.cells], 1, MPI_DOUBLE, w.high, 0, 1, MPI_DOUBLE, w.win);
}

/* The neighbour of a higher rank puts its border in the loop (end_of_self). */
static int begin_self(const struct foreign *f)
{
    const int from[] = { f->rank, w.high };
    MPI_Group group, origins, own;
    int rc = MPI_Win_get_group(w.win, &group);
    rc |= MPI_Group_incl(group, w.high == MPI_PROC_NULL ? 1 : 2, from, &origins);
    rc |= MPI_Group_incl(group, 1, from, &own);
    rc |= MPI_Win_post(origins, 0, w.win);
    rc |= MPI_Win_start(own, 0, w.win);
    rc |= MPI_Put(&w.u[1], 1, MPI_DOUBLE, f->rank, 0, 1, MPI_DOUBLE, w.win);
    rc |= MPI_Win_complete(w.win);
    rc |= MPI_Group_free(&group);
    rc |= MPI_Group_free(&origins);
    rc |= MPI_Group_free(&own);
    return rc;
}

static void end_of_self(const struct foreign *f)
{
    MPI_Group group, to;
    MPI_Win_get_group(w.win, &group);
    MPI_Group_incl(group, w.low != MPI_PROC_NULL, &w.low, &to);
    MPI_Win_start(to, 0, w.win);
    if (w.low != MPI_PROC_NULL)
        MPI_Put(&w.u[1], 1, MPI_DOUBLE, w.low, cells_of(f, w.low) + 1, 1, MPI_DOUBLE, w.win);
    MPI_Group_free(&group);
    MPI_Group_free(&to);
}

/* Set-up opens an epoch; the first step of the loop closes this epoch. */
static int begin_epoch(const struct foreign *f)
{
    int rc = MPI_SUCCESS;
    if (w.how == FENCED)
        rc = MPI_Win_fence(MPI_MODE_NOPRECEDE, w.win);
    if (w.how == POSTED) {
        rc = MPI_Win_post(w.both, 0, w.win);
        rc |= MPI_Win_start(w.both, 0, w.win);
    }
    if (w.how == SELF)
        return begin_self(f);
    if (is_begun_in_set_up())
        put_borders(f);
    return rc;
}

/* The file that ranks make when they are back in the loop. */
static const char *mark(const struct foreign *f)
{
    static char path[512];
    snprintf(path, sizeof path, "%s.back", f->watch ? f->watch : "windows");
    return path;
}

/* A replacement: the other ranks are back, and have asked for locks of this one. */
static int linger(const struct foreign *f)
{
    ftkit_info info = { .size = sizeof info };
    int rc = ftkit_query(f->ft, &info) != FTKIT_OK;
    for (int left = 2000; rc == MPI_SUCCESS && info.incarnation > 0 && left > 0;) {
        rc = MPI_Win_sync(w.all);
        left -= access(mark(f), F_OK) == 0;
    }
    return rc;
}

static void note_return(const struct foreign *f)
{
    static int most = -1;
    FILE *out = f->step <= most ? fopen(mark(f), "a") : NULL;
    if (out)
        w.state[1] += fclose(out) != 0;
    most = f->step > most ? f->step : most;
}

static int connect_ranks(struct foreign *f)
{
    MPI_Group group;
    int rc, near[2], n = 0;
    w.low = f->rank > 0 ? f->rank - 1 : MPI_PROC_NULL;
    w.high = f->rank < f->nranks - 1 ? f->rank + 1 : MPI_PROC_NULL;
    if (w.low != MPI_PROC_NULL)
        near[n++] = w.low;
    if (w.high != MPI_PROC_NULL)
        near[n++] = w.high;
    rc = MPI_Win_create(w.u, (w.cells + 2) * (MPI_Aint)sizeof *w.u, (int)sizeof *w.u, MPI_INFO_NULL,
        f->comm, &w.win);
    rc |= MPI_Win_allocate((MANY + 2) * (MPI_Aint)sizeof *w.values, (int)sizeof *w.values,
        MPI_INFO_NULL, f->comm, (void *)&w.values, &w.all);
    if (rc != MPI_SUCCESS)
        return 1;
    for (int i = 0; i < MANY + 2; i++)
        w.values[i] = 0;
    rc |= MPI_Win_get_group(w.win, &group);
    rc |= MPI_Group_incl(group, n, near, &w.both);
    rc |= MPI_Group_free(&group);
    rc |= MPI_Type_vector(MANY / 4, 1, 2, MPI_INT64_T, &w.odd);
    rc |= MPI_Type_commit(&w.odd);
    rc |= MPI_Barrier(f->comm);
    rc |= begin_epoch(f);
    if (w.how == SERVED)
        rc |= linger(f);
    return rc != MPI_SUCCESS;
}

static void disconnect(void)
{
    if (w.both != MPI_GROUP_NULL)
        MPI_Group_free(&w.both);
    if (w.odd != MPI_DATATYPE_NULL)
        MPI_Type_free(&w.odd);
    if (w.win != MPI_WIN_NULL)
        MPI_Win_free(&w.win);
    if (w.all != MPI_WIN_NULL)
        MPI_Win_free(&w.all);
}

/* ---- a halo -------------------------------------------------------------------------- */

static void compute(void)
{
    for (int i = 1; i <= w.cells; i++)
        w.next[i] = 0.25 * w.u[i - 1] + 0.5 * w.u[i] + 0.25 * w.u[i + 1];
    memcpy(w.u + 1, w.next + 1, (size_t)w.cells * sizeof *w.u);
}

static void halo(const struct foreign *f)
{
    const bool open = f->step == 0 && is_begun_in_set_up();
    if (w.how <= FENCED) {
        if (!open) {
            MPI_Win_fence(MPI_MODE_NOPRECEDE, w.win);
            put_borders(f);
        }
        (void)FTK_FAULT("app.mid");
        MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win);
        compute();
        return;
    }
    if (open && w.how == SELF)
        end_of_self(f);
    if (!open) {
        MPI_Win_post(w.both, 0, w.win);
        MPI_Win_start(w.both, 0, w.win);
        put_borders(f);
    }
    (void)FTK_FAULT("app.mid");
    MPI_Win_complete(w.win);
    if (w.how != TEST)
        MPI_Win_wait(w.win);
    for (int done = w.how != TEST; !done;)
        if (MPI_Win_test(w.win, &done) != MPI_SUCCESS)
            break;
    compute();
}

/* ---- reads and accumulates ----------------------------------------------------------- */

static void note(uint64_t value)
{
    w.state[0] = foreign_mix(w.state[0], value);
}

/* A long message, too: all values. */
static void gets(const struct foreign *f)
{
    int64_t mine[MANY], got[MANY] = { 0 }, old[MANY / 4] = { 0 }, one = f->step + f->rank;
    int64_t before = -1, was = -1, wanted = 0;
    const int to = (f->rank + 1 + f->step) % f->nranks, from = (f->rank + f->step) % f->nranks;
    for (int i = 0; i < MANY; i++)
        mine[i] = f->step * 100 + f->rank * 7 + i;
    MPI_Win_fence(0, w.all);
    MPI_Accumulate(mine, MANY, MPI_INT64_T, to, 0, MANY, MPI_INT64_T, MPI_SUM, w.all);
    (void)FTK_FAULT("app.inflight");
    MPI_Accumulate(mine, MANY / 4, MPI_INT64_T, from, 1, 1, w.odd, MPI_BXOR, w.all);
    MPI_Win_fence(0, w.all);
    MPI_Get(got, MANY, MPI_INT64_T, from, 0, MANY, MPI_INT64_T, w.all);
    (void)FTK_FAULT("app.mid");
    MPI_Fetch_and_op(&one, &before, MPI_INT64_T, 0, MANY, MPI_SUM, w.all);
    MPI_Compare_and_swap(&one, &wanted, &was, MPI_INT64_T, to, MANY + 1, w.all);
    MPI_Win_fence(0, w.all);
    MPI_Get_accumulate(mine, MANY / 4, MPI_INT64_T, old, MANY / 4, MPI_INT64_T, to, 0, 1, w.odd,
        MPI_REPLACE, w.all);
    MPI_Win_fence(0, w.all);
    for (int i = 0; i < MANY; i++)
        note((uint64_t)got[i] + (i < MANY / 4 ? (uint64_t)old[i] : 0));
    note((uint64_t)before);
    note((uint64_t)was);
}

/* ---- locks --------------------------------------------------------------------------- */

/* Rank 0 has the counter; each rank adds what it has taken to its own sum there. */
static void counter(const struct foreign *f)
{
    const int64_t one = 1, base = (int64_t)f->step * PIECES;
    int64_t taken = 0, sum = 0;
    if (w.how == SERVED)
        note_return(f);
    MPI_Win_lock_all(0, w.all);
    for (bool first = true;; first = false) {
        MPI_Fetch_and_op(&one, &taken, MPI_INT64_T, 0, MANY, MPI_SUM, w.all);
        if (first)
            (void)FTK_FAULT("app.inflight");
        if (MPI_Win_flush(0, w.all) != MPI_SUCCESS || taken >= base + PIECES)
            break;
        sum += (int64_t)foreign_mix((uint64_t)taken, 3) >> 20;
    }
    (void)FTK_FAULT("app.mid");
    MPI_Accumulate(&sum, 1, MPI_INT64_T, 0, MANY + 1, 1, MPI_INT64_T, MPI_SUM, w.all);
    MPI_Win_unlock_all(w.all);
    MPI_Barrier(f->comm);
    if (f->rank == 0) { /* each rank has taken one piece too many */
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w.all);
        w.values[MANY] = base + PIECES;
        MPI_Win_unlock(0, w.all);
    }
    MPI_Barrier(f->comm);
}

/* Each rank adds to values of all others, and reads them back. */
static void locks(const struct foreign *f)
{
    int64_t more[2] = { f->step, f->rank }, got[MANY];
    MPI_Request q[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL };
    for (int k = 0; k < f->nranks; k++) {
        const int to = (f->rank + k) % f->nranks;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, w.all);
        got[0] = 0;
        MPI_Get(got, 1, MPI_INT64_T, to, 0, 1, MPI_INT64_T, w.all);
        MPI_Win_flush(to, w.all);
        if (k == 1)
            (void)FTK_FAULT("app.inflight");
        got[0] += foreign_fixed(0.5) + f->step;
        MPI_Put(got, 1, MPI_INT64_T, to, 0, 1, MPI_INT64_T, w.all);
        MPI_Win_unlock(to, w.all);
    }
    (void)FTK_FAULT("app.mid");
    const int next = (f->rank + 1) % f->nranks;
    MPI_Win_lock(MPI_LOCK_SHARED, next, 0, w.all);
    MPI_Rput(more, 2, MPI_INT64_T, next, 2, 2, MPI_INT64_T, w.all, &q[0]);
    MPI_Wait(&q[0], MPI_STATUS_IGNORE);
    MPI_Win_flush(next, w.all);
    MPI_Rget(got, 2, MPI_INT64_T, next, 2, 2, MPI_INT64_T, w.all, &q[1]);
    if (MPI_Wait(&q[1], MPI_STATUS_IGNORE) == MPI_SUCCESS) {
        w.state[1] += got[0] != more[0] || got[1] != more[1];
        note((uint64_t)got[1]);
    }
    MPI_Win_unlock(next, w.all);
    MPI_Barrier(f->comm);
    note((uint64_t)w.values[0]);
    MPI_Barrier(f->comm);
}

/* Rank 0 gets an exclusive lock when no other rank has the locks that a set has brought back. */
static void end_of_kept(const struct foreign *f)
{
    enum { TIMES = 50 };
    const int64_t one = 1;
    int64_t seen = -1;
    for (int i = 0; f->rank > 0 && i < TIMES; i++) {
        MPI_Accumulate(&one, 1, MPI_INT64_T, 1, MANY, 1, MPI_INT64_T, MPI_SUM, w.all);
        MPI_Win_flush(1, w.all);
    }
    MPI_Win_unlock_all(w.all);
    if (f->rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, w.all);
        MPI_Get(&seen, 1, MPI_INT64_T, 1, MANY, 1, MPI_INT64_T, w.all);
        MPI_Win_unlock(1, w.all);
        w.state[1] += seen != (f->nranks - INT64_C(1)) * TIMES;
    }
    MPI_Barrier(f->comm); /* rank 1 reads its window for the verdict */
}

/* The request of the step before is in the set. */
static void kept(const struct foreign *f)
{
    const int next = (f->rank + 1) % f->nranks, last = f->step == f->steps - 1;
    const int64_t more = f->step + f->rank;
    if (f->step == 0)
        MPI_Win_lock_all(0, w.all);
    else
        w.state[1] += w.kept == MPI_REQUEST_NULL;
    if (MPI_Wait(&w.kept, MPI_STATUS_IGNORE) == MPI_SUCCESS)
        note(w.state[2]);
    MPI_Accumulate(&more, 1, MPI_INT64_T, next, 0, 1, MPI_INT64_T, MPI_SUM, w.all);
    MPI_Win_flush(next, w.all);
    (void)FTK_FAULT("app.mid");
    MPI_Rget(&w.state[2], 1, MPI_INT64_T, next, 0, 1, MPI_INT64_T, w.all, &w.kept);
    (void)FTK_FAULT("app.inflight");
    if (!last) {
        MPI_Win_flush(next, w.all);
        return;
    }
    MPI_Wait(&w.kept, MPI_STATUS_IGNORE);
    end_of_kept(f);
}

/* The lock of a window that other ranks are still making. */
static void made(const struct foreign *f)
{
    const int next = (f->rank + 1) % f->nranks, last = (f->rank + f->nranks - 1) % f->nranks;
    int64_t x = f->step, more = f->rank;
    MPI_Win win;
    if (MPI_Win_create(&x, sizeof x, 1, MPI_INFO_NULL, f->comm, &win) != MPI_SUCCESS)
        return;
    for (int k = 0; k < f->nranks; k++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, (next + k) % f->nranks, 0, win);
        if (k == 0)
            MPI_Accumulate(&more, 1, MPI_INT64_T, next, 0, 1, MPI_INT64_T, MPI_SUM, win);
        MPI_Win_unlock((next + k) % f->nranks, win);
    }
    MPI_Win_free(&win);
    w.state[1] += x != f->step + last;
    (void)FTK_FAULT("app.mid");
}

static void step(struct foreign *f)
{
    if (w.how <= TEST)
        halo(f);
    else if (w.how == GETS)
        gets(f);
    else if (w.how <= SERVED)
        counter(f);
    else if (w.how == LOCKS || w.how == HELD)
        locks(f);
    else if (w.how == MADE)
        made(f);
    else
        kept(f);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    uint64_t mine = w.state[0];
    for (int i = 1; i <= w.cells; i++)
        mine = foreign_mix(mine, foreign_cell((size_t)i, w.u[i]));
    for (int i = 0; i < MANY + 2; i++)
        mine = foreign_mix(mine, (uint64_t)w.values[i]);
    return foreign_counted(f, mine, w.state[1], hash, detail, room);
}

static void release(void)
{
    free(w.u);
    free(w.next);
    free(w.state);
}

/* The epoch of set-up is closed before the first set. */
static int loop(struct foreign *f)
{
    if (is_begun_in_set_up() && f->step == 0) {
        foreign_watch(f);
        step(f);
        f->step++;
    }
    return foreign_loop(f);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "windows", 40, 103, prepare, connect_ranks, disconnect,
        step, verdict, release };
    return foreign_run(argc, argv, &app, loop);
}
