/* Without ULFM there is no message log (see log_ops.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "log_ops.h"

int ftk_log_open(struct ftkit_ctx *ctx, ftk_log_repair_fn *repair)
{
    (void)repair;
    if (ctx->cfg.log_enabled)
        ftk_report(
            FTKIT_WARNING, "context %s: log.enabled has no effect in this job", ctx->cfg.name);
    return FTKIT_OK;
}
