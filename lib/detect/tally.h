/* Tallies: votes that no process waits for.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A tally has the words of a vote (detect.h).  Each rank says its words when it is ready, and goes
 * on.  The words go up a binary tree of the ranks; the result comes down.  Messages travel on act,
 * so a failure ends all tallies of an epoch.  A round has a number; all ranks use the same numbers
 * in rising order.  A success of MPI proves nothing: a result that has come counts all voters. */
#ifndef FTK_TALLY_H
#define FTK_TALLY_H

#include "detect.h"

struct ftk_tally; /* of an epoch */

/* Begin to take messages in this epoch.  NULL: no memory. */
struct ftk_tally *ftk_tally_open(struct ftkit_ctx *ctx);
/* End all rounds.  Messages under way are lost; after a failure, or when no round is under way. */
void ftk_tally_close(struct ftk_tally *t);

/* This rank's words of a round.  up_only: only rank 0 needs the result.  FTKIT_ERR_NOMEM,
 * FTKIT_ERR_PEER. */
int ftk_tally_say(struct ftk_tally *t, uint64_t round, const struct ftk_vote *v, bool up_only);
/* Rank 0 announces words to all ranks as the result of a round, before all ranks have given theirs.
 * A round that rank 0 announces with v->voters = 0 is found by ftk_tally_announced(). */
int ftk_tally_announce(struct ftk_tally *t, uint64_t round, const struct ftk_vote *v);
/* The result of a round; false: it has not come. */
bool ftk_tally_heard(const struct ftk_tally *t, uint64_t round, struct ftk_vote *v);
/* The latest round that rank 0 has announced, and that is not void; false: there is none. */
bool ftk_tally_announced(const struct ftk_tally *t, uint64_t *round, struct ftk_vote *v);
/* This rank asks rank 0 for something; the largest number that any rank has asked for since the
 * last call, on rank 0; 0: none. */
int ftk_tally_ask(struct ftk_tally *t, int64_t number);
int64_t ftk_tally_asked(struct ftk_tally *t);
/* Rounds below this number are void: late messages about them are ignored. */
void ftk_tally_void(struct ftk_tally *t, uint64_t below);
/* Take and send messages, without waiting.  FTKIT_ERR_PEER: a rank has failed. */
int ftk_tally_poll(struct ftk_tally *t);

#endif
