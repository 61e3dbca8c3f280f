/* Writers of struct ftk_repair_state for other files: the fields that several modules change are
 * changed here only.  docs/design/core.md has the owners of the other fields.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_REPAIR_STATE_H
#define FTK_REPAIR_STATE_H

#include <stdlib.h>

#include "context.h"

/* ---- facts for the next census ---------------------------------------------------------- */

/* Whose regions differ from those of other replicas of this rank. */
static inline void ftk_repair_differ(struct ftkit_ctx *ctx, enum ftk_differs differs)
{
    ctx->repair.differs = differs;
}

/* It is not known which messages of a lost rank have come: all ranks have to roll back. */
static inline void ftk_repair_ambiguous(struct ftkit_ctx *ctx)
{
    ctx->repair.ambiguous = true;
}

/* A spawn has failed.  again: the error would come again. */
static inline void ftk_repair_spawn_failed(struct ftkit_ctx *ctx, bool again)
{
    ctx->repair.spawn_failed = again ? FTK_SPAWNS : ctx->repair.spawn_failed + 1;
}

/* A spawn has worked. */
static inline void ftk_repair_spawn_works(struct ftkit_ctx *ctx)
{
    ctx->repair.spawn_failed = 0;
}

/* A new epoch begins: the census of the last repair is over. */
static inline void ftk_repair_new_epoch(struct ftkit_ctx *ctx)
{
    ftk_repair_flaw(ctx, FTKIT_OK);
    ctx->repair.ambiguous = false;
    ctx->repair.differs = FTK_DIFFERS_NOT;
    ctx->repair.spawn_failed = 0;
}

/* ---- the history of repairs ---------------------------------------------------------------- */

/* Repairs in a row to the same set; the same on all ranks. */
static inline void ftk_repair_repeats(struct ftkit_ctx *ctx, const struct ftk_repeats *repeats)
{
    ctx->repair.repeats = *repeats;
}

/* A set is committed: the history begins anew. */
static inline void ftk_repair_set_committed(struct ftkit_ctx *ctx)
{
    ctx->repair.repeats = (struct ftk_repeats){ 0 };
    ctx->repair.corrupt = 0;
}

/* A further segment of this rank is damaged.  Return how many since the last set. */
static inline int ftk_repair_damaged(struct ftkit_ctx *ctx)
{
    return ++ctx->repair.corrupt;
}

/* This rank gives up the set in memory; 0: none any more. */
static inline void ftk_repair_give_up(struct ftkit_ctx *ctx, uint64_t set)
{
    ctx->repair.unusable = set;
}

/* ---- the line ------------------------------------------------------------------------------ */

/* What the next restore has to do. */
static inline void ftk_repair_pending(struct ftkit_ctx *ctx, int pending)
{
    ctx->repair.pending = pending; /* enum ftk_pending */
}

/* The line, and where this rank's segment of it was found: a rank, or enum ftk_line_from. */
static inline void ftk_repair_line(struct ftkit_ctx *ctx, uint64_t set, int from)
{
    ctx->repair.line = set;
    ctx->repair.line_from = from;
}

/* So many ranks wrote the line. */
static inline void ftk_repair_line_ranks(struct ftkit_ctx *ctx, int nranks)
{
    ctx->repair.line_nranks = nranks;
}

/* The rank that has each segment of the line: takes source. */
static inline void ftk_repair_line_source(struct ftkit_ctx *ctx, int *source)
{
    free(ctx->repair.line_source);
    ctx->repair.line_source = source;
}

/* Whether the line has to be loaded from slots or files. */
static inline void ftk_repair_line_in_file(struct ftkit_ctx *ctx, bool in_file)
{
    ctx->repair.line_from_file = in_file;
}

#endif
