/* Regions of joint files, which all ranks write together (docs/design/own-files.md).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_FILES_JOINT_H
#define FTK_FILES_JOINT_H

#include "core/context.h"

struct ftk_region;
struct ftk_joint_files;

/* The joint files of a region; NULL: the region is another one. */
struct ftk_joint_files *ftk_joint_of(const struct ftk_region *r);

/* ftkit_files_begin(), ftkit_files_end() and ftkit_files_read() of joint files.  Collective; all
 * ranks return the same code, unless that is FTKIT_ERR_PEER. */
int ftk_joint_begin(struct ftk_joint_files *f, char *dir, size_t room);
int ftk_joint_end(struct ftk_joint_files *f, bool ok);
int ftk_joint_read(struct ftk_joint_files *f, char *dir, size_t room);

/* As the functions of files.h, for one region. */
void ftk_joint_given_up(struct ftk_joint_files *f);
void ftk_joint_committed(struct ftk_joint_files *f);
void ftk_joint_close(struct ftk_joint_files *f);
/* The line is of another number of ranks: ftkit_files_read() takes its files from there. */
void ftk_joint_restore_others(struct ftk_joint_files *f);

#endif
