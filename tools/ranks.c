/* Whether the processes of the ranks are alive.  In two cases Open MPI 5.0 waits for ever, and
 * only the parent of all processes can see this:
 *
 *   - A rank dies in or before MPI_Init, and the other ranks wait for it in MPI_Init.  The rank
 *     counts as lost when no context has been opened, other ranks are alive and do nothing, and
 *     this has lasted for --init-timeout.
 *   - All ranks have ended, and mpirun has missed the end of one, hangs while it cleans up, or
 *     waits for a spawned process that hangs in MPI_Init because the repair that has spawned it was
 *     given up.
 *
 * Both need a list of the job's ranks.  Ranks are the children of mpirun or of a daemon that have
 * the environment of a rank; the children of a rank are not ranks.  While the job starts, looks
 * are frequent, so that a rank that dies soon is seen before.  On a single node also a rank that
 * was never seen counts as lost; with several nodes only ranks that were seen on this node are
 * watched.  Once a context is open, a look reads only one file of /proc.  Ranks may end before a
 * look has seen them: then mpirun's lines in the state file say that all of them were started.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "state.h"

#define YOUNG_S 2 /* for so long after the start, look at every call */
#define INIT_LOOK_S 0.5
#define LOOK_S 1.0
#define SHARE 20   /* looks take at most 1/20 of a core */
#define LATE_S 0.5 /* a look comes later than that: this process was stopped meanwhile */
#define GONE_S 3   /* for mpirun to end after its ranks */
#define BUSY 0.3   /* of a core; a rank that waits in MPI_Init takes up to 0.1 */

struct rank {
    pid_t pid;
    unsigned long long start;
    long number;
    bool spawned; /* no process of the job, but one that the program or the library has spawned */
    bool gone;    /* and not spawned */
    int status;   /* if gone: as from waitpid(), -1: not known */
    double cpu_s, mark_s; /* CPU time at the last look, and at the last mark() */
};

struct ftk_ranks {
    const struct ftk_run *run;
    struct rank *v; /* [n] all ranks ever seen */
    size_t n, room;
    bool *seen; /* [run->total], by number */
    int nseen;
    long local_size;       /* number of ranks on this node, -1: not known */
    bool off;              /* no looks: ranks cannot be distinguished from other processes */
    bool opened;           /* a context has been opened */
    bool hunting;          /* there may be ranks that have not been seen */
    double begin;          /* of the attempt */
    double last, due;      /* the last and the next look */
    double lost_s, gone_s; /* how long a rank, or all, have been gone; -1: that is not so */
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
        .due = now,
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

/* Processes that are alive and are no ranks. */
struct others {
    size_t below;  /* below mpirun */
    size_t beside; /* neither below mpirun, nor mpirun, nor above mpirun */
};

/* Whether all processes of the job are below us, seen or not. */
static bool is_local(const struct ftk_ranks *w, const struct ftk_state *s)
{
    const int total = w->run->total;
    return w->run->emulate > 0 || w->nseen == total || w->local_size == total
           || ftk_state_started(s) == total;
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
    w->v[w->n++] = (struct rank){ .pid = p->pid,
        .start = p->start,
        .number = p->rank,
        .status = -1,
        .spawned = p->job > FTK_END_MAIN_JOB };
    if (!w->hunting || p->job > FTK_END_MAIN_JOB || p->rank >= w->run->total || w->seen[p->rank])
        return; /* seen[] is for the first ranks only */
    w->seen[p->rank] = true;
    w->nseen++;
    if (p->local_size > 0)
        w->local_size = p->local_size;
}

/* Whether p is a rank that mpirun or a daemon has started.  Our own children are none (mpirun, and
 * orphans of a rank), and neither are children of a rank, which inherit its environment. */
static bool is_first(const struct ftk_proc *all, size_t n, const struct ftk_proc *p)
{
    if (p->rank < 0 || p->ppid == getpid())
        return false;
    for (size_t i = 0; i < n; i++)
        if (all[i].pid == p->ppid)
            return all[i].rank < 0;
    return false;
}

static const struct ftk_proc *process(const struct ftk_proc *all, size_t n, pid_t pid)
{
    for (size_t i = 0; i < n; i++)
        if (all[i].pid == pid)
            return &all[i];
    return NULL;
}

static bool is_below(const struct ftk_proc *all, size_t n, const struct ftk_proc *p, pid_t pid)
{
    for (; p; p = process(all, n, p->ppid))
        if (p->ppid == pid)
            return true;
    return false;
}

/* A script may have started mpirun: the lines of mpirun have its process number.  Without this
 * number, mpirun is one of our own children. */
static struct others count_others(const struct ftk_state *s, const struct ftk_proc *all, size_t n)
{
    const struct ftk_proc *m = process(all, n, (pid_t)ftk_state_facts(s)->mpirun);
    struct others o = { 0, 0 };
    for (size_t i = 0; i < n; i++) {
        const struct ftk_proc *p = &all[i];
        if (p->state == 'Z' || p == m)
            continue;
        bool below = m ? is_below(all, n, p, m->pid) : p->ppid != getpid();
        o.below += below;
        o.beside += !below && !(m && is_below(all, n, m, p->pid));
    }
    o.beside -= !m && o.beside > 0;
    return o;
}

/* Add the new ranks.  Returns the number of ranks and their children: a child may hold a pipe of
 * mpirun open, and mpirun then waits for the child.  A process with a hidden environment counts:
 * the process may be a rank.  A spawned process that has not joined does not count: without the
 * ranks that have spawned the process, it never joins.  *others, if not NULL, gets the numbers of
 * the other processes; they have a meaning when the result is 0. */
static size_t scan(struct ftk_ranks *w, const struct ftk_state *s, struct others *others)
{
    struct ftk_proc *p;
    size_t alive = 0, n = ftk_proc_list(&p);
    for (size_t i = 0; i < n; i++) {
        if (p[i].state != 'Z')
            ftk_proc_rank(&p[i]);
        bool stray = p[i].spawned >= 0 && !ftk_state_has_joined(s, p[i].spawned, p[i].rank);
        alive += (p[i].rank >= 0 && !stray) || p[i].hidden;
    }
    if (others)
        *others = count_others(s, p, n);
    for (size_t i = 0; i < n; i++)
        if (is_first(p, n, &p[i]) && !find(w, &p[i]))
            add(w, &p[i]);
    free(p);
    return alive;
}

static void hunt(struct ftk_ranks *w, const struct ftk_state *s)
{
    int here = w->run->emulate > 0 || w->local_size < 0 ? w->run->total : (int)w->local_size;
    (void)scan(w, s, NULL); /* counted again, when no rank is alive */
    w->hunting = !w->opened && w->nseen < here;
    if (!w->hunting && w->run->verbose)
        ftk_run_say("processes of ranks found: %d", w->nseen);
}

/* ---- looking ------------------------------------------------------------------------- */

/* Number of known ranks that are alive; *gone: a known rank is not alive.  Once a context is open,
 * stop at the first rank that is alive. */
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
        k->gone = !k->spawned; /* a process that the program has spawned may end at any time */
        *gone = *gone || k->gone;
        if (there)
            k->status = p.status;
    }
    return alive;
}

/* Whether standard output or error is full: then mpirun may be waiting for its reader. */
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

/* Whether a rank has worked since mark().  A program without ftkit may end rank by rank, or work on
 * after the end of one rank. */
static bool is_busy(const struct ftk_ranks *w)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->v[i].cpu_s - w->v[i].mark_s > BUSY * w->lost_s)
            return true;
    return false;
}

/* *t: how long the condition so has held, -1: it does not hold.  Add step if so held at the last
 * look, too.  Whether so has held for limit. */
static bool lasts(double *t, bool so, double step, double limit)
{
    if (!so)
        *t = -1;
    else
        *t = *t < 0 ? 0 : *t + step;
    return so && *t >= limit;
}

/* Whether a process of the job was seen. */
static bool has_seen(const struct ftk_ranks *w)
{
    for (size_t i = 0; i < w->n; i++)
        if (!w->v[i].spawned)
            return true;
    return false;
}

/* No rank is there.  Returns the seconds without a rank after which the job counts as ended; -1: a
 * rank may still come.  A process between fork() and exec() does not have the environment of a rank
 * yet, but only for a short time.  On an emulated node such a process looks like a daemon. */
static double patience_s(
    const struct ftk_ranks *w, const struct ftk_state *s, const struct others *others)
{
    const struct ftk_run *r = w->run;
    const bool seen = has_seen(w);
    if (seen && (w->opened || w->nseen == r->total || !r->reports))
        return GONE_S;
    if (r->emulate > 0)
        return w->opened || ftk_state_facts(s)->ordered ? GONE_S + r->init_timeout_s : -1;
    if (!w->opened && ftk_state_started(s) < r->total)
        return -1;
    if (others->below > 0)
        return seen ? GONE_S + r->init_timeout_s : -1;
    return others->beside > 0 ? GONE_S + r->init_timeout_s : GONE_S;
}

static enum ftk_ranks_change judge(struct ftk_ranks *w, const struct ftk_state *s, double step)
{
    bool gone, local = is_local(w, s);
    struct others others;
    size_t alive = probe(w, &gone);
    bool empty = alive == 0 && local && scan(w, s, &others) == 0 && !output_waits();
    double limit = empty ? patience_s(w, s, &others) : -1;
    if (lasts(&w->gone_s, limit >= 0, step, limit))
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

/* Not the time of day: on a busy machine a look of a millisecond takes long, and the looks after it
 * would come late. */
static double cpu_s(void)
{
    struct timespec t;
    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0
               ? (double)t.tv_sec + 1e-9 * (double)t.tv_nsec
               : 0;
}

enum ftk_ranks_change ftk_ranks_look(struct ftk_ranks *w, const struct ftk_state *s)
{
    double now = ftk_now_s(), used = cpu_s();
    if (w->off || now < w->due)
        return FTK_RANKS_WELL;
    w->opened = ftk_state_facts(s)->opened;
    if (w->hunting)
        hunt(w, s);
    double most = w->due - w->last + LATE_S;
    double step = now - w->last < most ? now - w->last : most;
    enum ftk_ranks_change news = judge(w, s, step);
    double least = SHARE * (cpu_s() - used);
    double pause = w->opened ? LOOK_S : ftk_ranks_coming(w) ? 0 : INIT_LOOK_S;
    w->last = now;
    w->due = now + (pause > least ? pause : least);
    return news;
}

/* ---- results ------------------------------------------------------------------------- */

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

/* Whether each end is known: status has 0 for the process, or mpirun has reported the end. */
static bool knows_all(
    const struct ftk_ranks *w, const struct ftk_state *s, int (*status)(const struct rank *k))
{
    const int total = w->run->total;
    bool *known = ftk_tool_alloc((size_t)total * sizeof *known), all = true;
    for (int i = 0; i < total; i++)
        known[i] = ftk_state_has_ended(s, i);
    for (size_t i = 0; i < w->n; i++) {
        const struct rank *k = &w->v[i];
        if (!k->spawned && k->number < total && status(k) == 0)
            known[k->number] = true;
    }
    for (int i = 0; i < total; i++)
        all = all && known[i];
    free(known);
    return all;
}

static int zombie_status(const struct rank *k)
{
    return k->status;
}

static int orphan_status(const struct rank *k)
{
    return ftk_tree_status(k->pid);
}

int ftk_ranks_status(const struct ftk_ranks *w, const struct ftk_state *s)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->v[i].status > 0)
            return w->v[i].status;
    return knows_all(w, s, zombie_status) ? 0 : -1; /* mpirun has reaped those that it reports */
}

bool ftk_ranks_orphans_well(const struct ftk_ranks *w, const struct ftk_state *s)
{
    return knows_all(w, s, orphan_status);
}

int ftk_ranks_orphans(const struct ftk_ranks *w, const struct ftk_state *s)
{
    for (size_t i = 0; i < w->n; i++)
        if (ftk_tree_status(w->v[i].pid) > 0)
            return ftk_tree_status(w->v[i].pid);
    return is_local(w, s) ? 0 : -1;
}
