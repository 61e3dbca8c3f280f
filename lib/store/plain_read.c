/* Reading plain files (see plain_files.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/format.h"
#include "core/hash.h"
#include "plain_files.h"
#include "tree.h"

#define PIECE ((size_t)256 << 10) /* is compared while the cache has it */

struct reading {
    const struct ftk_plain *p;
    const struct ftk_archive_list *list;
    const struct ftk_plain_reader *reader;
    char *archive;
    bool *seen;  /* [nentries] the entry is there, with its kind and length */
    bool *named; /* [nentries] its damage is known */
    XXH3_state_t *sum;
    struct ftk_plain_way way;
    const char *above; /* path of the directory that is listed */
    int rc;            /* code of the first damage */
};

/* ---- damage -------------------------------------------------------------------------- */

/* Go on after damage? */
static bool goes_on(const struct reading *r)
{
    return r->rc == FTKIT_OK || r->reader->found;
}

static void found(struct reading *r, int code, const char *path)
{
    if (r->rc == FTKIT_OK)
        r->rc = code == FTKIT_ERR_IO ? code : FTKIT_ERR_CORRUPT;
    if (r->reader->found)
        r->reader->found(r->reader->found_arg, code, path);
}

static void damaged(struct reading *r, int code, const char *path, const char *fmt, ...)
    FTK_PRINTF(4, 5);
static void damaged(struct reading *r, int code, const char *path, const char *fmt, ...)
{
    char what[128];
    va_list args;
    va_start(args, fmt);
    ftk_vformat(what, sizeof what, fmt, args);
    va_end(args);
    (void)ftk_fail(code, "set %" PRIu64 ", rank %" PRIu32 ", files '%s': %s %s", r->p->set,
        r->p->rank, r->p->region, *path ? path : "its directory", what);
    found(r, code, path);
}

/* A call at a file has failed. */
static void failed(struct reading *r, int err, const char *path, const char *step)
{
    if (err == ENOENT)
        damaged(r, FTKIT_ERR_NOT_FOUND, path, "is missing");
    else if (err == ELOOP || err == ENOTDIR)
        damaged(r, FTKIT_ERR_FORMAT, path, "is a link, or below one");
    else
        found(r, ftk_plain_fail(r->p, err, path, step), path);
}

/* ---- names, kinds and lengths -------------------------------------------------------- */

static int by_path(const void *path, const void *item)
{
    return strcmp(path, ((const struct ftk_archive_item *)item)->path);
}

/* The entry of a path; NULL: there is none. */
static const struct ftk_archive_item *entry_of(const struct reading *r, const char *path)
{
    const struct ftk_archive_list *l = r->list;
    return l->head.nentries == 0 ? NULL
                                 : bsearch(path, l->v, l->head.nentries, sizeof *l->v, by_path);
}

static const char *kind_of(mode_t mode)
{
    return S_ISREG(mode)   ? "a file"
           : S_ISDIR(mode) ? "a directory"
           : S_ISLNK(mode) ? "a symbolic link"
                           : "no file";
}

static int look_at(void *arg, int dir, const char *name, const struct stat *st)
{
    struct reading *r = arg;
    char path[FTK_ARCHIVE_PATH_MAX + 300];
    const char *above = r->above;
    snprintf(path, sizeof path, "%s%s%s", above, *above ? "/" : "", name);
    const struct ftk_archive_item *i = entry_of(r, path);
    if (!i) {
        damaged(
            r, FTKIT_ERR_FORMAT, path, "is %s that the set does not have", kind_of(st->st_mode));
        return goes_on(r) ? 0 : ECANCELED;
    }
    const bool file = i->e.kind == FTK_ARCHIVE_FILE;
    const size_t at = (size_t)(i - r->list->v);
    r->named[at] = true;
    if (file ? !S_ISREG(st->st_mode) : !S_ISDIR(st->st_mode)) {
        damaged(r, FTKIT_ERR_FORMAT, path, "is %s, not %s", kind_of(st->st_mode),
            kind_of(file ? S_IFREG : S_IFDIR));
    } else if (file && (uint64_t)st->st_size != i->e.bytes) {
        damaged(r, FTKIT_ERR_CORRUPT, path, "has %" PRIu64 " bytes instead of %" PRIu64,
            (uint64_t)st->st_size, i->e.bytes);
    } else {
        r->seen[at] = true;
        r->named[at] = false;
    }
    if (r->seen[at] && !file) {
        r->above = i->path;
        const int err = ftk_tree_each(dir, name, look_at, r);
        r->above = above;
        if (err && err != ECANCELED)
            failed(r, err, path, "list");
    }
    return goes_on(r) ? 0 : ECANCELED;
}

static void look(struct reading *r)
{
    r->above = "";
    const int err = ftk_tree_each(r->way.root, ".", look_at, r);
    if (err && err != ECANCELED)
        failed(r, err, "", "list");
    for (uint32_t i = 0; goes_on(r) && i < r->list->head.nentries; i++)
        if (!r->seen[i] && !r->named[i])
            damaged(r, FTKIT_ERR_NOT_FOUND, r->list->v[i].path, "is missing");
}

/* ---- contents ------------------------------------------------------------------------ */

static void got(const struct reading *r, const char *piece, size_t bytes)
{
    if (r->reader->got && bytes > 0)
        r->reader->got(r->reader->got_arg, piece, bytes);
}

/* Read the contents: 0, or an errno; ENODATA: the file is too short. */
static int get_contents(struct reading *r, int fd, char *to, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes;) {
        const size_t most = bytes - at < PIECE ? (size_t)(bytes - at) : PIECE;
        const int err = FTK_FAULT("files.plain.read");
        const ssize_t n = err ? -1 : pread(fd, to + at, most, (off_t)at);
        if (n < 0 && !err && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 ? ENODATA : err ? err : errno;
        if (ftk_xxh3_update(r->sum, to + at, (size_t)n) != XXH_OK)
            return EIO;
        got(r, to + at, (size_t)n);
        at += (uint64_t)n;
    }
    return 0;
}

static void get_file(struct reading *r, const struct ftk_archive_item *i, uint64_t sum)
{
    const char *name;
    int fd = -1;
    int err = ftk_plain_go(&r->way, i->path, &name);
    if (!err) { /* O_NONBLOCK: a pipe is not waited for */
        fd = openat(r->way.fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        err = fd < 0 ? errno : XXH3_64bits_reset(r->sum) == XXH_OK ? 0 : EIO;
    }
    if (!err)
        err = get_contents(r, fd, r->archive + i->e.offset, i->e.bytes);
    if (fd >= 0)
        (void)close(fd); /* it was read only */
    if (err == ENODATA)
        damaged(r, FTKIT_ERR_CORRUPT, i->path, "has shrunk");
    else if (err)
        failed(r, err, i->path, "read");
    else if (XXH3_64bits_digest(r->sum) != sum)
        damaged(r, FTKIT_ERR_CORRUPT, i->path, "has changed: its checksum differs");
}

/* Read the files one after the other, with zeros in the gaps between them. */
static void get_all(struct reading *r, const uint64_t *sums)
{
    const struct ftk_archive_list *l = r->list;
    uint64_t end = l->head.head_bytes;
    got(r, r->archive, (size_t)end);
    for (uint32_t i = 0; goes_on(r) && i < l->head.nentries; i++) {
        const struct ftk_archive_item *item = &l->v[i];
        if (item->e.kind != FTK_ARCHIVE_FILE)
            continue;
        if (item->e.bytes > 0) {
            memset(r->archive + end, 0, (size_t)(item->e.offset - end));
            got(r, r->archive + end, (size_t)(item->e.offset - end));
            end = item->e.offset + item->e.bytes;
        }
        if (r->seen[i])
            get_file(r, item, sums[i]);
    }
}

int ftk_plain_read(const struct ftk_plain *p, void *archive, const struct ftk_archive_list *list,
    const uint64_t *sums, const struct ftk_plain_reader *reader)
{
    struct reading r = {
        .p = p, .list = list, .reader = reader, .archive = archive, .way = { .root = -1, .fd = -1 }
    };
    r.seen = calloc((size_t)list->head.nentries + 1, sizeof *r.seen);
    r.named = calloc((size_t)list->head.nentries + 1, sizeof *r.named);
    r.sum = XXH3_createState();
    if (!r.seen || !r.named || !r.sum)
        r.rc = ftk_fail(FTKIT_ERR_NOMEM, "files '%s': %u names", p->region, list->head.nentries);
    if (r.rc == FTKIT_OK) {
        r.way.root = ftk_plain_open(p);
        if (r.way.root < 0)
            failed(&r, errno, "", "open");
        else
            look(&r);
        if (r.way.root >= 0 && goes_on(&r))
            get_all(&r, sums);
        ftk_plain_leave(&r.way);
        if (r.way.root >= 0)
            (void)close(r.way.root); /* nothing was written through it */
    }
    XXH3_freeState(r.sum);
    free(r.named);
    free(r.seen);
    return r.rc;
}
