/* The line of one number of ranks into the regions of another: after a shrink.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "recover.h"

int ftk_redistribute(struct ftkit_ctx *ctx)
{
    (void)ctx;
    return ftk_fail(FTKIT_ERR_UNSUPPORTED, "redistribution");
}
