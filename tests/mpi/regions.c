/* Every kind of region on every rank, and the memory that protecting them takes.  The
 * program knows what each region must hold at each step, so it checks itself, bit by bit,
 * after every ftkit_checkpoint().
 *
 *   regions -o RESULT [-m kinds|memory|growth] [-b BYTES,BYTES,...] [-s STEPS] [-c]
 *
 * kinds:   all kinds of regions, a flat one of each of BYTES; writes OK to RESULT.
 * memory:  one region of BYTES: writes the memory in use beyond that before the first
 * set, in units of BYTES: "steady MIN MAX" and "peak MIN MAX" over the ranks. growth:
 * small regions; writes "step S repairs R rss KIB heap BYTES" of rank 0 now and then, and
 * OK. -c: a set at every call of ftkit_checkpoint() is durable as well, when one is
 * written.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <hdf5.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/ftk.h"
#include "ftkit.h"

#define MAX_FLAT 16
#define HOLE 0xee
#define PAIRS 999 /* of the strided region: of each two doubles one is saved */
#define ROWS 13   /* of the global array, per rank; ranks differ */
#define COLS 17
#define OBJECT 3001

struct app {
    const char *out, *mode;
    int steps, durable;
    size_t bytes[MAX_FLAT];
    int nbytes;
    int rank, size;
    MPI_Comm comm;
    long bad; /* regions found wrong in this process */
    /* the regions */
    int step;
    unsigned char *flat[MAX_FLAT];
    unsigned char *uneven; /* another size on every rank, 0 on rank 0 */
    size_t nuneven;
    double replicated[500];
    double strided[2 * PAIRS];
    double *array; /* halo 1 and 2 */
    size_t rows, first;
    short *list; /* grows and shrinks, realloc() */
    size_t nlist;
    void *queue; /* the same through a callback */
    size_t nqueue;
    unsigned char object[OBJECT];
    size_t nobject;
    int *moved; /* in other memory at every step */
};
#define NMOVED 4321

/* ---- What the regions hold ----------------------------------------------------------- */

static uint64_t seed_of(int region, int rank, int step)
{
    return (uint64_t)region * 1000003 + (uint64_t)rank * 10007 + (uint64_t)step * 101 + 1;
}

static uint64_t next(uint64_t *x)
{
    *x = *x * 6364136223846793005u + 1442695040888963407u;
    return *x ^ *x >> 31;
}

/* Write the contents, or compare; returns the number of wrong regions, 0 or 1. */
static int bytes_of(void *data, size_t bytes, uint64_t seed, int check)
{
    unsigned char *p = data;
    uint64_t x = seed;
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t v = next(&x);
        size_t n = bytes - i < 8 ? bytes - i : 8;
        if (!check)
            memcpy(p + i, &v, n);
        else if (memcmp(p + i, &v, n) != 0)
            return 1;
    }
    return 0;
}

/* Every other double; between them nobody else writes. */
static int strided_of(double *data, uint64_t seed, int check)
{
    double hole;
    memset(&hole, HOLE, sizeof hole);
    for (size_t i = 0; i < 2 * PAIRS; i += 2) {
        if (bytes_of(&data[i], sizeof *data, seed + i, check))
            return 1;
        if (!check)
            memcpy(&data[i + 1], &hole, sizeof hole);
        else if (memcmp(&data[i + 1], &hole, sizeof hole) != 0)
            return 1;
    }
    return 0;
}

static size_t list_size(int rank, int step)
{
    return (size_t)(step * 7919 + rank * 31) % 20000; /* and 0 in step 0 on rank 0 */
}

/* All regions at a.step: make them, or check them. */
static int contents(struct app *a, int check)
{
    int bad = 0;
    int s = a->step;
    int r = a->rank;
    size_t cells = (a->rows + 2) * (COLS + 4);
    size_t nlist = list_size(r, s);
    size_t nobject = (size_t)(s * 53 + r) % OBJECT;
    if (check) {
        bad += a->nlist != nlist || a->nqueue != 2 * nlist || a->nobject != nobject;
    } else {
        a->list = realloc(a->list, nlist * sizeof *a->list + 1);
        a->queue = realloc(a->queue, 2 * nlist + 1);
        int *moved = malloc(NMOVED * sizeof *moved); /* first: another address */
        free(a->moved);
        a->moved = moved;
        a->nlist = nlist;
        a->nqueue = 2 * nlist;
        a->nobject = nobject;
    }
    if (bad)
        return bad;
    for (int i = 0; i < a->nbytes; i++)
        bad += bytes_of(a->flat[i], a->bytes[i], seed_of(i, r, s), check);
    bad += bytes_of(a->uneven, a->nuneven, seed_of(20, r, s), check);
    bad += bytes_of(a->replicated, sizeof a->replicated, seed_of(21, 0, s), check);
    bad += strided_of(a->strided, seed_of(22, r, s), check);
    bad += bytes_of(a->array, cells * sizeof *a->array, seed_of(23, r, s), check);
    bad += bytes_of(a->list, nlist * sizeof *a->list, seed_of(24, r, s), check);
    bad += bytes_of(a->queue, 2 * nlist, seed_of(25, r, s), check);
    bad += bytes_of(a->object, nobject, seed_of(26, r, s), check);
    bad += bytes_of(a->moved, NMOVED * sizeof *a->moved, seed_of(27, r, s), check);
    return bad;
}

/* ---- Callbacks ----------------------------------------------------------------------- */

static int queue_resize(void **data, size_t count, void *arg)
{
    struct app *a = arg;
    void *p = realloc(*data, count + 1);
    if (!p || data != &a->queue)
        return 1;
    *data = p;
    return 0;
}

static int measure(void *arg, size_t *bytes)
{
    const struct app *a = arg;
    *bytes = a->nobject + 4;
    return 0;
}

static int pack(void *arg, void *buf, size_t bytes)
{
    const struct app *a = arg;
    if (bytes != a->nobject + 4)
        return 1;
    memcpy(buf, "obj", 4);
    memcpy((char *)buf + 4, a->object, a->nobject);
    return 0;
}

static int unpack(void *arg, const void *buf, size_t bytes)
{
    struct app *a = arg;
    if (bytes < 4 || bytes > sizeof a->object + 4 || memcmp(buf, "obj", 4) != 0)
        return 1;
    a->nobject = bytes - 4;
    memcpy(a->object, (const char *)buf + 4, a->nobject);
    return 0;
}

/* ---- Setting up ---------------------------------------------------------------------- */

static void setup(struct app *a)
{
    MPI_Comm_rank(a->comm, &a->rank);
    MPI_Comm_size(a->comm, &a->size);
    for (int i = 0; i < a->nbytes; i++)
        a->flat[i] = malloc(a->bytes[i]);
    a->nuneven = (size_t)a->rank * 100003;
    a->uneven = malloc(a->nuneven + 1);
    a->rows = a->rank == a->size - 1 ? 0 : ROWS + (size_t)a->rank; /* the last has none */
    a->first = (size_t)a->rank * ROWS + (size_t)(a->rank * (a->rank - 1) / 2);
    a->array = calloc((a->rows + 2) * (COLS + 4), sizeof *a->array);
    contents(a, 0);
}

static int register_all(ftkit_ctx *ft, struct app *a)
{
    size_t rows = (size_t)(a->size - 1) * ROWS + (size_t)((a->size - 1) * (a->size - 2) / 2);
    size_t global[2] = { rows, COLS };
    size_t local[2] = { a->rows, COLS };
    size_t start[2] = { a->first, 0 };
    size_t halo[2] = { 1, 2 };
    ftkit_serializer ops = { sizeof ops, measure, pack, unpack };
    MPI_Datatype half;
    char name[32];
    int rc = MPI_Type_create_resized(MPI_DOUBLE, 0, 2 * sizeof(double), &half);
    rc |= ftkit_register_replicated(ft, "step", &a->step, 1, MPI_INT);
    for (int i = 0; i < a->nbytes; i++) {
        snprintf(name, sizeof name, "flat %zu", a->bytes[i]);
        rc |= ftkit_register(ft, name, a->flat[i], a->bytes[i], MPI_BYTE);
    }
    rc |= ftkit_register(ft, "uneven", a->uneven, a->nuneven, MPI_CHAR);
    rc |= ftkit_register(ft, "nothing", NULL, 0, MPI_DOUBLE);
    rc |= ftkit_register_replicated(ft, "replicated", a->replicated, 500, MPI_DOUBLE);
    rc |= ftkit_register(ft, "strided", a->strided, PAIRS, half);
    rc |= ftkit_register_array(ft, "array", a->array, MPI_DOUBLE, 2, global, local, start, halo);
    rc |= ftkit_register_growing(ft, "list", (void **)&a->list, &a->nlist, MPI_SHORT, NULL, NULL);
    rc |= ftkit_register_growing(ft, "queue", &a->queue, &a->nqueue, MPI_CHAR, queue_resize, a);
    rc |= ftkit_register_serializer(ft, "object", &ops, a);
    rc |= ftkit_register(ft, "moved", a->moved, NMOVED, MPI_INT);
    rc |= MPI_Type_free(&half);
    return rc;
}

static void release(struct app *a)
{
    for (int i = 0; i < a->nbytes; i++)
        free(a->flat[i]);
    free(a->uneven);
    free(a->array);
    free(a->list);
    free(a->queue);
    free(a->moved);
}

/* ---- Memory -------------------------------------------------------------------------- */

/* KiB of this process that the kernel cannot take back. */
static long memory_kib(void)
{
    char line[200];
    long rss = 0;
    long lazy = 0;
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    while (f && fgets(line, sizeof line, f)) {
        (void)sscanf(line, "Rss: %ld", &rss);
        (void)sscanf(line, "LazyFree: %ld", &lazy);
    }
    if (f)
        fclose(f);
    return rss - lazy;
}

/* A thread that looks all the time. */
static struct sampler {
    pthread_t thread;
    pthread_mutex_t lock; /* protects the below */
    long peak;
    int stop;
} sampler = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void *look(void *arg)
{
    struct sampler *s = arg;
    struct timespec pause = { 0, 200000 };
    int stop = 0;
    while (!stop) {
        long now = memory_kib();
        pthread_mutex_lock(&s->lock);
        if (now > s->peak)
            s->peak = now;
        stop = s->stop;
        pthread_mutex_unlock(&s->lock);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

static int begin_looking(void)
{
    sampler.peak = sampler.stop = 0;
    return pthread_create(&sampler.thread, NULL, look, &sampler);
}

/* How much the thread has seen up to now. */
static long looked(void)
{
    pthread_mutex_lock(&sampler.lock);
    long peak = sampler.peak;
    pthread_mutex_unlock(&sampler.lock);
    return peak;
}

static long end_looking(void)
{
    pthread_mutex_lock(&sampler.lock);
    sampler.stop = 1;
    pthread_mutex_unlock(&sampler.lock);
    pthread_join(sampler.thread, NULL);
    return sampler.peak;
}

/* ---- Modes --------------------------------------------------------------------------- */

static int complain(const ftkit_ctx *ft, const struct app *a, const char *call, int rc)
{
    fprintf(stderr, "regions: rank %d: %s: %s: %s\n", a->rank, call, ftkit_strerror(rc),
        ftkit_detail(ft));
    return 1;
}

static int checkpoint(ftkit_ctx *ft, struct app *a)
{
    if (a->durable && ftkit_request(ft, 1) != FTKIT_OK)
        return complain(ft, a, "request", FTKIT_ERR_STATE);
    int rc = ftkit_checkpoint(ft);
    if (rc < 0)
        return complain(ft, a, "checkpoint", rc);
    int bad = contents(a, 1);
    if (bad)
        fprintf(stderr, "regions: rank %d, step %d: %d regions are wrong\n", a->rank, a->step, bad);
    a->bad += bad;
    return 0;
}

/* One step: nobody is more than one ahead, and the regions hold the next contents. */
static void advance(ftkit_ctx *ft, struct app *a)
{
    (void)FTK_FAULT("app.step");
    MPI_Barrier(a->comm);
    a->step++;
    contents(a, 0);
    if (ftkit_resize(ft, "moved", a->moved, NMOVED) != FTKIT_OK)
        a->bad++;
}

/* In the loop the regions stay what they are, but for their place. */
static void try_changes(ftkit_ctx *ft, struct app *a)
{
    static int more[2];
    size_t one[1] = { 1 };
    size_t zero[1] = { 0 };
    void *data = NULL;
    size_t count = 0;
    ftkit_serializer ops = { sizeof ops, measure, pack, unpack };
    int codes[] = { ftkit_register(ft, "late", more, 2, MPI_INT),
        ftkit_register_replicated(ft, "late", more, 2, MPI_INT),
        ftkit_register_array(ft, "late", more, MPI_INT, 1, one, one, zero, NULL),
        ftkit_register_growing(ft, "late", &data, &count, MPI_INT, NULL, NULL),
        ftkit_register_serializer(ft, "late", &ops, a),
        ftkit_resize(ft, "moved", a->moved, NMOVED - 1) };
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        a->bad += codes[i] != FTKIT_ERR_STATE;
    a->bad += strstr(ftkit_detail(ft), "ftkit_register_growing") == NULL;
    a->bad += ftkit_resize(ft, "moved", a->moved, NMOVED) != FTKIT_OK;
    a->bad += ftkit_unregister(ft, "late") != FTKIT_ERR_NOT_FOUND;
}

static int kinds(ftkit_ctx *ft, struct app *a, FILE *out)
{
    long all = 0;
    ftkit_info info = { .size = sizeof info };
    for (;;) {
        if (checkpoint(ft, a))
            return 1;
        if (a->step < a->steps) {
            advance(ft, a);
            try_changes(ft, a);
            continue;
        }
        MPI_Reduce(&a->bad, &all, 1, MPI_LONG, MPI_SUM, 0, a->comm);
        int rc = ftkit_finish(ft);
        if (rc < 0)
            return complain(ft, a, "finish", rc);
        if (rc == FTKIT_OK)
            break;
    }
    (void)ftkit_query(ft, &info);
    if (out)
        fprintf(out, "%s step %d repairs %d restored %llu\n", all == 0 ? "OK" : "BAD", a->step,
            info.repairs, (unsigned long long)info.restored);
    return all != 0;
}

static int memory(ftkit_ctx *ft, struct app *a, FILE *out)
{
    double unit = (double)a->bytes[0] / 1024;
    double mine[4];
    double all[4];
    /* what MPI allocates at the first use of a connection is not ours */
    char *buf = malloc(4 << 20);
    int right = (a->rank + 1) % a->size;
    int left = (a->rank + a->size - 1) % a->size;
    for (int i = 0; buf && i < 20; i++) {
        memset(buf, i, 4 << 20);
        MPI_Sendrecv(buf, 2 << 20, MPI_BYTE, right, 1, buf + (2 << 20), 2 << 20, MPI_BYTE, left, 1,
            a->comm, MPI_STATUS_IGNORE);
        MPI_Sendrecv(buf, 2 << 20, MPI_BYTE, left, 1, buf + (2 << 20), 2 << 20, MPI_BYTE, right, 1,
            a->comm, MPI_STATUS_IGNORE);
    }
    free(buf);
    malloc_trim(0);
    long before = memory_kib();
    for (int i = 0; i < 3; i++) {
        if (checkpoint(ft, a))
            return 1;
        advance(ft, a);
    }
    double steady = (double)(memory_kib() - before) / unit;
    if (begin_looking() != 0)
        return 1;
    /* the thread may get no processor during a set: go on until it has looked on all ranks */
    for (int i = 0, seen = 0; i < a->steps || (!seen && i < 200); i++) {
        if (checkpoint(ft, a))
            return 1;
        advance(ft, a);
        seen = (double)(looked() - before) >= 3 * unit;
        MPI_Allreduce(MPI_IN_PLACE, &seen, 1, MPI_INT, MPI_LAND, a->comm);
    }
    double peak = (double)(end_looking() - before) / unit;
    double after = (double)(memory_kib() - before) / unit;
    mine[0] = steady < after ? steady : after;
    mine[1] = -(steady > after ? steady : after);
    mine[2] = peak;
    mine[3] = -peak;
    MPI_Reduce(mine, all, 4, MPI_DOUBLE, MPI_MIN, 0, a->comm);
    if (out)
        fprintf(out, "steady %.3f %.3f\npeak %.3f %.3f\n", all[0], -all[1], all[2], -all[3]);
    return a->bad != 0;
}

/* No set is being written then, and HDF5 holds no free memory: what is in use is needed.  HDF5 is
 * not started here: starting takes memory, too. */
static int settle(ftkit_ctx *ft)
{
    ftkit_info info = { .size = sizeof info };
    int rc = ftkit_wait(ft);
    (void)ftkit_query(ft, &info);
    return rc == FTKIT_OK && info.durable > 0 && H5garbage_collect() < 0 ? FTKIT_ERR_STATE : rc;
}

static int growth(ftkit_ctx *ft, struct app *a, FILE *out)
{
    ftkit_info info = { .size = sizeof info };
    int rc, repairs = 0;
    while (a->step < a->steps) {
        if (checkpoint(ft, a))
            return 1;
        (void)ftkit_query(ft, &info);
        int n = a->step;
        bool round = n == 10 || n == 100 || (n > 0 && n % 200 == 0) || n == a->steps - 1;
        rc = round ? settle(ft) : FTKIT_OK;
        if (rc < 0)
            return complain(ft, a, "wait", rc);
        if (rc == FTKIT_ROLLED_BACK)
            continue;
        if (out && (round || info.repairs != repairs)) {
            malloc_trim(0);
            size_t lists = a->nlist * sizeof *a->list + a->nqueue; /* not the same always */
            fprintf(out, "step %d repairs %d rss %ld heap %zu\n", n, info.repairs, memory_kib(),
                mallinfo2().uordblks - lists);
            fflush(out);
        }
        repairs = info.repairs;
        advance(ft, a);
    }
    rc = ftkit_finish(ft);
    if (rc < 0)
        return complain(ft, a, "finish", rc);
    if (out)
        fprintf(out, "%s\n", a->bad ? "BAD" : "OK");
    return a->bad != 0;
}

static int run(ftkit_ctx *ft, struct app *a)
{
    uint64_t set = 0;
    setup(a);
    if (register_all(ft, a) != 0)
        return complain(ft, a, "register", FTKIT_ERR_STATE);
    int rc = ftkit_recover(ft, &set);
    if (rc < 0)
        return complain(ft, a, "recover", rc);
    FILE *out = a->rank == 0 && a->out ? fopen(a->out, "w") : NULL;
    if (strcmp(a->mode, "memory") == 0)
        rc = memory(ft, a, out);
    else if (strcmp(a->mode, "growth") == 0)
        rc = growth(ft, a, out);
    else
        rc = kinds(ft, a, out);
    if (out)
        rc |= fclose(out);
    return rc;
}

int main(int argc, char **argv)
{
    static struct app a = { .mode = "kinds", .steps = 12 };
    char *save = NULL;
    ftkit_ctx *ft = NULL;
    int opt;
    while ((opt = getopt(argc, argv, "o:m:b:s:c")) != -1) {
        switch (opt) {
        case 'o':
            a.out = optarg;
            break;
        case 'm':
            a.mode = optarg;
            break;
        case 's':
            a.steps = atoi(optarg);
            break;
        case 'c':
            a.durable = 1;
            break;
        case 'b':
            for (char *t = strtok_r(optarg, ",", &save); t && a.nbytes < MAX_FLAT;
                 t = strtok_r(NULL, ",", &save))
                a.bytes[a.nbytes++] = (size_t)strtoull(t, NULL, 10);
            break;
        default:
            return 2;
        }
    }
    MPI_Init(&argc, &argv);
    int rc = ftkit_open(MPI_COMM_WORLD, NULL, &ft);
    if (rc != FTKIT_OK) {
        fprintf(stderr, "regions: open: %s: %s\n", ftkit_strerror(rc), ftkit_detail(NULL));
        MPI_Finalize();
        return 1;
    }
    rc = ftkit_bind_comm(ft, &a.comm);
    int bad = rc != FTKIT_OK || run(ft, &a) != 0;
    rc = ftkit_close(&ft);
    if (rc != FTKIT_OK)
        fprintf(stderr, "regions: close: %s: %s\n", ftkit_strerror(rc), ftkit_detail(NULL));
    release(&a);
    MPI_Finalize();
    return bad || rc != FTKIT_OK;
}
