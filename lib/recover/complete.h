/* Completing a set in memory outside of a repair.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_COMPLETE_H
#define FTK_COMPLETE_H

#include "plan.h"

/* Return the rules for completing a set of a level outside of a repair. */
struct ftk_plan_rules ftk_plan_rules_of(const struct ftkit_ctx *ctx, const struct ftk_level *l);

/* Take a census of level.memory and make a plan from it, outside of a repair.  The caller frees p,
 * also after an error.  Collective over act.  An error that does not break the channel is of this
 * rank alone. */
int ftk_plan_again(struct ftkit_ctx *ctx, struct ftk_chan *ch, struct ftk_plan *p);
/* Make the line of the plan whole in mem: transfer, then rebuild.  Collective over ch; after an
 * error the channel is broken, so that no rank waits. */
int ftk_complete(
    struct ftkit_ctx *ctx, struct ftk_mem *mem, struct ftk_chan *ch, const struct ftk_plan *p);

#endif
