/* Graph topologies of virtual communicators.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The neighbours in neighbourhood collectives are the ranks that MPI_Graph_neighbors() gives, in
 * both directions [MPI-4.0, 8.6].  Nothing is reordered. */
#include "topo.h"

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
    int rc = ftk_topo_check_kind(vc, FTK_TOPO_GRAPH, nnodes && nedges);
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
    int rc = ftk_topo_check_kind(vc, FTK_TOPO_GRAPH, true);
    if (rc != MPI_SUCCESS)
        return rc;
    if (maxindex < 0 || maxedges < 0 || (maxindex > 0 && !index) || (maxedges > 0 && !edges))
        return ftk_vcomm_error(vc, MPI_ERR_ARG);
    ftk_topo_copy_upto(index, vc->topo.index, vc->topo.nnodes, maxindex);
    ftk_topo_copy_upto(edges, vc->topo.edges, vc->topo.nedges, maxedges);
    return MPI_SUCCESS;
}

int ftk_mpi_Graph_neighbors_count(MPI_Comm comm, int rank, int *nneighbors)
{
    const int *near;
    const struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Graph_neighbors_count(comm, rank, nneighbors);
    ftk_vcomm_no_count(nneighbors);
    int rc = ftk_topo_check_kind(vc, FTK_TOPO_GRAPH, nneighbors != NULL);
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
    int rc = ftk_topo_check_kind(vc, FTK_TOPO_GRAPH, true);
    if (rc != MPI_SUCCESS)
        return rc;
    if (rank < 0 || rank >= vc->size)
        return ftk_vcomm_error(vc, MPI_ERR_RANK);
    if (maxneighbors < 0 || (maxneighbors > 0 && !neighbors))
        return ftk_vcomm_error(vc, MPI_ERR_ARG);
    int n = graph_part(&vc->topo, rank, &near);
    ftk_topo_copy_upto(neighbors, near, n, maxneighbors);
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
