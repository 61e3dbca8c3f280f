/* What a context reports about itself when it opens (see describe.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "describe.h"

void ftk_say_mode(const struct ftkit_ctx *ctx, bool repair, const char *why)
{
    if (ctx->mode == FTKIT_MODE_RESTART)
        ftk_report(FTKIT_WARNING,
            "context %s: failures are not repaired in this job, only by a restart: %s%s",
            ctx->cfg.name, repair ? "another rank has an unsafe environment" : why,
            getenv("FTKIT_RUN_ID") ? ""
                                   : " (ftkit run starts a program with all it needs: "
                                     "ftkit run -n RANKS --spares 1 -- PROGRAM)");
}

/* Whether the copies of each segment are on different nodes, and none on the node of its rank. */
static bool is_apart(const struct ftkit_ctx *ctx, const struct ftk_level *l)
{
    const int *holder = l->layout.holder, n = ctx->nranks;
    for (int i = 0; i < l->scheme->copies * n; i++) {
        if (holder[i] < 0 || ctx->domain[holder[i]] == ctx->domain[i % n])
            return false;
        for (int k = i % n; k < i; k += n)
            if (ctx->domain[holder[k]] == ctx->domain[holder[i]])
                return false;
    }
    return true;
}

static void say_copies(
    const struct ftkit_ctx *ctx, const struct ftk_level *l, char *text, size_t bytes)
{
    int copies = l->scheme->copies;
    char nodes[80] = "one process (the buddies share a node)";
    if (is_apart(ctx, l) && copies == 1)
        snprintf(nodes, sizeof nodes, "one node, and any nodes of which no two are buddies");
    else if (is_apart(ctx, l))
        snprintf(nodes, sizeof nodes, "%d nodes", copies);
    snprintf(text, bytes,
        "any %s; memory per rank: %d x the registered bytes, %d x while a set is committed", nodes,
        1 + copies, 2 + 2 * copies);
}

/* Write the losses that the parity groups survive, by the group of rank 0: the sizes of groups
 * differ by at most one. */
static void say_groups(
    const struct ftkit_ctx *ctx, const struct ftk_level *l, char *text, size_t bytes)
{
    const struct ftk_group *g = &l->layout.group;
    bool apart = true;
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t k = 0; k < i; k++)
            apart = apart && ctx->domain[g->rank[i]] != ctx->domain[g->rank[k]];
    double own = 1 + (double)g->m / (g->n - g->m);
    char m[12] = "one";
    if (g->m > 1)
        snprintf(m, sizeof m, "%u", g->m);
    snprintf(text, bytes,
        "any %s %s of a group of %u; memory per rank: %.2f x the registered bytes, %.2f x "
        "while a set is committed",
        m,
        apart       ? g->m == 1 ? "node" : "nodes"
        : g->m == 1 ? "process"
                    : "processes",
        g->n, own, 2 * own);
}

/* Report in one line the losses that the configuration survives. */
void ftk_say_plan(const struct ftkit_ctx *ctx)
{
    const struct ftk_level *l = &ctx->level[FTK_LEVEL_MEMORY];
    int alone = l->layout.alone;
    char survives[192] = "no loss of a process without files";
    if (ctx->rank != 0)
        return;
    if (l->scheme->copies > 0 && ctx->nranks > 1)
        say_copies(ctx, l, survives, sizeof survives);
    else if (l->layout.group.n > 1)
        say_groups(ctx, l, survives, sizeof survives);
    ftk_report(FTKIT_INFO, "context %s: %d rank%s, %d spare%s, %s; %s; memory survives %s",
        ctx->cfg.name, ctx->nranks, FTK_S(ctx->nranks), ctx->nspares, FTK_S(ctx->nspares),
        ctx->mode == FTKIT_MODE_RESTART ? "restart only"
        : ctx->mode == FTKIT_MODE_TEAM  ? "repair in the job by teams"
                                        : "repair in the job",
        ctx->cfg.h5_enabled ? "files survive the loss of the job" : "no files", survives);
    if (alone > 0)
        ftk_report(FTKIT_WARNING,
            "context %s: %d rank%s without a partner for parity on another node: lost data of "
            "these ranks come from files (use more nodes, or scheme = buddy)",
            ctx->cfg.name, alone, FTK_S(alone));
}
