/* Collectives as schedules of messages.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A call becomes a list of steps, the schedule, when it begins.  Only a small blocking broadcast
 * may run without a schedule (run.c).  Messages between two fences are under way together; a fence
 * waits for all of them; a local step runs in its place in the list.  Messages between two ranks
 * keep their order, so all messages of a collective have one tag.
 *
 * A schedule depends on the arguments, the size of the communicator and the rank, and never on
 * teams, time, or the order of arrival.  So the result of a reduction is the same bit by bit in a
 * replay. */
#ifndef FTK_LOG_COLL_H
#define FTK_LOG_COLL_H

#include "log/log.h"

/* ---- for the rest of the log --------------------------------------------------------- */

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
int ftk_coll_tell(struct ftk_vcomm *vc, int root, void *buf, size_t bytes);
/* Begin ftk_coll_allgather() as request r, which is zeroed or from ftk_req_new(), and may have a
 * then already.  The caller may change mine when the function returns. */
int ftk_coll_iallgather_bytes(
    struct ftk_req *r, struct ftk_vcomm *vc, const void *mine, void *all, size_t bytes);

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

/* ---- saved.c: in a set ---------------------------------------------------------------- */

struct ftk_saving;
struct ftk_loading;

/* How far a collective of a set was. */
struct ftk_coll_progress {
    size_t first, at; /* the steps from first to at have begun */
    int error;
    bool open[]; /* [at - first] receives that are not complete */
};

/* Append a collective, at a line.  active: it is under way.  FTKIT_ERR_STATE: its memory is in no
 * region; bare: then *bare is set instead, and a persistent one is appended without steps. */
int ftk_coll_save(struct ftk_saving *s, const struct ftk_coll *c, bool active, bool *bare);
/* Read a collective.  *c: the persistent one of this process to which it belongs, or NULL: it is
 * made.  *p is the caller's: free it.  Codes of ftkit. */
int ftk_coll_load(struct ftk_loading *l, struct ftk_vcomm *vc, bool persistent, struct ftk_coll **c,
    struct ftk_coll_progress **p);
/* A persistent collective that set-up has started: it is not under way any more. */
void ftk_coll_halt(struct ftk_req *r);
/* Continue the collective of r, whose state is set, from there. */
void ftk_coll_resume(struct ftk_req *r, const struct ftk_coll_progress *p);

/* ---- schedules ----------------------------------------------------------------------- */

enum ftk_step_kind {
    FTK_STEP_SEND,
    FTK_STEP_RECV,
    FTK_STEP_FENCE,
    FTK_STEP_REDUCE,
    FTK_STEP_MOVE,
    FTK_STEP_COPY
};

struct ftk_step {
    int kind; /* enum ftk_step_kind */
    int peer; /* SEND, RECV: rank of the communicator; on an intercommunicator
                               ranks of the remote group follow those of the local one */
    int count, into_count;
    const void *from;
    void *into;
    MPI_Datatype type, into_type;
    size_t bytes; /* MOVE */
};

/* A schedule up to this size needs no memory of the heap: steps, messages under way together, bytes
 * of temporaries. */
#define FTK_COLL_STEPS 48
#define FTK_COLL_REQS 12
#define FTK_COLL_ARENA 2048

/* The properties of a datatype that copies need. */
struct ftk_shape {
    MPI_Datatype type;
    size_t size; /* bytes of data in an item */
    ptrdiff_t extent;
    ptrdiff_t true_lb, true_extent;
    bool named; /* predefined: never freed, its items may be copied whole */
    bool plain; /* named, and its items are its bytes, in order */
};

struct ftk_temp {
    struct ftk_temp *next;
    size_t room;
    _Alignas(16) char bytes[];
};

struct ftk_coll {
    struct ftk_vcomm *vc;
    struct ftk_req *owner;
    struct ftk_call call;
    uint64_t number;        /* on its communicator, from 1; persistent ones are counted apart */
    int index;              /* of its tag, among the tags of this kind on vc */
    struct ftk_coll **slot; /* its slot while under way; NULL: persistent */
    struct ftk_coll *slot_prev, *slot_next; /* collectives of the slot, by number */
    int error;                              /* the first error, of building or of running */
    bool too_long;                          /* a block of this rank is longer than its buffer */
    struct ftk_shape last;                  /* while building: of the derived type used last */

    struct ftk_step *steps; /* [nsteps] */
    size_t nsteps, room;
    size_t at;            /* the next step */
    struct ftk_req *reqs; /* [nreqs] begun since the last fence: first .. open - 1 */
    size_t nreqs, open, first;
    size_t used;            /* of arena */
    struct ftk_temp *temps; /* temporaries that did not fit into the arena */

    MPI_Datatype *types; /* [ntypes] duplicates: the program may free its own */
    size_t ntypes;
    bool persistent, holds_op, holds_type, under_way;
    bool set_up;                  /* begun by set-up (set_up.h) */
    struct ftk_coll *next, *prev; /* under way, in order; next also of the free ones */

    struct ftk_step steps0[FTK_COLL_STEPS];
    struct ftk_req reqs0[FTK_COLL_REQS];
    _Alignas(16) char arena[FTK_COLL_ARENA];
};

/* ---- object.c ------------------------------------------------------------------------ */

/* Build the schedule of a call; owned: it outlives the call.  MPI codes. */
int ftk_coll_make(
    struct ftk_vcomm *vc, const struct ftk_call *call, bool owned, struct ftk_coll **out);
void ftk_coll_delete(struct ftk_coll *c);
void ftk_coll_free_memory(void);
/* A collective without steps; NULL: no memory.  When it has all steps: what ftk_coll_make() does
 * for a schedule that outlives the call.  MPI codes. */
struct ftk_coll *ftk_coll_blank(struct ftk_vcomm *vc, const struct ftk_call *call);
int ftk_coll_seal(struct ftk_coll *c);
/* The number of an operation in a set; false: it has none.  The operation of a number; MPI_OP_NULL:
 * none. */
bool ftk_coll_op_number(MPI_Op op, uint64_t *number);
MPI_Op ftk_coll_op_numbered(uint64_t number);

/* ---- schedule.c: building a schedule.  Errors are in c->error. ----------------------- */

void ftk_step_add(struct ftk_coll *c, const struct ftk_step *s);
void ftk_step_send(struct ftk_coll *c, const void *buf, int count, MPI_Datatype type, int to);
void ftk_step_recv(struct ftk_coll *c, void *buf, int count, MPI_Datatype type, int from);
void ftk_step_fence(struct ftk_coll *c);
/* A message without contents; other messages of no bytes are not sent. */
void ftk_step_signal(struct ftk_coll *c, int to);
void ftk_step_await(struct ftk_coll *c, int from);
/* inout = in op inout, with the operation and the type of the call */
void ftk_step_reduce(struct ftk_coll *c, const void *in, void *inout, size_t count);
void ftk_step_copy(struct ftk_coll *c, const void *from, int count, MPI_Datatype type, void *into,
    int into_count, MPI_Datatype into_type);

void ftk_coll_fail(struct ftk_coll *c, int error);
struct ftk_shape ftk_coll_shape(struct ftk_coll *c, MPI_Datatype type);
/* Forget the shapes of types, and free memory of ended schedules. */
void ftk_schedule_close(void);
/* Memory that lives as long as the schedule; NULL only with c->error. */
void *ftk_coll_temp(struct ftk_coll *c, size_t bytes);
void ftk_coll_drop_temps(struct ftk_coll *c);
/* Memory for count items; returns the address of the first item. */
void *ftk_coll_room(struct ftk_coll *c, MPI_Datatype type, size_t count);
/* Bytes of data of a block, where all blocks have one size. */
size_t ftk_coll_block_bytes(struct ftk_coll *c, const struct ftk_side *s);

struct ftk_block {
    void *at;
    int count;
    MPI_Datatype type;
    size_t bytes; /* of data */
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

/* A binomial tree over the ranks in order, starting with the root.  The ranks below a node are
 * consecutive, so that few messages are between teams. */
struct ftk_tree {
    int at;     /* number of this rank in the tree; the root has 0 */
    int parent; /* rank, -1: this is the root */
    int below;  /* number of ranks below this rank, itself included */
    int nkids;
    int kid[32];  /* ranks; kid i has the numbers from at + 2^i */
    int size[32]; /* number of ranks below the kid, itself included */
};
void ftk_coll_tree(const struct ftk_vcomm *vc, int root, struct ftk_tree *t);

/* ---- the algorithms ------------------------------------------------------------------ */

/* Where the distance of the ranks that exchange doubles, each rank of a team logs messages.  With
 * more ranks than these too many messages would cross the borders of teams. */
#define FTK_FEW_RANKS 32

static inline bool ftk_is_power_of_two(int n)
{
    return (n & (n - 1)) == 0;
}

void ftk_coll_build(struct ftk_coll *c);    /* schedule.c */
void ftk_build_barrier(struct ftk_coll *c); /* algo.c */
void ftk_build_broadcast(struct ftk_coll *c);
/* Broadcast when all ranks know count and type, or at least the number of bytes. */
void ftk_build_bcast(struct ftk_coll *c, void *buf, int count, MPI_Datatype type, int root);
/* doubling.c.  The number of ranks is a power of two where the operands are halved. */
void ftk_build_doubling_allreduce(struct ftk_coll *c);
void ftk_build_halving_allreduce(struct ftk_coll *c);
void ftk_build_halving_reduce(struct ftk_coll *c);
void ftk_build_reduce(struct ftk_coll *c); /* reduce.c */
/* The address of the operand of this rank. */
const void *ftk_coll_input(const struct ftk_call *a);
/* Whether the operation of the call is commutative. */
bool ftk_coll_commutes(struct ftk_coll *c);
/* Copy count items of the type of the call, unless from is into. */
void ftk_coll_copy_same(struct ftk_coll *c, const void *from, void *into, int count);
void ftk_build_allreduce(struct ftk_coll *c);
void ftk_build_reduce_scatter(struct ftk_coll *c);
void ftk_build_scan(struct ftk_coll *c);
void ftk_build_exscan(struct ftk_coll *c);
void ftk_build_gather(struct ftk_coll *c); /* algo.c */
void ftk_build_gatherv(struct ftk_coll *c);
void ftk_build_scatter(struct ftk_coll *c);
void ftk_build_scatterv(struct ftk_coll *c);
void ftk_build_allgather(struct ftk_coll *c); /* all.c */
void ftk_build_alltoall(struct ftk_coll *c);
void ftk_build_neighbor_allgather(struct ftk_coll *c); /* neighbor.c */
void ftk_build_neighbor_alltoall(struct ftk_coll *c);
/* inter.c: any collective on an intercommunicator; checks the arguments, too. */
void ftk_build_inter(struct ftk_coll *c);
/* Offsets of the packed blocks of nblocks ranks, by the receiving side; the last entry is the
 * sum. */
size_t *ftk_coll_offsets(struct ftk_coll *c, int nblocks);
/* Whether the blocks in the program's buffer are where packed blocks would be. */
bool ftk_coll_is_packed(struct ftk_coll *c, const size_t *off, int nblocks);

#endif
