/* Communicators of earlier epochs (see epoch.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "epoch.h"
#include "mpi_shim.h"

int ftk_retire(struct ftkit_ctx *ctx, MPI_Comm comm)
{
    if (comm == MPI_COMM_NULL)
        return FTKIT_OK;
    if (ctx->retired.n == ctx->retired.cap) {
        int cap = ctx->retired.cap ? 2 * ctx->retired.cap : 16;
        MPI_Comm *old = realloc(ctx->retired.comm, (size_t)cap * sizeof(MPI_Comm));
        if (!old)
            return ftk_fail(FTKIT_ERR_NOMEM, "list of communicators");
        ctx->retired.comm = old;
        ctx->retired.cap = cap;
    }
    ctx->retired.comm[ctx->retired.n++] = comm;
    return FTKIT_OK;
}

void ftk_free_retired(struct ftkit_ctx *ctx)
{
    for (int i = 0; i < ctx->retired.older; i++)
        ftk_mpi_free(&ctx->retired.comm[i]);
    ctx->retired.n -= ctx->retired.older;
    memmove(ctx->retired.comm, ctx->retired.comm + ctx->retired.older,
        (size_t)ctx->retired.n * sizeof *ctx->retired.comm);
    ctx->retired.older = ctx->retired.n;
}
