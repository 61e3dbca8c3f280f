/* The message log, as the rest of ftkit sees it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Everything here does nothing, and says so, in a context without log.enabled. */
#ifndef FTK_LOG_HOOKS_H
#define FTK_LOG_HOOKS_H

#include "../context.h"

/* Whether this context logs: from a successful ftk_log_open() to ftk_log_close(). */
bool ftk_log_of(const struct ftkit_ctx *ctx);

/* With log.enabled: the interposition layer is there, nobody else logs, and so on.  Local;
 * before the first repair of the context. */
int ftk_log_open(struct ftkit_ctx *ctx);
/* The working ranks are known, ftkit_open() is about to return: calls come here now. */
int ftk_log_start(struct ftkit_ctx *ctx);
void ftk_log_close(struct ftkit_ctx *ctx);
/* The program's last call of MPI, for messages; "an MPI call" without the log. */
const char *ftk_log_call(const struct ftkit_ctx *ctx);
/* The fields of ftkit_info that begin with log_. */
void ftk_log_stats(const struct ftkit_ctx *ctx, ftkit_info *info);
/* Collective, in ftkit_finish(): rank 0 writes log.matrix.  What goes wrong with the file is
 * a warning, not an error; FTKIT_ERR_PEER: a rank has failed, and all make it again. */
struct ftk_chan;
int ftk_log_matrix(struct ftkit_ctx *ctx, struct ftk_chan *ch);
/* What ftkit_comm() gives; MPI_COMM_NULL without the log. */
MPI_Comm ftk_log_comm(const struct ftkit_ctx *ctx);

/* What tells a communicator of the program again, in a replacement too; -1: nothing does.  A
 * restore sets a variable to it; MPI_COMM_NULL: there is none. */
int ftk_log_context_of(MPI_Comm comm);
int ftk_log_comm_back(int context, MPI_Comm *comm);

/* ---- at a failure ------------------------------------------------------------------------
 * The steps have the names they have in docs/model/log.pml. */

/* What a repair knows when the communicators of the next epoch are there. */
struct ftk_log_repair {
    MPI_Comm act;           /* all working ranks of the next epoch */
    int me, n;
    const int *is_new;      /* [n] */
    const int *domain;      /* [n] */
    const int *back;        /* [n] falls back to the line */
    uint64_t line;          /* 0: none */
    bool fresh;             /* an opening: nothing has been sent yet */
    uint64_t stamp;         /* of the next epoch, were this attempt to succeed */
};

/* The team of each rank, the same for the whole job; NULL without the log. */
const int *ftk_log_teams(const struct ftkit_ctx *ctx);
/* Collective over s: member root knows the teams of the n ranks, all learn of them. */
int ftk_log_share_teams(struct ftkit_ctx *ctx, MPI_Comm s, int root, int n);
/* Collective over s: look for what the lost (lost[r] != 0) have seen decided since the line;
 * *all: it is not to be had, and everybody has to fall back. */
int ftk_log_search(struct ftkit_ctx *ctx, MPI_Comm s, const int *lost, int n, bool *all);

/* settle() and marks(): may be repeated, changes nothing but where messages wait. */
int ftk_log_settle(struct ftkit_ctx *ctx, const struct ftk_log_repair *r);
/* The attempt has come to nothing. */
int ftk_log_discard(struct ftkit_ctx *ctx);
/* fall_back() and resend(): everybody has agreed. */
int ftk_log_install(struct ftkit_ctx *ctx, const struct ftk_log_repair *r);

/* A collective call of ftkit that is no line: whether others have been through it already,
 * and with what; then it is not made again.  And tell what it came to. */
bool ftk_log_replayed(struct ftkit_ctx *ctx, int *code);
int ftk_log_outcome(struct ftkit_ctx *ctx, int code); /* returns the code */

/* In a wait of ftkit's own: collectives of the program that others pass through this rank go
 * on. */
void ftk_log_keep_going(const struct ftkit_ctx *ctx);

/* Whether this rank has to restore the line before it goes on. */
bool ftk_log_falls(const struct ftkit_ctx *ctx);
/* The regions are back at the line (set > 0), or there is none. */
void ftk_log_restored(struct ftkit_ctx *ctx, uint64_t set);
/* At a start all ranks have loaded the line, or this one could not as rc says; returns it. */
int ftk_log_loaded(struct ftkit_ctx *ctx, int rc);
/* Whether the line is one of an earlier job: a replacement could not make its set-up again. */
bool ftk_log_inherited(const struct ftkit_ctx *ctx);

/* ---- at the line -----------------------------------------------------------------------------*/

/* After how many calls of ftkit_checkpoint() to look at the log again, by the rate since the
 * line; 0: it has come near log.memory, and a set would empty it.  emptied: were it empty
 * now. */
int64_t ftk_log_calls_left(const struct ftkit_ctx *ctx, bool emptied);
/* Draw what is in flight, so that it is in the set of its receiver. */
int ftk_log_drain(struct ftkit_ctx *ctx, struct ftk_chan *ch);
/* The set is committed: what was sent before it is not needed again. */
void ftk_log_committed(struct ftkit_ctx *ctx);

/* Name of the region that holds the state of the log. */
#define FTK_LOG_REGION "ftkit.log"

#endif
