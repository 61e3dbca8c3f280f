/* Directories on the file system of all nodes, in which all ranks of a job write files together.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *     <dir>/<context>.ftkit/joint/<id in 16 hex digits>.<region>
 *
 * Rank 0 makes a directory for each attempt to write files, and for each restore, and hands out its
 * number.  No number comes twice, so what an earlier attempt, or a process that was given up, still
 * writes is in another directory.  Nothing in them is state: the sets have the bytes.  So the owner
 * of the sets (owner.h) may remove all that it does not use. */
#ifndef FTK_STORE_JOINT_DIR_H
#define FTK_STORE_JOINT_DIR_H

#include "core/ftk.h"

#define FTK_JOINT_DIR "joint"
#define FTK_JOINT_PATH_MAX 1100 /* bytes of a path that is handed out, NUL included */

struct ftk_joint {
    const char *dir, *context, *region; /* borrowed */
};

/* Asks whether this process is the owner of the sets; FTKIT_OK: it is. */
typedef int ftk_joint_still_fn(void *arg);

/* The path of a directory.  FTKIT_ERR_SIZE: it is too long. */
int ftk_joint_path(const struct ftk_joint *j, uint64_t id, char path[FTK_JOINT_PATH_MAX]);

/* Make an empty directory.  *id: its number, from 1 to INT64_MAX - 1.  The directory of the context
 * is there.  FTKIT_ERR_IO, FTKIT_ERR_NOSPACE. */
int ftk_joint_make(const struct ftk_joint *j, uint64_t *id);

/* Whether this process sees the directory.  FTKIT_ERR_IO: it does not. */
int ftk_joint_look(const struct ftk_joint *j, uint64_t id);

/* Remove the directories of the region but that with the number keep.  Asks `still` when it knows
 * what it is going to remove, and then removes nothing else.  region NULL: those of all regions.
 * *n: how many there were; only_count: none is removed. */
int ftk_joint_sweep(const struct ftk_joint *j, uint64_t keep, ftk_joint_still_fn *still, void *arg,
    bool only_count, size_t *n);

/* Remove a directory, and the directory above if it is empty then.  id 0: only the latter. */
int ftk_joint_remove(const struct ftk_joint *j, uint64_t id);

#endif
