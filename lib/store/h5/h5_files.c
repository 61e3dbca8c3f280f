/* Durable level hdf5: regions of files as plain files beside the parts (store/plain_files.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The part has what the files do not: the head and the entries of the archive, byte by byte, and a
 * checksum of each file.  A reader puts the archive together again.  The checksums of the segment
 * cover the archive, so they cover the files, too; those of the files name the one that differs. */
#include <stdlib.h>
#include <string.h>

#include "h5_offline.h"
#include "h5_priv.h"

void ftk_h5_files_name(const char *region, char *buf)
{
    snprintf(buf, FTK_H5_NAME_MAX, "ftkit.files.%s", region);
}

/* Whether the region can be an archive. */
static bool can_be(const struct ftk_seg_region *r)
{
    return r->kind == FTK_KIND_SERIALIZED && r->basic == FTK_T_OPAQUE && r->elem_bytes == 1;
}

/* ---- writing ------------------------------------------------------------------------- */

/* Whether the gaps between the contents are zeros, as a reader makes them. */
static bool has_zero_gaps(const char *block, const struct ftk_archive_list *l)
{
    uint64_t end = l->head.head_bytes;
    for (uint32_t i = 0; i < l->head.nentries; i++) {
        const struct ftk_archive_entry *e = &l->v[i].e;
        if (e->bytes == 0)
            continue;
        while (end < e->offset)
            if (block[end++] != 0)
                return false;
        end = e->offset + e->bytes;
    }
    return true;
}

bool ftk_h5_files_wanted(const struct ftk_h5_io *io, const struct ftk_seg_region *r,
    const char *block, struct ftk_archive_list *list)
{
    if (!io->files || !can_be(r) || r->bytes < sizeof(struct ftk_archive_head)
        || memcmp(block, FTK_ARCHIVE_MAGIC, sizeof FTK_ARCHIVE_MAGIC - 1) != 0
        || ftk_archive_list(block, (size_t)r->bytes, r->bytes, list) != FTKIT_OK)
        return false;
    if ((list->head.flags & FTK_ARCHIVE_ABSENT) == 0 && has_zero_gaps(block, list))
        return true;
    free(list->v);
    return false;
}

int ftk_h5_files_put(const struct ftk_h5_io *io, const struct ftk_plain *p, const char *block,
    const struct ftk_archive_list *list, uint64_t **sums)
{
    const struct ftk_plain_pace pace = { io->pace, io->pace_arg, io->file->fd };
    *sums = calloc((size_t)list->head.nentries + 1, sizeof **sums);
    if (!*sums)
        return ftk_fail(FTKIT_ERR_NOMEM, "files '%s': %u names", p->region, list->head.nentries);
    return ftk_plain_write(p, block, list, &pace, *sums);
}

/* ---- reading ------------------------------------------------------------------------- */

bool ftk_h5_files_plain(hid_t group, const struct ftk_seg_region *r)
{
    char name[FTK_H5_NAME_MAX];
    if (!can_be(r))
        return false;
    ftk_h5_dataset_name(r->name, name);
    return ftk_h5_is_hard(group, name)
           && H5Aexists_by_name(group, name, FTK_H5_FILES, H5P_DEFAULT) > 0;
}

uint64_t ftk_h5_files_bytes(hid_t group, const void *head)
{
    const struct ftk_seg_header *h = head;
    const struct ftk_seg_region *r = ftk_seg_regions_c(head);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < h->nregions; i++)
        if (ftk_h5_files_plain(group, &r[i]))
            bytes += r[i].bytes;
    return bytes;
}

/* Open a list of items, `most` at most. */
static int open_list(const struct ftk_h5_reader *src, hid_t group, const char *name, hid_t type,
    uint64_t most, hid_t *ds, hsize_t *n)
{
    int ndims;
    hsize_t dims[FTKIT_DIMS_MAX];
    int rc = ftk_h5_reader_dataset(src, group, name, type, &ndims, dims, ds);
    if (rc != FTKIT_OK)
        return rc;
    if (ndims != 1 || dims[0] > most || dims[0] > src->file_bytes) {
        ftk_h5_close(*ds, H5Dclose);
        return ftk_fail(
            FTKIT_ERR_FORMAT, "%s: dataset '%s' has another shape", src->file.what, name);
    }
    *n = dims[0];
    return FTKIT_OK;
}

/* Read a list of items into malloc'd *buf. */
static int read_list(const struct ftk_h5_reader *src, hid_t group, const char *name, hid_t type,
    uint64_t most, void **buf, hsize_t *n)
{
    hid_t ds;
    int rc = open_list(src, group, name, type, most, &ds, n);
    if (rc != FTKIT_OK)
        return rc;
    *buf = calloc((size_t)*n + 1, H5Tget_size(type));
    if (!*buf)
        rc = ftk_fail(FTKIT_ERR_NOMEM, "%s: dataset '%s'", src->file.what, name);
    else if (*n > 0 && H5Dread(ds, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, *buf) < 0)
        rc = ftk_h5_fail(&src->io, FTKIT_ERR_CORRUPT, "read dataset '%s'", name);
    ftk_h5_close(ds, H5Dclose);
    return rc;
}

int ftk_h5_files_list(const struct ftk_h5_reader *src, hid_t group, const struct ftk_seg_region *r,
    char **buf, struct ftk_archive_list *list, uint64_t **sums)
{
    char name[FTK_H5_NAME_MAX];
    void *head = NULL, *all = NULL;
    hsize_t n = 0, nsums = 0;
    ftk_h5_dataset_name(r->name, name);
    list->v = NULL;
    int rc = read_list(src, group, name, H5T_STD_U8LE, r->bytes, &head, &n);
    if (rc == FTKIT_OK)
        rc = ftk_archive_list(head, (size_t)n, r->bytes, list);
    if (rc == FTKIT_OK && list->head.head_bytes != n)
        rc = ftk_fail(FTKIT_ERR_FORMAT, "%s: dataset '%s' has another shape", src->file.what, name);
    ftk_h5_files_name(r->name, name);
    if (rc == FTKIT_OK)
        rc = read_list(src, group, name, H5T_STD_U64LE, list->head.nentries, &all, &nsums);
    if (rc == FTKIT_OK && nsums != list->head.nentries)
        rc = ftk_fail(FTKIT_ERR_FORMAT, "%s: dataset '%s' has another shape", src->file.what, name);
    *buf = head;
    *sums = all;
    return rc;
}

int ftk_h5_files_read(
    const struct ftk_h5_reader *src, hid_t group, const struct ftk_seg_region *r, char *data)
{
    char *buf = NULL;
    uint64_t *sums = NULL;
    struct ftk_archive_list list = { .v = NULL };
    const struct ftk_plain p = { src->dirfd, src->set, src->rank, r->name };
    const struct ftk_plain_reader reader = { src->found, src->io.got, src->found_arg,
        src->io.got_arg };
    int rc = ftk_h5_files_list(src, group, r, &buf, &list, &sums);
    if (rc == FTKIT_OK) {
        memcpy(data + r->offset, buf, (size_t)list.head.head_bytes);
        rc = ftk_plain_read(&p, data + r->offset, &list, sums, &reader);
    }
    free(list.v);
    free(sums);
    free(buf);
    return rc;
}

/* ---- facts --------------------------------------------------------------------------- */

struct facts {
    ftk_plain_fn *fn;
    void *arg;
};

static int facts_of(const struct ftk_h5_reader *src, hid_t group, const struct ftk_seg_region *r,
    const struct facts *to)
{
    char dir[FTK_PLAIN_PATH_MAX], *buf = NULL;
    uint64_t *sums = NULL;
    struct ftk_archive_list list = { .v = NULL };
    const struct ftk_plain p = { src->dirfd, src->set, src->rank, r->name };
    struct ftk_plain_facts f = { .region = r->name, .dir = dir };
    int rc = ftk_h5_files_list(src, group, r, &buf, &list, &sums);
    ftk_plain_path(&p, "", dir);
    for (uint32_t i = 0; rc == FTKIT_OK && i < list.head.nentries; i++) {
        f.files += list.v[i].e.kind == FTK_ARCHIVE_FILE;
        f.bytes += list.v[i].e.bytes;
    }
    if (rc == FTKIT_OK)
        to->fn(&f, to->arg);
    free(list.v);
    free(sums);
    free(buf);
    return rc;
}

static int facts_of_rank(
    struct ftk_h5_reader *src, const struct ftk_manifest *m, uint32_t rank, void *out)
{
    void *head = NULL;
    hid_t group;
    int rc = ftk_h5_reader_head(src, m, rank, &head, &group);
    if (rc != FTKIT_OK)
        return rc;
    const struct ftk_seg_region *r = ftk_seg_regions_c(head);
    const uint32_t n = ((const struct ftk_seg_header *)head)->nregions;
    for (uint32_t i = 0; rc == FTKIT_OK && i < n; i++)
        if (ftk_h5_files_plain(group, &r[i]))
            rc = facts_of(src, group, &r[i], out);
    H5Gclose(group);
    free(head);
    return rc;
}

int ftk_h5_files_of(
    const char *dir, const struct ftk_manifest *m, uint32_t rank, ftk_plain_fn *fn, void *arg)
{
    struct facts to = { fn, arg };
    return ftk_h5_read_rank(dir, m, (int)rank, facts_of_rank, &to);
}
