/* Windows of MPI with the message log (docs/design/windows.md): types and state that the files of
 * this folder share.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A window has a virtual communicator of its own.  The handle that the program has is a window of
 * the MPI of this process alone: it has the memory, the attributes, the name, the hints and the
 * error handler.
 *
 * An operation goes into the queue for its target.  The call that ends the epoch sends each queue
 * as a message, and the target applies the queues in the order of ranks (fence.c, pscw.c).  With
 * locks the queues are control messages, and a target applies them as they come (serve.c, lock.c).
 *
 * Functions that return int return MPI codes. */
#ifndef FTK_LOG_WIN_H
#define FTK_LOG_WIN_H

#include "log/base/dtype.h"
#include "log/base/queue.h"
#include "log/base/runtime.h"
#include "log/base/saved.h"
#include "log/log.h"

/* ---- queues --------------------------------------------------------------------------- */

/* Where the result of an operation goes. */
struct ftk_win_fetch {
    void *buf;
    int count;
    MPI_Datatype type; /* a duplicate, unless it is predefined */
    size_t bytes;
    bool has_status; /* of a dynamic window: a word before the result says whether the memory ... */
    uint64_t at;     /* ... at this address of the target is attached */
    struct ftk_req *request; /* of the operation, which has its error; NULL: none */
};

/* The operations for one target, as the bytes of a message.  Before them is room for the words of
 * the message that carries them. */
enum { FTK_WIN_HEAD_WORDS = 4, FTK_WIN_HEAD = FTK_WIN_HEAD_WORDS * 8 };
struct ftk_win_queue {
    char *data;         /* FTK_WIN_HEAD bytes, then the operations; NULL: there are none */
    size_t bytes, room; /* of the operations */
    size_t nops;
    struct ftk_win_fetch *fetch; /* [nfetch] in the order of the operations */
    size_t nfetch, fetch_room;
    size_t reply; /* bytes of all results */
};

enum ftk_win_op {
    FTK_WIN_PUT,
    FTK_WIN_GET,
    FTK_WIN_ACCUMULATE,
    FTK_WIN_GET_ACCUMULATE,
    FTK_WIN_SWAP /* MPI_Compare_and_swap: the data are the value and the one to compare with */
};

/* An operation, as the calls describe it. */
struct ftk_win_operation {
    enum ftk_win_op kind;
    const void *origin;
    const void *compare; /* SWAP */
    int origin_count;
    MPI_Datatype origin_type;
    void *result; /* GET, GET_ACCUMULATE, SWAP */
    int result_count;
    MPI_Datatype result_type;
    int target;
    MPI_Aint disp;
    int count;
    MPI_Datatype type;
    MPI_Op op; /* ACCUMULATE, GET_ACCUMULATE */
};

/* ---- a window -------------------------------------------------------------------------- */

/* Of each rank. */
struct ftk_win_place {
    int64_t size, unit, kind; /* the call that has made the window */
};

/* Memory that is attached to a dynamic window (dynamic.c). */
enum { FTK_WIN_NAMES = 4 };
struct ftk_win_range {
    /* Addresses that other ranks may know, 0: none.  The first one: where it was attached first;
     * the others: where later starts of the job have attached it in set-up. */
    uint64_t name[FTK_WIN_NAMES];
    char *base; /* its address in this process */
    size_t bytes;
};

struct ftk_win_exposure; /* pscw.c */
struct ftk_win_passive;  /* passive.h */
struct ftk_win_shared;   /* share.c */
struct ftk_win_near;     /* near.c */

struct ftk_win {
    MPI_Win handle; /* of this process alone */
    uint64_t id;    /* no other window of this context has it */
    struct ftk_vcomm *vc;
    MPI_Comm comm; /* the handle of vc, which the program does not know */
    char *base;
    bool allocated;                    /* the memory is of the window, and a set has it */
    struct ftk_win_place *place;       /* [size of vc] */
    struct ftk_win_queue *queue;       /* [size of vc] of the access epoch */
    bool fence;                        /* a fence has begun an epoch ... */
    bool used;                         /* ... that has operations */
    int nstart;                        /* MPI_Win_start: number of targets; -1: no such epoch */
    int *start;                        /* [nstart] ranks in rising order */
    struct ftk_win_exposure *exposure; /* MPI_Win_post; NULL: none */
    struct ftk_win_passive *passive;   /* NULL: no lock was ever taken here */
    struct ftk_win_shared *shared;     /* of MPI_Win_allocate_shared; NULL: not */
    struct ftk_win_near *near;         /* memory that others of the node map; NULL: none */
    bool dynamic;                      /* of MPI_Win_create_dynamic: base is NULL */
    struct ftk_win_range *range;       /* [nrange] */
    size_t nrange, range_room;
    unsigned turns; /* looks of calls that do not wait */
    struct ftk_win *next;
};

extern struct ftk_win *ftk_wins; /* those that the program has, and those that may come back */

/* The live window whose messages this process receives in a context; NULL: none. */
struct ftk_win *ftk_win_in_context(int context);
/* While a rank rolls back, a construction gives MPI_WIN_NULL, and the program may use this handle:
 * the call fails then. */
static inline bool ftk_win_is_gone(MPI_Win win)
{
    return win == MPI_WIN_NULL && ftk_log_is_rolling_back();
}
/* The result of a call on w.  While this rank rolls back no error handler is called. */
int ftk_win_error(const struct ftk_win *w, int code);
static inline int ftk_win_end(const struct ftk_win *w, int rc)
{
    return rc == MPI_SUCCESS ? rc : ftk_win_error(w, rc);
}
/* A target cannot do its part in an epoch, nor answer its origin: the job ends. */
void ftk_win_broken(const struct ftk_win *w, int code);
/* How a window is made. */
struct ftk_win_making {
    enum ftk_win_how {
        FTK_WIN_CREATED,
        FTK_WIN_ALLOCATED,
        FTK_WIN_DYNAMIC,
        FTK_WIN_ALLOCATED_SHARED
    } how;
    void *base; /* CREATED */
    MPI_Aint size;
    int unit;
    MPI_Info info;
};
/* Whether base may be memory of a window (memory.c); the call is for the error, which is
 * reported. */
bool ftk_win_check_memory(const char *call, const void *base);
/* Make the parts of a window of n ranks that are of this process (win_calls.c). */
int ftk_win_make_own(struct ftk_win *w, int n, const struct ftk_win_making *a);
/* A window of this process without epochs; NULL: no memory. */
struct ftk_win *ftk_win_new(void);
/* Into the list, and out again. */
void ftk_win_publish(struct ftk_win *w);
void ftk_win_unpublish(struct ftk_win *w);
/* Free the memory of the log for w, which is in no list.  with_handle: and the handle. */
int ftk_win_delete(struct ftk_win *w, bool with_handle);
/* The program frees w, which has no epoch. */
int ftk_win_give_up(struct ftk_win *w);
/* The state of w after its communicator has changed: delete windows that do not come back. */
void ftk_win_sweep(void);
/* The log closes: forget all windows.  Handles and memory are the program's. */
void ftk_win_close(void);
/* A restore takes w away.  freed: the program has freed the window since the line; else the handle
 * is left to the program. */
void ftk_win_drop(struct ftk_win *w, bool freed);
/* A handle that no window of the log has any more: it is the program's. */
void ftk_win_detach(MPI_Win handle);
/* Whether it is one of these.  True once. */
bool ftk_win_is_detached(MPI_Win handle);
/* Drop the epochs of w and its queues. */
void ftk_win_forget(struct ftk_win *w);

static inline bool ftk_win_is_live(const struct ftk_win *w)
{
    return w->vc->state == FTK_VCOMM_LIVE;
}

/* The window of a handle; NULL: one of the MPI. */
static inline struct ftk_win *ftk_win_find(MPI_Win win)
{
    for (struct ftk_win *w = ftk_wins; w; w = w->next)
        if (w->handle == win && ftk_win_is_live(w))
            return w;
    return NULL;
}

/* ---- foreign.c ------------------------------------------------------------------------ */

/* A call on a window of the MPI waits for other processes: warn once that this is not repaired. */
void ftk_win_foreign(MPI_Win win);
void ftk_win_foreign_forget(void); /* the log closes */
/* Begins a call that waits for other processes: w is the window.  For a window of the MPI the call
 * is real, that of the MPI. */
#define FTK_WIN_OF(win, real)                                                                      \
    struct ftk_win *w = ftk_win_find(win);                                                         \
    if (!w && ftk_win_is_gone(win))                                                                \
        return ftk_log_error();                                                                    \
    if (!w) {                                                                                      \
        ftk_win_foreign(win);                                                                      \
        return real;                                                                               \
    }

/* ---- queue.c --------------------------------------------------------------------------- */

/* Append an operation.  After an error the queue is as before. */
int ftk_win_queue_add(struct ftk_win *w, const struct ftk_win_operation *o);
/* Give the results of a message to their operations. */
int ftk_win_queue_results(const struct ftk_win_fetch *f, size_t n, const char *reply);
void ftk_win_fetches_free(struct ftk_win_fetch *f, size_t n);
void ftk_win_queue_clear(struct ftk_win_queue *q);

/* ---- types.c --------------------------------------------------------------------------- */

/* The predefined type of which all elements of a type are; MPI_DATATYPE_NULL: there are several. */
int ftk_win_element(MPI_Datatype type, MPI_Datatype *element);
/* Whether a predefined operation combines elements of a predefined type. */
bool ftk_win_combines(MPI_Datatype element, MPI_Op op);

/* ---- apply.c --------------------------------------------------------------------------- */

/* The words of an operation in a message, then words of its type, then its data. */
enum {
    FTK_WIN_OP_KIND,
    FTK_WIN_OP_OP,      /* number of the operation of MPI (ftk_coll_op_number()) */
    FTK_WIN_OP_OFFSET,  /* from the base, in bytes */
    FTK_WIN_OP_COUNT,   /* of items at the target */
    FTK_WIN_OP_TYPE,    /* reference to the type (typemap.h) */
    FTK_WIN_OP_ELEMENT, /* ... to its element */
    FTK_WIN_OP_NTYPES,  /* entries of the list of types */
    FTK_WIN_OP_WORDS,   /* words of this list */
    FTK_WIN_OP_BYTES,   /* of data; padded to words */
    FTK_WIN_OP_REPLY,   /* bytes of the result */
    FTK_WIN_OP_HEAD
};
static inline size_t ftk_win_padded(size_t bytes)
{
    return (bytes + 7) / 8 * 8;
}
/* The bytes of the status of an operation, before its result. */
static inline size_t ftk_win_status_bytes(const struct ftk_win *w)
{
    return w->dynamic ? sizeof(uint64_t) : 0;
}
/* Apply the operations of a message to the memory of w; their results go to reply. */
int ftk_win_apply(struct ftk_win *w, const char *data, size_t bytes, char *reply);
/* An operation at its target. */
struct ftk_win_target {
    enum ftk_win_op kind;
    MPI_Op op;
    const char *data;
    size_t bytes; /* of data */
    char *at;
    int count;
    MPI_Datatype type, element; /* element: of combining operations */
    char *reply;
    size_t reply_bytes;
};
int ftk_win_apply_one(const struct ftk_win_target *t);

/* ---- dynamic.c ------------------------------------------------------------------------- */

/* The memory at an address that an origin has given, of which the bytes [low, end) are used.
 * False: no attached range has them. */
bool ftk_win_attached(
    const struct ftk_win *w, uint64_t address, ptrdiff_t low, ptrdiff_t end, char **at);
/* Why a set cannot have the ranges of w; NULL: it can. */
const char *ftk_win_ranges_unfit(const struct ftk_win *w);
/* The ranges of w as words of a set. */
size_t ftk_win_ranges_words(const struct ftk_win *w);
uint64_t *ftk_win_ranges_save(const struct ftk_win *w, uint64_t *to);
/* The reverse; *from moves behind them.  Nothing is trusted.  w is NULL: skip them.  Codes of
 * ftkit. */
int ftk_win_ranges_load(struct ftk_win *w, const uint64_t **from, const uint64_t *end);

/* ---- memory.c: in a set, memory of the program is these words --------------------------- */

enum { FTK_WIN_MEMORY_WORDS = 2 + (FTKIT_NAME_MAX + 1) / sizeof(uint64_t) };
/* Whether one region of the program has all of the memory. */
bool ftk_win_memory_fits(const char *base, size_t bytes);
void ftk_win_memory_save(const char *base, size_t bytes, uint64_t *to);
/* Whether the memory has no bytes and is in no region. */
bool ftk_win_memory_is_none(const uint64_t *from);
/* Where it is in this process.  Nothing is trusted.  Codes of ftkit. */
int ftk_win_memory_load(const uint64_t *from, char **base, size_t *bytes);

/* ---- recipe.c -------------------------------------------------------------------------- */

/* Whether a registered variable of the program holds w: its recipe is in a set. */
bool ftk_win_is_registered(const struct ftk_win *w);
/* Why a set cannot have the recipe of w; NULL: it can. */
const char *ftk_win_recipe_unfit(const struct ftk_win *w);
/* The recipe of w as words of a set. */
size_t ftk_win_recipe_words(const struct ftk_win *w);
uint64_t *ftk_win_recipe_save(const struct ftk_win *w, uint64_t *to);
/* The reverse, with the communicators of the set; *from moves behind it.  may_make: the window of
 * the context is made if this process does not have it.  Nothing is trusted.  Codes of ftkit. */
int ftk_win_recipe_load(int context, const uint64_t **from, const uint64_t *end, bool may_make);
/* The number of a window in a set, and the reverse (core/log_ops.h). */
int64_t ftk_win_number(MPI_Win win);
int ftk_win_back(int64_t number, MPI_Win *win);

/* ---- hold.c ---------------------------------------------------------------------------- */

/* The handle gets memory, and unmaps it when the program frees the handle; MPI codes. */
int ftk_win_hold(MPI_Win handle, void *at, size_t bytes);

/* ---- near.c ---------------------------------------------------------------------------- */

/* The handle of a window of MPI_Win_create or MPI_Win_allocate with n ranks, and the memory of the
 * second one; MPI codes.  may_map: other ranks may map the memory. */
int ftk_win_near_make(struct ftk_win *w, int n, const struct ftk_win_making *a, bool may_map);
/* The same of MPI_Win_allocate_shared, whose handle and memory share.c makes.  MPI codes. */
int ftk_win_near_make_words(struct ftk_win *w, int n, const struct ftk_win_making *a);
/* The memory stays with the handle.  Before ftk_win_unshare(). */
void ftk_win_near_free(struct ftk_win *w);
/* A rollback begins: other ranks have no memory in this process, so that of a lost one is free. */
void ftk_win_near_let_go(struct ftk_win *w);
/* The memory is restored: ask all targets again. */
void ftk_win_near_forget(struct ftk_win *w);

/* ---- direct.c -------------------------------------------------------------------------- */

/* Do an operation whose arguments are right, without a message; *rc: its error.  False: it has to
 * go into the queue. */
bool ftk_win_direct(struct ftk_win *w, const struct ftk_win_operation *o, int *rc);
/* There is no set to go back to: all operations are messages. */
bool ftk_win_is_in_set_up(void);
/* The memory of a rank in this process, which asks for it; NULL: it is not known yet, or never. */
char *ftk_win_find_memory(struct ftk_win *w, int target);
/* MPI_Win_shared_query of a window without shared memory: where this process has the memory of a
 * rank.  size 0: it has none. */
int ftk_win_direct_part(struct ftk_win *w, int rank, MPI_Aint *size, int *unit, void *baseptr);

/* ---- share.c --------------------------------------------------------------------------- */

/* w, with n members, gets shared memory; MPI codes. */
int ftk_win_share_begin(struct ftk_win *w, int n);
/* Make the memory and the handle of w, whose sizes are known.  Collective; an error is one of all
 * members.  MPI codes. */
int ftk_win_share(struct ftk_win *w);
/* The memory stays with the handle, if there is one. */
void ftk_win_unshare(struct ftk_win *w);
/* The part of a rank; NULL: the memory of this process is private. */
char *ftk_win_shared_memory(const struct ftk_win *w, int rank);
/* Where a rank has its part; MPI codes. */
int ftk_win_shared_part(
    const struct ftk_win *w, int rank, MPI_Aint *size, int *unit, void *baseptr);
/* What a set has besides the bytes of this rank; words 0: the memory is not shared. */
size_t ftk_win_shared_words(const struct ftk_win *w);
void ftk_win_shared_save(const struct ftk_win *w, char *to);
/* Whether w has shared memory that the loop has made. */
bool ftk_win_shared_in_loop(const struct ftk_win *w);
/* This process lacks a window of the set: FTKIT_ERR_UNSUPPORTED. */
int ftk_win_shared_missing(void);
/* Restore the part of this rank, as the ranks of w do together.  Codes of ftkit. */
int ftk_win_shared_load(struct ftk_win *w, const char *words, const char *from, size_t bytes);

/* ---- message.c ------------------------------------------------------------------------- */

enum { FTK_WIN_TAG_POST = 1, FTK_WIN_TAG_FIRST, FTK_WIN_TAG_REST, FTK_WIN_TAG_REPLY };

/* A message of the program on the communicator of a window.  The memory has to live until the
 * message is complete. */
struct ftk_win_message {
    struct ftk_req r;
    MPI_Datatype type;
    bool open;
};
void ftk_win_send(struct ftk_win_message *m, struct ftk_win *w, int rank, int tag, const void *data,
    size_t bytes);
void ftk_win_recv(
    struct ftk_win_message *m, struct ftk_win *w, int rank, int tag, void *data, size_t bytes);
/* One look; whether the message is complete. */
bool ftk_win_look(struct ftk_win_message *m);
/* Wait for it; returns its error. */
int ftk_win_await(struct ftk_win_message *m);

/* ---- epochs ---------------------------------------------------------------------------- */

/* rma.c.  Check an operation and do it, or put it into the queue. */
enum ftk_win_way {
    FTK_WIN_NOWHERE, /* its target is MPI_PROC_NULL */
    FTK_WIN_DIRECT,  /* it is done */
    FTK_WIN_QUEUED
};
int ftk_win_begin_op(struct ftk_win *w, const struct ftk_win_operation *o, enum ftk_win_way *way);

/* rma_req.c.  The requests whose targets have answered are complete. */
void ftk_win_requests_look(void);

/* A group, as ranks of w in rising order: [*n], from malloc(). */
int ftk_win_group(const struct ftk_win *w, MPI_Group group, int *n, int **ranks); /* pscw.c */
/* Go on with the exposure of w. */
void ftk_win_expose(struct ftk_win *w);
/* Drop the exposure of w, whose messages have ended. */
void ftk_win_exposure_drop(struct ftk_win *w);
/* End its messages that are under way.  False: the MPI has some of them. */
bool ftk_win_exposure_fail(struct ftk_win *w);

/* The begin of a call of the program: the window w, and the operation o.  A window that is not ours
 * is one of the MPI: real. */
#define FTK_WIN_OPERATION(real, ...)                                                               \
    struct ftk_win *w = ftk_win_find(win);                                                         \
    if (!w)                                                                                        \
        return ftk_win_is_gone(win) ? ftk_log_error() : real;                                      \
    const struct ftk_win_operation o = { __VA_ARGS__ };

#endif
