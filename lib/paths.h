/* The paths of the configuration.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A relative path is below the working directory in which the context opens.  In a job of several
 * programs, which may have different ones, it is below that of the first process. */
#ifndef FTK_PATHS_H
#define FTK_PATHS_H

#include "core/context.h"

/* Make one path absolute; "" stays as it is.  FTKIT_ERR_ARG: it is too long; FTKIT_ERR_IO. */
int ftk_paths_absolute(const struct ftkit_ctx *ctx, char path[FTK_PATH_MAX]);
/* Make all paths absolute: a program may change its working directory, its sets stay in place.
 * FTKIT_ERR_ARG: a path is too long; FTKIT_ERR_IO. */
int ftk_paths_make_absolute(struct ftkit_ctx *ctx);
/* Begin to report: to standard error, and into the event log.  An error is reported. */
void ftk_paths_report(struct ftkit_ctx *ctx);

#endif
