/* What a start may go on from: recover.start, the identity of sets, sets that cannot be
 * used.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A start takes the newest usable set, or exactly the one of recover.start.  Nothing is
 * passed over in silence, and sets of which none can be used are an error: a fresh start
 * would hide that the job has lost its past. */
#ifndef FTK_START_H
#define FTK_START_H

#include "core/context.h"

/* Before a context looks for sets: the number of its run. */
void ftk_start_begin(struct ftkit_ctx *ctx);

/* Whether recover.start and the run of a set let this context use the set.  In a repair
 * only what this run has written counts. */
bool ftk_start_may_use(const struct ftkit_ctx *ctx, uint64_t set, uint64_t run);

/* Number of the newest set on the file system below `below` (0: of all) that may be used,
 * 0: none; *newest is the highest number that is there at all.  Of rank 0; tells what
 * newer sets are passed over.  must: sets that are there and of which none can be used
 * are FTKIT_ERR_CORRUPT, _FORMAT or _IO; so is, with FTKIT_ERR_FORMAT, one of another
 * program. */
int ftk_start_pick(
    struct ftkit_ctx *ctx, uint64_t below, bool must, uint64_t *set, uint64_t *newest);

/* At the end of the search of a start: whether the beginning (set 0) is what was asked
 * for. The same on all ranks.  FTKIT_ERR_NOT_FOUND: the set of recover.start is nowhere.
 */
int ftk_start_check(const struct ftkit_ctx *ctx, uint64_t set);

/* A start has failed with rc and the thread's detail: tell `ftkit run` if every other
 * attempt would fail the same way. */
void ftk_start_failed(const struct ftkit_ctx *ctx, int rc);

/* The directory of the sets can be used, or an error that says how to mend that. */
int ftk_start_directory(const struct ftk_config *cfg);

#endif
