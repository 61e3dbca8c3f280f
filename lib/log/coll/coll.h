/* Collectives: what the rest of the log calls; the calls of the program.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_COLL_H
#define FTK_LOG_COLL_H

#include "log/log.h"

/* Start a persistent collective; MPI_Start has set active.  The error, if the collective ends at
 * once. */
int ftk_coll_begin(struct ftk_req *r);
/* One look at a collective under way. */
int ftk_coll_progress(struct ftk_req *r);
/* Delete an inactive persistent collective. */
void ftk_coll_free(struct ftk_req *r);
/* One look at all collectives under way.  Every wait of the program does that, because other ranks
 * may wait for messages that this rank forwards. */
void ftk_coll_poll(void);
bool ftk_coll_any(void); /* whether a collective is under way */
/* Set-up ends: note the operations that it has made. */
void ftk_coll_note_ops(void);
/* MPI_Op_free: an operation that a collective under way needs is freed with the collective. */
int ftk_coll_op_free(MPI_Op *op);
/* The same for a type that such an operation gets; false: no operation gets it. */
bool ftk_coll_type_free(MPI_Datatype *type);

/* Allgather of bytes bytes over vc: all is [size * bytes].  On an intercommunicator over both
 * groups, in the order of ftk_vcomm_nth().  MPI codes; no error handler is called. */
int ftk_coll_allgather(struct ftk_vcomm *vc, const void *mine, void *all, size_t bytes);
/* Broadcast of bytes bytes from rank root of vc, an intracommunicator. */
int ftk_coll_broadcast(struct ftk_vcomm *vc, int root, void *buf, size_t bytes);
/* Begin ftk_coll_allgather() as request r, which is zeroed or from ftk_req_new(), and may have a
 * then already.  The caller may change mine when the function returns. */
int ftk_coll_iallgather_bytes(
    struct ftk_req *r, struct ftk_vcomm *vc, const void *mine, void *all, size_t bytes);
/* The number of an operation in a set; false: it has none.  The operation of a number; MPI_OP_NULL:
 * none. */
bool ftk_coll_op_number(MPI_Op op, uint64_t *number);
MPI_Op ftk_coll_op_numbered(uint64_t number);

/* ---- calls --------------------------------------------------------------------------- */

enum ftk_coll_kind {
    FTK_BARRIER,
    FTK_BCAST,
    FTK_GATHER,
    FTK_GATHERV,
    FTK_SCATTER,
    FTK_SCATTERV,
    FTK_ALLGATHER,
    FTK_EXCHANGE,
    FTK_ALLTOALL,
    FTK_NEIGHBOR_ALLGATHER,
    FTK_NEIGHBOR_ALLTOALL,
    FTK_REDUCE,
    FTK_ALLREDUCE,
    FTK_REDUCE_SCATTER,
    FTK_SCAN,
    FTK_EXSCAN /* have an op */
};

/* One side of a call: blocks to send or to receive, by rank or by neighbour. */
struct ftk_side {
    const void *buf;
    int count; /* of each, when there are no counts */
    MPI_Datatype type;
    const int *counts;         /* the forms with v and w */
    const int *displs;         /* v: in extents; w: in bytes */
    const MPI_Aint *adispls;   /* w of neighbours: in bytes */
    const MPI_Datatype *types; /* w */
};

/* A call.  Reductions have buffers in s and r, and count and type in r; a broadcast has all in r.
 * FTK_EXCHANGE is an allgather, on an intercommunicator over both groups together. */
struct ftk_call {
    enum ftk_coll_kind kind;
    const char *name; /* of the program's call */
    int root;
    MPI_Op op;
    struct ftk_side s, r;
};

/* The three forms of a call; errors go to the error handler of vc. */
int ftk_coll_now(struct ftk_vcomm *vc, const struct ftk_call *call);
int ftk_coll_later(struct ftk_vcomm *vc, const struct ftk_call *call, MPI_Request *request);
int ftk_coll_init(struct ftk_vcomm *vc, const struct ftk_call *call, MPI_Request *request);

#endif
