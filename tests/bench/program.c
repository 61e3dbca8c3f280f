/* What the message log costs a whole program while nothing fails.
 *
 * Three kernels in the shape of well-known programs.  An iteration is made by PMPI_ calls on a
 * communicator of the MPI, which is the bound, and by MPI_ calls on ftkit's, in turns.  A
 * repetition is a set and then BLOCKS short blocks of both; it gives the fastest block of each,
 * because a pause of the machine in a block says nothing about the log.
 *
 *   program [-k KERNEL] [-t TEAM_SIZE] [-b BYTES] [-r REPETITIONS]
 *
 * lu: two sweeps over the planes of a box, one forth and one back, as in NAS LU: a rank waits for
 * one edge from the west and one from the north, computes its plane, and sends two edges on; then
 * a sum.  ft: complex transforms in two dimensions, a transpose by an all-to-all, and transforms in
 * the third, as in NAS FT.
 * halo: Jacobi iterations on a square with edges from four neighbours, and a sum in each.
 * BYTES: the field of a rank.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <complex.h>
#include <math.h>
#include <stdbool.h>

#include "bench.h"
#include "calls.h"

enum { BLOCKS = 12, PLANES = 32, EAST = 1, SOUTH, WEST, NORTH };

static const char *kernel_name = "halo";
static int team_size;
static double *field, *next; /* [bytes] each */
static double *edges;        /* [8 * width] four to send, four received */
static int width;            /* of the square of a rank, or of a plane */
static MPI_Comm world;       /* of the MPI */

static int option(int opt, const char *value)
{
    if (opt == 'k')
        kernel_name = value;
    else
        team_size = atoi(value);
    return team_size < 0;
}

/* ---- the grid of ranks --------------------------------------------------------------- */

/* Neighbours of this rank: EAST .. NORTH; MPI_PROC_NULL beyond the rim. */
struct grid {
    int rank[NORTH + 1];
};

static struct grid grid_of(const struct bench *b)
{
    int nc = columns(b->nranks), nr = b->nranks / nc;
    int x = b->rank % nc, y = b->rank / nc;
    return (struct grid){ { 0, x + 1 < nc ? b->rank + 1 : MPI_PROC_NULL,
        y + 1 < nr ? b->rank + nc : MPI_PROC_NULL, x > 0 ? b->rank - 1 : MPI_PROC_NULL,
        y > 0 ? b->rank - nc : MPI_PROC_NULL } };
}

static double *edge(int i)
{
    return edges + (size_t)i * (size_t)width;
}

static int sum_up(const struct side *s, double *x)
{
    double all = 0;
    int rc = s->mpi->allreduce(x, &all, 1, MPI_DOUBLE, MPI_SUM, s->comm);
    *x = all;
    return rc;
}

/* ---- lu ------------------------------------------------------------------------------ */

/* Gauss-Seidel on a plane: each point needs the points before it. */
static void relax(double *plane, const double *west, const double *north)
{
    for (int i = 0; i < width; i++) {
        double *row = plane + (size_t)i * (size_t)width;
        const double *above = i > 0 ? row - width : north;
        double left = west[i];
        for (int j = 0; j < width; j++) {
            left = row[j] = 0.5 * row[j] + 0.25 * left + 0.25 * above[j];
            row[j] += 1e-3 * sqrt(1 + row[j] * row[j]);
        }
    }
}

static int sweep(const struct side *s, const struct grid *g, bool back)
{
    const int from_x = back ? EAST : WEST, from_y = back ? SOUTH : NORTH;
    const int to_x = back ? WEST : EAST, to_y = back ? NORTH : SOUTH;
    int rc = MPI_SUCCESS;
    for (int k = 0; k < PLANES; k++) {
        double *plane = field + (size_t)(back ? PLANES - 1 - k : k) * (size_t)width * (size_t)width;
        const double *last = plane + (size_t)(width - 1) * (size_t)width;
        rc |= s->mpi->recv(
            edge(0), width, MPI_DOUBLE, g->rank[from_x], to_x, s->comm, MPI_STATUS_IGNORE);
        rc |= s->mpi->recv(
            edge(1), width, MPI_DOUBLE, g->rank[from_y], to_y, s->comm, MPI_STATUS_IGNORE);
        relax(plane, edge(0), edge(1));
        for (int i = 0; i < width; i++)
            edge(2)[i] = plane[(size_t)i * (size_t)width + (size_t)width - 1];
        rc |= s->mpi->send(edge(2), width, MPI_DOUBLE, g->rank[to_x], to_x, s->comm);
        rc |= s->mpi->send(last, width, MPI_DOUBLE, g->rank[to_y], to_y, s->comm);
    }
    return rc;
}

static int lu(struct bench *b, const struct side *s)
{
    struct grid g = grid_of(b);
    int rc = sweep(s, &g, false);
    rc |= sweep(s, &g, true);
    double sum = field[0];
    return rc | sum_up(s, &sum);
}

/* ---- ft ------------------------------------------------------------------------------ */

enum { ROW = 1024 }; /* points of a transform */

/* A complex transform of a row, radix 2; twiddles [ROW / 2]. */
static void transform_row(double complex *x, const double complex *twiddles)
{
    for (size_t far = ROW / 2; far > 0; far /= 2)
        for (size_t i = 0; i < ROW; i += 2 * far)
            for (size_t j = 0; j < far; j++) {
                double complex low = x[i + j], high = x[i + j + far];
                x[i + j] = 0.5 * (low + high);
                x[i + j + far] = 0.5 * (low - high) * twiddles[j * (ROW / 2 / far)];
            }
}

/* So many dimensions, and the factors of a step in time. */
static void transform(double *of, size_t n, int dimensions)
{
    static double complex twiddles[ROW / 2];
    double complex *x = (double complex *)(void *)of;
    for (int i = 0; twiddles[ROW / 2 - 1] == 0 && i < ROW / 2; i++)
        twiddles[i] = cexp(-2 * 3.14159265358979 * I * i / ROW);
    for (int i = 0; i < dimensions; i++)
        for (size_t at = 0; at + ROW <= n / 2; at += ROW)
            transform_row(x + at, twiddles);
    for (size_t i = 0; i < n / 2; i++)
        x[i] *= 1 - 1e-9 * (double)(i % ROW);
}

static int ft(struct bench *b, const struct side *s)
{
    size_t n = b->bytes / sizeof(double), block = n / (size_t)b->nranks;
    transform(field, n, 2);
    int rc = s->mpi->alltoall(field, (int)block, MPI_DOUBLE, next, (int)block, MPI_DOUBLE, s->comm);
    transform(next, n, 1);
    double *was = field;
    field = next;
    next = was;
    return rc;
}

/* ---- halo ---------------------------------------------------------------------------- */

static double at(int i, int j)
{
    if (i < 0)
        return edge(3 + NORTH)[j];
    if (i >= width)
        return edge(3 + SOUTH)[j];
    if (j < 0)
        return edge(3 + WEST)[i];
    return j >= width ? edge(3 + EAST)[i] : field[(size_t)i * (size_t)width + (size_t)j];
}

static double jacobi(void)
{
    double change = 0;
    for (int i = 0; i < width; i++) {
        const double *row = field + (size_t)i * (size_t)width;
        double *into = next + (size_t)i * (size_t)width;
        bool rim = i == 0 || i == width - 1;
        for (int j = 0; j < width; j++) {
            into[j] = rim || j == 0 || j == width - 1
                          ? 0.25 * (at(i - 1, j) + at(i + 1, j) + at(i, j - 1) + at(i, j + 1))
                          : 0.25 * (row[j - width] + row[j + width] + row[j - 1] + row[j + 1]);
            change += fabs(into[j] - row[j]);
        }
    }
    return change;
}

static int stencil(struct bench *b, const struct side *s)
{
    static const int opposite[] = { 0, WEST, NORTH, EAST, SOUTH };
    struct grid g = grid_of(b);
    MPI_Request req[8];
    int rc = MPI_SUCCESS;
    for (int i = 0; i < width; i++) {
        edge(EAST - 1)[i] = field[(size_t)i * (size_t)width + (size_t)width - 1];
        edge(WEST - 1)[i] = field[(size_t)i * (size_t)width];
        edge(NORTH - 1)[i] = field[i];
        edge(SOUTH - 1)[i] = field[(size_t)(width - 1) * (size_t)width + (size_t)i];
    }
    for (int d = EAST; d <= NORTH; d++)
        rc |= s->mpi->irecv(
            edge(3 + d), width, MPI_DOUBLE, g.rank[d], opposite[d], s->comm, &req[d - 1]);
    for (int d = EAST; d <= NORTH; d++)
        rc |= s->mpi->isend(edge(d - 1), width, MPI_DOUBLE, g.rank[d], d, s->comm, &req[3 + d]);
    rc |= s->mpi->waitall(8, req, MPI_STATUSES_IGNORE);
    double change = jacobi();
    rc |= sum_up(s, &change);
    double *was = field;
    field = next;
    next = was;
    return rc;
}

/* ---- measuring ----------------------------------------------------------------------- */

static const struct kernel {
    const char *name;
    int (*iterate)(struct bench *b, const struct side *s);
    int iterations; /* in a block */
    int planes;
} kernels[] = {
    { "lu", lu, 2, PLANES },
    { "ft", ft, 2, 1 },
    { "halo", stencil, 40, 1 },
};

/* Seconds of an iteration in a block: of the rank that took longest. */
static double block_s(struct bench *b, const struct kernel *k, const struct side *s)
{
    double took, all;
    bench_mpi(b, PMPI_Barrier(world), "barrier");
    double start = bench_now_s();
    for (int i = 0; i < k->iterations; i++)
        bench_mpi(b, k->iterate(b, s), k->name);
    took = (bench_now_s() - start) / k->iterations;
    bench_mpi(b, PMPI_Allreduce(&took, &all, 1, MPI_DOUBLE, MPI_MAX, world), "maximum");
    return all;
}

static void repetition(struct bench *b, const struct kernel *k)
{
    const struct side bound = { &plain, world }, log = { &ours, b->comm };
    double least_bound = INFINITY, least_log = INFINITY;
    bench_checkpoint(b); /* what was kept goes */
    (void)block_s(b, k, &log);
    for (int i = 0; i < BLOCKS; i++) {
        least_bound = fmin(least_bound, block_s(b, k, &bound));
        least_log = fmin(least_log, block_s(b, k, &log));
    }
    bench_row(b, "ranks=%d bytes=%zu ftkit_s=%.4e bound_s=%.4e", b->nranks, b->bytes, least_log,
        least_bound);
}

static const struct kernel *find_kernel(const struct bench *b)
{
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        if (strcmp(kernels[i].name, kernel_name) == 0)
            return &kernels[i];
    bench_die(b, "kernels are lu, ft and halo, not %s", kernel_name);
}

int main(int argc, char **argv)
{
    struct bench b = { .bytes = 1 << 20, .reps = 7 };
    char teams[16];
    int step = 0;
    bench_options(&b, argc, argv, "b:r:k:t:", option);
    snprintf(teams, sizeof teams, "%d", team_size);
    if (team_size > 0) {
        bench_set("FTKIT_LOG_ENABLED", "true");
        bench_set("FTKIT_LOG_TEAM_SIZE", teams);
    }
    bench_set("FTKIT_CHECKPOINT_PERIOD", "1 call");
    bench_set("FTKIT_LEVEL_HDF5_ENABLED", "false");
    bench_open(&b, &argc, &argv);
    const struct kernel *k = find_kernel(&b);
    width = (int)sqrt((double)b.bytes / sizeof(double) / k->planes);
    bench_mpi(&b, PMPI_Comm_dup(MPI_COMM_WORLD, &world), "duplicate");
    field = (double *)(void *)bench_alloc(&b, b.bytes);
    next = (double *)(void *)bench_alloc(&b, b.bytes);
    edges = calloc(8 * (size_t)width, sizeof *edges);
    if (!edges)
        bench_die(&b, "no memory");
    for (size_t i = 0; i < b.bytes / sizeof(double); i++)
        field[i] = next[i] = (double)(i % 1000) / 1000;
    bench_ft(&b, ftkit_register(b.ft, "step", &step, 1, MPI_INT), FTKIT_OK, "register");
    bench_ft(&b, ftkit_recover(b.ft, NULL), FTKIT_NO_SET, "recover");
    for (int i = 0; i < b.reps; i++)
        repetition(&b, k);
    free(edges);
    bench_mpi(&b, PMPI_Comm_free(&world), "free");
    return bench_close(&b);
}
