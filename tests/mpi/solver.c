/* A small deterministic solver that uses every kind of region and many kinds of MPI calls,
 * for the failure tests.  It has no error handling of its own; its result is a hash of all
 * state of all ranks, which must not depend on failures.
 *
 *   solver [-s STEPS] [-n ITEMS] [-o RESULT] [-c CONFIG] [-f] [-d MS] [-p PIDS] [-k STYLE]
 *          [-H] [-B] [-b BLOCKS [-w PERCENT] [-l]] [-g BLOCKS] [-m] [-u] [-e] [-S N] [-W N]
 *          [-x CODE] [-a STEP]
 *
 * -f: do without ftkit_finish().  -H: two parts of the world (5 of 12 processes, the rest),
 * each with its own context and result RESULT.0 and RESULT.1, the rollbacks of rank 0 in a
 * last line.  -B: ftkit_checkpoint() at the bottom of the loop.  -b: one more region, of so
 * many blocks of the checkpoints, PERCENT of which (10) change in each step, the first region
 * or (-l) the last.  -g: the growing region has so many blocks more on one rank of four, the
 * next one before in each step.  -m: tell the bytes that checkpoints have sent.
 * -u: one more set at the end, in which nothing has changed (for runs without failures).
 * -e: after a set that could not be written not the next call at once, but the next step.
 * -S: ftkit_scrub() after every N-th step; -W: ftkit_wait().  -x: exit code of all is well.
 * -a: rank 1 calls MPI_Abort in that step.  -A: rank 1 crashes in that step, each time.
 * -i: go on after FTKIT_HALT.
 * -I: rank 0 reads the number of steps from standard input, where the callback runs first.
 * -N: has handlers of its own for the signals that ftkit takes.
 * STYLE: p2p, nb, coll, mixed (default), derived.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/ftk.h"
#include "ftkit.h"

#define BLOCK_ITEMS 32768 /* a block of a segment, in items */

struct state {
    int steps, items, delay_ms, no_finish, halves, half, bottom, scrub, wait;
    int deaf, handles, reads;
    int blocks, percent, last, grow_by, tell, unchanged, onward, code, abort_at, crash_at;
    double *big; /* [blocks * BLOCK_ITEMS], few of them change */
    const char *out, *config, *pids, *style;
    int step;
    double *x; /* [items] per rank */
    double *g; /* block of a global array, halo 1 */
    size_t rows;
    double scalars[3]; /* replicated */
    char *grow;        /* grows and shrinks */
    size_t ngrow;
    unsigned char object[8]; /* serialized in two bytes per byte */
    double strided[16];      /* every other one is saved */
    MPI_Comm comm, derived;
    int rank, size;
};

static int measure(void *arg, size_t *bytes)
{
    (void)arg;
    *bytes = 2 * sizeof((struct state *)0)->object;
    return FTK_FAULT("app.measure") ? 1 : 0;
}

static int pack(void *arg, void *buf, size_t bytes)
{
    const struct state *s = arg;
    unsigned char *b = buf;
    for (size_t i = 0; i < bytes; i++)
        b[i] = (unsigned char)(i % 2 ? s->object[i / 2] : 0xa5);
    return FTK_FAULT("app.pack") ? 1 : 0;
}

static int unpack(void *arg, const void *buf, size_t bytes)
{
    struct state *s = arg;
    const unsigned char *b = buf;
    for (size_t i = 0; i < bytes; i++) {
        if (i % 2)
            s->object[i / 2] = b[i];
        else if (b[i] != 0xa5)
            return 1;
    }
    return FTK_FAULT("app.unpack") ? 1 : 0;
}

static int on_repair(ftkit_ctx *ft, MPI_Comm comm, void *arg)
{
    struct state *s = arg;
    if (s->reads) {
        if (s->rank == 0 && s->steps < 0 && scanf("%d", &s->steps) != 1)
            fprintf(stderr, "solver: nothing on standard input\n");
        if (MPI_Bcast(&s->steps, 1, MPI_INT, 0, comm) != MPI_SUCCESS)
            return 1;
    }
    if (s->derived != MPI_COMM_NULL)
        MPI_Comm_free(&s->derived);
    s->derived = MPI_COMM_NULL;
    (void)FTK_FAULT("app.callback");
    if (MPI_Comm_split(comm, s->rank % 2, s->rank, &s->derived) != MPI_SUCCESS) {
        s->derived = MPI_COMM_NULL; /* after an error the output is anything */
        return 1;
    }
    return ftkit_track_comm(ft, s->derived) == FTKIT_OK ? 0 : 1;
}

static void setup(struct state *s)
{
    MPI_Comm_rank(s->comm, &s->rank);
    MPI_Comm_size(s->comm, &s->size);
    s->rows = 6;
    s->x = calloc((size_t)s->items, sizeof *s->x);
    s->g = calloc((s->rows + 2) * 6, sizeof *s->g);
    s->big = calloc((size_t)s->blocks * BLOCK_ITEMS + 1, sizeof *s->big);
    for (size_t i = 0; i < (size_t)s->blocks * BLOCK_ITEMS; i++)
        s->big[i] = (double)(i * 31 % 8191) + s->rank;
    s->ngrow = 1;
    s->grow = malloc(1);
    s->grow[0] = (char)s->rank;
    for (int i = 0; i < s->items; i++)
        s->x[i] = sin(s->rank * 1000.0 + i);
    for (size_t i = 0; i < (s->rows + 2) * 6; i++)
        s->g[i] = cos((double)s->rank + (double)i);
    for (int i = 0; i < 16; i++)
        s->strided[i] = i % 2 ? -7 : s->rank + i;
    memset(s->object, s->rank, sizeof s->object);
}

static int register_big(ftkit_ctx *ft, const struct state *s)
{
    if (s->blocks == 0)
        return FTKIT_OK;
    return ftkit_register(ft, "big", s->big, (size_t)s->blocks * BLOCK_ITEMS, MPI_DOUBLE);
}

static int register_all(ftkit_ctx *ft, struct state *s)
{
    size_t global[2] = { s->rows * (size_t)s->size, 4 };
    size_t local[2] = { s->rows, 4 };
    size_t start[2] = { s->rows * (size_t)s->rank, 0 };
    size_t halo[2] = { 1, 1 };
    ftkit_serializer ops = { sizeof ops, measure, pack, unpack };
    MPI_Datatype every_other;
    int rc = MPI_Type_vector(8, 1, 2, MPI_DOUBLE, &every_other);
    if (!s->last)
        rc |= register_big(ft, s);
    rc |= ftkit_register_replicated(ft, "step", &s->step, 1, MPI_INT);
    rc |= ftkit_register_replicated(ft, "scalars", s->scalars, 3, MPI_DOUBLE);
    rc |= ftkit_register(ft, "x", s->x, (size_t)s->items, MPI_DOUBLE);
    rc |= ftkit_register_array(ft, "g", s->g, MPI_DOUBLE, 2, global, local, start, halo);
    rc |= ftkit_register_growing(ft, "grow", (void **)&s->grow, &s->ngrow, MPI_CHAR, NULL, NULL);
    rc |= ftkit_register_serializer(ft, "object", &ops, s);
    rc |= ftkit_register(ft, "strided", s->strided, 1, every_other);
    if (s->last)
        rc |= register_big(ft, s);
    rc |= MPI_Type_free(&every_other);
    rc |= ftkit_on_repair(ft, on_repair, s);
    return rc;
}

static int has(const struct state *s, const char *what)
{
    return strcmp(s->style, what) == 0 || strcmp(s->style, "mixed") == 0;
}

/* Some blocks, others in each step and on each rank, take up something of the state. */
static void change_big(struct state *s)
{
    int changes = (s->blocks * s->percent + 99) / 100;
    unsigned first = (unsigned)s->step * 2654435761u / 7u + 3u * (unsigned)s->rank;
    for (int i = 0; i < changes; i++) {
        unsigned block = (first + 7u * (unsigned)i) % (unsigned)s->blocks;
        unsigned item = (unsigned)(s->step * 7919 + i) % BLOCK_ITEMS;
        s->big[(size_t)block * BLOCK_ITEMS + item] += s->x[i % s->items] + 1;
    }
}

/* One step: every value depends on neighbours and on all. */
static void step(struct state *s)
{
    int left = (s->rank + s->size - 1) % s->size;
    int right = (s->rank + 1) % s->size;
    double in[4] = { 0 }, sum = 0;
    (void)FTK_FAULT("app.step");
    if (has(s, "p2p")) {
        MPI_Sendrecv(
            s->x, 2, MPI_DOUBLE, right, 1, in, 2, MPI_DOUBLE, left, 1, s->comm, MPI_STATUS_IGNORE);
        if (s->rank % 2 == 0) {
            MPI_Send(s->x, s->items, MPI_DOUBLE, right, 2, s->comm);
        } else {
            double *buf = malloc((size_t)s->items * sizeof *buf);
            buf[0] = 0;
            MPI_Recv(buf, s->items, MPI_DOUBLE, left, 2, s->comm, MPI_STATUS_IGNORE);
            s->x[0] += 1e-3 * buf[0];
            free(buf);
        }
    }
    (void)FTK_FAULT("app.mid");
    if (s->crash_at > 0 && s->step == s->crash_at && s->rank == 1)
        raise(SIGSEGV);
    if (s->abort_at > 0 && s->step == s->abort_at && s->rank == 1)
        MPI_Abort(MPI_COMM_WORLD, 9);
    if (has(s, "nb")) {
        MPI_Request r[4];
        MPI_Status status[4];
        MPI_Irecv(&in[2], 1, MPI_DOUBLE, left, 3, s->comm, &r[0]);
        MPI_Irecv(&in[3], 1, MPI_DOUBLE, right, 4, s->comm, &r[1]);
        MPI_Isend(&s->g[7], 1, MPI_DOUBLE, right, 3, s->comm, &r[2]);
        MPI_Isend(&s->g[8], 1, MPI_DOUBLE, left, 4, s->comm, &r[3]);
        (void)FTK_FAULT("app.inflight");
        MPI_Waitall(4, r, status);
    }
    if (has(s, "coll")) {
        double v = s->x[s->items - 1];
        (void)FTK_FAULT("app.coll");
        MPI_Allreduce(&v, &sum, 1, MPI_DOUBLE, MPI_SUM, s->comm);
        MPI_Bcast(&v, 1, MPI_DOUBLE, s->step % s->size, s->comm);
        sum += v;
        MPI_Barrier(s->comm);
    }
    if (has(s, "derived") && s->derived != MPI_COMM_NULL) {
        double v = s->g[9];
        double part = 0;
        MPI_Allreduce(&v, &part, 1, MPI_DOUBLE, MPI_MAX, s->derived);
        s->g[9] += 1e-6 * part;
    }
    (void)FTK_FAULT("app.compute");
    for (int i = 0; i < s->items; i++)
        s->x[i] = 0.9 * s->x[i] + 1e-3 * in[i % 4] + 1e-4 * sum;
    for (size_t i = 0; i < (s->rows + 2) * 6; i++)
        s->g[i] = 0.99 * s->g[i] + 0.01 * s->x[i % (size_t)s->items];
    for (int i = 0; i < 16; i += 2)
        s->strided[i] += s->x[i % s->items];
    change_big(s);
    s->step++;
    s->scalars[s->step % 3] = s->step * 1.5;
    s->ngrow = 1 + (size_t)(s->step * 37 % 200);
    if ((s->step + s->rank) % 4 == 0)
        s->ngrow += (size_t)s->grow_by * BLOCK_ITEMS * sizeof(double);
    s->grow = realloc(s->grow, s->ngrow);
    for (size_t i = 0; i < s->ngrow; i++)
        s->grow[i] = (char)(s->step + (int)i + s->rank);
    for (size_t i = 0; i < sizeof s->object; i++)
        s->object[i] = (unsigned char)(s->object[i] * 5 + s->step);
}

static uint64_t state_hash(const struct state *s)
{
    uint64_t h = XXH3_64bits_withSeed(s->x, (size_t)s->items * sizeof *s->x, 1);
    h = XXH3_64bits_withSeed(s->big, (size_t)s->blocks * BLOCK_ITEMS * sizeof *s->big, h);
    h = XXH3_64bits_withSeed(s->g, (s->rows + 2) * 6 * sizeof *s->g, h);
    h = XXH3_64bits_withSeed(s->scalars, sizeof s->scalars, h);
    h = XXH3_64bits_withSeed(s->grow, s->ngrow, h);
    h = XXH3_64bits_withSeed(s->object, sizeof s->object, h);
    h = XXH3_64bits_withSeed(s->strided, sizeof s->strided, h);
    return XXH3_64bits_withSeed(&s->step, sizeof s->step, h);
}

static volatile sig_atomic_t told_of[3]; /* SIGUSR1, SIGUSR2, SIGTERM */

static void on_signal(int sig)
{
    int i = sig == SIGUSR1 ? 0 : sig == SIGUSR2 ? 1 : 2;
    told_of[i] = told_of[i] + 1;
}

static void take_signals(void)
{
    if (signal(SIGUSR1, on_signal) == SIG_ERR || signal(SIGUSR2, on_signal) == SIG_ERR
        || signal(SIGTERM, on_signal) == SIG_ERR)
        exit(2);
}

/* The pid of each rank in a file, for tests that kill for real. */
static void note_pid(const struct state *s)
{
    char path[512], tmp[520];
    if (!s->pids)
        return;
    snprintf(path, sizeof path, "%s.%d", s->pids, s->rank);
    snprintf(tmp, sizeof tmp, "%s.tmp", path);
    FILE *f = fopen(tmp, "w");
    bool good = f && fprintf(f, "%10d %10d\n", (int)getpid(), s->step) > 0;
    if ((f && fclose(f) != 0) || !good || rename(tmp, path) != 0) /* whole for its readers */
        fprintf(stderr, "solver: cannot write %s\n", path);
}

static void tell_sent(const ftkit_ctx *ft, const struct state *s)
{
    ftkit_info info = { .size = sizeof info };
    if (s->tell && ftkit_query(ft, &info) == FTKIT_OK)
        fprintf(stderr, "sent: rank %d: %llu of the last set, %llu of all\n", s->rank,
            (unsigned long long)info.sent_bytes, (unsigned long long)info.sent_total);
}

static int run(ftkit_ctx *ft, struct state *s)
{
    uint64_t hashes[256] = { 0 };
    uint64_t mine;
    for (int first = 1;; first = 0) {
        int rc = s->bottom && first ? FTKIT_OK : ftkit_checkpoint(ft);
        if (rc < 0) {
            fprintf(
                stderr, "solver: rank %d: %s: %s\n", s->rank, ftkit_strerror(rc), ftkit_detail(ft));
            if (rc <= FTKIT_ERR_IO - 20 || rc > FTKIT_ERR_IO)
                return 1;
            if (!s->onward)
                continue; /* the set was not written: go on, as the header says */
        }
        note_pid(s);
        if (rc == FTKIT_HALT && !s->deaf) {
            if (s->rank == 0)
                fprintf(stderr, "solver: halted at step %lld, signals: %d %d %d\n",
                    (long long)s->step, (int)told_of[0], (int)told_of[1], (int)told_of[2]);
            return 0;
        }
        if (s->step >= s->steps) {
            if (s->unchanged && ftkit_checkpoint(ft) != FTKIT_OK)
                return 1;
            mine = state_hash(s);
            MPI_Gather(&mine, 1, MPI_UINT64_T, hashes, 1, MPI_UINT64_T, 0, s->comm);
            if (s->no_finish)
                break;
            rc = ftkit_finish(ft);
            if (rc == FTKIT_ROLLED_BACK)
                continue;
            if (rc < 0)
                return 1;
            break;
        }
        step(s);
        if (s->scrub > 0 && s->step % s->scrub == 0 && ftkit_scrub(ft, NULL) < 0)
            return 1;
        if (s->wait > 0 && s->step % s->wait == 0 && ftkit_wait(ft) < 0)
            return 1;
        if (s->delay_ms > 0) {
            struct timespec t = { s->delay_ms / 1000, s->delay_ms % 1000 * 1000000L };
            nanosleep(&t, NULL);
        }
    }
    (void)FTK_FAULT("app.end");
    tell_sent(ft, s);
    if (s->rank != 0 || !s->out)
        return 0;
    char path[512];
    ftkit_info info = { .size = sizeof info };
    snprintf(path, sizeof path, s->halves ? "%s.%d" : "%s", s->out, s->half);
    FILE *f = fopen(path, "w");
    for (int r = 0; f && r < s->size; r++)
        fprintf(f, "%d %016llx\n", r, (unsigned long long)hashes[r]);
    if (f && s->halves && ftkit_query(ft, &info) == FTKIT_OK)
        fprintf(f, "%d rollbacks\n", info.rollbacks);
    return f && fclose(f) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct state s = { .steps = 30, .items = 1000, .style = "mixed", .percent = 10 };
    ftkit_ctx *ft = NULL;
    int opt;
    s.derived = MPI_COMM_NULL;
    setlocale(LC_NUMERIC, ""); /* a decimal comma, where the test wants one */
    while ((opt = getopt(argc, argv, "s:n:o:c:fd:p:k:HBS:W:b:w:lg:muex:a:iINA:")) != -1) {
        switch (opt) {
        case 's':
            s.steps = atoi(optarg);
            break;
        case 'n':
            s.items = atoi(optarg);
            break;
        case 'o':
            s.out = optarg;
            break;
        case 'c':
            s.config = optarg;
            break;
        case 'H':
            s.halves = 1;
            break;
        case 'B':
            s.bottom = 1;
            break;
        case 'S':
            s.scrub = atoi(optarg);
            break;
        case 'W':
            s.wait = atoi(optarg);
            break;
        case 'b':
            s.blocks = atoi(optarg);
            break;
        case 'w':
            s.percent = atoi(optarg);
            break;
        case 'l':
            s.last = 1;
            break;
        case 'g':
            s.grow_by = atoi(optarg);
            break;
        case 'm':
            s.tell = 1;
            break;
        case 'u':
            s.unchanged = 1;
            break;
        case 'e':
            s.onward = 1;
            break;
        case 'i':
            s.deaf = 1;
            break;
        case 'I':
            s.reads = 1;
            s.steps = -1;
            break;
        case 'N':
            s.handles = 1;
            break;
        case 'f':
            s.no_finish = 1;
            break;
        case 'd':
            s.delay_ms = atoi(optarg);
            break;
        case 'x':
            s.code = atoi(optarg);
            break;
        case 'a':
            s.abort_at = atoi(optarg);
            break;
        case 'A':
            s.crash_at = atoi(optarg);
            break;
        case 'p':
            s.pids = optarg;
            break;
        case 'k':
            s.style = optarg;
            break;
        default:
            return 2;
        }
    }
    MPI_Init(&argc, &argv);
    if (s.handles)
        take_signals();
    MPI_Comm world = MPI_COMM_WORLD;
    if (s.halves) {
        int rank, size;
        MPI_Comm_rank(world, &rank);
        MPI_Comm_size(world, &size);
        s.half = 12 * rank >= 5 * size;
        MPI_Comm_split(MPI_COMM_WORLD, s.half, rank, &world);
    }
    int rc = ftkit_open(world, s.config, &ft);
    if (rc != FTKIT_OK) {
        fprintf(stderr, "solver: open: %s: %s\n", ftkit_strerror(rc), ftkit_detail(NULL));
        MPI_Finalize();
        return 1;
    }
    if (s.halves)
        MPI_Comm_free(&world);
    rc = ftkit_bind_comm(ft, &s.comm);
    setup(&s);
    rc |= register_all(ft, &s);
    if (rc != 0) {
        fprintf(stderr, "solver: register: %s\n", ftkit_detail(ft));
        return 1;
    }
    note_pid(&s);
    rc = ftkit_recover(ft, NULL);
    if (rc < 0)
        fprintf(stderr, "solver: rank %d: recover: %s: %s\n", s.rank, ftkit_strerror(rc),
            ftkit_detail(ft));
    int bad = rc < 0 || run(ft, &s) != 0;
    if (s.derived != MPI_COMM_NULL)
        MPI_Comm_free(&s.derived);
    rc = ftkit_close(&ft);
    if (rc != FTKIT_OK)
        fprintf(stderr, "solver: close: %s: %s\n", ftkit_strerror(rc), ftkit_detail(NULL));
    free(s.x);
    free(s.big);
    free(s.g);
    free(s.grow);
    MPI_Finalize();
    return bad || rc != FTKIT_OK ? 1 : s.code;
}
