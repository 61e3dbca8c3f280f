/* cg: conjugate gradients with a Jacobi preconditioner, through failures.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Solves A x = b for a sparse symmetric positive definite A: a Matrix Market file, or the
 * 7-point Laplacian on a cube.  b is the row sums of A, so the solution is all ones.
 * Every rank owns a range of rows.  The state of the iteration is its number, three scalars
 * that are the same on every rank, and the vectors x, r and p, which are blocks of global
 * arrays: so a run may continue on another number of ranks.
 *
 * The program checks no MPI call.  After a failure the numbers are worthless, and a NaN may
 * even end the iteration; ftkit_step() takes all ranks back to the
 * last committed set before any rank can leave the loop.
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

/* ---- The solver ---------------------------------------------------------------------- */

struct solver {
    int size, rank;          /* for which the layout was made; size 0: none yet */
    int *rows, *first_row;   /* [size]: rows of each rank ... */
    int *parts, *first_part; /* [size]: ... and their chunks */
    struct matrix a;         /* the rows of this rank */
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
    free(s->rows); /* with the other three */
    free(s->x);    /* with all vectors */
    matrix_free(&s->a);
    s->rows = NULL;
    s->x = NULL;
    s->size = 0;
}

/* b, which is A times ones. */
static double right_side(const struct matrix *a, int i)
{
    double b = 0;
    for (size_t k = a->start[i]; k < a->start[i + 1]; k++)
        b += a->value[k];
    return b;
}

/* Distribute the rows over the ranks of comm, make this rank's part of the matrix and the
 * initial vectors.  Local: no other rank has to call it.  Returns 0, or -1 with a.error. */
static int layout(struct solver *s, const char *path, int side, int n, MPI_Comm comm)
{
    int size, rank, chunks = n / CHUNK + (n % CHUNK != 0);
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    layout_free(s);
    if ((s->rows = calloc(4 * (size_t)size, sizeof *s->rows)) == NULL)
        return matrix_no_memory(&s->a, n);
    s->first_row = s->rows + size;
    s->parts = s->first_row + size;
    s->first_part = s->parts + size;
    for (int r = 0; r < size; r++) {
        int end = (int)((long long)chunks * (r + 1) / size);
        s->first_part[r] = (int)((long long)chunks * r / size);
        s->parts[r] = end - s->first_part[r];
        if (s->parts[r] == 0)
            continue; /* more ranks than chunks */
        s->first_row[r] = s->first_part[r] * CHUNK;
        s->rows[r] = (end < chunks ? end * CHUNK : n) - s->first_row[r];
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
    s->x = calloc(5 * (size_t)count + (size_t)n + (size_t)chunks, sizeof *s->x);
    if (s->x == NULL)
        return matrix_no_memory(&s->a, n);
    s->r = s->x + count;
    s->p = s->r + count;
    s->z = s->p + count;
    s->q = s->z + count;
    s->all = s->q + count;
    s->sum = s->all + n;
    for (int i = 0; i < count; i++)
        s->r[i] = right_side(&s->a, i);
    s->rank = rank;
    s->size = size;
    return 0;
}

/* a . b over all ranks: chunk by chunk, then the chunks in order on every rank. */
static double dot(struct solver *s, MPI_Comm comm, const double *a, const double *b)
{
    int chunks = s->first_part[s->size - 1] + s->parts[s->size - 1];
    double total = 0, *mine = s->sum + s->first_part[s->rank];
    for (int c = 0; c < s->parts[s->rank]; c++) {
        int end = (c + 1) * CHUNK < s->a.count ? (c + 1) * CHUNK : s->a.count;
        mine[c] = 0;
        for (int i = c * CHUNK; i < end; i++)
            mine[c] += a[i] * b[i];
    }
    MPI_Allgatherv(
        MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, s->sum, s->parts, s->first_part, MPI_DOUBLE, comm);
    for (int c = 0; c < chunks; c++)
        total += s->sum[c];
    return total;
}

/* Bring the vector v of all ranks together in s->all. */
static void gather(struct solver *s, MPI_Comm comm, const double *v)
{
    MPI_Allgatherv(v, s->a.count, MPI_DOUBLE, s->all, s->rows, s->first_row, MPI_DOUBLE, comm);
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

/* ---- The program --------------------------------------------------------------------- */

struct app {
    struct solver s;
    const char *matrix, *out, *config, *pidfile;
    int side, limit, delay_ms, n;
    double tolerance;
};

/* Runs at the start and after every repair, before ftkit fills the arrays.  Normally lost
 * ranks are replaced, and nothing changes.  Otherwise there are fewer ranks, and each gets
 * other rows. */
static int divide(ftkit_ctx *ft, MPI_Comm comm, void *arg)
{
    struct app *a = arg;
    struct solver *s = &a->s;
    int size, rank;
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    note_pid(a->pidfile, rank, s->iteration);
    if (size == s->size)
        return 0;
    if (layout(s, a->matrix, a->side, a->n, comm) != 0) {
        fprintf(stderr, "cg: %s\n", s->a.error);
        return -1;
    }
    size_t n = (size_t)a->n, count = (size_t)s->a.count, first = (size_t)s->a.first;
    double *vector[] = { s->x, s->r, s->p };
    const char *name[] = { "x", "r", "p" };
    int rc = FTKIT_OK;
    for (int i = 0; i < 3 && rc >= 0; i++)
        rc = ftkit_register_array(ft, name[i], vector[i], MPI_DOUBLE, 1, &n, &count, &first, NULL);
    return rc;
}

/* The true residual, not that of the recurrence.  Puts the whole of x into s->all. */
static double true_residual(struct solver *s, MPI_Comm comm)
{
    multiply(s, comm, s->x);
    for (int i = 0; i < s->a.count; i++)
        s->q[i] = right_side(&s->a, i) - s->q[i];
    return sqrt(dot(s, comm, s->q, s->q) / BB(s));
}

static int result(const struct app *a, double residual)
{
    const struct solver *s = &a->s;
    double worst = 0, last = sqrt(RR(s) / BB(s));
    if (s->rank == 0) {
        for (int i = 0; i < a->n; i++)
            if (!(fabs(s->all[i] - 1) <= worst)) /* keeps a NaN */
                worst = fabs(s->all[i] - 1);
        printf("cg: %d rows, %d ranks, %d iterations: %s\n", a->n, s->size, s->iteration,
            last <= a->tolerance ? "converged"
            : isfinite(last)     ? "not converged, the limit is reached"
                                 : "broke down: the matrix is not positive definite");
        printf("cg: residual %.3e by recurrence, %.3e in truth; largest error %.3e\n", last,
            residual, worst);
        if (a->out != NULL && write_raw(a->out, s->all, (size_t)a->n) != 0)
            return EXIT_FAILURE;
    }
    return isfinite(residual) ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int run(ftkit_ctx *ft, struct app *a)
{
    struct solver *s = &a->s;
    double residual = 0, goal = a->tolerance * a->tolerance;
    MPI_Comm comm;
    int rc;

    /* No communication from here to ftkit_step(): a replacement runs this part alone, while
     * the other ranks are in their loop. */
    ftkit_bind_comm(ft, &comm); /* the working ranks, now and after every repair */
    if (divide(ft, comm, a) != 0
        || ftkit_register_replicated(ft, "iteration", &s->iteration, 1, MPI_INT) < 0
        || ftkit_register_replicated(ft, "scalar", s->scalar, 3, MPI_DOUBLE) < 0
        || ftkit_on_repair(ft, divide, a) < 0)
        give_up(ftkit_detail(ft));

    while (ftkit_step(ft, &rc)) { /* restore, write a set, repair, roll back: whatever is due */
        say(ft, rc, s->iteration);
        note_pid(a->pidfile, s->rank, s->iteration);
        /* "not greater" also holds for a NaN */
        if (s->iteration >= a->limit || (s->iteration > 0 && !(RR(s) > goal * BB(s)))) {
            /* The last messages come before ftkit_end(), so that a failure during them is
             * repaired, too.  After the loop s->all has the result. */
            residual = true_residual(s, comm);
            ftkit_end(ft);
            continue; /* if another rank is lost now, this one returns to an earlier iteration */
        }
        iterate(s, comm);
        pause_ms(a->delay_ms);
    }
    if (rc == FTKIT_OK)
        return result(a, residual);
    say(ft, rc, s->iteration);
    return rc == FTKIT_HALT ? EXIT_SUCCESS : EXIT_FAILURE; /* the next start continues here */
}

int main(int argc, char **argv)
{
    struct app app = { .side = 32, .limit = 10000, .tolerance = 1e-8 };
    const struct opt table[] = {
        { "-m", "FILE", "matrix, Matrix Market coordinate", 't', &app.matrix, 0, 0 },
        { "-n", "N", "without -m: Laplacian of N^3 points (32)", 'i', &app.side, 1, 1024 },
        { "-t", "TOL", "end at this residual (1e-8)", 'f', &app.tolerance, 1e-30, 1 },
        { "-i", "N", "... or after so many iterations (10000)", 'i', &app.limit, 1, INT_MAX },
        { "-o", "FILE", "write the solution: float64", 't', &app.out, 0, 0 },
        { "-c", "CONFIG", "configuration file of ftkit", 't', &app.config, 0, 0 },
        { "-d", "MS", "sleep so long in every iteration", 'i', &app.delay_ms, 0, 3600000 },
        { "--pidfile", "PREFIX", "write pid and iteration of rank R to PREFIX.R", 't', &app.pidfile,
            0, 0 },
        { NULL, NULL, NULL, 0, NULL, 0, 0 },
    };
    char err[4200] = "";
    ftkit_ctx *ft;

    MPI_Init(&argc, &argv);
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* so that a death loses no complete line */
    int rc = options_parse(table, argc, argv, err, sizeof err);
    app.n = app.side * app.side * app.side;
    if (rc == 0 && app.matrix != NULL) { /* check the file and learn its size */
        rc = matrix_read(&app.s.a, app.matrix, 0, 0);
        app.n = app.s.a.n;
        memcpy(err, app.s.a.error, sizeof err);
    }
    int code = ready(rc, table, app.out, err, sizeof err);
    if (code < 0) {
        rc = ftkit_open(MPI_COMM_WORLD, app.config, &ft); /* spares wait in here */
        if (rc == FTKIT_OK) {
            code = run(ft, &app);
            rc = ftkit_close(&ft);
        }
        code = exit_code(rc, code);
    }
    layout_free(&app.s);
    MPI_Finalize();
    return code;
}
