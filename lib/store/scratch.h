/* Directories on the node's memory file system, in which a process and its program pass files to
 * each other.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A process locks its directory (flock), and the lock ends with the process.  So a directory that
 * can be locked belongs to no living process, and any process of the user may remove it: nothing in
 * it is needed. */
#ifndef FTK_STORE_SCRATCH_H
#define FTK_STORE_SCRATCH_H

#include "core/ftk.h"

#define FTK_SCRATCH_PREFIX "ftkit-files-"
#define FTK_SCRATCH_PARENT "/dev/shm"

struct ftk_scratch {
    char path[FTK_PATH_MAX + 64];
    int fd; /* of the directory, with the lock; -1: there is none */
};

/* Make an empty directory below parent ("": FTK_SCRATCH_PARENT), and remove those of ended
 * processes there.  FTKIT_ERR_IO, FTKIT_ERR_NOSPACE. */
int ftk_scratch_make(const char *parent, struct ftk_scratch *s);

/* Remove all that is in the directory.  FTKIT_ERR_IO. */
int ftk_scratch_empty(const struct ftk_scratch *s);

/* Whether the file system of the directory has no room for another file, or for a page. */
bool ftk_scratch_full(const struct ftk_scratch *s);

/* Remove the directory.  No directory, or one that is gone: nothing. */
void ftk_scratch_remove(struct ftk_scratch *s);

/* Remove the directories of ended processes below parent. */
void ftk_scratch_sweep(const char *parent);

#endif
