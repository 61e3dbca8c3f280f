/* Durable level hdf5: make the directory of a new set.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "h5_priv.h"

enum { MARK_MAX = 32 };
#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

static int make_dir(const char *path)
{
    struct stat st;
    if (mkdir(path, 0777) == 0)
        return 0;
    /* a directory that exists is enough, whatever the error of mkdir() is (EROFS, EACCES) */
    int err = errno;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return 0;
    errno = err == EEXIST ? ENOTDIR : err;
    return -1;
}

/* The number of a set must be free: there is no set, or an unfinished one. */
static int check_free(const char *dir, const char *context, uint64_t set, const char *path)
{
    struct ftk_manifest m;
    int fd = ftk_h5_open_dir(dir, context, set);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
                   ? FTKIT_OK
                   : ftk_fail_errno(errno, "set %" PRIu64 " in %s", set, path);
    bool unfinished = ftk_h5_is_unfinished(fd);
    close(fd);
    if (unfinished)
        return FTKIT_OK;
    int rc = ftk_h5_open_set(dir, context, set, false, &m);
    if (rc == FTKIT_OK) {
        ftk_manifest_free(&m);
        return ftk_fail(FTKIT_ERR_EXISTS, "set %" PRIu64 " in %s is complete", set, path);
    }
    if (rc != FTKIT_ERR_NOT_FOUND && rc != FTKIT_ERR_CORRUPT && rc != FTKIT_ERR_FORMAT)
        return rc;
    return ftk_fail(
        FTKIT_ERR_EXISTS, "set %" PRIu64 " in %s cannot be read and is not overwritten", set, path);
}

static size_t format(uint64_t flush, char text[MARK_MAX])
{
    return (size_t)snprintf(text, MARK_MAX, "flush = %016" PRIx64 "\n", flush);
}

/* Make the set's directory, with the mark of an unfinished set.  The mark is there before it has
 * its text: a reader looks again. */
static int make_set(int ctxfd, uint64_t set, uint64_t flush, const char *path)
{
    char name[FTK_SETS_DIR_NAME_MAX], text[MARK_MAX];
    ftk_h5_set_name(set, name);
    if (mkdirat(ctxfd, name, 0777) != 0 && errno != EEXIST)
        return ftk_fail_errno(errno, "make %s/%s", path, name);
    int fd = openat(ctxfd, name, OPEN_DIR | O_NOFOLLOW);
    int mark = fd < 0 ? -1
                      : openat(fd, FTK_H5_UNFINISHED,
                          O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    int err = mark < 0 ? errno : 0;
    const size_t bytes = flush != 0 ? format(flush, text) : 0;
    if (err == 0 && bytes > 0) {
        const ssize_t n = write(mark, text, bytes);
        err = n == (ssize_t)bytes ? 0 : n < 0 ? errno : ENOSPC;
    }
    if (mark >= 0 && close(mark) != 0 && err == 0)
        err = errno;
    if (fd >= 0)
        close(fd);
    return err ? ftk_fail_errno(err, "make %s/%s", path, name) : FTKIT_OK;
}

int ftk_h5_marked(const char *dir, const char *context, uint64_t set, uint64_t flush)
{
    char text[MARK_MAX] = "", want[MARK_MAX];
    int fd = ftk_h5_open_dir(dir, context, set);
    int err = fd < 0 ? errno : 0;
    /* open the file each time: NFS asks its server only at open() */
    int mark =
        fd < 0 ? -1 : openat(fd, FTK_H5_UNFINISHED, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (mark < 0 && err == 0)
        err = errno;
    const ssize_t n = mark < 0 ? 0 : read(mark, text, sizeof text - 1);
    if (n < 0)
        err = errno;
    if (mark >= 0)
        (void)close(mark); /* nothing was written */
    if (fd >= 0)
        (void)close(fd);
    if (err != 0 && err != ENOENT && err != ENOTDIR && err != ELOOP && err != ESTALE)
        return ftk_fail_errno(err, "set %" PRIu64 " in %s", set, dir);
    return n == (ssize_t)format(flush, want) && strcmp(text, want) == 0
               ? FTKIT_OK
               : ftk_fail(FTKIT_ERR_NOT_FOUND, "the directory of set %" PRIu64 " is not made", set);
}

int ftk_h5_make(const char *dir, const char *context, uint64_t set, uint64_t flush)
{
    char path[FTK_PATH_MAX];
    int rc = ftk_sets_dir_path(dir, context, path);
    if (rc == FTKIT_OK)
        rc = check_free(dir, context, set, path);
    if (rc != FTKIT_OK)
        return rc;
    int err = FTK_FAULT("h5.begin");
    /* make only the last directory of the path: if the path has vanished, because its file
     * system is not mounted any more, it must not be made again on another file system */
    if (!err && make_dir(path) != 0)
        err = errno;
    if (err)
        return ftk_fail_errno(err, "make %s", path);
    int ctxfd = open(path, OPEN_DIR);
    if (ctxfd < 0)
        return ftk_fail_errno(errno, "open %s", path);
    rc = ftk_h5_clear(ctxfd, set, NULL);
    if (rc == FTKIT_OK)
        rc = make_set(ctxfd, set, flush, path);
    close(ctxfd);
    return rc;
}
