/* The number of the next set: changed here only.
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

#endif
