/* Collectives as schedules of messages: what coll*.c share, and what the log needs.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A call is made into a list of steps when it begins.  Messages between two fences are
 * under way together; a fence waits for all of them; what is local happens where it
 * stands in the list.  Between two ranks messages keep their order, so one tag does for
 * all the messages of a collective.
 *
 * What a schedule looks like, and so what a reduction comes to bit by bit, depends on the
 * arguments, the size of the communicator and the rank: never on teams, time, or who
 * comes first.  A rank that falls back does the same again. */
#ifndef FTK_LOG_COLL_H
#define FTK_LOG_COLL_H

#include "log/log.h"

/* ---- for the rest of the log ------------------------------------------------------*/

/* Start a persistent one; MPI_Start has set active.  The error if it is over at once. */
int ftk_coll_begin(struct ftk_req *r);
/* A persistent one, at rest, goes. */
void ftk_coll_free(struct ftk_req *r);
/* A look at all that are under way: every wait of the program has to let them go on,
 * since other ranks may wait for messages that are passed on here. */
void ftk_coll_poll(void);
/* Drop whatever is under way. */
void ftk_coll_forget(void);
/* Memory that is kept for the next ones, and the communicator of local copies. */
void ftk_coll_close(void);
/* MPI_Op_free: an operation that a collective under way still needs goes with that. */
int ftk_coll_op_free(MPI_Op *op);
/* The same of a type that such an operation works on; false: no operation does. */
bool ftk_coll_type_free(MPI_Datatype *type);

/* All ranks of vc tell each other bytes bytes: all is [size * bytes].  Those of both groups
 * of an intercommunicator do, in the order of ftk_vcomm_nth().  MPI codes; no error handler
 * is called. */
int ftk_coll_allgather(struct ftk_vcomm *vc, const void *mine, void *all, size_t bytes);
/* Rank root of vc, an intracommunicator, tells all others bytes bytes. */
int ftk_coll_tell(struct ftk_vcomm *vc, int root, void *buf, size_t bytes);
/* The same as ftk_coll_allgather() into r, which is zeroed or from ftk_req_new(), and may have a then already;
 * mine is not needed any more when it returns. */
int ftk_coll_iallgather_bytes(
    struct ftk_req *r, struct ftk_vcomm *vc, const void *mine, void *all, size_t bytes);

/* ---- calls ------------------------------------------------------------------------*/

enum ftk_coll_kind {
    FTK_BARRIER, FTK_BCAST, FTK_GATHER, FTK_GATHERV, FTK_SCATTER, FTK_SCATTERV,
    FTK_ALLGATHER, FTK_EXCHANGE, FTK_ALLTOALL, FTK_NEIGHBOR_ALLGATHER, FTK_NEIGHBOR_ALLTOALL,
    FTK_REDUCE, FTK_ALLREDUCE, FTK_REDUCE_SCATTER, FTK_SCAN, FTK_EXSCAN /* have an op */
};

/* One side of a call: blocks to send or to receive, by rank or by neighbour. */
struct ftk_side {
    const void *buf;
    int count;                 /* of each, when there are no counts */
    MPI_Datatype type;
    const int *counts;         /* the forms with v and w */
    const int *displs;         /* v: in extents; w: in bytes */
    const MPI_Aint *adispls;   /* w of neighbours: in bytes */
    const MPI_Datatype *types; /* w */
};

/* What is the same for all of a kind: reductions have buffers in s and r, and count and
 * type in r; a broadcast is all in r.  FTK_EXCHANGE is an allgather, on an
 * intercommunicator one of both groups together. */
struct ftk_call {
    enum ftk_coll_kind kind;
    const char *name;       /* of the program's call */
    int root;
    MPI_Op op;
    struct ftk_side s, r;
};

/* The three forms of a call; they end at the error handler of vc. */
int ftk_coll_now(struct ftk_vcomm *vc, const struct ftk_call *call);
int ftk_coll_later(
    struct ftk_vcomm *vc, const struct ftk_call *call, MPI_Request *request);
int ftk_coll_init(
    struct ftk_vcomm *vc, const struct ftk_call *call, MPI_Request *request);

/* ---- schedules --------------------------------------------------------------------*/

enum ftk_step_kind { FTK_STEP_SEND, FTK_STEP_RECV, FTK_STEP_FENCE, FTK_STEP_REDUCE,
    FTK_STEP_MOVE, FTK_STEP_COPY };

struct ftk_step {
    int kind;               /* enum ftk_step_kind */
    int peer;               /* SEND, RECV: rank of the communicator; on an intercommunicator
                               ranks of the remote group follow those of the local one */
    int count, into_count;
    const void *from;
    void *into;
    MPI_Datatype type, into_type;
    size_t bytes;           /* MOVE */
};

#define FTK_COLL_STEPS 48   /* these many need no memory of their own, */
#define FTK_COLL_REQS 12    /* these many messages under way together, */
#define FTK_COLL_ARENA 2048 /* these many bytes of temporaries */

/* A datatype, as far as moving it about needs it. */
struct ftk_shape {
    MPI_Datatype type;
    size_t size;            /* bytes of data in an item */
    ptrdiff_t extent;
    ptrdiff_t true_lb, true_extent;
    bool named;             /* predefined: never freed, its items may be copied whole */
    bool plain;             /* named, and its items are its bytes, in order */
};

struct ftk_temp {
    struct ftk_temp *next;
    _Alignas(16) char bytes[];
};

struct ftk_coll {
    struct ftk_vcomm *vc;
    struct ftk_req *owner;
    struct ftk_call call;
    uint64_t number;        /* on its communicator, from 1; persistent ones by themselves */
    int index;              /* of its tag, among those of vc that have the same kind of tag */
    int tag;                /* of what is received */
    struct ftk_coll **slot; /* where it stands while under way; NULL: persistent */
    struct ftk_coll *slot_prev, *slot_next; /* of the same slot, by number */
    int error;              /* the first one: of building, then of running */
    bool too_long;          /* a block of this rank is longer than the room for it */
    struct ftk_shape last;  /* the derived type looked at last, while building */

    struct ftk_step *steps; /* [nsteps] */
    size_t nsteps, room;
    size_t at;              /* the next one */
    struct ftk_req *reqs;   /* [nreqs] begun since the last fence: first .. open - 1 */
    size_t nreqs, open, first;
    size_t used;            /* of arena */
    struct ftk_temp *temps; /* what did not go into it */

    MPI_Datatype *types;    /* [ntypes] duplicates: the program may free its own */
    size_t ntypes;
    bool persistent, holds_op, holds_type, under_way;
    struct ftk_coll *next, *prev; /* under way, in order; next also of the free ones */

    struct ftk_step steps0[FTK_COLL_STEPS];
    struct ftk_req reqs0[FTK_COLL_REQS];
    _Alignas(16) char arena[FTK_COLL_ARENA];
};

/* ---- object.c ----------------------------------------------------------------*/

/* Build it; owned: it outlives the call that makes it.  MPI codes. */
int ftk_coll_make(struct ftk_vcomm *vc, const struct ftk_call *call, bool owned,
    struct ftk_coll **out);
void ftk_coll_delete(struct ftk_coll *c);
void ftk_coll_free_memory(void);

/* ---- schedule.c: making one.  Errors are kept in c->error. ----------------------*/

void ftk_step_send(
    struct ftk_coll *c, const void *buf, int count, MPI_Datatype type, int to);
void ftk_step_recv(struct ftk_coll *c, void *buf, int count, MPI_Datatype type, int from);
void ftk_step_fence(struct ftk_coll *c);
/* A message without contents; what has no bytes is not sent otherwise. */
void ftk_step_signal(struct ftk_coll *c, int to);
void ftk_step_await(struct ftk_coll *c, int from);
/* inout = in op inout, with the operation and the type of the call */
void ftk_step_reduce(struct ftk_coll *c, const void *in, void *inout, size_t count);
void ftk_step_copy(struct ftk_coll *c, const void *from, int count, MPI_Datatype type,
    void *into, int into_count, MPI_Datatype into_type);

void ftk_coll_fail(struct ftk_coll *c, int error);
struct ftk_shape ftk_coll_shape(struct ftk_coll *c, MPI_Datatype type);
/* Memory that lives as long as the schedule; never NULL unless c->error. */
void *ftk_coll_temp(struct ftk_coll *c, size_t bytes);
/* Room for count items: what it returns may be used as the address of the first. */
void *ftk_coll_room(struct ftk_coll *c, MPI_Datatype type, size_t count);
/* Bytes of data of a block, where all are of one size. */
size_t ftk_coll_block_bytes(struct ftk_coll *c, const struct ftk_side *s);

struct ftk_block {
    void *at;
    int count;
    MPI_Datatype type;
    size_t bytes;           /* of data */
};
struct ftk_block ftk_coll_block(struct ftk_coll *c, const struct ftk_side *s, int i);
static inline void *ftk_coll_at(const void *base, ptrdiff_t offset)
{
    return (void *)((uintptr_t)base + (uintptr_t)offset); /* base may be MPI_BOTTOM */
}
/* World rank of the peer of a step. */
static inline int ftk_coll_peer(const struct ftk_vcomm *vc, int peer)
{
    return peer < vc->size ? ftk_vcomm_world(vc, peer) : vc->remote->member[peer - vc->size];
}
static inline bool ftk_coll_reduces(const struct ftk_coll *c)
{
    return c->call.kind >= FTK_REDUCE;
}
static inline bool ftk_in_place(const struct ftk_side *s)
{
    return s->buf == MPI_IN_PLACE;
}

/* A binomial tree over the ranks in order, starting with its root; below each of its
 * nodes are ranks that follow each other, so that few messages go from team to team. */
struct ftk_tree {
    int at;                 /* number of this rank in it, the root is 0 */
    int parent;             /* rank, -1: this is the root */
    int below;              /* how many, with this rank */
    int nkids;
    int kid[32];            /* ranks; kid i has the numbers from at + 2^i */
    int size[32];           /* how many are below it, itself counted */
};
void ftk_coll_tree(const struct ftk_coll *c, int root, struct ftk_tree *t);

/* ---- the algorithms ---------------------------------------------------------------*/

void ftk_coll_build(struct ftk_coll *c);          /* schedule.c */
void ftk_build_barrier(struct ftk_coll *c);       /* algo.c */
void ftk_build_broadcast(struct ftk_coll *c);
/* Of what all ranks know the count and the type of, or at least the bytes. */
void ftk_build_bcast(
    struct ftk_coll *c, void *buf, int count, MPI_Datatype type, int root);
void ftk_build_reduce(struct ftk_coll *c);        /* reduce.c */
void ftk_build_allreduce(struct ftk_coll *c);
void ftk_build_reduce_scatter(struct ftk_coll *c);
void ftk_build_scan(struct ftk_coll *c);
void ftk_build_exscan(struct ftk_coll *c);
void ftk_build_gather(struct ftk_coll *c);        /* algo.c */
void ftk_build_gatherv(struct ftk_coll *c);
void ftk_build_scatter(struct ftk_coll *c);
void ftk_build_scatterv(struct ftk_coll *c);
void ftk_build_allgather(struct ftk_coll *c);     /* all.c */
void ftk_build_alltoall(struct ftk_coll *c);
void ftk_build_neighbor_allgather(struct ftk_coll *c); /* neighbor.c */
void ftk_build_neighbor_alltoall(struct ftk_coll *c);
/* inter.c: any of them on an intercommunicator, arguments looked at, too. */
void ftk_build_inter(struct ftk_coll *c);
/* Where packed blocks of nblocks ranks begin, by the receiving side; the last entry is the
 * sum. */
size_t *ftk_coll_offsets(struct ftk_coll *c, int nblocks);
/* Are the blocks in the program's buffer where packed ones would be? */
bool ftk_coll_is_packed(struct ftk_coll *c, const size_t *off, int nblocks);

#endif
