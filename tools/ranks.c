/* Whether the processes of the ranks are still there.  Two things let Open MPI 5.0 wait
 * for ever, and nobody but the parent of all processes can see them:
 *
 *   - A rank dies in or before MPI_Init: the others wait for it in there.  It counts as
 *     lost when no context has been opened, others are alive and do nothing, and this
 *     has lasted for --init-timeout.
 *   - All ranks have ended, and mpirun locks itself out while it cleans up.
 *
 * Both take that the ranks of the job are known.  They are found by their environment,
 * as the children of mpirun or of a daemon, frequently while they come up: one that dies
 * young is not missed then.  What one of them starts itself is none.  On a single node
 * one that was never seen is missing, too; of several nodes only those are watched that
 * were seen on this one.  Once a context is open a look is one file of /proc.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools.h"

#define YOUNG_S 2 /* look as often as we are called for this long */
#define INIT_LOOK_S 0.5
#define LOOK_S 1.0
#define SHARE 20       /* looks take at most 1/20 of a core */
#define STEP_MAX_S 1.5 /* a longer time between two looks: we did not run ourselves */
#define GONE_S 3       /* for mpirun to end after its ranks */
#define BUSY 0.3       /* of a core; who waits in MPI_Init takes up to 0.1 */

struct rank {
    pid_t pid;
    unsigned long long start;
    long number;
    bool gone;
    int status;           /* gone: as from waitpid(), -1: not known */
    double cpu_s, mark_s; /* at the last look, and when lost_s began */
};

struct ftk_ranks {
    const struct ftk_run *run;
    struct rank *v; /* [n], those ever seen */
    size_t n, room;
    bool *seen; /* [run->total], by number */
    int nseen;
    long local_size;       /* of ours on this node, -1: not known */
    bool off;              /* they cannot be told from others */
    bool opened;           /* a context was */
    bool hunting;          /* some may not have been seen */
    double begin;          /* of the attempt */
    double last, due;      /* the last and the next look */
    double lost_s, gone_s; /* how long it has been so, -1: it is not */
};

struct ftk_ranks *ftk_ranks_begin(const struct ftk_run *r)
{
    struct ftk_ranks *w = ftk_tool_alloc(sizeof *w);
    double now = ftk_now_s();
    *w = (struct ftk_ranks){ .run = r,
        .local_size = -1,
        .off = ftk_proc_self_is_rank(),
        .hunting = true,
        .begin = now,
        .last = now,
        .lost_s = -1,
        .gone_s = -1 };
    w->seen = ftk_tool_alloc((size_t)r->total * sizeof *w->seen);
    memset(w->seen, 0, (size_t)r->total * sizeof *w->seen);
    return w;
}

void ftk_ranks_end(struct ftk_ranks *w)
{
    free(w->v);
    free(w->seen);
    free(w);
}

bool ftk_ranks_coming(const struct ftk_ranks *w)
{
    return !w->off && w->hunting && ftk_now_s() < w->begin + YOUNG_S;
}

/* All processes of the job are below us, whether we have seen them or not. */
static bool is_local(const struct ftk_ranks *w)
{
    return w->run->emulate > 0 || w->nseen == w->run->total || w->local_size == w->run->total;
}

/* ---- finding ------------------------------------------------------------------------- */

static struct rank *find(const struct ftk_ranks *w, const struct ftk_proc *p)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->v[i].pid == p->pid && w->v[i].start == p->start)
            return &w->v[i];
    return NULL;
}

static void add(struct ftk_ranks *w, const struct ftk_proc *p)
{
    w->v = ftk_tool_grow(w->v, w->n, &w->room, sizeof *w->v);
    w->v[w->n++] =
        (struct rank){ .pid = p->pid, .start = p->start, .number = p->rank, .status = -1 };
    if (!w->hunting || p->rank >= w->run->total || w->seen[p->rank])
        return; /* spawned later: that all are here is known of the first ones only */
    w->seen[p->rank] = true;
    w->nseen++;
    if (p->local_size > 0)
        w->local_size = p->local_size;
}

/* Not what we are the parent of (mpirun, and orphans of a rank), nor what a rank started,
 * which has its environment. */
static bool is_first(const struct ftk_proc *all, size_t n, const struct ftk_proc *p)
{
    if (p->rank < 0 || p->ppid == getpid())
        return false;
    for (size_t i = 0; i < n; i++)
        if (all[i].pid == p->ppid)
            return all[i].rank < 0;
    return false;
}

/* Take in the ranks that are new.  Returns how many processes there are that belong to a
 * rank, also those it started: these may hold mpirun's pipes, which waits for them. */
static size_t scan(struct ftk_ranks *w)
{
    struct ftk_proc *p;
    size_t alive = 0, n = ftk_proc_list(&p);
    for (size_t i = 0; i < n; i++) {
        if (p[i].state != 'Z')
            ftk_proc_rank(&p[i]);
        alive += p[i].rank >= 0;
    }
    for (size_t i = 0; i < n; i++)
        if (is_first(p, n, &p[i]) && !find(w, &p[i]))
            add(w, &p[i]);
    free(p);
    return alive;
}

static void hunt(struct ftk_ranks *w)
{
    int here = w->run->emulate > 0 || w->local_size < 0 ? w->run->total : (int)w->local_size;
    scan(w);
    w->hunting = !w->opened && w->nseen < here;
    if (!w->hunting && w->run->verbose)
        ftk_run_say("processes of ranks found: %d", w->nseen);
}

/* ---- looking ------------------------------------------------------------------------- */

/* How many of those we know are alive; *gone: one is not.  Once a context is open one
 * that is alive says enough. */
static size_t probe(struct ftk_ranks *w, bool *gone)
{
    size_t alive = 0;
    *gone = false;
    for (size_t i = 0; i < w->n && !(w->opened && alive > 0); i++) {
        struct rank *k = &w->v[i];
        struct ftk_proc p;
        bool there = ftk_proc_read(k->pid, &p) && p.start == k->start;
        if (there && p.state != 'Z') {
            k->cpu_s = p.cpu_s;
            alive++;
            continue;
        }
        k->gone = *gone = true;
        if (there)
            k->status = p.status;
    }
    return alive;
}

/* Somebody may still have to read what the job wrote. */
static bool output_waits(void)
{
    struct pollfd fd[] = { { .fd = 1, .events = POLLOUT }, { .fd = 2, .events = POLLOUT } };
    return poll(fd, 2, 0) >= 0 && (fd[0].revents == 0 || fd[1].revents == 0);
}

static void mark(struct ftk_ranks *w)
{
    for (size_t i = 0; i < w->n; i++)
        w->v[i].mark_s = w->v[i].cpu_s;
}

/* Somebody has been at work since mark().  A program that does without ftkit may end rank
 * by rank, or live on without one of them. */
static bool is_busy(const struct ftk_ranks *w)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->v[i].cpu_s - w->v[i].mark_s > BUSY * w->lost_s)
            return true;
    return false;
}

/* Add to *t what has passed, if it is so and was so at the last look. */
static bool lasts(double *t, bool so, double step, double limit)
{
    if (!so)
        *t = -1;
    else
        *t = *t < 0 ? 0 : *t + step;
    return so && *t >= limit;
}

static enum ftk_ranks_news judge(struct ftk_ranks *w, double step)
{
    bool gone, local = is_local(w);
    size_t alive = probe(w, &gone);
    bool empty = w->n > 0 && alive == 0 && local && scan(w) == 0 && !output_waits();
    if (lasts(&w->gone_s, empty, step, GONE_S))
        return FTK_RANKS_GONE;
    bool lost = !w->opened && alive > 0 && (gone || (local && w->nseen < w->run->total));
    if (lost && w->lost_s < 0)
        mark(w);
    if (!lasts(&w->lost_s, lost, step, w->run->init_timeout_s))
        return FTK_RANKS_WELL;
    if (!is_busy(w))
        return FTK_RANKS_LOST;
    w->lost_s = -1;
    return FTK_RANKS_WELL;
}

enum ftk_ranks_news ftk_ranks_look(struct ftk_ranks *w, bool opened)
{
    double now = ftk_now_s();
    if (w->off || now < w->due)
        return FTK_RANKS_WELL;
    w->opened = opened;
    if (w->hunting)
        hunt(w);
    double step = now - w->last < STEP_MAX_S ? now - w->last : STEP_MAX_S;
    enum ftk_ranks_news news = judge(w, step);
    double least = SHARE * (ftk_now_s() - now);
    double pause = opened ? LOOK_S : ftk_ranks_coming(w) ? 0 : INIT_LOOK_S;
    w->last = now;
    w->due = now + (pause > least ? pause : least);
    return news;
}

/* ---- telling ------------------------------------------------------------------------- */

long ftk_ranks_lost(const struct ftk_ranks *w)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->v[i].gone)
            return w->v[i].number;
    for (int i = 0; i < w->run->total; i++)
        if (!w->seen[i])
            return i;
    return -1;
}

int ftk_ranks_status(const struct ftk_ranks *w)
{
    bool known = w->n > 0;
    for (size_t i = 0; i < w->n; i++) {
        if (w->v[i].status > 0)
            return w->v[i].status;
        known = known && w->v[i].status == 0;
    }
    return known ? 0 : -1;
}

int ftk_ranks_orphans_well(const struct ftk_ranks *w)
{
    int n = 0;
    for (size_t i = 0; i < w->n; i++)
        n += ftk_tree_status(w->v[i].pid) == 0;
    return n;
}

int ftk_ranks_orphans(const struct ftk_ranks *w)
{
    for (size_t i = 0; i < w->n; i++)
        if (ftk_tree_status(w->v[i].pid) > 0)
            return ftk_tree_status(w->v[i].pid);
    return is_local(w) ? 0 : -1;
}

int ftk_ranks_total(const struct ftk_ranks *w)
{
    return w->run->total;
}
