/* Windows of MPI_Win_allocate, whose memory other ranks of the node reach without messages, in the
 * loop of a program (-m):
 *
 *   fence  borders of a block of cells in the window, put or got (every second step) by fences;
 *          sums that depend on the order in which both neighbours add, which is that of the ranks
 *   pscw   the same by MPI_Win_post, start, complete and wait
 *   locks  an epoch of MPI_Win_lock_all of all steps: borders by flush, sums that all ranks add at
 *          once, the order of accumulates, requests
 *   spin   rank 0 reads a value of rank 1 until rank 2 has changed it, and rank 2 waits for a lock
 *          of rank 0 before
 *   local  the same with local flushes
 *   work   the same with work between two looks: a failure must end the loop in few looks
 *   tickets  all ranks take tickets of rank 0 by MPI_Fetch_and_op, and note each one in the file
 *          TICKETS (environment): no two ranks may have the same one
 *   wrong  rank 0 has an operation, and says at a fence that there is none: behind this error it
 *          still waits for rank 1
 *   large  as fence, with a large window of which little is used: most of it takes no memory
 *   open   with locks an operation that no flush completes, from step 7 on
 *   begun  the same, in the epoch of a fence
 *
 * With made-fence and the like the window is of MPI_Win_create, on memory of MPI_Alloc_mem in a
 * region of the program.  With shared-fence and the like it is of MPI_Win_allocate_shared.
 * Otherwise the cells are in no region: a set has the memory of the window.  Set-up has operations,
 * too: before the first set no rank can go back to them.
 *
 * Set-up passes app.greeted at its end, and a step passes app.mid once.  app.compute is where a
 * rank changes and reads its own cells, and app.inflight where rank 0 reads until rank 2 does
 * something.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <time.h>

#include "foreign.h"

enum { ADDS = 40, WIDTH = 4, FEW_LOOKS = 24, WORK_MS = 100, LAST_COMPLETE = 6 };
enum { GREETINGS = 4, TICKETS = 4, LARGE_BYTES = 32 << 20 };
enum { FIRST = 700 }; /* not at the begin of a page */

/* A block of memory of the window; offsets are in doubles. */
enum { SUMS, WIDE = SUMS + 2 * WIDTH, COUNT = WIDE + 2, TURN, STEPS, HELLO, CELLS };

static struct {
    enum { FENCE, PSCW, LARGE, LOCKS, DRAW, WRONG, SPIN, LOCAL, WORK, OPEN, BEGUN } how;
    int cells; /* of this rank */
    double *x; /* [CELLS + cells + 2] of the window */
    double *next;
    enum { ALLOCATED, MADE, SHARED } kind;
    double *room;    /* MADE: of MPI_Alloc_mem; the window begins at FIRST */
    uint64_t *state; /* registered: a hash, what is wrong, the result of a request */
    MPI_Win win;
    MPI_Group both; /* the neighbours */
    MPI_Datatype odd;
    int low, high;
    uint64_t late; /* failures that rank 0 has noticed after many looks, and rollbacks that have
                      left memory of others in this process; not restored */
} w = { .win = MPI_WIN_NULL, .both = MPI_GROUP_NULL, .odd = MPI_DATATYPE_NULL };

static int prepare(struct foreign *f)
{
    static const char *const names[] = { "fence", "pscw", "large", "locks", "tickets", "wrong",
        "spin", "local", "work", "open", "begun" };
    int start;
    if (f->variant && strncmp(f->variant, "made-", 5) == 0)
        w.kind = MADE;
    else if (f->variant && strncmp(f->variant, "shared-", 7) == 0)
        w.kind = SHARED;
    if (w.kind != ALLOCATED)
        f->variant = strchr(f->variant, '-') + 1;
    const int how = foreign_variant(f, names, sizeof names / sizeof *names);
    if (how < 0)
        return 1;
    w.how = how;
    w.cells = foreign_block(f->size, f->nranks, f->rank, &start);
    w.next = calloc((size_t)w.cells + 2, sizeof *w.next);
    w.state = foreign_state(f, 3);
    return !w.next || !w.state;
}

/* Memory of MPI_Alloc_mem of which the window has the end; a set has the region. */
static int make_on_memory(struct foreign *f, MPI_Aint bytes)
{
    int rc = MPI_Alloc_mem(FIRST * (MPI_Aint)sizeof *w.x + bytes, MPI_INFO_NULL, (void *)&w.room);
    if (rc != MPI_SUCCESS)
        return rc;
    w.x = w.room + FIRST;
    if (ftkit_register(f->ft, "x", w.x, (size_t)bytes / sizeof *w.x, MPI_DOUBLE) != FTKIT_OK)
        return MPI_ERR_OTHER;
    return MPI_Win_create(w.x, bytes, sizeof *w.x, MPI_INFO_NULL, f->comm, &w.win);
}

static int make_window(struct foreign *f, MPI_Aint bytes)
{
    if (w.kind == MADE)
        return make_on_memory(f, bytes);
    return w.kind == SHARED
               ? MPI_Win_allocate_shared(
                   bytes, sizeof *w.x, MPI_INFO_NULL, f->comm, (void *)&w.x, &w.win)
               : MPI_Win_allocate(bytes, sizeof *w.x, MPI_INFO_NULL, f->comm, (void *)&w.x, &w.win);
}

/* Each rank has the last greeting of the one before. */
static double greeting(const struct foreign *f, int rank, int round)
{
    return (rank + f->nranks) % f->nranks + 100 * round;
}

static int greet(const struct foreign *f)
{
    int rc = MPI_Win_fence(0, w.win);
    for (int i = 0; rc == MPI_SUCCESS && i < GREETINGS; i++) {
        const double x = greeting(f, f->rank, i);
        rc = MPI_Put(&x, 1, MPI_DOUBLE, (f->rank + 1) % f->nranks, HELLO, 1, MPI_DOUBLE, w.win);
        if (rc == MPI_SUCCESS)
            rc = MPI_Win_fence(i == GREETINGS - 1 ? MPI_MODE_NOSUCCEED : 0, w.win);
    }
    return rc;
}

static int connect_ranks(struct foreign *f)
{
    MPI_Group group;
    int near[2], n = 0, start;
    const MPI_Aint bytes = (CELLS + w.cells + 2) * (MPI_Aint)sizeof *w.x;
    w.low = f->rank > 0 ? f->rank - 1 : MPI_PROC_NULL;
    w.high = f->rank < f->nranks - 1 ? f->rank + 1 : MPI_PROC_NULL;
    if (w.low != MPI_PROC_NULL)
        near[n++] = w.low;
    if (w.high != MPI_PROC_NULL)
        near[n++] = w.high;
    const MPI_Aint more = w.how == LARGE ? LARGE_BYTES : 0;
    int rc = make_window(f, bytes + more);
    if (rc != MPI_SUCCESS)
        return 1;
    rc = MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN);
    memset(w.x, 0, (size_t)bytes);
    (void)foreign_block(f->size, f->nranks, f->rank, &start);
    for (int k = 0; k < w.cells; k++)
        w.x[CELLS + k + 1] = sin(0.1 * (start + k));
    rc |= MPI_Win_get_group(w.win, &group);
    rc |= MPI_Group_incl(group, n, near, &w.both);
    rc |= MPI_Group_free(&group);
    rc |= MPI_Type_vector(WIDTH, 1, 2, MPI_DOUBLE, &w.odd);
    rc |= MPI_Type_commit(&w.odd);
    rc |= MPI_Barrier(f->comm);
    rc |= greet(f);
    (void)FTK_FAULT("app.greeted");
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
}

static void note(uint64_t value)
{
    w.state[0] = foreign_mix(w.state[0], value);
}

/* The other processes have no memory of this one in a rollback.  The file of MPI_Alloc_mem is this
 * process's own, and that of MPI_Win_allocate_shared, with a head, stays. */
static int own_mappings(void)
{
    return w.kind == MADE ? 2 : w.kind == SHARED ? 3 : 1;
}

/* ---- a halo -------------------------------------------------------------------------- */

static int cells_of(const struct foreign *f, int rank)
{
    return foreign_block(f->size, f->nranks, rank, NULL);
}

/* The borders of this rank go to the neighbours, or the other way. */
static void exchange(const struct foreign *f)
{
    double *const u = w.x + CELLS;
    const int theirs = w.low == MPI_PROC_NULL ? 0 : cells_of(f, w.low);
    if (f->step % 2 == 0) {
        MPI_Put(&u[1], 1, MPI_DOUBLE, w.low, CELLS + theirs + 1, 1, MPI_DOUBLE, w.win);
        MPI_Put(&u[w.cells], 1, MPI_DOUBLE, w.high, CELLS, 1, MPI_DOUBLE, w.win);
    } else {
        MPI_Get(&u[0], 1, MPI_DOUBLE, w.low, CELLS + theirs, 1, MPI_DOUBLE, w.win);
        MPI_Get(&u[w.cells + 1], 1, MPI_DOUBLE, w.high, CELLS + 1, 1, MPI_DOUBLE, w.win);
    }
}

/* Some fences have no message. */
static void add_in_order(const struct foreign *f)
{
    const double x = sin(0.7 * (f->step * f->nranks + f->rank));
    if (f->step % 4 > 1)
        return;
    MPI_Accumulate(&x, 1, MPI_DOUBLE, w.low, SUMS, 1, MPI_DOUBLE, MPI_SUM, w.win);
    MPI_Accumulate(&x, 1, MPI_DOUBLE, w.high, SUMS, 1, MPI_DOUBLE, MPI_SUM, w.win);
}

/* Behind a fence that has applied sums: a neighbour that is late must have its sum. */
static void read_sums(const struct foreign *f)
{
    double x[2] = { 0, 0 };
    uint64_t bits[2];
    if (f->step % 3 != 2 || f->step % 4 > 1)
        return;
    MPI_Get(&x[0], 1, MPI_DOUBLE, w.low, SUMS, 1, MPI_DOUBLE, w.win);
    MPI_Get(&x[1], 1, MPI_DOUBLE, w.high, SUMS, 1, MPI_DOUBLE, w.win);
    if (MPI_Win_fence(0, w.win) != MPI_SUCCESS)
        return;
    memcpy(bits, x, sizeof bits);
    note(bits[0]);
    note(bits[1]);
}

/* A neighbour must not change a border before this rank has read it, nor read a cell before this
 * rank has computed it. */
static void compute(void)
{
    double *const u = w.x + CELLS;
    (void)FTK_FAULT("app.compute");
    for (int i = 1; i <= w.cells; i++)
        w.next[i] = 0.25 * u[i - 1] + 0.5 * u[i] + 0.25 * u[i + 1];
    memcpy(u + 1, w.next + 1, (size_t)w.cells * sizeof *u);
}

static void fences(const struct foreign *f)
{
    MPI_Win_fence(f->step % 3 == 0 ? 0 : MPI_MODE_NOPRECEDE, w.win);
    exchange(f);
    add_in_order(f);
    (void)FTK_FAULT("app.mid");
    MPI_Win_fence(f->step % 3 == 2 ? 0 : MPI_MODE_NOSUCCEED, w.win);
    read_sums(f);
    compute();
}

static void pscw(const struct foreign *f)
{
    MPI_Win_post(w.both, 0, w.win);
    MPI_Win_start(w.both, 0, w.win);
    exchange(f);
    add_in_order(f);
    (void)FTK_FAULT("app.mid");
    MPI_Win_complete(w.win);
    MPI_Win_wait(w.win);
    compute();
}

/* Rank 1 is not in the last epoch yet when rank 0 puts. */
static void err(const struct foreign *f)
{
    const double first = 2 * f->step + 1, second = first + 1;
    int token = 0;
    MPI_Win_fence(0, w.win);
    if (f->rank == 0)
        MPI_Put(&first, 1, MPI_DOUBLE, 1, TURN, 1, MPI_DOUBLE, w.win);
    const int rc = MPI_Win_fence(MPI_MODE_NOPRECEDE, w.win);
    (void)FTK_FAULT("app.mid");
    if (MPI_Win_fence(0, w.win) != MPI_SUCCESS)
        return;
    w.state[1] += (rc != MPI_SUCCESS) != (f->rank == 0);
    if (f->rank == 1
        && MPI_Recv(&token, 1, MPI_INT, 0, 0, f->comm, MPI_STATUS_IGNORE) == MPI_SUCCESS)
        w.state[1] += w.x[TURN] != first;
    MPI_Win_fence(MPI_MODE_NOPRECEDE, w.win);
    if (f->rank == 0) {
        MPI_Put(&second, 1, MPI_DOUBLE, 1, TURN, 1, MPI_DOUBLE, w.win);
        MPI_Send(&token, 1, MPI_INT, 1, 0, f->comm);
    }
    if (MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win) == MPI_SUCCESS && f->rank == 1)
        w.state[1] += w.x[TURN] != second;
}

/* ---- locks --------------------------------------------------------------------------- */

/* All ranks add to the same elements of all: plain ones, those of a derived type, long ones. */
static void add(const struct foreign *f)
{
    const double one[WIDTH] = { 1, 1, 1, 1 };
    const long double wide = 1;
    double was;
    for (int i = 0; i < ADDS; i++) {
        const int to = (f->rank + i) % f->nranks;
        MPI_Accumulate(one, WIDTH, MPI_DOUBLE, to, SUMS, 1, w.odd, MPI_SUM, w.win);
        MPI_Accumulate(one, WIDTH, MPI_DOUBLE, to, SUMS, WIDTH, MPI_DOUBLE, MPI_SUM, w.win);
        MPI_Accumulate(&wide, 1, MPI_LONG_DOUBLE, to, WIDE, 1, MPI_LONG_DOUBLE, MPI_SUM, w.win);
        MPI_Fetch_and_op(one, &was, MPI_DOUBLE, to, SUMS, MPI_SUM, w.win);
        if (i % 8 == 7)
            MPI_Win_flush_all(w.win);
    }
    MPI_Win_flush_all(w.win);
}

/* What all ranks have added so far. */
static void check_sums(const struct foreign *f)
{
    const double each = (double)ADDS * (f->step + 1);
    const double want[2 * WIDTH] = { 3 * each, each, 2 * each, each, each, 0, each, 0 };
    long double wide;
    memcpy(&wide, w.x + WIDE, sizeof wide);
    for (int i = 0; i < 2 * WIDTH; i++)
        w.state[1] += w.x[SUMS + i] != want[i];
    w.state[1] += wide != each;
    w.state[1] += w.x[COUNT] != f->step + 1;
    w.state[1] += w.x[TURN] != 2 * f->step + 2;
}

/* Accumulates of this rank to one other come in their order, by whichever way they go. */
static void order(const struct foreign *f, int to)
{
    const double first = 2 * f->step + 1, second = first + 1;
    double got = -1;
    MPI_Accumulate(&first, 1, MPI_DOUBLE, to, TURN, 1, MPI_DOUBLE, MPI_REPLACE, w.win);
    MPI_Barrier(f->comm);
    MPI_Accumulate(&second, 1, MPI_DOUBLE, to, TURN, 1, MPI_DOUBLE, MPI_REPLACE, w.win);
    MPI_Get_accumulate(
        NULL, 0, MPI_DOUBLE, &got, 1, MPI_DOUBLE, to, TURN, 1, MPI_DOUBLE, MPI_NO_OP, w.win);
    if (MPI_Win_flush(to, w.win) == MPI_SUCCESS)
        w.state[1] += got != second;
}

/* The first operation behind a set: it must be in no memory of the set, and in all memory that has
 * been restored. */
static void count(int next)
{
    const double one = 1;
    double was;
    MPI_Fetch_and_op(&one, &was, MPI_DOUBLE, next, COUNT, MPI_SUM, w.win);
    MPI_Win_flush(next, w.win);
}

static void requests(const struct foreign *f, int next)
{
    const int64_t step = f->step, swapped = step + 1;
    int64_t was = -1;
    MPI_Request q = MPI_REQUEST_NULL;
    MPI_Compare_and_swap(&swapped, &step, &was, MPI_INT64_T, next, STEPS, w.win);
    if (MPI_Win_flush(next, w.win) == MPI_SUCCESS)
        w.state[1] += was != step;
    w.state[2] = 0;
    MPI_Rget(&w.state[2], 1, MPI_INT64_T, next, STEPS, 1, MPI_INT64_T, w.win, &q);
    if (MPI_Wait(&q, MPI_STATUS_IGNORE) == MPI_SUCCESS)
        note(w.state[2]);
}

/* How many parts of windows this process has, of this rank and of others. */
static int mappings(void)
{
    char line[512];
    int n = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        n += strstr(line, "/memfd:ftkit-win") != NULL;
    if (maps)
        fclose(maps);
    return n;
}

static void locks(const struct foreign *f)
{
    const int next = (f->rank + 1) % f->nranks;
    if (f->step == 0)
        MPI_Win_lock_all(0, w.win);
    count(next);
    order(f, (f->rank + 2) % f->nranks); /* the first operation on this rank */
    exchange(f);
    (void)FTK_FAULT("app.mid");
    MPI_Win_flush_all(w.win);
    requests(f, next);
    add(f);
    if (MPI_Barrier(f->comm) != MPI_SUCCESS) {
        w.late += mappings() > own_mappings();
        return;
    }
    compute();
    check_sums(f);
    MPI_Barrier(f->comm);
    if (f->step == f->steps - 1)
        MPI_Win_unlock_all(w.win);
}

/* A ticket is in the buffer at once, or behind the flush. */
static void note_ticket(int64_t ticket)
{
    char line[32];
    const char *path = getenv("TICKETS");
    const int n = snprintf(line, sizeof line, "%lld\n", (long long)ticket);
    const int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    w.state[1] += fd < 0 || write(fd, line, (size_t)n) != n;
    if (fd >= 0)
        (void)close(fd);
}

static void draw(const struct foreign *f)
{
    const int64_t one = 1;
    if (f->step == 0)
        MPI_Win_lock_all(0, w.win);
    (void)FTK_FAULT("app.mid");
    for (int i = 0; i < TICKETS; i++) {
        int64_t ticket = -1;
        int rc = MPI_Fetch_and_op(&one, &ticket, MPI_INT64_T, 0, STEPS, MPI_SUM, w.win);
        const bool now = rc == MPI_SUCCESS && ticket >= 0;
        if (now)
            note_ticket(ticket);
        if (rc == MPI_SUCCESS)
            rc = MPI_Win_flush(0, w.win);
        if (rc == MPI_SUCCESS && !now)
            note_ticket(ticket);
    }
    MPI_Barrier(f->comm);
    if (f->step == f->steps - 1)
        MPI_Win_unlock_all(w.win);
}

static void work(void)
{
    const struct timespec t = { 0, WORK_MS * 1000000 };
    if (w.how == WORK)
        (void)nanosleep(&t, NULL);
}

/* Read a value of rank 1 once more, by one of two ways. */
static int look(const struct foreign *f, int64_t *value)
{
    MPI_Request q = MPI_REQUEST_NULL;
    int rc;
    if (w.how == LOCAL) {
        rc = MPI_Fetch_and_op(NULL, value, MPI_INT64_T, 1, STEPS, MPI_NO_OP, w.win);
        if (rc != MPI_SUCCESS)
            return rc;
        return f->step % 2 == 0 ? MPI_Win_flush_local(1, w.win) : MPI_Win_flush_local_all(w.win);
    }
    if (f->step % 2 == 0) {
        rc = MPI_Get(value, 1, MPI_INT64_T, 1, STEPS, 1, MPI_INT64_T, w.win);
        return rc == MPI_SUCCESS ? MPI_Win_flush(1, w.win) : rc;
    }
    rc = MPI_Rget(value, 1, MPI_INT64_T, 1, STEPS, 1, MPI_INT64_T, w.win, &q);
    return rc == MPI_SUCCESS ? MPI_Wait(&q, MPI_STATUS_IGNORE) : rc;
}

static void look_until(const struct foreign *f, int64_t want)
{
    int64_t seen = -1;
    int rc = MPI_SUCCESS, looks = 0;
    for (; rc == MPI_SUCCESS && seen != want; looks++) {
        rc = look(f, &seen);
        if (rc == MPI_SUCCESS && looks > 1) /* the first ones may wait for a message */
            work();
    }
    w.late += w.how == WORK && looks > FEW_LOOKS;
}

static void spin(const struct foreign *f)
{
    const int64_t next = f->step + 1;
    int64_t seen = -1;
    if (f->rank < 3)
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, w.win);
    if (f->rank == 0)
        (void)look(f, &seen); /* the next one needs no message */
    (void)FTK_FAULT("app.mid");
    MPI_Barrier(f->comm);
    if (f->rank == 0)
        look_until(f, next);
    if (f->rank == 2) {
        (void)FTK_FAULT("app.inflight");
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w.win);
        MPI_Win_unlock(0, w.win);
        MPI_Put(&next, 1, MPI_INT64_T, 1, STEPS, 1, MPI_INT64_T, w.win);
    }
    if (f->rank < 3)
        MPI_Win_unlock(1, w.win);
    MPI_Barrier(f->comm);
    note((uint64_t)next);
}

/* An operation that needs no message by now has to be completed like any other one. */
static void leave_open(const struct foreign *f)
{
    const double one = 1;
    const int next = (f->rank + 1) % f->nranks;
    if (w.how == BEGUN)
        MPI_Win_fence(0, w.win);
    else if (f->step == 0)
        MPI_Win_lock_all(0, w.win);
    if (w.how == OPEN || f->step > LAST_COMPLETE) {
        MPI_Barrier(f->comm);
        MPI_Put(&one, 1, MPI_DOUBLE, next, TURN, 1, MPI_DOUBLE, w.win);
    }
    if (w.how == OPEN && f->step <= LAST_COMPLETE)
        MPI_Win_flush(next, w.win);
}

static void step(struct foreign *f)
{
    w.state[1] += w.x[HELLO] != greeting(f, f->rank - 1, GREETINGS - 1);
    if (w.how >= OPEN)
        leave_open(f);
    else if (w.how >= SPIN)
        spin(f);
    else if (w.how == WRONG)
        err(f);
    else if (w.how == DRAW)
        draw(f);
    else if (w.how == FENCE || w.how == LARGE)
        fences(f);
    else if (w.how == PSCW)
        pscw(f);
    else
        locks(f);
}

/* How many bytes of memory the files of windows of this process have. */
static int64_t bytes_used(void)
{
    char path[64], name[64];
    int64_t bytes = 0;
    struct stat st;
    for (int fd = 0; fd < 256; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        const ssize_t n = readlink(path, name, sizeof name - 1);
        name[n > 0 ? n : 0] = '\0';
        if (strncmp(name, "/memfd:ftkit-win", 16) == 0 && fstat(fd, &st) == 0)
            bytes += st.st_blocks * 512;
    }
    return bytes;
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    uint64_t mine = w.state[0];
    if (w.how == LARGE)
        w.state[1] += bytes_used() == 0 || bytes_used() > LARGE_BYTES / 16;
    for (int i = 0; i < CELLS + w.cells + 2; i++)
        mine = foreign_mix(mine, foreign_cell((size_t)i, i / 2 == WIDE / 2 ? 0 : w.x[i]));
    return foreign_counted(f, mine, w.state[1] + w.late, hash, detail, room);
}

static void release(void)
{
    free(w.next);
    free(w.state);
    if (w.room)
        MPI_Free_mem(w.room); /* the context is closed */
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "direct", 40, 103, prepare, connect_ranks, disconnect,
        step, verdict, release };
    return foreign_run(argc, argv, &app, NULL);
}
