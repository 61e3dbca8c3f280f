/* Directories for files that are passed on (see scratch.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/access.h"
#include "scratch.h"
#include "tree.h"

static const char *or_default(const char *parent)
{
    return *parent ? parent : FTK_SCRATCH_PARENT;
}

bool ftk_scratch_full(const struct ftk_scratch *s)
{
    struct statvfs st;
    if (fstatvfs(s->fd, &st) != 0)
        return false;
    return (st.f_blocks > 0 && st.f_bavail == 0) || (st.f_files > 0 && st.f_favail == 0);
}

/* ---- removing ------------------------------------------------------------------------ */

int ftk_scratch_empty(const struct ftk_scratch *s)
{
    int err = ftk_tree_empty(s->fd, ".", NULL);
    return err == 0 ? FTKIT_OK : ftk_fail_errno(err, "emptying %s", s->path);
}

void ftk_scratch_remove(struct ftk_scratch *s)
{
    if (s->fd < 0)
        return;
    int err = ftk_tree_empty(s->fd, ".", NULL);
    if (err == 0 && rmdir(s->path) != 0 && errno != ENOENT)
        err = errno;
    if (err != 0)
        ftk_report(FTKIT_WARNING, "cannot remove %s: %s", s->path, strerror(err));
    (void)close(s->fd); /* nothing was written */
    s->fd = -1;
}

/* Whether the open directory still has this name; another process may have removed it, and a third
 * one may have made a new one. */
static bool is_called(int parent, const char *name, const struct stat *open)
{
    struct stat st;
    return fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino == open->st_ino
           && st.st_dev == open->st_dev;
}

/* Remove a directory that no living process has. */
static void sweep_one(int parent, const char *name)
{
    struct stat st;
    int fd = ftk_tree_open(parent, name);
    if (fd < 0)
        return; /* it is gone, or not ours */
    if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0
        && is_called(parent, name, &st) && ftk_tree_empty(fd, ".", NULL) == 0
        && unlinkat(parent, name, AT_REMOVEDIR) == 0)
        ftk_report(FTKIT_DEBUG, "%s: left by an ended process, removed", name);
    (void)close(fd);
}

void ftk_scratch_sweep(const char *parent)
{
    DIR *d = opendir(or_default(parent));
    const struct dirent *e;
    while (d && (e = readdir(d)))
        if (strncmp(e->d_name, FTK_SCRATCH_PREFIX, strlen(FTK_SCRATCH_PREFIX)) == 0)
            sweep_one(dirfd(d), e->d_name);
    if (d)
        (void)closedir(d);
}

/* ---- making -------------------------------------------------------------------------- */

/* Make, open and lock a directory; 0 or an errno.  EEXIST: take another name, because this one is
 * used, or a sweep was faster than the lock and removes the directory. */
static int make_one(const char *path, int *out)
{
    struct stat st = { 0 };
    if (mkdir(path, 0700) != 0)
        return errno;
    int fd = ftk_tree_open(AT_FDCWD, path);
    int err = fd >= 0 ? FTK_FAULT("scratch.lock") : errno;
    if (err == 0 && (flock(fd, LOCK_EX | LOCK_NB) != 0 || fstat(fd, &st) != 0))
        err = errno;
    if (err == 0 && st.st_uid != geteuid())
        err = EPERM; /* all users may rename in the parent */
    if (err == EWOULDBLOCK || (fd < 0 && err == ENOENT) || (err == 0 && st.st_nlink == 0))
        err = EEXIST;
    else if (err != 0)
        (void)rmdir(path); /* no sweep could lock it */
    if (err == 0)
        *out = fd;
    else if (fd >= 0)
        (void)close(fd); /* nothing was written */
    return err;
}

int ftk_scratch_make(const char *parent, struct ftk_scratch *s)
{
    static int made; /* names only have to differ */
    int err;
    s->fd = -1;
    err = ftk_access_link(or_default(parent));
    if (err != 0)
        return ftk_fail_errno(err, "files.directory = %s is a link of another user", parent);
    ftk_scratch_sweep(parent);
    do {
        snprintf(s->path, sizeof s->path, "%s/" FTK_SCRATCH_PREFIX "%d.%d", or_default(parent),
            (int)getpid(), ++made);
        err = FTK_FAULT("scratch.make");
        err = err ? err : make_one(s->path, &s->fd);
    } while (err == EEXIST);
    return err == 0 ? FTKIT_OK : ftk_fail_errno(err, "making %s (files.directory)", s->path);
}
