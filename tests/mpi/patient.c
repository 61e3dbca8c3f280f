/* A ring with long steps: it prints how often it slept in its longest wait.
 *
 *   -m ring    (default) each rank sends to the next one in each step
 *   -m alone   no rank sends; ranks meet in ftkit_checkpoint() only
 *   -m large   as ring, with messages of some MiB
 *   -m idle    as ring; each rank asks in each step for idle cores, and prints the most that it
 *              has seen in the replay, and behind.  A rank that has been replaced waits in a step
 *              of its replay until it sees some, and in a new step it makes all others wait
 *
 * Work is emulated by a sleep, so that waiting ranks do not compete for the processor.  The program
 * counts how often the waiting thread sleeps: its processor time says little on a machine with
 * other work, where a rank that looks all the time gets little of a processor.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <sys/resource.h>
#include <time.h>

#include "foreign.h"

#define WORK_NS 10000000L
/* of -m idle: rank 1 is lost in step 74, and ranks 3 and 0 may have come to the next two */
enum { SEES = 60, LATE = 77 };

struct span {
    double wall;
    long sleeps; /* how often the thread has given its processor away to sleep */
};

static struct {
    uint64_t *state, *out, *in;
    int n;
    bool alone, idle;
    int most[2];         /* idle cores before and from step LATE on */
    struct span left;    /* when the last step ended */
    struct span longest; /* of the waits, for a message or between two steps */
} g;

static double seconds(clockid_t clock)
{
    struct timespec t;
    if (clock_gettime(clock, &t) != 0)
        return 0;
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct span now(void)
{
    struct rusage u;
    if (getrusage(RUSAGE_THREAD, &u) != 0)
        return (struct span){ 0, 0 };
    return (struct span){ seconds(CLOCK_MONOTONIC), u.ru_nvcsw };
}

static void note(struct span from)
{
    const struct span to = now();
    if (to.wall - from.wall > g.longest.wall)
        g.longest = (struct span){ to.wall - from.wall, to.sleeps - from.sleeps };
}

static int prepare(struct foreign *f)
{
    const char *v = f->variant ? f->variant : "ring";
    g.alone = strcmp(v, "alone") == 0;
    g.idle = strcmp(v, "idle") == 0;
    g.n = strcmp(v, "large") == 0 ? 1 << 19 : 1;
    g.state = foreign_state(f, 1);
    g.out = calloc((size_t)g.n, sizeof *g.out);
    g.in = calloc((size_t)g.n, sizeof *g.in);
    return !g.state || !g.out || !g.in;
}

/* Ask for idle cores; the number, and whether this process has replaced another one. */
static int ask(struct foreign *f, bool *replaced)
{
    ftkit_info info = { .size = sizeof info };
    if (ftkit_query(f->ft, &info) != FTKIT_OK)
        return -1;
    *replaced = info.incarnation > 0;
    return info.idle_cores;
}

static void look_at_cores(struct foreign *f)
{
    const struct timespec pause = { 0, 1000000 };
    const double begin = seconds(CLOCK_MONOTONIC);
    int *most = &g.most[f->step >= LATE];
    bool replaced = false, again;
    do {
        const int n = ask(f, &replaced);
        *most = n > *most ? n : *most;
        const double waited = seconds(CLOCK_MONOTONIC) - begin;
        again = replaced
                && ((f->step == SEES && *most == 0 && waited < 20)
                    || (f->step == LATE && waited < 0.2));
        if (again)
            (void)nanosleep(&pause, NULL);
    } while (again);
}

static void step(struct foreign *f)
{
    const struct timespec work = { 0, WORK_NS };
    if (g.left.wall > 0)
        note(g.left);
    (void)FTK_FAULT("app.mid");
    if (g.idle)
        look_at_cores(f);
    (void)nanosleep(&work, NULL);
    if (!g.alone) {
        const int next = (f->rank + 1) % f->nranks, before = (f->rank + f->nranks - 1) % f->nranks;
        g.out[0] = g.state[0];
        const struct span from = now();
        if (MPI_Sendrecv(g.out, g.n, MPI_UINT64_T, next, 1, g.in, g.n, MPI_UINT64_T, before, 1,
                f->comm, MPI_STATUS_IGNORE)
            != MPI_SUCCESS)
            return;
        note(from);
    }
    g.state[0] = foreign_mix(g.state[0], g.in[0]);
    g.left = now();
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    fprintf(stderr, "wait: rank %d %.3f %ld\n", f->rank, g.longest.wall, g.longest.sleeps);
    if (g.idle)
        fprintf(stderr, "idle: rank %d %d %d\n", f->rank, g.most[0], g.most[1]);
    return foreign_counted(f, g.state[0], 0, hash, detail, room);
}

static void release(void)
{
    free(g.state);
    free(g.out);
    free(g.in);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { .name = "patient",
        .steps = 100,
        .size = 1,
        .prepare = prepare,
        .step = step,
        .verdict = verdict,
        .release = release };
    return foreign_main(argc, argv, &app);
}
