/* Replicas: what comparing adds to a set, and what the loss of a replica costs.
 *
 * compare: a set whose region is compared, and one whose region is left out, take turns.  Bound:
 * the latter.
 *
 * clone: rank 0 of plane 1 kills itself by SIGKILL; just before, it notes the time in a file that
 * all map.  The clock stops when all ranks of both planes have come back from the call that gave
 * plane 1 the state of plane 0.  Bound: notice, until the first rank enters the repair; a set; and
 * a segment from one rank to another, in each plane at the same time.  takeover: until the ranks of
 * plane 0 go on after the failure.  stop: the call of plane 0 that writes the set.
 *
 *   replica -k compare|clone -f FILE [-b BYTES] [-r REPETITIONS]      2 planes of 2 ranks
 *   (clone: a spare for each repetition)
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <signal.h>
#include <stdbool.h>

#include "bench.h"

enum { SETS_BETWEEN = 3, PROCESSES = 4 };

/* In a file that outlives every process. */
struct page {
    double killed_s;
    double back_s[PROCESSES];
    int kills;
};

static const char *kind = "clone", *file;
static struct page *page;
static char *message; /* [bytes] */
static int plane;
/* the region, compared or not: one of them is empty */
static void *compared, *skipped;
static size_t ncompared, nskipped;

static int option(int opt, const char *value)
{
    if (opt == 'k')
        kind = value;
    else
        file = value;
    return opt != 'k' && opt != 'f';
}

static int keep(void **data, size_t count, void *arg)
{
    (void)data;
    (void)count;
    (void)arg;
    return 0; /* both regions have room for all bytes */
}

static void checkpoint(struct bench *b)
{
    bench_checkpoint(b);
}

static ftkit_info query(const struct bench *b)
{
    ftkit_info info = { .size = sizeof info };
    bench_ft(b, ftkit_query(b->ft, &info), FTKIT_OK, "query");
    return info;
}

/* ---- compare --------------------------------------------------------------------------- */

static double set_s(struct bench *b, bool compares)
{
    bench_touch(b);
    ncompared = compares ? b->bytes : 0;
    nskipped = compares ? 0 : b->bytes;
    return bench_time(b, checkpoint);
}

static void compare(struct bench *b)
{
    for (int i = -2; i < b->reps; i++) {
        const double with = set_s(b, true), without = set_s(b, false);
        if (i >= 0 && plane == 0)
            bench_row(b, "ranks=%d bytes=%zu ftkit_s=%.6f bound_s=%.6f", b->nranks, b->bytes, with,
                without);
    }
}

/* ---- clone ----------------------------------------------------------------------------- */

static void send_segment(struct bench *b)
{
    const int n = (int)b->bytes;
    bench_mpi(b,
        b->rank == 0 ? MPI_Send(b->data, n, MPI_BYTE, 1, 0, b->comm)
                     : MPI_Recv(message, n, MPI_BYTE, 0, 0, b->comm, MPI_STATUS_IGNORE),
        "message");
}

/* What the ranks of plane 0 have measured. */
struct moments {
    double killed_s, repaired_s, repair_s, stop_s, set_s, copy_s;
};

static void report(struct bench *b, const struct moments *m)
{
    double back_s = 0;
    for (int i = 0; i < PROCESSES; i++)
        back_s = page->back_s[i] > back_s ? page->back_s[i] : back_s;
    const double notice_s = m->repaired_s - m->repair_s - m->killed_s;
    bench_row(b,
        "ranks=%d bytes=%zu ftkit_s=%.6f bound_s=%.6f notice_s=%.6f set_s=%.6f copy_s=%.6f "
        "takeover_s=%.6f stop_s=%.6f gib_s=%.6f",
        b->nranks, b->bytes, back_s - m->killed_s, notice_s + m->set_s + m->copy_s, notice_s,
        m->set_s, m->copy_s, m->repaired_s - m->killed_s, m->stop_s,
        m->stop_s * (double)(1 << 30) / (double)b->bytes);
}

static void fill(struct bench *b, int step)
{
    memset(b->data, step, b->bytes);
}

static void kill_one(struct bench *b)
{
    struct timespec nap = { 0, 5000000 }; /* the others are in their barrier by now */
    if (plane == 0 || b->rank != 0)
        return;
    nanosleep(&nap, NULL);
    page->kills++;
    page->killed_s = bench_now_s();
    kill(getpid(), SIGKILL);
}

/* A call after the kill.  True: this rank has got the state of its replica. */
static bool call(struct bench *b)
{
    const int rc = ftkit_checkpoint(b->ft);
    page->back_s[2 * plane + b->rank] = bench_now_s();
    if (rc != FTKIT_ROLLED_BACK)
        bench_ft(b, rc, FTKIT_OK, "checkpoint");
    return rc == FTKIT_ROLLED_BACK;
}

/* In plane 0 the failure ends the first call, and the second call writes the set.  In plane 1 the
 * first call ends with that set. */
static void lose_one(struct bench *b, int *step, struct moments *m)
{
    kill_one(b);
    (void)MPI_Barrier(b->comm); /* plane 1 does not come through */
    fill(b, ++*step);
    if (call(b))
        return;
    const ftkit_info info = query(b);
    if (info.degraded == 0)
        bench_die(b, "the failure was not noticed in the call");
    m->repaired_s = bench_now_s();
    m->killed_s = page->killed_s;
    m->repair_s = info.repair_s;
    fill(b, ++*step);
    const double begin = bench_now_s();
    (void)call(b);
    m->stop_s = bench_now_s() - begin;
}

static void clones(struct bench *b, int *step, bool back)
{
    struct moments m = { 0 };
    if (!message)
        message = bench_alloc(b, b->bytes);
    for (;; back = true) {
        if (back) {
            fill(b, ++*step);
            bench_checkpoint(b); /* all ranks are back */
            if (plane == 0)
                report(b, &m);
        }
        for (int i = 0; i < SETS_BETWEEN; i++) {
            fill(b, ++*step);
            m.set_s = bench_time(b, checkpoint);
            m.copy_s = bench_time(b, send_segment);
        }
        if (page->kills == b->reps)
            return;
        lose_one(b, step, &m);
    }
}

/* ---- the program ------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    struct bench b = { .bytes = (size_t)64 << 20, .reps = 1 };
    int step = 0;
    bench_options(&b, argc, argv, "b:r:f:k:", option);
    page = bench_map(&b, file, sizeof *page);
    bench_set("FTKIT_CHECKPOINT_PERIOD", "1 call");
    bench_set("FTKIT_LEVEL_HDF5_ENABLED", "false");
    bench_set("FTKIT_LOG_TEAMS", "rank");
    bench_open(&b, &argc, &argv);
    bench_region(&b);
    compared = skipped = b.data;
    ncompared = b.bytes;
    bench_ft(&b,
        ftkit_register_growing(b.ft, "compared", &compared, &ncompared, MPI_BYTE, keep, NULL),
        FTKIT_OK, "register");
    bench_ft(&b, ftkit_register_growing(b.ft, "skipped", &skipped, &nskipped, MPI_BYTE, keep, NULL),
        FTKIT_OK, "register");
    bench_ft(&b, ftkit_compare(b.ft, "skipped", FTKIT_COMPARE_OFF), FTKIT_OK, "compare");
    bench_ft(&b, ftkit_register_replicated(b.ft, "step", &step, 1, MPI_INT), FTKIT_OK, "step");
    const int rc = ftkit_recover(b.ft, NULL);
    plane = query(&b).plane;
    page->back_s[2 * plane + b.rank] = bench_now_s();
    if (rc != FTKIT_NO_SET) {
        bench_ft(&b, rc, FTKIT_OK, "recover");
        bench_checkpoint(&b); /* the call that wrote the set */
    }
    if (strcmp(kind, "compare") == 0)
        compare(&b);
    else
        clones(&b, &step, rc == FTKIT_OK);
    bench_ft(&b, ftkit_finish(b.ft), FTKIT_OK, "finish");
    if (message)
        munmap(message, b.bytes);
    return bench_close(&b);
}
