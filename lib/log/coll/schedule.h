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
#ifndef FTK_LOG_SCHEDULE_H
#define FTK_LOG_SCHEDULE_H

#include "log/coll/coll.h"

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
    uint64_t fence;       /* number of the steps since the last fence, among all collectives */
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

/* Do a step that sends and receives nothing (local.c).  MPI codes. */
int ftk_step_local(const struct ftk_step *s, MPI_Op op);

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

#endif
