/* Slices of an archive (see slice.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/hash.h"
#include "slice.h"

#define PAGE 4096u /* parts begin at such multiples behind the entries */

struct part {
    uint64_t from, to; /* bytes of the archive */
};

/* Part `rank` of the contents of an archive. */
static struct part part_of(const struct ftk_archive_head *a, uint32_t rank, uint32_t nranks)
{
    const uint64_t all = a->bytes - a->head_bytes;
    const uint64_t pages = all / PAGE + (all % PAGE > 0);
    const uint64_t each = (pages / nranks + (pages % nranks > 0)) * PAGE;
    const uint64_t limit = each > 0 ? all / each : 0; /* whole parts: no product exceeds `all` */
    const uint64_t from = rank <= limit ? each * rank : all;
    const uint64_t to = rank < limit ? each * (rank + 1) : all;
    return (struct part){ a->head_bytes + from, a->head_bytes + to };
}

static uint64_t sum_of(const struct ftk_slice_head *h)
{
    struct ftk_slice_head zero = *h;
    zero.sum = 0;
    return ftk_xxh3(&zero, sizeof zero);
}

/* ---- taking -------------------------------------------------------------------------- */

static uint64_t bytes_of(const struct ftk_archive_head *a, uint32_t rank, uint32_t nranks)
{
    const struct part p = part_of(a, rank, nranks);
    return sizeof(struct ftk_slice_head) + a->head_bytes + (p.to - p.from);
}

size_t ftk_slice_bytes(const struct ftk_archive *archive, int rank, int nranks)
{
    return (size_t)bytes_of(ftk_archive_head(archive), (uint32_t)rank, (uint32_t)nranks);
}

static struct ftk_slice_head head_of(
    const struct ftk_archive_head *a, uint32_t rank, uint32_t nranks)
{
    struct ftk_slice_head h = { .version = FTK_SLICE_VERSION,
        .byte_order = FTK_ARCHIVE_BYTE_ORDER,
        .bytes = bytes_of(a, rank, nranks),
        .archive_bytes = a->bytes,
        .entries_sum = a->sum,
        .rank = rank,
        .nranks = nranks };
    memcpy(h.magic, FTK_SLICE_MAGIC, sizeof h.magic);
    h.sum = sum_of(&h);
    return h;
}

int ftk_slice_read(
    struct ftk_archive *archive, int rank, int nranks, char *to, size_t at, size_t bytes)
{
    const struct ftk_archive_head *a = ftk_archive_head(archive);
    const struct ftk_slice_head h = head_of(a, (uint32_t)rank, (uint32_t)nranks);
    const struct part p = part_of(a, (uint32_t)rank, (uint32_t)nranks);
    const size_t entries = sizeof h + (size_t)a->head_bytes, end = at + bytes;
    int rc = FTKIT_OK;
    for (size_t n; rc == FTKIT_OK && at < end; at += n, to += n) {
        const size_t until = at < sizeof h ? sizeof h : at < entries ? entries : end;
        n = (until < end ? until : end) - at;
        if (at < sizeof h)
            memcpy(to, (const char *)&h + at, n);
        else
            rc = ftk_archive_read(
                archive, to, at < entries ? at - sizeof h : (size_t)p.from + (at - entries), n);
    }
    return rc == FTKIT_OK && end == h.bytes ? ftk_archive_unchanged(archive) : rc;
}

/* ---- checking ------------------------------------------------------------------------ */

bool ftk_slice_is(const void *buf, size_t bytes)
{
    return bytes >= sizeof(struct ftk_slice_head) && memcmp(buf, FTK_SLICE_MAGIC, 8) == 0;
}

static int damaged(const char *what)
{
    return ftk_fail(FTKIT_ERR_CORRUPT, "the slice of files is damaged: %s", what);
}

int ftk_slice_check(const void *buf, size_t bytes, struct ftk_slice *s)
{
    struct ftk_slice got = { .from = 0 };
    if (!ftk_slice_is(buf, bytes))
        return ftk_fail(FTKIT_ERR_FORMAT, "the bytes are no slice of files");
    memcpy(&got.head, buf, sizeof got.head);
    const struct ftk_slice_head *h = &got.head;
    if (h->version != FTK_SLICE_VERSION || h->byte_order != FTK_ARCHIVE_BYTE_ORDER)
        return ftk_fail(FTKIT_ERR_FORMAT,
            "a slice of files of version %" PRIu32
            "; this ftkit reads %u, in the byte order of this machine",
            h->version, FTK_SLICE_VERSION);
    if (h->sum != sum_of(h))
        return damaged("the checksum of its head");
    if (h->bytes != bytes || h->rank >= h->nranks)
        return damaged("its size");
    const char *entries = (const char *)buf + sizeof *h;
    int rc = ftk_archive_list(entries, bytes - sizeof *h, h->archive_bytes, &got.list);
    if (rc != FTKIT_OK)
        return rc;
    const struct part p = part_of(&got.list.head, h->rank, h->nranks);
    got.from = p.from;
    got.to = p.to;
    got.contents = entries + got.list.head.head_bytes;
    if (got.list.head.sum == h->entries_sum
        && bytes == bytes_of(&got.list.head, h->rank, h->nranks)) {
        *s = got;
        return FTKIT_OK;
    }
    free(got.list.v);
    return damaged("its entries");
}

/* ---- laying out ---------------------------------------------------------------------- */

static int write_at(int fd, const char *from, uint64_t bytes, uint64_t at, const char *path)
{
    while (bytes > 0) {
        int err = FTK_FAULT("slice.write");
        ssize_t n = err ? -1 : pwrite(fd, from, bytes, (off_t)at);
        if (n < 0 && !err && errno == EINTR)
            continue;
        if (n < 0)
            return ftk_fail_errno(err ? err : errno, "%s", path);
        from += n;
        at += (uint64_t)n;
        bytes -= (uint64_t)n;
    }
    return FTKIT_OK;
}

/* Write what the slice has of a file.  The first rank makes all files: some have no bytes. */
static int spread_file(int root, const struct ftk_slice *s, const struct ftk_archive_item *i)
{
    const uint64_t begin = i->e.offset, end = i->e.offset + i->e.bytes;
    const uint64_t from = begin > s->from ? begin : s->from, to = end < s->to ? end : s->to;
    const bool has = i->e.bytes > 0 && from < to;
    if (!has && s->head.rank > 0)
        return FTKIT_OK;
    int fd = openat(root, i->path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return ftk_fail_errno(errno, "%s", i->path);
    int rc = !has ? FTKIT_OK
                  : write_at(fd, s->contents + (from - s->from), to - from, from - begin, i->path);
    if (close(fd) != 0 && rc == FTKIT_OK)
        rc = ftk_fail_errno(errno, "%s", i->path);
    return rc;
}

static int open_root(const char *dir, int *root)
{
    *root = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *root >= 0 ? FTKIT_OK : ftk_fail_errno(errno, "%s", dir);
}

int ftk_slice_spread(const struct ftk_slice *s, const char *dir)
{
    int root = -1;
    int rc = open_root(dir, &root);
    for (uint32_t k = 0; rc == FTKIT_OK && k < s->list.head.nentries; k++) {
        const struct ftk_archive_item *i = &s->list.v[k];
        if (i->e.kind == FTK_ARCHIVE_FILE)
            rc = spread_file(root, s, i);
        else if (mkdirat(root, i->path, 0700) != 0 && errno != EEXIST)
            rc = ftk_fail_errno(errno, "%s", i->path);
    }
    if (root >= 0)
        (void)close(root); /* nothing was written through it */
    return rc;
}

static int finish_one(int root, const struct ftk_archive_item *i)
{
    struct stat st;
    const bool is_file = i->e.kind == FTK_ARCHIVE_FILE;
    if (fstatat(root, i->path, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return ftk_fail_errno(errno, "%s", i->path);
    if (is_file ? !S_ISREG(st.st_mode) || (uint64_t)st.st_size != i->e.bytes : !S_ISDIR(st.st_mode))
        return ftk_fail(FTKIT_ERR_IO,
            "%s has %lld bytes, and not %" PRIu64
            ": the ranks do not see one file system, or another process writes there",
            i->path, (long long)st.st_size, i->e.bytes);
    if (fchmodat(root, i->path, i->e.mode | (is_file ? 0u : 0700u), 0) != 0)
        return ftk_fail_errno(errno, "%s", i->path);
    return FTKIT_OK;
}

int ftk_slice_finish(const struct ftk_slice *s, const char *dir)
{
    int root = -1;
    int rc = open_root(dir, &root);
    for (uint32_t k = 0; rc == FTKIT_OK && k < s->list.head.nentries; k++)
        rc = finish_one(root, &s->list.v[k]);
    if (root >= 0)
        (void)close(root); /* nothing was written through it */
    return rc;
}
