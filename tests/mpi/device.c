/* A program with regions in memory of a device, for tests/device.t.
 *
 *   device STEPS [WORD...]
 *
 * Each rank has several blocks, of which one changes in a step; two arrays that change places in
 * each step; a region that grows; and a replicated region with holes.  The rows of a global array
 * with halo are divided over the ranks.  Kernels on a stream that waits for no other compute them,
 * so an access that does not wait gets old numbers.  After each call of ftkit_checkpoint() each
 * number is compared with the one that follows from its place and the step.
 *
 *   shrink   the regions that each rank has for itself are left out
 *   pool     the memory is that of a pool, which names no context
 *   context  the memory is that of a context of the program's own on the second device
 *   fork     a child process is forked before the first set, and lives until the end
 *   none     the memory is host memory, and the driver is not loaded
 *   alone    only the region that grows is in memory of the device
 *   streams  the program names the stream of its kernels for each region
 *   wrong    the same, but there is no such stream
 *   hip      the memory is that of a device of HIP, not of CUDA
 *   goes     the program goes on without a set that is not written
 * What rank 1 does before the set of step 4, or with the word `first` of step 0, in its first life:
 *   free     it gives memory back that is registered
 *   short    it registers more memory than it has
 *   grow     it has grown an array for which the library has to allocate
 *   capture  it captures a graph, on a stream that waits for the stream NULL
 *   hidden   it captures a graph, on one that does not
 *   own      it captures a graph, on the stream of its kernels
 *   bad      a kernel of it has an error
 *   quiet    the same, and the program looks at no code of the driver
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../lib/fakecuda.h"
#include "../lib/fakehip.h"
#include "core/ftk.h"
#include "ftkit.h"

enum { BLOCKS = 5, BLOCK = 40000, ROWS = 41, COLUMNS = 7, STRIDED = 9000, SWAPPED = 12345 };

static ftkit_ctx *ft;
static MPI_Comm comm;
static int rank, size, steps, step;
static int nwords;
static char **words;
static void *driver, *stream, *add, *bad;
static CUdeviceptr x, u, next, strided, grid, grown;
static size_t nu, ngrown, grown_room, row, rows;
static int restored; /* a set, when the process began */
static int growing;  /* the next memory is that of grown */
static pid_t child;

static int has(const char *word)
{
    for (int i = 0; i < nwords; i++)
        if (strcmp(words[i], word) == 0)
            return 1;
    return 0;
}

/* The address of a function of the driver.  Those of HIP have the same arguments, by their size. */
static void *function(const char *name)
{
    static const char *const of_hip[][2] = { { "cuInit", "hipInit" },
        { "cuStreamCreate", "hipStreamCreateWithFlags" },
        { "cuStreamSynchronize", "hipStreamSynchronize" },
        { "cuStreamBeginCapture_v2", "hipStreamBeginCapture" },
        { "cuStreamEndCapture", "hipStreamEndCapture" },
        { "cuModuleLoadData", "hipModuleLoadData" },
        { "cuModuleGetFunction", "hipModuleGetFunction" },
        { "cuLaunchKernel", "hipModuleLaunchKernel" }, { "cuMemAlloc_v2", "hipMalloc" },
        { "cuMemAllocAsync", "hipMallocAsync" }, { "cuMemFree_v2", "hipFree" },
        { "cuMemcpyDtoH_v2", "hipMemcpyDtoH" }, { "cuMemcpyHtoD_v2", "hipMemcpyHtoD" } };
    for (size_t i = 0; has("hip") && i < sizeof of_hip / sizeof of_hip[0]; i++)
        if (strcmp(name, of_hip[i][0]) == 0)
            return dlsym(driver, of_hip[i][1]);
    return dlsym(driver, name);
}

/* A function of the driver, by its prototype. */
#define CU(name) ((__typeof__(&name))function(#name))

static void must(int code, const char *call)
{
    if (code == 0)
        return;
    fprintf(stderr, "device: rank %d: %s: error %d\n", rank, call, code);
    if (!has("quiet"))
        raise(SIGKILL);
}
#define MUST(name, ...) must(CU(name)(__VA_ARGS__), #name)

static void start_context(void)
{
    void *context;
    MUST(cuInit, 0);
    if (has("hip")) {
        must(((__typeof__(&hipSetDevice))dlsym(driver, "hipSetDevice"))(has("context")), "device");
        return;
    }
    MUST(cuDevicePrimaryCtxRetain, &context, 0);
    MUST(cuCtxSetCurrent, context);
    if (has("context"))
        MUST(cuCtxCreate_v2, &context, 0, 1);
}

static void start_device(void)
{
    void *module;
    const unsigned flags = 1; /* the stream waits for no other */
    driver = dlopen(has("hip") ? "libamdhip64.so.6" : "libcuda.so.1", RTLD_NOW);
    if (!driver)
        must(1, dlerror());
    start_context();
    MUST(cuStreamCreate, &stream, flags);
    MUST(cuModuleLoadData, &module, "");
    MUST(cuModuleGetFunction, &add, module, "add");
    MUST(cuModuleGetFunction, &bad, module, "bad");
}

static int is_host(CUdeviceptr p)
{
    return has("none") || (has("alone") && p != grown);
}

static CUdeviceptr alloc(size_t items)
{
    CUdeviceptr p = 0;
    const size_t bytes = (items ? items : 1) * sizeof(double);
    if (has("none") || (has("alone") && !growing))
        return (CUdeviceptr)(uintptr_t)malloc(bytes);
    if (has("pool"))
        MUST(cuMemAllocAsync, &p, bytes, stream);
    else
        MUST(cuMemAlloc_v2, &p, bytes);
    return p;
}

static void put(CUdeviceptr to, const double *from, size_t items)
{
    if (is_host(to))
        memcpy((void *)(uintptr_t)to, from, items * sizeof *from);
    else
        MUST(cuMemcpyHtoD_v2, to, from, items * sizeof *from);
}

/* Wait for the kernels, and copy. */
static double *get(CUdeviceptr from, size_t items)
{
    double *p = malloc((items ? items : 1) * sizeof *p);
    if (!p)
        abort();
    if (is_host(from)) {
        memcpy(p, (void *)(uintptr_t)from, items * sizeof *p);
        return p;
    }
    MUST(cuStreamSynchronize, stream);
    if (items > 0)
        MUST(cuMemcpyDtoH_v2, p, from, items * sizeof *p);
    return p;
}

static void add_to(CUdeviceptr p, size_t items, double value)
{
    unsigned long long n = items;
    void *args[] = { &p, &n, &value };
    double *h = (double *)(uintptr_t)p;
    if (!is_host(p))
        MUST(cuLaunchKernel, add, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL);
    else
        for (size_t i = 0; i < items; i++)
            h[i] += value;
}

/* ---- what is to be in each place at step s ------------------------------------------------ */

/* Block b of x changes in the steps b, b + BLOCKS, ... */
static double of_x(size_t i, int s)
{
    int b = (int)(i / BLOCK);
    return (double)rank * 1e6 + (double)i + 0.25 * ((s + BLOCKS - 1 - b) / BLOCKS);
}

static double of_u(size_t i, int s)
{
    return (double)i + 4.0 * s + rank;
}

static double of_grid(size_t r, size_t c, int s)
{
    return (double)(r * COLUMNS + c) + 0.5 * s;
}

static double of_strided(size_t i, int s)
{
    return (double)i + 0.125 * s;
}

static size_t want_grown(int s)
{
    return 1000 + 4000 * (size_t)(s % 3);
}

static double of_grown(size_t i, int s)
{
    return (double)(rank + 1) * (double)i + s;
}

static int wrong(const char *what, size_t i)
{
    fprintf(stderr, "device: rank %d of %d, step %d: %s, item %zu\n", rank, size, step, what, i);
    return 1;
}

static int check_own(void)
{
    int bad_items = 0;
    double *hx = get(x, (size_t)BLOCKS * BLOCK), *hu = get(u, SWAPPED), *hg = get(grown, ngrown);
    for (size_t i = 0; i < (size_t)BLOCKS * BLOCK && !bad_items; i++)
        bad_items = hx[i] != of_x(i, step) && wrong("x", i);
    for (size_t i = 0; i < SWAPPED && !bad_items; i++)
        bad_items = hu[i] != of_u(i, step) && wrong("u", i);
    if (ngrown != want_grown(step))
        bad_items = wrong("size of grown", ngrown);
    for (size_t i = 0; i < ngrown && !bad_items; i++)
        bad_items = hg[i] != of_grown(i, step) && wrong("grown", i);
    free(hx), free(hu), free(hg);
    return bad_items;
}

static int check(void)
{
    int bad_items = 0;
    double *hs = get(strided, (size_t)2 * STRIDED);
    double *hg = get(grid, (rows + 2) * (COLUMNS + 2));
    for (size_t i = 0; i < STRIDED && !bad_items; i++)
        bad_items =
            (hs[2 * i] != of_strided(i, step) || hs[2 * i + 1] != -7) && wrong("strided", i);
    for (size_t r = 0; r < rows && !bad_items; r++)
        for (size_t c = 0; c < COLUMNS && !bad_items; c++)
            bad_items = hg[(r + 1) * (COLUMNS + 2) + c + 1] != of_grid(row + r, c, step)
                        && wrong("grid", r * COLUMNS + c);
    free(hs), free(hg);
    return bad_items || (!has("shrink") && check_own());
}

/* ---- the program --------------------------------------------------------------------------- */

static void fill_grown(int s)
{
    double *h = malloc(want_grown(s) * sizeof *h);
    if (!h)
        abort();
    for (size_t i = 0; i < want_grown(s); i++)
        h[i] = of_grown(i, s);
    if (want_grown(s) > grown_room) {
        growing = 1;
        grown = alloc(want_grown(s));
        growing = 0;
        grown_room = want_grown(s);
    }
    ngrown = want_grown(s);
    put(grown, h, ngrown);
    free(h);
}

static void compute(void)
{
    const double one_cell = 0.125;
    if (!has("shrink")) {
        add_to(x + (size_t)(step % BLOCKS) * BLOCK * sizeof(double), BLOCK, 0.25);
        double *h = get(u, SWAPPED);
        put(next, h, SWAPPED);
        free(h);
        add_to(next, SWAPPED, 4);
        CUdeviceptr other = u;
        u = next;
        next = other;
    }
    double *cells = get(strided, (size_t)2 * STRIDED);
    for (size_t i = 0; i < STRIDED; i++)
        cells[2 * i] += one_cell;
    put(strided, cells, (size_t)2 * STRIDED);
    free(cells);
    add_to(grid, (rows + 2) * (COLUMNS + 2), 0.5);
    step++;
    if (!has("shrink"))
        fill_grown(step);
}

static int place_grid(void)
{
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    row = (size_t)ROWS * (size_t)rank / (size_t)size;
    rows = (size_t)ROWS * (size_t)(rank + 1) / (size_t)size - row;
    grid = alloc((rows + 2) * (COLUMNS + 2));
    const size_t global[2] = { ROWS, COLUMNS }, local[2] = { rows, COLUMNS }, at[2] = { row, 0 },
                 halo[2] = { 1, 1 };
    return ftkit_register_array(
        ft, "grid", (void *)(uintptr_t)grid, MPI_DOUBLE, 2, global, local, at, halo);
}

static int on_repair(ftkit_ctx *ctx, MPI_Comm now_comm, void *arg)
{
    int n;
    (void)ctx, (void)now_comm, (void)arg;
    MPI_Comm_size(comm, &n);
    return n == size ? 0 : place_grid();
}

static int resize_grown(void **data, size_t count, void *arg)
{
    (void)arg;
    if (count > grown_room) {
        growing = 1;
        *data = (void *)(uintptr_t)alloc(count);
        growing = 0;
        grown_room = count;
    }
    return 0;
}

static void fill(void)
{
    double *h = malloc((size_t)BLOCKS * BLOCK * sizeof *h);
    if (!h)
        abort();
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < COLUMNS; c++)
            h[(r + 1) * (COLUMNS + 2) + c + 1] = of_grid(row + r, c, 0);
    put(grid, h, (rows + 2) * (COLUMNS + 2));
    for (size_t i = 0; i < (size_t)2 * STRIDED; i++)
        h[i] = i % 2 ? -7 : of_strided(i / 2, 0);
    put(strided, h, (size_t)2 * STRIDED);
    if (!has("shrink")) {
        for (size_t i = 0; i < SWAPPED; i++)
            h[i] = of_u(i, 0);
        put(u, h, SWAPPED);
        for (size_t i = 0; i < (size_t)BLOCKS * BLOCK; i++)
            h[i] = of_x(i, 0);
        put(x, h, (size_t)BLOCKS * BLOCK);
        fill_grown(0);
    }
    free(h);
}

static int name_streams(void)
{
    static const char *const regions[] = { "grid", "strided", "grown", "x", "u" };
    int rc = FTKIT_OK;
    for (int i = 0; has("streams") && rc == FTKIT_OK && i < (has("shrink") ? 2 : 5); i++)
        rc = ftkit_device_stream(ft, regions[i], has("wrong") ? &step : stream);
    return rc;
}

/* The regions, as they are at step 0. */
static int prepare(void)
{
    MPI_Datatype every_other;
    int rc = ftkit_register_replicated(ft, "step", &step, 1, MPI_INT);
    if (!has("shrink")) /* before the driver is loaded: there is no such memory yet */
        rc |= ftkit_register_growing(ft, "grown", (void **)&grown, &ngrown, MPI_DOUBLE,
            has("grow") ? NULL : resize_grown, NULL);
    if (!has("none"))
        start_device();
    rc |= place_grid();
    strided = alloc((size_t)2 * STRIDED);
    rc |= MPI_Type_vector(STRIDED, 1, 2, MPI_DOUBLE, &every_other);
    rc |= ftkit_register_replicated(ft, "strided", (void *)(uintptr_t)strided, 1, every_other);
    rc |= MPI_Type_free(&every_other);
    if (!has("shrink")) {
        x = alloc((size_t)BLOCKS * BLOCK);
        u = alloc(SWAPPED);
        next = alloc(SWAPPED);
        nu = SWAPPED;
        const size_t items = (size_t)BLOCKS * BLOCK + (has("short") && rank == 1 ? 4096 : 0);
        rc |= ftkit_register(ft, "x", (void *)(uintptr_t)x, items, MPI_DOUBLE);
        rc |= ftkit_register_growing(ft, "u", (void **)&u, &nu, MPI_DOUBLE, NULL, NULL);
    }
    fill();
    return rc ? rc : name_streams();
}

static void launch_bad(void)
{
    MUST(cuLaunchKernel, bad, 1, 1, 1, 1, 1, 1, 0, stream, (void **)&bad, NULL);
}

/* A set while a graph is captured: what it returns, and what becomes of the graph. */
static int captured(unsigned flags)
{
    ftkit_info before = { .size = sizeof before }, after = before;
    void *of_graph = stream, *graph;
    if (!has("own"))
        MUST(cuStreamCreate, &of_graph, flags);
    MUST(cuStreamBeginCapture_v2, of_graph, 0);
    (void)ftkit_query(ft, &before);
    int rc = ftkit_checkpoint(ft);
    (void)ftkit_query(ft, &after);
    printf("device: rank %d: %s: %s; the capture ends with %d\n", rank, ftkit_strerror(rc),
        rc == FTKIT_OK ? "" : ftkit_detail(ft), CU(cuStreamEndCapture)(of_graph, &graph));
    printf("device: rank %d: sets %d to %d\n", rank, (int)before.committed, (int)after.committed);
    return rc;
}

/* The call of the set of this step; rank 1 may make a mistake before. */
static int checkpoint(void)
{
    ftkit_info info = { .size = sizeof info };
    if (step != (has("first") ? 0 : 4) || rank != 1 || ftkit_query(ft, &info) != FTKIT_OK
        || info.incarnation > 0 || restored)
        return ftkit_checkpoint(ft);
    if (has("free"))
        MUST(cuMemFree_v2, x);
    if (has("bad") || has("quiet"))
        launch_bad();
    if (has("quiet")) /* ftkit_checkpoint() looks once in a millisecond */
        nanosleep(&(struct timespec){ 0, 5000000 }, NULL);
    if (has("capture"))
        return captured(0);
    if (has("hidden") || has("own"))
        return captured(1);
    return ftkit_checkpoint(ft);
}

static void fork_child(void)
{
    if (!has("fork"))
        return;
    child = fork();
    if (child == 0) { /* it has the registrations of its parent, and makes no call */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        pause();
        _exit(0);
    }
}

static int end_child(void)
{
    return child > 0 && (kill(child, SIGKILL) != 0 || waitpid(child, NULL, 0) != child);
}

static int run(void)
{
    int rc = ftkit_recover(ft, NULL);
    restored = rc == FTKIT_OK;
    while (rc >= 0) {
        rc = checkpoint();
        if (rc < 0 && (has("capture") || has("hidden") || has("own") || has("goes"))
            && !FTKIT_FATAL(rc))
            rc = FTKIT_OK; /* on all ranks: the set was not written */
        if (rc < 0 || check())
            break;
        (void)FTK_FAULT("app.step");
        if (step < steps) {
            MPI_Barrier(comm);
            compute();
            (void)FTK_FAULT("app.mid");
            continue;
        }
        rc = ftkit_finish(ft);
        if (rc != FTKIT_ROLLED_BACK)
            return rc < 0;
    }
    fprintf(stderr, "device: rank %d: %s: %s\n", rank, ftkit_strerror(rc), ftkit_detail(ft));
    return 1;
}

int main(int argc, char **argv)
{
    steps = argc > 1 ? atoi(argv[1]) : 0;
    words = argv + 2;
    nwords = argc > 2 ? argc - 2 : 0;
    MPI_Init(&argc, &argv);
    if (ftkit_open(MPI_COMM_WORLD, NULL, &ft) != FTKIT_OK) {
        fprintf(stderr, "device: %s\n", ftkit_detail(NULL));
        MPI_Finalize();
        return 1;
    }
    int bad_end = ftkit_bind_comm(ft, &comm) != FTKIT_OK || prepare() != 0
                  || ftkit_on_repair(ft, on_repair, NULL) != FTKIT_OK;
    if (bad_end)
        fprintf(stderr, "device: rank %d: %s\n", rank, ftkit_detail(ft));
    fork_child();
    bad_end = bad_end || run() != 0;
    bad_end |= end_child();
    if (!bad_end && rank == 0)
        printf("device: %d steps are right, %d ranks\n", step, size);
    bad_end |= ftkit_close(&ft) != FTKIT_OK;
    MPI_Finalize();
    return bad_end;
}
