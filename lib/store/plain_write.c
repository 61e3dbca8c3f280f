/* Writing plain files (see plain_files.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * All files are written, then made durable, some at a time: so the disk works on all of them at
 * once.  Directories follow, those of the region last.  The files have their names at once: a part
 * of the set that refers to them is named after them, and a set without its manifest is no set. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/hash.h"
#include "file.h"
#include "plain_files.h"
#include "tree.h"

#define PIECE ((size_t)1 << 20) /* of a file, between two calls of pace */
#define SIGN_EVERY (16u << 20)  /* bytes written between two signs of progress */
#define OPEN_MOST 32            /* files that are written and not yet durable */

struct writing {
    const struct ftk_plain *p;
    const struct ftk_plain_pace *pace;
    struct ftk_plain_way way;
    XXH3_state_t *sum;
    size_t unsigned_bytes; /* written since the last sign */
    struct ftk_file open[OPEN_MOST];
    const char *path[OPEN_MOST];
    int nopen;
};

/* The waiting processes see a new time.  An error ends nothing: the files do not depend on it. */
static void sign(struct writing *w)
{
    if (w->pace->sign >= 0)
        (void)futimens(w->pace->sign, NULL);
    w->unsigned_bytes = 0;
}

static bool is_zero(const char *p, size_t bytes)
{
    return p[0] == 0 && memcmp(p, p + 1, bytes - 1) == 0;
}

/* Write a piece, or leave a hole of zeros. */
static int put_piece(struct writing *w, struct ftk_file *f, const char *from, size_t n, uint64_t at)
{
    if (ftk_xxh3_update(w->sum, from, n) != XXH_OK)
        return EIO;
    int err = is_zero(from, n) ? FTK_FAULT("files.plain.write") : ftk_file_write(f, from, n, at);
    w->unsigned_bytes += n;
    if (!err && w->unsigned_bytes >= SIGN_EVERY)
        sign(w);
    return err;
}

/* Write the contents.  A file that ends with a hole has its length by ftruncate(). */
static int put_contents(struct writing *w, struct ftk_file *f, const char *from,
    const struct ftk_archive_item *i, uint64_t *sum)
{
    int err = XXH3_64bits_reset(w->sum) == XXH_OK ? 0 : EIO, rc = FTKIT_OK;
    for (uint64_t at = 0, n; !err && rc == FTKIT_OK && at < i->e.bytes; at += n) {
        n = i->e.bytes - at < PIECE ? i->e.bytes - at : PIECE;
        err = put_piece(w, f, from + at, (size_t)n, at);
        if (!err && w->pace->pace)
            rc = w->pace->pace(w->pace->arg, (size_t)n);
    }
    if (rc != FTKIT_OK)
        return rc;
    if (!err && ftruncate(f->fd, (off_t)i->e.bytes) != 0)
        err = errno;
    if (err)
        return ftk_plain_fail(w->p, err, i->path, "write");
    if (fchmod(f->fd, i->e.mode) != 0)
        return ftk_plain_fail(w->p, errno, i->path, "chmod");
    *sum = XXH3_64bits_digest(w->sum);
    return FTKIT_OK;
}

/* Make all open files durable, and close them, also after an error. */
static int sync_open(struct writing *w, int rc)
{
    for (int i = 0; rc == FTKIT_OK && i < w->nopen; i++)
        ftk_file_start(w->open[i].fd);
    for (int i = 0; i < w->nopen; i++) {
        struct ftk_file *f = &w->open[i];
        int err = rc == FTKIT_OK ? ftk_file_sync(f->fd, w->pace->sign, "files.plain.fsync") : 0;
        if (err)
            rc = ftk_plain_fail(w->p, err, w->path[i], "fsync");
        err = rc == FTKIT_OK ? FTK_FAULT("files.plain.close") : 0;
        if (close(f->fd) != 0 && !err && errno != EINTR)
            err = errno;
        if (err && rc == FTKIT_OK) /* on NFS a write error may surface only here */
            rc = ftk_plain_fail(w->p, err, w->path[i], "close");
    }
    w->nopen = 0;
    sign(w);
    return rc;
}

static int put_file(
    struct writing *w, const char *archive, const struct ftk_archive_item *i, uint64_t *sum)
{
    const char *name;
    if (w->nopen == OPEN_MOST) {
        const int rc = sync_open(w, FTKIT_OK);
        if (rc != FTKIT_OK)
            return rc;
    }
    struct ftk_file *f = &w->open[w->nopen];
    *f = (struct ftk_file){ .fd = -1, .write_point = "files.plain.write" };
    int err = ftk_plain_go(&w->way, i->path, &name);
    if (!err)
        err = FTK_FAULT("files.plain.create");
    if (!err) {
        f->fd = openat(w->way.fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        err = f->fd < 0 ? errno : 0;
    }
    if (err)
        return ftk_plain_fail(w->p, err, i->path, "create");
    w->path[w->nopen++] = i->path;
    return put_contents(w, f, archive + i->e.offset, i, sum);
}

/* The owner can always enter a directory, as in the archive's directory. */
static int put_directory(struct writing *w, const struct ftk_archive_item *i)
{
    const char *name;
    int err = ftk_plain_go(&w->way, i->path, &name);
    if (!err)
        err = FTK_FAULT("files.plain.mkdir");
    if (!err && mkdirat(w->way.fd, name, 0700) != 0)
        err = errno;
    const int fd = err ? -1 : ftk_tree_open(w->way.fd, name);
    if (!err && (fd < 0 || fchmod(fd, i->e.mode | 0700) != 0))
        err = errno;
    if (fd >= 0)
        (void)close(fd); /* nothing was written through it */
    return err ? ftk_plain_fail(w->p, err, i->path, "mkdir") : FTKIT_OK;
}

/* fsync the directory of an entry, or the root. */
static int sync_directory(struct writing *w, const char *path)
{
    char inside[FTK_ARCHIVE_PATH_MAX + 3];
    const char *name;
    snprintf(inside, sizeof inside, "%s%s.", path, *path ? "/" : "");
    int err = ftk_plain_go(&w->way, inside, &name);
    if (!err)
        err = ftk_file_sync(w->way.fd, -1, "files.plain.dirsync");
    if (err == EINVAL) /* this file system needs no fsync of directories */
        err = 0;
    return err ? ftk_plain_fail(w->p, err, path, "fsync of the directory") : FTKIT_OK;
}

static int put_all(
    struct writing *w, const char *archive, const struct ftk_archive_list *l, uint64_t *sums)
{
    int rc = FTKIT_OK;
    for (uint32_t i = 0; rc == FTKIT_OK && i < l->head.nentries; i++) {
        const bool file = l->v[i].e.kind == FTK_ARCHIVE_FILE;
        sums[i] = 0;
        rc = file ? put_file(w, archive, &l->v[i], &sums[i]) : put_directory(w, &l->v[i]);
    }
    rc = sync_open(w, rc);
    for (uint32_t i = 0; rc == FTKIT_OK && i < l->head.nentries; i++)
        if (l->v[i].e.kind == FTK_ARCHIVE_DIRECTORY)
            rc = sync_directory(w, l->v[i].path);
    return rc == FTKIT_OK ? sync_directory(w, "") : rc;
}

int ftk_plain_write(const struct ftk_plain *p, const void *archive,
    const struct ftk_archive_list *list, const struct ftk_plain_pace *pace, uint64_t *sums)
{
    struct writing w = { .p = p, .pace = pace, .way = { .root = -1, .fd = -1 }, .nopen = 0 };
    w.sum = XXH3_createState();
    if (!w.sum)
        return ftk_fail(FTKIT_ERR_NOMEM, "state of a checksum");
    int rc = FTKIT_OK, err = 0;
    w.way.root = ftk_plain_make(p);
    if (w.way.root < 0)
        err = errno;
    if (err)
        rc = ftk_plain_fail(p, err, "", "make");
    if (rc == FTKIT_OK)
        rc = put_all(&w, archive, list, sums);
    ftk_plain_leave(&w.way);
    if (w.way.root >= 0)
        (void)close(w.way.root); /* nothing was written through it */
    if (rc == FTKIT_OK && (err = ftk_plain_sync_above(p)) != 0)
        rc = ftk_plain_fail(p, err, "", "fsync of the directories above");
    XXH3_freeState(w.sum);
    return rc;
}
