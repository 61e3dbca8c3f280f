/* heat2d: the heat equation on a rectangle, on any number of ranks, through failures.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An explicit 5-point scheme on a global array of NX x NY doubles, cut into blocks with a
 * ghost layer of one cell.  It is an ordinary MPI program: the result of no MPI call is
 * looked at.  After a failure these calls return errors and what is computed from then on
 * is worthless, until ftkit_checkpoint() puts the last committed values back.
 *
 * What makes it survive is in run(), in this order:
 *   register the state of the loop, recover,
 *   loop { checkpoint; are we done?; exchange; compute; step++ }.
 *
 * The scheme adds the same numbers in the same order wherever a cell lives, so the result
 * is the same to the last bit for every number of ranks, with and without failures. */
#define _POSIX_C_SOURCE 200809L
#include <limits.h>

#define EXAMPLE_NAME "heat2d"
#include "example.h"

#define MAX_CELLS 1000000 /* in one direction */

/* ---- The grid ----------------------------------------------------------------------
 * Row-major; u and next hold this rank's block and its ghost layer. */

struct grid {
    int n[2];            /* cells of the whole array */
    int p[2];            /* blocks in each direction; ranks beyond p[0]*p[1] have none */
    int size;            /* ranks the layout was made for, 0: none yet */
    int local[2];        /* this rank's block ... */
    int offset[2];       /* ... and where it begins in the whole array */
    int near[4];         /* ranks above, below, left, right, or MPI_PROC_NULL */
    double *u, *next;    /* [local[0] + 2][local[1] + 2] */
    unsigned char *held; /* the same shape: 1 where the temperature is fixed */
    MPI_Datatype column; /* one column of the block without ghost cells */
};

/* Cut n into p parts that differ by one at most. */
static void cut(int n, int p, int part, int *local, int *offset)
{
    *offset = (int)((long long)n * part / p);
    *local = (int)((long long)n * (part + 1) / p) - *offset;
}

/* The block of any rank, known to everybody without a message. */
static void block(const struct grid *g, int rank, int local[2], int offset[2])
{
    for (int d = 0; d < 2; d++) {
        local[d] = offset[d] = 0;
        if (rank < g->p[0] * g->p[1])
            cut(g->n[d], g->p[d], d == 0 ? rank / g->p[1] : rank % g->p[1], &local[d],
                &offset[d]);
    }
}

/* p[0] x p[1] = size with the shortest cuts and no empty block.  When the grid is too
 * small for so many ranks, the last ones get nothing to do. */
static void factorize(struct grid *g, int size)
{
    double best = 0;
    for (; best == 0; size--)
        for (int p = 1; p <= size; p++) {
            int q = size / p;
            double length = (double)p * g->n[1] + (double)q * g->n[0];
            if (p * q != size || p > g->n[0] || q > g->n[1])
                continue;
            if (best == 0 || length < best) {
                best = length;
                g->p[0] = p;
                g->p[1] = q;
            }
        }
}

static int inside(int i, int j, double ci, double cj, double radius)
{
    return (i - ci) * (i - ci) + (j - cj) * (j - cj) <= radius * radius;
}

/* Temperature of cell (i, j) in the beginning; returns 1 where it stays so: on the rim,
 * hot on a part of the left edge, and in two cold discs.  A hot disc is left to itself.
 */
static int beginning(const int n[2], int i, int j, double *value)
{
    double a = n[0], b = n[1], r = a < b ? a : b;
    *value = 0;
    if (i == 0 || j == 0 || i == n[0] - 1 || j == n[1] - 1) {
        *value = j == 0 && 4 * i >= n[0] && 4 * i < 3 * n[0] ? 100 : 0;
        return 1;
    }
    if (inside(i, j, a * 0.28, b * 0.70, r * 0.06)
        || inside(i, j, a * 0.72, b * 0.30, r * 0.06))
        return 1;
    if (inside(i, j, a * 0.5, b * 0.5, r * 0.2))
        *value = 100;
    return 0;
}

static void layout_free(struct grid *g)
{
    if (g->size > 0)
        MPI_Type_free(&g->column);
    free(g->u);
    free(g->next);
    free(g->held);
    g->u = g->next = NULL;
    g->held = NULL;
    g->size = 0;
}

/* Decompose the grid over the ranks of comm and fill this rank's block with the values of
 * the beginning.  Local: nobody else need be there.  Returns 0, or -1 without memory. */
static int layout(struct grid *g, MPI_Comm comm)
{
    int size, rank;
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    layout_free(g);
    factorize(g, size);
    block(g, rank, g->local, g->offset);
    int row = g->local[0] ? rank / g->p[1] : -2, col = g->local[0] ? rank % g->p[1] : -2;
    g->near[0] = row > 0 ? rank - g->p[1] : MPI_PROC_NULL;
    g->near[1] = row >= 0 && row < g->p[0] - 1 ? rank + g->p[1] : MPI_PROC_NULL;
    g->near[2] = col > 0 ? rank - 1 : MPI_PROC_NULL;
    g->near[3] = col >= 0 && col < g->p[1] - 1 ? rank + 1 : MPI_PROC_NULL;

    size_t width = (size_t)g->local[1] + 2, cells = ((size_t)g->local[0] + 2) * width;
    g->u = calloc(cells, sizeof *g->u);
    g->next = calloc(cells, sizeof *g->next);
    g->held = calloc(cells, 1);
    if (g->u == NULL || g->next == NULL || g->held == NULL) {
        layout_free(g);
        return -1;
    }
    for (int i = 1; i <= g->local[0]; i++)
        for (int j = 1; j <= g->local[1]; j++) {
            size_t k = (size_t)i * width + (size_t)j;
            g->held[k] = (unsigned char)beginning(
                g->n, g->offset[0] + i - 1, g->offset[1] + j - 1, &g->u[k]);
        }
    MPI_Type_vector(g->local[0], 1, (int)width, MPI_DOUBLE, &g->column);
    MPI_Type_commit(&g->column);
    g->size = size;
    return 0;
}

/* One step for the cells [i0, i1) x [j0, j1) of the block, from u into next. */
static void update(struct grid *g, int i0, int i1, int j0, int j1)
{
    size_t w = (size_t)g->local[1] + 2;
    for (int i = i0; i < i1; i++) {
        const double *u = g->u + (size_t)i * w, *up = u - w, *down = u + w;
        const unsigned char *held = g->held + (size_t)i * w;
        double *next = g->next + (size_t)i * w;
        for (int j = j0; j < j1; j++) {
            double flow = (up[j] + down[j]) + (u[j - 1] + u[j + 1]) - 4 * u[j];
            next[j] = held[j] ? u[j] : u[j] + 0.2 * flow;
        }
    }
}

/* Exchange the rim of the block, compute its inside meanwhile, then its rim. */
static void advance(struct grid *g, MPI_Comm comm)
{
    int rows = g->local[0], cols = g->local[1];
    size_t w = (size_t)cols + 2;
    double *first = g->u + w + 1, *last = g->u + (size_t)rows * w + 1;
    double *right = g->u + w + cols;
    MPI_Request req[8];
    MPI_Status status[8];
    MPI_Irecv(first - w, cols, MPI_DOUBLE, g->near[0], 1, comm, &req[0]);
    MPI_Irecv(last + w, cols, MPI_DOUBLE, g->near[1], 0, comm, &req[1]);
    MPI_Irecv(first - 1, 1, g->column, g->near[2], 3, comm, &req[2]);
    MPI_Irecv(right + 1, 1, g->column, g->near[3], 2, comm, &req[3]);
    MPI_Isend(first, cols, MPI_DOUBLE, g->near[0], 0, comm, &req[4]);
    MPI_Isend(last, cols, MPI_DOUBLE, g->near[1], 1, comm, &req[5]);
    MPI_Isend(first, 1, g->column, g->near[2], 2, comm, &req[6]);
    MPI_Isend(right, 1, g->column, g->near[3], 3, comm, &req[7]);
    update(g, 2, rows, 2, cols);
    MPI_Waitall(8, req, status);
    update(g, 1, 2, 1, cols + 1);
    update(g, rows, rows + 1, 1, cols + 1);
    update(g, 2, rows, 1, 2);
    update(g, 2, rows, cols, cols + 1);
    for (int i = 1; i <= rows; i++) /* u stays where it is: it is registered */
        memcpy(g->u + (size_t)i * w + 1, g->next + (size_t)i * w + 1,
            (size_t)cols * sizeof *g->u);
}

/* Bring the whole array together in whole[n[0]][n[1]] on rank 0 (NULL elsewhere). */
static void gather(const struct grid *g, MPI_Comm comm, double *whole)
{
    int rank, with_halo[2] = { g->local[0] + 2, g->local[1] + 2 }, corner[2] = { 1, 1 };
    MPI_Request req = MPI_REQUEST_NULL;
    MPI_Datatype part;
    MPI_Comm_rank(comm, &rank);
    if (g->local[0] > 0) {
        MPI_Type_create_subarray(
            2, with_halo, g->local, corner, MPI_ORDER_C, MPI_DOUBLE, &part);
        MPI_Type_commit(&part);
        MPI_Isend(g->u, 1, part, 0, 4, comm, &req);
        MPI_Type_free(&part);
    }
    for (int r = 0; rank == 0 && r < g->p[0] * g->p[1]; r++) {
        int local[2], offset[2];
        block(g, r, local, offset);
        MPI_Type_create_subarray(2, g->n, local, offset, MPI_ORDER_C, MPI_DOUBLE, &part);
        MPI_Type_commit(&part);
        MPI_Recv(whole, 1, part, r, 4, comm, MPI_STATUS_IGNORE);
        MPI_Type_free(&part);
    }
    MPI_Wait(&req, MPI_STATUS_IGNORE);
}

/* ---- The program ------------------------------------------------------------------- */

struct app {
    struct grid grid;
    int step; /* steps done: the state of the loop, beside the field */
    int steps, every, delay_ms;
    const char *out, *config, *pictures, *pidfile;
};

static int register_field(ftkit_ctx *ft, const struct grid *g)
{
    size_t global[2], local[2], offset[2], halo[2] = { 1, 1 };
    for (int d = 0; d < 2; d++) {
        global[d] = (size_t)g->n[d];
        local[d] = (size_t)g->local[d];
        offset[d] = (size_t)g->offset[d];
    }
    return ftkit_register_array(
        ft, "u", g->u, MPI_DOUBLE, 2, global, local, offset, halo);
}

/* Runs at the start and after every repair.  Lost ranks are normally replaced and nothing
 * changes; when they could not be, there are fewer ranks and each gets a new block, which
 * ftkit then fills from the last set. */
static int repaired(ftkit_ctx *ft, MPI_Comm comm, void *arg)
{
    struct app *a = arg;
    int size, rank;
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    note_pid(a->pidfile, rank, a->step);
    if (size == a->grid.size)
        return 0;
    return layout(&a->grid, comm) != 0 || register_field(ft, &a->grid) < 0;
}

/* Register the state of the loop and what a repair needs. */
static int prepare(ftkit_ctx *ft, struct app *a, MPI_Comm *comm)
{
    int rc = ftkit_bind_comm(ft, comm);
    if (rc >= 0 && layout(&a->grid, *comm) != 0)
        return FTKIT_ERR_NOMEM;
    if (rc >= 0)
        rc = ftkit_register_replicated(ft, "step", &a->step, 1, MPI_INT);
    if (rc >= 0)
        rc = register_field(ft, &a->grid);
    if (rc >= 0)
        rc = ftkit_on_repair(ft, repaired, a);
    return rc;
}

static int run(ftkit_ctx *ft, struct app *a)
{
    size_t cells = (size_t)a->grid.n[0] * (size_t)a->grid.n[1];
    double *whole = NULL; /* the whole array, on rank 0 */
    MPI_Comm comm = ftkit_comm(ft);
    int rank, done = 0, failed = 0;

    /* No communication from here to ftkit_recover(): a replacement comes through here
     * alone, in the middle of the run of the others. */
    MPI_Comm_rank(comm, &rank);
    int rc = prepare(ft, a, &comm);
    if (rank == 0 && (whole = malloc(cells * sizeof *whole)) == NULL)
        rc = FTKIT_ERR_NOMEM;
    if (hopeless(ft, rank, rc) || rc < 0)
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    rc = ftkit_recover(ft, NULL);
    if (rc == FTKIT_OK)
        tell(ft, rank, "continues", a->step);
    if (hopeless(ft, rank, rc) || rc < 0) {
        free(whole);
        return EXIT_FAILURE;
    }

    for (;;) {
        rc = ftkit_checkpoint(ft);
        if (rc == FTKIT_ROLLED_BACK)
            tell(ft, rank, "rolled back, goes on", a->step);
        if (hopeless(ft, rank, rc) || rc == FTKIT_HALT)
            break;
        note_pid(a->pidfile, rank, a->step);
        if (a->pictures != NULL && a->step % a->every == 0) {
            char path[4096];
            snprintf(path, sizeof path, "%s.%d.bin", a->pictures, a->step);
            gather(&a->grid, comm, whole);
            if (rank == 0) /* wrong after a failure, but then it is soon written again */
                write_raw(path, whole, cells);
        }
        if (a->step >= a->steps) {
            /* Our last messages come before ftkit_finish(), so that a failure in them is
             * repaired as well.  What is in whole when it returns is the result. */
            gather(&a->grid, comm, whole);
            rc = ftkit_finish(ft);
            if (rc != FTKIT_ROLLED_BACK) {
                done = !hopeless(ft, rank, rc);
                break;
            }
            tell(ft, rank, "rolled back, goes on", a->step);
            continue; /* the set may be of the very last step: test again */
        }
        advance(&a->grid, comm);
        pause_ms(a->delay_ms);
        a->step++;
    }
    if (done && rank == 0) {
        failed = a->out != NULL ? write_raw(a->out, whole, cells) : 0;
        printf("heat2d: %d x %d cells, %d steps done on %d ranks in %d x %d blocks\n",
            a->grid.n[0], a->grid.n[1], a->step, a->grid.size, a->grid.p[0],
            a->grid.p[1]);
    }
    free(whole);
    if (!done && rc == FTKIT_HALT) {
        if (rank == 0)
            printf("heat2d: halted at step %d; start it again to go on\n", a->step);
        return EXIT_AGAIN;
    }
    return done && !failed ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct app app = { .grid.n = { 256, 256 }, .steps = 1000, .every = 100 };
    const struct opt table[] = {
        { "-n", "NX[xNY]", "cells of the grid (256x256)", 'g', app.grid.n, 1, MAX_CELLS },
        { "-s", "STEPS", "time steps (1000)", 'i', &app.steps, 0, INT_MAX - 1 },
        { "-o", "FILE", "write the result: NX rows of NY float64", 't', &app.out, 0, 0 },
        { "-c", "CONFIG", "configuration file of ftkit", 't', &app.config, 0, 0 },
        { "-p", "PREFIX", "write PREFIX.<step>.bin, like -o", 't', &app.pictures, 0, 0 },
        { "-P", "N", "... every N steps (100)", 'i', &app.every, 1, INT_MAX },
        { "-d", "MS", "sleep so long in every step", 'i', &app.delay_ms, 0, 3600000 },
        { "--pidfile", "PREFIX", "write pid and step of rank R to PREFIX.R", 't',
            &app.pidfile, 0, 0 },
        { NULL, NULL, NULL, 0, NULL, 0, 0 },
    };
    char err[4200] = "";
    ftkit_ctx *ft;
    int rank, code = EXIT_FAILURE;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    int rc = options_parse(table, argc, argv, err, sizeof err);
    if (rc == 0 && rank == 0 && app.out != NULL)
        rc = check_writable(app.out, err, sizeof err);
    if (anyone_bad(rc < 0, err) || rc > 0) {
        if (rc > 0 && rank == 0)
            options_print(table);
        MPI_Finalize();
        return rc > 0 ? EXIT_SUCCESS : EXIT_USAGE;
    }

    rc = ftkit_open(MPI_COMM_WORLD, app.config, &ft); /* spares wait in here */
    if (rc == FTKIT_OK) {
        code = run(ft, &app);
        rc = ftkit_close(&ft);
        layout_free(&app.grid);
    }
    if (rc < 0) {
        if (rank == 0 || rc != FTKIT_ERR_CONFIG) /* one line: it is the same file */
            fprintf(stderr, "heat2d: %s: %s\n", ftkit_strerror(rc), ftkit_detail(NULL));
        code = rc == FTKIT_ERR_CONFIG ? EXIT_USAGE : EXIT_FAILURE;
    }
    MPI_Finalize();
    return rc == FTKIT_SPARE_DONE ? EXIT_SUCCESS : code;
}
