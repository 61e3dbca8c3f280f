/* Errands of a context: the one way to the thread that does them.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_ERRAND_H
#define FTK_ERRAND_H

#include "core/context.h"
#include "store/behind.h"

/* Let the thread of the context do an errand: ftk_behind_do(). */
static inline bool ftk_flush_errand(struct ftkit_ctx *ctx, struct ftk_errand *e, double wait_s)
{
    return ftk_behind_do(&ctx->flush.behind, e, wait_s);
}

#endif
