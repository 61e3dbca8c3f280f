/* Contexts: the first and the last step of every public call (see context.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include "context.h"

#define ENDED "the context has ended: "

int ftk_done(struct ftkit_ctx *ctx, int rc)
{
    if (!ctx || rc >= 0 || (ctx->dead && strncmp(ctx->detail, ENDED, strlen(ENDED)) == 0))
        return rc;
    snprintf(ctx->detail, sizeof ctx->detail, "%s%.*s", ctx->dead ? ENDED : "",
        (int)(sizeof ctx->detail - sizeof ENDED), ftk_detail_text());
    if (ctx->dead && ctx->where == FTK_IN_LOOP && rc > FTKIT_ERR_CORRUPT)
        return FTKIT_ERR_ENDED;
    return rc;
}

void ftk_repair_flaw(struct ftkit_ctx *ctx, int rc)
{
    ctx->repair.local_error = rc;
    snprintf(ctx->repair.local_why, sizeof ctx->repair.local_why, "%s",
        rc == FTKIT_OK ? "" : ftk_detail_text());
}

int ftk_check_open(const struct ftkit_ctx *ctx, const char *call)
{
    if (!ctx)
        return ftk_fail(
            FTKIT_ERR_ARG, "%s: the context is NULL: it is not open, or closed already", call);
    return FTKIT_OK;
}

int ftk_check_ctx(const struct ftkit_ctx *ctx, const char *call)
{
    int rc = ftk_check_open(ctx, call);
    return rc == FTKIT_OK && ctx->dead ? ftk_fail(FTKIT_ERR_ENDED, "%s", ctx->detail) : rc;
}

void ftk_bound_set(const struct ftk_bound *b, MPI_Comm comm)
{
    if (b->fortran)
        *b->fortran = MPI_Comm_c2f(comm);
    else
        *b->c = comm;
}
