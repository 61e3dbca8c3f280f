/* What a context reports about itself when it opens.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_DESCRIBE_H
#define FTK_DESCRIBE_H

#include "core/context.h"

/* Warn if failures are not repaired in this job.  repair: this rank could repair; else why not. */
void ftk_say_mode(const struct ftkit_ctx *ctx, bool repair, const char *why);
/* Warn if the parent of this process is not the daemon of MPI but a script, which waits for it. */
void ftk_say_wrapper(const struct ftkit_ctx *ctx);
/* Report in one line the losses that the configuration survives. */
void ftk_say_plan(const struct ftkit_ctx *ctx);

/* The events "open" (and "config" of rank 0): this process has become a working rank. */
void ftk_describe_open(const struct ftkit_ctx *ctx);
/* The event "spare". */
void ftk_describe_spare(const struct ftkit_ctx *ctx);
/* The event "close".  Report it if the event log has ended early. */
void ftk_describe_close(const struct ftkit_ctx *ctx, int code);
/* The event "progress", when one is due. */
void ftk_describe_progress(const struct ftkit_ctx *ctx, double now_s);

#endif
