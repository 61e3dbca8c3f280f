/* The message log: types and state that all its parts share (docs/design.md, section 8).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The program's communicators are virtual: an ordered list of ranks and a context.  Behind a
 * context is a duplicate of the communicator of all working ranks, which every repair makes anew.
 * The log translates ranks of a virtual communicator to ranks of the duplicate.  So a split of a
 * communicator makes no communicator of the MPI, and a repair makes the duplicates and nothing
 * else.  When all duplicates are in use, further communicators share one duplicate, and the upper
 * bits of the tag tell their messages apart.
 *
 * All that a program sends is messages from rank to rank: a collective is a schedule of such
 * messages (coll/), and the construction of a communicator is a collective (mpi/construct.c).  Only
 * messages between teams are logged.
 *
 * One context per process can log.  The log runs in the thread that calls MPI, in one thread at a
 * time (MPI_THREAD_SERIALIZED at most). */
#ifndef FTK_LOG_H
#define FTK_LOG_H

#include "core/log_ops.h"

#define FTK_LOG_CONTEXTS 64 /* plain contexts, at most; log.contexts of them are made */
/* Communicators of the MPI behind the contexts: one for each plain context, one for collectives,
 * one for determinants, and one for all contexts from FTK_LOG_EXTRA on. */
enum { FTK_LOG_COLLS = FTK_LOG_CONTEXTS, FTK_LOG_DET_COMM, FTK_LOG_SHARED, FTK_LOG_COMMS };
#define FTK_LOG_EXTRA 128   /* the first context that shares its communicator */
#define FTK_LOG_EXTRAS 2047 /* how many of these there are */
#define FTK_LOG_ALL (FTK_LOG_EXTRA + FTK_LOG_EXTRAS)
#define FTK_TAG_BITS 20                       /* bits of a tag that they leave to the program */
#define FTK_TAG_MAX ((1 << FTK_TAG_BITS) - 1) /* MPI_TAG_UB of the program */
#define FTK_COLL_INIT (UINT64_C(1) << 40)
#define FTK_COLL_SLOTS 64 /* collectives of a communicator that can send at once */

/* ---- contexts ------------------------------------------------------------------------ */

static inline bool ftk_context_shares(int context)
{
    return context >= FTK_LOG_EXTRA;
}
/* The communicator behind a context, as an index of ftk_log.real. */
static inline int ftk_context_comm(int context)
{
    return ftk_context_shares(context) ? FTK_LOG_SHARED : context;
}
/* The tag that a message has on that communicator; from such a tag: the program's tag, and the
 * context. */
static inline int ftk_context_wire(int context, int tag)
{
    return ftk_context_shares(context) ? (context - FTK_LOG_EXTRA) << FTK_TAG_BITS | tag : tag;
}
static inline int ftk_context_tag(int context, int wire)
{
    return ftk_context_shares(context) ? wire & FTK_TAG_MAX : wire;
}
static inline int ftk_context_of(int channel, int wire)
{
    return channel == FTK_LOG_SHARED ? FTK_LOG_EXTRA + (wire >> FTK_TAG_BITS) : channel;
}
/* Whether a communicator can have this context. */
static inline bool ftk_context_is_one(uint64_t context)
{
    return context < FTK_LOG_CONTEXTS || (context >= FTK_LOG_EXTRA && context < FTK_LOG_ALL);
}

/* A set of contexts. */
struct ftk_contexts {
    uint64_t word[FTK_LOG_ALL / 64 + 1]; /* word[0]: the plain contexts */
};
static inline bool ftk_contexts_has(const struct ftk_contexts *s, int context)
{
    return s->word[context / 64] >> context % 64 & 1;
}
static inline void ftk_contexts_add(struct ftk_contexts *s, int context)
{
    s->word[context / 64] |= UINT64_C(1) << context % 64;
}
static inline void ftk_contexts_drop(struct ftk_contexts *s, int context)
{
    s->word[context / 64] &= ~(UINT64_C(1) << context % 64);
}

/* ---- envelopes --------------------------------------------------------------------------
 * The envelope of a message, or of what a receive or a probe asks for: then source and tag may be
 * wildcards.  Source: rank of the world.  [MPI 3.2.3] */

struct ftk_envelope {
    int context, source, tag;
};

/* Whether both can be the envelope of one message.  The only place that knows the rules of
 * matching. */
static inline bool ftk_envelope_matches(const struct ftk_envelope *a, const struct ftk_envelope *b)
{
    return a->context == b->context
           && (a->source == b->source || a->source == MPI_ANY_SOURCE || b->source == MPI_ANY_SOURCE)
           && (a->tag == b->tag || a->tag == MPI_ANY_TAG || b->tag == MPI_ANY_TAG);
}

/* ---- virtual communicators ----------------------------------------------------------- */

enum ftk_topology { FTK_TOPO_NONE, FTK_TOPO_CART, FTK_TOPO_GRAPH, FTK_TOPO_DIST };

struct ftk_topo {
    int kind;            /* enum ftk_topology */
    int ndims;           /* CART */
    int *dims, *periods; /* [ndims] */
    int nnodes, nedges;  /* GRAPH */
    int *index, *edges;  /* [nnodes], [nedges] */
    /* DIST; for the other kinds the neighbours of this rank in the order of neighbourhood
     * collectives, MPI_PROC_NULL where there is no neighbour */
    int nin, nout;
    int *in, *out;   /* [nin], [nout] ranks of the communicator */
    int *inw, *outw; /* weights, NULL: unweighted */
};

/* The remote group of an intercommunicator: its ranks are the ranks in calls of communication. */
struct ftk_remote {
    int size;
    int *member; /* [size] world ranks */
    int *index;  /* [world size] rank in it, -1: none */
    bool first;  /* its members come first in what both groups do together */
};

struct ftk_vcomm {
    MPI_Comm handle;           /* the program's handle: a duplicate of MPI_COMM_SELF, which has
                               the attributes, the name and the error handler */
    int context;               /* in which this process receives messages on it */
    int *there;                /* [world size] the context in which each member of both groups
                               receives, by rank of the world; NULL: the same for all */
    int size, rank;            /* rank of this process in it */
    int *member;               /* [size] world ranks, NULL: all of them in order */
    int *index;                /* [world size] rank in it, -1: none; NULL with member */
    struct ftk_remote *remote; /* NULL: an intracommunicator; else size, rank, member and index
                               are those of the local group */
    uint64_t colls;      /* collectives begun, plus FTK_COLL_INIT for each persistent one made */
    uint64_t line_colls; /* the same at the line */
    uint64_t born;       /* lines committed when it was made */
    bool freed;          /* by the program; the log keeps it until the next line */
    bool holds;          /* freed, and the program has requests on it: its context is in use */
    struct ftk_coll *slot[FTK_COLL_SLOTS]; /* the last collective under way of each number */
    struct ftk_topo topo;
    struct ftk_vcomm *next; /* list of all */
};

/* The rank of the world of rank r of vc; r may be MPI_PROC_NULL or MPI_ANY_SOURCE. */
static inline int ftk_vcomm_world(const struct ftk_vcomm *vc, int r)
{
    return r < 0 || !vc->member ? r : vc->member[r];
}
/* The rank in vc of a rank of the world, -1: no member. */
static inline int ftk_vcomm_rank(const struct ftk_vcomm *vc, int world)
{
    return world < 0 || !vc->index ? world : vc->index[world];
}

/* The same for the ranks that messages on vc go to and come from: those of the remote group, if
 * there is one. */
static inline int ftk_vcomm_peers(const struct ftk_vcomm *vc)
{
    return vc->remote ? vc->remote->size : vc->size;
}
static inline int ftk_vcomm_peer_world(const struct ftk_vcomm *vc, int r)
{
    return r < 0 || !vc->remote ? ftk_vcomm_world(vc, r) : vc->remote->member[r];
}
static inline int ftk_vcomm_peer_rank(const struct ftk_vcomm *vc, int world)
{
    return world < 0 || !vc->remote ? ftk_vcomm_rank(vc, world) : vc->remote->index[world];
}

/* The context in which a rank of the world receives on vc: a send to that rank uses it. */
static inline int ftk_vcomm_there(const struct ftk_vcomm *vc, int world)
{
    return __builtin_expect(vc->there != NULL, 0) && world >= 0 ? vc->there[world] : vc->context;
}

/* ---- requests ---------------------------------------------------------------------------
 * The objects behind the program's MPI_Request handles.  A request is its arguments, a state, and
 * the data of its kind:
 *
 *     FREE -> (new) -> COMPLETE --- report ---> FREE, or INACTIVE if persistent
 *                        ^
 *                        |  all states below end here
 *     begin -> WAITING --+
 *       |        ^ |
 *       |        | +-> send:    HELD -> POSTED, LOGGED
 *       |        |     receive: POSTED <-> PROBING
 *       |        +---- repair:  POSTED -> WITHDRAWN -> POSTED, PROBING
 *       +-> collective: RUNNING
 *       +-> HALF: of a combined send and receive only the receive is complete
 *
 * ftk_req_is_done() is true in the first three states; the others are under way. */

enum ftk_req_kind { FTK_REQ_SEND, FTK_REQ_RECV, FTK_REQ_COLL };

enum ftk_req_state {
    FTK_REQ_FREE,      /* unused, in the pool */
    FTK_REQ_INACTIVE,  /* persistent, and not started since its completion was reported */
    FTK_REQ_COMPLETE,  /* status and error hold */
    FTK_REQ_WAITING,   /* begun, and with nobody: a receive in a replay that gets no message yet, or
                          an operation with a failed rank, until the repair */
    FTK_REQ_HELD,      /* a send that is held for stability (relay.h) */
    FTK_REQ_POSTED,    /* the MPI has it: real */
    FTK_REQ_LOGGED,    /* a send that is complete when its log entry is sent */
    FTK_REQ_PROBING,   /* a receive that is matched by MPI_Improbe instead of being posted */
    FTK_REQ_WITHDRAWN, /* a receive that the MPI has given back, matched or not */
    FTK_REQ_RUNNING,   /* a collective: its schedule runs */
    FTK_REQ_HALF       /* the receive of a combined send and receive, whose send is not complete */
};

struct ftk_coll; /* coll/: a schedule under way */

/* What a send has besides its arguments. */
struct ftk_req_send {
    const void *buf;
    bool sync;               /* a synchronous send */
    bool buffered;           /* a persistent buffered send: complete as soon as it is started */
    size_t owned;            /* the send reads so many bytes of own; 0: it reads buf */
    struct ftk_entry *entry; /* its log entry; NULL: not logged */
    uint64_t hold_round;     /* HELD: until this round of determinants is acknowledged */
};

/* What a receive has besides its arguments. */
struct ftk_req_recv {
    void *buf;
    struct ftk_envelope want; /* what the receive is posted for: its arguments, or the source and
                                 tag of the match if that is known */
    uint32_t wildcard_seq;    /* number among the wildcard receives; 0: no wildcard receive, or the
                              match is known */
    uint32_t number;          /* among the receives of the program; 0: of the log */
    uint64_t posted_seq; /* the latest sequence number when this receive was posted to the MPI */
    bool cancelled;      /* the program has asked for a cancel */
};

/* What determinants say of the first execution of a receive. */
enum ftk_cancel_known {
    FTK_CANCEL_UNKNOWN,  /* no cancel, or none is recorded */
    FTK_CANCEL_DONE,     /* the receive was cancelled: it gets no message */
    FTK_CANCEL_TOO_LATE, /* the receive got a message in spite of a cancel */
};
struct ftk_req_replay {
    bool match_known; /* which message the receive got */
    enum ftk_cancel_known cancel;
};

struct ftk_req {
    enum ftk_req_kind kind;
    enum ftk_req_state state;
    bool internal;     /* of a collective or of the log, not of the program */
    bool persistent;   /* made by an MPI_..._init() */
    bool freed_active; /* MPI_Request_free while under way */
    bool stale;        /* persistent, and created by the program before this rank rolled back; a
                          replacement process has no such requests */
    struct ftk_vcomm *vc;
    int context; /* in which the message travels: the receiver's */
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
    MPI_Status status;             /* MPI_SOURCE is a rank of vc */
    int error;                     /* MPI code it has completed with */
    uint64_t seq;                  /* sequence number: the order of posting */
    uint64_t born;                 /* lines committed when the program made it */
    struct ftk_req *next, *prev;   /* in the list of requests under way, in the order of seq */
    struct ftk_req *pair;          /* the send of a combined send and receive */
    const struct ftk_req_ops *ops; /* of a receive of the log itself; NULL: any other request */
    int (*then)(
        struct ftk_req *r); /* called once, when the request becomes complete; may be NULL */
    void *arg;              /* of then */
    char *own;              /* memory that is freed with the request */
};

static inline bool ftk_req_is_done(const struct ftk_req *r)
{
    return r->state <= FTK_REQ_COMPLETE;
}
/* A receive for which the MPI may have matched a message. */
static inline bool ftk_req_is_open(const struct ftk_req *r)
{
    return r->state == FTK_REQ_POSTED || r->state == FTK_REQ_WITHDRAWN;
}

/* How a receive of the log itself ends. */
struct ftk_req_ops {
    int (*complete)(struct ftk_req *r, const MPI_Status *s, int error); /* MPI code */
    void (*drop)(struct ftk_req *r); /* it is given up, or complete */
};

struct ftk_unexp;

/* Functions that modules below call upward: in request/ and in coll/.  The log sets these tables
 * when it opens. */
struct ftk_req_hooks {
    int (*fail)(struct ftk_req *r, int error);              /* ftk_p2p_fail() */
    void (*release)(struct ftk_req *r);                     /* ftk_p2p_release() */
    int (*deliver)(struct ftk_req *r, struct ftk_unexp *h); /* ftk_p2p_deliver() */
    int (*drain)(int context, MPI_Message *m, const MPI_Status *s,
        struct ftk_unexp **out);                   /* ftk_p2p_drain() */
    bool (*uses_comm)(const struct ftk_vcomm *vc); /* ftk_p2p_has() */
    void (*part)(const struct ftk_vcomm *vc);      /* ftk_p2p_part() */
};
struct ftk_coll_hooks {
    void (*poll)(void);                 /* ftk_coll_poll() */
    int (*progress)(struct ftk_req *r); /* ftk_coll_progress() */
};

/* ---- logged and unexpected messages -------------------------------------------------- */

/* A message in the sender-based log; its bytes follow. */
struct ftk_entry {
    struct ftk_entry *next; /* to the same rank, in the order of sending */
    MPI_Request real;       /* the MPI's, while it sends; or MPI_REQUEST_NULL */
    uint64_t hash;
    size_t bytes;
    int context, tag;
    bool sync;
    bool unsent;    /* its request is held back */
    uint64_t *deps; /* [deps_words] dependency vector, sent before it (depend.h), or NULL */
    size_t deps_words;
};
static inline char *ftk_entry_data(struct ftk_entry *e)
{
    return (char *)(e + 1);
}

/* An unexpected message: it has arrived, and the program has not received it yet. */
struct ftk_unexp {
    struct ftk_unexp *next;   /* in the order of arrival */
    int context, source, tag; /* source: rank of the world */
    size_t bytes;
    char *data;            /* [bytes], owned */
    uint64_t seq;          /* in the set-up log: sequence number of its receive */
    struct ftk_deps *deps; /* dependency vector that came before it (depend.h), owned; or NULL */
    bool delayed;          /* once it was not deliverable */
    int number;            /* of a matched message: its handle in Fortran */
    int rank;              /* of a matched message: its source in its communicator */
};

static inline bool ftk_unexp_is_for(const struct ftk_unexp *h, const struct ftk_envelope *want)
{
    const struct ftk_envelope of = { h->context, h->source, h->tag };
    return ftk_envelope_matches(want, &of);
}

/* The messages delivered since the line on a channel (context, source, tag) from another team.
 * Receives match the messages of a channel in the order of posting, but may complete in another
 * order. */
struct ftk_reception {
    uint64_t seq;  /* of the receive */
    uint64_t hash; /* 0: not known */
};
struct ftk_channel {
    int context, source, tag;
    uint64_t count;
    uint64_t at_line;                 /* count at the line of the set that is being written */
    struct ftk_reception *receptions; /* [count] in the order of seq, [room] are allocated */
    size_t room;
};

/* The messages of a channel that need not be sent again: the receiver has them. */
struct ftk_suppress {
    int context, dest, tag;
    uint64_t next; /* number of the next message, from 1 */
    uint64_t upto; /* the receiver has the messages up to this number ... */
    uint64_t *gap; /* [ngaps] ... except these, rising */
    int ngaps;
    uint64_t *hash; /* [upto] of their bytes; NULL: not known */
};

/* A message that completed while receives posted earlier had not (see recovery.c). */
struct ftk_early {
    uint64_t seq;
    uint64_t posted_seq; /* the latest sequence number when it was seen */
    int context, source, tag;
};

/* The outcome of a collective call of ftkit. */
struct ftk_logged_call {
    uint64_t next_event;
    int64_t code;
};

struct ftk_table { /* open addressing over (context, rank, tag) */
    int *slot;     /* [cap] index + 1, 0: empty */
    size_t cap, n;
};

/* ---- the state of the process -------------------------------------------------------- */

struct ftk_log {
    struct ftkit_ctx *ctx;
    ftk_log_repair_fn *repair; /* repairs a failure in a call of the program */
    const struct ftk_req_hooks *requests;
    const struct ftk_coll_hooks *colls;
    bool on;                  /* the log handles the program's calls */
    bool rolling_back;        /* calls fail until the line is restored */
    bool replaying_setup;     /* a replacement before ftkit_recover(): receives are served from the
                               set-up log of the lost process, sends go nowhere */
    bool unread;              /* the set-up log could not be read: the line is not in memory */
    bool of_earlier_job;      /* the line was written by an earlier job, and has no set-up log */
    int me, n;                /* rank, ranks */
    int *team;                /* [n] */
    int *node;                /* [n] failure domain of each rank's process */
    int *home;                /* [n] the same at the opening: the nodes that a program sees */
    bool no_line_yet;         /* before the first line every rank is a team of its own */
    bool replaying;           /* this rank has rolled back since the line, and others have not */
    uint64_t lines;           /* committed so far */
    uint64_t epoch_id_now;    /* of the epoch that a repair under way is to replace */
    bool relays;              /* determinants are sent to other nodes (relay.h) */
    bool send_deps;           /* log.determinants = relaxed: dependency vectors are sent instead of
                               determinants (depend.h) */
    bool all_rolled_back;     /* at the start of this epoch all ranks rolled back to the line */
    bool all_rolled_back_now; /* the same of the epoch that a repair under way is to replace */
    int ncontexts;
    MPI_Comm real[FTK_LOG_COMMS]; /* MPI_COMM_NULL: not used */
    MPI_Comm next[FTK_LOG_COMMS]; /* of the repair under way */
    struct ftk_contexts used;     /* by live virtual communicators */
    struct ftk_contexts line_used;

    struct ftk_vcomm *comms;
    struct ftk_vcomm *world, *user; /* MPI_COMM_WORLD, ftkit_comm() */
    MPI_Group group;                /* stands for the ranks in all groups of the program */

    struct ftk_req *first, *last; /* requests under way, by seq */
    uint64_t seq;                 /* the latest sequence number */
    size_t nactive;               /* requests in the hands of the program */
    size_t nwildcards;            /* wildcard receives under way */
    size_t nmprobed;              /* receives under way that are matched by MPI_Improbe */

    /* totals per rank of the world since the last repair */
    uint64_t *sent;      /* [n] handed to the MPI */
    uint64_t *received;  /* [n] completed or drained here */
    uint64_t *announced; /* [n] what the others say they have sent */
    /* the same for messages to replicas and for their answers (relay.h), which go on at a line */
    uint64_t *relay_sent, *relay_received, *relay_announced; /* [n] */

    struct ftk_entry **log_first, **log_last; /* [n] entries to each rank, since the line */
    size_t log_bytes; /* bytes of all entries, with their dependency vectors */
    uint64_t spilled; /* bytes of files that the log has taken */
    struct ftk_unexp *unexp_first, *unexp_last;
    size_t nunexp;

    struct ftk_channel *channels;
    struct ftk_table channel_table; /* of n channels */
    struct ftk_suppress *suppress;
    struct ftk_table suppress_table; /* of n entries */
    struct ftk_early *early;
    size_t nearly, early_room;

    /* the set-up log: messages received before ftkit_recover(), in the order of their receives; a
     * replacement is served from it */
    struct ftk_unexp *setup_log_first, *setup_log_last;

    /* the collective calls of ftkit itself since the line, for ranks that make them again */
    uint64_t line_calls, line_next_event; /* of ctx, at the line */
    struct ftk_logged_call *outs;         /* [nouts] */
    size_t nouts;
    size_t call_seq; /* of these this rank has made */

    /* messages and bytes of the program to each rank since the first line; rolled back with the
     * rank */
    uint64_t *stat_messages, *stat_bytes; /* [n] */
    uint64_t differs;     /* suppressed messages that differed from the first execution's */
    uint64_t relay_bytes; /* of determinants sent to other nodes */
    uint64_t logged_messages, logged_bytes, resent, suppressed, drained;
};

extern struct ftk_log ftk_log;

static inline MPI_Comm ftk_log_real(int context)
{
    return ftk_log.real[ftk_context_comm(context)];
}

/* Whether this rank sends messages again that receivers may have. */
static inline bool ftk_log_replays(void)
{
    return ftk_log.suppress_table.n > 0;
}

/* Whether messages to and from a rank are between teams. */
static inline bool ftk_log_crosses(int rank)
{
    return ftk_log.no_line_yet ? rank != ftk_log.me
                               : ftk_log.team[rank] != ftk_log.team[ftk_log.me];
}

/* ---- request/: messages -----------------------------------------------------------------
 * Fill vc, context, sbuf or rbuf, count, type, peer (of the world), tag, sync, internal and
 * kind of a request that is otherwise zero; then begin it.  A request to or from MPI_PROC_NULL is
 * complete at once.  Return MPI codes; while this rank rolls back: an error, and the request is
 * done. */
int ftk_req_begin(struct ftk_req *r);
/* One look: r->done when the request is complete.  MPI codes. */
int ftk_req_progress(struct ftk_req *r);
/* Wait until the request is complete; failures are repaired meanwhile.  The error of the
 * request. */
int ftk_req_wait(struct ftk_req *r);
/* Call this when a look has found nothing complete: the function looks for failures now and then,
 * and repairs them.  MPI_SUCCESS, or the error with which calls fail while this rank rolls back. */
int ftk_log_progress(unsigned *turns);
/* The error with which calls fail while this rank rolls back. */
int ftk_log_error(void);
/* Requests of the program. */
struct ftk_req *ftk_req_new(void); /* NULL: no memory */
void ftk_req_delete(struct ftk_req *r);
void ftk_req_abandon(struct ftk_req *r);   /* deletes it when it is complete */
struct ftk_req *ftk_req_of(MPI_Request h); /* NULL: a handle of the MPI */
/* The number of a request, from 0; the request of a number, NULL: none. */
int ftk_req_number(const struct ftk_req *r);
struct ftk_req *ftk_req_numbered(int number);
static inline MPI_Request ftk_req_handle(struct ftk_req *r)
{
    return (MPI_Request)(void *)r;
}

/* ---- coll/: collectives as schedules of messages ------------------------------------- */

/* Continue a collective: r->done when it is complete.  MPI codes. */
int ftk_coll_progress(struct ftk_req *r);
/* Free a collective of a rank that rolls back: its receives have been cancelled and its sends are
 * complete. */
void ftk_coll_drop(struct ftk_req *r);

/* ---- vcomm/: virtual communicators --------------------------------------------------- */

struct ftk_vcomm *ftk_vcomm_find(MPI_Comm comm); /* NULL: a communicator of the MPI */
/* Give the world and ftkit_comm() their virtual communicators. */
int ftk_vcomm_open(void);
/* forget(): deletes other references to the communicators that are freed; or NULL. */
void ftk_vcomm_close(void (*forget)(void));
/* A line is committed: delete the communicators that the program has freed; a rollback restores the
 * others. */
void ftk_vcomm_line(void);
/* Roll back to the line; forget() as above, not NULL. */
void ftk_vcomm_back(void (*forget)(void));
/* An MPI error of a call on comm goes to the error handler the program has given it. */
int ftk_vcomm_error(const struct ftk_vcomm *vc, int code);
/* Whether an error on it ends the job: MPI_ERRORS_ARE_FATAL. */
bool ftk_vcomm_is_fatal(const struct ftk_vcomm *vc);

/* ---- payload/: the sender-based log, unexpected messages, channels ------------------- */

struct ftk_entry *ftk_slog_new(int dest, int context, int tag, size_t bytes);
uint64_t *ftk_slog_words(size_t n); /* live as long as the entries; NULL: no memory */
void ftk_slog_drop_last(int dest);  /* the last entry to dest, which could not be sent */
void ftk_slog_clear(void);          /* a line is committed, or this rank rolls back to it */
int64_t ftk_slog_calls_left(const struct ftkit_ctx *ctx, bool emptied); /* log_ops.h: calls_left */
void ftk_unexp_add(struct ftk_unexp *h);
struct ftk_unexp *ftk_unexp_new(int context, int source, int tag, size_t bytes);
/* The first message that matches; taken out of the list if take is true. */
struct ftk_unexp *ftk_unexp_match(const struct ftk_envelope *want, bool take);
void ftk_unexp_take(struct ftk_unexp *h); /* out of the list */
void ftk_unexp_free(struct ftk_unexp *h);
void ftk_unexp_clear(void);
void ftk_setup_log_add(struct ftk_unexp *h);
void ftk_setup_log_clear(void);
/* Messages that the program has matched (MPI_Mprobe) and not received yet; the list owns them. */
#define FTK_HANDLES_FROM (1 << 30) /* handles in Fortran: those of the MPI are smaller numbers */
void ftk_matched_add(struct ftk_unexp *h);
struct ftk_unexp *ftk_matched_take(MPI_Message message); /* NULL: none of ours */
int ftk_matched_number(MPI_Message message);             /* -1: none of ours */
struct ftk_unexp *ftk_matched_numbered(int number);      /* NULL: none has it */
bool ftk_matched_any(void);
void ftk_matched_clear(void);
struct ftk_channel *ftk_channel_find(int context, int source, int tag); /* NULL: no memory */
/* Count a delivery; the hash is compared when the message is sent again. */
int ftk_channel_count(struct ftk_channel *s, uint64_t seq, uint64_t hash);
size_t ftk_channel_bytes(void); /* memory of all channels */
void ftk_channel_clear(void);
void ftk_channel_line(void);  /* the line is here, if its set is committed */
void ftk_channel_shift(void); /* it is committed: receptions before the line count no more */
struct ftk_suppress *ftk_suppress_find(int context, int dest, int tag);
int ftk_suppress_add(const struct ftk_suppress *m); /* takes hole and hash */
void ftk_suppress_clear(void);
void ftk_suppress_drop(const bool *back); /* entries towards ranks that roll back themselves */

#endif
