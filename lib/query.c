/* Public calls that belong to no module: queries, bindings of variables, requests.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "core/binding.h"
#include "core/log_ops.h"
#include "detect/detect.h"
#include "detect/idle.h"
#include "energy/energy.h"
#include "replica/planes.h"
#include "set/checkpoint.h"
#include "set/course.h"
#include "set/flush.h"
#include "store/durable/sets.h"
#include "store/memory.h"

MPI_Comm ftkit_comm(const ftkit_ctx *ctx)
{
    return ctx ? ftk_program_comm(ctx) : MPI_COMM_NULL;
}

static int bind_comm(ftkit_ctx *ctx, const struct ftk_bound *b)
{
    int rc = ftk_check_ctx(ctx, "ftkit_bind_comm");
    if (rc != FTKIT_OK)
        return rc;
    if (!b->c && !b->fortran)
        return ftk_done(ctx, ftk_fail(FTKIT_ERR_ARG, "ftkit_bind_comm: comm is NULL"));
    if (ctx->nbound == FTK_BOUND_MAX)
        return ftk_done(
            ctx, ftk_fail(FTKIT_ERR_STATE, "ftkit_bind_comm: at most %d variables", FTK_BOUND_MAX));
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

int ftkit_binding_fail(ftkit_ctx *ctx, const char *file, int line, int code, const char *text)
{
    return ftk_done(ctx, ftk_fail_at(file, line, code, "%s", text));
}

#define VALUE_MAX 65536 /* bytes of ftkit_decide() */

int ftkit_decide(ftkit_ctx *ctx, void *data, size_t bytes)
{
    int rc = ftk_check_ctx(ctx, "ftkit_decide");
    if (rc == FTKIT_OK && !data && bytes > 0)
        rc = ftk_fail(FTKIT_ERR_ARG, "ftkit_decide: data is NULL");
    if (rc == FTKIT_OK && bytes > VALUE_MAX)
        rc = ftk_fail(FTKIT_ERR_SIZE, "ftkit_decide: %zu bytes, at most %d", bytes, VALUE_MAX);
    if (rc == FTKIT_OK)
        rc = ftk_log_decide(ctx, data, bytes);
    return ftk_done(ctx, rc);
}

int ftkit_share(ftkit_ctx *ctx, const void *buf, size_t bytes)
{
    int rc = ftk_check_ctx(ctx, "ftkit_share");
    if (rc == FTKIT_OK && (!buf || bytes == 0 || bytes - 1 > UINTPTR_MAX - (uintptr_t)buf))
        rc = ftk_fail(FTKIT_ERR_ARG, "ftkit_share: %zu bytes at %p", bytes, buf);
    if (rc == FTKIT_OK)
        rc = ftk_log_share(ctx, buf, bytes);
    return ftk_done(ctx, rc);
}

int ftkit_unshare(ftkit_ctx *ctx, const void *buf)
{
    int rc = ftk_check_ctx(ctx, "ftkit_unshare");
    if (rc == FTKIT_OK && !buf)
        rc = ftk_fail(FTKIT_ERR_ARG, "ftkit_unshare: buf is NULL");
    if (rc == FTKIT_OK)
        rc = ftk_log_unshare(ctx, buf);
    return ftk_done(ctx, rc);
}

int ftkit_failed(const ftkit_ctx *ctx)
{
    return ctx && (ctx->detect.failed || ftk_log_rolling_back(ctx));
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
        ftk_policy_request(ctx, durable ? 2 : 1);
    return ftk_done(ctx, rc);
}

int ftkit_on_repair(ftkit_ctx *ctx, ftkit_repair_fn *fn, void *arg)
{
    int rc = ftk_check_ctx(ctx, "ftkit_on_repair");
    if (rc != FTKIT_OK)
        return rc;
    if (ctx->where >= FTK_IN_LOOP)
        return ftk_done(
            ctx, ftk_fail(FTKIT_ERR_STATE, "ftkit_on_repair after ftkit_recover: a replacement "
                                           "would not know the callback"));
    ctx->callback.fn = fn;
    ctx->callback.arg = arg;
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

/* Cores that ranks leave free which wait for this one. */
static int idle_cores(const struct ftkit_ctx *ctx)
{
    return ftk_log_of(ctx) && ftk_course_lags(ctx) ? ftk_idle_cores(ctx->dog, ftk_now_s()) : 0;
}

int ftkit_query(const ftkit_ctx *ctx, ftkit_info *info)
{
    int rc = ftk_check_open(ctx, "ftkit_query");
    if (rc == FTKIT_OK && (!info || info->size < sizeof info->size))
        rc = ftk_fail(FTKIT_ERR_ARG, "ftkit_query: info is NULL or its size is not set");
    /* the casts below are valid, because a context is never a constant object */
    if (rc != FTKIT_OK)
        return ftk_done((struct ftkit_ctx *)ctx, rc);
    uint64_t durable = ftk_flush_durable((struct ftkit_ctx *)ctx);
    ftkit_info all = { .size = info->size,
        .mode = ctx->mode,
        .rank = ftk_plane_home(ctx, ctx->rank),
        .nranks = ftk_plane_size(ctx),
        .nspares = ctx->nspares,
        .incarnation = ctx->incarnation,
        .repairs = ctx->stats.repairs,
        .rollbacks = ctx->stats.rollbacks,
        .flush_error = ctx->flush.last_error,
        .committed = ctx->committed,
        .durable = durable,
        .restored = ctx->restored,
        .region_bytes = ctx->stats.region_bytes,
        .memory_bytes = ftk_mem_used(&ctx->level[FTK_LEVEL_MEMORY].mem),
        .checkpoint_s = ctx->stats.checkpoint_s,
        .repair_s = ctx->stats.repair_s,
        .repair_detect_s = ctx->stats.detect_s,
        .repair_supply_s = ctx->stats.supply_s,
        .repair_rebuild_s = ctx->stats.rebuild_s,
        .repair_restore_s = ctx->stats.restore_s,
        .replay_s = ctx->course.replay_s,
        .replay_forward_s = ctx->course.replay_forward_s,
        .replay_calls = ctx->course.replay_calls,
        .catch_up_s = ctx->course.catch_up_s,
        .idle_cores = idle_cores(ctx),
        .flushing = ctx->flush.set,
        .flush_s = ctx->flush.last_s,
        .sent_bytes = ctx->increment.sent,
        .sent_total = ctx->increment.sent_total,
        .plane = ftk_plane_of(ctx, ctx->rank),
        .nplanes = ctx->cfg.replicas,
        .sdc_found = ctx->replica.found,
        .sdc_corrected = ctx->replica.corrected,
        .takeovers = ctx->replica.takeovers,
        .clones = ctx->replica.clones,
        .degraded = (uint64_t)ftk_planes_degraded(ctx),
        .joules = ftk_energy_joules(ctx),
        .program = ctx->programs.own,
        .nprograms = ftk_programs_count(&ctx->programs) };
    ftk_log_stats(ctx, &all);
    /* a program built against an older header has a smaller struct */
    memcpy(info, &all, info->size < sizeof all ? info->size : sizeof all);
    return FTKIT_OK;
}

int ftkit_test(ftkit_ctx *ctx, uint64_t set, int *done)
{
    struct ftk_manifest m = { 0 };
    int rc = ftk_check_open(ctx, "ftkit_test");
    if (rc != FTKIT_OK)
        return rc;
    if (!done || set == 0)
        return ftk_done(ctx, ftk_fail(FTKIT_ERR_ARG, "ftkit_test: done NULL or set 0"));
    rc = ftk_sets_open(ctx->cfg.h5_dir, ctx->cfg.name, set, &m);
    ftk_manifest_free(&m);
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
