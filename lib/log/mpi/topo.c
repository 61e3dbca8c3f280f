/* Topologies of virtual communicators.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Nothing is ever reordered: rank i of a Cartesian or a graph communicator is rank i of
 * its parent.  The lists of neighbours are those of MPI-4.0, section 8.6.  A Cartesian communicator
 * has, for each dimension, the neighbour before and then the neighbour behind.  A graph has the
 * ranks that MPI_Graph_neighbors() gives, in both directions. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "log/coll.h"
#include "log/vcomm/comm.h"

#define EDGES 32 /* of a member, in one exchange */

struct go {
    int n;
    int edge[EDGES][3]; /* from, to, weight */
};

/* ---- the structure ------------------------------------------------------------------- */

/* Whether vc has a topology of that kind, and the arguments for the result are there.  false: the
 * error has gone to the error handler. */
static int check_kind(const struct ftk_vcomm *vc, enum ftk_topology kind, bool places)
{
    int code = MPI_SUCCESS;
    if (vc->topo.kind != (int)kind)
        code = MPI_ERR_TOPOLOGY;
    else if (!places)
        code = MPI_ERR_ARG;
    if (code != MPI_SUCCESS)
        (void)ftk_vcomm_error(vc, code); /* returns it */
    return code;
}

static void copy_upto(int *to, const int *from, int n, int room)
{
    int count = n < room ? n : room;
    if (count > 0)
        memcpy(to, from, (size_t)count * sizeof *to);
}

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
    int rc = check_kind(vc, FTK_TOPO_CART, newcomm && (remain_dims || vc->topo.ndims == 0));
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
    int rc = check_kind(vc, FTK_TOPO_CART, ndims != NULL);
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
    int rc = check_kind(vc, FTK_TOPO_CART, true);
    if (rc != MPI_SUCCESS)
        return rc;
    if (maxdims < 0 || (maxdims > 0 && (!dims || !periods || !coords)))
        return ftk_vcomm_error(vc, MPI_ERR_ARG);
    copy_upto(dims, vc->topo.dims, vc->topo.ndims, maxdims);
    copy_upto(periods, vc->topo.periods, vc->topo.ndims, maxdims);
    coords_of(&vc->topo, vc->rank, maxdims, coords);
    return MPI_SUCCESS;
}

int ftk_mpi_Cart_rank(MPI_Comm comm, const int coords[], int *rank)
{
    int r = 0;
    const struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Cart_rank(comm, coords, rank);
    int rc = check_kind(vc, FTK_TOPO_CART, rank != NULL);
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
    int rc = check_kind(vc, FTK_TOPO_CART, true);
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
    int rc = check_kind(vc, FTK_TOPO_CART, rank_source && rank_dest);
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

/* ---- graphs -------------------------------------------------------------------------- */

/* The neighbours of a node: their place in the edges, and their number. */
static int graph_part(const struct ftk_topo *t, int node, const int **part)
{
    int from = node > 0 ? t->index[node - 1] : 0;
    *part = t->edges + from;
    return t->index[node] - from;
}

static int graph_make(struct ftk_topo *t, int nnodes, const int *index, const int *edges, int me)
{
    const int *near;
    memset(t, 0, sizeof *t);
    t->kind = FTK_TOPO_GRAPH;
    t->nnodes = nnodes;
    t->nedges = index[nnodes - 1];
    t->index = ftk_topo_ints(index, nnodes);
    t->edges = ftk_topo_ints(edges, t->nedges);
    if (t->index && t->edges) {
        t->nin = t->nout = graph_part(t, me, &near);
        t->in = ftk_topo_ints(near, t->nin);
        t->out = ftk_topo_ints(near, t->nout);
    }
    if (t->in && t->out)
        return MPI_SUCCESS;
    ftk_topo_free(t);
    return MPI_ERR_NO_MEM;
}

static int check_graph(const struct ftk_vcomm *vc, int nnodes, const int *index, const int *edges)
{
    if (vc->remote)
        return MPI_ERR_COMM;
    int before = 0;
    if (nnodes < 0 || nnodes > vc->size || (nnodes > 0 && !index))
        return MPI_ERR_ARG;
    for (int i = 0; i < nnodes; i++) {
        if (index[i] < before)
            return MPI_ERR_ARG;
        before = index[i];
    }
    if (before > 0 && !edges)
        return MPI_ERR_ARG;
    for (int e = 0; e < before; e++)
        if (edges[e] < 0 || edges[e] >= nnodes)
            return MPI_ERR_ARG;
    return MPI_SUCCESS;
}

int ftk_mpi_Graph_create(
    MPI_Comm comm, int nnodes, const int index[], const int edges[], int reorder, MPI_Comm *newcomm)
{
    struct ftk_construct m;
    struct ftk_vcomm *vc = ftk_make_parent(comm, newcomm);
    if (!vc)
        return PMPI_Graph_create(comm, nnodes, index, edges, reorder, newcomm);
    int rc = newcomm ? check_graph(vc, nnodes, index, edges) : MPI_ERR_ARG;
    if (rc != MPI_SUCCESS)
        return ftk_vcomm_error(vc, rc);
    ftk_make_begin(&m, vc, FTK_MAKE_NEW, MPI_INFO_NULL);
    if (m.error == MPI_SUCCESS && vc->rank < nnodes)
        m.error = graph_make(&m.vc->topo, nnodes, index, edges, vc->rank);
    ftk_make_first(&m, nnodes);
    return ftk_make_known(&m, newcomm);
}

int ftk_mpi_Graphdims_get(MPI_Comm comm, int *nnodes, int *nedges)
{
    const struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Graphdims_get(comm, nnodes, nedges);
    ftk_vcomm_no_count(nnodes);
    ftk_vcomm_no_count(nedges);
    int rc = check_kind(vc, FTK_TOPO_GRAPH, nnodes && nedges);
    if (rc != MPI_SUCCESS)
        return rc;
    *nnodes = vc->topo.nnodes;
    *nedges = vc->topo.nedges;
    return MPI_SUCCESS;
}

int ftk_mpi_Graph_get(MPI_Comm comm, int maxindex, int maxedges, int index[], int edges[])
{
    const struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Graph_get(comm, maxindex, maxedges, index, edges);
    int rc = check_kind(vc, FTK_TOPO_GRAPH, true);
    if (rc != MPI_SUCCESS)
        return rc;
    if (maxindex < 0 || maxedges < 0 || (maxindex > 0 && !index) || (maxedges > 0 && !edges))
        return ftk_vcomm_error(vc, MPI_ERR_ARG);
    copy_upto(index, vc->topo.index, vc->topo.nnodes, maxindex);
    copy_upto(edges, vc->topo.edges, vc->topo.nedges, maxedges);
    return MPI_SUCCESS;
}

int ftk_mpi_Graph_neighbors_count(MPI_Comm comm, int rank, int *nneighbors)
{
    const int *near;
    const struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Graph_neighbors_count(comm, rank, nneighbors);
    ftk_vcomm_no_count(nneighbors);
    int rc = check_kind(vc, FTK_TOPO_GRAPH, nneighbors != NULL);
    if (rc != MPI_SUCCESS)
        return rc;
    if (rank < 0 || rank >= vc->size)
        return ftk_vcomm_error(vc, MPI_ERR_RANK);
    *nneighbors = graph_part(&vc->topo, rank, &near);
    return MPI_SUCCESS;
}

int ftk_mpi_Graph_neighbors(MPI_Comm comm, int rank, int maxneighbors, int neighbors[])
{
    const int *near;
    const struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Graph_neighbors(comm, rank, maxneighbors, neighbors);
    int rc = check_kind(vc, FTK_TOPO_GRAPH, true);
    if (rc != MPI_SUCCESS)
        return rc;
    if (rank < 0 || rank >= vc->size)
        return ftk_vcomm_error(vc, MPI_ERR_RANK);
    if (maxneighbors < 0 || (maxneighbors > 0 && !neighbors))
        return ftk_vcomm_error(vc, MPI_ERR_ARG);
    int n = graph_part(&vc->topo, rank, &near);
    copy_upto(neighbors, near, n, maxneighbors);
    return MPI_SUCCESS;
}

int ftk_mpi_Graph_map(MPI_Comm comm, int nnodes, const int index[], const int edges[], int *newrank)
{
    const struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Graph_map(comm, nnodes, index, edges, newrank);
    int rc = newrank ? check_graph(vc, nnodes, index, edges) : MPI_ERR_ARG;
    if (rc != MPI_SUCCESS)
        return ftk_vcomm_error(vc, rc);
    *newrank = vc->rank < nnodes ? vc->rank : MPI_UNDEFINED;
    return MPI_SUCCESS;
}

/* ---- distributed graphs -------------------------------------------------------------- */

/* MPI_UNWEIGHTED and MPI_WEIGHTS_EMPTY are addresses to compare with, not to read. */
static bool weighted_by(const int *weights)
{
    return weights != MPI_UNWEIGHTED;
}

static bool all_ranks(const struct ftk_vcomm *vc, const int *ranks, int n)
{
    for (int i = 0; i < n; i++)
        if (ranks[i] < 0 || ranks[i] >= vc->size)
            return false;
    return true;
}

static bool weights_fit(int n, const int *ranks, const int *weights)
{
    return n == 0 || (n > 0 && ranks && weights && weights != MPI_WEIGHTS_EMPTY);
}

static int check_adjacent(const struct ftk_vcomm *vc, int nin, const int *in, const int *inw,
    int nout, const int *out, const int *outw)
{
    if (vc->remote)
        return MPI_ERR_COMM;
    if (!weights_fit(nin, in, inw) || !weights_fit(nout, out, outw))
        return MPI_ERR_ARG;
    /* a side without edges may have either value */
    if (nin > 0 && nout > 0 && weighted_by(inw) != weighted_by(outw))
        return MPI_ERR_ARG;
    return all_ranks(vc, in, nin) && all_ranks(vc, out, nout) ? MPI_SUCCESS : MPI_ERR_ARG;
}

static int adjacent_make(struct ftk_topo *t, int nin, const int *in, const int *inw, int nout,
    const int *out, const int *outw)
{
    bool weighted = weighted_by(nin > 0 || nout == 0 ? inw : outw);
    memset(t, 0, sizeof *t);
    t->kind = FTK_TOPO_DIST;
    t->nin = nin;
    t->nout = nout;
    t->in = ftk_topo_ints(in, nin);
    t->out = ftk_topo_ints(out, nout);
    t->inw = weighted ? ftk_topo_ints(inw, nin) : NULL;
    t->outw = weighted ? ftk_topo_ints(outw, nout) : NULL;
    if (t->in && t->out && (!weighted || (t->inw && t->outw)))
        return MPI_SUCCESS;
    ftk_topo_free(t);
    return MPI_ERR_NO_MEM;
}

int ftk_mpi_Dist_graph_create_adjacent(MPI_Comm comm, int indegree, const int sources[],
    const int sourceweights[], int outdegree, const int destinations[], const int destweights[],
    MPI_Info info, int reorder, MPI_Comm *newcomm)
{
    struct ftk_construct m;
    struct ftk_vcomm *vc = ftk_make_parent(comm, newcomm);
    if (!vc)
        return PMPI_Dist_graph_create_adjacent(comm, indegree, sources, sourceweights, outdegree,
            destinations, destweights, info, reorder, newcomm);
    int rc = newcomm ? check_adjacent(
                 vc, indegree, sources, sourceweights, outdegree, destinations, destweights)
                     : MPI_ERR_ARG;
    if (rc != MPI_SUCCESS)
        return ftk_vcomm_error(vc, rc);
    ftk_make_begin(&m, vc, FTK_MAKE_NEW, MPI_INFO_NULL);
    if (m.error == MPI_SUCCESS)
        m.error = adjacent_make(
            &m.vc->topo, indegree, sources, sourceweights, outdegree, destinations, destweights);
    ftk_make_first(&m, vc->size);
    return ftk_make_known(&m, newcomm);
}

struct given {
    int n;
    const int *sources, *degrees; /* [n] */
    const int *destinations, *weights;
    int source, of_source, at; /* the place of the next edge */
};

/* ---- distributed graphs whose edges anybody may give ------------------------------------
 * All edges go past all members, so many of each at a time, and each keeps what begins or
 * ends at it: in the order of the members that gave them, and of each as it gave them. */

static void next_edges(struct given *g, struct go *go)
{
    memset(go, 0, sizeof *go);
    while (go->n < EDGES && g->source < g->n) {
        if (g->of_source == g->degrees[g->source]) {
            g->source++;
            g->of_source = 0;
            continue;
        }
        int *e = go->edge[go->n++];
        e[0] = g->sources[g->source];
        e[1] = g->destinations[g->at];
        e[2] = g->weights ? g->weights[g->at] : 0;
        g->at++;
        g->of_source++;
    }
}

static bool grow(int **list, size_t room)
{
    int *more = realloc(*list, room * sizeof *more);
    if (more)
        *list = more;
    return more != NULL;
}

/* Append to a list and its weights; their memory doubles at powers of two. */
static int append_neighbor(int **list, int **weights, int *n, int rank, int weight)
{
    size_t room = *n > 0 ? 2 * (size_t)*n : 1;
    if ((*n & (*n - 1)) == 0 && (!grow(list, room) || !grow(weights, room)))
        return MPI_ERR_NO_MEM;
    (*list)[*n] = rank;
    (*weights)[(*n)++] = weight;
    return MPI_SUCCESS;
}

static int keep_edges(struct ftk_topo *t, const struct go *go, int me)
{
    int rc = MPI_SUCCESS;
    for (int i = 0; i < go->n && rc == MPI_SUCCESS; i++) {
        const int *e = go->edge[i];
        if (e[1] == me)
            rc = append_neighbor(&t->in, &t->inw, &t->nin, e[0], e[2]);
        if (e[0] == me && rc == MPI_SUCCESS)
            rc = append_neighbor(&t->out, &t->outw, &t->nout, e[1], e[2]);
    }
    return rc;
}

/* What the members have sent about their edges: the largest number of edges of a member, and
 * whether edges have weights; an MPI code if the members contradict each other. */
static int judge(const struct ftk_proposal *all, int n, int *most, bool *weighted)
{
    int with = 0, without = 0;
    *most = 0;
    for (int i = 0; i < n; i++) {
        if (all[i].error != MPI_SUCCESS)
            return MPI_ERR_OTHER;
        *most = all[i].color > *most ? all[i].color : *most;
        with += all[i].color > 0 && all[i].key;
        without += all[i].color > 0 && !all[i].key;
    }
    *weighted = with > 0 || (without == 0 && all[0].key);
    return with > 0 && without > 0 ? MPI_ERR_ARG : MPI_SUCCESS;
}

/* Exchange the edges.  m->error is the same at all members, except for a lack of memory here:
 * ftk_make_agree() reports that to the other members. */
static void exchange(struct ftk_construct *m, struct given *g, const struct ftk_proposal *mine)
{
    const struct ftk_proposal *words;
    struct go go;
    int most = 0;
    bool weighted = false;
    struct ftk_proposal said = *mine;
    struct go *all = malloc((size_t)m->n * sizeof *all);
    said.error = m->error != MPI_SUCCESS || all ? m->error : MPI_ERR_NO_MEM;
    int rc = ftk_make_proposals(m->parent, &said, &words);
    if (rc == MPI_SUCCESS)
        rc = judge(words, m->n, &most, &weighted);
    for (int past = 0; rc == MPI_SUCCESS && all && past < most; past += EDGES) {
        next_edges(g, &go);
        rc = ftk_coll_allgather(m->parent, &go, all, sizeof go);
        for (int i = 0; rc == MPI_SUCCESS && i < m->n && m->error == MPI_SUCCESS; i++)
            m->error = keep_edges(&m->vc->topo, &all[i], m->parent->rank);
    }
    free(all);
    if (said.error != MPI_SUCCESS || m->error == MPI_SUCCESS)
        m->error = said.error != MPI_SUCCESS ? said.error : rc;
    if (m->error != MPI_SUCCESS || weighted)
        return;
    free(m->vc->topo.inw);
    free(m->vc->topo.outw);
    m->vc->topo.inw = m->vc->topo.outw = NULL;
}

/* Allocate lists even if they are empty, so that they differ from no lists. */
static int dist_empty(struct ftk_topo *t)
{
    memset(t, 0, sizeof *t);
    t->kind = FTK_TOPO_DIST;
    t->in = ftk_topo_ints(NULL, 0);
    t->out = ftk_topo_ints(NULL, 0);
    t->inw = ftk_topo_ints(NULL, 0);
    t->outw = ftk_topo_ints(NULL, 0);
    return t->in && t->out && t->inw && t->outw ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

/* Check the edges given here: the MPI error class, and the number of edges. */
static int check_given(const struct ftk_vcomm *vc, const struct given *g, int *count)
{
    long total = 0;
    if (g->n < 0 || (g->n > 0 && (!g->sources || !g->degrees)))
        return MPI_ERR_ARG;
    for (int i = 0; i < g->n; i++) {
        if (g->degrees[i] < 0)
            return MPI_ERR_ARG;
        total += g->degrees[i];
    }
    if (total > INT_MAX - EDGES || !weights_fit((int)total, g->destinations, g->weights))
        return MPI_ERR_ARG;
    *count = (int)total;
    return all_ranks(vc, g->sources, g->n) && all_ranks(vc, g->destinations, *count) ? MPI_SUCCESS
                                                                                     : MPI_ERR_ARG;
}

int ftk_mpi_Dist_graph_create(MPI_Comm comm, int n, const int sources[], const int degrees[],
    const int destinations[], const int weights[], MPI_Info info, int reorder, MPI_Comm *newcomm)
{
    struct ftk_construct m;
    struct ftk_proposal mine = { 0 };
    struct given g = { .n = n,
        .sources = sources,
        .degrees = degrees,
        .destinations = destinations,
        .weights = weights };
    struct ftk_vcomm *vc = ftk_make_parent(comm, newcomm);
    if (!vc)
        return PMPI_Dist_graph_create(
            comm, n, sources, degrees, destinations, weights, info, reorder, newcomm);
    if (!newcomm || vc->remote)
        return ftk_vcomm_error(vc, newcomm ? MPI_ERR_COMM : MPI_ERR_ARG);
    ftk_make_begin(&m, vc, FTK_MAKE_NEW, MPI_INFO_NULL);
    if (m.error == MPI_SUCCESS) /* the others learn of it: each gives its own edges */
        m.error = check_given(vc, &g, &mine.color);
    if (m.error == MPI_SUCCESS)
        m.error = dist_empty(&m.vc->topo);
    mine.key = weighted_by(weights);
    if (!mine.key || mine.color == 0)
        g.weights = NULL;
    exchange(&m, &g, &mine);
    ftk_make_first(&m, vc->size);
    return ftk_make_known(&m, newcomm);
}

/* ---- questions about distributed graphs ---------------------------------------------- */

int ftk_mpi_Dist_graph_neighbors_count(MPI_Comm comm, int *indegree, int *outdegree, int *weighted)
{
    const struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Dist_graph_neighbors_count(comm, indegree, outdegree, weighted);
    ftk_vcomm_no_count(indegree);
    ftk_vcomm_no_count(outdegree);
    int rc = check_kind(vc, FTK_TOPO_DIST, indegree && outdegree && weighted);
    if (rc != MPI_SUCCESS)
        return rc;
    *indegree = vc->topo.nin;
    *outdegree = vc->topo.nout;
    *weighted = vc->topo.inw != NULL;
    return MPI_SUCCESS;
}

int ftk_mpi_Dist_graph_neighbors(MPI_Comm comm, int maxindegree, int sources[], int sourceweights[],
    int maxoutdegree, int destinations[], int destweights[])
{
    const struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Dist_graph_neighbors(
            comm, maxindegree, sources, sourceweights, maxoutdegree, destinations, destweights);
    int rc = check_kind(vc, FTK_TOPO_DIST, true);
    if (rc != MPI_SUCCESS)
        return rc;
    const struct ftk_topo *t = &vc->topo;
    if (maxindegree < 0 || maxoutdegree < 0 || (maxindegree > 0 && !sources)
        || (maxoutdegree > 0 && !destinations))
        return ftk_vcomm_error(vc, MPI_ERR_ARG);
    copy_upto(sources, t->in, t->nin, maxindegree);
    copy_upto(destinations, t->out, t->nout, maxoutdegree);
    if (t->inw && sourceweights && weighted_by(sourceweights))
        copy_upto(sourceweights, t->inw, t->nin, maxindegree);
    if (t->outw && destweights && weighted_by(destweights))
        copy_upto(destweights, t->outw, t->nout, maxoutdegree);
    return MPI_SUCCESS;
}

int ftk_mpi_Topo_test(MPI_Comm comm, int *status)
{
    static const int told[] = { [FTK_TOPO_NONE] = MPI_UNDEFINED,
        [FTK_TOPO_CART] = MPI_CART,
        [FTK_TOPO_GRAPH] = MPI_GRAPH,
        [FTK_TOPO_DIST] = MPI_DIST_GRAPH };
    const struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Topo_test(comm, status);
    if (!status)
        return ftk_vcomm_error(vc, MPI_ERR_ARG);
    *status = told[vc->topo.kind];
    return MPI_SUCCESS;
}
