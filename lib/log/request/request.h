/* Requests of the program and of the log.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_REQUEST_H
#define FTK_LOG_REQUEST_H

#include <mpi.h>

#include "log/request/req_kinds.h"
#include "log/request/req_recv.h"
#include "log/request/req_send.h"
#include "log/vcomm/vcomm.h"

/* ---- requests ---------------------------------------------------------------------------
 * The objects behind the program's MPI_Request handles.  A request is its arguments, a state, and
 * the data of its kind.  Without failures:
 *
 *     send        WAITING -> POSTED or LOGGED -> COMPLETE
 *                 WAITING -> HELD -> WAITING: held for stability
 *     receive     WAITING -> POSTED or PROBING -> COMPLETE
 *                 PROBING -> POSTED: a probe has matched the message
 *     combined    like a receive, but HALF until the send is complete, too
 *     collective  RUNNING -> COMPLETE
 *
 * Any state leads to COMPLETE when a message is at hand, or after an error.  When the completion is
 * reported, the request becomes FREE; a persistent request becomes INACTIVE.
 *
 * A failure of the peer, or a repair, takes a request away from the MPI.  The repair begins the
 * request again:
 *
 *     send        POSTED -> LOGGED: the log entry is sent again; without a log entry -> WAITING
 *     receive     POSTED -> WITHDRAWN -> POSTED or PROBING
 *
 * ftk_req_is_done() is true in FREE, INACTIVE and COMPLETE.  In the other states the request is
 * under way. */

#define FTK_REQ_KIND(NAME, word) FTK_REQ_##NAME,
enum ftk_req_kind { FTK_REQ_KINDS(FTK_REQ_KIND) FTK_REQ_NKINDS };
#undef FTK_REQ_KIND
_Static_assert(
    FTK_REQ_SEND == 0 && FTK_REQ_RECV == 1 && FTK_REQ_COLL == 2, "sets have these numbers");

enum ftk_req_state {
    FTK_REQ_FREE,     /* unused, in the pool; or shared, and the program has no handle of it */
    FTK_REQ_INACTIVE, /* persistent, and not started since its completion was reported */
    FTK_REQ_COMPLETE, /* status and error hold */
    FTK_REQ_WAITING,  /* begun, but not given to the MPI: a receive in a replay that gets no message
                          yet, or an operation with a failed rank, until the repair */
    FTK_REQ_HELD,     /* a send that is held for stability (mode/relay.c) */
    FTK_REQ_POSTED,   /* the MPI has it: real */
    FTK_REQ_LOGGED,   /* a send that is complete when its log entry is sent */
    FTK_REQ_PROBING,  /* a receive that is matched by MPI_Improbe instead of being posted */
    FTK_REQ_WITHDRAWN, /* a receive that the MPI has given back, matched or not */
    FTK_REQ_RUNNING,   /* a collective: its schedule runs */
    FTK_REQ_HALF       /* the receive of a combined send and receive, whose send is not complete */
};

struct ftk_coll; /* coll/: a schedule under way */

struct ftk_req {
    enum ftk_req_kind kind;
    enum ftk_req_state state;
    bool internal;        /* of a collective or of the log, not of the program */
    bool persistent;      /* made by an MPI_..._init() */
    bool freed_active;    /* MPI_Request_free while under way */
    bool stale;           /* persistent, and created by the program before this rank rolled back; a
                          replacement process has no such requests */
    int error;            /* COMPLETE: MPI code */
    struct ftk_vcomm *vc; /* a request of the pool holds the communicator; a request that is
                             freed_active, or stale and inactive, only keeps it (vcomm.h) */
    int context;          /* in which the message travels: the receiver's */
    int count;
    MPI_Datatype type;
    int peer; /* rank of the world, MPI_ANY_SOURCE */
    int tag;
    struct ftk_req_send send;
    struct ftk_req_recv recv;
    struct ftk_req_replay replay;
    struct ftk_coll *coll; /* COLL: the collective; internal: the collective that the message
                              belongs to */
    MPI_Request real;
    MPI_Status status;               /* MPI_SOURCE is a rank of vc */
    uint64_t seq;                    /* sequence number: the order of posting */
    uint32_t born;                   /* lines committed when the program made it */
    uint32_t id;                     /* number among the persistent requests, from 1; 0: none */
    struct ftk_req *next, *prev;     /* in the list of requests under way, in the order of seq */
    struct ftk_req *pair;            /* the send of a combined send and receive */
    const struct ftk_req_ends *ends; /* of a receive of the log; NULL: as the program's */
    int (*then)(
        struct ftk_req *r); /* called once, when the request becomes complete; may be NULL */
    void *arg;              /* of then */
    char *own;              /* memory that is freed with the request */
};

/* MPI_Recv has a request on the stack: up to this size the compiler clears it without a call. */
_Static_assert(sizeof(struct ftk_req) <= 256, "clearing a request would take a call");

/* Whether the request is a message; others have a progress() of their own (req_ops.h). */
static inline bool ftk_req_is_message(const struct ftk_req *r)
{
    return r->kind <= FTK_REQ_RECV;
}

/* The kinds of messages.  Other files compare no kind: what differs between the kinds is in their
 * operations (req_ops.h), or follows from these two, which cost one comparison. */
static inline bool ftk_req_is_send(const struct ftk_req *r)
{
    return r->kind == FTK_REQ_SEND;
}

static inline bool ftk_req_is_receive(const struct ftk_req *r)
{
    return r->kind == FTK_REQ_RECV;
}

static inline bool ftk_req_is_done(const struct ftk_req *r)
{
    return r->state <= FTK_REQ_COMPLETE;
}

/* How a receive of the log ends.  MPI codes. */
struct ftk_req_ends {
    int (*complete)(struct ftk_req *r, const MPI_Status *s, int error); /* it has a message */
    void (*drop)(struct ftk_req *r); /* it is given up, or complete */
};

/* The requests under way, and numbers of requests. */
struct ftk_req_queue {
    struct ftk_req *first, *last; /* by seq */
    uint64_t seq;                 /* the latest sequence number */
    size_t nwildcards;            /* wildcard receives under way */
    size_t nmprobed;              /* receives under way in the state PROBING */
    uint32_t npersistent;         /* persistent requests made; a rollback resets the number */
    uint32_t set_up;              /* these, in set-up */
    bool polls;                   /* requests are looked at, and none is waited for */
    size_t nfreed_before;         /* sends freed while active that the last look has left */
    size_t nfreed;                /* these, and those since then */
};

/* ---- messages ---------------------------------------------------------------------------
 * Fill kind, vc, context, count, type, peer (of the world), tag, internal, and send.buf and
 * send.sync or recv.buf of a request that is otherwise zero; then begin it.  A request to or from
 * MPI_PROC_NULL is complete at once.  Return MPI codes; while this rank rolls back: an error, and
 * the request is done. */
int ftk_req_begin(struct ftk_req *r);
/* One look.  The error of the request when it is complete, else MPI_SUCCESS. */
int ftk_req_progress(struct ftk_req *r);
/* Wait until the request is complete; failures are repaired meanwhile.  The error of the
 * request. */
int ftk_req_wait(struct ftk_req *r);
/* Call this when a look has found nothing complete: the function looks for failures now and then,
 * and repairs them.  MPI_SUCCESS, or the error with which calls fail while this rank rolls back. */
int ftk_log_progress(unsigned *turns);
/* The request is complete, with an MPI error or MPI_SUCCESS, which the function returns. */
int ftk_req_finish(struct ftk_req *r, int error);
/* Complete a request with an error; returns the error. */
int ftk_req_fail(struct ftk_req *r, int error);
/* A failure has ended the request of the MPI.  The request is done again after the repair. */
void ftk_req_failed(struct ftk_req *r);
/* A request, for messages: kind, peer, tag, communicator. */
void ftk_req_describe(const struct ftk_req *r, char *text, size_t room);
/* Requests of the program.  NULL: no memory. */
struct ftk_req *ftk_req_blank(void); /* for ftk_req_new() */
/* A new request holds vc until the request is deleted. */
static inline struct ftk_req *ftk_req_new(struct ftk_vcomm *vc)
{
    struct ftk_req *r = ftk_req_blank();
    if (r) {
        r->vc = vc;
        ftk_vcomm_hold(vc);
    }
    return r;
}
/* MPI_Type_free(): forget the type; the type itself lives as long as a request uses it. */
int ftk_req_type_free(MPI_Datatype *type);
/* The request of a send on vc that is over.  All such sends share it.  The program may have its
 * handle many times; each handle is deleted by itself.  NULL: no memory. */
struct ftk_req *ftk_req_sent(struct ftk_vcomm *vc);
void ftk_req_delete(struct ftk_req *r);
void ftk_req_delete_freed(struct ftk_req *r); /* the same of a request that is freed_active */
void ftk_req_persist(struct ftk_req *r);      /* a new request is persistent, and not started */
void ftk_req_abandon(struct ftk_req *r);      /* deletes it when it is complete */
/* A persistent request comes to rest, or starts.  A stale one does not hold the context at rest: a
 * replacement has no such request. */
static inline void ftk_req_rest(struct ftk_req *r)
{
    r->state = FTK_REQ_INACTIVE;
    if (r->stale) {
        ftk_vcomm_keep(r->vc);
        ftk_vcomm_drop(r->vc);
    }
}
static inline void ftk_req_wake(struct ftk_req *r)
{
    if (r->stale) {
        ftk_vcomm_hold(r->vc);
        ftk_vcomm_let_go(r->vc);
    }
}
/* The program's requests are in one piece of address space, so that a handle shows whether it is
 * one of the log's. */
struct ftk_req_pool {
    struct ftk_req *at;
    size_t used;
    struct ftk_req *free;
};
extern struct ftk_req_pool ftk_req_pool; /* request.c */
/* The request of a handle; NULL: a handle of the MPI. */
static inline struct ftk_req *ftk_req_of(MPI_Request h)
{
    uintptr_t offset = (uintptr_t)h - (uintptr_t)ftk_req_pool.at;
    return offset < ftk_req_pool.used * sizeof(struct ftk_req) ? (struct ftk_req *)(void *)h : NULL;
}
/* The number of a request, from 0; the request of a number, NULL: none. */
int ftk_req_number(const struct ftk_req *r);
struct ftk_req *ftk_req_numbered(int number);
static inline MPI_Request ftk_req_handle(struct ftk_req *r)
{
    return (MPI_Request)(void *)r;
}

#endif
