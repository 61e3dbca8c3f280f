/* How far the program has come, for `ftkit run`.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The measure is the position: the number of calls of ftkit_checkpoint between the start of the
 * first attempt of a run and a state of the program.  The position of a set is the position of the
 * call that committed the set; a job that restores the set continues from this position.  So
 * `ftkit run` notices that a relaunch comes no further than earlier attempts, however many sets it
 * writes.
 *
 * Rank 0 keeps the position in a mapped file of the run (FTKIT_RUN_STATE names its directory): a
 * call costs two stores and a load, and the file outlives the process.  On a node that does not see
 * the directory no position is kept, and `ftkit run` counts durable sets.
 */
#ifndef FTK_PROGRESS_H
#define FTK_PROGRESS_H

#include <stdatomic.h>

#include "ftk.h"

#define FTK_PROGRESS_FILE "progress"
#define FTK_PROGRESS_SETS 256

struct ftk_progress {
    _Atomic uint64_t context;  /* hash of the name of the context that counts, 0: none yet */
    _Atomic uint64_t now;      /* position of the last call */
    _Atomic uint64_t furthest; /* of all calls of the run */
    /* Rank 0 stands still in the call of this position until `ftkit run` changes the value.  0: no
     * call. */
    _Atomic uint64_t hold;
    struct {
        _Atomic uint64_t set, at;
    } sets[FTK_PROGRESS_SETS]; /* index: number modulo the length; a newer set replaces */
};

struct ftkit_ctx;
/* Rank 0 has restored its regions to this set; 0: it is at the start of the program. */
void ftk_progress_restored(const struct ftkit_ctx *ctx, uint64_t set);
/* Rank 0 is a new process, and gets the state of its replica by this set: its position is the
 * furthest. */
void ftk_progress_cloned(const struct ftkit_ctx *ctx, uint64_t set);
/* Rank 0 is in a call of ftkit_checkpoint.  Returns when `ftkit run` lets it go on. */
void ftk_progress_call(const struct ftkit_ctx *ctx);
/* Rank 0 has committed the set in this call. */
void ftk_progress_set(const struct ftkit_ctx *ctx, uint64_t set);

#endif
