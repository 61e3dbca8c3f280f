/* Durable level hdf5: the directories of sets: names, numbers, removing.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Only files with names that this module gives are removed, one by one, in a directory that is
 * opened without following a link, and the directory of plain files with all that is below it.  So
 * no foreign file is touched. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "h5_offline.h"
#include "h5_priv.h"

#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

/* ---- names --------------------------------------------------------------------------- */

void ftk_h5_set_name(uint64_t set, char buf[FTK_SETS_DIR_NAME_MAX])
{
    ftk_sets_dir_name(FTK_H5_WORD, set, buf);
}

bool ftk_h5_is_ours(const char *name)
{
    char stem[FTK_H5_NAME_MAX], part[FTK_H5_NAME_MAX];
    size_t n = strlen(name);
    if (n >= sizeof stem)
        return false;
    memcpy(stem, name, n + 1);
    if (n > 4 && strcmp(stem + n - 4, ".tmp") == 0)
        stem[n - 4] = '\0';
    if (strcmp(stem, FTK_MANIFEST_FILE) == 0 || strcmp(stem, FTK_H5_MASTER) == 0
        || strcmp(stem, FTK_H5_XDMF) == 0 || strcmp(name, FTK_H5_UNFINISHED) == 0)
        return true;
    if (strncmp(stem, "part-", 5) != 0 || stem[5] < '0' || stem[5] > '9')
        return false;
    unsigned long number = strtoul(stem + 5, NULL, 10);
    ftk_h5_part_name((uint32_t)number, part);
    return number <= UINT32_MAX && strcmp(stem, part) == 0;
}

static bool is_there(int dirfd, const char *name)
{
    struct stat st;
    return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

bool ftk_h5_has_manifest(int dirfd)
{
    struct stat st;
    return fstatat(dirfd, FTK_MANIFEST_FILE, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

/* Whether a file has its final name: such a file is whole and durable. */
static bool has_whole_file(int dirfd)
{
    bool whole = true; /* also on an error: the caller must not take the set for unfinished */
    int copy = openat(dirfd, ".", OPEN_DIR);
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    if (!d) {
        if (copy >= 0)
            close(copy);
        return whole;
    }
    const struct dirent *e;
    whole = false;
    for (errno = 0; !whole && (e = readdir(d)); errno = 0) {
        size_t n = strlen(e->d_name);
        bool temporary = n > 4 && strcmp(e->d_name + n - 4, ".tmp") == 0;
        whole =
            ftk_h5_is_ours(e->d_name) && !temporary && strcmp(e->d_name, FTK_H5_UNFINISHED) != 0;
    }
    whole = whole || errno != 0;
    closedir(d);
    return whole;
}

bool ftk_h5_is_unfinished(int dirfd)
{
    return !is_there(dirfd, FTK_MANIFEST_FILE)
           && (is_there(dirfd, FTK_H5_UNFINISHED) || !has_whole_file(dirfd));
}

int ftk_h5_open_dir(const char *dir, const char *context, uint64_t set)
{
    return ftk_sets_dir_open_set(dir, context, FTK_H5_WORD, set);
}

/* ---- removing ------------------------------------------------------------------------ */

static int remove_file(int fd, const char *name, const char *point)
{
    int err = point ? FTK_FAULT(point) : 0;
    if (!err && unlinkat(fd, name, 0) != 0)
        err = errno;
    return err == ENOENT || err == EISDIR ? 0 : err; /* a directory is not ours */
}

/* Turn the manifest into the mark of an unfinished set, in one step: from then on the set does
 * not exist, and its other files are known to be leftovers. */
static int remove_manifest(int fd, const char *point)
{
    int err = point ? FTK_FAULT(point) : 0;
    if (!err && renameat(fd, FTK_MANIFEST_FILE, fd, FTK_H5_UNFINISHED) != 0)
        err = errno;
    if (err == EISDIR || err == ENOTDIR) /* a directory has one of the names */
        return remove_file(fd, FTK_MANIFEST_FILE, point);
    return err == ENOENT ? 0 : err;
}

/* Remove the files of a set: the manifest first, the mark of an unfinished set last. */
static int remove_files(int fd, const char *point)
{
    int err = remove_manifest(fd, point);
    int copy = err ? -1 : dup(fd); /* closedir() closes it */
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    if (!d) {
        if (!err)
            err = errno;
        if (copy >= 0)
            close(copy);
        return err;
    }
    const struct dirent *e;
    for (errno = 0; (e = readdir(d)); errno = 0) {
        bool goes = ftk_h5_is_ours(e->d_name) && strcmp(e->d_name, FTK_H5_UNFINISHED) != 0;
        int failed = goes ? remove_file(fd, e->d_name, point) : 0;
        if (!err)
            err = failed;
    }
    if (!err)
        err = errno;
    closedir(d);
    if (!err)
        err = ftk_plain_remove(fd, point);
    return err ? err : remove_file(fd, FTK_H5_UNFINISHED, point);
}

int ftk_h5_open_old(int ctxfd, uint64_t set, int *fd)
{
    char name[FTK_SETS_DIR_NAME_MAX];
    ftk_h5_set_name(set, name);
    *fd = openat(ctxfd, name, OPEN_DIR | O_NOFOLLOW);
    return *fd >= 0 || errno == ENOENT || errno == ENOTDIR || errno == ELOOP
               ? FTKIT_OK
               : ftk_fail_errno(errno, "remove set %" PRIu64, set);
}

int ftk_h5_clear(int ctxfd, uint64_t set, int fd, const char *point, bool *stays)
{
    char name[FTK_SETS_DIR_NAME_MAX];
    ftk_h5_set_name(set, name);
    int err = remove_files(fd, point);
    *stays = false;
    if (!err && unlinkat(ctxfd, name, AT_REMOVEDIR) != 0 && errno != ENOENT) {
        *stays = errno == ENOTEMPTY || errno == EEXIST;
        err = *stays ? 0 : errno;
    }
    return err ? ftk_fail_errno(err, "remove set %" PRIu64, set) : FTKIT_OK;
}

int ftk_h5_remove(const char *dir, const char *context, uint64_t set)
{
    int ctxfd = ftk_sets_dir_open(dir, context);
    if (ctxfd < 0)
        return ftk_fail_errno(errno, "sets of '%s' in %s", context, dir);
    int fd = -1;
    bool stays;
    int rc = ftk_h5_open_old(ctxfd, set, &fd);
    if (rc == FTKIT_OK && fd >= 0)
        rc = ftk_h5_clear(ctxfd, set, fd, "h5.prune", &stays);
    if (fd >= 0)
        close(fd);
    close(ctxfd);
    return rc;
}
