/* Work stealing by one-sided communication, with locks and one team of all ranks.
 *
 * Each rank has a queue of tasks in its window.  In a step most of the work is in the queue of one
 * rank.  A task of many leaves becomes two tasks in the queue of the rank that has it; a task of
 * one leaf is work.  A rank without tasks takes the oldest one of another rank by
 * MPI_Compare_and_swap.  Time decides which rank does a task; each leaf has to be done once a
 * step.
 *
 * -s: number of leaves.  Fault points: app.mid once a step, app.inflight for each task: this
 * process alone has it.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

/* Of the window, in words: the oldest task, the number of tasks, leaves that are done (of rank 0),
 * the tasks, then two words for each leaf of this rank: how often it was done, and its value. */
enum { OLDEST, NUMBER, DONE, TASKS, MOST = 512 };
enum { LEAVES = TASKS + MOST };

static struct {
    uint64_t *x;
    uint64_t *state; /* registered: a hash, what is wrong */
    uint64_t pushed; /* into the queue of this rank in this step */
    int leaves;      /* of all ranks */
    MPI_Win win;
} w = { .win = MPI_WIN_NULL };

static int prepare(struct foreign *f)
{
    w.leaves = f->size;
    w.state = foreign_state(f, 2);
    return !w.state || w.leaves > MOST / 2;
}

static int connect_ranks(struct foreign *f)
{
    const size_t words = LEAVES + 2 * (size_t)(w.leaves / f->nranks + 1);
    const MPI_Aint bytes = (MPI_Aint)(words * sizeof *w.x);
    int rc = MPI_Win_allocate(bytes, sizeof *w.x, MPI_INFO_NULL, f->comm, (void *)&w.x, &w.win);
    if (rc != MPI_SUCCESS)
        return 1;
    memset(w.x, 0, (size_t)bytes);
    return MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN) != MPI_SUCCESS
           || MPI_Barrier(f->comm) != MPI_SUCCESS;
}

static void disconnect(void)
{
    if (w.win != MPI_WIN_NULL)
        MPI_Win_free(&w.win);
}

/* ---- words of a window; each returns a code of MPI ------------------------------------- */

static int read_words(int rank, MPI_Aint at, uint64_t *to, int n)
{
    const int rc = MPI_Get(to, n, MPI_UINT64_T, rank, at, n, MPI_UINT64_T, w.win);
    return rc == MPI_SUCCESS ? MPI_Win_flush(rank, w.win) : rc;
}

static int write_word(int rank, MPI_Aint at, uint64_t value)
{
    const int rc = MPI_Put(&value, 1, MPI_UINT64_T, rank, at, 1, MPI_UINT64_T, w.win);
    return rc == MPI_SUCCESS ? MPI_Win_flush(rank, w.win) : rc;
}

static int add(int rank, MPI_Aint at, uint64_t value)
{
    const int rc =
        MPI_Accumulate(&value, 1, MPI_UINT64_T, rank, at, 1, MPI_UINT64_T, MPI_SUM, w.win);
    return rc == MPI_SUCCESS ? MPI_Win_flush(rank, w.win) : rc;
}

static int fetch(int rank, MPI_Aint at, uint64_t *value)
{
    const int rc = MPI_Fetch_and_op(NULL, value, MPI_UINT64_T, rank, at, MPI_NO_OP, w.win);
    return rc == MPI_SUCCESS ? MPI_Win_flush(rank, w.win) : rc;
}

/* ---- tasks --------------------------------------------------------------------------- */

static uint64_t task(int first, int leaves)
{
    return (uint64_t)(uint32_t)first << 32 | (uint32_t)leaves;
}

/* A thief that sees the new number sees the task. */
static int push(const struct foreign *f, uint64_t t)
{
    const int rc = write_word(f->rank, (MPI_Aint)(TASKS + w.pushed), t);
    w.pushed++;
    return rc == MPI_SUCCESS ? add(f->rank, NUMBER, 1) : rc;
}

static int take(int from, uint64_t *t, bool *has)
{
    uint64_t ends[2] = { 0, 0 }, was = 0;
    *has = false;
    int rc = fetch(from, OLDEST, &ends[0]);
    if (rc == MPI_SUCCESS)
        rc = fetch(from, NUMBER, &ends[1]);
    if (rc != MPI_SUCCESS || ends[0] >= ends[1])
        return rc;
    const uint64_t next = ends[0] + 1;
    rc = read_words(from, (MPI_Aint)(TASKS + ends[0]), t, 1);
    if (rc == MPI_SUCCESS)
        rc = MPI_Compare_and_swap(&next, &ends[0], &was, MPI_UINT64_T, from, OLDEST, w.win);
    if (rc == MPI_SUCCESS)
        rc = MPI_Win_flush(from, w.win);
    *has = rc == MPI_SUCCESS && was == ends[0];
    return rc;
}

static uint64_t value_of(const struct foreign *f, int leaf)
{
    return foreign_mix((uint64_t)leaf, (uint64_t)f->step);
}

static int work(const struct foreign *f, uint64_t t)
{
    const int first = (int)(t >> 32), leaves = (int)(uint32_t)t, half = leaves / 2;
    const int home = first % f->nranks;
    const MPI_Aint at = LEAVES + 2 * (MPI_Aint)(first / f->nranks);
    (void)FTK_FAULT("app.inflight");
    int rc = leaves > 1 ? push(f, task(first, half)) : add(home, at, 1);
    if (rc == MPI_SUCCESS)
        rc = leaves > 1 ? push(f, task(first + half, leaves - half))
                        : write_word(home, at + 1, value_of(f, first));
    return rc == MPI_SUCCESS && leaves == 1 ? add(0, DONE, 1) : rc;
}

/* Own tasks first, then those of the others. */
static int work_until_done(const struct foreign *f)
{
    uint64_t done = 0, t = 0;
    int rc = MPI_SUCCESS;
    while (rc == MPI_SUCCESS && done < (uint64_t)w.leaves) {
        bool has = false;
        for (int k = 0; rc == MPI_SUCCESS && !has && k < f->nranks; k++)
            rc = take((f->rank + k) % f->nranks, &t, &has);
        if (rc == MPI_SUCCESS)
            rc = has ? work(f, t) : fetch(0, DONE, &done);
    }
    return rc;
}

/* ---- a step -------------------------------------------------------------------------- */

static int begin_step(const struct foreign *f)
{
    w.pushed = 0;
    w.x[OLDEST] = w.x[NUMBER] = w.x[DONE] = 0;
    int rc = MPI_Win_sync(w.win);
    if (rc == MPI_SUCCESS)
        rc = MPI_Barrier(f->comm);
    if (rc == MPI_SUCCESS && f->rank == f->step % f->nranks)
        rc = push(f, task(0, w.leaves));
    return rc;
}

static void check_leaves(const struct foreign *f)
{
    for (int leaf = f->rank; leaf < w.leaves; leaf += f->nranks) {
        const uint64_t *const at = w.x + LEAVES + 2 * (size_t)(leaf / f->nranks);
        w.state[1] += at[0] != (uint64_t)f->step + 1;
        w.state[1] += at[1] != value_of(f, leaf);
        w.state[0] = foreign_mix(w.state[0], at[1]);
    }
}

static void step(struct foreign *f)
{
    if (f->step == 0)
        MPI_Win_lock_all(0, w.win);
    int rc = begin_step(f);
    (void)FTK_FAULT("app.mid");
    if (rc == MPI_SUCCESS)
        rc = work_until_done(f);
    if (rc == MPI_SUCCESS)
        rc = MPI_Barrier(f->comm);
    if (rc == MPI_SUCCESS)
        rc = MPI_Win_sync(w.win);
    if (rc == MPI_SUCCESS)
        check_leaves(f);
    MPI_Barrier(f->comm); /* the next step begins with other numbers */
    if (f->step == f->steps - 1)
        MPI_Win_unlock_all(w.win);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    return foreign_counted(f, w.state[0], w.state[1], hash, detail, room);
}

static void release(void)
{
    free(w.state);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "steal", 40, 61, prepare, connect_ranks, disconnect,
        step, verdict, release };
    return foreign_run(argc, argv, &app, NULL);
}
