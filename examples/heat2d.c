/* heat2d: the heat equation on a rectangle, on any number of ranks, through failures.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An explicit 5-point scheme on a global array of NX x NY doubles, cut into blocks with a
 * ghost layer of one cell.  It is an ordinary MPI program that checks no MPI call.  After a
 * failure these calls return errors, and the program computes worthless values until
 * ftkit_step() restores the last committed values.  Two rules follow.  All data that the
 * loop writes are registered, or written again before they are read (grid.next).  And a check
 * that ends the program asks ftkit_confirm() first (see run()).
 *
 * The calls that make the program survive are in run(), in this order:
 *   register the state of the loop,
 *   while step { are we done? end; exchange; compute; step++ }.
 *
 * The scheme adds the same numbers in the same order wherever a cell lives, so the result
 * is the same to the last bit for every number of ranks, with and without failures. */
#define _POSIX_C_SOURCE 200809L
#include <limits.h>

#define EXAMPLE_NAME "heat2d"
#include "example.h"

#define MAX_CELLS 1000000 /* in one direction */

/* ---- The grid ---------------------------------------------------------------------------
 * Row-major; u and next hold this rank's block and its ghost layer. */

struct grid {
    int n[2];            /* cells of the whole array */
    int p[2];            /* blocks in each direction; ranks beyond p[0]*p[1] have none */
    int size;            /* ranks the layout was made for, 0: none yet */
    int local[2];        /* this rank's block ... */
    int offset[2];       /* ... and where it begins in the whole array */
    int near[4];         /* ranks above, below, left, right, or MPI_PROC_NULL */
    double *u;           /* [local[0] + 2][local[1] + 2], registered */
    double *next;        /* the same shape: scratch.  A step writes every cell before it is
                          * read.  Cells that were set once, such as a border, would have to
                          * be registered or set again after FTKIT_ROLLED_BACK: the step that
                          * a failure cuts short may write NaN to them. */
    unsigned char *held; /* the same shape: 1 where the temperature is fixed */
    MPI_Datatype column; /* one column of the block without ghost cells */
};

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

/* The block of any rank, computed without a message. */
static void block(const struct grid *g, int rank, int local[2], int offset[2])
{
    int part[2] = { rank / g->p[1], rank % g->p[1] };
    for (int d = 0; d < 2; d++) {
        offset[d] = (int)((long long)g->n[d] * part[d] / g->p[d]);
        local[d] = (int)((long long)g->n[d] * (part[d] + 1) / g->p[d]) - offset[d];
        if (part[0] >= g->p[0])
            local[d] = offset[d] = 0;
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
    if (inside(i, j, a * 0.28, b * 0.70, r * 0.06) || inside(i, j, a * 0.72, b * 0.30, r * 0.06))
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

/* Decompose the grid over the ranks of comm and fill this rank's block with the initial
 * values.  Local: no other rank has to call it.  Returns 0, or -1 without memory. */
static int layout(struct grid *g, MPI_Comm comm)
{
    int size, rank;
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    layout_free(g);
    factorize(g, size);
    block(g, rank, g->local, g->offset);
    int row = rank / g->p[1], col = rank % g->p[1], some = g->local[0] > 0;
    g->near[0] = some && row > 0 ? rank - g->p[1] : MPI_PROC_NULL;
    g->near[1] = some && row < g->p[0] - 1 ? rank + g->p[1] : MPI_PROC_NULL;
    g->near[2] = some && col > 0 ? rank - 1 : MPI_PROC_NULL;
    g->near[3] = some && col < g->p[1] - 1 ? rank + 1 : MPI_PROC_NULL;

    size_t width = (size_t)g->local[1] + 2, cells = ((size_t)g->local[0] + 2) * width;
    g->u = calloc(cells, sizeof *g->u);
    g->next = calloc(cells, sizeof *g->next);
    g->held = calloc(cells, 1);
    if (g->u == NULL || g->next == NULL || g->held == NULL)
        return -1;
    MPI_Type_vector(g->local[0], 1, (int)width, MPI_DOUBLE, &g->column);
    MPI_Type_commit(&g->column);
    g->size = size;
    for (int i = 0; i < g->local[0]; i++)
        for (int j = 0; j < g->local[1]; j++) {
            size_t k = (size_t)(i + 1) * width + (size_t)j + 1;
            g->held[k] =
                (unsigned char)beginning(g->n, g->offset[0] + i, g->offset[1] + j, &g->u[k]);
        }
    return 0;
}

/* One step: exchange the rims of the blocks, then compute all cells. */
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
    MPI_Waitall(8, req, status);
    for (int i = 1; i <= rows; i++) {
        const double *u = g->u + (size_t)i * w, *up = u - w, *down = u + w;
        const unsigned char *held = g->held + (size_t)i * w;
        double *next = g->next + (size_t)i * w;
        for (int j = 1; j <= cols; j++) {
            double flow = (up[j] + down[j]) + (u[j - 1] + u[j + 1]) - 4 * u[j];
            next[j] = held[j] ? u[j] : u[j] + 0.2 * flow;
        }
    }
    for (int i = 1; i <= rows; i++) /* u stays where it is: it is registered */
        memcpy(g->u + (size_t)i * w + 1, g->next + (size_t)i * w + 1, (size_t)cols * sizeof *g->u);
}

/* A check of the program.  It may fail on values that a failure leaves in ghost cells. */
static int is_sound(const struct grid *g)
{
    size_t w = (size_t)g->local[1] + 2;
    for (int i = 1; i <= g->local[0]; i++)
        if (!isfinite(g->u[(size_t)i * w + 1]))
            return 0;
    return 1;
}

/* Bring the whole array together in whole[n[0]][n[1]] on rank 0 (NULL elsewhere). */
static void gather(const struct grid *g, MPI_Comm comm, double *whole)
{
    const int with_halo[2] = { g->local[0] + 2, g->local[1] + 2 }, corner[2] = { 1, 1 };
    MPI_Request req = MPI_REQUEST_NULL;
    MPI_Datatype part;
    if (g->local[0] > 0) {
        MPI_Type_create_subarray(2, with_halo, g->local, corner, MPI_ORDER_C, MPI_DOUBLE, &part);
        MPI_Type_commit(&part);
        MPI_Isend(g->u, 1, part, 0, 4, comm, &req);
        MPI_Type_free(&part);
    }
    for (int r = 0; whole != NULL && r < g->p[0] * g->p[1]; r++) {
        int local[2], offset[2];
        block(g, r, local, offset);
        MPI_Type_create_subarray(2, g->n, local, offset, MPI_ORDER_C, MPI_DOUBLE, &part);
        MPI_Type_commit(&part);
        MPI_Recv(whole, 1, part, r, 4, comm, MPI_STATUS_IGNORE);
        MPI_Type_free(&part);
    }
    MPI_Wait(&req, MPI_STATUS_IGNORE);
}

/* ---- The program --------------------------------------------------------------------- */

struct app {
    struct grid grid;
    int step;      /* steps done: the state of the loop, beside grid.u */
    int rank;      /* this rank; a shrink may change it */
    double *whole; /* the whole array, on rank 0 */
    int steps, every, delay_ms;
    int plane, planes; /* of the replicas; one plane without them */
    const char *out, *config, *pictures, *pidfile;
};

/* Runs at the start and after every repair, before ftkit fills the arrays.  Normally lost
 * ranks are replaced, and nothing changes.  Otherwise there are fewer ranks, and each gets
 * another block. */
static int divide(ftkit_ctx *ft, MPI_Comm comm, void *arg)
{
    struct app *a = arg;
    struct grid *g = &a->grid;
    size_t global[2], local[2], offset[2], halo[2] = { 1, 1 };
    int size;
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &a->rank);
    note_pid(a->pidfile, a->rank, a->step);
    if (size == g->size)
        return 0;
    if (a->rank == 0 && a->whole == NULL)
        a->whole = malloc((size_t)g->n[0] * (size_t)g->n[1] * sizeof *a->whole);
    if (layout(g, comm) != 0 || (a->rank == 0 && a->whole == NULL))
        return -1;
    for (int d = 0; d < 2; d++) {
        global[d] = (size_t)g->n[d];
        local[d] = (size_t)g->local[d];
        offset[d] = (size_t)g->offset[d];
    }
    return ftkit_register_array(ft, "u", g->u, MPI_DOUBLE, 2, global, local, offset, halo);
}

/* Write the whole grid.  With replicas each plane writes the same file, because one that stands
 * still misses steps: each writes under a name of its own and renames it. */
static int write_whole(const struct app *a, const char *path)
{
    const size_t cells = (size_t)a->grid.n[0] * (size_t)a->grid.n[1];
    char own[5000];
    if (a->planes < 2)
        return write_raw(path, a->whole, cells);
    snprintf(own, sizeof own, "%.4095s.%d.%ld", path, a->plane, (long)getpid());
    if (write_raw(own, a->whole, cells) != 0)
        return -1;
    if (rename(own, path) == 0)
        return 0;
    fprintf(stderr, "heat2d: %s: %s\n", path, strerror(errno));
    return -1;
}

/* After a failure whole is not complete: then the picture is written again after the rollback, or
 * another plane writes it. */
static void picture(ftkit_ctx *ft, struct app *a, MPI_Comm comm)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.%d.bin", a->pictures, a->step);
    gather(&a->grid, comm, a->whole);
    if (a->rank == 0 && !ftkit_failed(ft))
        write_whole(a, path);
}

static int result(const struct app *a)
{
    const struct grid *g = &a->grid;
    if (a->rank != 0)
        return EXIT_SUCCESS;
    printf("heat2d: %d x %d cells, %d steps done on %d ranks in %d x %d blocks\n", g->n[0], g->n[1],
        a->step, g->size, g->p[0], g->p[1]);
    if (a->out != NULL && write_whole(a, a->out) != 0)
        return EXIT_FAILURE;
    return EXIT_SUCCESS;
}

static int run(ftkit_ctx *ft, struct app *a)
{
    MPI_Comm comm;
    int rc;

    /* No communication from here to ftkit_step(): a replacement runs this part alone, while
     * the other ranks are in their loop. */
    ftkit_bind_comm(ft, &comm); /* the working ranks, now and after every repair */
    ftkit_info me = { .size = sizeof me };
    if (ftkit_query(ft, &me) == FTKIT_OK) {
        a->plane = me.plane;
        a->planes = me.nplanes;
    }
    if (a->plane > 0)
        a->pidfile = NULL;
    if (divide(ft, comm, a) != 0 || ftkit_register_replicated(ft, "step", &a->step, 1, MPI_INT) < 0
        || ftkit_attribute(ft, "u", "units", "K") < 0 /* for readers of the files */
        || ftkit_on_repair(ft, divide, a) < 0)
        give_up(*ftkit_detail(ft) ? ftkit_detail(ft) : "out of memory");

    while (ftkit_step(ft, &rc)) { /* restore, write a set, repair, roll back: whatever is due */
        say(ft, rc, a->step);
        note_pid(a->pidfile, a->rank, a->step);
        if (a->pictures != NULL && a->step % a->every == 0)
            picture(ft, a, comm);
        if (a->step >= a->steps) {
            /* The last messages come before ftkit_end(), so that a failure during them is
             * repaired, too.  After the loop whole has the result. */
            gather(&a->grid, comm, a->whole);
            ftkit_end(ft);
            continue; /* if another rank is lost now, this one returns to an earlier step */
        }
        advance(&a->grid, comm);
        if (!is_sound(&a->grid) && !ftkit_confirm(ft)) /* no failure: an error of the program */
            give_up("a temperature is not finite");
        pause_ms(a->delay_ms);
        a->step++;
    }
    if (rc == FTKIT_OK)
        return result(a);
    say(ft, rc, a->step);
    return rc == FTKIT_HALT ? EXIT_SUCCESS : EXIT_FAILURE; /* the next start continues here */
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
        { "--pidfile", "PREFIX", "write pid and step of rank R to PREFIX.R", 't', &app.pidfile, 0,
            0 },
        { NULL, NULL, NULL, 0, NULL, 0, 0 },
    };
    char err[4200] = "";
    ftkit_ctx *ft;

    MPI_Init(&argc, &argv);
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* so that a death loses no complete line */
    int rc = options_parse(table, argc, argv, err, sizeof err);
    int code = ready(rc, table, app.out, err, sizeof err);
    if (code < 0) {
        rc = ftkit_open(MPI_COMM_WORLD, app.config, &ft); /* spares wait in here */
        if (rc == FTKIT_OK) {
            code = run(ft, &app);
            rc = ftkit_close(&ft);
        }
        code = exit_code(rc, code);
    }
    layout_free(&app.grid);
    free(app.whole);
    MPI_Finalize();
    return code;
}
