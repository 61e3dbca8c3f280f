/* Transposes as in parallel FFTs: an array [X][Y][Z] in pencils on a process grid.  In
 * each step the lines along Z, Y and X are worked on in turn; between these the array
 * is transposed in the communicators of the rows and of the columns of the grid, with
 * MPI_Alltoall and padded blocks in even steps, and in odd ones with MPI_Alltoallv,
 * blocks of different sizes and a datatype that packs.  A checksum goes to rank 0 now
 * and then, and what it makes of that goes to all.  The result does not depend on the
 * number of ranks.
 *
 * A step passes app.mid once, between the ways there and back, and app.inflight twice,
 * where the rows are transposed and the columns are not, or the other way round.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

#define EVERY 4 /* steps between checksums */

struct side { /* one of the two dimensions of the grid */
    MPI_Comm comm;
    int size, at;
};

static struct {
    int X, Y, Z;
    int x, y, z, ty; /* own parts: x over the columns, y and z over the rows; of Y
                        over the columns, while X is whole: ty */
    int x0, y0;
    size_t room;         /* the largest that an array or a padded buffer becomes */
    double *u;           /* [x][y][Z], block of a global array */
    double *a, *b;       /* [room] the array on its way */
    double *send, *recv; /* [room] */
    double scale;        /* replicated */
    struct side row, col;
} t = { .row.comm = MPI_COMM_NULL, .col.comm = MPI_COMM_NULL };

static int prepare(struct foreign *f)
{
    int dims[2] = { 0, 0 };
    MPI_Dims_create(f->nranks, 2, dims);
    t.col = (struct side){ MPI_COMM_NULL, dims[0], f->rank / dims[1] };
    t.row = (struct side){ MPI_COMM_NULL, dims[1], f->rank % dims[1] };
    t.X = f->size;
    t.Y = f->size + 3;
    t.Z = f->size + 1;
    t.x = foreign_block(t.X, t.col.size, t.col.at, &t.x0);
    t.y = foreign_block(t.Y, t.row.size, t.row.at, &t.y0);
    t.z = foreign_block(t.Z, t.row.size, t.row.at, NULL);
    t.ty = foreign_block(t.Y, t.col.size, t.col.at, NULL);
    /* padded to a multiple of both sides of the grid, in each dimension */
    size_t most = (size_t)(f->size + 3 + dims[0] * dims[1]);
    t.room = most * (most / (size_t)dims[0] + 1) * (most / (size_t)dims[1] + 1);
    t.u = calloc(t.room, sizeof *t.u);
    t.a = calloc(t.room, sizeof *t.a);
    t.b = calloc(t.room, sizeof *t.b);
    t.send = calloc(t.room, sizeof *t.send);
    t.recv = calloc(t.room, sizeof *t.recv);
    if (!t.u || !t.a || !t.b || !t.send || !t.recv || t.x * t.y * t.z * t.ty == 0)
        return 1;
    for (int i = 0; i < t.x; i++)
        for (int j = 0; j < t.y; j++)
            for (int k = 0; k < t.Z; k++)
                t.u[(size_t)((i * t.y + j) * t.Z + k)] =
                    (double)(((t.x0 + i) * 31 + (t.y0 + j) * 17 + k * 7) % 101) / 101;
    t.scale = 1;
    size_t global[3] = { (size_t)t.X, (size_t)t.Y, (size_t)t.Z };
    size_t local[3] = { (size_t)t.x, (size_t)t.y, (size_t)t.Z };
    size_t offset[3] = { (size_t)t.x0, (size_t)t.y0, 0 };
    int rc = ftkit_register_array(f->ft, "u", t.u, MPI_DOUBLE, 3, global, local, offset, NULL);
    rc |= ftkit_register_replicated(f->ft, "scale", &t.scale, 1, MPI_DOUBLE);
    return rc != FTKIT_OK;
}

static int part(struct foreign *f, struct side *s, int color)
{
    if (MPI_Comm_split(f->comm, color, s->at, &s->comm) != MPI_SUCCESS) {
        s->comm = MPI_COMM_NULL;
        return 1;
    }
    return foreign_track(f, s->comm);
}

static int connect_ranks(struct foreign *f)
{
    return part(f, &t.row, t.col.at) || part(f, &t.col, t.row.at);
}

static void disconnect(void)
{
    if (t.row.comm != MPI_COMM_NULL)
        MPI_Comm_free(&t.row.comm);
    if (t.col.comm != MPI_COMM_NULL)
        MPI_Comm_free(&t.col.comm);
}

/* Blocks padded to the same size, packed by hand.  N and M are distributed over the
 * side. */
static void even(const struct side *s, int A, int N, int M, const double *in, double *out)
{
    int m = foreign_block(M, s->size, s->at, NULL), m0, n0;
    int n = foreign_block(N, s->size, s->at, NULL);
    int nmax = (N + s->size - 1) / s->size, mmax = (M + s->size - 1) / s->size;
    int block = A * nmax * mmax;
    for (int p = 0; p < s->size; p++) {
        int np = foreign_block(N, s->size, p, &n0), used = A * m * np;
        for (int i = 0; i < A * m; i++)
            memcpy(t.send + p * block + i * np, in + i * N + n0, (size_t)np * sizeof *in);
        memset(t.send + p * block + used, 0, (size_t)(block - used) * sizeof *in); /* log.check */
    }
    MPI_Alltoall(t.send, block, MPI_DOUBLE, t.recv, block, MPI_DOUBLE, s->comm);
    for (int p = 0; p < s->size; p++) {
        int mp = foreign_block(M, s->size, p, &m0);
        const double *from = t.recv + p * block;
        for (int i = 0; i < A; i++)
            for (int j = 0; j < mp; j++)
                for (int k = 0; k < n; k++)
                    out[(i * n + k) * M + m0 + j] = from[(i * mp + j) * n + k];
    }
}

/* Blocks as they are, packed by a datatype: one item is a place in all own lines. */
static void uneven(const struct side *s, int A, int N, int M, const double *in, double *out)
{
    enum { MOST = 64 };
    int m = foreign_block(M, s->size, s->at, NULL), m0;
    int n = foreign_block(N, s->size, s->at, NULL);
    int scount[MOST], sat[MOST], rcount[MOST], rat[MOST];
    MPI_Datatype across, item;
    if (s->size > MOST)
        return;
    MPI_Type_vector(A * m, 1, N, MPI_DOUBLE, &across);
    MPI_Type_create_resized(across, 0, sizeof(double), &item);
    MPI_Type_commit(&item);
    MPI_Type_free(&across);
    for (int p = 0; p < s->size; p++) {
        scount[p] = foreign_block(N, s->size, p, &sat[p]);
        rcount[p] = A * n * foreign_block(M, s->size, p, &m0);
        rat[p] = A * n * m0;
    }
    MPI_Alltoallv(in, scount, sat, item, t.recv, rcount, rat, MPI_DOUBLE, s->comm);
    MPI_Type_free(&item);
    for (int p = 0; p < s->size; p++) {
        int mp = foreign_block(M, s->size, p, &m0);
        const double *from = t.recv + rat[p];
        for (int k = 0; k < n; k++)
            for (int i = 0; i < A; i++)
                for (int j = 0; j < mp; j++)
                    out[(i * n + k) * M + m0 + j] = from[(k * A + i) * mp + j];
    }
}

/* [A][own part of M][N] becomes [A][own part of N][M] */
static void transpose(const struct foreign *f, const struct side *s, int A, int N, int M,
    const double *in, double *out)
{
    if (f->step % 2 == 0)
        even(s, A, N, M, in, out);
    else
        uneven(s, A, N, M, in, out);
}

/* [A][B][N] becomes [B][A][N], nothing is sent */
static void swap(int A, int B, int N, const double *in, double *out)
{
    for (int i = 0; i < A; i++)
        for (int j = 0; j < B; j++)
            memcpy(out + (j * A + i) * N, in + (i * B + j) * N, (size_t)N * sizeof *in);
}

/* A pass of a transform over lines of N: sums and differences of its halves. */
static void work(int lines, int N, double *u, double *scratch)
{
    int half = N / 2;
    for (int l = 0; l < lines; l++) {
        double *v = u + l * N;
        for (int i = 0; i < half; i++) {
            double a = v[i], b = v[half + i];
            scratch[2 * i] = t.scale * 0.7 * (a + b) + 0.01 * i;
            scratch[2 * i + 1] = t.scale * 0.7 * (a - b) - 0.003;
        }
        memcpy(v, scratch, 2 * (size_t)half * sizeof *v);
    }
}

static void checksum(const struct foreign *f)
{
    int64_t mine = 0, all = 0;
    double scale = 0;
    for (int i = 0; i < t.x * t.y * t.Z; i++)
        mine += foreign_fixed(t.u[i] * t.u[i]);
    MPI_Reduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, 0, f->comm);
    if (f->rank == 0)
        scale = 0.8 + 0.2 / (1 + (double)all * 0x1p-30 / (t.X * t.Y * t.Z));
    MPI_Bcast(&scale, 1, MPI_DOUBLE, 0, f->comm);
    t.scale = scale;
}

static void step(struct foreign *f)
{
    work(t.x * t.y, t.Z, t.u, t.send);
    transpose(f, &t.row, t.x, t.Z, t.Y, t.u, t.a); /* [x][z][Y] */
    (void)FTK_FAULT("app.inflight");
    work(t.x * t.z, t.Y, t.a, t.send);
    swap(t.x, t.z, t.Y, t.a, t.b);
    transpose(f, &t.col, t.z, t.Y, t.X, t.b, t.a); /* [z][ty][X] */
    (void)FTK_FAULT("app.mid");
    work(t.z * t.ty, t.X, t.a, t.send);
    transpose(f, &t.col, t.z, t.X, t.Y, t.a, t.b); /* [z][x][Y] */
    (void)FTK_FAULT("app.inflight");
    swap(t.z, t.x, t.Y, t.b, t.a);
    transpose(f, &t.row, t.x, t.Y, t.Z, t.a, t.b); /* [x][y][Z] */
    memcpy(t.u, t.b, (size_t)(t.x * t.y * t.Z) * sizeof *t.u);
    if ((f->step + 1) % EVERY == 0)
        checksum(f);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    uint64_t mine = 0;
    for (int i = 0; i < t.x; i++)
        for (int j = 0; j < t.y; j++)
            for (int k = 0; k < t.Z; k++)
                mine += foreign_cell((size_t)(((t.x0 + i) * t.Y + t.y0 + j) * t.Z + k),
                    t.u[(i * t.y + j) * t.Z + k]);
    *hash = foreign_total(f, mine);
    snprintf(detail, room, "scale %.17g", t.scale);
    return true;
}

static void release(void)
{
    free(t.u);
    free(t.a);
    free(t.b);
    free(t.send);
    free(t.recv);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "transpose", 50, 24, prepare, connect_ranks, disconnect,
        step, verdict, release };
    return foreign_main(argc, argv, &app);
}
