/* Directories with all that is below them (see tree.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tree.h"

int ftk_tree_open(int at, const char *name)
{
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* List an open directory, which closedir() closes, also after an error; NULL with errno. */
static DIR *list(int fd)
{
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (d || fd < 0)
        return d;
    const int err = errno;
    (void)close(fd); /* nothing was written */
    errno = err;
    return NULL;
}

/* ---- removing ------------------------------------------------------------------------ */

/* Remove what is called name in an open directory; 0 or an errno. */
static int remove_one(int dir, const char *name, const char *point)
{
    int err = point ? FTK_FAULT(point) : 0;
    if (err)
        return err;
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return errno;
    err = ftk_tree_empty(dir, name, point);
    if (err == 0 && unlinkat(dir, name, AT_REMOVEDIR) != 0)
        err = errno;
    return err;
}

/* Open a directory so that names in it can be removed. */
static DIR *list_to_remove(int at, const char *name)
{
    int fd = ftk_tree_open(at, name);
    if (fd < 0 && errno == EACCES && fchmodat(at, name, 0700, AT_SYMLINK_NOFOLLOW) == 0)
        fd = ftk_tree_open(at, name);
    if (fd >= 0)
        (void)fchmod(fd, 0700); /* of another owner: removing fails, if it must */
    return list(fd);
}

int ftk_tree_empty(int at, const char *name, const char *point)
{
    const struct dirent *e;
    int err = 0, removed = 1;
    DIR *d = list_to_remove(at, name);
    if (!d)
        return errno;
    while (err == 0 && removed > 0) { /* removing may change what readdir() finds */
        removed = 0;
        rewinddir(d);
        while (err == 0 && (errno = 0, e = readdir(d)))
            if (!is_dots(e->d_name)) {
                err = remove_one(dirfd(d), e->d_name, point);
                removed++;
            }
        if (err == 0)
            err = errno;
    }
    (void)closedir(d); /* nothing was written */
    return err;
}

/* ---- listing ------------------------------------------------------------------------- */

int ftk_tree_each(int at, const char *name, ftk_tree_fn *fn, void *arg)
{
    const struct dirent *e;
    struct stat st;
    int err = 0;
    DIR *d = list(ftk_tree_open(at, name));
    if (!d)
        return errno;
    while (err == 0 && (errno = 0, e = readdir(d))) {
        if (is_dots(e->d_name))
            continue;
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            err = fn(arg, dirfd(d), e->d_name, &st);
        else if (errno != ENOENT) /* removed meanwhile */
            err = errno;
        errno = 0;
    }
    if (err == 0)
        err = errno;
    (void)closedir(d); /* nothing was written */
    return err;
}
