/* Making the files of an archive (see archive.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The directory is empty at the beginning and belongs to this process, and an archive has no links,
 * so no path leaves the directory. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive.h"

static int write_all(int fd, const char *from, uint64_t bytes, const char *path)
{
    while (bytes > 0) {
        int err = FTK_FAULT("archive.write");
        ssize_t n = err ? -1 : write(fd, from, bytes);
        if (n < 0 && !err && errno == EINTR)
            continue;
        if (n < 0)
            return ftk_fail_errno(err ? err : errno, "%s", path);
        from += n;
        bytes -= (uint64_t)n;
    }
    return FTKIT_OK;
}

static int make_file(int root, const struct ftk_archive_item *i, const char *buf)
{
    int fd = openat(root, i->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return ftk_fail_errno(errno, "%s", i->path);
    int rc = write_all(fd, buf + i->e.offset, i->e.bytes, i->path);
    if (rc == FTKIT_OK && fchmod(fd, i->e.mode) != 0)
        rc = ftk_fail_errno(errno, "%s", i->path);
    if (close(fd) != 0 && rc == FTKIT_OK)
        rc = ftk_fail_errno(errno, "%s", i->path);
    return rc;
}

/* The owner can always enter a directory: otherwise its files could not be made. */
static int make_directory(int root, const struct ftk_archive_item *i)
{
    if (mkdirat(root, i->path, 0700) == 0 && fchmodat(root, i->path, i->e.mode | 0700, 0) == 0)
        return FTKIT_OK;
    return ftk_fail_errno(errno, "%s", i->path);
}

static int make_one(int root, const struct ftk_archive_item *i, const char *buf)
{
    return i->e.kind == FTK_ARCHIVE_FILE ? make_file(root, i, buf) : make_directory(root, i);
}

int ftk_archive_unpack(const void *buf, size_t bytes, const char *dir, bool *absent)
{
    struct ftk_archive_list l;
    int rc = ftk_archive_list(buf, bytes, bytes, &l);
    if (rc != FTKIT_OK) /* nothing is made out of a damaged archive */
        return rc;
    int root = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (root < 0)
        rc = ftk_fail_errno(errno, "%s", dir);
    for (uint32_t i = 0; rc == FTKIT_OK && i < l.head.nentries; i++)
        rc = make_one(root, &l.v[i], buf);
    if (root >= 0)
        (void)close(root); /* nothing was written through it */
    if (rc == FTKIT_OK)
        *absent = (l.head.flags & FTK_ARCHIVE_ABSENT) != 0;
    free(l.v);
    return rc;
}
