/* Files that are durable before they are visible (see file.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/access.h"
#include "file.h"

#define PAGE 4096u
#define SYNC_BYTES ((off_t)64 << 20)
#define PIECE_BYTES (8u << 20) /* writeback is started piece by piece */

static int fault(const char *point)
{
    return point ? FTK_FAULT(point) : 0;
}

/* Start writeback of the bytes just written, so that the disk works while the next rows are
 * gathered, and fsync has little left to do.  Errors are ignored: fsync reports them. */
static void start_writeback(struct ftk_file *f, uint64_t at, uint64_t end)
{
#ifdef SYNC_FILE_RANGE_WRITE
    if (at < f->begun || at > f->written) /* at is outside the range: begin a new range */
        f->begun = at;
    f->written = end;
    if (end < f->begun + PIECE_BYTES)
        return;
    uint64_t whole = end / PAGE * PAGE;
    sync_file_range(f->fd, (off_t)f->begun, (off_t)(whole - f->begun), SYNC_FILE_RANGE_WRITE);
    f->begun = whole;
#else
    (void)f, (void)at, (void)end;
#endif
}

/* Write the whole of buf; 0, or an errno. */
static int write_all(struct ftk_file *f, const void *buf, size_t bytes, uint64_t at)
{
    const char *p = buf;
    while (bytes > 0) {
        ssize_t n = pwrite(f->fd, p, bytes < PIECE_BYTES ? bytes : PIECE_BYTES, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : EIO;
        start_writeback(f, at, at + (uint64_t)n);
        p += n;
        at += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return 0;
}

int ftk_file_write(struct ftk_file *f, const void *buf, size_t bytes, uint64_t at)
{
    if (!f->err)
        f->err = fault(f->write_point);
    if (!f->err)
        f->err = write_all(f, buf, bytes, at);
    return f->err;
}

static void label(struct ftk_file *f, uint64_t set, const char *name)
{
    if (set > 0)
        snprintf(f->what, sizeof f->what, "set %" PRIu64 ", %s", set, name);
    else /* the file belongs to no set */
        snprintf(f->what, sizeof f->what, "%s", name);
}

int ftk_out_create(
    struct ftk_out *o, int dirfd, uint64_t set, const char *name, const struct ftk_file_points *at)
{
    memset(o, 0, sizeof *o);
    o->dirfd = dirfd;
    o->at = at;
    o->file.write_point = at->write;
    snprintf(o->name, sizeof o->name, "%s", name);
    snprintf(o->tmp, sizeof o->tmp, "%s.tmp", name);
    label(&o->file, set, name);
    o->file.fd = -1;
    int err = fault(at->create);
    if (!err && unlinkat(dirfd, o->tmp, 0) != 0 && errno != ENOENT)
        err = errno;
    if (!err) {
        o->file.fd = ftk_access_make_file(dirfd, o->tmp, O_RDWR);
        err = o->file.fd < 0 ? errno : 0;
    }
    if (err)
        return ftk_fail_errno(err, "%s: create", o->file.what);
    return FTKIT_OK;
}

void ftk_out_discard(struct ftk_out *o)
{
    if (o->file.fd >= 0)
        close(o->file.fd);
    o->file.fd = -1;
    unlinkat(o->dirfd, o->tmp, 0);
}

static _Thread_local const struct ftk_file_lock *lock;

void ftk_file_use_lock(const struct ftk_file_lock *of_this_thread)
{
    lock = of_this_thread;
}

static int step_fsync(int fd, const char *point)
{
    if (lock)
        lock->leave();
    int err = fault(point);
    while (!err && fsync(fd) != 0) {
        if (errno != EINTR)
            err = errno;
    }
    if (lock)
        lock->enter();
    return err;
}

/* fsync() of a large file can take minutes, without a sign of progress.  So write the file back
 * piece by piece before the fsync.  After each piece set the time of the file sign: a process that
 * waits for this file sees the progress. */
static void write_back(int fd, int sign)
{
#ifdef SYNC_FILE_RANGE_WRITE
    const unsigned all =
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    struct stat st;
    if (fstat(fd, &st) != 0)
        return;
    if (lock)
        lock->leave();
    for (off_t at = 0; at < st.st_size; at += SYNC_BYTES)
        if (sync_file_range(fd, at, SYNC_BYTES, all) != 0 || futimens(sign, NULL) != 0)
            break; /* fsync() writes the rest, and reports the error */
    if (lock)
        lock->enter();
#else
    (void)fd, (void)sign;
#endif
}

void ftk_file_start(int fd)
{
#ifdef SYNC_FILE_RANGE_WRITE
    (void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
#else
    (void)fd;
#endif
}

int ftk_file_sync(int fd, int sign, const char *point)
{
    if (sign >= 0)
        write_back(fd, sign);
    return step_fsync(fd, point);
}

static int step_close(int *fd, const char *point)
{
    int err = fault(point);
    if (close(*fd) != 0 && !err && errno != EINTR)
        err = errno;
    *fd = -1;
    return err;
}

/* Invariant: the final name never refers to bytes that are not durable. */
int ftk_out_finish(struct ftk_out *o)
{
    const char *step = "write";
    int err = o->file.err;
    if (!err) {
        step = "fsync";
        err = ftk_file_sync(o->file.fd, o->stays ? o->file.fd : -1, o->at->fsync);
    }
    if (!err) {
        step = "close"; /* on NFS a write error may surface only here */
        err = step_close(&o->file.fd, o->at->close);
    }
    if (!err) {
        step = "rename";
        err = fault(o->at->rename);
        if (!err && renameat(o->dirfd, o->tmp, o->dirfd, o->name) != 0)
            err = errno;
    }
    if (!err) {
        step = "fsync of the directory";
        err = step_fsync(o->dirfd, o->at->dirsync);
        if (err == EINVAL) /* this file system needs no fsync of directories */
            err = 0;
        if (err && !o->stays)
            unlinkat(o->dirfd, o->name, 0); /* the new name may not be durable: withdraw it */
    }
    if (!err)
        return FTKIT_OK;
    int rc = ftk_fail_errno(err, "%s: %s", o->file.what, step);
    ftk_out_discard(o);
    return rc;
}

int ftk_out_text(int dirfd, uint64_t set, const char *name, const struct ftk_file_points *at,
    const char *text, size_t bytes)
{
    struct ftk_out o;
    int rc = ftk_out_create(&o, dirfd, set, name, at);
    if (rc != FTKIT_OK)
        return rc;
    const int err = ftk_file_write(&o.file, text, bytes, 0);
    if (err == 0)
        return ftk_out_finish(&o);
    rc = ftk_fail_errno(err, "%s: write", o.file.what);
    ftk_out_discard(&o);
    return rc;
}

int ftk_save_text(const char *path, const char *text, size_t bytes)
{
    static const struct ftk_file_points points = {
        .write = "text.write",
        .fsync = "text.fsync",
        .rename = "text.rename",
    };
    char dir[FTK_PATH_MAX];
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    if (!slash)
        snprintf(dir, sizeof dir, ".");
    else /* without the last slash, behind which a link would be followed */
        snprintf(dir, sizeof dir, "%.*s", slash > path ? (int)(slash - path) : 1, path);
    if (*name == '\0' || strlen(name) >= FTK_FILE_NAME_MAX)
        return ftk_fail(
            FTKIT_ERR_ARG, "%s: the name of the file is %s", path, *name ? "too long" : "missing");
    int dirfd = ftk_access_open_dir(dir);
    if (dirfd < 0)
        return ftk_fail_errno(errno, "%s", dir);
    int rc = ftk_out_text(dirfd, 0, name, &points, text, bytes);
    close(dirfd); /* read-only: no error to report */
    return rc;
}

int ftk_file_open(int dirfd, uint64_t set, const char *name, struct ftk_file *f, size_t *bytes)
{
    struct stat st;
    memset(f, 0, sizeof *f);
    label(f, set, name);
    /* O_NONBLOCK: if the name is that of a FIFO, do not wait for its other end */
    f->fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (f->fd < 0) {
        int err = errno;
        if (err == ENOENT)
            return ftk_fail(FTKIT_ERR_NOT_FOUND, "%s: no such file", f->what);
        if (err == ELOOP)
            return ftk_fail(FTKIT_ERR_FORMAT, "%s: a link, not a file", f->what);
        return ftk_fail_errno(err, "%s: open", f->what);
    }
    int rc = FTKIT_OK;
    if (fstat(f->fd, &st) != 0)
        rc = ftk_fail_errno(errno, "%s: stat", f->what);
    else if (!S_ISREG(st.st_mode))
        rc = ftk_fail(FTKIT_ERR_FORMAT, "%s: not a regular file", f->what);
    else
        *bytes = (size_t)st.st_size;
    if (rc != FTKIT_OK)
        ftk_file_close(f);
    return rc;
}

void ftk_file_close(struct ftk_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
}
