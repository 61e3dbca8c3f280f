/* The message log, as the rest of ftkit sees it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The log is above the modules that call it.  So a context with the log has a table of its
 * functions, ctx->log, and only open.c refers to the log by name.  A context without the log has no
 * table: each function below then does nothing and returns what its comment says. */
#ifndef FTK_LOG_OPS_H
#define FTK_LOG_OPS_H

#include "context.h"

struct ftk_chan;
struct ftk_units_call;

/* The facts of a repair that has made the communicators of the next epoch. */
struct ftk_log_repair {
    MPI_Comm act; /* all working ranks of the next epoch */
    int me, n;
    const int *is_new; /* [n] */
    const int *domain; /* [n] */
    const int *back;   /* [n] rolls back to the line */
    uint64_t line;     /* 0: none */
    bool fresh;        /* an opening: nothing has been sent yet */
    uint64_t epoch_id; /* of the next epoch, if this attempt succeeds */
    unsigned stale;    /* bit p: plane p stands still from now on */
    uint64_t clone_at; /* ... then: the next call of ftkit_checkpoint() at which all ranks decide,
                          also in a replay of the calls since the line */
};

/* A message that this rank has sent to another team since the line. */
struct ftk_message {
    int dest; /* rank of the program */
    int context, tag;
    int collective;  /* 1: of a collective */
    uint64_t number; /* in its channel (dest, context, tag) since the line, from 1 */
    uint64_t bytes, hash;
};

/* A handle of MPI that a variable of the program has. */
enum ftk_handle_kind {
    FTK_HANDLE_COMM,
    FTK_HANDLE_REQUEST,
    FTK_HANDLE_MESSAGE,
    FTK_HANDLE_WINDOW,
    FTK_HANDLE_KINDS
};
struct ftk_handle {
    enum ftk_handle_kind kind;
    union {
        MPI_Comm comm;
        MPI_Request request;
        MPI_Message message; /* that a probe has matched */
        MPI_Win win;
    };
};

/* What the log does for each kind of handle; described below, at the functions that call it. */
struct ftk_handle_ops {
    int64_t (*number)(struct ftk_handle h);
    int (*back)(int64_t number, struct ftk_handle *h);
    struct ftk_handle (*f2c)(MPI_Fint handle);
    MPI_Fint (*c2f)(struct ftk_handle h);
};

/* What happens to a context, and is no question to the log; described below, at the functions that
 * say it.  A moment is a row of a table in the log. */
enum ftk_log_moment {
    FTK_LOG_AT_START,
    FTK_LOG_AT_LOOP,
    FTK_LOG_AT_CLOSE,
    FTK_LOG_AT_FAILURE,
    FTK_LOG_AT_FAILED_ATTEMPT,
    FTK_LOG_AT_RESTORED,
    FTK_LOG_AT_SET_FOUND,
    FTK_LOG_AT_LOADED,
    FTK_LOG_AT_LEAVING_LINE,
    FTK_LOG_AT_COMMIT,
    FTK_LOG_AT_GIVE_UP,
    FTK_LOG_MOMENTS
};

/* What other rooms ask the log. */
struct ftk_log_facts {
    const char *call;   /* the program's last call of MPI, for messages */
    MPI_Comm comm;      /* the program's resilient communicator */
    const int *teams;   /* the team of each rank, the same for the whole job; NULL: not known yet */
    const bool *silent; /* whether the team of each rank keeps no messages; NULL: all keep them */
    int nteams, nsilent; /* teams, and those of them that keep no messages; 0: not known yet */
    bool repeats;        /* this rank still has collective calls of ftkit to make again */
    bool of_earlier_job; /* the line is: a replacement could not replay the set-up */
    bool rolling_back;   /* this rank has to restore the line before it continues */
};

/* The functions are described below, at the functions that call them. */
struct ftk_log_ops {
    int (*at)(struct ftkit_ctx *ctx, enum ftk_log_moment moment);
    struct ftk_log_facts (*facts)(const struct ftkit_ctx *ctx);
    void (*stats)(ftkit_info *info);
    int (*matrix)(struct ftkit_ctx *ctx, struct ftk_chan *ch);
    const struct ftk_handle_ops *const *handles; /* [FTK_HANDLE_KINDS] */
    int (*decide)(void *data, size_t bytes);
    int (*share)(const void *buf, size_t bytes);
    int (*unshare)(const void *buf);
    int (*run_units)(const struct ftk_units_call *c);
    bool (*enter)(const char *call);
    void (*leave)(void);
    int (*sound)(void);
    /* at a failure */
    bool (*sent_to)(uint64_t *teams);
    int (*search)(
        struct ftkit_ctx *ctx, MPI_Comm s, int root, const int *lost, int n, bool *all, bool *led);
    int (*quiesce)(
        struct ftkit_ctx *ctx, const struct ftk_log_repair *r, bool *missed, uint64_t *next);
    int (*install)(struct ftkit_ctx *ctx, const struct ftk_log_repair *r);
    bool (*replayed)(struct ftkit_ctx *ctx, bool at_line, int *code);
    int (*outcome)(struct ftkit_ctx *ctx, bool at_line, int code);
    void (*keep_going)(void);
    /* at the line */
    int64_t (*calls_left)(const struct ftkit_ctx *ctx, bool emptied);
    int (*drain)(struct ftk_chan *ch);
    uint64_t (*messages_sum)(void);
    int (*messages)(struct ftk_message **list, size_t *n);
    /* lines apart */
    int (*checkpoint)(struct ftkit_ctx *ctx);
    int (*finish_set)(struct ftkit_ctx *ctx, struct ftk_chan *ch);
};

/* The log calls this function of a layer above it: repair the context, in a call of the program. */
typedef int ftk_log_repair_fn(struct ftkit_ctx *ctx);

/* Open the log, with log.enabled: checks that the interposition layer is there, that no other
 * context logs, and so on; then sets ctx->log.  Local; before the first repair of the context.  An
 * MPI without ULFM has no log: the function reports then that log.enabled has no effect. */
int ftk_log_open(struct ftkit_ctx *ctx, ftk_log_repair_fn *repair);

/* Whether this context logs: from a successful ftk_log_open() to ftk_log_close(). */
static inline bool ftk_log_of(const struct ftkit_ctx *ctx)
{
    return ctx->log != NULL;
}

static inline int ftk_log_at(struct ftkit_ctx *ctx, enum ftk_log_moment moment)
{
    return ctx->log ? ctx->log->at(ctx, moment) : FTKIT_OK;
}

/* The working ranks are known, and ftkit_open() is about to return: from now on the log handles the
 * program's calls. */
static inline int ftk_log_start(struct ftkit_ctx *ctx)
{
    return ftk_log_at(ctx, FTK_LOG_AT_START);
}

static inline void ftk_log_close(struct ftkit_ctx *ctx)
{
    (void)ftk_log_at(ctx, FTK_LOG_AT_CLOSE);
}

/* The program's last call of MPI, for messages; "an MPI call" without the log. */
static inline const char *ftk_log_call(const struct ftkit_ctx *ctx)
{
    return ctx->log ? ctx->log->facts(ctx).call : "an MPI call";
}

/* The fields of ftkit_info that begin with log_. */
static inline void ftk_log_stats(const struct ftkit_ctx *ctx, ftkit_info *info)
{
    if (ctx->log)
        ctx->log->stats(info);
}

/* Collective, in ftkit_finish(): rank 0 writes log.matrix.  An error of the file is a warning;
 * FTKIT_ERR_PEER: a rank has failed, and all ranks call the function again. */
static inline int ftk_log_matrix(struct ftkit_ctx *ctx, struct ftk_chan *ch)
{
    return ctx->log ? ctx->log->matrix(ctx, ch) : FTKIT_OK;
}

/* The program's resilient communicator. */
static inline MPI_Comm ftk_program_comm(const struct ftkit_ctx *ctx)
{
    return ctx->log ? ctx->log->facts(ctx).comm : ctx->comms.app;
}

/* The number of the object in a set that is being written; that of a communicator or a window is
 * the same after a rollback, and in a replacement.  FTK_NO_HANDLE: the handle is null, or is no
 * communicator or window of the log.  FTK_FOREIGN_HANDLE: not of the program's messages.  These
 * functions need the log. */
enum { FTK_NO_HANDLE = -1, FTK_FOREIGN_HANDLE = -2 };
static inline int64_t ftk_log_handle_number(const struct ftkit_ctx *ctx, struct ftk_handle h)
{
    return ctx->log->handles[h.kind]->number(h);
}

/* The object that has that number in the set that is being restored, or a null handle.  *h is the
 * handle that the variable had. */
static inline int ftk_log_handle_back(
    const struct ftkit_ctx *ctx, int64_t number, struct ftk_handle *h)
{
    return ctx->log->handles[h->kind]->back(number, h);
}

/* Fortran handles. */
static inline struct ftk_handle ftk_log_handle_f2c(
    const struct ftkit_ctx *ctx, enum ftk_handle_kind kind, MPI_Fint handle)
{
    return ctx->log->handles[kind]->f2c(handle);
}
static inline MPI_Fint ftk_log_handle_c2f(const struct ftkit_ctx *ctx, struct ftk_handle h)
{
    return ctx->log->handles[h.kind]->c2f(h);
}

/* This thread enters a call of ftkit that all ranks make together, or leaves it.  False: another
 * thread is in a call of MPI or ftkit.  While a thread is inside, calls of MPI of other threads
 * fail. */
static inline bool ftk_log_alone(const struct ftkit_ctx *ctx, const char *call)
{
    return !ctx->log || ctx->log->enter(call);
}

static inline void ftk_log_leave(const struct ftkit_ctx *ctx)
{
    if (ctx->log)
        ctx->log->leave();
}

/* FTKIT_ERR_UNSUPPORTED: threads have made calls of MPI at once, so a result may be wrong. */
static inline int ftk_log_sound(const struct ftkit_ctx *ctx)
{
    return ctx->log ? ctx->log->sound() : FTKIT_OK;
}

/* Record a value of ftkit_decide(), or overwrite it with the recorded one.  Without the log all
 * ranks roll back together, and may decide anew. */
static inline int ftk_log_decide(const struct ftkit_ctx *ctx, void *data, size_t bytes)
{
    return ctx->log ? ctx->log->decide(data, bytes) : FTKIT_OK;
}

/* ftkit_share() and ftkit_unshare(). */
static inline int ftk_log_share(const struct ftkit_ctx *ctx, const void *buf, size_t bytes)
{
    return ctx->log ? ctx->log->share(buf, bytes) : FTKIT_OK;
}

static inline int ftk_log_unshare(const struct ftkit_ctx *ctx, const void *buf)
{
    return ctx->log ? ctx->log->unshare(buf) : FTKIT_OK;
}

/* ---- at a failure -----------------------------------------------------------------------
 * The steps have the names they have in docs/model/log.pml. */

/* The team of each rank, the same for the whole job; NULL without the log. */
static inline const int *ftk_log_teams(const struct ftkit_ctx *ctx)
{
    return ctx->log ? ctx->log->facts(ctx).teams : NULL;
}

/* Whether the team of each rank keeps no messages (log.silent); NULL: all teams keep them. */
static inline const bool *ftk_log_silent(const struct ftkit_ctx *ctx)
{
    return ctx->log ? ctx->log->facts(ctx).silent : NULL;
}

/* The number of teams, 0: none; *silent: those of them that keep no messages. */
static inline int ftk_log_count_teams(const struct ftkit_ctx *ctx, int *silent)
{
    const struct ftk_log_facts f = ctx->log ? ctx->log->facts(ctx) : (struct ftk_log_facts){ 0 };
    *silent = f.nsilent;
    return f.nteams;
}

/* Set bit t of teams, [ (ranks + 63) / 64 ] zeros, if this rank has sent a message to team t since
 * the line without keeping it.  False: nothing is set, because its team keeps its messages. */
static inline bool ftk_log_sent_to(const struct ftkit_ctx *ctx, uint64_t *teams)
{
    return ctx->log && ctx->log->sent_to(teams);
}

/* Collective over s: member root sends the teams of the n ranks to all, then all search the
 * determinants since the line of the lost ranks (lost[r] != 0); *all: those of some rank are lost,
 * too; *led: ... of a rank that has led the other replicas. */
static inline int ftk_log_search(
    struct ftkit_ctx *ctx, MPI_Comm s, int root, const int *lost, int n, bool *all, bool *led)
{
    *all = *led = false;
    return ctx->log ? ctx->log->search(ctx, s, root, lost, n, all, led) : FTKIT_OK;
}

/* The first half of a repair: quiesce.  May be repeated; only moves messages from the MPI to the
 * unexpected messages.  *missed: another rank has seen the commit of the line, and this rank has
 * not; *next: the next event of the job (struct ftkit_ctx). */
static inline int ftk_log_quiesce(
    struct ftkit_ctx *ctx, const struct ftk_log_repair *r, bool *missed, uint64_t *next)
{
    *missed = false;
    return ctx->log ? ctx->log->quiesce(ctx, r, missed, next) : FTKIT_OK;
}

/* The attempt has failed: discard what the log has made in it. */
static inline int ftk_log_discard(struct ftkit_ctx *ctx)
{
    return ftk_log_at(ctx, FTK_LOG_AT_FAILED_ATTEMPT);
}

/* The second half, when the ranks have agreed: roll back, suppress, resend. */
static inline int ftk_log_install(struct ftkit_ctx *ctx, const struct ftk_log_repair *r)
{
    return ctx->log ? ctx->log->install(ctx, r) : FTKIT_OK;
}

/* Whether this rank still has collective calls of ftkit to make again. */
static inline bool ftk_log_repeats(const struct ftkit_ctx *ctx)
{
    return ctx->log && ctx->log->facts(ctx).repeats;
}

/* A rank that went back to the line, or began there, has left the state of the line: it makes no
 * further call of those at the line (ftk_policy_at_line()), whatever other ranks have made. */
static inline void ftk_log_pass_line(struct ftkit_ctx *ctx)
{
    (void)ftk_log_at(ctx, FTK_LOG_AT_LEAVING_LINE);
}

/* For a collective call of ftkit that makes no line: whether other ranks have completed the call
 * before the failure, and its code; or whether no rank makes the call any more.  Then this rank
 * does not take part in the call again.  at_line: the call is of those at the line
 * (ftk_policy_at_line()). */
static inline bool ftk_log_replayed(struct ftkit_ctx *ctx, bool at_line, int *code)
{
    return ctx->log && ctx->log->replayed(ctx, at_line, code);
}

/* Record the outcome of such a call; returns the code. */
static inline int ftk_log_outcome(struct ftkit_ctx *ctx, bool at_line, int code)
{
    return ctx->log ? ctx->log->outcome(ctx, at_line, code) : code;
}

/* Progress in a wait of ftkit itself, so that collectives of the program that need this rank
 * continue. */
static inline void ftk_log_keep_going(const struct ftkit_ctx *ctx)
{
    if (ctx->log)
        ctx->log->keep_going();
}

/* Whether this rank is rolling back: it has to restore the line before it continues. */
static inline bool ftk_log_rolling_back(const struct ftkit_ctx *ctx)
{
    return ctx->log && ctx->log->facts(ctx).rolling_back;
}

/* The regions are restored to the line, set (0: there is no line). */
static inline void ftk_log_restored(struct ftkit_ctx *ctx, uint64_t set)
{
    if (set > 0)
        (void)ftk_log_at(ctx, FTK_LOG_AT_RESTORED);
}

/* The first ftkit_recover() is about to return: the requests of the line begin. */
static inline void ftk_log_enter_loop(struct ftkit_ctx *ctx)
{
    (void)ftk_log_at(ctx, FTK_LOG_AT_LOOP);
}

/* Collective: at a start this rank has found the set that it will restore, or rc is its error.
 * Drop the messages of set-up.  Returns the code. */
static inline int ftk_log_leave_set_up(struct ftkit_ctx *ctx, int rc)
{
    const int dropped = ftk_log_at(ctx, FTK_LOG_AT_SET_FOUND);
    return rc == FTKIT_OK ? dropped : rc;
}

/* At a start this rank has restored the line, or rc is its error; returns the code. */
static inline int ftk_log_loaded(struct ftkit_ctx *ctx, int rc)
{
    (void)ftk_log_at(ctx, rc == FTKIT_OK ? FTK_LOG_AT_LOADED : FTK_LOG_AT_GIVE_UP);
    return rc;
}

/* Whether the line is of an earlier job: a replacement could not replay the set-up. */
static inline bool ftk_log_of_earlier_job(const struct ftkit_ctx *ctx)
{
    return ctx->log && ctx->log->facts(ctx).of_earlier_job;
}

/* ---- at the line --------------------------------------------------------------------- */

/* The number of calls of ftkit_checkpoint() until the next look at the log, by its growth since the
 * line; 0: the log is near log.memory, and a set would empty it.  emptied: assume that the log is
 * empty now. */
static inline int64_t ftk_log_calls_left(const struct ftkit_ctx *ctx, bool emptied)
{
    return ctx->log ? ctx->log->calls_left(ctx, emptied) : INT64_MAX;
}

/* Drain the messages in flight, so that they are in the segments of their receivers.  Requests
 * under way stop until ftk_log_line_end(). */
static inline int ftk_log_drain(struct ftkit_ctx *ctx, struct ftk_chan *ch)
{
    return ctx->log ? ctx->log->drain(ch) : FTKIT_OK;
}

/* A sum of the messages that this rank has sent to other teams since the line, in any order of
 * their channels; 0 without replicas.compare = messages. */
static inline uint64_t ftk_log_messages_sum(const struct ftkit_ctx *ctx)
{
    return ctx->log && ctx->cfg.replica_compare == FTK_COMPARED_MESSAGES ? ctx->log->messages_sum()
                                                                         : 0;
}

/* These messages [*n], in the order of ftk_messages_order(); the caller frees *list.
 * FTKIT_ERR_NOMEM. */
static inline int ftk_log_messages(
    const struct ftkit_ctx *ctx, struct ftk_message **list, size_t *n)
{
    *list = NULL;
    *n = 0;
    return ctx->log ? ctx->log->messages(list, n) : FTKIT_OK;
}

static inline int ftk_messages_order(const struct ftk_message *a, const struct ftk_message *b)
{
    if (a->dest != b->dest)
        return a->dest < b->dest ? -1 : 1;
    if (a->context != b->context)
        return a->context < b->context ? -1 : 1;
    if (a->tag != b->tag)
        return a->tag < b->tag ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

/* The end of what ftk_log_drain() has begun.  committed: the set is committed, and messages sent
 * before it are not needed again; otherwise the set is given up. */
static inline void ftk_log_line_end(struct ftkit_ctx *ctx, bool committed)
{
    (void)ftk_log_at(ctx, committed ? FTK_LOG_AT_COMMIT : FTK_LOG_AT_GIVE_UP);
}

/* ---- lines apart: checkpoint.line = apart ------------------------------------------------ */

/* Whether each rank cuts at its own call of ftkit_checkpoint(), after the first line. */
static inline bool ftk_log_apart(const struct ftkit_ctx *ctx)
{
    return ctx->log && ctx->cfg.line == FTK_LINE_APART && ctx->committed > 0;
}

/* In ftkit_checkpoint(): make progress; cut if a set is initiated.  An error of a set that was
 * given up, once; the same on all ranks, in calls of their own. */
static inline int ftk_log_checkpoint(struct ftkit_ctx *ctx)
{
    return ctx->log->checkpoint(ctx);
}

/* Collective, in another call that all ranks make together: write the open set to its end, or give
 * it up if a rank has not cut yet.  FTKIT_ERR_PEER. */
static inline int ftk_log_finish_set(struct ftkit_ctx *ctx, struct ftk_chan *ch)
{
    return ctx->log ? ctx->log->finish_set(ctx, ch) : FTKIT_OK;
}

/* A repair begins: no message of an open set is under way any more. */
static inline void ftk_log_freeze(struct ftkit_ctx *ctx)
{
    (void)ftk_log_at(ctx, FTK_LOG_AT_FAILURE);
}

#endif
