/* Detection of failures, and waits that never outlive one.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_DETECT_H
#define FTK_DETECT_H

#include "core/context.h"

/* Whether this process has a context open that repairs. */
bool ftk_detect_active(void);

/* MPI_COMM_WORLD has spares, which never come to a call on it: revoke it, so that such a call
 * of the program fails at once and is named as the mistake that it is. */
void ftk_detect_forbid_world(void);
/* A context of the process that is not closed, or NULL. */
struct ftkit_ctx *ftk_detect_first(void);
/* How many members of comm are spares of a context of this process, and its name. */
int ftk_detect_spares_in(MPI_Comm comm, char name[FTKIT_NAME_MAX + 1]);

/* Put a context on / take it off the process's list, which the error handler walks. */
int ftk_detect_open(struct ftkit_ctx *ctx);
void ftk_detect_close(struct ftkit_ctx *ctx);

/* Give the communicators of the current epoch their error handlers and post the watch:
 * a receive from any source on ctl that nobody ever sends to.  ULFM completes it with an
 * error as soon as any member of ctl has failed or somebody revoked ctl. */
int ftk_detect_arm(struct ftkit_ctx *ctx);
int ftk_detect_disarm(struct ftkit_ctx *ctx);

/* Communicators of the program that are revoked with ours; forgotten when it frees them. */
int ftk_detect_track(struct ftkit_ctx *ctx, MPI_Comm comm);
int ftk_detect_untrack(struct ftkit_ctx *ctx, MPI_Comm comm);

/* Test the watch.  True when a failure is known (see ctx->failed). */
bool ftk_detect_poll(struct ftkit_ctx *ctx);

/* Whether a failure of this context explains an error that the program has met: look, and
 * wait for the notice up to a bound (2 s). */
bool ftk_detect_confirm(struct ftkit_ctx *ctx);
/* The program breaks a rule, which would hang the job: end it, and do not relaunch it. */
void ftk_detect_mistake(struct ftkit_ctx *ctx, const char *why);
/* An error of the program that no failure explains ends the job: say which. */
void ftk_detect_fatal(struct ftkit_ctx *ctx, int code);
/* Whether any context of the process knows of a failure that is not repaired.  No MPI call. */
bool ftk_detect_known(void);

/* The program wants to end the job by this call, with this code.  With a known failure this
 * process ends as a lost one, otherwise the job ends.  Returns where no context repairs. */
void ftk_detect_abort(const char *call, int code);

/* A failure is known here: tell everyone by revoking what they may be blocked on. */
void ftk_detect_raise(struct ftkit_ctx *ctx);

/* ---- channels ---------------------------------------------------------------------------
 * A communicator that ftkit talks on.  Every blocking step is its non-blocking twin plus
 * a loop that tests it and, now and then, the watch. */
struct ftk_chan {
    struct ftkit_ctx *ctx;
    MPI_Comm comm;
    bool repairing; /* inside a repair: the watch is down, errors revoke comm and also */
    MPI_Comm also;
    bool broken;   /* an operation has failed; the rest is only wound up */
    uint64_t sent; /* bytes of segments and parity that went from here to others */
};

struct ftk_chan ftk_chan_of(struct ftkit_ctx *ctx); /* act of the current epoch */

/* An operation on the channel failed: make sure nobody waits for us. */
int ftk_chan_break(struct ftk_chan *ch, int mpi_rc, const char *what);

/* Wait for all requests; FTKIT_ERR_PEER when a failure came between.  In either case no
 * request is left. */
int ftk_chan_wait(struct ftk_chan *ch, MPI_Request *reqs, int n, const char *what);

/* Pause of a turn that achieved nothing: let the watch speak. */
void ftk_chan_progress(struct ftk_chan *ch, unsigned *turns);

/* ---- votes ------------------------------------------------------------------------------
 * One small all-reduce that carries what all ranks must know together.  Success proves
 * that every rank has voted: the result counts the voters. */
/* CALLS and the word behind it: the number of calls of ftkit_checkpoint(), for ftk_vote_same(). */
enum { FTK_VOTE_WORDS = 9, FTK_VOTE_CALLS = 4 };
struct ftk_vote {
    int64_t voters;              /* in: 1; out: their number */
    int64_t min[FTK_VOTE_WORDS]; /* the smallest of each */
};
void ftk_vote_init(struct ftk_vote *v);
/* Use two words to see whether a value is the same on all ranks. */
void ftk_vote_same(struct ftk_vote *v, int word, uint64_t value);
bool ftk_vote_is_same(const struct ftk_vote *v, int word);
int ftk_vote(struct ftk_chan *ch, int nranks, struct ftk_vote *v);

/* Everybody's most severe error becomes everybody's, so that nobody is left alone in a step
 * that all have to take.  Who had none gets a detail that begins with what.  Not with
 * FTKIT_ERR_PEER, which all learn of by themselves: it is returned at once. */
int ftk_agree(struct ftk_chan *ch, int rc, const char *what);

#endif
