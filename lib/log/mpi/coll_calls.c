/* The collectives of MPI, as the program calls them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * FORMS makes the three forms of each: blocking, non-blocking, persistent.  Its first three names
 * are those of the functions, the other two are of the MPI, without prefix.  What is not on a
 * communicator of ftkit's goes to the MPI. */
#include "log/coll/coll.h"
#include "mpi_calls.h"

#define OPEN(...) __VA_ARGS__
#define CALL(name_, ...)                                                                           \
    (struct ftk_call)                                                                              \
    {                                                                                              \
        .name = "MPI_" name_, __VA_ARGS__                                                          \
    }
#define FORMS(now_, later_, init_, name, iname, params, args, ...)                                 \
    int now_(OPEN params, MPI_Comm comm)                                                           \
    {                                                                                              \
        struct ftk_vcomm *vc = ftk_vcomm_find(comm);                                               \
        return vc ? ftk_coll_now(vc, &CALL(#name, __VA_ARGS__)) : PMPI_##name(OPEN args, comm);    \
    }                                                                                              \
    int later_(OPEN params, MPI_Comm comm, MPI_Request *request)                                   \
    {                                                                                              \
        struct ftk_vcomm *vc = ftk_vcomm_find(comm);                                               \
        return vc ? ftk_coll_later(vc, &CALL(#iname, __VA_ARGS__), request)                        \
                  : PMPI_##iname(OPEN args, comm, request);                                        \
    }                                                                                              \
    int init_(OPEN params, MPI_Comm comm, MPI_Info info, MPI_Request *request)                     \
    {                                                                                              \
        struct ftk_vcomm *vc = ftk_vcomm_find(comm);                                               \
        return vc ? ftk_coll_init(vc, &CALL(#name "_init", __VA_ARGS__), request)                  \
                  : ftk_foreign_made(PMPI_##name##_init(OPEN args, comm, info, request), request); \
    }

/* A side with blocks of one size; with counts; and with types, whose displacements are in
 * bytes. */
#define SAME(side_, buf_, count_, type_)                                                           \
    .side_.buf = (buf_), .side_.count = (count_), .side_.type = (type_)
#define EACH(side_, buf_, counts_, displs_, type_)                                                 \
    .side_.buf = (buf_), .side_.counts = (counts_), .side_.displs = (displs_), .side_.type = (type_)
#define TYPED(side_, buf_, counts_, displs_, types_)                                               \
    .side_.buf = (buf_), .side_.counts = (counts_), .side_.displs = (displs_),                     \
    .side_.types = (types_)
#define TYPED_FAR(side_, buf_, counts_, displs_, types_)                                           \
    .side_.buf = (buf_), .side_.counts = (counts_), .side_.adispls = (displs_),                    \
    .side_.types = (types_)

/* ---- barrier: no arguments ----------------------------------------------------------- */

int ftk_mpi_Barrier(MPI_Comm comm)
{
    struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    return vc ? ftk_coll_now(vc, &CALL("Barrier", .kind = FTK_BARRIER)) : PMPI_Barrier(comm);
}

int ftk_mpi_Ibarrier(MPI_Comm comm, MPI_Request *request)
{
    struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    return vc ? ftk_coll_later(vc, &CALL("Ibarrier", .kind = FTK_BARRIER), request)
              : PMPI_Ibarrier(comm, request);
}

int ftk_mpi_Barrier_init(MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    return vc ? ftk_coll_init(vc, &CALL("Barrier_init", .kind = FTK_BARRIER), request)
              : ftk_foreign_made(PMPI_Barrier_init(comm, info, request), request);
}

/* ---- with a root --------------------------------------------------------------------- */

FORMS(ftk_mpi_Bcast, ftk_mpi_Ibcast, ftk_mpi_Bcast_init, Bcast, Ibcast,
    (void *buffer, int count, MPI_Datatype datatype, int root), (buffer, count, datatype, root),
    .kind = FTK_BCAST, .root = root, SAME(r, buffer, count, datatype))

FORMS(ftk_mpi_Gather, ftk_mpi_Igather, ftk_mpi_Gather_init, Gather, Igather,
    (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
        MPI_Datatype recvtype, int root),
    (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root), .kind = FTK_GATHER,
    .root = root, SAME(s, sendbuf, sendcount, sendtype), SAME(r, recvbuf, recvcount, recvtype))

FORMS(ftk_mpi_Gatherv, ftk_mpi_Igatherv, ftk_mpi_Gatherv_init, Gatherv, Igatherv,
    (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
        const int recvcounts[], const int displs[], MPI_Datatype recvtype, int root),
    (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root),
    .kind = FTK_GATHERV, .root = root, SAME(s, sendbuf, sendcount, sendtype),
    EACH(r, recvbuf, recvcounts, displs, recvtype))

FORMS(ftk_mpi_Scatter, ftk_mpi_Iscatter, ftk_mpi_Scatter_init, Scatter, Iscatter,
    (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
        MPI_Datatype recvtype, int root),
    (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root), .kind = FTK_SCATTER,
    .root = root, SAME(s, sendbuf, sendcount, sendtype), SAME(r, recvbuf, recvcount, recvtype))

FORMS(ftk_mpi_Scatterv, ftk_mpi_Iscatterv, ftk_mpi_Scatterv_init, Scatterv, Iscatterv,
    (const void *sendbuf, const int sendcounts[], const int displs[], MPI_Datatype sendtype,
        void *recvbuf, int recvcount, MPI_Datatype recvtype, int root),
    (sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root),
    .kind = FTK_SCATTERV, .root = root, EACH(s, sendbuf, sendcounts, displs, sendtype),
    SAME(r, recvbuf, recvcount, recvtype))

FORMS(ftk_mpi_Reduce, ftk_mpi_Ireduce, ftk_mpi_Reduce_init, Reduce, Ireduce,
    (const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op, int root),
    (sendbuf, recvbuf, count, datatype, op, root), .kind = FTK_REDUCE, .op = op, .root = root,
    SAME(s, sendbuf, count, datatype), SAME(r, recvbuf, count, datatype))

/* ---- all the same -------------------------------------------------------------------- */

FORMS(ftk_mpi_Allgather, ftk_mpi_Iallgather, ftk_mpi_Allgather_init, Allgather, Iallgather,
    (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
        MPI_Datatype recvtype),
    (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype), .kind = FTK_ALLGATHER,
    SAME(s, sendbuf, sendcount, sendtype), SAME(r, recvbuf, recvcount, recvtype))

FORMS(ftk_mpi_Allgatherv, ftk_mpi_Iallgatherv, ftk_mpi_Allgatherv_init, Allgatherv, Iallgatherv,
    (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
        const int recvcounts[], const int displs[], MPI_Datatype recvtype),
    (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype), .kind = FTK_ALLGATHER,
    SAME(s, sendbuf, sendcount, sendtype), EACH(r, recvbuf, recvcounts, displs, recvtype))

FORMS(ftk_mpi_Alltoall, ftk_mpi_Ialltoall, ftk_mpi_Alltoall_init, Alltoall, Ialltoall,
    (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
        MPI_Datatype recvtype),
    (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype), .kind = FTK_ALLTOALL,
    SAME(s, sendbuf, sendcount, sendtype), SAME(r, recvbuf, recvcount, recvtype))

FORMS(ftk_mpi_Alltoallv, ftk_mpi_Ialltoallv, ftk_mpi_Alltoallv_init, Alltoallv, Ialltoallv,
    (const void *sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
        void *recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype),
    (sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype),
    .kind = FTK_ALLTOALL, EACH(s, sendbuf, sendcounts, sdispls, sendtype),
    EACH(r, recvbuf, recvcounts, rdispls, recvtype))

FORMS(ftk_mpi_Alltoallw, ftk_mpi_Ialltoallw, ftk_mpi_Alltoallw_init, Alltoallw, Ialltoallw,
    (const void *sendbuf, const int sendcounts[], const int sdispls[],
        const MPI_Datatype sendtypes[], void *recvbuf, const int recvcounts[], const int rdispls[],
        const MPI_Datatype recvtypes[]),
    (sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes),
    .kind = FTK_ALLTOALL, TYPED(s, sendbuf, sendcounts, sdispls, sendtypes),
    TYPED(r, recvbuf, recvcounts, rdispls, recvtypes))

FORMS(ftk_mpi_Allreduce, ftk_mpi_Iallreduce, ftk_mpi_Allreduce_init, Allreduce, Iallreduce,
    (const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op),
    (sendbuf, recvbuf, count, datatype, op), .kind = FTK_ALLREDUCE, .op = op,
    SAME(s, sendbuf, count, datatype), SAME(r, recvbuf, count, datatype))

FORMS(ftk_mpi_Reduce_scatter, ftk_mpi_Ireduce_scatter, ftk_mpi_Reduce_scatter_init, Reduce_scatter,
    Ireduce_scatter,
    (const void *sendbuf, void *recvbuf, const int recvcounts[], MPI_Datatype datatype, MPI_Op op),
    (sendbuf, recvbuf, recvcounts, datatype, op), .kind = FTK_REDUCE_SCATTER, .op = op,
    .s.buf = sendbuf, EACH(r, recvbuf, recvcounts, NULL, datatype))

FORMS(ftk_mpi_Reduce_scatter_block, ftk_mpi_Ireduce_scatter_block,
    ftk_mpi_Reduce_scatter_block_init, Reduce_scatter_block, Ireduce_scatter_block,
    (const void *sendbuf, void *recvbuf, int recvcount, MPI_Datatype datatype, MPI_Op op),
    (sendbuf, recvbuf, recvcount, datatype, op), .kind = FTK_REDUCE_SCATTER, .op = op,
    .s.buf = sendbuf, SAME(r, recvbuf, recvcount, datatype))

FORMS(ftk_mpi_Scan, ftk_mpi_Iscan, ftk_mpi_Scan_init, Scan, Iscan,
    (const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op),
    (sendbuf, recvbuf, count, datatype, op), .kind = FTK_SCAN, .op = op,
    SAME(s, sendbuf, count, datatype), SAME(r, recvbuf, count, datatype))

FORMS(ftk_mpi_Exscan, ftk_mpi_Iexscan, ftk_mpi_Exscan_init, Exscan, Iexscan,
    (const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op),
    (sendbuf, recvbuf, count, datatype, op), .kind = FTK_EXSCAN, .op = op,
    SAME(s, sendbuf, count, datatype), SAME(r, recvbuf, count, datatype))

/* ---- neighbours ---------------------------------------------------------------------- */

FORMS(ftk_mpi_Neighbor_allgather, ftk_mpi_Ineighbor_allgather, ftk_mpi_Neighbor_allgather_init,
    Neighbor_allgather, Ineighbor_allgather,
    (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
        MPI_Datatype recvtype),
    (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype), .kind = FTK_NEIGHBOR_ALLGATHER,
    SAME(s, sendbuf, sendcount, sendtype), SAME(r, recvbuf, recvcount, recvtype))

FORMS(ftk_mpi_Neighbor_allgatherv, ftk_mpi_Ineighbor_allgatherv, ftk_mpi_Neighbor_allgatherv_init,
    Neighbor_allgatherv, Ineighbor_allgatherv,
    (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
        const int recvcounts[], const int displs[], MPI_Datatype recvtype),
    (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype),
    .kind = FTK_NEIGHBOR_ALLGATHER, SAME(s, sendbuf, sendcount, sendtype),
    EACH(r, recvbuf, recvcounts, displs, recvtype))

FORMS(ftk_mpi_Neighbor_alltoall, ftk_mpi_Ineighbor_alltoall, ftk_mpi_Neighbor_alltoall_init,
    Neighbor_alltoall, Ineighbor_alltoall,
    (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
        MPI_Datatype recvtype),
    (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype), .kind = FTK_NEIGHBOR_ALLTOALL,
    SAME(s, sendbuf, sendcount, sendtype), SAME(r, recvbuf, recvcount, recvtype))

FORMS(ftk_mpi_Neighbor_alltoallv, ftk_mpi_Ineighbor_alltoallv, ftk_mpi_Neighbor_alltoallv_init,
    Neighbor_alltoallv, Ineighbor_alltoallv,
    (const void *sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
        void *recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype),
    (sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype),
    .kind = FTK_NEIGHBOR_ALLTOALL, EACH(s, sendbuf, sendcounts, sdispls, sendtype),
    EACH(r, recvbuf, recvcounts, rdispls, recvtype))

FORMS(ftk_mpi_Neighbor_alltoallw, ftk_mpi_Ineighbor_alltoallw, ftk_mpi_Neighbor_alltoallw_init,
    Neighbor_alltoallw, Ineighbor_alltoallw,
    (const void *sendbuf, const int sendcounts[], const MPI_Aint sdispls[],
        const MPI_Datatype sendtypes[], void *recvbuf, const int recvcounts[],
        const MPI_Aint rdispls[], const MPI_Datatype recvtypes[]),
    (sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes),
    .kind = FTK_NEIGHBOR_ALLTOALL, TYPED_FAR(s, sendbuf, sendcounts, sdispls, sendtypes),
    TYPED_FAR(r, recvbuf, recvcounts, rdispls, recvtypes))
