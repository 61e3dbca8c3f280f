/* ranks: 1 4
 * Topologies at their corners (MPI 4.0, 8.5): none or all dimensions remain, no dimension is
 * there, a graph without nodes or edges, a grid that leaves processes out.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "conform.h"

/* MPI_WEIGHTS_EMPTY, which compilers take for the address of an array without elements */
static int *volatile empty;

static void has(MPI_Comm c, int size)
{
    int got;
    OK(MPI_Comm_size(c, &got));
    EQUAL(size, got);
    OK(MPI_Barrier(c));
}

/* A grid of no dimension is of one process. */
static void is_point(MPI_Comm c)
{
    int kind, ndims = -1, rank = -1;
    has(c, 1);
    OK(MPI_Topo_test(c, &kind));
    EQUAL(MPI_CART, kind);
    OK(MPI_Cartdim_get(c, &ndims));
    EQUAL(0, ndims);
    OK(MPI_Cart_rank(c, NULL, &rank));
    EQUAL(0, rank);
    OK(MPI_Cart_coords(c, 0, 0, NULL));
    OK(MPI_Cart_get(c, 0, NULL, NULL, NULL));
}

static void points(void)
{
    MPI_Comm point, sub, dup;
    int none[1] = { 0 };
    OK(MPI_Cart_create(MPI_COMM_WORLD, 0, none, none, 0, &point));
    EQUAL(me == 0, point != MPI_COMM_NULL);
    if (point == MPI_COMM_NULL)
        return;
    is_point(point);
    OK(MPI_Cart_sub(point, NULL, &sub));
    is_point(sub);
    OK(MPI_Comm_free(&sub));
    OK(MPI_Cart_sub(point, none, &sub));
    is_point(sub);
    OK(MPI_Comm_dup(sub, &dup));
    is_point(dup);
    OK(MPI_Comm_free(&dup));
    OK(MPI_Comm_free(&sub));
    OK(MPI_Comm_free(&point));
}

static void remaining(void)
{
    int dims[2] = { 1, n }, periods[2] = { 1, 0 }, none[2] = { 0, 0 }, all[2] = { 1, 1 };
    int one[2] = { 1, 0 }, from, to;
    MPI_Comm grid, sub, point;
    OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid));
    has(grid, n);
    OK(MPI_Cart_shift(grid, 0, 1, &from, &to)); /* periodic, of one process */
    EQUAL(me, from);
    EQUAL(me, to);
    OK(MPI_Cart_shift(grid, 1, n, &from, &to));
    EQUAL(MPI_PROC_NULL, from);
    EQUAL(MPI_PROC_NULL, to);
    OK(MPI_Cart_shift(grid, 1, 0, &from, &to));
    EQUAL(me, from);
    EQUAL(me, to);
    OK(MPI_Cart_sub(grid, none, &point));
    is_point(point);
    OK(MPI_Cart_sub(grid, all, &sub));
    has(sub, n);
    OK(MPI_Comm_free(&sub));
    OK(MPI_Cart_sub(grid, one, &sub));
    has(sub, 1);
    OK(MPI_Comm_free(&sub));
    OK(MPI_Cart_sub(point, none, &sub));
    is_point(sub);
    OK(MPI_Comm_free(&sub));
    OK(MPI_Comm_free(&point));
    OK(MPI_Comm_free(&grid));
}

static void left_out(void)
{
    int dims[1] = { 1 }, periods[1] = { 0 }, rank = -2;
    const char *on = getenv("FTKIT_LOG_ENABLED");
    MPI_Comm grid;
    OK(MPI_Cart_map(MPI_COMM_WORLD, 1, dims, periods, &rank));
    if (me == 0 || (on && strcmp(on, "true") == 0)) /* Open MPI 5.0.7 gives the others theirs */
        EQUAL(me == 0 ? 0 : MPI_UNDEFINED, rank);
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &grid));
    EQUAL(me == 0, grid != MPI_COMM_NULL);
    if (grid != MPI_COMM_NULL)
        OK(MPI_Comm_free(&grid));
}

static void graphs(void)
{
    int index[4] = { 0, 0, 0, 0 }, none[1] = { 0 }, count = -1, nnodes = -1, nedges = -1;
    int nin = -1, nout = -1, weighted = -1;
    MPI_Comm graph;
    OK(MPI_Graph_create(MPI_COMM_WORLD, 0, none, none, 0, &graph));
    TRUE(graph == MPI_COMM_NULL);
    OK(MPI_Graph_create(MPI_COMM_WORLD, n, index, none, 0, &graph));
    has(graph, n);
    OK(MPI_Graphdims_get(graph, &nnodes, &nedges));
    EQUAL(n, nnodes);
    EQUAL(0, nedges);
    OK(MPI_Graph_neighbors_count(graph, me, &count));
    EQUAL(0, count);
    OK(MPI_Neighbor_allgather(&me, 1, MPI_INT, none, 1, MPI_INT, graph));
    OK(MPI_Comm_free(&graph));
    OK(MPI_Dist_graph_create(MPI_COMM_WORLD, 0, none, none, none, none, MPI_INFO_NULL, 0, &graph));
    OK(MPI_Dist_graph_neighbors_count(graph, &nin, &nout, &weighted));
    EQUAL(0, nin);
    EQUAL(0, nout);
    OK(MPI_Comm_free(&graph));
    OK(MPI_Dist_graph_create_adjacent(
        MPI_COMM_WORLD, 0, none, empty, 0, none, empty, MPI_INFO_NULL, 0, &graph));
    OK(MPI_Dist_graph_neighbors_count(graph, &nin, &nout, &weighted));
    EQUAL(0, nin + nout);
    has(graph, n);
    OK(MPI_Comm_free(&graph));
}

static void body(void)
{
    empty = MPI_WEIGHTS_EMPTY;
    points();
    remaining();
    left_out();
    graphs();
}

int main(int argc, char **argv)
{
    return conform(argc, argv, body);
}
