/* Regions in memory of a device (see device.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * After an error in a kernel every call on the context of the device fails, so this process can
 * neither write a set nor restore one.  Nothing but the end of the process helps. */
#include "core/memory_kind.h"
#include "core/run_state.h"
#include "detect/fail_stop.h"
#include "detect/watchdog.h"
#include "device.h"
#include "region.h"
#include "store/memory.h"

int ftk_device_done(const struct ftkit_ctx *ctx, int rc)
{
    if (rc == FTKIT_OK || !ftk_memory_is_lost() || ctx->mode == FTKIT_MODE_RESTART
        || ctx->cfg.device_fault != FTK_DEVICE_REPLACE)
        return rc;
    ftk_report(FTKIT_ERROR,
        "context %s: rank %d ends, and is replaced (device.fault = replace): %s", ctx->cfg.name,
        ctx->rank, ftk_detail_text());
    ftk_fail_stop_die();
}

int ftkit_device_stream(ftkit_ctx *ctx, const char *region, void *stream)
{
    struct ftk_region *r = NULL;
    int rc = ftk_check_ctx(ctx, "ftkit_device_stream");
    if (rc == FTKIT_OK && !region)
        rc = ftk_fail(FTKIT_ERR_NAME, "ftkit_device_stream: no name");
    if (rc == FTKIT_OK && !(r = ftk_region_find(ctx, region)))
        rc = ftk_fail(FTKIT_ERR_NOT_FOUND, "no region '%s' is registered", region);
    const enum ftk_memory_kind kind =
        rc == FTKIT_OK ? ftk_memory_kind_of(ftk_region_data(r)) : FTK_MEMORY_HOST;
    if (rc == FTKIT_OK && ftk_memory_is_host(kind))
        rc = ftk_fail(FTKIT_ERR_ARG, "ftkit_device_stream: region '%s' is in host memory", region);
    if (rc == FTKIT_OK && stream)
        rc = ftk_memory_ops_of(kind)->check_stream(ftk_region_data(r), stream);
    if (r && (rc == FTKIT_OK || rc == FTKIT_ERR_STATE)) /* it is a stream: its capture ends later */
        r->stream = stream;
    return ftk_done(ctx, rc == FTKIT_ERR_STATE ? FTKIT_OK : rc);
}

void ftk_device_pin(const struct ftkit_ctx *ctx, struct ftk_mem_seg *s)
{
    for (int i = 0; ftk_memory_has_others() && i < ctx->regions.n; i++) {
        const struct ftk_region *r = &ctx->regions.list[i];
        if (ftk_memory_is_host(r->memory) || ftk_region_count(r) == 0)
            continue;
        ftk_mem_pin(s, r->memory, ftk_region_data(r));
        return;
    }
}

int ftk_device_look(const struct ftkit_ctx *ctx)
{
    if (!ftk_memory_has_others())
        return FTKIT_OK;
    ftk_watchdog_device(ctx->dog);
    return ftk_device_done(ctx, ftk_memory_check());
}
