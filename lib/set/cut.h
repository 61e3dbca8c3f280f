/* Line apart: the part of a set that one rank writes, from its cut to the commit.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The rank copies its regions at the cut, and goes on.  What belongs to the set and is known only
 * later (the tail, log/recovery/tail.c) is in the region of the log, which is packed last.  Then
 * the segment goes to other ranks without waiting.  The caller (log/recovery/apart.c) has the
 * protocol: when each step may begin, and which rounds of a tally stand between the steps. */
#ifndef FTK_CUT_H
#define FTK_CUT_H

#include "detect/detect.h"

struct ftk_cut;

/* Take memory for a set, and pack all regions but the log's.  NULL: no memory.  Any other error of
 * this rank is in ftk_cut_error(). */
struct ftk_cut *ftk_cut_begin(struct ftkit_ctx *ctx, uint64_t set);
/* The most severe error of this rank so far. */
int ftk_cut_error(const struct ftk_cut *c);
/* The log knows its tail: pack its region, and seal the segment. */
void ftk_cut_close(struct ftk_cut *c);
/* The set goes to level.local, too, in the same steps.  After ftk_cut_close(), also after an
 * error of this rank.  FTKIT_ERR_PEER: a rank has failed. */
int ftk_cut_begin_local(struct ftk_cut *c);
/* The error of this rank in level.local, which does not end the set; and the end there, with the
 * code on which all ranks have agreed. */
int ftk_cut_local_error(const struct ftk_cut *c);
const char *ftk_cut_local_why(const struct ftk_cut *c);
void ftk_cut_end_local(struct ftk_cut *c, int rc);
/* Exchange sizes; then, when all ranks have their memory, send.  Without waiting.  *done: the step
 * is over.  FTKIT_ERR_PEER: a rank has failed. */
int ftk_cut_sizes(struct ftk_cut *c, bool *done);
int ftk_cut_send(struct ftk_cut *c, bool *done);
/* All ranks have sealed the set: it is committed.  ask: the request from outside that the set
 * fulfils (enum ftk_ask). */
void ftk_cut_commit(struct ftk_cut *c, int ask);
/* End with the result: FTKIT_OK after a commit; FTKIT_ERR_PEER: a rank has failed, and a sealed
 * segment stays; another code: the set is given up. */
void ftk_cut_end(struct ftk_cut *c, int rc);

#endif
