/* Which schedule a collective has.
 *
 * SPDX-License-Identifier: BSD-3-Clause */

#include "log/coll/build.h"

static void check(struct ftk_coll *c)
{
    const struct ftk_call *a = &c->call;
    bool neighbours = a->kind == FTK_NEIGHBOR_ALLGATHER || a->kind == FTK_NEIGHBOR_ALLTOALL;
    if (a->root < 0 || a->root >= c->vc->size)
        ftk_coll_fail(c, MPI_ERR_ROOT);
    if (ftk_coll_reduces(c) && a->op == MPI_OP_NULL)
        ftk_coll_fail(c, MPI_ERR_OP);
    if (ftk_coll_reduces(c) && !a->r.counts && a->r.count < 0)
        ftk_coll_fail(c, MPI_ERR_COUNT);
    if (ftk_coll_reduces(c) && a->r.type == MPI_DATATYPE_NULL)
        ftk_coll_fail(c, MPI_ERR_TYPE);
    if (neighbours && c->vc->topo.kind == FTK_TOPO_NONE)
        ftk_coll_fail(c, MPI_ERR_TOPOLOGY);
}

static void (*const builders[])(struct ftk_coll *) = {
    [FTK_BARRIER] = ftk_build_barrier,
    [FTK_BCAST] = ftk_build_broadcast,
    [FTK_GATHER] = ftk_build_gather,
    [FTK_GATHERV] = ftk_build_gatherv,
    [FTK_SCATTER] = ftk_build_scatter,
    [FTK_SCATTERV] = ftk_build_scatterv,
    [FTK_ALLGATHER] = ftk_build_allgather,
    [FTK_EXCHANGE] = ftk_build_allgather,
    [FTK_ALLTOALL] = ftk_build_alltoall,
    [FTK_REDUCE] = ftk_build_reduce,
    [FTK_ALLREDUCE] = ftk_build_allreduce,
    [FTK_REDUCE_SCATTER] = ftk_build_reduce_scatter,
    [FTK_SCAN] = ftk_build_scan,
    [FTK_EXSCAN] = ftk_build_exscan,
    [FTK_NEIGHBOR_ALLGATHER] = ftk_build_neighbor_allgather,
    [FTK_NEIGHBOR_ALLTOALL] = ftk_build_neighbor_alltoall,
};

void ftk_coll_build(struct ftk_coll *c)
{
    if (c->vc->remote) {
        ftk_build_inter(c);
        return;
    }
    check(c);
    if (!c->error)
        builders[c->call.kind](c);
}
