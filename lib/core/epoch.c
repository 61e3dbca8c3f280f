/* Communicators of earlier epochs (see epoch.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "epoch.h"

int ftk_retire(struct ftkit_ctx *ctx, MPI_Comm comm)
{
    if (comm == MPI_COMM_NULL)
        return FTKIT_OK;
    if (ctx->nold == ctx->old_cap) {
        int cap = ctx->old_cap ? 2 * ctx->old_cap : 16;
        MPI_Comm *old = realloc(ctx->old, (size_t)cap * sizeof(MPI_Comm));
        if (!old)
            return ftk_fail(FTKIT_ERR_NOMEM, "list of communicators");
        ctx->old = old;
        ctx->old_cap = cap;
    }
    ctx->old[ctx->nold++] = comm;
    return FTKIT_OK;
}

void ftk_free_retired(struct ftkit_ctx *ctx)
{
    for (int i = 0; i < ctx->nolder; i++)
        (void)MPI_Comm_free(&ctx->old[i]); /* nothing refers to it; an error frees less */
    ctx->nold -= ctx->nolder;
    memmove(ctx->old, ctx->old + ctx->nolder, (size_t)ctx->nold * sizeof *ctx->old);
    ctx->nolder = ctx->nold;
}
