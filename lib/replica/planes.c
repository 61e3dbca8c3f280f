/* Planes at the opening of a context (see planes.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "planes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "core/hash.h"

int ftk_planes_check(const struct ftkit_ctx *ctx, int size)
{
    const struct ftk_config *c = &ctx->cfg;
    const int working = size - c->spares;
    if (c->replicas > 1 && ctx->mode == FTKIT_MODE_RESTART)
        return ftk_fail(FTKIT_ERR_UNSUPPORTED,
            "replicas.count = %d needs a job that repairs: an MPI with ULFM, and ftkit run",
            c->replicas);
    if (working % c->replicas == 0)
        return FTKIT_OK;
    return ftk_fail(FTKIT_ERR_CONFIG,
        "replicas.count = %d: %d processes without %d spare%s are %d, which is no multiple of %d: "
        "start ranks * %d + spares processes",
        c->replicas, size, c->spares, FTK_S(c->spares), working, c->replicas, c->replicas);
}

uint64_t ftk_planes_identity(const struct ftkit_ctx *ctx, uint64_t home)
{
    const int planes = ctx->cfg.replicas;
    return planes == 1 || home == 0 ? home : ftk_xxh3_seed(&planes, sizeof planes, home) | 2;
}

static bool has_several_nodes(const struct ftkit_ctx *ctx)
{
    for (int r = 1; r < ctx->nranks; r++)
        if (ctx->domain[r] != ctx->domain[0])
            return true;
    return false;
}

/* Whether a replica shares its node with one of a lower plane. */
static bool shares_node(const struct ftkit_ctx *ctx, int rank)
{
    for (int q = rank - ftk_plane_size(ctx); q >= 0; q -= ftk_plane_size(ctx))
        if (ctx->domain[q] == ctx->domain[rank])
            return true;
    return false;
}

/* The number of replicas that share a node with another one of their rank, in a job with several
 * nodes: with all on one node its loss is that of the job anyway.  *rank: one such rank of the
 * program. */
static int count_shared(const struct ftkit_ctx *ctx, int *rank)
{
    int n = 0;
    if (!has_several_nodes(ctx))
        return 0;
    for (int r = ftk_plane_size(ctx); r < ctx->nranks; r++)
        if (shares_node(ctx, r) && n++ == 0)
            *rank = ftk_plane_home(ctx, r);
    return n;
}

int ftk_planes_degraded(const struct ftkit_ctx *ctx)
{
    const bool several = has_several_nodes(ctx);
    int n = 0;
    for (int r = 0; ctx->cfg.replicas > 1 && r < ctx->nranks; r++)
        n += (ctx->replica.stale >> ftk_plane_of(ctx, r) & 1) || (several && shares_node(ctx, r));
    return n;
}

void ftk_planes_repaired(struct ftkit_ctx *ctx, bool reports)
{
    int rank = 0;
    const int had = ctx->replica.shared;
    ctx->replica.shared = ctx->cfg.replicas > 1 ? count_shared(ctx, &rank) : 0;
    if (reports && ctx->replica.shared > had)
        ftk_report(FTKIT_WARNING,
            "context %s: degraded: since this repair %d replica%s %s a node with another one of "
            "the same rank, such as rank %d: spares on other nodes would prevent this",
            ctx->cfg.name, ctx->replica.shared, FTK_S(ctx->replica.shared),
            ctx->replica.shared == 1 ? "shares" : "share", rank);
}

static int look_at_nodes(const struct ftkit_ctx *ctx)
{
    static const char text[] =
        "the replicas of rank %d share a node, so the loss of that node is the loss of the rank: "
        "start the processes so that each plane of %d ranks has nodes of its own";
    int shared;
    const int n = ftk_plane_size(ctx);
    if (count_shared(ctx, &shared) == 0)
        return FTKIT_OK;
    if (ctx->cfg.ranks_per_node > 0)
        return ftk_fail(FTKIT_ERR_CONFIG, text, shared, n);
    if (ctx->rank == 0)
        ftk_report(FTKIT_WARNING, text, shared, n);
    return FTKIT_OK;
}

static int silence(void)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null < 0)
        return ftk_fail_errno(errno, "/dev/null");
    int rc = fflush(stdout) == 0 && dup2(null, STDOUT_FILENO) >= 0
                 ? FTKIT_OK
                 : ftk_fail_errno(errno, "replicas.output");
    if (close(null) != 0 && rc == FTKIT_OK)
        rc = ftk_fail_errno(errno, "/dev/null");
    return rc;
}

int ftk_planes_open(const struct ftkit_ctx *ctx, bool fresh)
{
    if (ctx->cfg.replicas == 1)
        return FTKIT_OK;
    int rc = fresh ? look_at_nodes(ctx) : FTKIT_OK;
    if (rc == FTKIT_OK && fresh && ctx->rank == 0)
        ftk_report(FTKIT_INFO,
            "context %s: %d planes of %d rank%s; their regions %sare compared at each set",
            ctx->cfg.name, ctx->cfg.replicas, ftk_plane_size(ctx), FTK_S(ftk_plane_size(ctx)),
            ctx->cfg.replica_compare == FTK_COMPARED_MESSAGES ? "and messages " : "");
    if (rc == FTKIT_OK && ftk_plane_of(ctx, ctx->rank) > 0
        && ctx->cfg.replica_output == FTK_OUTPUT_FIRST)
        rc = silence();
    return rc;
}
