/* Making the files of an archive (see archive.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * No length and no path is used before it is checked.  The directory is empty at the beginning and
 * belongs to this process, and an archive has no links, so no path leaves the directory. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive.h"

/* The entries that are left. */
struct cursor {
    const char *at, *end;
    uint64_t contents;  /* those of the next file begin here or behind */
    const char *before; /* the last path; NULL: this is the first */
};

struct item {
    struct ftk_archive_entry e;
    const char *path;
};

static uint64_t align_up(uint64_t n)
{
    return (n + FTK_ARCHIVE_ALIGN - 1) / FTK_ARCHIVE_ALIGN * FTK_ARCHIVE_ALIGN;
}

static int damaged(const char *what)
{
    return ftk_fail(FTKIT_ERR_CORRUPT, "the archive of files is damaged: %s", what);
}

/* Whether the path stays below the directory: no part is empty, "." or "..". */
static bool is_inside(const char *path)
{
    for (const char *p = path;; p++) {
        size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return false;
        p += n;
        if (*p == '\0')
            return true;
    }
}

static int check_head(const void *buf, size_t bytes, struct ftk_archive_head *h)
{
    if (bytes < sizeof *h)
        return ftk_fail(FTKIT_ERR_FORMAT, "%zu bytes are no archive of files", bytes);
    memcpy(h, buf, sizeof *h);
    if (memcmp(h->magic, FTK_ARCHIVE_MAGIC, sizeof h->magic) != 0)
        return ftk_fail(FTKIT_ERR_FORMAT, "the bytes are no archive of files");
    if (h->version != FTK_ARCHIVE_VERSION || h->byte_order != FTK_ARCHIVE_BYTE_ORDER)
        return ftk_fail(FTKIT_ERR_FORMAT,
            "an archive of files of version %" PRIu32
            "; this ftkit reads %u, in the byte order of this machine",
            h->version, FTK_ARCHIVE_VERSION);
    if (h->bytes != bytes || h->head_bytes < sizeof *h || h->head_bytes > bytes)
        return damaged("its size");
    struct ftk_archive_head zero = *h;
    zero.sum = 0;
    if (ftk_archive_sum(&zero, buf) != h->sum)
        return damaged("the checksum of its entries");
    return FTKIT_OK;
}

/* Take the next entry, and check it. */
static int next(struct cursor *c, uint64_t archive_bytes, struct item *i)
{
    struct ftk_archive_entry *e = &i->e;
    if ((size_t)(c->end - c->at) < sizeof *e)
        return damaged("an entry is not whole");
    memcpy(e, c->at, sizeof *e);
    size_t left = (size_t)(c->end - c->at) - sizeof *e;
    size_t n = (sizeof *e + e->path_bytes + 8) / 8 * 8 - sizeof *e; /* with the zeros */
    i->path = c->at + sizeof *e;
    if (e->path_bytes > FTK_ARCHIVE_PATH_MAX || n > left || i->path[e->path_bytes] != '\0'
        || strlen(i->path) != e->path_bytes || !is_inside(i->path))
        return damaged("a path");
    if ((e->kind != FTK_ARCHIVE_FILE && e->kind != FTK_ARCHIVE_DIRECTORY) || e->mode > 0777)
        return damaged("the kind of an entry");
    if (c->before && strcmp(c->before, i->path) >= 0)
        return damaged("the order of its entries");
    c->before = i->path;
    c->at += sizeof *e + n;
    if (e->bytes == 0)
        return FTKIT_OK;
    if (e->kind != FTK_ARCHIVE_FILE || e->offset != align_up(c->contents)
        || e->offset > archive_bytes || e->bytes > archive_bytes - e->offset)
        return damaged("the place of a file");
    c->contents = e->offset + e->bytes;
    return FTKIT_OK;
}

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

static int make_file(int root, const struct item *i, const char *buf)
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
static int make_directory(int root, const struct item *i)
{
    if (mkdirat(root, i->path, 0700) == 0 && fchmodat(root, i->path, i->e.mode | 0700, 0) == 0)
        return FTKIT_OK;
    return ftk_fail_errno(errno, "%s", i->path);
}

static int make_one(int root, const struct item *i, const char *buf)
{
    return i->e.kind == FTK_ARCHIVE_FILE ? make_file(root, i, buf) : make_directory(root, i);
}

static int look(int root, const struct item *i, const char *buf)
{
    (void)root;
    (void)i;
    (void)buf;
    return FTKIT_OK;
}

/* Check each entry, and call fn for it. */
static int each(const struct ftk_archive_head *h, const char *buf, int root,
    int (*fn)(int root, const struct item *i, const char *buf))
{
    struct cursor c = { buf + sizeof *h, buf + h->head_bytes, h->head_bytes, NULL };
    int rc = FTKIT_OK;
    for (uint32_t k = 0; rc == FTKIT_OK && k < h->nentries; k++) {
        struct item i;
        rc = next(&c, h->bytes, &i);
        if (rc == FTKIT_OK)
            rc = fn(root, &i, buf);
    }
    if (rc == FTKIT_OK && (c.at != c.end || c.contents != h->bytes))
        rc = damaged("its length");
    return rc;
}

int ftk_archive_unpack(const void *buf, size_t bytes, const char *dir, bool *absent)
{
    struct ftk_archive_head h;
    int rc = check_head(buf, bytes, &h);
    if (rc == FTKIT_OK) /* nothing is made out of a damaged archive */
        rc = each(&h, buf, -1, look);
    if (rc != FTKIT_OK)
        return rc;
    int root = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (root < 0)
        return ftk_fail_errno(errno, "%s", dir);
    rc = each(&h, buf, root, make_one);
    (void)close(root); /* nothing was written through it */
    if (rc == FTKIT_OK)
        *absent = (h.flags & FTK_ARCHIVE_ABSENT) != 0;
    return rc;
}
