/* The directory of the sets of a context, <directory>/<context>.ftkit.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Every durable level uses this directory.  A set is the directory <word>-<number> in it, with the
 * word of its level and the number in ten digits.  The record of the owner (owner.h), the status
 * and the marks of a halt and of a finished run are there, too. */
#ifndef FTK_SETS_DIR_H
#define FTK_SETS_DIR_H

#include <sys/types.h>

#include "core/ftk.h"

#define FTK_SETS_DIR_NAME_MAX 32 /* bytes of the name of a set in the directory, NUL included */

/* FTKIT_ERR_NAME unless context can name a directory. */
int ftk_sets_dir_check(const char *context);
/* The path of the directory; a name of a set has room behind.  FTKIT_ERR_NAME, FTKIT_ERR_ARG. */
int ftk_sets_dir_path(const char *dir, const char *context, char path[FTK_PATH_MAX]);
/* Names of the contexts that have such a directory in dir, sorted, malloc'd. */
int ftk_sets_dir_contexts(const char *dir, char (**names)[FTKIT_NAME_MAX + 1], size_t *n);
/* Open the directory of a context: a file descriptor, or -1 with errno.  ELOOP: a link that another
 * user has made.  EPERM: another user has made the directory where all users may make one; a job
 * neither reads sets there nor writes them. */
int ftk_sets_dir_open(const char *dir, const char *context);
/* Allow this process such a directory: for commands, whose user names it. */
void ftk_sets_dir_of_any_user(void);
/* Make the directory of a context with these rights, unless it exists; its parent must exist.  0 or
 * an errno, also those of ftk_sets_dir_open(). */
int ftk_sets_dir_make(const char *dir, const char *context, mode_t rights);

/* The name of the directory of a set. */
void ftk_sets_dir_name(const char *word, uint64_t set, char name[FTK_SETS_DIR_NAME_MAX]);
/* Open the directory of a set, which is no link: a file descriptor, or -1 with errno. */
int ftk_sets_dir_open_set(const char *dir, const char *context, const char *word, uint64_t set);
/* Numbers of all sets of a word, complete or not, in any order, malloc'd.  *n may be 0, also when
 * the directory does not exist. */
int ftk_sets_dir_numbers(
    const char *dir, const char *context, const char *word, uint64_t **sets, size_t *n);
/* Wait until the name of a set that was made is durable. */
int ftk_sets_dir_sync(const char *dir, const char *context, uint64_t set);

#endif
