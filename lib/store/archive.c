/* Scanning a directory, and reading its archive (see archive.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive.h"
#include "core/grow.h"
#include "core/hash.h"

/* A file or a directory that the scan has found. */
struct found {
    char path[FTK_ARCHIVE_PATH_MAX + 1];
    uint16_t kind;
    uint32_t mode;
    uint64_t bytes, offset;
    dev_t device;
    ino_t inode;
    struct timespec modified, changed;
};

struct ftk_archive {
    struct found *found; /* [n] in the order of paths */
    size_t n, room;
    char *head; /* head and entries [head_bytes] */
    size_t head_bytes, bytes;
    int root; /* the directory; -1: none */
    /* the file that is being read */
    size_t current; /* its index */
    int fd;         /* -1: not open */
};

static size_t align_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* ---- scan ---------------------------------------------------------------------------- */

static const char *kind_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFLNK:
        return "a symbolic link";
    case S_IFSOCK:
        return "a socket";
    case S_IFIFO:
        return "a named pipe";
    default:
        return "a device";
    }
}

static struct found found_of(const struct stat *st)
{
    const bool file = S_ISREG(st->st_mode);
    return (struct found){
        .kind = file ? FTK_ARCHIVE_FILE : FTK_ARCHIVE_DIRECTORY,
        .mode = st->st_mode & 0777,
        .bytes = file ? (uint64_t)st->st_size : 0,
        .device = st->st_dev,
        .inode = st->st_ino,
        .modified = st->st_mtim,
        .changed = st->st_ctim,
    };
}

static int add(struct ftk_archive *a, const char *path, const struct stat *st)
{
    if (!ftk_grow(&a->found, &a->room, a->n + 1, sizeof *a->found))
        return ftk_fail(FTKIT_ERR_NOMEM, "the list of %zu files", a->n);
    struct found *f = &a->found[a->n++];
    *f = found_of(st);
    memcpy(f->path, path, strlen(path) + 1);
    return FTKIT_OK;
}

static int scan_dir(struct ftk_archive *a, int at, const char *name, const char *path);

static int scan_one(struct ftk_archive *a, int dir, const char *name, const char *above)
{
    char path[FTK_ARCHIVE_PATH_MAX + 1];
    struct stat st;
    int n = snprintf(path, sizeof path, "%s%s%s", above, *above ? "/" : "", name);
    if (n < 0 || n > FTK_ARCHIVE_PATH_MAX)
        return ftk_fail(FTKIT_ERR_NAME, "%.60s...: the path has %d bytes, %d are possible", path, n,
            FTK_ARCHIVE_PATH_MAX);
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return ftk_fail_errno(errno, "%s", path);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return ftk_fail(FTKIT_ERR_UNSUPPORTED, "%s is %s; a set takes files and directories alone",
            path, kind_of(st.st_mode));
    int rc = add(a, path, &st);
    return rc == FTKIT_OK && S_ISDIR(st.st_mode) ? scan_dir(a, dir, name, path) : rc;
}

static int scan_dir(struct ftk_archive *a, int at, const char *name, const char *path)
{
    const struct dirent *e;
    int rc = FTKIT_OK;
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d) {
        rc = ftk_fail_errno(errno, "%s", *path ? path : name);
        if (fd >= 0)
            (void)close(fd);
        return rc;
    }
    while (rc == FTKIT_OK && (errno = 0, e = readdir(d)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = scan_one(a, dirfd(d), e->d_name, path);
    if (rc == FTKIT_OK && errno != 0)
        rc = ftk_fail_errno(errno, "%s", *path ? path : name);
    (void)closedir(d); /* nothing was written */
    return rc;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct found *)a)->path, ((const struct found *)b)->path);
}

/* Bytes of an entry with its path and at least one zero. */
static size_t entry_bytes(const struct found *f)
{
    return align_up(sizeof(struct ftk_archive_entry) + strlen(f->path) + 1, 8);
}

/* Give each file its place in the archive. */
static int lay_out(struct ftk_archive *a)
{
    size_t at = sizeof(struct ftk_archive_head);
    for (size_t i = 0; i < a->n; i++)
        at += entry_bytes(&a->found[i]);
    a->head_bytes = at;
    for (size_t i = 0; i < a->n; i++) {
        struct found *f = &a->found[i];
        if (f->bytes == 0)
            continue;
        f->offset = align_up(at, FTK_ARCHIVE_ALIGN);
        if (f->bytes > SIZE_MAX / 8 || __builtin_add_overflow(f->offset, f->bytes, &at)
            || at > SIZE_MAX / 8)
            return ftk_fail(FTKIT_ERR_SIZE, "%s: the files exceed the address space", f->path);
    }
    a->bytes = at;
    return FTKIT_OK;
}

static int make_head(struct ftk_archive *a, uint32_t flags)
{
    a->head = calloc(1, a->head_bytes);
    if (!a->head)
        return ftk_fail(FTKIT_ERR_NOMEM, "the names of %zu files", a->n);
    char *at = a->head + sizeof(struct ftk_archive_head);
    for (size_t i = 0; i < a->n; i++) {
        const struct found *f = &a->found[i];
        const struct ftk_archive_entry e = { f->offset, f->bytes, f->mode, f->kind,
            (uint16_t)strlen(f->path) };
        memcpy(at, &e, sizeof e);
        memcpy(at + sizeof e, f->path, e.path_bytes);
        at += entry_bytes(f);
    }
    struct ftk_archive_head h = { .version = FTK_ARCHIVE_VERSION,
        .byte_order = FTK_ARCHIVE_BYTE_ORDER,
        .head_bytes = a->head_bytes,
        .bytes = a->bytes,
        .nentries = (uint32_t)a->n,
        .flags = flags };
    memcpy(h.magic, FTK_ARCHIVE_MAGIC, sizeof h.magic);
    h.sum = ftk_archive_sum(&h, a->head);
    memcpy(a->head, &h, sizeof h);
    return FTKIT_OK;
}

uint64_t ftk_archive_sum(const struct ftk_archive_head *zero, const void *archive)
{
    return ftk_xxh3_seed((const char *)archive + sizeof *zero, zero->head_bytes - sizeof *zero,
        ftk_xxh3(zero, sizeof *zero));
}

/* Find all entries below the root, in the order of their paths. */
static int scan_root(struct ftk_archive *a)
{
    int rc = scan_dir(a, a->root, ".", "");
    if (rc == FTKIT_OK && a->n > UINT32_MAX)
        rc = ftk_fail(FTKIT_ERR_SIZE, "%zu files", a->n);
    if (rc == FTKIT_OK && a->n > 0)
        qsort(a->found, a->n, sizeof *a->found, by_path);
    return rc;
}

static int scan(struct ftk_archive *a, const char *dir)
{
    int rc = FTKIT_OK;
    if (dir) {
        a->root = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (a->root < 0)
            return ftk_fail_errno(errno, "%s", dir);
        rc = scan_root(a);
    }
    if (rc == FTKIT_OK)
        rc = lay_out(a);
    return rc == FTKIT_OK ? make_head(a, dir ? 0 : FTK_ARCHIVE_ABSENT) : rc;
}

int ftk_archive_scan(const char *dir, struct ftk_archive **archive)
{
    struct ftk_archive *a = calloc(1, sizeof *a);
    if (!a)
        return ftk_fail(FTKIT_ERR_NOMEM, "the list of files");
    a->root = a->fd = -1;
    int rc = scan(a, dir);
    if (rc == FTKIT_OK)
        *archive = a;
    else
        ftk_archive_free(a);
    return rc;
}

size_t ftk_archive_bytes(const struct ftk_archive *archive)
{
    return archive->bytes;
}

const struct ftk_archive_head *ftk_archive_head(const struct ftk_archive *archive)
{
    return (const void *)archive->head;
}

void ftk_archive_free(struct ftk_archive *archive)
{
    if (!archive)
        return;
    if (archive->fd >= 0)
        (void)close(archive->fd); /* it was read only, as the directory was */
    if (archive->root >= 0)
        (void)close(archive->root);
    free(archive->head);
    free(archive->found);
    free(archive);
}

/* ---- read ---------------------------------------------------------------------------- */

static bool is_at(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* The times of a directory change with the entries, which are compared themselves. */
static bool is_same(const struct found *f, const struct found *now)
{
    return f->kind == now->kind && f->mode == now->mode && f->device == now->device
           && f->inode == now->inode && f->bytes == now->bytes
           && (f->kind == FTK_ARCHIVE_DIRECTORY
               || (is_at(&f->modified, &now->modified) && is_at(&f->changed, &now->changed)));
}

static int fail_changed(const struct found *f)
{
    return ftk_fail(FTKIT_ERR_STATE,
        "%s changes while it is taken. Rule: the files of a set are complete and closed", f->path);
}

/* Compare the open file with what the scan has found. */
static int check_same(const struct ftk_archive *a, const struct found *f)
{
    struct stat st;
    if (fstat(a->fd, &st) != 0)
        return ftk_fail_errno(errno, "%s", f->path);
    const struct found now = found_of(&st);
    return S_ISREG(st.st_mode) && is_same(f, &now) ? FTKIT_OK : fail_changed(f);
}

/* All is read: compare all entries, also those without bytes, with what the scan has found. */
int ftk_archive_unchanged(const struct ftk_archive *a)
{
    struct ftk_archive now = { .root = a->root };
    if (a->root < 0)
        return FTKIT_OK;
    int rc = scan_root(&now);
    for (size_t i = 0; rc == FTKIT_OK && (i < a->n || i < now.n); i++) {
        const struct found *f = i < a->n ? &a->found[i] : NULL;
        const struct found *g = i < now.n ? &now.found[i] : NULL;
        const int order = !f ? 1 : !g ? -1 : strcmp(f->path, g->path);
        if (order != 0 || !is_same(f, g))
            rc = fail_changed(order > 0 ? g : f);
    }
    free(now.found);
    return rc;
}

static void close_current(struct ftk_archive *a)
{
    if (a->fd >= 0)
        (void)close(a->fd); /* it was read only */
    a->fd = -1;
}

/* Make f the current file. */
static int open_file(struct ftk_archive *a, size_t i)
{
    const struct found *f = &a->found[i];
    if (a->fd >= 0 && a->current == i)
        return FTKIT_OK;
    close_current(a);
    a->current = i;
    int err = FTK_FAULT("archive.open");
    a->fd = err ? -1 : openat(a->root, f->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (a->fd < 0)
        return ftk_fail_errno(err ? err : errno, "%s", f->path);
    return check_same(a, f);
}

/* Read bytes of the contents of file i from the offset `from` in it. */
static int read_file(struct ftk_archive *a, size_t i, char *to, uint64_t from, size_t bytes)
{
    const struct found *f = &a->found[i];
    int rc = open_file(a, i);
    while (rc == FTKIT_OK && bytes > 0) {
        ssize_t n = pread(a->fd, to, bytes, (off_t)from);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || FTK_FAULT("archive.read"))
            return ftk_fail_errno(n < 0 ? errno : EIO, "%s", f->path);
        if (n == 0)
            return check_same(a, f) == FTKIT_OK
                       ? ftk_fail(FTKIT_ERR_IO, "%s ends too early", f->path)
                       : FTKIT_ERR_STATE;
        to += n;
        from += (uint64_t)n;
        bytes -= (size_t)n;
    }
    if (rc != FTKIT_OK || from < f->bytes)
        return rc;
    rc = check_same(a, f);
    close_current(a);
    return rc;
}

/* The first file whose contents end behind `at`; n: none does. */
static size_t file_at(struct ftk_archive *a, size_t at)
{
    size_t i = a->current < a->n && a->found[a->current].offset <= at ? a->current : 0;
    while (i < a->n && a->found[i].offset + a->found[i].bytes <= at)
        i++;
    return i;
}

int ftk_archive_read(struct ftk_archive *a, char *to, size_t at, size_t bytes)
{
    const size_t end = at + bytes;
    for (size_t n; at < end; at += n, to += n) {
        n = end - at;
        if (at < a->head_bytes) {
            n = n < a->head_bytes - at ? n : a->head_bytes - at;
            memcpy(to, a->head + at, n);
            continue;
        }
        const size_t i = file_at(a, at);
        if (i == a->n)
            return ftk_fail(FTKIT_ERR_INTERNAL, "an archive of %zu bytes", a->bytes);
        const struct found *f = &a->found[i];
        if (at < f->offset) { /* the gap in front of the contents */
            n = n < f->offset - at ? n : f->offset - at;
            memset(to, 0, n);
            continue;
        }
        n = n < f->offset + f->bytes - at ? n : f->offset + f->bytes - at;
        int rc = read_file(a, i, to, at - f->offset, n);
        if (rc != FTKIT_OK)
            return rc;
    }
    return end == a->bytes ? ftk_archive_unchanged(a) : FTKIT_OK;
}
