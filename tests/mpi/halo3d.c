/* Halo exchange in three dimensions without blocking calls.  The grid is periodic in
 * the first two dimensions, so that a rank may be its own neighbour, and not in the
 * third. Phase 1 exchanges u by persistent requests, made once, on subarrays, and
 * computes the inside meanwhile.  Phase 2 exchanges v by MPI_Isend of vectors and
 * MPI_Irecv, unpacks the faces in the order in which MPI_Waitany tells them, and polls
 * an MPI_Iallreduce of what phase 1 has changed in between.  The result does not depend
 * on the number of ranks.
 *
 * A step passes app.mid once, between the phases, and app.inflight twice, in each phase
 * when everything is posted and nothing is complete.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <math.h>

#include "foreign.h"

static struct {
    int dims[3], at[3];
    int n[3], start[3];
    size_t along[3];      /* distance of neighbours in memory, in items */
    double *u, *v;        /* [n[0]+2][n[1]+2][n[2]+2], blocks of global arrays */
    double *next;         /* as u */
    double factor;        /* follows from the reduction: replicated */
    MPI_Datatype face[3]; /* vectors: a face of v from its first item on */
    char *packed[6];      /* [bytes[d / 2]] faces of v on arrival */
    int bytes[3];
    MPI_Comm cart;
    int near[6];              /* low and high neighbour of each dimension */
    MPI_Request exchange[12]; /* persistent: six to receive, six to send */
} h = { .cart = MPI_COMM_NULL };

static size_t cells(void)
{
    return (size_t)(h.n[0] + 2) * h.along[0];
}

static size_t index_of(int i, int j, int k)
{
    return (size_t)i * h.along[0] + (size_t)j * h.along[1] + (size_t)k;
}

static size_t whole_index(const struct foreign *f, int i, int j, int k)
{
    size_t n = (size_t)f->size;
    return ((size_t)(h.start[0] + i - 1) * n + (size_t)(h.start[1] + j - 1)) * n
           + (size_t)(h.start[2] + k - 1);
}

/* What a rank has, without asking anybody: blocks in the order of MPI_Cart_create. */
static int prepare(struct foreign *f)
{
    size_t global[3], local[3], offset[3], halo[3] = { 1, 1, 1 };
    int dims[3] = { 0, 0, 0 }, rest = f->rank;
    MPI_Dims_create(f->nranks, 3, dims);
    for (int d = 2; d >= 0; d--) {
        h.dims[d] = dims[2 - d]; /* the fewest ranks first */
        h.at[d] = rest % h.dims[d];
        rest /= h.dims[d];
        h.n[d] = foreign_block(f->size, h.dims[d], h.at[d], &h.start[d]);
        if (h.n[d] == 0)
            return 1;
        h.along[d] = d == 2 ? 1 : h.along[d + 1] * (size_t)(h.n[d + 1] + 2);
        global[d] = (size_t)f->size;
        local[d] = (size_t)h.n[d];
        offset[d] = (size_t)h.start[d];
    }
    h.u = calloc(cells(), sizeof *h.u);
    h.v = calloc(cells(), sizeof *h.v);
    h.next = calloc(cells(), sizeof *h.next);
    if (!h.u || !h.v || !h.next)
        return 1;
    for (int i = 1; i <= h.n[0]; i++)
        for (int j = 1; j <= h.n[1]; j++)
            for (int k = 1; k <= h.n[2]; k++) {
                size_t where = whole_index(f, i, j, k);
                h.u[index_of(i, j, k)] = (double)(where * 37 % 101) / 101;
                h.v[index_of(i, j, k)] = (double)(where * 53 % 103) / 103;
            }
    h.factor = 1;
    int rc = ftkit_register_array(f->ft, "u", h.u, MPI_DOUBLE, 3, global, local, offset, halo);
    rc |= ftkit_register_array(f->ft, "v", h.v, MPI_DOUBLE, 3, global, local, offset, halo);
    rc |= ftkit_register_replicated(f->ft, "factor", &h.factor, 1, MPI_DOUBLE);
    return rc != FTKIT_OK;
}

/* A face of u as a subarray: layer at of dimension d. */
static MPI_Datatype make_layer(int d, int at)
{
    MPI_Datatype type;
    int whole[3], part[3], first[3] = { 1, 1, 1 };
    for (int e = 0; e < 3; e++) {
        whole[e] = h.n[e] + 2;
        part[e] = e == d ? 1 : h.n[e];
    }
    first[d] = at;
    MPI_Type_create_subarray(3, whole, part, first, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

/* The types of phase 2 need nobody else. */
static int make_faces(void)
{
    MPI_Datatype line;
    int wide = (int)h.along[1], deep = (int)h.along[0];
    MPI_Type_vector(h.n[1], h.n[2], wide, MPI_DOUBLE, &h.face[0]);
    MPI_Type_vector(h.n[0], h.n[2], deep, MPI_DOUBLE, &h.face[1]);
    MPI_Type_vector(h.n[1], 1, wide, MPI_DOUBLE, &line);
    MPI_Type_create_hvector(
        h.n[0], 1, (MPI_Aint)h.along[0] * (MPI_Aint)sizeof(double), line, &h.face[2]);
    MPI_Type_free(&line);
    for (int d = 0; d < 3; d++) {
        MPI_Type_commit(&h.face[d]);
        MPI_Pack_size(1, h.face[d], MPI_COMM_SELF, &h.bytes[d]);
        h.packed[2 * d] = malloc((size_t)h.bytes[d]);
        h.packed[2 * d + 1] = malloc((size_t)h.bytes[d]);
        if (!h.packed[2 * d] || !h.packed[2 * d + 1])
            return 1;
    }
    return 0;
}

static int connect_ranks(struct foreign *f)
{
    const int periods[3] = { 1, 1, 0 };
    int at[3];
    for (int r = 0; r < 12; r++)
        h.exchange[r] = MPI_REQUEST_NULL;
    if (!h.packed[0] && make_faces() != 0)
        return 1;
    if (MPI_Cart_create(f->comm, 3, h.dims, periods, 0, &h.cart) != MPI_SUCCESS) {
        h.cart = MPI_COMM_NULL;
        return 1;
    }
    if (MPI_Cart_coords(h.cart, f->rank, 3, at) != MPI_SUCCESS || memcmp(at, h.at, sizeof at) != 0
        || foreign_track(f, h.cart) != 0)
        return 1;
    for (int d = 0; d < 3; d++) {
        MPI_Cart_shift(h.cart, d, 1, &h.near[2 * d], &h.near[2 * d + 1]);
        for (int side = 0; side < 2; side++) {
            int r = 2 * d + side; /* what goes up carries an odd tag */
            MPI_Datatype ghost = make_layer(d, side == 0 ? 0 : h.n[d] + 1);
            MPI_Datatype rim = make_layer(d, side == 0 ? 1 : h.n[d]);
            int rc =
                MPI_Recv_init(h.u, 1, ghost, h.near[r], 2 * d + 1 - side, h.cart, &h.exchange[r]);
            rc |= MPI_Send_init(h.u, 1, rim, h.near[r], 2 * d + side, h.cart, &h.exchange[6 + r]);
            MPI_Type_free(&ghost);
            MPI_Type_free(&rim);
            if (rc != MPI_SUCCESS)
                return 1;
        }
    }
    return 0;
}

static void disconnect(void)
{
    for (int r = 0; r < 12 && h.cart != MPI_COMM_NULL; r++)
        if (h.exchange[r] != MPI_REQUEST_NULL)
            MPI_Request_free(&h.exchange[r]);
    if (h.cart != MPI_COMM_NULL)
        MPI_Comm_free(&h.cart);
}

static double around(const double *x, size_t c)
{
    return (x[c - h.along[0]] + x[c + h.along[0]])
           + ((x[c - h.along[1]] + x[c + h.along[1]]) + (x[c - 1] + x[c + 1])) - 6 * x[c];
}

/* Some cells of u; inside: those that need no halo, else the others. */
static int64_t relax(bool inside)
{
    int64_t change = 0;
    for (int i = 1; i <= h.n[0]; i++)
        for (int j = 1; j <= h.n[1]; j++) {
            bool rim = i == 1 || i == h.n[0] || j == 1 || j == h.n[1];
            for (int k = 1; k <= h.n[2]; k++) {
                if ((rim || k == 1 || k == h.n[2]) == inside)
                    continue;
                size_t c = index_of(i, j, k);
                h.next[c] = h.u[c] + h.factor * 0.1 * around(h.u, c) + 0.01 * h.v[c];
                change += foreign_fixed(fabs(h.next[c] - h.u[c]));
            }
        }
    return change;
}

static int64_t first_phase(void)
{
    MPI_Status status[12];
    MPI_Startall(12, h.exchange);
    (void)FTK_FAULT("app.inflight");
    int64_t change = relax(true);
    MPI_Waitall(12, h.exchange, status);
    change += relax(false);
    for (int i = 1; i <= h.n[0]; i++) /* the requests know u: it stays where it is */
        for (int j = 1; j <= h.n[1]; j++)
            memcpy(
                h.u + index_of(i, j, 1), h.next + index_of(i, j, 1), (size_t)h.n[2] * sizeof *h.u);
    return change;
}

/* Where layer at of dimension d begins in v. */
static double *corner(int d, int at)
{
    return h.v + index_of(d == 0 ? at : 1, d == 1 ? at : 1, d == 2 ? at : 1);
}

static void exchange_v(void)
{
    MPI_Request req[12];
    for (int r = 0; r < 6; r++) {
        int d = r / 2, up = r % 2;
        MPI_Irecv(
            h.packed[r], h.bytes[d], MPI_PACKED, h.near[r], 20 + 2 * d + 1 - up, h.cart, &req[r]);
    }
    for (int r = 0; r < 6; r++) {
        int d = r / 2, up = r % 2;
        MPI_Isend(corner(d, up ? h.n[d] : 1), 1, h.face[d], h.near[r], 20 + 2 * d + up, h.cart,
            &req[6 + r]);
    }
    (void)FTK_FAULT("app.inflight");
    for (;;) {
        int which = MPI_UNDEFINED, at = 0;
        MPI_Status status[12];
        if (MPI_Waitany(12, req, &which, status) != MPI_SUCCESS) {
            MPI_Waitall(12, req, status);
            return;
        }
        if (which == MPI_UNDEFINED)
            return;
        if (which < 6 && status[0].MPI_SOURCE != MPI_PROC_NULL) {
            int d = which / 2;
            MPI_Unpack(h.packed[which], h.bytes[d], &at, corner(d, which % 2 ? h.n[d] + 1 : 0), 1,
                h.face[d], h.cart);
        }
    }
}

static void second_phase(int64_t change)
{
    int64_t all = 0;
    int done = 0;
    MPI_Request sum;
    MPI_Iallreduce(&change, &all, 1, MPI_INT64_T, MPI_SUM, h.cart, &sum);
    exchange_v();
    for (int i = 1; i <= h.n[0]; i++) {
        if (!done && MPI_Test(&sum, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            done = 1;
        for (int j = 1; j <= h.n[1]; j++)
            for (int k = 1; k <= h.n[2]; k++) {
                size_t c = index_of(i, j, k);
                h.next[c] = 0.98 * h.v[c] + 0.05 * around(h.v, c) + 0.02 * h.u[c];
            }
    }
    for (int i = 1; i <= h.n[0]; i++)
        for (int j = 1; j <= h.n[1]; j++)
            memcpy(
                h.v + index_of(i, j, 1), h.next + index_of(i, j, 1), (size_t)h.n[2] * sizeof *h.v);
    if (!done)
        MPI_Wait(&sum, MPI_STATUS_IGNORE);
    h.factor = 0.5 + 0.5 / (1 + (double)all * 0x1p-40);
}

static void step(struct foreign *f)
{
    (void)f;
    int64_t change = first_phase();
    (void)FTK_FAULT("app.mid");
    second_phase(change);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    uint64_t mine = 0;
    for (int i = 1; i <= h.n[0]; i++)
        for (int j = 1; j <= h.n[1]; j++)
            for (int k = 1; k <= h.n[2]; k++) {
                size_t where = 2 * whole_index(f, i, j, k);
                mine += foreign_cell(where, h.u[index_of(i, j, k)]);
                mine += foreign_cell(where + 1, h.v[index_of(i, j, k)]);
            }
    *hash = foreign_total(f, mine);
    snprintf(detail, room, "factor %.17g", h.factor);
    return true;
}

static void release(void)
{
    free(h.u);
    free(h.v);
    free(h.next);
    for (int r = 0; r < 6; r++)
        free(h.packed[r]);
    for (int d = 0; d < 3 && h.packed[0]; d++)
        MPI_Type_free(&h.face[d]);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "halo3d", 50, 20, prepare, connect_ranks, disconnect,
        step, verdict, release };
    return foreign_main(argc, argv, &app);
}
