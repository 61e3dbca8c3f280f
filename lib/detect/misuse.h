/* Communicators and threads that the program uses against the rules.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_MISUSE_H
#define FTK_MISUSE_H

#include "core/context.h"

/* The program breaks a rule, which would hang the job: end the job without a relaunch. */
void ftk_misuse_end(struct ftkit_ctx *ctx, const char *why);

/* This thread enters a call of ftkit that all ranks make together (ftk_log_alone()).  Ends the job
 * if another thread is in a call of MPI or ftkit. */
void ftk_misuse_enter(struct ftkit_ctx *ctx, const char *call);
/* Whether this rank is in such a call: ftkit_escape() does not leave it. */
static inline void ftk_misuse_serve(struct ftkit_ctx *ctx, bool serving)
{
    ctx->serving = serving;
}

/* Whether comm, on which a call has failed because of a failure, is older than the last repair:
 * then no failure of this epoch explains the error.  False: not known, or a process has failed that
 * the program itself has spawned.  Local. */
bool ftk_misuse_is_stale(const struct ftkit_ctx *ctx, MPI_Comm comm);
/* A new context has no earlier epoch. */
static inline void ftk_misuse_init(struct ftkit_ctx *ctx)
{
    ctx->detect.past = MPI_GROUP_NULL;
}
/* An epoch ends: remember its processes.  And: the context closes.  Local. */
void ftk_misuse_epoch_ends(struct ftkit_ctx *ctx);
void ftk_misuse_forget(struct ftkit_ctx *ctx);
/* A call of the program (NULL: unknown) has failed on such a communicator: say so.  The third time
 * in a row ends the job. */
void ftk_misuse_stale(struct ftkit_ctx *ctx, MPI_Comm comm, const char *call);

/* Whether comm has the error handler MPI_ERRORS_ARE_FATAL.  Local. */
bool ftk_misuse_is_fatal(MPI_Comm comm);
/* Warn if a communicator on which ftkit has to hear of failures has MPI_ERRORS_ARE_FATAL.  Local;
 * about 100 ns for each communicator. */
void ftk_misuse_look_at_handlers(struct ftkit_ctx *ctx);

#endif
