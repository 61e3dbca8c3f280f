/* Writing sets: into memory with copies at buddies, and durably to the file system.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_CHECKPOINT_H
#define FTK_CHECKPOINT_H

#include "core/context.h"
#include "detect/detect.h"

/* Write and commit the next set in memory, and durably when the policy says so.
 * Collective.
 * FTKIT_ERR_PEER: a rank failed, repair next; other errors are the same on all ranks and
 * leave the last committed set (durable errors leave the new one in memory). */
int ftk_set_write(struct ftkit_ctx *ctx);

/* Rank 0, before it uses the sets on the file system: see that they are this job's.  make:
 * they are going to be written.  FTKIT_ERR_BUSY names the job they belong to. */
int ftk_durable_own(struct ftkit_ctx *ctx, bool make);

/* Make the set in memory durable.  Collective; code agreed. */
int ftk_durable_write(struct ftkit_ctx *ctx, uint64_t set);

/* The rank that writes for the failure domain of another. */
int ftk_durable_writer(const struct ftkit_ctx *ctx, int rank);

/* ---- the second level ---------------------------------------------------------------- */

/* Rank 0's word on whether the next set goes to level.local, too. */
bool ftk_local_due(const struct ftkit_ctx *ctx);

/* Bring the set in memory to level.local; due false: only count it.  Collective; errors as
 * of ftk_durable_write(). */
int ftk_local_write(struct ftk_chan *ch, uint64_t set, bool due);

/* ---- policy: when is a set due ------------------------------------------------------- */

/* Whether this call of ftkit_checkpoint() writes a set; agreed, most often without any
 * communication.  FTKIT_ERR_PEER when a rank failed. */
int ftk_policy_decide(struct ftkit_ctx *ctx, bool *write);

/* Rank 0's word on whether the next set is durable too; counts for all through a vote.
 * 0 no, 1 it is due, 2 the program has asked for it. */
int ftk_policy_durable(const struct ftkit_ctx *ctx);

/* A set was written to the file system, or begun to be, or failed to be: the program has
 * waited so long.  And: what was begun has come to nothing. */
void ftk_policy_flushed(struct ftkit_ctx *ctx, double blocked_s);
void ftk_policy_flush_lost(struct ftkit_ctx *ctx);

/* After how many calls to look at the clock and the message log again, as this rank sees it;
 * the least of all goes with the vote that commits a set. */
int64_t ftk_policy_next_gap(struct ftkit_ctx *ctx);

/* A set is committed; gap: the agreed number of calls until the next look. */
void ftk_policy_committed(struct ftkit_ctx *ctx, int64_t gap);

/* After a repair or a restart: count and measure from here, the same on all ranks. */
void ftk_policy_reset(struct ftkit_ctx *ctx);
/* The call at which something may be due first after a line written at call 1. */
uint64_t ftk_policy_first_event(const struct ftkit_ctx *ctx);

/* Optimal compute time between checkpoints that cost cost_s with a failure every mtbf_s
 * (Daly, FGCS 22 (2006), higher order; for cost_s >= 2 mtbf_s it is mtbf_s). */
double ftk_daly_s(double cost_s, double mtbf_s);

#endif
