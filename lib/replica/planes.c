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

/* A rank of the program that has two replicas on one node; -1: there is none.  *several: the job
 * has more than one node. */
static int find_shared(const struct ftkit_ctx *ctx, bool *several)
{
    const int n = ftk_plane_size(ctx);
    int shared = -1;
    *several = false;
    for (int r = 0; r < ctx->nranks; r++) {
        *several = *several || ctx->domain[r] != ctx->domain[0];
        for (int q = r + n; q < ctx->nranks; q += n)
            if (shared < 0 && ctx->domain[q] == ctx->domain[r])
                shared = r % n;
    }
    return shared;
}

static int look_at_nodes(const struct ftkit_ctx *ctx)
{
    static const char text[] =
        "the replicas of rank %d share a node, so the loss of that node is the loss of the rank: "
        "start the processes so that each plane of %d ranks has nodes of its own";
    bool several;
    const int shared = find_shared(ctx, &several), n = ftk_plane_size(ctx);
    if (shared < 0 || !several)
        return FTKIT_OK; /* with all on one node its loss is that of the job anyway */
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
