/* A pipeline without a collective, whose ranks call ftkit_checkpoint() at different times: rank r
 * receives from rank r - 1, computes, sends to rank r + 1, and calls in one of 1 + 2 r steps.
 * -s is the size of the registered data of a rank in MiB.
 *
 *   -m apart  (default) as above
 *   -m sleep  ... and rank 2 sleeps before its second call, until ranks 0 and 1 have made 80 steps
 *             more, or for 30 s
 *   -m even   each rank calls in each step
 *
 * -i: each rank adds a line "longest SECONDS steps N copy SECONDS first SECONDS cut N waits N gap
 * SECONDS" to FILE.<rank>: its longest call of ftkit_checkpoint() but the first, its steps that
 * ended while rank 2 slept, the time of one copy and one hash of its registered data, its first
 * call, its steps that ended with a set open for which the rank had cut, 1 if a set waited for rank
 * 2 after the sleep, and the longest time between the ends of two steps.  The line "end MESSAGES
 * BYTES" of foreign.h follows.  A failure at the end adds a line again.
 *
 * A step passes app.step once, app.mid once before it sends, and app.inflight once behind that.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

enum { WORDS = 4, SLEEPER = 2, AWAKE = 80, SLEEP_S = 30, TURNS = 5 };

static struct {
    bool even, sleeps;
    int period;      /* steps from one call to the next */
    uint64_t *data;  /* [size] registered */
    size_t size;     /* words */
    uint64_t *state; /* registered; [1]: wrong */
    double *ended;   /* [steps] when each step ended */
    double slept[2]; /* when rank 2 fell asleep, and woke up */
    double longest;  /* call, s */
    double first;    /* call, s */
    int calls;       /* of this process */
    int cut, waits;  /* as above */
} g;

static int prepare(struct foreign *f)
{
    g.sleeps = f->variant && strcmp(f->variant, "sleep") == 0;
    g.even = f->variant && strcmp(f->variant, "even") == 0;
    if (f->variant && !g.sleeps && !g.even && strcmp(f->variant, "apart") != 0)
        return 1;
    g.period = g.even ? 1 : 1 + 2 * f->rank;
    g.size = (size_t)f->size * (1 << 20) / sizeof *g.data;
    g.data = malloc(g.size * sizeof *g.data);
    g.state = foreign_state(f, 2);
    g.ended = calloc((size_t)f->steps + 1, sizeof *g.ended);
    if (!g.data || !g.state || !g.ended)
        return 1;
    for (size_t i = 0; i < g.size; i++)
        g.data[i] = i * (uint64_t)(f->rank + 1);
    return ftkit_register(f->ft, "data", g.data, g.size, MPI_UINT64_T) != FTKIT_OK;
}

/* Each step changes a word in one of 64 pages, and takes a while: otherwise one rank may be at its
 * end before another has begun. */
static void compute(const struct foreign *f, const uint64_t *in)
{
    usleep(1000);
    for (size_t i = 512 * (size_t)(f->step % 64); i < g.size; i += (size_t)512 * 64) {
        g.data[i] = foreign_mix(g.data[i] ^ in[1], *g.state);
        *g.state += g.data[i];
    }
}

static bool is_open(const struct foreign *f, bool waits_here)
{
    ftkit_info info = { .size = sizeof info };
    return ftkit_query(f->ft, &info) == FTKIT_OK && info.line_open > info.committed
           && (info.line_waits_here == 1) == waits_here;
}

static void step(struct foreign *f)
{
    uint64_t in[WORDS] = { 0 }, out[WORDS] = { (uint64_t)f->step };
    if (f->rank > 0) {
        if (MPI_Recv(in, WORDS, MPI_UINT64_T, f->rank - 1, 1, f->comm, MPI_STATUS_IGNORE)
            != MPI_SUCCESS)
            return;
        g.state[1] += in[0] != (uint64_t)f->step;
    }
    compute(f, in);
    (void)FTK_FAULT("app.mid");
    out[1] = *g.state;
    if (f->rank < f->nranks - 1)
        MPI_Send(out, WORDS, MPI_UINT64_T, f->rank + 1, 1, f->comm);
    (void)FTK_FAULT("app.inflight");
    g.ended[f->step] = ftk_now_s();
    g.cut += is_open(f, false);
}

/* The steps that a rank has begun, as its file of -w says. */
static int begun(const struct foreign *f, int rank)
{
    char path[512];
    int n = 0;
    snprintf(path, sizeof path, "%s.%d", f->watch, rank);
    FILE *in = fopen(path, "r");
    for (int c; in && (c = fgetc(in)) != EOF;)
        n += c == '\n';
    if (in)
        (void)fclose(in);
    return n;
}

static void sleep_long(const struct foreign *f)
{
    const int before[SLEEPER] = { begun(f, 0), begun(f, 1) };
    const double end = ftk_now_s() + SLEEP_S;
    while (
        ftk_now_s() < end && (begun(f, 0) < before[0] + AWAKE || begun(f, 1) < before[1] + AWAKE))
        usleep(20000);
}

/* Rank 2 learns in calls of MPI that a set waits for this rank. */
static void wake_up(struct foreign *f)
{
    int flag = 0;
    for (int i = 0; i < 10000 && !is_open(f, true); i++)
        MPI_Iprobe(f->rank, 2, f->comm, &flag, MPI_STATUS_IGNORE);
    g.waits = is_open(f, true);
}

/* A call of ftkit_checkpoint(), with its time. */
static int call(struct foreign *f)
{
    if (g.sleeps && f->rank == SLEEPER && g.calls == 1) {
        g.slept[0] = ftk_now_s();
        sleep_long(f);
        g.slept[1] = ftk_now_s();
        wake_up(f);
    }
    double begin = ftk_now_s();
    int rc = ftkit_checkpoint(f->ft);
    double took = ftk_now_s() - begin;
    if (g.calls++ == 0)
        g.first = took;
    else if (took > g.longest)
        g.longest = took;
    return rc;
}

static int loop(struct foreign *f)
{
    for (;;) {
        if (f->step >= f->steps) {
            int bad = 0;
            if (foreign_end(f, &bad))
                return bad;
            continue;
        }
        if (f->step % g.period == 0) {
            int rc = call(f);
            if (foreign_fatal(rc))
                return foreign_complain(f, "checkpoint", rc);
        }
        foreign_watch(f);
        (void)FTK_FAULT("app.step");
        step(f);
        f->step++;
    }
}

/* The time of one copy and one hash of the registered data: the least of some. */
static double copy_s(void)
{
    uint64_t *copy = malloc(g.size * sizeof *copy);
    double least = 0;
    if (!copy)
        return 0;
    memset(copy, 1, g.size * sizeof *copy);
    for (int i = 0; i < TURNS; i++) {
        double begin = ftk_now_s();
        memcpy(copy, g.data, g.size * sizeof *copy);
        g.state[1] += XXH3_64bits(copy, g.size * sizeof *copy) == 0;
        double took = ftk_now_s() - begin;
        if (i == 0 || took < least)
            least = took;
    }
    free(copy);
    return least;
}

static double longest_gap(const struct foreign *f)
{
    double gap = 0;
    for (int i = 1; i < f->steps; i++)
        if (g.ended[i - 1] > 0 && g.ended[i] - g.ended[i - 1] > gap) /* 0: of an earlier process */
            gap = g.ended[i] - g.ended[i - 1];
    return gap;
}

static void tell(const struct foreign *f, const double *slept)
{
    char path[512];
    int steps = 0;
    if (!f->info)
        return;
    for (int i = 0; i < f->steps; i++)
        steps += g.ended[i] > slept[0] && g.ended[i] < slept[1];
    snprintf(path, sizeof path, "%s.%d", f->info, f->rank);
    FILE *out = fopen(path, "a");
    bool written =
        out
        && fprintf(out, "longest %.6f steps %d copy %.6f first %.6f cut %d waits %d gap %.6f\n",
               g.longest, steps, copy_s(), g.first, g.cut, g.waits, longest_gap(f))
               > 0;
    if ((out && fclose(out) != 0) || !written)
        fprintf(stderr, "uneven: cannot write %s\n", path);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    double slept[2] = { g.slept[0], g.slept[1] };
    if (f->nranks > SLEEPER)
        MPI_Bcast(slept, 2, MPI_DOUBLE, SLEEPER, f->comm);
    tell(f, slept);
    uint64_t mine = XXH3_64bits_withSeed(g.data, g.size * sizeof *g.data, *g.state);
    return foreign_counted(f, mine, g.state[1], hash, detail, room);
}

static void release(void)
{
    free(g.data);
    free(g.state);
    free(g.ended);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { .name = "uneven",
        .steps = 210,
        .size = 1,
        .prepare = prepare,
        .verdict = verdict,
        .release = release };
    return foreign_run(argc, argv, &app, loop);
}
