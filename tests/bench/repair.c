/* From the death of a rank to the moment at which all ranks are restored.
 *
 * A rank that is chosen by a seed kills itself by SIGKILL while the others wait for it in a
 * barrier; just before, it notes the time in a file that all of them map.  The clock stops
 * when the last survivor has come back from ftkit_checkpoint() and the replacement from
 * ftkit_recover().
 *
 * The parts: notice, until the first rank enters the repair; meet, until the survivors have
 * come together; supply, rebuild and copies as ftkit_query() tells them, of the lowest rank
 * that survived; regions, from the end of the repair to the end of all.
 *
 * Bound: notice, and copies: a rank receives its segment from another rank, and with buddies also
 * the one that it holds; and every rank copies one in memory.  The least of three tries.
 *
 *   repair -f FILE [-b BYTES] [-r KILLS] [-s SEED] [-k SCHEME]     at least KILLS spares
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <signal.h>

#include "bench.h"

enum { SETS_BETWEEN = 3 }; /* so that every buffer has been used before the next kill */

/* In a file that outlives every process. */
struct page {
    double killed_s;
    int kills;
};

struct moments {
    double back_s;     /* the call of ftkit that restored this rank returned */
    double repaired_s; /* the repair callback ran */
    double replaced;   /* 1: a new process */
    double repair_s, meet_s, supply_s, rebuild_s, copies_s;
};
enum { NMOMENTS = sizeof(struct moments) / sizeof(double) };

static const char *file;
static unsigned seed = 1;
static struct page *page;
static double repaired_s;
static char *message;    /* [bytes] */
static int segments = 2; /* that a new process receives, at least */

static int option(int opt, const char *value)
{
    if (opt == 'f') {
        file = value;
    } else if (opt == 'k') {
        bench_set("FTKIT_LEVEL_MEMORY_SCHEME", value);
        segments = 1;
    } else {
        seed = (unsigned)atoi(value);
    }
    return 0;
}

/* The rank that the k-th kill hits: the same for the same seed. */
static int victim(const struct bench *b, int k)
{
    unsigned x = seed * 2654435761u + (unsigned)k * 40503u + 1;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return (int)(x % (unsigned)b->nranks);
}

static int on_repair(ftkit_ctx *ft, MPI_Comm comm, void *arg)
{
    (void)ft;
    (void)comm;
    (void)arg;
    repaired_s = bench_now_s();
    return 0;
}

/* ---- the bound ----------------------------------------------------------------------- */

static void copy(struct bench *b)
{
    int n = (int)b->bytes;
    for (int i = 0; i < segments && b->rank < 2; i++)
        bench_mpi(b,
            b->rank == 0 ? MPI_Send(b->data, n, MPI_BYTE, 1, 0, b->comm)
                         : MPI_Recv(message, n, MPI_BYTE, 0, 0, b->comm, MPI_STATUS_IGNORE),
            "message");
    memcpy(message, b->data, b->bytes);
}

static double copy_s(struct bench *b)
{
    if (!message)
        message = bench_alloc(b, b->bytes);
    double least = bench_time(b, copy);
    for (int i = 0; i < 2; i++) {
        double took = bench_time(b, copy);
        least = took < least ? took : least;
    }
    return least;
}

/* ---- the program --------------------------------------------------------------------- */

static char byte_of(const struct bench *b, size_t i, int step)
{
    return (char)(i * 31 + i / 4096 + (size_t)b->rank * 7 + (size_t)step);
}

static void fill(struct bench *b, int step)
{
    for (size_t i = 0; i < b->bytes; i++)
        b->data[i] = byte_of(b, i, step);
}

static void check(struct bench *b, int step)
{
    for (size_t i = 0; i < b->bytes; i++)
        if (b->data[i] != byte_of(b, i, step))
            bench_die(b, "byte %zu is not what was saved in step %d", i, step);
}

static struct moments collect(struct bench *b, double back_s, int replaced)
{
    ftkit_info info = { .size = sizeof info };
    bench_ft(b, ftkit_query(b->ft, &info), FTKIT_OK, "query");
    return (struct moments){ .back_s = back_s,
        .repaired_s = repaired_s,
        .replaced = replaced,
        .repair_s = info.repair_s,
        .meet_s = info.repair_detect_s,
        .supply_s = info.repair_supply_s,
        .rebuild_s = info.repair_rebuild_s,
        .copies_s = info.repair_restore_s };
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

static void report(struct bench *b, const struct moments *m, double copy)
{
    double entered = 0, repaired = 0, back = 0;
    const struct moments *first = NULL; /* lowest rank that survived */
    for (int r = 0; r < b->nranks; r++) {
        double start = m[r].repaired_s - m[r].repair_s;
        back = later(back, m[r].back_s);
        repaired = later(repaired, m[r].repaired_s);
        if (m[r].replaced != 0)
            continue;
        if (!first || start < entered)
            entered = start;
        first = first ? first : &m[r];
    }
    if (!first)
        bench_die(b, "no survivor");
    double notice = entered - page->killed_s;
    double met = first->repaired_s - first->repair_s + first->meet_s;
    bench_row(b,
        "ranks=%d bytes=%zu ftkit_s=%.6f bound_s=%.6f notice_s=%.6f copy_s=%.6f "
        "meet_s=%.6f supply_s=%.6f rebuild_s=%.6f copies_s=%.6f regions_s=%.6f victim=%d",
        b->nranks, b->bytes, back - page->killed_s, notice + copy, notice, copy, met - entered,
        first->supply_s, first->rebuild_s, first->copies_s, back - repaired,
        victim(b, page->kills - 1));
}

/* All ranks are back: put the moments together. */
static void after_repair(struct bench *b, double back_s, int replaced)
{
    struct moments mine = collect(b, back_s, replaced);
    struct moments *all = malloc((size_t)b->nranks * sizeof *all);
    if (!all)
        bench_die(b, "no memory");
    bench_mpi(b, MPI_Gather(&mine, NMOMENTS, MPI_DOUBLE, all, NMOMENTS, MPI_DOUBLE, 0, b->comm),
        "gathering the times");
    double copy = copy_s(b);
    if (b->rank == 0)
        report(b, all, copy);
    free(all);
}

/* Everybody waits for the victim, which does not come. */
static void kill_one(struct bench *b)
{
    int k = page->kills;
    bench_mpi(b, MPI_Barrier(b->comm), "barrier"); /* all have read the count */
    if (victim(b, k) == b->rank) {
        struct timespec nap = { 0, 5000000 }; /* the others are in the barrier by now */
        nanosleep(&nap, NULL);
        page->kills = k + 1;
        page->killed_s = bench_now_s();
        kill(getpid(), SIGKILL);
    }
    if (MPI_Barrier(b->comm) == MPI_SUCCESS)
        bench_die(b, "the barrier with a dead rank was successful");
}

static void loop(struct bench *b, int *step, double back_s)
{
    int replaced = back_s > 0;
    int sets = 0;
    for (;;) {
        int rc = ftkit_checkpoint(b->ft);
        if (rc == FTKIT_ROLLED_BACK)
            back_s = bench_now_s();
        else
            bench_ft(b, rc, FTKIT_OK, "checkpoint");
        if (back_s > 0) {
            after_repair(b, back_s, replaced);
            check(b, *step); /* now: it would take cores from those who are not back yet */
            back_s = 0;
            replaced = 0;
            sets = 0;
        }
        if (sets == SETS_BETWEEN && page->kills == b->reps)
            return;
        if (sets++ == SETS_BETWEEN)
            kill_one(b);
        else
            fill(b, ++*step);
    }
}

int main(int argc, char **argv)
{
    struct bench b = { .bytes = (size_t)64 << 20, .reps = 1 };
    int step = 0;
    bench_options(&b, argc, argv, "b:r:f:k:s:", option);
    page = bench_map(&b, file, sizeof *page);
    bench_set("FTKIT_CHECKPOINT_PERIOD", "1 call");
    bench_set("FTKIT_LEVEL_HDF5_ENABLED", "false");
    bench_open(&b, &argc, &argv);
    bench_new_region(&b);
    bench_ft(&b, ftkit_register(b.ft, "data", b.data, b.bytes, MPI_BYTE), FTKIT_OK, "register");
    bench_ft(&b, ftkit_register_replicated(b.ft, "step", &step, 1, MPI_INT), FTKIT_OK, "step");
    bench_ft(&b, ftkit_on_repair(b.ft, on_repair, NULL), FTKIT_OK, "callback");
    int rc = ftkit_recover(b.ft, NULL);
    double back_s = bench_now_s();
    if (rc == FTKIT_NO_SET) {
        fill(&b, 0);
        back_s = 0;
    } else {
        bench_ft(&b, rc, FTKIT_OK, "recover");
    }
    loop(&b, &step, back_s);
    bench_ft(&b, ftkit_finish(b.ft), FTKIT_OK, "finish");
    if (message)
        munmap(message, b.bytes);
    return bench_close(&b);
}
