/* Writing sets: into memory with copies at buddies, and durably to the file system.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_CHECKPOINT_H
#define FTK_CHECKPOINT_H

#include "core/context.h"
#include "detect/detect.h"

/* Write and commit the next set in memory; then write it to level.local and to the file system, if
 * it is due there.  Collective.  FTKIT_ERR_PEER: a rank has failed, the next step is a repair.
 * Other errors are the same on all ranks.  An error of level.local or of the file system leaves the
 * new set committed in memory; any other error leaves the last committed set. */
int ftk_set_write(struct ftkit_ctx *ctx);

struct ftk_write;
/* The fields of the header of a segment that are known before the data are packed. */
struct ftk_seg_header ftk_set_head(const struct ftkit_ctx *ctx, uint64_t set);
/* The set of w is committed in memory: what this rank does then, except for the log.  gap: see
 * ftk_policy_committed(); ask: the request that the set fulfils (enum ftk_ask). */
void ftk_set_committed(struct ftkit_ctx *ctx, const struct ftk_write *w, int64_t gap, int ask);

/* Make this job the owner of the sets on the file system (store/owner.h), or check that it still
 * is.  Rank 0 calls this before each use of the sets.  make: create the directory if it is missing,
 * because sets will be written.  FTKIT_ERR_BUSY: another job, named in the detail, is the owner. */
int ftk_durable_own(struct ftkit_ctx *ctx, bool make);
/* The same with make, in a helper thread of rank 0.  ctx: a struct ftkit_ctx. */
int ftk_durable_own_behind(void *ctx);
/* After a repair: this rank takes its turn in keeping the record of the owner, or gives it up.
 * Touches no file.  opening: the context is being opened. */
void ftk_durable_stand_in(struct ftkit_ctx *ctx, bool opening);

/* Write a set that is in memory to the file system, and wait until it is durable.  Collective; all
 * ranks return the same code. */
int ftk_durable_write(struct ftk_chan *ch, uint64_t set);

/* Return the lowest rank in the failure domain of rank. */
int ftk_first_of_domain(const struct ftkit_ctx *ctx, int rank);

/* ---- the second level ---------------------------------------------------------------- */

/* Return whether the next set goes to level.local, too.  Only the answer of rank 0 counts. */
bool ftk_local_due(const struct ftkit_ctx *ctx);

/* Write a set that is in memory to level.local; due false: only count the set.  Collective; errors
 * as of ftk_durable_write(). */
int ftk_local_write(struct ftk_chan *ch, uint64_t set, bool due);
/* Count a set that is not written to level.local. */
void ftk_local_count(struct ftkit_ctx *ctx);
/* The set was loaded from level.local. */
void ftk_local_loaded(struct ftkit_ctx *ctx);

/* The same without waiting, for a set that is sealed in memory and not committed yet (error: why
 * this rank has no segment, and takes part for the others): begin, sizes until it is done, a vote,
 * send until it is done, the vote that commits, end.  The functions return FTKIT_ERR_PEER when a
 * rank has failed; other errors of this rank are in ftk_local_error().  ch stays the caller's until
 * the end. */
struct ftk_local;
int ftk_local_begin(struct ftk_chan *ch, uint64_t set, int error, struct ftk_local **out);
int ftk_local_error(const struct ftk_local *b);
const char *ftk_local_why(const struct ftk_local *b); /* the text of this error */
int ftk_local_sizes(struct ftk_local *b, bool *done);
int ftk_local_send(struct ftk_local *b, bool *done);
/* End with the code on which the ranks have agreed.  Or give up with the set, for its error or for
 * FTKIT_ERR_PEER: then the next set is due here. */
void ftk_local_end(struct ftk_local *b, int rc);
void ftk_local_give_up(struct ftk_local *b, int rc);

/* ---- policy: when is a set due ------------------------------------------------------- */

/* Decide whether this call of ftkit_checkpoint() writes a set.  *write is the same on all ranks;
 * most decisions need no communication.  FTKIT_ERR_PEER: a rank has failed. */
int ftk_policy_decide(struct ftkit_ctx *ctx, bool *write);

/* ftkit_request(): a set is due in the next call, on disk if kind is 2.  The first call from a
 * restored set may be the one that wrote it, which other ranks do not make again: then the set that
 * the program asks for is there.  So the request of such a rank waits for ftk_policy_first_call().
 * served: its first call is that one. */
void ftk_policy_request(struct ftkit_ctx *ctx, int kind);
void ftk_policy_first_call(struct ftkit_ctx *ctx, bool served);

/* Calls of ftkit_wait() and ftkit_scrub() at the line: in the state of the line, directly before or
 * behind the call of ftkit_checkpoint() that wrote the line.  After a rollback the ranks do not
 * come to the same of these calls: a replacement begins before the call that wrote the line, or
 * behind what follows, as the loop is written, and a survivor stands behind the call.  So from then
 * on no rank waits for others in such a call.  With the log the survivors may have made calls
 * behind the line before the failure: recovery/calls.c.
 * _at_line: whether a call now would be a call at the line.  With the log every rank asks this,
 * before a failure, too.
 * _spares: whether this rank returns from such a call at once.  With the log ranks behind the line
 * ask the record of the calls first.
 * _line: the line has just been written or taken over, in this call of ftkit_checkpoint(). */
bool ftk_policy_at_line(const struct ftkit_ctx *ctx);
bool ftk_policy_spares(const struct ftkit_ctx *ctx);
void ftk_policy_line(struct ftkit_ctx *ctx);
/* The replicated regions have the state now that ctx->state_sum is of. */
void ftk_policy_note_state(struct ftkit_ctx *ctx);

/* Line apart: whether rank 0 initiates a set now.  And: a set was given up: wait for the next
 * one. */
bool ftk_policy_is_due(struct ftkit_ctx *ctx);
void ftk_policy_tried(struct ftkit_ctx *ctx);

/* Decide in this call what the next call decides, which will keep to it.  *write: a set is due.
 * Collective if ranks may have to look. */
int ftk_policy_foresee(struct ftkit_ctx *ctx, bool *write);

/* A set has failed on all ranks, for another reason than a dead rank; the last line holds.  What
 * has failed once would fail at each call: the next set is due after a period, or when it is asked
 * for.  After FTKIT_ERR_STATE the next calls try first: there the requests may be at rest. */
void ftk_policy_failed(struct ftkit_ctx *ctx, int rc);

/* Whether there is no line yet and none was tried: the first call writes a set. */
static inline bool ftk_policy_first_is_due(const struct ftkit_ctx *ctx)
{
    return ctx->committed == 0 && !ctx->policy.failed;
}

/* Return whether the next set is due on the file system: 0 no, 1 yes, 2 the program has asked for
 * it.  Only the answer of rank 0 counts; a vote gives it to all ranks. */
int ftk_policy_durable(const struct ftkit_ctx *ctx);

/* A set was written to the file system, or its flush has begun, or the write has failed.
 * blocked_s: how long the program has waited.  And: a flush was given up, so the next set is
 * due. */
void ftk_policy_flushed(struct ftkit_ctx *ctx, double blocked_s);
void ftk_policy_flush_lost(struct ftkit_ctx *ctx);

/* Return after how many calls of ftkit_checkpoint() this rank wants the next look at the clock and
 * at the message log.  The vote that commits a set finds the smallest number of all ranks. */
int64_t ftk_policy_next_gap(struct ftkit_ctx *ctx);

/* A set has cost so many seconds of this rank: the figure for ftkit_query(), and for periods. */
void ftk_policy_measured(struct ftkit_ctx *ctx, double cost_s);
/* What a set usually costs this rank, in seconds; 0: none was measured. */
double ftk_policy_usual_cost(const struct ftkit_ctx *ctx);
/* Take over the costs of a survivor: what a set usually costs, and what a durable set has cost, in
 * seconds; 0: not measured. */
void ftk_policy_take_costs(struct ftkit_ctx *ctx, double set_s, double durable_s);

/* A set is committed.  gap: the smallest ftk_policy_next_gap() of all ranks. */
void ftk_policy_committed(struct ftkit_ctx *ctx, int64_t gap);

/* After a repair or a restart: begin to count calls and to measure times anew, on all ranks
 * alike. */
void ftk_policy_reset(struct ftkit_ctx *ctx);
/* This rank is back at the line, which was written in that call: the next call is that one again.
 * next_event: of the policy at the line. */
void ftk_policy_back(struct ftkit_ctx *ctx, uint64_t line_calls, uint64_t next_event);
/* The first call at which the ranks decide together, after a line that was written at call 1. */
#define FTK_POLICY_FIRST_EVENT 2

#endif
