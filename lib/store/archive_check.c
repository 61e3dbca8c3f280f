/* Checking an archive and listing its entries (see archive.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * No length and no path is used before it is checked. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "archive.h"

/* The entries that are left. */
struct cursor {
    const char *at, *end;
    uint64_t contents;  /* those of the next file begin here or behind */
    const char *before; /* the last path; NULL: this is the first */
};

/* Bytes of an entry with the shortest path. */
#define ENTRY_LEAST (sizeof(struct ftk_archive_entry) + 8)

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

static int check_head(const void *buf, size_t have, uint64_t bytes, struct ftk_archive_head *h)
{
    if (have < sizeof *h)
        return ftk_fail(FTKIT_ERR_FORMAT, "%zu bytes are no archive of files", have);
    memcpy(h, buf, sizeof *h);
    if (memcmp(h->magic, FTK_ARCHIVE_MAGIC, sizeof h->magic) != 0)
        return ftk_fail(FTKIT_ERR_FORMAT, "the bytes are no archive of files");
    if (h->version != FTK_ARCHIVE_VERSION || h->byte_order != FTK_ARCHIVE_BYTE_ORDER)
        return ftk_fail(FTKIT_ERR_FORMAT,
            "an archive of files of version %" PRIu32
            "; this ftkit reads %u, in the byte order of this machine",
            h->version, FTK_ARCHIVE_VERSION);
    if (h->bytes != bytes || h->head_bytes < sizeof *h || h->head_bytes > bytes
        || h->head_bytes > have || h->nentries > (h->head_bytes - sizeof *h) / ENTRY_LEAST)
        return damaged("its size");
    struct ftk_archive_head zero = *h;
    zero.sum = 0;
    if (ftk_archive_sum(&zero, buf) != h->sum)
        return damaged("the checksum of its entries");
    return FTKIT_OK;
}

/* Take the next entry, and check it. */
static int next(struct cursor *c, uint64_t archive_bytes, struct ftk_archive_item *i)
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
        return e->offset == 0 ? FTKIT_OK : damaged("the place of a file");
    if (e->kind != FTK_ARCHIVE_FILE || e->offset != align_up(c->contents)
        || e->offset > archive_bytes || e->bytes > archive_bytes - e->offset)
        return damaged("the place of a file");
    c->contents = e->offset + e->bytes;
    return FTKIT_OK;
}

static int list_all(const char *buf, struct ftk_archive_list *list)
{
    const struct ftk_archive_head *h = &list->head;
    struct cursor c = { buf + sizeof *h, buf + h->head_bytes, h->head_bytes, NULL };
    int rc = FTKIT_OK;
    for (uint32_t k = 0; rc == FTKIT_OK && k < h->nentries; k++)
        rc = next(&c, h->bytes, &list->v[k]);
    if (rc == FTKIT_OK && (c.at != c.end || c.contents != h->bytes))
        rc = damaged("its length");
    return rc;
}

int ftk_archive_list(const void *buf, size_t have, uint64_t bytes, struct ftk_archive_list *list)
{
    struct ftk_archive_list l = { .v = NULL };
    int rc = check_head(buf, have, bytes, &l.head);
    if (rc != FTKIT_OK)
        return rc;
    l.v = calloc((size_t)l.head.nentries + 1, sizeof *l.v);
    rc = l.v ? list_all(buf, &l)
             : ftk_fail(FTKIT_ERR_NOMEM, "the names of %" PRIu32 " files", l.head.nentries);
    if (rc == FTKIT_OK)
        *list = l;
    else
        free(l.v);
    return rc;
}
