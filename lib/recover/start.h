/* The sets from which a start may continue: recover.start, identity, sets that cannot be used.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A start takes the newest usable set, or exactly the set of recover.start.  It reports sets that
 * cannot be used.  If there are sets and none can be used, the start fails: to begin from the
 * initial state would hide the loss of all sets. */
#ifndef FTK_START_H
#define FTK_START_H

#include "core/context.h"

/* Set the number of the context's run, before the context looks for sets. */
void ftk_start_begin(struct ftkit_ctx *ctx);

/* Return whether this context may use a set, by recover.start and the run of the set.  A repair may
 * use only sets of its own run. */
bool ftk_start_may_use(const struct ftkit_ctx *ctx, uint64_t set, uint64_t run);

/* Find the newest set on the file system with a number below `below` (0: any number) that may be
 * used.  *set: its number; 0: none.  *newest: the highest number of all sets.  On rank 0 only.
 * Reports newer sets that cannot be used.  must, with below 0: if a start finds sets and none can
 * be used, the error is that of the newest: FTKIT_ERR_CORRUPT, FTKIT_ERR_FORMAT or FTKIT_ERR_IO.
 * A set of another program is FTKIT_ERR_FORMAT. */
int ftk_start_pick(
    struct ftkit_ctx *ctx, uint64_t below, bool must, uint64_t *set, uint64_t *newest);

/* Check the set that a start has found (0: none) against recover.start.  The same on all ranks.
 * FTKIT_ERR_NOT_FOUND: recover.start names a set, and no set was found. */
int ftk_start_check(const struct ftkit_ctx *ctx, uint64_t set);

/* The run of this context has finished: all ranks are in ftkit_close(), and ended well.  Rank 0
 * marks it (store/finished.h), and waits some seconds for the file system.  An error is
 * reported. */
void ftk_start_mark(struct ftkit_ctx *ctx);

/* The loop of this start may begin, from a set or from the initial state: rank 0 has the argument
 * files read, and the mark of an earlier run removed, by an errand.  Only the first call counts. */
void ftk_start_began(struct ftkit_ctx *ctx);
/* Free what ftk_start_began() keeps. */
void ftk_start_forget(struct ftkit_ctx *ctx);

/* Check a set of a run that a start has found (0: none) against the mark of the run.  On rank 0;
 * other ranks get FTKIT_OK.  FTKIT_ERR_FORMAT: the run has finished, and this start has other
 * arguments or argument files.  Not with a set or a word other than newest in recover.start, and
 * not in a relaunch by the same `ftkit run`. */
int ftk_start_finished(struct ftkit_ctx *ctx, uint64_t run, uint64_t set, bool from_files);

/* A start has failed with rc and the thread's detail: write the mark `hopeless` for `ftkit run` if
 * every relaunch would fail in the same way.  Rank 0 writes it. */
void ftk_start_failed(const struct ftkit_ctx *ctx, int rc);

/* Check that sets can be written to the directory.  FTKIT_ERR_IO, FTKIT_ERR_CONFIG: the detail
 * names the remedy. */
int ftk_start_directory(const struct ftk_config *cfg);

#endif
