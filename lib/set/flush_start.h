/* Beginning to flush a set in the background, without waiting.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The ranks exchange which rank writes which segment, and the checksums of the heads.  Then
 * each rank holds its segment and gives it to its thread (flusher.h). */
#ifndef FTK_FLUSH_START_H
#define FTK_FLUSH_START_H

#include "detect/detect.h"

struct ftk_flush_start;

/* Begin, for a set that is committed in memory, when no thread of any rank writes.  Collective on
 * ch, which stays the caller's until the end.  FTKIT_ERR_PEER: a rank has failed. */
int ftk_flush_start(struct ftk_chan *ch, uint64_t set, struct ftk_flush_start **out);
/* The next step.  *done: the thread has the set.  Then, and after an error, *s is NULL.
 * FTKIT_ERR_PEER: a rank has failed, or the channel is broken; other errors are agreed. */
int ftk_flush_start_step(struct ftk_flush_start **s, bool *done);
/* A rank has failed: give the set up.  *s may be NULL. */
void ftk_flush_start_drop(struct ftk_flush_start **s);

#endif
