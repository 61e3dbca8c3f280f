/* Cartesian topologies of virtual communicators, and the kind of a topology.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Nothing is ever reordered: rank i of a Cartesian or a graph communicator is rank i of its parent.
 * The lists of neighbours are those of MPI-4.0, section 8.6.  A Cartesian communicator has, for
 * each dimension, the neighbour before and then the neighbour behind. */
#include <stdlib.h>

#include "topo.h"

/* ---- Cartesian ----------------------------------------------------------------------- */

/* The number of ranks of the grid; -1: the arguments make no grid, or more than most ranks. */
static int grid_size(int ndims, const int *dims, int most)
{
    long size = 1;
    for (int d = 0; d < ndims; d++) {
        if (dims[d] <= 0)
            return -1;
        size *= dims[d];
        if (size > most)
            return -1;
    }
    return (int)size;
}

/* Distance in ranks of neighbours in a dimension: the last one runs fastest. */
static int stride(const struct ftk_topo *t, int dim)
{
    int s = 1;
    for (int d = dim + 1; d < t->ndims; d++)
        s *= t->dims[d];
    return s;
}

static int coord(const struct ftk_topo *t, int rank, int dim)
{
    return rank / stride(t, dim) % t->dims[dim];
}

static int wrapped(long long c, int dim)
{
    long long w = c % dim;
    return (int)(w < 0 ? w + dim : w);
}

/* The rank that is disp steps away in a dimension. */
static int shifted(const struct ftk_topo *t, int rank, int dim, long long disp)
{
    int here = coord(t, rank, dim);
    long long there = here + disp;
    if (!t->periods[dim] && (there < 0 || there >= t->dims[dim]))
        return MPI_PROC_NULL;
    return rank + (wrapped(there, t->dims[dim]) - here) * stride(t, dim);
}

/* The topology of a grid, for its rank me. */
static int cart_make(struct ftk_topo *t, int ndims, const int *dims, const int *periods, int me)
{
    memset(t, 0, sizeof *t);
    t->kind = FTK_TOPO_CART;
    t->ndims = ndims;
    t->dims = ftk_topo_ints(dims, ndims);
    t->periods = ftk_topo_ints(periods, ndims);
    t->in = malloc((2 * (size_t)ndims + 1) * sizeof *t->in);
    t->out = malloc((2 * (size_t)ndims + 1) * sizeof *t->out);
    if (!t->dims || !t->periods || !t->in || !t->out) {
        ftk_topo_free(t);
        return MPI_ERR_NO_MEM;
    }
    for (int d = 0; d < ndims; d++) {
        t->periods[d] = periods[d] != 0;
        for (int disp = -1; disp <= 1; disp += 2)
            t->in[t->nin++] = t->out[t->nout++] = shifted(t, me, d, disp);
    }
    return MPI_SUCCESS;
}

/* Check a grid on vc: the MPI error class; *size: its number of ranks. */
static int check_grid(
    const struct ftk_vcomm *vc, int ndims, const int *dims, const int *periods, int *size)
{
    if (vc->remote)
        return MPI_ERR_COMM;
    if (ndims < 0 || (ndims > 0 && !dims))
        return MPI_ERR_DIMS;
    if (ndims > 0 && !periods)
        return MPI_ERR_ARG;
    *size = grid_size(ndims, dims, vc->size);
    return *size < 0 ? MPI_ERR_DIMS : MPI_SUCCESS;
}

int ftk_mpi_Cart_create(
    MPI_Comm comm, int ndims, const int dims[], const int periods[], int reorder, MPI_Comm *newcomm)
{
    struct ftk_construct m;
    int size;
    struct ftk_vcomm *vc = ftk_make_parent(comm, newcomm);
    if (!vc)
        return PMPI_Cart_create(comm, ndims, dims, periods, reorder, newcomm);
    int rc = newcomm ? check_grid(vc, ndims, dims, periods, &size) : MPI_ERR_ARG;
    if (rc != MPI_SUCCESS)
        return ftk_vcomm_error(vc, rc);
    ftk_make_begin(&m, vc, FTK_MAKE_NEW, MPI_INFO_NULL);
    if (m.error == MPI_SUCCESS && vc->rank < size)
        m.error = cart_make(&m.vc->topo, ndims, dims, periods, vc->rank);
    ftk_make_first(&m, size);
    return ftk_make_known(&m, newcomm);
}

/* The subgrid of this process: its number (color), and the rank in it (key).  remain may be NULL
 * when the grid has no dimensions. */
static int cart_part(const struct ftk_topo *t, int rank, const int *remain, struct ftk_topo *part,
    int *color, int *key)
{
    int n = 0;
    int *dims = malloc(((size_t)t->ndims + 1) * sizeof *dims);
    int *periods = malloc(((size_t)t->ndims + 1) * sizeof *periods);
    int rc = dims && periods ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    *color = *key = 0;
    for (int d = 0; rc == MPI_SUCCESS && remain && d < t->ndims; d++) {
        int *number = remain[d] ? key : color;
        *number = *number * t->dims[d] + coord(t, rank, d);
        if (remain[d]) {
            dims[n] = t->dims[d];
            periods[n++] = t->periods[d];
        }
    }
    if (rc == MPI_SUCCESS)
        rc = cart_make(part, n, dims, periods, *key);
    free(dims);
    free(periods);
    return rc;
}

int ftk_mpi_Cart_sub(MPI_Comm comm, const int remain_dims[], MPI_Comm *newcomm)
{
    struct ftk_construct m;
    int color = 0, key = 0;
    struct ftk_vcomm *vc = ftk_make_parent(comm, newcomm);
    if (!vc)
        return PMPI_Cart_sub(comm, remain_dims, newcomm);
    int rc =
        ftk_topo_check_kind(vc, FTK_TOPO_CART, newcomm && (remain_dims || vc->topo.ndims == 0));
    if (rc != MPI_SUCCESS)
        return rc;
    ftk_make_begin(&m, vc, FTK_MAKE_NEW, MPI_INFO_NULL);
    if (m.error == MPI_SUCCESS)
        m.error = cart_part(&vc->topo, vc->rank, remain_dims, &m.vc->topo, &color, &key);
    return ftk_make_split(&m, color, key, newcomm);
}

int ftk_mpi_Cartdim_get(MPI_Comm comm, int *ndims)
{
    const struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Cartdim_get(comm, ndims);
    ftk_vcomm_no_count(ndims);
    int rc = ftk_topo_check_kind(vc, FTK_TOPO_CART, ndims != NULL);
    if (rc == MPI_SUCCESS)
        *ndims = vc->topo.ndims;
    return rc;
}

static void coords_of(const struct ftk_topo *t, int rank, int room, int *coords)
{
    for (int d = 0; d < t->ndims && d < room; d++)
        coords[d] = coord(t, rank, d);
}

int ftk_mpi_Cart_get(MPI_Comm comm, int maxdims, int dims[], int periods[], int coords[])
{
    const struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Cart_get(comm, maxdims, dims, periods, coords);
    int rc = ftk_topo_check_kind(vc, FTK_TOPO_CART, true);
    if (rc != MPI_SUCCESS)
        return rc;
    if (maxdims < 0 || (maxdims > 0 && (!dims || !periods || !coords)))
        return ftk_vcomm_error(vc, MPI_ERR_ARG);
    ftk_topo_copy_upto(dims, vc->topo.dims, vc->topo.ndims, maxdims);
    ftk_topo_copy_upto(periods, vc->topo.periods, vc->topo.ndims, maxdims);
    coords_of(&vc->topo, vc->rank, maxdims, coords);
    return MPI_SUCCESS;
}

int ftk_mpi_Cart_rank(MPI_Comm comm, const int coords[], int *rank)
{
    int r = 0;
    const struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Cart_rank(comm, coords, rank);
    int rc = ftk_topo_check_kind(vc, FTK_TOPO_CART, rank != NULL);
    if (rc != MPI_SUCCESS)
        return rc;
    const struct ftk_topo *t = &vc->topo;
    if (t->ndims > 0 && !coords)
        return ftk_vcomm_error(vc, MPI_ERR_ARG);
    for (int d = 0; d < t->ndims; d++) {
        if (!t->periods[d] && (coords[d] < 0 || coords[d] >= t->dims[d]))
            return ftk_vcomm_error(vc, MPI_ERR_ARG);
        r = r * t->dims[d] + wrapped(coords[d], t->dims[d]);
    }
    *rank = r;
    return MPI_SUCCESS;
}

int ftk_mpi_Cart_coords(MPI_Comm comm, int rank, int maxdims, int coords[])
{
    const struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Cart_coords(comm, rank, maxdims, coords);
    int rc = ftk_topo_check_kind(vc, FTK_TOPO_CART, true);
    if (rc != MPI_SUCCESS)
        return rc;
    if (rank < 0 || rank >= vc->size)
        return ftk_vcomm_error(vc, MPI_ERR_RANK);
    if (maxdims < 0 || (maxdims > 0 && vc->topo.ndims > 0 && !coords))
        return ftk_vcomm_error(vc, MPI_ERR_ARG);
    coords_of(&vc->topo, rank, maxdims, coords);
    return MPI_SUCCESS;
}

int ftk_mpi_Cart_shift(MPI_Comm comm, int direction, int disp, int *rank_source, int *rank_dest)
{
    const struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Cart_shift(comm, direction, disp, rank_source, rank_dest);
    int rc = ftk_topo_check_kind(vc, FTK_TOPO_CART, rank_source && rank_dest);
    if (rc != MPI_SUCCESS)
        return rc;
    if (direction < 0 || direction >= vc->topo.ndims)
        return ftk_vcomm_error(vc, MPI_ERR_DIMS);
    *rank_source = shifted(&vc->topo, vc->rank, direction, -(long long)disp);
    *rank_dest = shifted(&vc->topo, vc->rank, direction, disp);
    return MPI_SUCCESS;
}

int ftk_mpi_Cart_map(MPI_Comm comm, int ndims, const int dims[], const int periods[], int *newrank)
{
    int size;
    const struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Cart_map(comm, ndims, dims, periods, newrank);
    int rc = newrank ? check_grid(vc, ndims, dims, periods, &size) : MPI_ERR_ARG;
    if (rc != MPI_SUCCESS)
        return ftk_vcomm_error(vc, rc);
    *newrank = vc->rank < size ? vc->rank : MPI_UNDEFINED;
    return MPI_SUCCESS;
}

/* ---- all topologies ------------------------------------------------------------------- */

int ftk_mpi_Topo_test(MPI_Comm comm, int *status)
{
    static const int status_of[] = { [FTK_TOPO_NONE] = MPI_UNDEFINED,
        [FTK_TOPO_CART] = MPI_CART,
        [FTK_TOPO_GRAPH] = MPI_GRAPH,
        [FTK_TOPO_DIST] = MPI_DIST_GRAPH };
    const struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Topo_test(comm, status);
    if (!status)
        return ftk_vcomm_error(vc, MPI_ERR_ARG);
    *status = status_of[vc->topo.kind];
    return MPI_SUCCESS;
}
