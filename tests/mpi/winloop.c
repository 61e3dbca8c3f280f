/* Windows that are made inside the loop and live across sets, one of each kind: of the program's
 * memory, of MPI_Win_allocate, and dynamic.  Each is freed after some steps, and is made again
 * later, with another size; in between its variable is MPI_WIN_NULL.  A restore gives a rank those
 * of the set (ftkit_register_window).  Epochs of the variant (-m):
 *
 *   fence  by MPI_Win_fence
 *   pscw   by MPI_Win_post, start, complete and wait
 *   locks  exclusive locks and flushes
 *   stray  as fence; behind each step a set is refused, because a window has memory that is in no
 *          region
 *
 * Set-up makes a window that the first step frees, so that a window of the loop gets its context.
 * A step passes app.mid once, and app.inflight once for each window that there is.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

enum { CREATED, ALLOCATED, DYNAMIC, WINDOWS };
enum { MANY = 24, BLOCK = 1 << 20 };
static const char *const names[WINDOWS] = { "created", "allocated", "dynamic" };
/* A window lives in the first steps of each period. */
static const int period[WINDOWS] = { 7, 11, 9 }, lives[WINDOWS] = { 5, 8, 7 };

static struct {
    enum { FENCE, PSCW, LOCKS, STRAY } how;
    char *block;            /* BLOCK bytes, which has the following two */
    int64_t *values, *pool; /* registered: [MANY] each */
    int64_t *address;       /* registered: [ranks] where each rank has its pool */
    uint64_t *state;        /* registered: a hash, what is wrong */
    MPI_Win win[WINDOWS];   /* registered */
    MPI_Win early, stray;   /* registered: of set-up; of memory that is in no region */
    MPI_Group near;
    int n, next, last;
} w = { .win = { MPI_WIN_NULL, MPI_WIN_NULL, MPI_WIN_NULL },
    .early = MPI_WIN_NULL,
    .stray = MPI_WIN_NULL,
    .near = MPI_GROUP_NULL };

/* ---- set-up -------------------------------------------------------------------------- */

static int with_stray_memory(struct foreign *f)
{
    static int64_t stray;
    int rc = MPI_Win_create(&stray, sizeof stray, 1, MPI_INFO_NULL, f->comm, &w.stray);
    if (rc == MPI_SUCCESS)
        w.state[1] += ftkit_checkpoint(f->ft) != FTKIT_ERR_STATE;
    if (w.stray != MPI_WIN_NULL)
        MPI_Win_free(&w.stray);
    return FTKIT_OK;
}

static int register_all(const struct foreign *f)
{
    int rc = ftkit_register(f->ft, "values", w.values, MANY, MPI_INT64_T);
    rc |= ftkit_register(f->ft, "pool", w.pool, MANY, MPI_INT64_T);
    rc |= ftkit_register(f->ft, "address", w.address, (size_t)w.n, MPI_INT64_T);
    rc |= ftkit_register_window(f->ft, "early", &w.early);
    rc |= ftkit_register_window(f->ft, "stray", &w.stray);
    for (int i = 0; i < WINDOWS; i++)
        rc |= ftkit_register_window(f->ft, names[i], &w.win[i]);
    return rc;
}

static int prepare(struct foreign *f)
{
    static const char *const variants[] = { "fence", "pscw", "locks", "stray" };
    const char *name = f->variant ? f->variant : "fence";
    size_t i = 0;
    while (i < sizeof variants / sizeof *variants && strcmp(variants[i], name) != 0)
        i++;
    w.n = f->nranks;
    w.next = (f->rank + 1) % w.n;
    w.last = (f->rank + w.n - 1) % w.n;
    w.block = calloc(1, BLOCK);
    w.address = calloc((size_t)w.n, sizeof *w.address);
    w.state = foreign_state(f, 2);
    if (i == sizeof variants / sizeof *variants || !w.block || !w.address || !w.state)
        return 1;
    w.how = (int)i;
    f->after = w.how == STRAY ? with_stray_memory : NULL;
    /* each process has its memory at another place */
    w.values = (int64_t *)(void *)(w.block + (size_t)(getpid() % 997) * 512);
    w.pool = (int64_t *)(void *)(w.block + BLOCK / 2 + (size_t)(getpid() % 991) * 512);
    for (int k = 0; k < MANY; k++)
        w.values[k] = INT64_C(1000) * f->rank + k;
    return register_all(f) != FTKIT_OK;
}

static int connect_ranks(struct foreign *f)
{
    const int near[] = { w.next, w.last };
    void *base;
    MPI_Group group;
    int rc = MPI_Win_allocate(8, 1, MPI_INFO_NULL, f->comm, (void *)&base, &w.early);
    if (rc != MPI_SUCCESS)
        return 1;
    *(int64_t *)base = 0;
    rc |= MPI_Win_get_group(w.early, &group);
    rc |= MPI_Group_incl(group, w.next == w.last ? 1 : 2, near, &w.near);
    return (rc | MPI_Group_free(&group)) != MPI_SUCCESS;
}

static void disconnect(void)
{
    if (w.near != MPI_GROUP_NULL)
        MPI_Group_free(&w.near);
    for (int i = 0; i < WINDOWS; i++)
        if (w.win[i] != MPI_WIN_NULL)
            MPI_Win_free(&w.win[i]);
}

/* ---- windows that come and go -------------------------------------------------------- */

/* Values of a window that a step makes: those of a higher rank have more. */
static int many(const struct foreign *f, int rank)
{
    return MANY - 2 * f->nranks + rank + f->step % 3;
}

static int64_t *base_of(MPI_Win win)
{
    void *base = NULL;
    int found = 0;
    if (MPI_Win_get_attr(win, MPI_WIN_BASE, (void *)&base, &found) != MPI_SUCCESS || !found)
        return NULL;
    return base;
}

static void make_dynamic(const struct foreign *f)
{
    MPI_Aint at;
    if (MPI_Win_create_dynamic(MPI_INFO_NULL, f->comm, &w.win[DYNAMIC]) != MPI_SUCCESS)
        return;
    w.state[1] += MPI_Win_attach(w.win[DYNAMIC], w.pool, MANY * sizeof *w.pool) != MPI_SUCCESS;
    MPI_Get_address(w.pool, &at);
    int64_t mine = at;
    w.state[1] += ftkit_decide(f->ft, &mine, sizeof mine) < 0;
    MPI_Allgather(&mine, 1, MPI_INT64_T, w.address, 1, MPI_INT64_T, f->comm);
}

static void make_allocated(const struct foreign *f, MPI_Aint bytes)
{
    int64_t *base = NULL;
    if (MPI_Win_allocate(
            bytes, (int)sizeof *base, MPI_INFO_NULL, f->comm, (void *)&base, &w.win[ALLOCATED])
        != MPI_SUCCESS)
        return;
    for (int k = 0; k < many(f, f->rank); k++)
        base[k] = k + f->step;
    MPI_Barrier(f->comm); /* before another rank has a lock */
}

/* Between two windows the memory moves: a rank that rolls back has the later place. */
static void move_values(const struct foreign *f)
{
    void *to = w.block + (size_t)((getpid() + 131 * f->step) % 1000) * 512;
    memmove(to, w.values, MANY * sizeof *w.values);
    w.values = to;
    w.state[1] += ftkit_resize(f->ft, "values", w.values, MANY) != FTKIT_OK;
}

static void make(const struct foreign *f, int i)
{
    const MPI_Aint bytes = many(f, f->rank) * (MPI_Aint)sizeof(int64_t);
    w.state[1] += w.win[i] != MPI_WIN_NULL;
    if (i == CREATED)
        move_values(f);
    if (i == CREATED)
        MPI_Win_create(w.values, bytes, sizeof(int64_t), MPI_INFO_NULL, f->comm, &w.win[i]);
    else if (i == DYNAMIC)
        make_dynamic(f);
    else
        make_allocated(f, bytes);
}

static void come_and_go(const struct foreign *f)
{
    if (f->step == 0 && w.early != MPI_WIN_NULL)
        MPI_Win_free(&w.early);
    for (int i = 0; i < WINDOWS; i++) {
        const int at = f->step % period[i];
        if (at == 0)
            make(f, i);
        else if (at == lives[i] && w.win[i] != MPI_WIN_NULL)
            MPI_Win_free(&w.win[i]);
        w.state[1] += (w.win[i] == MPI_WIN_NULL) != (at >= lives[i]);
    }
}

/* ---- epochs -------------------------------------------------------------------------- */

static void begin(MPI_Win win)
{
    if (w.how == LOCKS)
        return;
    if (w.how != PSCW) {
        MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
        return;
    }
    MPI_Win_post(w.near, 0, win);
    MPI_Win_start(w.near, 0, win);
}

static void end(MPI_Win win)
{
    if (w.how == LOCKS)
        return;
    if (w.how != PSCW) {
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
        return;
    }
    MPI_Win_complete(win);
    MPI_Win_wait(win);
}

static void lock(MPI_Win win, int rank)
{
    if (w.how == LOCKS)
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
}

static void unlock(MPI_Win win, int rank)
{
    if (w.how == LOCKS)
        MPI_Win_unlock(rank, win);
}

/* The sum of a value does not depend on the order; each rank puts to a place of its own. */
static void use(const struct foreign *f, int i)
{
    const int64_t more = f->step + 3 * f->rank, mine = f->step;
    const MPI_Aint start = i == DYNAMIC ? (MPI_Aint)w.address[w.next] : 0;
    const MPI_Aint unit = i == DYNAMIC ? (MPI_Aint)sizeof more : 1;
    int64_t old = 0, *base = NULL;
    begin(w.win[i]);
    lock(w.win[i], w.next);
    MPI_Accumulate(&more, 1, MPI_INT64_T, w.next, start + unit, 1, MPI_INT64_T, MPI_SUM, w.win[i]);
    (void)FTK_FAULT("app.inflight");
    MPI_Put(&mine, 1, MPI_INT64_T, w.next, start + 3 * unit, 1, MPI_INT64_T, w.win[i]);
    MPI_Get(&old, 1, MPI_INT64_T, w.next, start + 5 * unit, 1, MPI_INT64_T, w.win[i]);
    unlock(w.win[i], w.next);
    end(w.win[i]);
    MPI_Barrier(f->comm);
    base = i == CREATED ? w.values : i == DYNAMIC ? w.pool : base_of(w.win[i]);
    for (int k = 0; base && k < 6; k++)
        w.state[0] = foreign_mix(w.state[0], (uint64_t)(base[k] + old));
    if (w.how == LOCKS)
        MPI_Barrier(f->comm);
}

static void step(struct foreign *f)
{
    come_and_go(f);
    (void)FTK_FAULT("app.mid");
    for (int i = 0; i < WINDOWS; i++)
        if (w.win[i] != MPI_WIN_NULL)
            use(f, i);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    for (int i = 0; i < MANY; i++)
        w.state[0] = foreign_mix(w.state[0], (uint64_t)(w.values[i] + w.pool[i]));
    return foreign_counted(f, w.state[0], w.state[1], hash, detail, room);
}

static void release(void)
{
    free(w.block);
    free(w.address);
    free(w.state);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "winloop", 40, 1, prepare, connect_ranks, disconnect,
        step, verdict, release };
    return foreign_run(argc, argv, &app, foreign_loop);
}
