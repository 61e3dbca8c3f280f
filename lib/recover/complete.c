/* Completing a set in memory: a census, a plan and its transfers outside of a repair.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "complete.h"
#include "rebuild.h"
#include "transfer.h"

struct ftk_plan_rules ftk_plan_rules_of(const struct ftkit_ctx *ctx, const struct ftk_level *l)
{
    return (struct ftk_plan_rules){ .nranks = ctx->nranks,
        .map = l->map,
        .scheme = l->scheme,
        .files = true,
        .replicas = ctx->cfg.replicas };
}

int ftk_plan_again(struct ftkit_ctx *ctx, struct ftk_chan *ch, struct ftk_plan *p)
{
    const struct ftk_plan_rules rules = ftk_plan_rules_of(ctx, &ctx->level[FTK_LEVEL_MEMORY]);
    struct ftk_census census;
    *p = (struct ftk_plan){ .outcome = FTK_PLAN_FATAL, .flawed = -1 };
    int rc = ftk_census_take(ctx, &ctx->level[FTK_LEVEL_MEMORY].mem, ch->comm, &census);
    if (rc != FTKIT_OK)
        return ftk_chan_break(ch, MPI_ERR_OTHER, "census of a set in memory");
    rc = ftk_plan_make(&census, &rules, p);
    ftk_census_free(&census);
    return rc;
}

int ftk_complete(
    struct ftkit_ctx *ctx, struct ftk_mem *mem, struct ftk_chan *ch, const struct ftk_plan *p)
{
    ftk_plan_clear(p, mem);
    int rc = ftk_transfer(ctx, mem, ch, p);
    return rc == FTKIT_OK ? ftk_rebuild(ctx, mem, ch, p) : rc;
}
