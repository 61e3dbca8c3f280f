/* What a context reports about itself when it opens.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_DESCRIBE_H
#define FTK_DESCRIBE_H

#include "core/context.h"

/* Warn if failures are not repaired in this job.  repair: this rank could repair; else why not. */
void ftk_say_mode(const struct ftkit_ctx *ctx, bool repair, const char *why);
/* Report in one line the losses that the configuration survives. */
void ftk_say_plan(const struct ftkit_ctx *ctx);

#endif
