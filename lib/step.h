/* Writers of struct ftk_loop for loop.c: the state of a loop with ftkit_step() is changed in step.c
 * and here only.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_STEP_H
#define FTK_STEP_H

#include "core/context.h"

/* The regions are the initial state, which the region "ftkit.step" belongs to. */
static inline void ftk_step_fresh(struct ftkit_ctx *ctx)
{
    ctx->loop.fresh = 1;
}

/* The regions have changed since the body was entered. */
static inline void ftk_step_changed(struct ftkit_ctx *ctx)
{
    ctx->loop.changed = true;
}

#endif
