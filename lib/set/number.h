/* Numbers of sets, and of the run that they are of: changed here only.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_NUMBER_H
#define FTK_NUMBER_H

#include "core/context.h"

/* The next set gets this number. */
static inline void ftk_set_number(struct ftkit_ctx *ctx, uint64_t next)
{
    ctx->next_set = next;
}

/* The number of a set is not used again. */
static inline void ftk_set_number_past(struct ftkit_ctx *ctx, uint64_t set)
{
    if (ctx->next_set <= set)
        ctx->next_set = set + 1;
}

/* The newest set that is known to be committed on every rank; to be complete in files. */
static inline void ftk_set_number_committed(struct ftkit_ctx *ctx, uint64_t set)
{
    ctx->committed = set;
}
static inline void ftk_set_number_durable(struct ftkit_ctx *ctx, uint64_t set)
{
    ctx->durable = set;
}

/* The regions are restored to the set. */
static inline void ftk_set_number_restored(struct ftkit_ctx *ctx, uint64_t set)
{
    ctx->restored = set;
}

/* The number of the run that began the sequence of sets. */
static inline void ftk_set_number_run(struct ftkit_ctx *ctx, uint64_t run)
{
    ctx->run = run;
}

#endif
