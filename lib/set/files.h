/* Regions of files: the program writes them, and a set has them (docs/design/own-files.md).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_FILES_H
#define FTK_FILES_H

#include "core/context.h"

/* Whether the loop of the program suits its files; called in ftkit_recover(). */
int ftk_files_check_loop(struct ftkit_ctx *ctx);
/* A set is given up, or written again: empty the directories that the program does not use. */
void ftk_files_given_up(struct ftkit_ctx *ctx);
/* A set is committed: remove the files that the program has given for it. */
void ftk_files_committed(struct ftkit_ctx *ctx);

/* The context closes, and the job still owns the sets: remove what is on the file system of all
 * nodes. */
void ftk_files_close(struct ftkit_ctx *ctx);

struct ftk_region;
/* Whether the region has files of the program. */
bool ftk_files_are(const struct ftk_region *r);
/* ... which another number of ranks may restore (ftkit_files_any_ranks()). */
bool ftk_files_any_ranks(const struct ftk_region *r);
/* The line, which is on the file system, is of another number of ranks: from now on the program can
 * have the files of each.  Call its functions that read them. */
int ftk_files_restore_others(struct ftkit_ctx *ctx);

#endif
