/* Detection of failures, and waits that end when a process fails.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_DETECT_H
#define FTK_DETECT_H

#include "core/context.h"

/* Whether this process has a context open that repairs. */
bool ftk_detect_active(void);

/* MPI_COMM_WORLD has spares, which never call a function on it.  Revoke it, so that a call of the
 * program on it fails at once and is reported as a mistake. */
void ftk_detect_forbid_world(void);
/* A context of the process that is not closed, or NULL. */
struct ftkit_ctx *ftk_detect_first(void);
/* Return the number of members of comm that are spares of a context of this process; name: the
 * name of that context. */
int ftk_detect_spares_in(MPI_Comm comm, char name[FTKIT_NAME_MAX + 1]);

/* A new context has no watch. */
static inline void ftk_detect_init(struct ftkit_ctx *ctx)
{
    ctx->detect.watch = MPI_REQUEST_NULL;
}
/* A new epoch begins: no failure is known, and the program has no communicators yet. */
static inline void ftk_detect_new_epoch(struct ftkit_ctx *ctx)
{
    ctx->detect.failed = 0;
    ctx->detect.ntracked = 0;
}
/* No call of the program has failed since the last repair, or in its loop. */
static inline void ftk_detect_forget_errors(struct ftkit_ctx *ctx)
{
    ctx->detect.app_errors = false;
}

/* Add a context to the list of this process, or remove it.  The error handler uses the list. */
int ftk_detect_open(struct ftkit_ctx *ctx);
void ftk_detect_close(struct ftkit_ctx *ctx);

/* Give the communicators of the current epoch their error handlers and post the watch: a receive
 * from any source on ctl, to which no rank ever sends.  ULFM ends the watch with an error as soon
 * as a member of ctl has failed or a rank has revoked ctl. */
int ftk_detect_arm(struct ftkit_ctx *ctx);
int ftk_detect_disarm(struct ftkit_ctx *ctx);

/* Communicators of the program that are revoked with ctl, act and app, until the program frees
 * them. */
int ftk_detect_track(struct ftkit_ctx *ctx, MPI_Comm comm);
int ftk_detect_untrack(struct ftkit_ctx *ctx, MPI_Comm comm);

/* Test the watch.  True when a failure is known (see ctx->detect.failed). */
bool ftk_detect_poll(struct ftkit_ctx *ctx);

/* Whether a failure of this context explains an error in a call of the program.  The function waits
 * for the notice of a failure, up to 2 s. */
bool ftk_detect_confirm(struct ftkit_ctx *ctx);
/* End the job because of an error of the program that no failure explains.  Without a watchdog the
 * function only reports the error and returns. */
void ftk_detect_fatal(struct ftkit_ctx *ctx, int code);
/* The same with a text of its own.  A relaunch may help, unlike behind ftk_misuse_end(). */
void ftk_detect_end(struct ftkit_ctx *ctx, const char *why);
/* Whether any context of the process knows of a failure that is not repaired.  No MPI call. */
bool ftk_detect_known(void);

/* The program wants to end the job by this call, with this code.  If a failure is known, or is
 * noticed within 2 s, this process ends as a lost one; otherwise the job ends.  The function
 * returns if no context repairs, or if there is no watchdog to end the job. */
void ftk_detect_abort(const char *call, int code);

/* A failure is known here: notify the other ranks by revoking the communicators on which they may
 * be blocked. */
void ftk_detect_raise(struct ftkit_ctx *ctx);

/* ---- channels ---------------------------------------------------------------------------
 * A communicator of ftkit with polled waits.  A blocking step is a non-blocking call, and a loop
 * that tests its request and, from time to time, the watch. */
struct ftk_chan {
    struct ftkit_ctx *ctx;
    MPI_Comm comm;
    bool repairing; /* in a repair: there is no watch; an error revokes the two communicators */
    MPI_Comm also;
    bool broken;   /* an operation has failed: no other begins, and those under way are ended */
    uint64_t sent; /* bytes of segments and parity sent to other ranks */
};

struct ftk_chan ftk_chan_of(struct ftkit_ctx *ctx); /* act of the current epoch */
/* With the log: a second communicator of the same ranks, for what may be under way at the same time
 * as a collective or the writing of a set on act. */
struct ftk_chan ftk_chan_beside(struct ftkit_ctx *ctx);

/* An operation on the channel has failed: make sure that no rank waits for this one.  Return
 * FTKIT_ERR_PEER; with restart only: FTKIT_ERR_MPI. */
int ftk_chan_break(struct ftk_chan *ch, int mpi_rc, const char *what);

/* Wait for all requests; FTKIT_ERR_PEER: a failure.  No request is left in either case. */
int ftk_chan_wait(struct ftk_chan *ch, MPI_Request *reqs, int n, const char *what);

/* Test all requests, without waiting; *all: none is left.  FTKIT_ERR_PEER: a failure; then requests
 * may be left, and ftk_chan_wait() ends them. */
int ftk_chan_test(struct ftk_chan *ch, MPI_Request *reqs, int n, const char *what, bool *all);

/* Call this function in the loop of a wait, when no request was complete: it lets the log progress,
 * and tests the watch at every 16th call.  *turns counts the calls. */
void ftk_chan_progress(struct ftk_chan *ch, unsigned *turns);

/* ---- votes ------------------------------------------------------------------------------
 * One small all-reduce with the words that all ranks decide on together.  Success proves that every
 * rank has voted, because the result counts the voters. */
/* FTK_VOTE_CALLS and the next word: number of calls of ftkit_checkpoint(), by ftk_vote_same(). */
enum { FTK_VOTE_WORDS = 10, FTK_VOTE_CALLS = 4 };
struct ftk_vote {
    int64_t voters;              /* in: 1; out: their number */
    int64_t min[FTK_VOTE_WORDS]; /* in: values of this rank; out: the smallest of all ranks */
};
/* Set all words to INT64_MAX, which changes no result. */
void ftk_vote_init(struct ftk_vote *v);
/* Use two words, from word on, to find out by the vote whether a value is the same on all ranks. */
void ftk_vote_same(struct ftk_vote *v, int word, uint64_t value);
bool ftk_vote_is_same(const struct ftk_vote *v, int word);
/* Collective over ch.  FTKIT_ERR_PEER: a rank has failed, or not all nranks have voted. */
int ftk_vote(struct ftk_chan *ch, int nranks, struct ftk_vote *v);

/* The MPI objects of votes are made with the first context and freed with the last.  Return the MPI
 * code. */
int ftk_vote_objects(void);
void ftk_vote_forget(void);

/* Return the most severe code of all ranks, on all ranks, so that no rank is alone in a step that
 * all have to take.  A rank without an error of its own gets a detail that starts with what.  A
 * rank with rc = FTKIT_ERR_PEER returns at once, because all ranks learn of a failure anyway. */
int ftk_agree(struct ftk_chan *ch, int rc, const char *what);

#endif
