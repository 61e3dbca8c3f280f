/* Contexts: the calls that do not belong to one module.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "binding.h"
#include "checkpoint.h"
#include "detect.h"
#include "log/hooks.h"
#include "region.h"
#include "store/h5.h"

#define ENDED "the context has ended: "

/* Once the context has ended its detail is the first cause, for good. */
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

int ftk_check_open(const struct ftkit_ctx *ctx, const char *call)
{
    if (!ctx)
        return ftk_fail(FTKIT_ERR_ARG,
            "%s: the context is NULL: it is not open, or closed already", call);
    return FTKIT_OK;
}

int ftk_check_ctx(const struct ftkit_ctx *ctx, const char *call)
{
    int rc = ftk_check_open(ctx, call);
    return rc == FTKIT_OK && ctx->dead ? ftk_fail(FTKIT_ERR_ENDED, "%s", ctx->detail) : rc;
}

void ftk_run_state(const char *fmt, ...)
{
    char line[512];
    const char *path = getenv("FTKIT_RUN_STATE");
    if (!path || !*path)
        return;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line - 1, fmt, ap);
    va_end(ap);
    n = n < (int)sizeof line - 2 ? n : (int)sizeof line - 2;
    line[n++] = '\n';
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    ssize_t done = fd >= 0 ? write(fd, line, (size_t)n) : -1;
    if (done != n)
        ftk_report(FTKIT_WARNING, "cannot write %s: ftkit run may not notice '%.60s'", path,
            line);
    if (fd >= 0)
        (void)close(fd); /* nothing to add to the warning above */
}

void ftk_run_process(const char *what, int world_rank)
{
    /* "prterun-host-4711@1": the number of mpirun's job, which is that of MPI_COMM_WORLD */
    const char *space = getenv("PMIX_NAMESPACE");
    const char *at = space ? strrchr(space, '@') : NULL;
    if (at)
        ftk_run_state("%s %s %d", what, at + 1, world_rank);
}

bool ftk_run_sees(void)
{
    const char *path = getenv("FTKIT_RUN_STATE");
    return path && access(path, W_OK) == 0;
}

void ftk_run_hopeless(int rc)
{
    /* what fixes the call or the data; an I/O error, or a job that still ends, may pass
     */
    bool same = (rc <= FTKIT_ERR_ARG && rc >= FTKIT_ERR_MISMATCH)
                || rc == FTKIT_ERR_CORRUPT || rc == FTKIT_ERR_FORMAT;
    if (same && ftk_run_sees())
        ftk_run_state("hopeless %s", ftk_detail_text());
}

MPI_Comm ftkit_comm(const ftkit_ctx *ctx)
{
    if (!ctx)
        return MPI_COMM_NULL;
    return ftk_log_of(ctx) ? ftk_log_comm(ctx) : ctx->comms.app;
}

void ftk_bound_set(const struct ftk_bound *b, MPI_Comm comm)
{
    if (b->fortran)
        *b->fortran = MPI_Comm_c2f(comm);
    else
        *b->c = comm;
}

static int bind_comm(ftkit_ctx *ctx, const struct ftk_bound *b)
{
    int rc = ftk_check_ctx(ctx, "ftkit_bind_comm");
    if (rc != FTKIT_OK)
        return rc;
    if (!b->c && !b->fortran)
        return ftk_done(ctx, ftk_fail(FTKIT_ERR_ARG, "ftkit_bind_comm: comm is NULL"));
    if (ctx->nbound == FTK_BOUND_MAX)
        return ftk_done(ctx, ftk_fail(FTKIT_ERR_STATE,
                                 "ftkit_bind_comm: at most %d variables", FTK_BOUND_MAX));
    ctx->bound[ctx->nbound++] = *b;
    ftk_bound_set(b, ftkit_comm(ctx));
    return FTKIT_OK;
}

int ftkit_bind_comm(ftkit_ctx *ctx, MPI_Comm *comm)
{
    return bind_comm(ctx, &(struct ftk_bound){ .c = comm });
}

int ftkit_binding_bind_comm(ftkit_ctx *ctx, MPI_Fint *comm)
{
    return bind_comm(ctx, &(struct ftk_bound){ .fortran = comm });
}

int ftkit_binding_fail(
    ftkit_ctx *ctx, const char *file, int line, int code, const char *text)
{
    return ftk_done(ctx, ftk_fail_at(file, line, code, "%s", text));
}

int ftkit_failed(const ftkit_ctx *ctx)
{
    return ctx && (ctx->failed || ftk_log_falls(ctx));
}

int ftkit_confirm(ftkit_ctx *ctx)
{
    return ctx && ftk_detect_confirm(ctx);
}

int ftkit_abort(MPI_Comm comm, int code)
{
    ftk_detect_abort("ftkit_abort", code);
    return MPI_Abort(comm, code);
}

int ftkit_request(ftkit_ctx *ctx, int durable)
{
    int rc = ftk_check_ctx(ctx, "ftkit_request");
    if (rc == FTKIT_OK && durable && !ctx->cfg.h5_enabled)
        rc = ftk_fail(FTKIT_ERR_UNSUPPORTED, "level.hdf5.enabled is false");
    if (rc == FTKIT_OK)
        ctx->requested = durable ? 2 : 1;
    return ftk_done(ctx, rc);
}

int ftkit_on_repair(ftkit_ctx *ctx, ftkit_repair_fn *fn, void *arg)
{
    int rc = ftk_check_ctx(ctx, "ftkit_on_repair");
    if (rc != FTKIT_OK)
        return rc;
    if (ctx->where >= FTK_IN_LOOP)
        return ftk_done(ctx, ftk_fail(FTKIT_ERR_STATE,
                                 "ftkit_on_repair after ftkit_recover: a replacement "
                                 "would not know the callback"));
    ctx->repair_fn = fn;
    ctx->repair_arg = arg;
    return FTKIT_OK;
}

int ftkit_track_comm(ftkit_ctx *ctx, MPI_Comm comm)
{
    int rc = ftk_check_ctx(ctx, "ftkit_track_comm");
    if (rc == FTKIT_OK && comm == MPI_COMM_NULL)
        rc = ftk_fail(FTKIT_ERR_ARG, "ftkit_track_comm: MPI_COMM_NULL");
    if (rc == FTKIT_OK)
        rc = ftk_detect_track(ctx, comm);
    return ftk_done(ctx, rc);
}

int ftkit_untrack_comm(ftkit_ctx *ctx, MPI_Comm comm)
{
    int rc = ftk_check_ctx(ctx, "ftkit_untrack_comm");
    if (rc == FTKIT_OK)
        rc = ftk_detect_untrack(ctx, comm);
    return ftk_done(ctx, rc);
}

int ftkit_query(const ftkit_ctx *ctx, ftkit_info *info)
{
    int rc = ftk_check_open(ctx, "ftkit_query");
    if (rc == FTKIT_OK && (!info || info->size < sizeof info->size))
        rc = ftk_fail(FTKIT_ERR_ARG, "ftkit_query: info is NULL or its size is not set");
    if (rc != FTKIT_OK) /* contexts are never constant objects; only the text changes */
        return ftk_done((struct ftkit_ctx *)ctx, rc);
    /* contexts are never constant objects; what is new is only taken note of */
    uint64_t durable = ftk_flush_durable((struct ftkit_ctx *)ctx);
    ftkit_info all = { .size = info->size,
        .mode = ctx->mode,
        .rank = ctx->rank,
        .nranks = ctx->nranks,
        .nspares = ctx->nspares,
        .incarnation = ctx->incarnation,
        .repairs = ctx->repairs,
        .rollbacks = ctx->rollbacks,
        .flush_error = ctx->flush.last_error,
        .committed = ctx->committed,
        .durable = durable,
        .restored = ctx->restored,
        .region_bytes = ctx->region_bytes,
        .memory_bytes = ftk_mem_used(&ctx->mem),
        .checkpoint_s = ctx->checkpoint_s,
        .repair_s = ctx->repair_s,
        .repair_detect_s = ctx->detect_s,
        .repair_supply_s = ctx->supply_s,
        .repair_rebuild_s = ctx->rebuild_s,
        .repair_restore_s = ctx->restore_s,
        .flushing = ctx->flush.set,
        .flush_s = ctx->flush.last_s,
        .sent_bytes = ctx->increment.sent,
        .sent_total = ctx->increment.sent_total };
    ftk_log_stats(ctx, &all);
    /* a program built against an older header has a smaller struct */
    memcpy(info, &all, info->size < sizeof all ? info->size : sizeof all);
    return FTKIT_OK;
}

int ftkit_test(ftkit_ctx *ctx, uint64_t set, int *done)
{
    struct ftk_h5_manifest m = { 0 };
    int rc = ftk_check_open(ctx, "ftkit_test");
    if (rc != FTKIT_OK)
        return rc;
    if (!done || set == 0)
        return ftk_done(ctx, ftk_fail(FTKIT_ERR_ARG, "ftkit_test: done NULL or set 0"));
    rc = ftk_h5_open_set(ctx->cfg.h5_dir, ctx->cfg.name, set, false, &m);
    ftk_h5_manifest_free(&m);
    if (rc == FTKIT_OK || rc == FTKIT_ERR_NOT_FOUND) {
        *done = rc == FTKIT_OK;
        return FTKIT_OK;
    }
    return ftk_done(ctx, rc);
}

const char *ftkit_detail(const ftkit_ctx *ctx)
{
    return ctx ? ctx->detail : ftk_detail_text();
}
