/* Communicators of earlier epochs (see epoch.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "epoch.h"
#include "grow.h"
#include "mpi_shim.h"

static int add(struct ftk_comm_list *list, MPI_Comm comm)
{
    if (comm == MPI_COMM_NULL)
        return FTKIT_OK;
    if (!ftk_grow_by_one(&list->comm, (size_t)list->n, sizeof(MPI_Comm)))
        return ftk_fail(FTKIT_ERR_NOMEM, "list of communicators");
    list->comm[list->n++] = comm;
    return FTKIT_OK;
}

int ftk_retire(struct ftkit_ctx *ctx, MPI_Comm comm)
{
    return add(&ctx->retired.ours, comm);
}

int ftk_retire_app(struct ftkit_ctx *ctx, MPI_Comm comm)
{
    return add(&ctx->retired.app, comm);
}

bool ftk_was_app(const struct ftkit_ctx *ctx, MPI_Comm comm)
{
    for (int i = 0; i < ctx->retired.app.n; i++)
        if (ctx->retired.app.comm[i] == comm)
            return true;
    return false;
}

void ftk_free_retired(struct ftkit_ctx *ctx)
{
    struct ftk_comm_list *list = &ctx->retired.ours;
    for (int i = 0; i < ctx->retired.older; i++)
        ftk_mpi_free(&list->comm[i]);
    list->n -= ctx->retired.older;
    memmove(list->comm, list->comm + ctx->retired.older, (size_t)list->n * sizeof *list->comm);
    ctx->retired.older = list->n;
}

static void free_all(struct ftk_comm_list *list)
{
    for (int i = 0; i < list->n; i++)
        ftk_mpi_free(&list->comm[i]);
    free(list->comm);
    *list = (struct ftk_comm_list){ 0 };
}

void ftk_free_all_retired(struct ftkit_ctx *ctx)
{
    free_all(&ctx->retired.ours);
    free_all(&ctx->retired.app);
    ctx->retired.older = 0;
}
