/* Rights of the files and directories that ftkit makes, and trust in those that it finds.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A directory of sets, or of event logs, has the rights that context.access says.  What is made in
 * a directory has the rights of the directory, whatever the umask is: so the owner, or a site, can
 * change them later by chmod.  Other users never get the right to write.  In a sticky directory,
 * such as /tmp, the rights say nothing about files: these are the owner's alone. */
#ifndef FTK_ACCESS_H
#define FTK_ACCESS_H

#include <sys/types.h>

enum ftk_access { FTK_ACCESS_OWNER, FTK_ACCESS_GROUP, FTK_ACCESS_ALL }; /* who may read */

/* The rights of a new directory: 0700, 0750 or 0755. */
mode_t ftk_access_rights(int access);

/* Make a directory in an open one, with its rights.  0 or an errno. */
int ftk_access_make_dir(int at, const char *name);
/* Make and open a file, which no file or link may replace, with the rights of its directory.
 * flags: O_WRONLY or O_RDWR.  A file descriptor, or -1 with errno. */
int ftk_access_make_file(int at, const char *name, int flags);
/* Set rights of an open file or directory that this process has made.  A file system that has no
 * rights is no error.  0 or an errno. */
int ftk_access_set(int fd, mode_t rights);

/* Whether a path is a link that another user has made, root excepted: 0, or ELOOP.  A path that
 * does not exist is no link. */
int ftk_access_link(const char *path);
/* Open a directory.  A link of another user is not followed (ELOOP).  A file descriptor, or -1 with
 * errno. */
int ftk_access_open_dir(const char *path);
/* Whether an open file can be written to: 0; EPERM: it is that of another user, or no regular file;
 * EMLINK: it has a second name, perhaps as a file that is not ftkit's. */
int ftk_access_own_file(int fd);

#endif
