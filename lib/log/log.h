/* The message log: what every part of it knows (docs/design.md, section 8).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The program's communicators are virtual: an ordered list of ranks and a context.  A
 * context is a duplicate of the communicator of all working ranks, made anew by every
 * repair; who talks to whom on a virtual communicator is translated to ranks of it.  So
 * nothing has to be constructed when a program splits a communicator, and a repair has the
 * contexts to make and nothing else.  When these are taken, communicators share one
 * duplicate, and the upper bits of the tag tell their messages apart.
 *
 * Everything a program sends is in the end a message from rank to rank: collectives are
 * schedules of such messages (coll/), the making of a communicator is a collective
 * (mpi/construct.c).  Only messages between teams are kept.
 *
 * One repairing context per process can log.  All of this runs in the thread that calls
 * MPI, one at a time (MPI_THREAD_SERIALIZED at most). */
#ifndef FTK_LOG_H
#define FTK_LOG_H

#include "core/log_ops.h"

#define FTK_LOG_CONTEXTS 64 /* plain ones, at most; log.contexts of them are made */
/* Communicators behind them: one for each, that of collectives, that of determinants, and
 * one for all contexts from FTK_LOG_EXTRA on. */
enum { FTK_LOG_COLLS = FTK_LOG_CONTEXTS, FTK_LOG_NEWS, FTK_LOG_SHARED, FTK_LOG_COMMS };
#define FTK_LOG_EXTRA 128   /* the first one that shares its communicator, ... */
#define FTK_LOG_EXTRAS 2047 /* ... how many there are, ... */
#define FTK_LOG_ALL (FTK_LOG_EXTRA + FTK_LOG_EXTRAS)
#define FTK_TAG_BITS 20     /* ... and the bits of a tag that are left to the program */
#define FTK_TAG_MAX ((1 << FTK_TAG_BITS) - 1) /* MPI_TAG_UB of the program */
#define FTK_COLL_INIT (UINT64_C(1) << 40)
#define FTK_COLL_SLOTS 64   /* collectives of a communicator that can send at once */

/* ---- contexts --------------------------------------------------------------------------*/

static inline bool ftk_context_shares(int context)
{
    return context >= FTK_LOG_EXTRA;
}
/* The communicator behind a context, as an index of ftk_log.real. */
static inline int ftk_context_channel(int context)
{
    return ftk_context_shares(context) ? FTK_LOG_SHARED : context;
}
/* The tag with which a message travels there, and what it says of a message that came. */
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
/* Whether a communicator can have it. */
static inline bool ftk_context_is_one(uint64_t context)
{
    return context < FTK_LOG_CONTEXTS || (context >= FTK_LOG_EXTRA && context < FTK_LOG_ALL);
}

/* A set of them. */
struct ftk_contexts {
    uint64_t word[FTK_LOG_ALL / 64 + 1]; /* word[0]: the plain ones */
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

/* ---- virtual communicators -------------------------------------------------------------*/

enum ftk_topology { FTK_TOPO_NONE, FTK_TOPO_CART, FTK_TOPO_GRAPH, FTK_TOPO_DIST };

struct ftk_topo {
    int kind;               /* enum ftk_topology */
    int ndims;              /* CART */
    int *dims, *periods;    /* [ndims] */
    int nnodes, nedges;     /* GRAPH */
    int *index, *edges;     /* [nnodes], [nedges] */
    /* DIST, and the neighbours of this rank of the others, in the order of neighbourhood
     * collectives; MPI_PROC_NULL where there is none */
    int nin, nout;
    int *in, *out;          /* [nin], [nout] ranks of the communicator */
    int *inw, *outw;        /* weights, NULL: unweighted */
};

/* The other group of an intercommunicator: what its calls of communication address. */
struct ftk_remote {
    int size;
    int *member;            /* [size] world ranks */
    int *index;             /* [world size] rank in it, -1: none */
    bool first;             /* in what both groups do together its members come first */
};

struct ftk_vcomm {
    MPI_Comm handle;        /* what the program holds: a duplicate of MPI_COMM_SELF, which
                               has the attributes, the name and the error handler */
    int context;            /* in which this process receives messages of the program */
    int *there;             /* [world size] that of each member of both groups, by its rank in
                               the world; NULL: the same for all */
    int size, rank;         /* rank of this process in it */
    int *member;            /* [size] world ranks, NULL: all of them in order */
    int *index;             /* [world size] rank in it, -1: none; NULL with member */
    struct ftk_remote *remote; /* of an intercommunicator, of which size, rank, member and
                               index are the local group; NULL: an intracommunicator */
    uint64_t colls;         /* collectives begun; times FTK_COLL_INIT: persistent ones made */
    uint64_t line_colls;    /* ... at the line */
    uint64_t born;          /* lines committed when it was made */
    bool freed;             /* by the program; kept until the next line */
    bool holds;             /* ... and its context, while the program has requests on it */
    struct ftk_coll *slot[FTK_COLL_SLOTS]; /* the last collective under way of each number */
    struct ftk_topo topo;
    struct ftk_vcomm *next; /* list of all */
};

/* Rank of the world of rank r of vc, which may be MPI_PROC_NULL or MPI_ANY_SOURCE. */
static inline int ftk_vcomm_world(const struct ftk_vcomm *vc, int r)
{
    return r < 0 || !vc->member ? r : vc->member[r];
}
/* Rank in vc of a rank of the world, -1: none. */
static inline int ftk_vcomm_rank(const struct ftk_vcomm *vc, int world)
{
    return world < 0 || !vc->index ? world : vc->index[world];
}

/* The same of the ranks that a message on vc goes to or comes from: those of the remote group,
 * if there is one. */
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

/* The context in which a rank of the world receives on vc, for who sends there. */
static inline int ftk_vcomm_there(const struct ftk_vcomm *vc, int world)
{
    return __builtin_expect(vc->there != NULL, 0) && world >= 0 ? vc->there[world]
                                                                : vc->context;
}

/* ---- requests --------------------------------------------------------------------------
 * What the program holds as an MPI_Request in log mode. */

enum ftk_req_kind { FTK_REQ_NONE, FTK_REQ_SEND, FTK_REQ_RECV, FTK_REQ_COLL, FTK_REQ_DONE };

struct ftk_coll; /* coll/: a schedule under way */

struct ftk_req {
    int kind;               /* enum ftk_req_kind */
    bool done;              /* complete: status and error hold */
    bool internal;          /* belongs to a collective, not to the program */
    bool persistent, active;
    bool sync;              /* a synchronous send */
    bool buffered;          /* a persistent one that is complete once it is started */
    bool cancelled;
    bool orphan;            /* MPI_Request_free while under way */
    bool posted;            /* real is a request of the MPI */
    struct ftk_vcomm *vc;
    int context;            /* in which it travels: that of who receives */
    const void *sbuf;       /* what a send reads */
    void *rbuf;             /* what a receive fills */
    int count;
    MPI_Datatype type;
    int peer;               /* rank of the world, MPI_ANY_SOURCE */
    int tag;
    int from, with;         /* what a receive is posted for: peer and tag, or what they were
                               found to be before a failure */
    uint32_t wild;          /* number of a receive from any source, 0: it is none, or ... */
    bool planned;           /* ... what it gets is known from before a failure */
    uint32_t number;        /* of a receive of the program, 0: none */
    bool vain, kept;        /* it was cancelled before a failure, or it could not be */
    bool probed;            /* a receive that is not posted: it takes what a probe finds */
    uint64_t waits;         /* a send that is held back until this round of news is kept
                               (news.h); 0: it is not */
    MPI_Request real;
    MPI_Status status;      /* MPI_SOURCE is a rank of vc */
    int error;              /* MPI code it has completed with */
    uint64_t stamp;         /* order of posting */
    uint64_t when;          /* the last stamp when the MPI was given a receive for what it is for */
    bool down;              /* a receive that the MPI has given back, matched or not */
    bool stale;             /* of the program that fell back: who has replaced another has none */
    uint64_t born;          /* line after which the program made it */
    struct ftk_req *next, *prev; /* among those under way, in the order of stamps */
    struct ftk_entry *entry; /* a send whose bytes are in the log */
    struct ftk_coll *coll;  /* COLL: it; internal: that of which it is a message */
    const struct ftk_req_ops *ops; /* NULL: it is delivered as all others are */
    int (*then)(struct ftk_req *r); /* called once, when it becomes done; may be NULL */
    void *arg;              /* of then */
    char *own;              /* memory that is freed with it ... */
    size_t owned;           /* ... and what a send goes out from, so many bytes; 0: from sbuf */
    struct ftk_req *pair;   /* the send of a combined send and receive ... */
    bool half;              /* ... whose receive is through */
};

/* A receive of the log itself: what becomes of it. */
struct ftk_req_ops {
    int (*complete)(struct ftk_req *r, const MPI_Status *s, int error); /* MPI code */
    void (*drop)(struct ftk_req *r); /* it comes to nothing, or is complete */
};

struct ftk_held;

/* What modules below requests ask of them; and waits, of collectives.  The log sets these tables
 * when it opens. */
struct ftk_req_hooks {
    int (*fail)(struct ftk_req *r, int error);            /* ftk_p2p_fail() */
    void (*release)(struct ftk_req *r);                   /* ftk_p2p_release() */
    int (*deliver)(struct ftk_req *r, struct ftk_held *h); /* ftk_p2p_deliver() */
    int (*draw)(int context, MPI_Message *m, const MPI_Status *s,
        struct ftk_held **out);                           /* ftk_p2p_draw() */
    bool (*uses_comm)(const struct ftk_vcomm *vc);        /* ftk_p2p_has() */
    void (*part)(const struct ftk_vcomm *vc);             /* ftk_p2p_part() */
};
struct ftk_coll_hooks {
    void (*turn)(void);                                   /* ftk_coll_turn() */
    int (*progress)(struct ftk_req *r);                   /* ftk_coll_progress() */
};

/* ---- messages that are kept --------------------------------------------------------------*/

/* A sent message in the log; its bytes follow. */
struct ftk_entry {
    struct ftk_entry *next; /* to the same rank, in order */
    MPI_Request real;       /* under way in the MPI, or MPI_REQUEST_NULL */
    uint64_t hash;
    size_t bytes;
    int context, tag;
    bool sync;
    bool waits;             /* not sent yet: its request is held back */
    uint64_t *letter;       /* [letter_words] what is sent before it (gate.h), or NULL */
    size_t letter_words;
};
static inline char *ftk_entry_data(struct ftk_entry *e)
{
    return (char *)(e + 1);
}

/* A message that has arrived here and that the program has not received yet. */
struct ftk_held {
    struct ftk_held *next;  /* in the order of arrival */
    int context, source, tag; /* source: rank of the world */
    size_t bytes;
    char *data;             /* [bytes], belongs to it */
    uint64_t stamp;         /* in the journal: when it was asked for */
    struct ftk_letter *letter; /* what came before it (gate.h), belongs to it; or NULL */
    bool waited;            /* in front of its gate */
    int number;             /* of a matched message, for Fortran */
    int rank;               /* ... its source in its communicator */
};

/* What has been delivered since the line on a stream from another team.  Receives get the
 * messages of a stream in the order of posting, but may be seen to be through in another. */
struct ftk_got {
    uint64_t stamp;         /* of the receive */
    uint64_t hash;          /* 0: not known */
};
struct ftk_stream_in {
    int context, source, tag;
    uint64_t count;
    uint64_t at_line;       /* of them when the set that is being written drew its line */
    struct ftk_got *got;    /* [count] in the order of stamps, [room] are allocated */
    size_t room;
};

/* What need not be sent again on a stream: the receiver has it. */
struct ftk_mark {
    int context, dest, tag;
    uint64_t next;          /* number of the next message, from 1 */
    uint64_t upto;          /* the receiver has them up to here ... */
    uint64_t *hole;         /* [nholes] ... but for these, rising */
    int nholes;
    uint64_t *hash;         /* [upto], NULL: not known */
};

/* A completion out of the order of posting: see settle.c. */
struct ftk_early {
    uint64_t stamp;
    uint64_t when;          /* it was seen */
    int context, source, tag;
};

/* What a collective call of ftkit came to. */
struct ftk_logged_call {
    uint64_t next_event;
    int64_t code;
};

struct ftk_table {          /* open addressing over (context, rank, tag) */
    int *slot;              /* [cap] index + 1, 0: empty */
    size_t cap, n;
};

/* ---- the state of the process --------------------------------------------------------------*/

struct ftk_log {
    struct ftkit_ctx *ctx;
    ftk_log_repair_fn *repair; /* what a failure in a call of the program leads to */
    const struct ftk_req_hooks *requests;
    const struct ftk_coll_hooks *colls;
    bool on;                /* the program's calls come here */
    bool falling;           /* calls fail until the line is restored */
    bool reborn;            /* carries on for a lost process: before ftkit_recover() what it
                               receives comes from held, what it sends goes nowhere */
    bool unread;            /* what that is could not be read: the line is not in memory */
    bool inherited;         /* the line is of an earlier job: what set-up has received is not in it */
    int me, n;              /* rank, ranks */
    int *team;              /* [n] */
    int *node;              /* [n] failure domain of each rank's process */
    int *home;              /* [n] ... at the opening: what a program sees as nodes */
    bool alone;             /* before the first line every rank is a team of its own */
    bool again;             /* this rank has gone back since the line, and others have not */
    uint64_t lines;         /* committed so far */
    uint64_t stamp_now;     /* of the epoch that a repair under way is to replace */
    bool tells;             /* determinants are told to other nodes (news.h) */
    bool gates;             /* there are none, but gates in a replay (gate.h) */
    bool dropped;           /* with this epoch everybody went back to the line ... */
    bool dropped_now;       /* ... with the one that a repair under way is to replace */
    int ncontexts;
    MPI_Comm real[FTK_LOG_COMMS]; /* MPI_COMM_NULL: not used */
    MPI_Comm next[FTK_LOG_COMMS]; /* of the repair under way */
    struct ftk_contexts used; /* of live virtual communicators */
    struct ftk_contexts line_used;

    struct ftk_vcomm *comms;
    struct ftk_vcomm *world, *user; /* MPI_COMM_WORLD, ftkit_comm() */
    MPI_Group group;        /* stands for the ranks in all groups of the program */

    struct ftk_req *first, *last; /* under way, by stamp */
    uint64_t stamp;
    size_t nactive;         /* requests in the hands of the program */
    size_t nwild;           /* receives from any source under way */
    size_t nprobed;         /* receives that are not posted but probed for */

    /* totals per rank of the world since the last repair */
    uint64_t *sent;         /* [n] handed to the MPI */
    uint64_t *received;     /* [n] completed or drawn here */
    uint64_t *told;         /* [n] what the others say they have sent */
    /* the same of letters to keepers and of their answers (news.h), which go on at a line */
    uint64_t *news_sent, *news_received, *news_told; /* [n] */

    struct ftk_entry **log_first, **log_last; /* [n] to each rank, since the line */
    size_t log_bytes;       /* payload kept now, and letters */
    uint64_t spilled;       /* bytes of files that were taken for it */
    struct ftk_held *held_first, *held_last;
    size_t nheld;

    struct ftk_stream_in *in;
    struct ftk_table in_table; /* of n streams */
    struct ftk_mark *marks;
    struct ftk_table mark_table; /* of n marks */
    struct ftk_early *early;
    size_t nearly, early_room;

    /* received before ftkit_recover(), in the order in which it was asked for: what a
     * replacement is served from */
    struct ftk_held *journal_first, *journal_last;

    /* the collective calls of ftkit itself since the line, for who makes them again */
    uint64_t line_calls, line_next_event; /* of ctx, at the line */
    struct ftk_logged_call *outs; /* [nouts] */
    size_t nouts;
    size_t seq;             /* of these this rank has made */

    /* what the program has sent to whom since the first line; goes back with the rank */
    uint64_t *stat_messages, *stat_bytes; /* [n] */
    uint64_t differs;       /* suppressed messages that were not the same */
    uint64_t news_bytes;    /* of determinants told to other nodes */
    uint64_t logged_messages, logged_bytes, resent, suppressed, drained;
};

extern struct ftk_log ftk_log;

static inline MPI_Comm ftk_log_real(int context)
{
    return ftk_log.real[ftk_context_channel(context)];
}

/* Whether this rank sends again what others may have. */
static inline bool ftk_log_replays(void)
{
    return ftk_log.mark_table.n > 0;
}

/* Does what goes to (or comes from) a rank cross a border between teams? */
static inline bool ftk_log_crosses(int rank)
{
    return ftk_log.alone ? rank != ftk_log.me
                         : ftk_log.team[rank] != ftk_log.team[ftk_log.me];
}

/* ---- request/: messages ------------------------------------------------------------------------
 * Fill vc, context, sbuf or rbuf, count, type, peer (of the world), tag, sync, internal and
 * kind of a request that is otherwise zero; then begin it.  MPI_PROC_NULL is complete at
 * once.  Return MPI codes; while this rank falls back: an error, and the request is done. */
int ftk_req_begin(struct ftk_req *r);
/* Whether it is complete after one look, or why it never will be. */
int ftk_req_progress(struct ftk_req *r);
/* Until it is complete; repairs failures on the way.  The error of the request. */
int ftk_req_wait(struct ftk_req *r);
/* A turn in which nothing was complete: sees to failures now and then.  MPI_SUCCESS, or the
 * error with which calls fail while this rank falls back. */
int ftk_log_turn(unsigned *turns);
/* The error with which calls fail while this rank falls back. */
int ftk_log_error(void);
/* Requests of the program. */
struct ftk_req *ftk_req_new(void);          /* NULL: no memory */
void ftk_req_delete(struct ftk_req *r);
void ftk_req_abandon(struct ftk_req *r);    /* deleted when it is complete */
struct ftk_req *ftk_req_of(MPI_Request h);  /* NULL: not one of ours */
/* The number of its place, from 0, and back; NULL: none has it. */
int ftk_req_number(const struct ftk_req *r);
struct ftk_req *ftk_req_numbered(int number);
static inline MPI_Request ftk_req_handle(struct ftk_req *r)
{
    return (MPI_Request)(void *)r;
}

/* ---- coll/: collectives as schedules of messages -------------------------------------------*/

/* Continue a collective: r->done when it is complete.  MPI codes. */
int ftk_coll_progress(struct ftk_req *r);
/* Free what is left of a collective whose rank falls back: its receives have been
 * cancelled and its sends are complete. */
void ftk_coll_drop(struct ftk_req *r);

/* ---- vcomm/: virtual communicators -----------------------------------------------------------*/

struct ftk_vcomm *ftk_vcomm_find(MPI_Comm comm); /* NULL: none of ours */
/* Give the world and ftkit_comm() their virtual communicators. */
int ftk_vcomm_open(void);
/* forget(): what else refers to the communicators that go, or NULL. */
void ftk_vcomm_close(void (*forget)(void));
/* The line is committed: those that were freed go, the rest is what a rank falls back to. */
void ftk_vcomm_line(void);
/* Fall back to it; forget() as above, not NULL. */
void ftk_vcomm_back(void (*forget)(void));
/* An MPI error of a call on comm goes to the error handler the program has given it. */
int ftk_vcomm_error(const struct ftk_vcomm *vc, int code);
/* Whether an error on it ends the job: MPI_ERRORS_ARE_FATAL. */
bool ftk_vcomm_is_fatal(const struct ftk_vcomm *vc);

/* ---- payload/: what is kept ----------------------------------------------------------------------*/

struct ftk_entry *ftk_keep_new(int dest, int context, int tag, size_t bytes);
uint64_t *ftk_keep_words(size_t n);      /* as long as the messages; NULL: no memory */
void ftk_keep_drop_last(int dest);       /* it could not be sent: it is no message */
void ftk_keep_clear(void);               /* the log: a line is committed, or gone back to */
int64_t ftk_keep_calls_left(const struct ftkit_ctx *ctx, bool emptied); /* log_ops.h: calls_left */
void ftk_held_add(struct ftk_held *h);
struct ftk_held *ftk_held_new(int context, int source, int tag, size_t bytes);
/* The first that matches; taken out of the list when take. */
struct ftk_held *ftk_held_match(int context, int source, int tag, bool take);
void ftk_held_take(struct ftk_held *h); /* out of the list */
void ftk_held_free(struct ftk_held *h);
void ftk_held_clear(void);
void ftk_journal_add(struct ftk_held *h);
void ftk_journal_clear(void);
/* Messages that the program has matched (MPI_Mprobe) and not received yet; they are the list's. */
#define FTK_HANDLES_FROM (1 << 30) /* handles in Fortran: those of the MPI are smaller numbers */
void ftk_matched_add(struct ftk_held *h);
struct ftk_held *ftk_matched_take(MPI_Message message); /* NULL: none of ours */
int ftk_matched_number(MPI_Message message);            /* -1: none of ours */
struct ftk_held *ftk_matched_numbered(int number);      /* NULL: none has it */
bool ftk_matched_any(void);
void ftk_matched_clear(void);
struct ftk_stream_in *ftk_stream_in(int context, int source, int tag); /* NULL: no memory */
/* One more was delivered; the hash is kept for who sends it again. */
int ftk_stream_in_count(struct ftk_stream_in *s, uint64_t stamp, uint64_t hash);
size_t ftk_stream_in_bytes(void); /* memory for all of them */
void ftk_stream_in_clear(void);
void ftk_stream_in_line(void);   /* here is the line, if it is committed */
void ftk_stream_in_shift(void);  /* it was: what comes before it is not counted any more */
struct ftk_mark *ftk_mark_find(int context, int dest, int tag);
int ftk_mark_add(const struct ftk_mark *m); /* takes hole and hash */
void ftk_mark_clear(void);
void ftk_mark_drop(const bool *back); /* those towards ranks that fall back themselves */

#endif
