/* Without ULFM there is no message log (see log/hooks.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "log/hooks.h"

bool ftk_log_of(const struct ftkit_ctx *ctx)
{
    (void)ctx;
    return false;
}

int ftk_log_open(struct ftkit_ctx *ctx)
{
    if (ctx->cfg.log_enabled)
        ftk_report(FTKIT_WARNING, "context %s: log.enabled has no effect in this job",
            ctx->cfg.name);
    return FTKIT_OK;
}

int ftk_log_start(struct ftkit_ctx *ctx)
{
    (void)ctx;
    return FTKIT_OK;
}

void ftk_log_close(struct ftkit_ctx *ctx)
{
    (void)ctx;
}

const char *ftk_log_call(const struct ftkit_ctx *ctx)
{
    (void)ctx;
    return "an MPI call";
}

void ftk_log_stats(const struct ftkit_ctx *ctx, ftkit_info *info)
{
    (void)ctx;
    (void)info;
}

int ftk_log_matrix(struct ftkit_ctx *ctx, struct ftk_chan *ch)
{
    (void)ctx;
    (void)ch;
    return FTKIT_OK;
}

MPI_Comm ftk_log_comm(const struct ftkit_ctx *ctx)
{
    (void)ctx;
    return MPI_COMM_NULL;
}

int ftk_log_context_of(MPI_Comm comm)
{
    (void)comm;
    return -1;
}

int ftk_log_comm_back(int context, MPI_Comm *comm)
{
    (void)context;
    *comm = MPI_COMM_NULL;
    return FTKIT_OK;
}

const int *ftk_log_teams(const struct ftkit_ctx *ctx)
{
    (void)ctx;
    return NULL;
}

int ftk_log_share_teams(struct ftkit_ctx *ctx, MPI_Comm s, int root, int n)
{
    (void)ctx;
    (void)s;
    (void)root;
    (void)n;
    return FTKIT_OK;
}

int ftk_log_search(struct ftkit_ctx *ctx, MPI_Comm s, const int *lost, int n, bool *all)
{
    (void)ctx;
    (void)s;
    (void)lost;
    (void)n;
    *all = false;
    return FTKIT_OK;
}

void ftk_log_keep_going(const struct ftkit_ctx *ctx)
{
    (void)ctx;
}

int ftk_log_settle(struct ftkit_ctx *ctx, const struct ftk_log_repair *r)
{
    (void)ctx;
    (void)r;
    return FTKIT_OK;
}

int ftk_log_discard(struct ftkit_ctx *ctx)
{
    (void)ctx;
    return FTKIT_OK;
}

int ftk_log_install(struct ftkit_ctx *ctx, const struct ftk_log_repair *r)
{
    (void)ctx;
    (void)r;
    return FTKIT_OK;
}

bool ftk_log_replayed(struct ftkit_ctx *ctx, int *code)
{
    (void)ctx;
    (void)code;
    return false;
}

int ftk_log_outcome(struct ftkit_ctx *ctx, int code)
{
    (void)ctx;
    return code;
}

bool ftk_log_falls(const struct ftkit_ctx *ctx)
{
    (void)ctx;
    return false;
}

void ftk_log_restored(struct ftkit_ctx *ctx, uint64_t set)
{
    (void)ctx;
    (void)set;
}

int ftk_log_loaded(struct ftkit_ctx *ctx, int rc)
{
    (void)ctx;
    return rc;
}

bool ftk_log_inherited(const struct ftkit_ctx *ctx)
{
    (void)ctx;
    return false;
}

int64_t ftk_log_calls_left(const struct ftkit_ctx *ctx, bool emptied)
{
    (void)ctx;
    (void)emptied;
    return INT64_MAX;
}

int ftk_log_drain(struct ftkit_ctx *ctx, struct ftk_chan *ch)
{
    (void)ctx;
    (void)ch;
    return FTKIT_OK;
}

void ftk_log_committed(struct ftkit_ctx *ctx)
{
    (void)ctx;
}
