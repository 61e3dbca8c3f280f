/* Pipelined wavefronts, as in LU and SSOR solvers and in transport sweeps: a block of
 * columns of a three-dimensional array per rank on a two-dimensional process grid.  In
 * each step four sweeps start from the four corners; plane by plane a rank receives the
 * rim from two sides, computes and sends its own rim to the other two: many small
 * blocking messages.  The result does not depend on the number of ranks.
 *
 * A step passes app.mid once and app.inflight four times, between two sends of the
 * middle plane of a sweep.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <math.h>

#include "foreign.h"

#define PLANES 6
#define EVERY 3 /* steps between looks at the residual */

static struct {
    int dims[2], at[2];
    int n[2], start[2]; /* own block */
    double *u;          /* [n[0]][n[1]][PLANES], block of a global array */
    double damping;     /* follows from the residual: replicated */
    int64_t change;     /* of this rank since the last look, registered */
    double *rim[2];     /* [n[1]], [n[0]]: what comes from upstream in each dimension */
    double *own[2];     /* ... and goes downstream */
    MPI_Comm cart;
    int low[2], high[2]; /* neighbours */
} w = { .cart = MPI_COMM_NULL };

static int prepare(struct foreign *f)
{
    size_t global[3], local[3], offset[3];
    MPI_Dims_create(f->nranks, 2, w.dims);
    w.at[0] = f->rank / w.dims[1];
    w.at[1] = f->rank % w.dims[1];
    for (int d = 0; d < 2; d++) {
        w.n[d] = foreign_block(f->size, w.dims[d], w.at[d], &w.start[d]);
        if (w.n[d] == 0)
            return 1;
        global[d] = (size_t)f->size;
        local[d] = (size_t)w.n[d];
        offset[d] = (size_t)w.start[d];
    }
    global[2] = local[2] = PLANES;
    offset[2] = 0;
    w.u = calloc(local[0] * local[1] * PLANES, sizeof *w.u);
    for (int d = 0; d < 2; d++) {
        w.rim[d] = calloc(local[1 - d], sizeof *w.rim[d]);
        w.own[d] = calloc(local[1 - d], sizeof *w.own[d]);
        if (!w.u || !w.rim[d] || !w.own[d])
            return 1;
    }
    w.damping = 1;
    int rc = ftkit_register_array(f->ft, "u", w.u, MPI_DOUBLE, 3, global, local, offset, NULL);
    rc |= ftkit_register_replicated(f->ft, "damping", &w.damping, 1, MPI_DOUBLE);
    rc |= ftkit_register(f->ft, "change", &w.change, 1, MPI_INT64_T);
    return rc != FTKIT_OK;
}

static int connect_ranks(struct foreign *f)
{
    const int periods[2] = { 0, 0 };
    int at[2];
    if (MPI_Cart_create(f->comm, 2, w.dims, periods, 0, &w.cart) != MPI_SUCCESS) {
        w.cart = MPI_COMM_NULL;
        return 1;
    }
    if (MPI_Cart_coords(w.cart, f->rank, 2, at) != MPI_SUCCESS || at[0] != w.at[0]
        || at[1] != w.at[1])
        return 1;
    for (int d = 0; d < 2; d++)
        MPI_Cart_shift(w.cart, d, 1, &w.low[d], &w.high[d]);
    return foreign_track(f, w.cart);
}

static void disconnect(void)
{
    if (w.cart != MPI_COMM_NULL)
        MPI_Comm_free(&w.cart);
}

/* What is fixed at a place of the global array. */
static double source(int i, int j, int k)
{
    return (double)((i * 7 + j * 13 + k * 29) % 31) / 31;
}

/* One plane of a sweep; up[d] says whether it goes upwards in dimension d. */
static void plane(const struct foreign *f, const bool up[2], int k)
{
    const int ni = w.n[0], nj = w.n[1];
    double *a = w.rim[0], *b = w.rim[1]; /* becomes the newest value on the way */
    for (int ii = 0; ii < ni; ii++) {
        int i = up[0] ? ii : ni - 1 - ii;
        for (int jj = 0; jj < nj; jj++) {
            int j = up[1] ? jj : nj - 1 - jj;
            double *u = w.u + ((size_t)i * (size_t)nj + (size_t)j) * PLANES + k;
            double below = k > 0 ? u[-1] : 0;
            double flow = 0.3 * a[j] + 0.3 * b[i] + 0.2 * below;
            double fixed = source(w.start[0] + i, w.start[1] + j, k + f->step % 5);
            double next = 0.4 * *u + 0.6 * (w.damping * flow + 0.2 * fixed);
            w.change += foreign_fixed(fabs(next - *u));
            *u = a[j] = b[i] = next;
        }
    }
    memcpy(w.own[0], a, (size_t)nj * sizeof *a);
    memcpy(w.own[1], b, (size_t)ni * sizeof *b);
}

static void sweep(const struct foreign *f, int corner)
{
    const bool up[2] = { corner % 2 == 0, corner / 2 == 0 };
    int from[2], to[2];
    for (int d = 0; d < 2; d++) {
        from[d] = up[d] ? w.low[d] : w.high[d];
        to[d] = up[d] ? w.high[d] : w.low[d];
    }
    for (int k = 0; k < PLANES; k++) {
        for (int d = 0; d < 2; d++) { /* at the rim of the whole there is nobody: zeros */
            memset(w.rim[d], 0, (size_t)w.n[1 - d] * sizeof *w.rim[d]);
            MPI_Recv(
                w.rim[d], w.n[1 - d], MPI_DOUBLE, from[d], 4 * k + d, w.cart, MPI_STATUS_IGNORE);
        }
        plane(f, up, k);
        MPI_Send(w.own[0], w.n[1], MPI_DOUBLE, to[0], 4 * k, w.cart);
        if (k == PLANES / 2)
            (void)FTK_FAULT("app.inflight");
        MPI_Send(w.own[1], w.n[0], MPI_DOUBLE, to[1], 4 * k + 1, w.cart);
    }
}

static void step(struct foreign *f)
{
    for (int corner = 0; corner < 4; corner++) {
        if (corner == 2)
            (void)FTK_FAULT("app.mid");
        sweep(f, corner);
    }
    if ((f->step + 1) % EVERY == 0) {
        int64_t all = 0;
        MPI_Allreduce(&w.change, &all, 1, MPI_INT64_T, MPI_SUM, w.cart);
        double mean = (double)all * 0x1p-30 / f->size / f->size;
        w.damping = 0.5 + 0.5 / (1 + mean);
        w.change = 0;
    }
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    uint64_t mine = 0;
    for (int i = 0; i < w.n[0]; i++)
        for (int j = 0; j < w.n[1]; j++)
            for (int k = 0; k < PLANES; k++) {
                size_t here = ((size_t)i * (size_t)w.n[1] + (size_t)j) * PLANES + (size_t)k;
                size_t where = (size_t)((w.start[0] + i) * f->size + w.start[1] + j);
                mine += foreign_cell(where * PLANES + (size_t)k, w.u[here]);
            }
    *hash = foreign_total(f, mine);
    snprintf(detail, room, "damping %.17g", w.damping);
    return true;
}

static void release(void)
{
    free(w.u);
    for (int d = 0; d < 2; d++) {
        free(w.rim[d]);
        free(w.own[d]);
    }
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "wavefront", 50, 48, prepare, connect_ranks, disconnect,
        step, verdict, release };
    return foreign_main(argc, argv, &app);
}
