/* Rights of files and directories (see access.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access.h"

#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

/* ---- rights -------------------------------------------------------------------------- */

mode_t ftk_access_rights(int access)
{
    return access == FTK_ACCESS_ALL ? 0755 : access == FTK_ACCESS_GROUP ? 0750 : 0700;
}

/* The rights of what is made in a directory. */
static mode_t rights_in(int dir)
{
    struct stat st;
    if (fstat(dir, &st) != 0 || (st.st_mode & S_ISVTX))
        return 0700;
    return (st.st_mode & 0775) | 0700;
}

int ftk_access_set(int fd, mode_t rights)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return errno;
    if ((st.st_mode & 0777) == rights || fchmod(fd, (st.st_mode & S_ISGID) | rights) == 0)
        return 0;
    return errno == EPERM || errno == ENOTSUP || errno == ENOSYS ? 0 : errno;
}

int ftk_access_make_dir(int at, const char *name)
{
    const mode_t rights = rights_in(at);
    if (mkdirat(at, name, 0700) != 0)
        return errno;
    if (rights == 0700)
        return 0;
    const int fd = openat(at, name, OPEN_DIR | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? 0 : errno; /* another process has removed it meanwhile */
    const int err = ftk_access_set(fd, rights);
    (void)close(fd); /* nothing was written */
    return err;
}

int ftk_access_make_file(int at, const char *name, int flags)
{
    const int fd = openat(at, name, flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    const int err = fd >= 0 ? ftk_access_set(fd, (rights_in(at) & 0664) | 0600) : 0;
    if (!err)
        return fd;
    (void)close(fd); /* nothing was written */
    (void)unlinkat(at, name, 0);
    errno = err;
    return -1;
}

/* ---- trust --------------------------------------------------------------------------- */

int ftk_access_link(const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0 || !S_ISLNK(st.st_mode))
        return 0;
    return st.st_uid == geteuid() || st.st_uid == 0 ? 0 : ELOOP;
}

/* A link of this user is followed only after it was seen: nobody else can replace it in a sticky
 * directory. */
int ftk_access_open_dir(const char *path)
{
    struct stat st;
    const int fd = open(path, OPEN_DIR | O_NOFOLLOW);
    if (fd >= 0 || (errno != ELOOP && errno != ENOTDIR))
        return fd;
    const int err = errno;
    if (lstat(path, &st) != 0 || !S_ISLNK(st.st_mode)) {
        errno = err;
        return -1;
    }
    if (st.st_uid == geteuid() || st.st_uid == 0)
        return open(path, OPEN_DIR);
    errno = ELOOP;
    return -1;
}

int ftk_access_own_file(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return errno;
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
        return EPERM;
    return st.st_nlink > 1 ? EMLINK : 0;
}
