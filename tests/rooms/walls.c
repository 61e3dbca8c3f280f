/* A program whose regions are in walled memory (walled.c), for tests/rooms.t.
 *
 *   walls STEPS [shrink | free]
 *
 * Each rank has several blocks, of which one changes in a step; a region that grows; and a
 * replicated region with holes.  The rows of a global array with halo are divided over the ranks.
 * After each call of ftkit_checkpoint() each value is compared with the one that follows from
 * its place and the step, so that a wrong restore ends the program.
 * shrink: the regions that each rank has for itself are left out.  free: rank 1 gives its memory
 * back before a set, which is a mistake of the program.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/ftk.h"
#include "ftkit.h"

void *walled_alloc(size_t bytes);
void *walled_here(const void *p);
void walled_give_back(void);

enum { BLOCKS = 5, BLOCK = 32768, ROWS = 41, COLUMNS = 7, STRIDED = 300000 };

static ftkit_ctx *ft;
static MPI_Comm comm;
static int rank, size;
static int steps, *step;
static bool shrinks, frees;
static double *x;       /* [BLOCKS * BLOCK] */
static double *strided; /* [2 * STRIDED], every other one is saved */
static double *grid;    /* [rows + 2][COLUMNS + 2] */
static size_t row, rows;
static double *grown; /* [ngrown] */
static size_t ngrown;

static void *here(const void *p)
{
    return walled_here(p);
}

static double *alloc(size_t items)
{
    double *p = walled_alloc(items * sizeof *p);
    if (!p)
        abort();
    return p;
}

static int now(void)
{
    return *(int *)here(step);
}

static size_t want_grown(int s)
{
    return 1000 + 40000 * (size_t)(s % 3);
}

/* What is to be in each place at step s; block b of x changes in the steps b, b + BLOCKS, ... */
static double of_x(size_t i, int s)
{
    int b = (int)(i / BLOCK);
    return (double)rank * 1e6 + (double)i + 0.25 * ((s + BLOCKS - 1 - b) / BLOCKS);
}

static double of_grid(size_t r, size_t c, int s)
{
    return (double)(r * COLUMNS + c) + 0.5 * s;
}

static double of_strided(size_t i, int s)
{
    return (double)i + 0.125 * s;
}

static double of_grown(size_t i, int s)
{
    return (double)(rank + 1) * (double)i + s;
}

static double *cell(size_t r, size_t c)
{
    return (double *)here(grid) + (r + 1) * (COLUMNS + 2) + c + 1;
}

static int wrong(const char *what, size_t i)
{
    fprintf(stderr, "walls: rank %d of %d, step %d: %s, item %zu\n", rank, size, now(), what, i);
    return 1;
}

static int check(void)
{
    const double *hx = here(x), *hs = here(strided), *hg = here(grown);
    int s = now();
    for (size_t i = 0; i < BLOCKS * (size_t)BLOCK && !shrinks; i++)
        if (hx[i] != of_x(i, s))
            return wrong("x", i);
    for (size_t i = 0; i < STRIDED; i++)
        if (hs[2 * i] != of_strided(i, s) || hs[2 * i + 1] != -7)
            return wrong("strided", i);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < COLUMNS; c++)
            if (*cell(r, c) != of_grid(row + r, c, s))
                return wrong("grid", r * COLUMNS + c);
    if (!shrinks && ngrown != want_grown(s))
        return wrong("size of grown", ngrown);
    for (size_t i = 0; i < ngrown; i++)
        if (hg[i] != of_grown(i, s))
            return wrong("grown", i);
    return 0;
}

static void compute(void)
{
    int s = now();
    double *hx = (double *)here(x) + (size_t)(s % BLOCKS) * BLOCK, *hs = here(strided);
    for (size_t i = 0; i < BLOCK; i++)
        hx[i] += 0.25;
    for (size_t i = 0; i < STRIDED; i++)
        hs[2 * i] += 0.125;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < COLUMNS; c++)
            *cell(r, c) += 0.5;
    s = ++*(int *)here(step);
    if (shrinks)
        return;
    if (want_grown(s) > ngrown)
        grown = alloc(want_grown(s));
    ngrown = want_grown(s);
    for (size_t i = 0; i < ngrown; i++)
        ((double *)here(grown))[i] = of_grown(i, s);
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
    return ftkit_register_array(ft, "grid", grid, MPI_DOUBLE, 2, global, local, at, halo);
}

static int on_repair(ftkit_ctx *ctx, MPI_Comm now_comm, void *arg)
{
    int n;
    (void)ctx, (void)now_comm, (void)arg;
    MPI_Comm_size(comm, &n);
    return n == size ? 0 : place_grid();
}

/* The regions, as they are at step 0. */
static int prepare(void)
{
    MPI_Datatype every_other;
    int rc = place_grid();
    step = walled_alloc(sizeof *step);
    x = alloc((size_t)BLOCKS * BLOCK);
    strided = alloc((size_t)2 * STRIDED);
    ngrown = shrinks ? 0 : want_grown(0);
    grown = alloc(ngrown);
    for (size_t i = 0; i < (size_t)BLOCKS * BLOCK; i++)
        ((double *)here(x))[i] = of_x(i, 0);
    for (size_t i = 0; i < (size_t)2 * STRIDED; i++)
        ((double *)here(strided))[i] = i % 2 ? -7 : of_strided(i / 2, 0);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < COLUMNS; c++)
            *cell(r, c) = of_grid(row + r, c, 0);
    for (size_t i = 0; i < ngrown; i++)
        ((double *)here(grown))[i] = of_grown(i, 0);
    *(int *)here(step) = 0;
    rc |= MPI_Type_vector(STRIDED, 1, 2, MPI_DOUBLE, &every_other);
    rc |= ftkit_register_replicated(ft, "step", step, 1, MPI_INT);
    rc |= ftkit_register_replicated(ft, "strided", strided, 1, every_other);
    rc |= MPI_Type_free(&every_other);
    if (shrinks)
        return rc;
    rc |= ftkit_register(ft, "x", x, (size_t)BLOCKS * BLOCK, MPI_DOUBLE);
    return rc
           | ftkit_register_growing(ft, "grown", (void **)&grown, &ngrown, MPI_DOUBLE, NULL, NULL);
}

static int run(void)
{
    int rc = ftkit_recover(ft, NULL);
    while (rc >= 0) {
        if (frees && now() == 4 && rank == 1)
            walled_give_back();
        rc = ftkit_checkpoint(ft);
        if (rc < 0 || check())
            break;
        (void)FTK_FAULT("app.step");
        if (now() < steps) {
            MPI_Barrier(comm);
            compute();
            (void)FTK_FAULT("app.mid");
            continue;
        }
        rc = ftkit_finish(ft);
        if (rc != FTKIT_ROLLED_BACK)
            return rc < 0;
    }
    fprintf(stderr, "walls: rank %d: %s: %s\n", rank, ftkit_strerror(rc), ftkit_detail(ft));
    return 1;
}

int main(int argc, char **argv)
{
    steps = argc > 1 ? atoi(argv[1]) : 0;
    shrinks = argc > 2 && strcmp(argv[2], "shrink") == 0;
    frees = argc > 2 && strcmp(argv[2], "free") == 0;
    MPI_Init(&argc, &argv);
    if (ftkit_open(MPI_COMM_WORLD, NULL, &ft) != FTKIT_OK) {
        fprintf(stderr, "walls: %s\n", ftkit_detail(NULL));
        MPI_Finalize();
        return 1;
    }
    int bad = ftkit_bind_comm(ft, &comm) != FTKIT_OK || prepare() != 0
              || ftkit_on_repair(ft, on_repair, NULL) != FTKIT_OK || run() != 0;
    if (!bad && rank == 0)
        printf("walls: %d steps are right, %d ranks\n", now(), size);
    bad |= ftkit_close(&ft) != FTKIT_OK;
    MPI_Finalize();
    return bad;
}
