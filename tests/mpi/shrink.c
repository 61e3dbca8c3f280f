/* A program that goes on with fewer ranks, for the tests of redistribution.  Its global
 * arrays are divided anew in the callback whenever the number of ranks has changed; its
 * result, a file of raw doubles, depends neither on that number nor on failures.
 *
 *   shrink [-s STEPS] [-r ROWS] [-c COLUMNS] [-b ITEMS] [-z SEED] [-o RESULT] [-x WRONG]
 *
 * -b: items of a large replicated region.  -z: of the division of one array.  WRONG is
 * what the program does wrong: it has a region per rank (flat, growing, object), does not
 * divide anew (hole), has blocks that overlap (overlap), or damages the files of its sets
 * before they are read (hurt).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/ftk.h"
#include "ftkit.h"

#define GHOST (-1e300) /* what a ghost cell holds until it is exchanged */
#define HOLE (-7.0)    /* what is between the items of a strided region */
enum { TAG_N0 = 7, TAG_N1 = 9, TAG_N2 = 11, FEW = 3, STRIDED = 8 };

/* A block of a global array, and its memory. */
struct block {
    int ndims;
    size_t global[3], local[3], start[3], halo[3];
};

struct state {
    int steps;
    unsigned seed;
    size_t rows, cols, nbig;
    const char *out, *wrong;
    MPI_Comm comm;
    char process[16]; /* "app.w3": a fault point of the first rank 3 only */
    int rank, size;
    ftkit_ctx *ft;
    int step;
    double strided[2 * STRIDED]; /* every other one is saved */
    int *big;
    struct block u, tag, few;
    double *u_data;   /* stencil, with halo */
    short *tag_data;  /* a function of place and step, with halo */
    double *few_data; /* the same; the last ranks have no cells */
    double *all;      /* [rows * cols] */
    int divided;      /* the blocks are new: ghost cells hold GHOST */
    int errors;
    double own[4]; /* what should not be there, for WRONG */
    double *grow;
    size_t ngrow;
};

/* ---- blocks -------------------------------------------------------------------------- */

static size_t extent(const struct block *b, int d)
{
    return b->local[d] + 2 * b->halo[d];
}

static size_t items(const struct block *b)
{
    size_t n = 1;
    for (int d = 0; d < b->ndims; d++)
        n *= extent(b, d);
    return n;
}

/* Coordinates of item i in the global array, which may lie outside of the block; whether
 * they lie in it. */
static int locate(const struct block *b, size_t i, long at[3])
{
    int inside = 1;
    for (int d = b->ndims - 1; d >= 0; d--) {
        size_t k = i % extent(b, d);
        i /= extent(b, d);
        at[d] = (long)(b->start[d] + k) - (long)b->halo[d];
        inside = inside && k >= b->halo[d] && k < b->halo[d] + b->local[d];
    }
    return inside;
}

/* Part i of n of a dimension; uneven, and otherwise for another n. */
static void divide(struct block *b, int d, int i, int n)
{
    size_t whole = b->global[d];
    size_t lo = whole * (size_t)i / (size_t)n;
    size_t hi = whole * (size_t)(i + 1) / (size_t)n;
    size_t skew = whole / (size_t)(4 * n);
    b->start[d] = i > 0 ? lo - skew : 0;
    b->local[d] = (i < n - 1 ? hi - skew : whole) - b->start[d];
}

/* Part i of n of a box that is cut in two again and again, anywhere. */
static void bisect(struct block *b, unsigned seed, int i, int n)
{
    while (n > 1) {
        int half = n / 2;
        seed = seed * 1103515245u + 12345u;
        int d = (int)((seed >> 16) % (unsigned)b->ndims);
        seed = seed * 1103515245u + 12345u;
        size_t cut = (seed >> 16) % (b->local[d] + 1);
        if (i < half) {
            b->local[d] = cut;
            n = half;
        } else {
            b->start[d] += cut;
            b->local[d] -= cut;
            i -= half;
            n -= half;
        }
    }
}

static int same(const struct state *s, const char *wrong)
{
    return s->wrong && strcmp(s->wrong, wrong) == 0;
}

static void place_blocks(struct state *s)
{
    /* rows, a grid or columns, as the number of ranks has it */
    int down = s->size % 2 == 0 && s->size > 2 ? s->size / 2 : s->size == 3 ? 1 : s->size;
    int across = s->size / down;
    size_t wide = (size_t)(s->size % 2);
    s->u = (struct block){ 2, { s->rows, s->cols }, { s->rows, s->cols }, { 0 }, { 1 + wide, 1 } };
    if (!same(s, "overlap") || s->size == 5) {
        divide(&s->u, 0, s->rank / across, down);
        divide(&s->u, 1, s->rank % across, across);
    }
    s->tag = (struct block){ 3, { TAG_N0, TAG_N1, TAG_N2 }, { TAG_N0, TAG_N1, TAG_N2 }, { 0 },
        { 0, 1, 2 * wide } };
    bisect(&s->tag, s->seed + (unsigned)s->size, s->rank, s->size);
    s->few = (struct block){ 1, { FEW }, { s->rank < FEW }, { 0 }, { 0 } };
    s->few.start[0] = (size_t)(s->rank < FEW ? s->rank : FEW);
    if (s->size < FEW)
        divide(&s->few, 0, s->rank, s->size);
}

static short tag_of(const struct state *s, const long at[3])
{
    return (short)(1 + (at[0] * 400 + at[1] * 20 + at[2]) * 7 + s->step * 13);
}

static double few_of(const struct state *s, const long at[3])
{
    return 1.0 / (double)(at[0] + 2 + s->step);
}

/* The first state, in new memory. */
static void fill_blocks(struct state *s)
{
    long at[3];
    free(s->u_data);
    free(s->tag_data);
    free(s->few_data);
    s->u_data = malloc((items(&s->u) + 1) * sizeof *s->u_data);
    s->tag_data = malloc((items(&s->tag) + 1) * sizeof *s->tag_data);
    s->few_data = malloc((items(&s->few) + 1) * sizeof *s->few_data);
    for (size_t i = 0; i < items(&s->u); i++)
        s->u_data[i] =
            locate(&s->u, i, at) ? 1 + (double)(at[0] * 31 + at[1] * 17 % 101) / 7 : GHOST;
    for (size_t i = 0; i < items(&s->tag); i++)
        s->tag_data[i] = (short)(locate(&s->tag, i, at) ? tag_of(s, at) : -1);
    for (size_t i = 0; i < items(&s->few); i++)
        s->few_data[i] = locate(&s->few, i, at) ? few_of(s, at) : GHOST;
}

static int register_block(
    struct state *s, const char *name, void *data, MPI_Datatype type, const struct block *b)
{
    return ftkit_register_array(
        s->ft, name, data, type, b->ndims, b->global, b->local, b->start, b->halo);
}

static int register_blocks(struct state *s)
{
    int rc = register_block(s, "u", s->u_data, MPI_DOUBLE, &s->u);
    rc |= register_block(s, "tag", s->tag_data, MPI_SHORT, &s->tag);
    rc |= register_block(s, "few", s->few_data, MPI_DOUBLE, &s->few);
    return rc;
}

static int divide_all(struct state *s)
{
    MPI_Comm_rank(s->comm, &s->rank);
    MPI_Comm_size(s->comm, &s->size);
    place_blocks(s);
    fill_blocks(s);
    return register_blocks(s);
}

/* A byte of each part, where the data are. */
static void hurt_files(void)
{
    char pattern[512];
    glob_t all;
    snprintf(pattern, sizeof pattern, "%s/*.ftkit/set-*/part-*.h5",
        getenv("FTKIT_LEVEL_HDF5_DIRECTORY"));
    if (glob(pattern, 0, NULL, &all) != 0)
        return;
    for (size_t i = 0; i < all.gl_pathc; i++) {
        FILE *f = fopen(all.gl_pathv[i], "r+");
        int byte = f && fseek(f, 0, SEEK_END) == 0 && fseek(f, ftell(f) * 2 / 3, SEEK_SET) == 0
                       ? fgetc(f)
                       : EOF;
        if (byte == EOF || fseek(f, -1, SEEK_CUR) != 0 || fputc(byte ^ 1, f) == EOF
            || fclose(f) != 0)
            fprintf(stderr, "shrink: cannot damage %s\n", all.gl_pathv[i]);
    }
    globfree(&all);
}

static int on_repair(ftkit_ctx *ft, MPI_Comm comm, void *arg)
{
    struct state *s = arg;
    int size, rank;
    (void)ft;
    (void)FTK_FAULT("app.callback");
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    if (same(s, "hurt") && rank == 0 && size != s->size)
        hurt_files();
    if (same(s, "hurt")) /* nobody reads before */
        MPI_Barrier(comm);
    if (size == s->size || same(s, "hole"))
        return 0;
    s->divided = 1;
    return divide_all(s) == FTKIT_OK ? 0 : 1;
}

/* ---- checks -------------------------------------------------------------------------- */

static void wrong_value(struct state *s, const char *what, size_t i)
{
    if (s->errors++ < 5)
        fprintf(stderr, "shrink: rank %d of %d, step %d: wrong value %zu of %s\n", s->rank, s->size,
            s->step, i, what);
}

/* What can be told from the step alone; at a step that was restored or computed. */
static void check(struct state *s)
{
    long at[3];
    for (size_t i = 0; i < items(&s->tag); i++)
        if (s->tag_data[i] != (locate(&s->tag, i, at) ? tag_of(s, at) : -1))
            wrong_value(s, "tag", i);
    for (size_t i = 0; i < items(&s->few); i++)
        if (locate(&s->few, i, at) && s->few_data[i] != few_of(s, at))
            wrong_value(s, "few", i);
    for (size_t i = 0; i < items(&s->u) && s->divided; i++)
        if (locate(&s->u, i, at) == (s->u_data[i] == GHOST))
            wrong_value(s, "u", i);
    for (int i = 0; i < 2 * STRIDED; i++)
        if (s->strided[i] != (i % 2 ? HOLE : s->step * 3 + i))
            wrong_value(s, "strided", (size_t)i);
    for (size_t i = 0; i < s->nbig; i++)
        if (s->big[i] != (int)i * 5 + s->step)
            wrong_value(s, "big", i);
}

static void set_values(struct state *s)
{
    long at[3];
    for (size_t i = 0; i < items(&s->tag); i++)
        if (locate(&s->tag, i, at))
            s->tag_data[i] = tag_of(s, at);
    for (size_t i = 0; i < items(&s->few); i++)
        if (locate(&s->few, i, at))
            s->few_data[i] = few_of(s, at);
    for (int i = 0; i < 2 * STRIDED; i++)
        s->strided[i] = i % 2 ? HOLE : s->step * 3 + i;
    for (size_t i = 0; i < s->nbig; i++)
        s->big[i] = (int)i * 5 + s->step;
}

/* ---- the program --------------------------------------------------------------------- */

/* The whole array on every rank: each cell is in one block, and x + 0 is x. */
static void gather(struct state *s)
{
    long at[3];
    memset(s->all, 0, s->rows * s->cols * sizeof *s->all);
    for (size_t i = 0; i < items(&s->u); i++)
        if (locate(&s->u, i, at))
            s->all[(size_t)at[0] * s->cols + (size_t)at[1]] = s->u_data[i];
    MPI_Allreduce(MPI_IN_PLACE, s->all, (int)(s->rows * s->cols), MPI_DOUBLE, MPI_SUM, s->comm);
}

static double whole(const struct state *s, long row, long col)
{
    long rows = (long)s->rows;
    long cols = (long)s->cols;
    return s->all[(row + rows) % rows * cols + (col + cols) % cols];
}

static void step(struct state *s)
{
    size_t width = extent(&s->u, 1);
    long at[3];
    (void)FTK_FAULT("app.step");
    (void)FTK_FAULT(s->process);
    gather(s);
    (void)FTK_FAULT("app.mid");
    for (size_t i = 0; i < items(&s->u); i++)
        if (!locate(&s->u, i, at))
            s->u_data[i] = whole(s, at[0], at[1]);
    s->divided = 0;
    double *next = malloc((items(&s->u) + 1) * sizeof *next);
    memcpy(next, s->u_data, items(&s->u) * sizeof *next);
    for (size_t i = 0; i < items(&s->u); i++) {
        const double *x = s->u_data + i;
        if (locate(&s->u, i, at))
            next[i] = 0.5 * x[0] + 0.125 * (((x[-1] + x[1]) + *(x - width)) + x[width]);
    }
    memcpy(s->u_data, next, items(&s->u) * sizeof *next);
    free(next);
    s->step++;
    set_values(s);
}

static int run(struct state *s)
{
    for (;;) {
        int rc = ftkit_checkpoint(s->ft);
        if (rc < 0) {
            fprintf(stderr, "shrink: rank %d: %s: %s\n", s->rank, ftkit_strerror(rc),
                ftkit_detail(s->ft));
            return 1;
        }
        check(s);
        if (s->step < s->steps) {
            step(s);
            continue;
        }
        gather(s);
        rc = ftkit_finish(s->ft);
        if (rc == FTKIT_ROLLED_BACK)
            continue;
        return rc < 0;
    }
}

static int write_result(const struct state *s)
{
    size_t n = s->rows * s->cols;
    if (s->rank != 0)
        return 0;
    printf("shrink: %d ranks at the end\n", s->size);
    if (!s->out)
        return 0;
    FILE *f = fopen(s->out, "w");
    if (!f)
        return 1;
    int bad = fwrite(s->all, sizeof *s->all, n, f) != n;
    return fclose(f) != 0 || bad;
}

static int no_measure(void *arg, size_t *bytes)
{
    (void)arg;
    *bytes = 0;
    return 0;
}

static int no_pack(void *arg, void *buf, size_t bytes)
{
    (void)arg;
    (void)buf;
    return bytes != 0;
}

static int no_unpack(void *arg, const void *buf, size_t bytes)
{
    (void)arg;
    (void)buf;
    return bytes != 0;
}

static int register_all(struct state *s)
{
    ftkit_serializer ops = { sizeof ops, no_measure, no_pack, no_unpack };
    MPI_Datatype every_other;
    int rc = MPI_Type_vector(STRIDED, 1, 2, MPI_DOUBLE, &every_other);
    rc |= ftkit_register_replicated(s->ft, "step", &s->step, 1, MPI_INT);
    rc |= divide_all(s);
    rc |= ftkit_register_replicated(s->ft, "strided", s->strided, 1, every_other);
    rc |= ftkit_register_replicated(s->ft, "big", s->big, s->nbig, MPI_INT);
    rc |= MPI_Type_free(&every_other);
    if (same(s, "flat"))
        rc |= ftkit_register(s->ft, "mine", s->own, 4, MPI_DOUBLE);
    if (same(s, "growing"))
        rc |= ftkit_register_growing(
            s->ft, "mine", (void **)&s->grow, &s->ngrow, MPI_DOUBLE, NULL, NULL);
    if (same(s, "object"))
        rc |= ftkit_register_serializer(s->ft, "mine", &ops, s);
    rc |= ftkit_on_repair(s->ft, on_repair, s);
    set_values(s);
    return rc;
}

int main(int argc, char **argv)
{
    struct state s = { .steps = 12, .rows = 37, .cols = 23, .nbig = 1000, .seed = 1 };
    int opt;
    while ((opt = getopt(argc, argv, "s:r:c:b:z:o:x:")) != -1) {
        switch (opt) {
        case 's':
            s.steps = atoi(optarg);
            break;
        case 'r':
            s.rows = (size_t)atol(optarg);
            break;
        case 'c':
            s.cols = (size_t)atol(optarg);
            break;
        case 'b':
            s.nbig = (size_t)atol(optarg);
            break;
        case 'z':
            s.seed = (unsigned)atoi(optarg);
            break;
        case 'o':
            s.out = optarg;
            break;
        case 'x':
            s.wrong = optarg;
            break;
        default:
            return 2;
        }
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
    snprintf(s.process, sizeof s.process, "app.w%d", s.rank);
    int rc = ftkit_open(MPI_COMM_WORLD, NULL, &s.ft);
    if (rc != FTKIT_OK) {
        fprintf(stderr, "shrink: open: %s: %s\n", ftkit_strerror(rc), ftkit_detail(NULL));
        MPI_Finalize();
        return 1;
    }
    s.all = calloc(s.rows * s.cols, sizeof *s.all);
    s.big = calloc(s.nbig + 1, sizeof *s.big);
    rc = ftkit_bind_comm(s.ft, &s.comm);
    rc |= register_all(&s);
    if (rc != 0) {
        fprintf(stderr, "shrink: register: %s\n", ftkit_detail(s.ft));
        return 1;
    }
    rc = ftkit_recover(s.ft, NULL);
    if (rc < 0)
        fprintf(stderr, "shrink: rank %d: recover: %s: %s\n", s.rank, ftkit_strerror(rc),
            ftkit_detail(s.ft));
    int bad = rc < 0 || run(&s) != 0;
    rc = ftkit_close(&s.ft);
    bad = bad || rc != FTKIT_OK || s.errors > 0 || write_result(&s) != 0;
    free(s.all);
    free(s.big);
    free(s.u_data);
    free(s.tag_data);
    free(s.few_data);
    free(s.grow);
    MPI_Finalize();
    return bad;
}
