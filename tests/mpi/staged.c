/* Messages between buffers in memory of a device, with the message log, for tests/device.t.
 *
 *   staged STEPS [window | origin | swap | bad | posted]
 *
 * In each step each rank computes its numbers anew on the device, and takes part in every kind of
 * call: point-to-point of few and of many bytes, with and without gaps, blocking, non-blocking,
 * persistent, combined, buffered, from any source; and collectives, reductions among them.  Results
 * are compared with those that follow from the step, and are added to the state, which is a region
 * on the device.
 * window: the ranks make a window of memory of the device; origin: they put such memory into a
 * window; swap: they get the old number of a swap into such memory.  These are mistakes.
 * bad: a kernel of rank 1 has an error at step 3, in its first life, which a message meets.
 * posted: a receive into a region on the device is under way at each set, in a registered variable.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/fakecuda.h"
#include "core/ftk.h"
#include "ftkit.h"

enum { N = 30000, ROOM = 8 * N };

static ftkit_ctx *ft;
static MPI_Comm comm;
static int rank, size, steps, step;
static void *driver, *bad_kernel;
static bool fails;                 /* the word bad */
static CUdeviceptr state, out, in; /* [N], [ROOM], [ROOM] doubles */
static double *h;                  /* [ROOM] */
static bool posts;                 /* the word posted */
static CUdeviceptr ahead;          /* [N] doubles, which the receive gets */
static MPI_Request posted = MPI_REQUEST_NULL;

#define CU(name) ((__typeof__(&name))dlsym(driver, #name))
#define MUST(name, ...) must(CU(name)(__VA_ARGS__), #name)

static void must(int code, const char *call)
{
    if (code == 0)
        return;
    fprintf(stderr, "staged: rank %d: %s: CUDA error %d\n", rank, call, code);
    abort();
}

static void start_device(void)
{
    void *context, *module;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
        must(1, dlerror());
    MUST(cuInit, 0);
    MUST(cuDevicePrimaryCtxRetain, &context, 0);
    MUST(cuCtxSetCurrent, context);
    MUST(cuModuleLoadData, &module, "");
    MUST(cuModuleGetFunction, &bad_kernel, module, "bad");
    MUST(cuMemAlloc_v2, &state, N * sizeof *h);
    MUST(cuMemAlloc_v2, &out, ROOM * sizeof *h);
    MUST(cuMemAlloc_v2, &in, ROOM * sizeof *h);
    MUST(cuMemAlloc_v2, &ahead, N * sizeof *h);
    h = malloc(ROOM * sizeof *h);
    if (!h)
        abort();
}

static void *at(CUdeviceptr p)
{
    return (void *)(uintptr_t)p;
}

/* Number i of rank r in this step. */
static double value(int r, size_t i)
{
    return 1000.0 * r + (double)(i % 977) + 0.5 * step;
}

static void fill(void)
{
    for (size_t i = 0; i < ROOM; i++)
        h[i] = value(rank, i);
    MUST(cuMemcpyHtoD_v2, out, h, ROOM * sizeof *h);
    MUST(cuMemsetD8_v2, in, 0xee, ROOM * sizeof *h);
}

static const double *received(size_t n)
{
    MUST(cuMemcpyDtoH_v2, h, in, n * sizeof *h);
    return h;
}

static int wrong(const char *what, size_t i, double have, double want)
{
    fprintf(stderr, "staged: rank %d, step %d: %s: number %zu is %g, not %g\n", rank, step, what, i,
        have, want);
    return 1;
}

/* n numbers of rank r came, stride apart; each is factor times that of the rank. */
static int compare(const char *what, size_t n, size_t stride, int r, double factor)
{
    const double *got = received(n * stride);
    for (size_t i = 0; i < n; i++)
        if (got[i * stride] != factor * value(r, i * stride))
            return wrong(what, i, got[i * stride], factor * value(r, i * stride));
    double gap = 0;
    memset(&gap, 0xee, sizeof gap);
    for (size_t i = 0; stride > 1 && i + 1 < n; i++)
        if (memcmp(&got[i * stride + 1], &gap, sizeof gap) != 0)
            return wrong(what, i * stride + 1, got[i * stride + 1], gap);
    return 0;
}

/* ---- point-to-point ------------------------------------------------------------------------- */

static int ring(const char *what, int count, MPI_Datatype type, size_t n, size_t stride)
{
    const int to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Request q[2];
    MPI_Status s;
    int got = 0, bad = 0;
    fill();
    if (rank % 2 == 0) {
        MPI_Send(at(out), count, type, to, 1, comm);
        MPI_Recv(at(in), count, type, MPI_ANY_SOURCE, 1, comm, &s);
    } else {
        MPI_Recv(at(in), count, type, MPI_ANY_SOURCE, 1, comm, &s);
        MPI_Send(at(out), count, type, to, 1, comm);
    }
    MPI_Get_count(&s, type, &got);
    bad |= s.MPI_SOURCE != from || got != count;
    bad |= compare(what, n, stride, from, 1);
    fill();
    MPI_Irecv(at(in), count, type, from, 2, comm, &q[0]);
    MPI_Isend(at(out), count, type, to, 2, comm, &q[1]);
    MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
    bad |= compare(what, n, stride, from, 1);
    fill();
    MPI_Sendrecv(at(out), count, type, to, 3, at(in), count, type, from, 3, comm, &s);
    bad |= compare(what, n, stride, from, 1);
    return bad;
}

static int others(void)
{
    const int to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Request q[2];
    static double room[N + 1000];
    int bad = 0;
    fill();
    MPI_Recv_init(at(in), 700, MPI_DOUBLE, from, 4, comm, &q[0]);
    MPI_Send_init(at(out), 700, MPI_DOUBLE, to, 4, comm, &q[1]);
    for (int i = 0; i < 2; i++) {
        MPI_Startall(2, q);
        MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
        bad |= compare("persistent", 700, 1, from, 1);
        fill();
    }
    MPI_Request_free(&q[0]);
    MPI_Request_free(&q[1]);
    MPI_Buffer_attach(room, sizeof room);
    MPI_Bsend(at(out), 600, MPI_DOUBLE, to, 5, comm);
    MPI_Recv(at(in), 600, MPI_DOUBLE, from, 5, comm, MPI_STATUS_IGNORE);
    void *detached;
    int bytes;
    MPI_Buffer_detach(&detached, &bytes);
    bad |= compare("buffered", 600, 1, from, 1);
    fill();
    MPI_Sendrecv_replace(at(out), 500, MPI_DOUBLE, to, 6, from, 6, comm, MPI_STATUS_IGNORE);
    MUST(cuMemcpyDtoH_v2, h, out, 500 * sizeof *h);
    for (size_t i = 0; i < 500 && !bad; i++)
        if (h[i] != value(from, i))
            bad = wrong("replaced", i, h[i], value(from, i));
    return bad;
}

/* ---- collectives ---------------------------------------------------------------------------- */

static int blocks(const char *what, size_t n, int each) /* a block of each rank, in order */
{
    const double *got = received(n * (size_t)size);
    for (int r = 0; r < size; r++)
        for (size_t i = 0; i < n; i++) {
            const double want = value(r, each ? (size_t)rank * n + i : i);
            if (got[(size_t)r * n + i] != want)
                return wrong(what, (size_t)r * n + i, got[(size_t)r * n + i], want);
        }
    return 0;
}

static double sum_of(size_t i, int ranks)
{
    double sum = 0;
    for (int r = 0; r < ranks; r++)
        sum += value(r, i);
    return sum;
}

static int sums(const char *what, size_t n, int ranks, size_t first)
{
    const double *got = received(n);
    for (size_t i = 0; i < n; i++)
        if (got[i] != sum_of(first + i, ranks))
            return wrong(what, i, got[i], sum_of(first + i, ranks));
    return 0;
}

static int collectives(int n)
{
    int bad = 0;
    MPI_Request q;
    MPI_Datatype pairs;
    MPI_Type_vector(n, 1, 2, MPI_DOUBLE, &pairs);
    MPI_Type_commit(&pairs);
    fill();
    MPI_Bcast(rank == 1 ? at(out) : at(in), n, MPI_DOUBLE, 1, comm);
    bad |= rank != 1 && compare("broadcast", (size_t)n, 1, 1, 1);
    fill();
    MPI_Bcast(rank == 1 ? at(out) : at(in), 1, pairs, 1, comm);
    bad |= rank != 1 && compare("broadcast with gaps", (size_t)n, 2, 1, 1);
    fill();
    MPI_Allreduce(at(out), at(in), n, MPI_DOUBLE, MPI_SUM, comm);
    bad |= sums("allreduce", (size_t)n, size, 0);
    MPI_Iallreduce(at(out), at(in), n, MPI_DOUBLE, MPI_MAX, comm, &q);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
    bad |= compare("maximum", (size_t)n, 1, size - 1, 1);
    fill();
    MPI_Reduce(at(out), at(in), n, MPI_DOUBLE, MPI_SUM, 0, comm);
    bad |= rank == 0 && sums("reduce", (size_t)n, size, 0);
    MPI_Scan(at(out), at(in), n, MPI_DOUBLE, MPI_SUM, comm);
    bad |= sums("scan", (size_t)n, rank + 1, 0);
    MPI_Reduce_scatter_block(at(out), at(in), n, MPI_DOUBLE, MPI_SUM, comm);
    bad |= sums("reduce_scatter", (size_t)n, size, (size_t)rank * (size_t)n);
    MPI_Allgather(at(out), n, MPI_DOUBLE, at(in), n, MPI_DOUBLE, comm);
    bad |= blocks("allgather", (size_t)n, 0);
    fill();
    MPI_Gather(at(out), n, MPI_DOUBLE, at(in), n, MPI_DOUBLE, 0, comm);
    bad |= rank == 0 && blocks("gather", (size_t)n, 0);
    fill();
    MPI_Alltoall(at(out), n, MPI_DOUBLE, at(in), n, MPI_DOUBLE, comm);
    bad |= blocks("alltoall", (size_t)n, 1);
    MPI_Scatter(at(out), n, MPI_DOUBLE, at(in), n, MPI_DOUBLE, 0, comm);
    const double *got = received((size_t)n);
    for (size_t i = 0; i < (size_t)n && !bad; i++)
        if (got[i] != value(0, (size_t)rank * (size_t)n + i))
            bad = wrong("scatter", i, got[i], value(0, (size_t)rank * (size_t)n + i));
    MPI_Type_free(&pairs);
    return bad;
}

/* ---- the loop ------------------------------------------------------------------------------- */

static int mistakes(const char *word)
{
    MPI_Win w;
    double *base;
    if (word && strcmp(word, "window") == 0)
        return MPI_Win_create(at(out), 800, 8, MPI_INFO_NULL, comm, &w);
    if (!word || fails || posts)
        return 0;
    MPI_Win_allocate(800, 8, MPI_INFO_NULL, comm, &base, &w);
    MPI_Win_fence(0, w);
    const long one = 1;
    if (strcmp(word, "swap") == 0)
        MPI_Compare_and_swap(&one, &one, at(out), MPI_LONG, rank, 0, w);
    else
        MPI_Put(at(out), 10, MPI_DOUBLE, rank, 0, 10, MPI_DOUBLE, w);
    return 1;
}

/* The sum of all numbers of the rank before this one, over the steps. */
static int compute(void)
{
    MPI_Datatype thirds;
    MPI_Type_vector(2000, 1, 3, MPI_DOUBLE, &thirds);
    MPI_Type_commit(&thirds);
    ftkit_info info = { .size = sizeof info };
    if (fails && rank == 1 && step == 3 && ftkit_query(ft, &info) == FTKIT_OK
        && info.incarnation == 0) {
        MUST(cuLaunchKernel, bad_kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
        MPI_Recv(at(in), 5, MPI_DOUBLE, MPI_ANY_SOURCE, 1, comm, MPI_STATUS_IGNORE);
        return 1;
    }
    int bad = ring("few bytes", 5, MPI_DOUBLE, 5, 1) | ring("many bytes", N, MPI_DOUBLE, N, 1)
              | ring("gaps", 1, thirds, 2000, 3) | others() | collectives(3) | collectives(2500);
    MPI_Type_free(&thirds);
    (void)FTK_FAULT("app.mid");
    fill();
    MPI_Allreduce(at(out), at(in), N, MPI_DOUBLE, MPI_SUM, comm);
    double *sum = malloc(N * sizeof *sum);
    if (!sum)
        abort();
    MUST(cuMemcpyDtoH_v2, sum, state, N * sizeof *sum);
    const double *got = received(N);
    for (size_t i = 0; i < N; i++)
        sum[i] += got[i];
    MUST(cuMemcpyHtoD_v2, state, sum, N * sizeof *sum);
    free(sum);
    step++;
    return bad;
}

static int check(void)
{
    const int now = step;
    MUST(cuMemcpyDtoH_v2, h, state, N * sizeof *h);
    for (size_t i = 0; i < N; i++) {
        double want = 0;
        for (step = 0; step < now; step++)
            want += sum_of(i, size);
        if (h[i] != want)
            return wrong("the state", i, h[i], want);
    }
    return 0;
}

/* ---- a receive that is under way at a set ---------------------------------------------------- */

static int register_posted(void)
{
    return posts
           && (ftkit_register(ft, "ahead", at(ahead), N, MPI_DOUBLE) != FTKIT_OK
               || ftkit_register_requests(ft, "posted", &posted, 1) != FTKIT_OK);
}

/* A restore has begun the receive again, if it was in the set. */
static void post(void)
{
    const int tag = 77, from = (rank + size - 1) % size;
    if (!posts || step == steps || posted != MPI_REQUEST_NULL)
        return;
    MUST(cuMemsetD8_v2, ahead, 0xee, N * sizeof *h);
    MPI_Irecv(at(ahead), N, MPI_DOUBLE, from, tag, comm, &posted);
}

static int serve(void)
{
    const int tag = 77, to = (rank + 1) % size, from = (rank + size - 1) % size;
    int bad = 0;
    if (!posts)
        return 0;
    fill();
    MPI_Send(at(out), N, MPI_DOUBLE, to, tag, comm);
    MPI_Wait(&posted, MPI_STATUS_IGNORE);
    MUST(cuMemcpyDtoH_v2, h, ahead, N * sizeof *h);
    for (size_t i = 0; i < N && !bad; i++)
        bad = h[i] != value(from, i) && wrong("posted", i, h[i], value(from, i));
    return bad;
}

static int run(void)
{
    int rc = ftkit_recover(ft, NULL);
    while (rc >= 0) {
        post();
        rc = ftkit_checkpoint(ft);
        if (rc < 0 || check())
            break;
        if (step < steps) {
            if (serve() || compute())
                return 1;
            continue;
        }
        rc = ftkit_finish(ft);
        if (rc != FTKIT_ROLLED_BACK)
            return rc < 0;
    }
    fprintf(stderr, "staged: rank %d: %s: %s\n", rank, ftkit_strerror(rc), ftkit_detail(ft));
    return 1;
}

int main(int argc, char **argv)
{
    steps = argc > 1 ? atoi(argv[1]) : 0;
    fails = argc > 2 && strcmp(argv[2], "bad") == 0;
    posts = argc > 2 && strcmp(argv[2], "posted") == 0;
    MPI_Init(&argc, &argv);
    if (ftkit_open(MPI_COMM_WORLD, NULL, &ft) != FTKIT_OK) {
        fprintf(stderr, "staged: %s\n", ftkit_detail(NULL));
        MPI_Finalize();
        return 1;
    }
    int bad = ftkit_bind_comm(ft, &comm) != FTKIT_OK;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    start_device();
    MUST(cuMemsetD8_v2, state, 0, N * sizeof *h);
    bad |= ftkit_register_replicated(ft, "step", &step, 1, MPI_INT) != FTKIT_OK
           || ftkit_register(ft, "state", at(state), N, MPI_DOUBLE) != FTKIT_OK
           || register_posted();
    bad |= ftkit_share(ft, at(state), N * sizeof *h) != FTKIT_ERR_ARG;
    bad = bad || mistakes(argc > 2 ? argv[2] : NULL) || run();
    if (!bad && rank == 0)
        printf("staged: %d steps are right, %d ranks\n", step, size);
    bad |= ftkit_close(&ft) != FTKIT_OK;
    MPI_Finalize();
    return bad;
}
