/* Directories with all that is below them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * No link is followed, so nothing outside of a directory is touched. */
#ifndef FTK_STORE_TREE_H
#define FTK_STORE_TREE_H

#include "core/ftk.h"

/* Open a directory that is no link: a file descriptor, or -1 with errno. */
int ftk_tree_open(int at, const char *name);

/* Remove all that is in a directory: 0, or an errno.  point: the fault point of each removal, or
 * NULL. */
int ftk_tree_empty(int at, const char *name, const char *point);

/* Called with each name in a directory, and its facts: 0, or an errno, which ends the list. */
struct stat;
typedef int ftk_tree_fn(void *arg, int dir, const char *name, const struct stat *st);
/* Call fn for each name in a directory: 0, or an errno. */
int ftk_tree_each(int at, const char *name, ftk_tree_fn *fn, void *arg);

#endif
