/* Durable level hdf5: make the directory of a new set, and remove that of an attempt.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/access.h"
#include "h5_priv.h"

enum { MARK_MAX = 32 };
#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

/* The number of a set must be free: there is no set, or an unfinished one.  fd: its directory, or
 * -1. */
static int check_free(const char *dir, const char *context, uint64_t set, int fd, const char *path)
{
    struct ftk_manifest m;
    if (fd < 0 || ftk_h5_is_unfinished(fd))
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

/* ---- the mark of an unfinished set --------------------------------------------------- */

static size_t format(uint64_t flush, char text[MARK_MAX])
{
    return (size_t)snprintf(text, MARK_MAX, "flush = %016" PRIx64 "\n", flush);
}

/* Make the mark, without its text: a writer that waits for the text looks again.  0, or an errno;
 * EEXIST: another process has made the set. */
static int put_mark(int fd, int *mark)
{
    *mark = ftk_access_make_file(fd, FTK_H5_UNFINISHED, O_WRONLY);
    return *mark < 0 ? errno : 0;
}

/* From the text on, the other writers of this attempt give parts their names.  0, or an errno. */
static int write_mark(int mark, uint64_t flush)
{
    char text[MARK_MAX];
    const size_t bytes = flush != 0 ? format(flush, text) : 0;
    const ssize_t n = bytes > 0 ? write(mark, text, bytes) : 0;
    return n == (ssize_t)bytes ? 0 : n < 0 ? errno : ENOSPC;
}

/* Whether an open directory has the mark with this number: 0, or an errno; ENOENT: it has not. */
static int find_mark(int fd, uint64_t flush)
{
    char text[MARK_MAX] = "", want[MARK_MAX];
    /* open the file each time: NFS asks its server only at open() */
    int mark = openat(fd, FTK_H5_UNFINISHED, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (mark < 0)
        return errno == ENOTDIR || errno == ELOOP || errno == ESTALE ? ENOENT : errno;
    const ssize_t n = read(mark, text, sizeof text - 1);
    const int err = n < 0 ? errno : 0;
    (void)close(mark); /* nothing was written */
    if (err)
        return err == ESTALE ? ENOENT : err;
    return n == (ssize_t)format(flush, want) && strcmp(text, want) == 0 ? 0 : ENOENT;
}

/* Open the directory of a set, if it was made with this number: 0, or an errno; ENOENT: it was
 * not. */
static int open_made(const char *dir, const char *context, uint64_t set, uint64_t flush, int *fd)
{
    *fd = ftk_h5_open_dir(dir, context, set);
    if (*fd < 0)
        return errno == ENOTDIR || errno == ELOOP || errno == ESTALE ? ENOENT : errno;
    const int err = find_mark(*fd, flush);
    if (err) {
        (void)close(*fd);
        *fd = -1;
    }
    return err;
}

int ftk_h5_marked(const char *dir, const char *context, uint64_t set, uint64_t flush)
{
    int fd;
    const int err = open_made(dir, context, set, flush, &fd);
    if (fd >= 0)
        (void)close(fd);
    if (err != 0 && err != ENOENT)
        return ftk_fail_errno(err, "set %" PRIu64 " in %s", set, dir);
    return err == 0
               ? FTKIT_OK
               : ftk_fail(FTKIT_ERR_NOT_FOUND, "the directory of set %" PRIu64 " is not made", set);
}

int ftk_h5_open_made(const char *dir, const char *context, uint64_t set, uint64_t flush, int *fd)
{
    int err = 0;
    if (flush != 0)
        err = open_made(dir, context, set, flush, fd);
    else if ((*fd = ftk_h5_open_dir(dir, context, set)) < 0)
        err = errno;
    return err ? ftk_fail_errno(
               err, "directory of this attempt at set %" PRIu64 " under %s", set, dir)
               : FTKIT_OK;
}

/* ---- making --------------------------------------------------------------------------
 * Other processes may make the same set at the same time: after this process was given up as lost,
 * or before it.  So nothing is decided by what was there a moment ago: a directory is removed if it
 * is empty, and made if there is none, and the mark is made if there is none; each step is one call
 * that fails otherwise.  Then the maker looks again, and asks again. */

#define TRIES 4 /* others, or a file system that answers late, come between */

/* One attempt to make a set. */
struct making {
    const char *dir, *context, *path; /* path: of the context's directory, which is ctxfd */
    uint64_t set, flush;
    const struct ftk_still *still;
    int ctxfd;
    char name[FTK_SETS_DIR_NAME_MAX];
};

static int ask(const struct making *m)
{
    return m->still ? m->still->ask(m->still->arg) : FTKIT_OK;
}

/* Get an open directory that has no set: the directory old, if it stays because of files that are
 * not ours; or one that this process has made.  0, or an errno; EEXIST: others have made one;
 * ENOENT: others have removed it. */
static int own_directory(const struct making *m, int old, bool stays, int *fd)
{
    struct stat st;
    int err = stays ? 0 : ftk_access_make_dir(m->ctxfd, m->name);
    if (!err) {
        *fd = stays ? fcntl(old, F_DUPFD_CLOEXEC, 0)
                    : openat(m->ctxfd, m->name, OPEN_DIR | O_NOFOLLOW);
        err = *fd < 0 ? errno : 0;
    }
    if (!err)
        return 0;
    /* a file or a link that has the name of a set */
    if (err == EEXIST && fstatat(m->ctxfd, m->name, &st, AT_SYMLINK_NOFOLLOW) == 0
        && !S_ISDIR(st.st_mode))
        return ENOTDIR;
    return err;
}

/* Mark the directory as that of an unfinished set.  The open directory may be that of others, who
 * have made it between two calls: then it has a mark, or the manifest of a set that is complete.  A
 * part without a manifest is one of an older attempt, named at the last moment; this attempt gives
 * its own part the name.  0, or an errno as above. */
static int claim(const struct making *m, int fd)
{
    int mark;
    int err = put_mark(fd, &mark);
    if (err)
        return err == ESTALE ? ENOENT : err;
    if (ftk_h5_has_manifest(fd)) {
        (void)unlinkat(fd, FTK_H5_UNFINISHED, 0); /* beside a manifest the mark has no meaning */
        err = EEXIST;
    }
    if (!err)
        err = write_mark(mark, m->flush);
    if (close(mark) != 0 && !err)
        err = errno;
    return err == ESTALE ? ENOENT : err;
}

/* Look, ask, remove what was seen, and make the set; *again: others came between. */
static int try_to_make(const struct making *m, bool *again)
{
    int old, fd = -1, err = 0;
    bool stays = false;
    *again = false;
    int rc = ftk_h5_open_old(m->ctxfd, m->set, &old);
    if (rc != FTKIT_OK)
        return rc;
    rc = check_free(m->dir, m->context, m->set, old, m->path);
    if (rc == FTKIT_OK)
        rc = ask(m);
    if (rc == FTKIT_OK && old >= 0)
        rc = ftk_h5_clear(m->ctxfd, m->set, old, NULL, &stays);
    if (rc == FTKIT_OK) {
        err = own_directory(m, old, stays, &fd);
        if (!err)
            err = claim(m, fd);
        *again = err == EEXIST || err == ENOENT;
        if (err)
            rc = ftk_fail_errno(err, "make %s/%s", m->path, m->name);
    }
    if (rc == FTKIT_OK)
        rc = ask(m);
    if (fd >= 0)
        close(fd);
    if (old >= 0)
        close(old);
    return rc;
}

int ftk_h5_make(const char *dir, const char *context, uint64_t set, uint64_t flush,
    const struct ftk_still *still)
{
    char path[FTK_PATH_MAX];
    int rc = ftk_sets_dir_path(dir, context, path);
    if (rc != FTKIT_OK)
        return rc;
    int err = FTK_FAULT("h5.begin");
    /* make only the last directory of the path: if the path has vanished, because its file
     * system is not mounted any more, it must not be made again on another file system */
    if (!err)
        err = ftk_sets_dir_make(dir, context, 0700);
    if (err)
        return ftk_fail_errno(err, "make %s", path);
    struct making m = { dir, context, path, set, flush, still, ftk_sets_dir_open(dir, context),
        "" };
    if (m.ctxfd < 0)
        return ftk_fail_errno(errno, "open %s", path);
    ftk_h5_set_name(set, m.name);
    bool again = true;
    for (int i = 0; i < TRIES && again; i++)
        rc = try_to_make(&m, &again);
    close(m.ctxfd);
    return again ? ftk_fail(
               FTKIT_ERR_EXISTS, "set %" PRIu64 " in %s is made by another process", set, path)
                 : rc;
}

/* ---- giving up ----------------------------------------------------------------------- */

/* As in making: only the open directory changes, and its name goes only if the directory of this
 * name is empty. */
static int drop(int ctxfd, uint64_t set, uint64_t flush, const struct ftk_still *still)
{
    int fd;
    bool stays;
    int rc = ftk_h5_open_old(ctxfd, set, &fd);
    if (rc != FTKIT_OK || fd < 0)
        return rc;
    int err = find_mark(fd, flush);
    if (!err)
        err = ftk_h5_has_manifest(fd) ? ENOENT : FTK_FAULT("h5.drop");
    if (err != 0 && err != ENOENT)
        rc = ftk_fail_errno(err, "remove set %" PRIu64, set);
    if (rc == FTKIT_OK && !err && still)
        rc = still->ask(still->arg);
    if (rc == FTKIT_OK && !err)
        rc = ftk_h5_clear(ctxfd, set, fd, NULL, &stays);
    close(fd);
    return rc;
}

int ftk_h5_drop(const char *dir, const char *context, uint64_t set, uint64_t flush,
    const struct ftk_still *still)
{
    const int ctxfd = ftk_sets_dir_open(dir, context);
    if (ctxfd < 0)
        return ftk_fail_errno(errno, "sets of '%s' in %s", context, dir);
    const int rc = drop(ctxfd, set, flush, still);
    close(ctxfd);
    return rc;
}
