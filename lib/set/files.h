/* Regions of files: the program writes them, and a set has them (docs/design/own-files.md).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_FILES_H
#define FTK_FILES_H

#include "core/context.h"

/* A set is committed: remove the files that the program has given for it. */
void ftk_files_committed(struct ftkit_ctx *ctx);

#endif
