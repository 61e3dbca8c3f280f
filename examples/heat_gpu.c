/* heat_gpu: the heat equation with its arrays in the memory of GPUs, through failures.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An explicit 5-point scheme.  Each rank has a band of rows x nx cells with a ghost row on both
 * sides.  Two arrays in device memory change places in each step.  ftkit gets the address of an
 * array as it is: there is no copy in the program, and no code that packs.
 *
 * The MPI need not know GPUs: ghost rows travel by way of host memory.  The program is built
 * without CUDA: it loads the driver, and brings its kernel as a text (PTX).
 *
 * An error in a kernel ends the context of the device, and only the end of the process helps.
 * ftkit ends such a process, and a spare replaces it.  Calls of the program on the device fail
 * then, too: the program ends itself, which has the same effect.
 *
 *   heat_gpu [-n NX] [-r ROWS] [-s STEPS]     ROWS of each rank
 *
 * The last line is the same with and without failures. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>

#define EXAMPLE_NAME "heat_gpu"
#include "example.h"

/* ---- The device ------------------------------------------------------------------------- */

typedef unsigned long long address; /* CUdeviceptr */

#define DRIVER(X)                                                                                  \
    X(cuInit, (unsigned flags))                                                                    \
    X(cuDevicePrimaryCtxRetain, (void **context, int device))                                      \
    X(cuCtxSetCurrent, (void *context))                                                            \
    X(cuCtxSynchronize, (void))                                                                    \
    X(cuMemAlloc_v2, (address * p, size_t bytes))                                                  \
    X(cuMemsetD8_v2, (address p, unsigned char value, size_t bytes))                               \
    X(cuMemcpyDtoH_v2, (void *to, address from, size_t bytes))                                     \
    X(cuMemcpyHtoD_v2, (address to, const void *from, size_t bytes))                               \
    X(cuModuleLoadData, (void **module, const void *text))                                         \
    X(cuModuleGetFunction, (void **function, void *module, const char *name))                      \
    X(cuLaunchKernel,                                                                              \
        (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,          \
            unsigned bz, unsigned shared, void *stream, void **args, void **extra))
#define DECLARE(name, args) static int(*name) args; /* NOLINT(bugprone-macro-parentheses) */
DRIVER(DECLARE)

/* next[i] = u[i] + 0.2 (left + right + u[i - nx] + u[i + nx] - 4 u[i]), one thread a cell.  The
 * multiplications and additions are not fused: so the result does not depend on the device. */
static const char kernel[] =
    ".version 6.3\n.target sm_50\n.address_size 64\n.visible .entry heat(\n"
    ".param .u64 heat_param_0,\n.param .u64 heat_param_1,\n.param .u64 heat_param_2\n)\n{\n"
    ".reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .f64 %fd<19>;\n.reg .b64 %rd<20>;\n"
    "ld.param.u64 %rd7, [heat_param_0];\nld.param.u64 %rd5, [heat_param_1];\n"
    "ld.param.u64 %rd6, [heat_param_2];\ncvta.to.global.u64 %rd1, %rd7;\nmov.u32 %r1, %ntid.x;\n"
    "mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %tid.x;\nmad.lo.s32 %r4, %r2, %r1, %r3;\n"
    "cvt.u64.u32 %rd2, %r4;\nmov.u32 %r5, %ctaid.y;\nadd.s32 %r6, %r5, 1;\ncvt.u64.u32 %rd8, %r6;\n"
    "mul.lo.s64 %rd9, %rd8, %rd6;\nadd.s64 %rd3, %rd9, %rd2;\nsetp.ge.u64 %p1, %rd2, %rd6;\n"
    "@%p1 bra $L__BB0_6;\ncvt.u32.u64 %r7, %rd2;\nsetp.eq.s32 %p2, %r7, 0;\n"
    "shl.b64 %rd10, %rd3, 3;\n"
    "add.s64 %rd4, %rd1, %rd10;\nmov.f64 %fd18, 0d0000000000000000;\nmov.f64 %fd17, %fd18;\n"
    "@%p2 bra $L__BB0_3;\nld.global.f64 %fd17, [%rd4+-8];\n$L__BB0_3:\nadd.s64 %rd11, %rd2, 1;\n"
    "setp.ge.u64 %p3, %rd11, %rd6;\n@%p3 bra $L__BB0_5;\nld.global.f64 %fd18, [%rd4+8];\n"
    "$L__BB0_5:\n"
    "sub.s64 %rd12, %rd3, %rd6;\nshl.b64 %rd13, %rd12, 3;\nadd.s64 %rd14, %rd1, %rd13;\n"
    "ld.global.f64 %fd7, [%rd14];\nadd.rn.f64 %fd8, %fd17, %fd18;\nadd.rn.f64 %fd9, %fd8, %fd7;\n"
    "shl.b64 %rd15, %rd6, 3;\nadd.s64 %rd16, %rd4, %rd15;\nld.global.f64 %fd10, [%rd16];\n"
    "add.rn.f64 %fd11, %fd9, %fd10;\nld.global.f64 %fd12, [%rd4];\n"
    "mul.rn.f64 %fd13, %fd12, 0dC010000000000000;\nadd.rn.f64 %fd14, %fd11, %fd13;\n"
    "mul.rn.f64 %fd15, %fd14, 0d3FC999999999999A;\nadd.rn.f64 %fd16, %fd12, %fd15;\n"
    "cvta.to.global.u64 %rd17, %rd5;\nadd.s64 %rd19, %rd17, %rd10;\nst.global.f64 [%rd19], %fd16;\n"
    "$L__BB0_6:\nret;\n}\n";

/* Each call of the driver.  After an error the context is of no use: the process ends, and a spare
 * takes its place. */
static void check(int code, const char *call)
{
    if (code == 0)
        return;
    fprintf(stderr, "heat_gpu: %s: CUDA error %d: this process ends\n", call, code);
    raise(SIGKILL);
}
#define CU(call) check((call), #call)

/* For the driver an address is a number. */
static address at(const void *p, size_t bytes)
{
    return (address)(uintptr_t)p + bytes;
}

/* fn: a pointer to a function, which ISO C does not convert from dlsym()'s pointer to an object. */
static int find(void *driver, const char *name, void *fn, char *err, size_t bytes)
{
    void *found = dlsym(driver, name);
    memcpy(fn, &found, sizeof found);
    if (!found)
        snprintf(err, bytes, "the driver has no %s", name);
    return found != NULL;
}

/* Returns 0 with the reason in err. */
static int load_driver(char *err, size_t bytes)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int all = driver != NULL;
    if (!driver)
        snprintf(err, bytes, "%s", dlerror());
#define LOAD(name, args) all = all && find(driver, #name, &(name), err, bytes);
    DRIVER(LOAD)
    return all;
}

/* ---- The grid --------------------------------------------------------------------------- */

struct grid {
    int nx, rows; /* cells of a row; rows of this rank */
    size_t row;   /* bytes of a row */
    void *u;      /* [rows + 2][nx] in device memory, registered */
    void *next;   /* the same shape: scratch */
    double *edge; /* host memory: first and last row, ghost rows above and below */
    void *heat;   /* the kernel */
};

static void start_device(struct grid *g)
{
    void *context, *module;
    CU(cuInit(0));
    CU(cuDevicePrimaryCtxRetain(&context, 0));
    CU(cuCtxSetCurrent(context));
    CU(cuModuleLoadData(&module, kernel));
    CU(cuModuleGetFunction(&g->heat, module, "heat"));
}

static void allocate(struct grid *g)
{
    const size_t bytes = (size_t)(g->rows + 2) * g->row;
    g->edge = calloc(4, g->row);
    if (!g->edge)
        exit(1);
    address p[2];
    CU(cuMemAlloc_v2(&p[0], bytes));
    CU(cuMemAlloc_v2(&p[1], bytes));
    g->u = (void *)(uintptr_t)p[0];
    g->next = (void *)(uintptr_t)p[1];
    CU(cuMemsetD8_v2(p[1], 0, bytes));
}

/* The first state; every cell differs. */
static void fill(struct grid *g, int rank)
{
    CU(cuMemsetD8_v2(at(g->u, 0), 0, (size_t)(g->rows + 2) * g->row));
    for (int y = 0; y < g->rows; y++) {
        for (int x = 0; x < g->nx; x++)
            g->edge[x] = (double)((x * 7919LL + y * 104729LL + rank) % 1000);
        CU(cuMemcpyHtoD_v2(at(g->u, (size_t)(y + 1) * g->row), g->edge, g->row));
    }
}

/* Ghost rows.  The MPI calls fail after a failure, and ftkit_step() restores the grid. */
static void exchange(struct grid *g, MPI_Comm comm, int rank, int size)
{
    const int up = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    const int down = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
    double *first = g->edge, *last = first + g->nx, *above = last + g->nx, *below = above + g->nx;
    CU(cuMemcpyDtoH_v2(first, at(g->u, g->row), g->row));
    CU(cuMemcpyDtoH_v2(last, at(g->u, (size_t)g->rows * g->row), g->row));
    memset(above, 0, 2 * g->row); /* the rim is cold */
    MPI_Sendrecv(first, g->nx, MPI_DOUBLE, up, 1, below, g->nx, MPI_DOUBLE, down, 1, comm,
        MPI_STATUS_IGNORE);
    MPI_Sendrecv(
        last, g->nx, MPI_DOUBLE, down, 2, above, g->nx, MPI_DOUBLE, up, 2, comm, MPI_STATUS_IGNORE);
    CU(cuMemcpyHtoD_v2(at(g->u, 0), above, g->row));
    CU(cuMemcpyHtoD_v2(at(g->u, (size_t)(g->rows + 1) * g->row), below, g->row));
}

static void compute(struct grid *g)
{
    unsigned long long nx = (unsigned long long)g->nx;
    address u = at(g->u, 0), next = at(g->next, 0);
    void *args[] = { &u, &next, &nx };
    CU(cuLaunchKernel(g->heat, ((unsigned)g->nx + 255) / 256, (unsigned)g->rows, 1, 256, 1, 1, 0,
        NULL, args, NULL));
    void *old = g->u; /* the registered array is another one in each step */
    g->u = g->next;
    g->next = old;
}

/* A number that depends on every bit and every place. */
static unsigned long long sum(struct grid *g)
{
    unsigned long long all = 0, bits;
    CU(cuCtxSynchronize());
    for (int y = 0; y < g->rows; y++) {
        CU(cuMemcpyDtoH_v2(g->edge, at(g->u, (size_t)(y + 1) * g->row), g->row));
        for (int x = 0; x < g->nx; x++) {
            memcpy(&bits, &g->edge[x], sizeof bits);
            all +=
                bits * (2 * ((unsigned long long)x + (unsigned long long)y * (unsigned)g->nx) + 1);
        }
    }
    return all;
}

/* ---- The program ------------------------------------------------------------------------ */

/* Returns 0 when all steps are done. */
static int run(ftkit_ctx *ft, struct grid *g, MPI_Comm *comm, int steps)
{
    int step = 0, rank, size, rc;
    size_t count = (size_t)(g->rows + 2) * (size_t)g->nx;
    ftkit_register_replicated(ft, "step", &step, 1, MPI_INT);
    /* the address changes, the number of items does not: no function to resize is needed */
    ftkit_register_growing(ft, "u", &g->u, &count, MPI_DOUBLE, NULL, NULL);
    while (ftkit_step(ft, &rc)) {
        MPI_Comm_rank(*comm, &rank);
        MPI_Comm_size(*comm, &size);
        if (rc == FTKIT_NO_SET) {
            step = 0;
            fill(g, rank);
        } else if (rc < 0 && rank == 0) {
            fprintf(stderr, "heat_gpu: %s: %s\n", ftkit_strerror(rc), ftkit_detail(ft));
        }
        if (step >= steps) {
            ftkit_end(ft);
            continue;
        }
        exchange(g, *comm, rank, size);
        compute(g);
        step++;
    }
    if (rc < 0)
        fprintf(stderr, "heat_gpu: %s: %s\n", ftkit_strerror(rc), ftkit_detail(ft));
    if (rc < 0 || step < steps)
        return 1;
    unsigned long long mine = sum(g), all = 0;
    MPI_Reduce(&mine, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, *comm);
    MPI_Comm_rank(*comm, &rank);
    if (rank == 0)
        printf("heat_gpu: step %d, sum %016llx\n", step, all);
    return 0;
}

int main(int argc, char **argv)
{
    struct grid g = { .nx = 1024, .rows = 256 };
    int steps = 1000;
    const struct opt table[] = {
        { "-n", "NX", "cells of a row (1024)", 'i', &g.nx, 1, 1000000 },
        { "-r", "ROWS", "rows of each rank (256)", 'i', &g.rows, 1, 1000000 },
        { "-s", "STEPS", "time steps (1000)", 'i', &steps, 0, 1000000000 },
        { NULL, NULL, NULL, 0, NULL, 0, 0 },
    };
    char err[4200] = "";
    ftkit_ctx *ft;
    MPI_Comm comm;

    MPI_Init(&argc, &argv);
    int rc = options_parse(table, argc, argv, err, sizeof err);
    if (rc == 0 && !load_driver(err, sizeof err))
        rc = -1;
    int code = ready(rc, table, NULL, err, sizeof err);
    if (code < 0) {
        rc = ftkit_open(MPI_COMM_WORLD, NULL, &ft); /* spares wait in here */
        if (rc == FTKIT_OK) {
            ftkit_bind_comm(ft, &comm);
            g.row = (size_t)g.nx * sizeof(double);
            start_device(&g); /* not before: the context of a spare takes 0.5 GiB of the device */
            allocate(&g);
            code = run(ft, &g, &comm, steps);
            rc = ftkit_close(&ft);
        }
        code = exit_code(rc, code);
    }
    free(g.edge);
    MPI_Finalize();
    return code;
}
