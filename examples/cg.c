/* cg: conjugate gradients with a Jacobi preconditioner, through failures.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Solves A x = b for a sparse symmetric positive definite A: a Matrix Market file, or the
 * 7-point Laplacian on a cube.  b is the row sums of A, so the solution is all ones.
 * Every rank owns a range of rows.  The state of the iteration is its number, two scalars
 * that every rank holds, and the vectors x, r and p, which are blocks of global arrays:
 * a run may go on with another number of ranks.
 *
 * The result of no MPI call is looked at.  After a failure the numbers are worthless, and
 * a NaN may even end the iteration; ftkit_checkpoint() and ftkit_finish() take all ranks
 * back to the last committed set before anybody can leave the loop.
 *
 * Dot products are added in chunks of CHUNK rows, and the sums of the chunks in their
 * order, so the result is the same to the last bit on every number of ranks.
 *
 * Source: Saad, Iterative Methods for Sparse Linear Systems, 2003, algorithm 9.1. */
#define _POSIX_C_SOURCE 200809L
#include <limits.h>

#define EXAMPLE_NAME "cg"
#include "example.h"
#include "matrix.h"

#define CHUNK 64

/* ---- The solver -------------------------------------------------------------------- */

struct solver {
    int size;                /* ranks the layout was made for, 0: none yet */
    int *rows, *first_row;   /* [size]: rows of each rank ... */
    int *parts, *first_part; /* [size]: ... and their chunks */
    struct matrix a;         /* our rows */
    double *x, *r, *p;       /* [a.count]: solution, residual, direction */
    double *z, *q;           /* [a.count]: preconditioned residual, A p */
    double *all;             /* [a.n]: a vector of all ranks */
    double *sum;             /* [chunks]: sums of the chunks of all ranks */
    int iteration;           /* state of the loop, with x, r, p and scalar */
    double scalar[3];        /* r.z, r.r, b.b */
};
#define RZ(s) ((s)->scalar[0])
#define RR(s) ((s)->scalar[1])
#define BB(s) ((s)->scalar[2])

static void layout_free(struct solver *s)
{
    int *i[] = { s->rows, s->first_row, s->parts, s->first_part };
    double *d[] = { s->x, s->r, s->p, s->z, s->q, s->all, s->sum };
    for (size_t k = 0; k < sizeof i / sizeof *i; k++)
        free(i[k]);
    for (size_t k = 0; k < sizeof d / sizeof *d; k++)
        free(d[k]);
    matrix_free(&s->a);
    s->rows = s->first_row = s->parts = s->first_part = NULL;
    s->x = s->r = s->p = s->z = s->q = s->all = s->sum = NULL;
    s->size = 0;
}

static double *vector(int count)
{
    return calloc((size_t)count + 1, sizeof(double));
}

/* b, which is A times ones. */
static double right_side(const struct matrix *a, int i)
{
    double b = 0;
    for (size_t k = a->start[i]; k < a->start[i + 1]; k++)
        b += a->value[k];
    return b;
}

/* Rows for the ranks of comm, our part of the matrix, and the vectors as they are in the
 * beginning.  Local: nobody else need be there.  Returns 0, or -1 with a.error. */
static int layout(struct solver *s, const char *path, int side, int n, MPI_Comm comm)
{
    int size, rank, chunks = n / CHUNK + (n % CHUNK != 0);
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    layout_free(s);
    size_t ints = (size_t)size * sizeof(int);
    s->rows = malloc(ints);
    s->first_row = malloc(ints);
    s->parts = malloc(ints);
    s->first_part = malloc(ints);
    if (!s->rows || !s->first_row || !s->parts || !s->first_part)
        goto no_memory;
    for (int r = 0; r < size; r++) {
        int end = (int)((long long)chunks * (r + 1) / size);
        s->first_part[r] = (int)((long long)chunks * r / size);
        s->parts[r] = end - s->first_part[r];
        s->first_row[r] = s->first_part[r] * CHUNK;
        s->rows[r] = (end < chunks ? end * CHUNK : n) - s->first_row[r];
        if (s->parts[r] == 0)
            s->first_row[r] = s->rows[r] = 0;
    }
    int first = s->first_row[rank], count = s->rows[rank];
    if ((path != NULL ? matrix_read(&s->a, path, first, count)
                      : matrix_poisson(&s->a, side, first, count))
        != 0)
        return -1;
    if (s->a.n != n) {
        snprintf(s->a.error, sizeof s->a.error, "%.4000s: changed during the run", path);
        return -1;
    }
    s->x = vector(count);
    s->r = vector(count);
    s->p = vector(count);
    s->z = vector(count);
    s->q = vector(count);
    s->all = vector(n);
    s->sum = vector(chunks);
    if (!s->x || !s->r || !s->p || !s->z || !s->q || !s->all || !s->sum)
        goto no_memory;
    for (int i = 0; i < count; i++)
        s->r[i] = right_side(&s->a, i);
    s->size = size;
    return 0;
no_memory:
    snprintf(s->a.error, sizeof s->a.error, "out of memory for %d rows", n);
    return -1;
}

/* a . b over all ranks: chunk by chunk, then the chunks in order on every rank. */
static double dot(struct solver *s, MPI_Comm comm, const double *a, const double *b)
{
    int rank, chunks = s->first_part[s->size - 1] + s->parts[s->size - 1];
    double total = 0;
    MPI_Comm_rank(comm, &rank);
    double *mine = s->sum + s->first_part[rank];
    for (int c = 0; c < s->parts[rank]; c++) {
        int end = (c + 1) * CHUNK < s->a.count ? (c + 1) * CHUNK : s->a.count;
        mine[c] = 0;
        for (int i = c * CHUNK; i < end; i++)
            mine[c] += a[i] * b[i];
    }
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, s->sum, s->parts, s->first_part,
        MPI_DOUBLE, comm);
    for (int c = 0; c < chunks; c++)
        total += s->sum[c];
    return total;
}

/* Bring the vector v of all ranks together in s->all. */
static void gather(struct solver *s, MPI_Comm comm, const double *v)
{
    MPI_Allgatherv(
        v, s->a.count, MPI_DOUBLE, s->all, s->rows, s->first_row, MPI_DOUBLE, comm);
}

/* q = A v. */
static void multiply(struct solver *s, MPI_Comm comm, const double *v)
{
    const struct matrix *a = &s->a;
    gather(s, comm, v);
    for (int i = 0; i < a->count; i++) {
        double sum = 0;
        for (size_t k = a->start[i]; k < a->start[i + 1]; k++)
            sum += a->value[k] * s->all[a->col[k]];
        s->q[i] = sum;
    }
}

static void iterate(struct solver *s, MPI_Comm comm)
{
    int count = s->a.count;
    for (int i = 0; i < count; i++)
        s->z[i] = s->r[i] / s->a.diagonal[s->a.first + i];
    double rz = dot(s, comm, s->r, s->z);
    double beta = s->iteration > 0 ? rz / RZ(s) : 0;
    if (s->iteration == 0)
        BB(s) = dot(s, comm, s->r, s->r); /* x = 0: here r is b */
    for (int i = 0; i < count; i++)
        s->p[i] = s->z[i] + beta * s->p[i];
    multiply(s, comm, s->p);
    double alpha = rz / dot(s, comm, s->p, s->q);
    for (int i = 0; i < count; i++) {
        s->x[i] += alpha * s->p[i];
        s->r[i] -= alpha * s->q[i];
    }
    RZ(s) = rz;
    RR(s) = dot(s, comm, s->r, s->r);
    s->iteration++;
}

/* ---- The program ------------------------------------------------------------------- */

struct app {
    struct solver s;
    const char *matrix, *out, *config, *pidfile;
    int side, limit, delay_ms, n;
    double tolerance;
};

static int register_vectors(ftkit_ctx *ft, const struct solver *s)
{
    size_t n = (size_t)s->a.n, count = (size_t)s->a.count, first = (size_t)s->a.first;
    int rc = ftkit_register_array(ft, "x", s->x, MPI_DOUBLE, 1, &n, &count, &first, NULL);
    if (rc >= 0)
        rc = ftkit_register_array(ft, "r", s->r, MPI_DOUBLE, 1, &n, &count, &first, NULL);
    if (rc >= 0)
        rc = ftkit_register_array(ft, "p", s->p, MPI_DOUBLE, 1, &n, &count, &first, NULL);
    return rc;
}

/* Runs at the start and after every repair.  Lost ranks are normally replaced and nothing
 * changes; when they could not be, there are fewer ranks and each gets other rows. */
static int repaired(ftkit_ctx *ft, MPI_Comm comm, void *arg)
{
    struct app *a = arg;
    int size, rank;
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    note_pid(a->pidfile, rank, a->s.iteration);
    if (size == a->s.size)
        return 0;
    if (layout(&a->s, a->matrix, a->side, a->n, comm) != 0) {
        fprintf(stderr, "cg: %s\n", a->s.a.error);
        return -1;
    }
    return register_vectors(ft, &a->s) < 0;
}

/* Register the state of the loop and what a repair needs. */
static int prepare(ftkit_ctx *ft, struct app *a, MPI_Comm *comm)
{
    int rc = ftkit_bind_comm(ft, comm);
    if (rc >= 0 && layout(&a->s, a->matrix, a->side, a->n, *comm) != 0) {
        fprintf(stderr, "cg: %s\n", a->s.a.error);
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
    if (rc >= 0)
        rc = ftkit_register_replicated(ft, "iteration", &a->s.iteration, 1, MPI_INT);
    if (rc >= 0)
        rc = ftkit_register_replicated(ft, "scalar", a->s.scalar, 3, MPI_DOUBLE);
    if (rc >= 0)
        rc = register_vectors(ft, &a->s);
    if (rc >= 0)
        rc = ftkit_on_repair(ft, repaired, a);
    return rc;
}

static int run(ftkit_ctx *ft, struct app *a)
{
    struct solver *s = &a->s;
    MPI_Comm comm = ftkit_comm(ft);
    double residual = 0, goal = a->tolerance * a->tolerance;
    int rank, done = 0, failed = 0;

    /* No communication from here to ftkit_recover(): a replacement comes through here
     * alone, in the middle of the run of the others. */
    MPI_Comm_rank(comm, &rank);
    int rc = prepare(ft, a, &comm);
    if (hopeless(ft, rank, rc) || rc < 0)
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    rc = ftkit_recover(ft, NULL);
    if (rc == FTKIT_OK)
        tell(ft, rank, "continues", s->iteration);
    if (hopeless(ft, rank, rc) || rc < 0)
        return EXIT_FAILURE;

    for (;;) {
        rc = ftkit_checkpoint(ft);
        if (rc == FTKIT_ROLLED_BACK)
            tell(ft, rank, "rolled back, goes on", s->iteration);
        if (hopeless(ft, rank, rc) || rc == FTKIT_HALT)
            break;
        note_pid(a->pidfile, rank, s->iteration);
        /* "not greater": also when it is a NaN */
        if (s->iteration >= a->limit || (s->iteration > 0 && !(RR(s) > goal * BB(s)))) {
            /* Our last messages come before ftkit_finish(), so that a failure in them is
             * repaired as well.  What is in all when it returns is the result. */
            multiply(s, comm, s->x);
            for (int i = 0; i < s->a.count; i++)
                s->q[i] = right_side(&s->a, i) - s->q[i];
            residual = sqrt(dot(s, comm, s->q, s->q) / BB(s));
            rc = ftkit_finish(ft);
            if (rc != FTKIT_ROLLED_BACK) {
                done = !hopeless(ft, rank, rc);
                break;
            }
            tell(ft, rank, "rolled back, goes on", s->iteration);
            continue; /* the set may be of the very last iteration: test again */
        }
        iterate(s, comm);
        pause_ms(a->delay_ms);
    }
    if (done && rank == 0) {
        double worst = 0, last = sqrt(RR(s) / BB(s));
        const char *end = last <= a->tolerance ? "converged"
                          : isfinite(last)
                              ? "not converged, the limit is reached"
                              : "broke down: the matrix is not positive definite";
        for (int i = 0; i < s->a.n; i++)
            if (!(fabs(s->all[i] - 1) <= worst)) /* keeps a NaN */
                worst = fabs(s->all[i] - 1);
        failed = a->out != NULL ? write_raw(a->out, s->all, (size_t)s->a.n) : 0;
        printf("cg: %d rows, %d ranks, %d iterations: %s\n", s->a.n, s->size,
            s->iteration, end);
        printf("cg: residual %.3e by recurrence, %.3e in truth; largest error %.3e\n",
            last, residual, worst);
    }
    if (!done && rc == FTKIT_HALT) {
        if (rank == 0)
            printf("cg: halted at iteration %d; start it again to go on\n", s->iteration);
        return EXIT_AGAIN;
    }
    return done && !failed && isfinite(residual) ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct app app = { .side = 32, .limit = 10000, .tolerance = 1e-8 };
    const struct opt table[] = {
        { "-m", "FILE", "matrix, Matrix Market coordinate", 't', &app.matrix, 0, 0 },
        { "-n", "N", "without -m: Laplacian of N^3 points (32)", 'i', &app.side, 1,
            1024 },
        { "-t", "TOL", "end at this residual (1e-8)", 'f', &app.tolerance, 1e-30, 1 },
        { "-i", "N", "... or after so many iterations (10000)", 'i', &app.limit, 1,
            INT_MAX },
        { "-o", "FILE", "write the solution: float64", 't', &app.out, 0, 0 },
        { "-c", "CONFIG", "configuration file of ftkit", 't', &app.config, 0, 0 },
        { "-d", "MS", "sleep so long in every iteration", 'i', &app.delay_ms, 0,
            3600000 },
        { "--pidfile", "PREFIX", "write pid and iteration of rank R to PREFIX.R", 't',
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
    app.n = app.side * app.side * app.side;
    if (rc == 0 && app.matrix != NULL) { /* is it sound?  And how large? */
        rc = matrix_read(&app.s.a, app.matrix, 0, 0);
        app.n = app.s.a.n;
        memcpy(err, app.s.a.error, sizeof err);
    }
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
    }
    if (rc < 0) {
        if (rank == 0 || rc != FTKIT_ERR_CONFIG) /* one line: it is the same file */
            fprintf(stderr, "cg: %s: %s\n", ftkit_strerror(rc), ftkit_detail(NULL));
        code = rc == FTKIT_ERR_CONFIG ? EXIT_USAGE : EXIT_FAILURE;
    }
    layout_free(&app.s);
    MPI_Finalize();
    return rc == FTKIT_SPARE_DONE ? EXIT_SUCCESS : code;
}
