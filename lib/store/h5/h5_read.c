/* Durable level hdf5: reading segments back from parts.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Everything is checked before it is used: the head by its own checksum, datasets against the
 * head, data against the checksums in the head.  A length that is too large for the size of the
 * file is an error, and no link is followed out of the file. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/hash.h"
#include "h5_priv.h"
#include "store/attribute.h"

/* The properties that the head requires of a dataset.  mem: H5S_ALL, or a selection in
 * memory. */
struct expected {
    const char *name;
    hid_t type;
    int ndims;
    const hsize_t *dims;
    hid_t mem;
};

bool ftk_h5_is_hard(hid_t loc, const char *name)
{
    H5L_info_t info;
    return H5Lget_info(loc, name, &info, H5P_DEFAULT) >= 0 && info.type == H5L_TYPE_HARD;
}

/* Whether the chunks are not larger than the dataset and use only filters of HDF5 itself. */
static bool is_packed(hid_t dcpl, int ndims, const hsize_t *dims)
{
    hsize_t chunk[FTKIT_DIMS_MAX];
    if (H5Pget_chunk(dcpl, FTKIT_DIMS_MAX, chunk) != ndims)
        return false;
    for (int k = 0; k < ndims; k++)
        if (chunk[k] > dims[k])
            return false;
    for (int i = 0; i < H5Pget_nfilters(dcpl); i++) {
        size_t n = 0;
        unsigned flags, config;
        H5Z_filter_t f = H5Pget_filter2(dcpl, (unsigned)i, &flags, &n, NULL, 0, NULL, &config);
        if (f != H5Z_FILTER_SHUFFLE && f != H5Z_FILTER_DEFLATE)
            return false;
    }
    return true;
}

/* Whether the bytes of the dataset are in this file, contiguous or in chunks. */
static bool is_within(hid_t ds, int ndims, const hsize_t *dims)
{
    hid_t dcpl = H5Dget_create_plist(ds);
    bool within = false;
    if (dcpl >= 0 && H5Pget_layout(dcpl) == H5D_CONTIGUOUS)
        within = H5Pget_external_count(dcpl) == 0 && H5Pget_nfilters(dcpl) == 0;
    else if (dcpl >= 0 && H5Pget_layout(dcpl) == H5D_CHUNKED)
        within = is_packed(dcpl, ndims, dims);
    ftk_h5_close(dcpl, H5Pclose);
    return within;
}

int ftk_h5_reader_dataset(const struct ftk_h5_reader *src, hid_t group, const char *name,
    hid_t type, int *ndims, hsize_t *dims, hid_t *out)
{
    hid_t have = -1, space = -1, ds = -1;
    int rc = FTKIT_OK;
    if (!ftk_h5_is_hard(group, name) || (ds = H5Dopen2(group, name, H5P_DEFAULT)) < 0
        || (have = H5Dget_type(ds)) < 0 || (space = H5Dget_space(ds)) < 0
        || (*ndims = H5Sget_simple_extent_ndims(space)) < 0)
        rc = ftk_h5_fail(&src->io, FTKIT_ERR_CORRUPT, "dataset '%s'", name);
    else if (H5Tequal(have, type) <= 0 || *ndims < 1 || *ndims > FTKIT_DIMS_MAX
             || H5Sget_simple_extent_dims(space, dims, NULL) < 0 || !is_within(ds, *ndims, dims))
        rc = ftk_fail(
            FTKIT_ERR_FORMAT, "%s: dataset '%s' has another type or layout", src->file.what, name);
    ftk_h5_close(space, H5Sclose);
    ftk_h5_close(have, H5Tclose);
    if (rc == FTKIT_OK)
        *out = ds;
    else
        ftk_h5_close(ds, H5Dclose);
    return rc;
}

/* Read all of a dataset of known type and shape; buf NULL: only check it. */
static int get_all(
    const struct ftk_h5_reader *src, hid_t group, const struct expected *d, void *buf)
{
    int ndims;
    hsize_t dims[FTKIT_DIMS_MAX];
    hid_t ds;
    int rc = ftk_h5_reader_dataset(src, group, d->name, d->type, &ndims, dims, &ds);
    if (rc != FTKIT_OK)
        return rc;
    if (ndims != d->ndims || memcmp(dims, d->dims, (size_t)ndims * sizeof *dims) != 0)
        rc = ftk_fail(
            FTKIT_ERR_FORMAT, "%s: dataset '%s' has another shape", src->file.what, d->name);
    else if (buf && H5Dread(ds, d->type, d->mem, H5S_ALL, H5P_DEFAULT, buf) < 0)
        rc = ftk_h5_fail(&src->io, FTKIT_ERR_CORRUPT, "read dataset '%s'", d->name);
    ftk_h5_close(ds, H5Dclose);
    return rc;
}

static int get_halo(const struct ftk_h5_reader *src, hid_t group, const struct ftk_seg_region *r,
    const struct ftk_h5_shape *s, hid_t type, char *block)
{
    if (s->halo_items == 0)
        return FTKIT_OK;
    char name[FTK_H5_NAME_MAX];
    ftk_h5_halo_name(r->name, name);
    char *frame = malloc(s->halo_items * s->item_bytes);
    if (!frame)
        return ftk_fail(FTKIT_ERR_NOMEM, "%s: halo of '%s'", src->file.what, r->name);
    hsize_t n = s->halo_items;
    struct expected d = { name, type, 1, &n, H5S_ALL };
    int rc = get_all(src, group, &d, frame);
    const char *from = frame;
    size_t begin, items;
    struct ftk_h5_runs it;
    ftk_h5_runs_start(&it, s);
    while (rc == FTKIT_OK && ftk_h5_runs_next(&it, &begin, &items)) {
        memcpy(block + begin * s->item_bytes, from, items * s->item_bytes);
        from += items * s->item_bytes;
    }
    free(frame);
    return rc;
}

int ftk_h5_reader_region(
    const struct ftk_h5_reader *src, hid_t group, const struct ftk_seg_region *r, char *data)
{
    char name[FTK_H5_NAME_MAX];
    struct ftk_h5_shape s;
    if (ftk_h5_files_plain(group, r))
        return ftk_h5_files_read(src, group, r, data);
    ftk_h5_dataset_name(r->name, name);
    ftk_h5_shape(r, &s);
    char *block = data + r->offset;
    hid_t type = ftk_h5_type(r);
    hid_t mem = s.halo_items > 0 ? ftk_h5_interior(&s) : H5S_ALL;
    int rc;
    if (type < 0 || mem < 0) {
        rc = ftk_h5_fail(&src->io, FTKIT_ERR_IO, "type and space of '%s'", r->name);
    } else {
        struct expected d = { name, type, s.ndims, s.dims, mem };
        rc = get_all(src, group, &d, s.items > 0 ? block : NULL);
        if (rc == FTKIT_OK)
            rc = get_halo(src, group, r, &s, type, block);
    }
    if (mem != H5S_ALL)
        ftk_h5_close(mem, H5Sclose);
    ftk_h5_close(type, H5Tclose);
    return rc;
}

int ftk_h5_reader_attributes(
    const struct ftk_h5_reader *src, const void *head, hid_t group, char **table, size_t *bytes)
{
    const struct ftk_seg_region *found = ftk_seg_find(head, FTK_ATTRIBUTES);
    *table = NULL;
    *bytes = 0;
    if (!found || found->kind != FTK_KIND_FLAT || found->bytes > FTK_ATTR_TABLE_MAX)
        return FTKIT_OK; /* an older program may have used this name for a region of its own */
    struct ftk_seg_region r = *found;
    char *t = calloc(1, (size_t)r.bytes + 1);
    if (!t)
        return ftk_fail(FTKIT_ERR_NOMEM, "%s: attributes", src->file.what);
    r.offset = 0;
    int rc = ftk_h5_reader_region(src, group, &r, t);
    if (rc == FTKIT_OK && ftk_attr_check(t, (size_t)r.bytes)) {
        *table = t;
        *bytes = (size_t)r.bytes;
    } else {
        free(t);
    }
    return rc;
}

/* Check that a head belongs to the set of the manifest; else the error names the set of the
 * head.  A manifest without ranks is to be derived from the heads: then any run is accepted. */
static int check_owner(const struct ftk_h5_reader *src, const struct ftk_manifest *m, uint32_t rank,
    const struct ftk_seg_header *h)
{
    bool same = m->nranks == 0 || (h->run == m->run && h->nranks == m->nranks);
    same = same && (m->epoch_id == 0 || h->epoch_id == m->epoch_id);
    if (same && h->set == m->set && h->rank == rank && strcmp(h->context, m->context) == 0)
        return FTKIT_OK;
    return ftk_fail(FTKIT_ERR_FORMAT,
        "%s: found rank %u of %u of set %" PRIu64 " of '%s', run %016" PRIx64 ", epoch %016" PRIx64,
        src->file.what, h->rank, h->nranks, h->set, h->context, h->run, h->epoch_id);
}

int ftk_h5_reader_head(struct ftk_h5_reader *src, const struct ftk_manifest *m, uint32_t rank,
    void **head, hid_t *group)
{
    char name[FTK_H5_NAME_MAX];
    int ndims;
    hsize_t dims[FTKIT_DIMS_MAX];
    hid_t ds = -1, g = -1;
    void *buf = NULL;
    ftk_h5_rank_name(rank, name);
    src->rank = rank;
    snprintf(src->file.what, sizeof src->file.what, "set %" PRIu64 ", part %u, rank %u", m->set,
        src->part->part, rank);
    if (!ftk_h5_is_hard(src->id, name) || (g = H5Gopen2(src->id, name, H5P_DEFAULT)) < 0)
        return ftk_h5_fail(&src->io, FTKIT_ERR_CORRUPT, "no group");
    int rc = ftk_h5_reader_dataset(src, g, FTK_H5_HEAD, H5T_STD_U8LE, &ndims, dims, &ds);
    if (rc != FTKIT_OK)
        goto fail;
    if (ndims != 1 || dims[0] < sizeof(struct ftk_seg_header) || dims[0] > src->file_bytes)
        rc = ftk_fail(FTKIT_ERR_FORMAT, "%s: head of impossible size", src->file.what);
    else if (!(buf = malloc((size_t)dims[0])))
        rc = ftk_fail(FTKIT_ERR_NOMEM, "%s: head", src->file.what);
    else if (H5Dread(ds, H5T_STD_U8LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, buf) < 0)
        rc = ftk_h5_fail(&src->io, FTKIT_ERR_CORRUPT, "read the head");
    if (rc == FTKIT_OK)
        rc = ftk_seg_check_head(buf, (size_t)dims[0], src->file.what);
    if (rc == FTKIT_OK && ((struct ftk_seg_header *)buf)->head_bytes != dims[0])
        rc = ftk_fail(FTKIT_ERR_FORMAT, "%s: bytes behind the head", src->file.what);
    if (rc == FTKIT_OK)
        rc = check_owner(src, m, rank, buf);
    if (rc != FTKIT_OK)
        goto fail;
    H5Dclose(ds);
    *head = buf;
    *group = g;
    return FTKIT_OK;
fail:
    free(buf);
    ftk_h5_close(ds, H5Dclose);
    ftk_h5_close(g, H5Gclose);
    return rc;
}

/* Whether the file is large enough for the data of the segment.  The padding of a segment is not
 * in the file; compressed data may be shorter, by a factor of at most FTK_H5_DEFLATE_MOST.  The
 * lengths of plain files are compared before these are read. */
static bool can_hold(
    const struct ftk_h5_reader *src, const struct ftk_seg_header *h, uint64_t plain_bytes)
{
    uint64_t most = src->file_bytes + FTK_SEG_ALIGN + (uint64_t)h->nregions * FTK_SEG_REGION_ALIGN;
    bool packed = H5Aexists(src->id, FTK_H5_COMPRESS) > 0;
    return (h->data_bytes - plain_bytes) / (packed ? FTK_H5_DEFLATE_MOST : 1) <= most;
}

/* ftk_h5_reader_memory() with memory of room. */
static int make_memory(const struct ftk_h5_reader *src, const void *head, hid_t group,
    ftk_room_fn *room, void *arg, void **out)
{
    const struct ftk_seg_header *h = head;
    const struct ftk_seg_region *r = ftk_seg_regions_c(head);
    if (!can_hold(src, h, ftk_h5_files_bytes(group, head)))
        return ftk_fail(FTKIT_ERR_FORMAT, "%s: %" PRIu64 " bytes of data in a file of %zu",
            src->file.what, h->data_bytes, src->file_bytes);
    void *seg = NULL;
    int rc = room(arg, ftk_seg_bytes(head), &seg);
    if (rc != FTKIT_OK)
        return rc;
    memcpy(seg, head, (size_t)h->head_bytes);
    char *data = ftk_seg_data(seg);
    uint64_t end = 0;
    for (uint32_t i = 0; i < h->nregions; i++) {
        memset(data + end, 0, (size_t)(r[i].offset - end));
        end = r[i].offset + r[i].bytes;
    }
    memset(data + end, 0, (size_t)(h->data_bytes - end));
    *out = seg;
    return FTKIT_OK;
}

/* arg: the pointer that the caller frees. */
static int heap_room(void *arg, size_t bytes, void **at)
{
    void **seg = arg;
    *seg = aligned_alloc(FTK_SEG_REGION_ALIGN,
        (bytes + FTK_SEG_REGION_ALIGN - 1) & ~(size_t)(FTK_SEG_REGION_ALIGN - 1));
    *at = *seg;
    return *seg ? FTKIT_OK : ftk_fail(FTKIT_ERR_NOMEM, "a segment of %zu bytes", bytes);
}

int ftk_h5_reader_memory(const struct ftk_h5_reader *src, const void *head, hid_t group, void **out)
{
    void *seg;
    return make_memory(src, head, group, heap_room, &seg, out);
}

/* Where the segment of a rank goes. */
struct into {
    ftk_room_fn *room;
    void *arg;
};

/* Check the blocks that are complete. */
static void check_so_far(struct ftk_h5_reader *src)
{
    const struct ftk_seg_header *h = (const void *)src->seg;
    const size_t upto = src->have < h->data_bytes ? src->have & ~(size_t)(h->block_bytes - 1)
                                                  : (size_t)h->data_bytes;
    if (src->rc == FTKIT_OK)
        src->rc = ftk_seg_check_upto(src->seg, &src->sure, upto, src->file.what);
}

/* A piece of the file was read, perhaps to its place in the segment: then its blocks are checked
 * while the cache has them.  HDF5 may also read into memory of its own, or other parts first: such
 * pieces count when their region is complete. */
static void check_piece(void *arg, const char *piece, size_t bytes)
{
    struct ftk_h5_reader *src = arg;
    if (piece != ftk_seg_data_c(src->seg) + src->have)
        return;
    src->have += bytes;
    check_so_far(src);
}

/* Read the regions into a segment whose head is there, and check each block. */
static int get_data(struct ftk_h5_reader *src, hid_t group, char *seg)
{
    const struct ftk_seg_header *h = (const void *)seg;
    const struct ftk_seg_region *r = ftk_seg_regions_c(seg);
    int rc = FTKIT_OK;
    src->have = src->sure = 0;
    src->rc = FTKIT_OK;
    src->seg = seg;
    src->io.got = check_piece;
    src->io.got_arg = src;
    for (uint32_t i = 0; i < h->nregions && rc == FTKIT_OK && src->rc == FTKIT_OK; i++) {
        src->have = (size_t)r[i].offset; /* the gap in front of it is zero */
        rc = ftk_h5_reader_region(src, group, &r[i], ftk_seg_data(seg));
        src->have = (size_t)(r[i].offset + r[i].bytes);
        if (rc == FTKIT_OK)
            check_so_far(src);
    }
    src->have = (size_t)h->data_bytes;
    if (rc == FTKIT_OK)
        check_so_far(src);
    src->io.got = NULL;
    return rc == FTKIT_OK ? src->rc : rc;
}

static int get_segment(
    struct ftk_h5_reader *src, const struct ftk_manifest *m, uint32_t rank, void *out)
{
    const struct into *into = out;
    void *head = NULL, *seg = NULL;
    hid_t group;
    int rc = ftk_h5_reader_head(src, m, rank, &head, &group);
    if (rc != FTKIT_OK)
        return rc;
    rc = make_memory(src, head, group, into->room, into->arg, &seg);
    if (rc == FTKIT_OK)
        rc = get_data(src, group, seg);
    H5Gclose(group);
    free(head);
    return rc;
}

int ftk_h5_reader_open(struct ftk_h5_reader *src, int dirfd, const struct ftk_manifest *m,
    const struct ftk_manifest_part *p)
{
    char name[FTK_H5_NAME_MAX];
    ftk_h5_part_name(p->part, name);
    src->part = p;
    src->dirfd = dirfd;
    src->set = m->set;
    src->found = NULL;
    int rc = ftk_file_open(dirfd, m->set, name, &src->file, &src->file_bytes);
    if (rc != FTKIT_OK)
        return rc;
    src->io = (struct ftk_h5_io){ .file = &src->file };
    if (m->nranks > 0 && src->file_bytes != p->file_bytes)
        rc = ftk_fail(FTKIT_ERR_CORRUPT, "%s: %zu bytes instead of %" PRIu64, src->file.what,
            src->file_bytes, p->file_bytes);
    else if ((src->id = ftk_h5_file_open(&src->io)) < 0)
        rc = ftk_h5_fail(&src->io, FTKIT_ERR_CORRUPT, "open");
    if (rc != FTKIT_OK)
        ftk_file_close(&src->file);
    return rc;
}

void ftk_h5_reader_close(struct ftk_h5_reader *src)
{
    ftk_h5_file_close(&src->io, src->id);
    ftk_file_close(&src->file);
}

static int get_sum(
    struct ftk_h5_reader *src, const struct ftk_manifest *m, uint32_t rank, void *out)
{
    void *head = NULL;
    hid_t group;
    int rc = ftk_h5_reader_head(src, m, rank, &head, &group);
    if (rc != FTKIT_OK)
        return rc;
    *(uint64_t *)out = ((const struct ftk_seg_header *)head)->head_xxh;
    H5Gclose(group);
    free(head);
    return FTKIT_OK;
}

int ftk_h5_read_rank(
    const char *dir, const struct ftk_manifest *m, int rank, ftk_h5_read_fn *fn, void *out)
{
    if (rank < 0 || (uint32_t)rank >= m->nranks)
        return ftk_fail(FTKIT_ERR_ARG, "rank %d of %u", rank, m->nranks);
    int rc = ftk_sets_dir_check(m->context);
    if (rc != FTKIT_OK)
        return rc;
    int dirfd = ftk_h5_open_dir(dir, m->context, m->set);
    if (dirfd < 0)
        return errno == ENOENT
                   ? ftk_fail(FTKIT_ERR_NOT_FOUND, "no set %" PRIu64 " in %s", m->set, dir)
                   : ftk_fail_errno(errno, "set %" PRIu64 " in %s", m->set, dir);
    struct ftk_h5_reader src;
    struct ftk_h5_quiet q;
    ftk_h5_quiet(&q);
    rc = ftk_h5_reader_open(&src, dirfd, m, &m->parts[m->part_of[rank]]);
    if (rc == FTKIT_OK) {
        rc = fn(&src, m, (uint32_t)rank, out);
        ftk_h5_reader_close(&src);
    }
    ftk_h5_loud(&q);
    close(dirfd);
    return rc;
}

int ftk_h5_read_into(
    const char *dir, const struct ftk_manifest *m, int rank, ftk_room_fn *room, void *arg)
{
    struct into into = { room, arg };
    return ftk_h5_read_rank(dir, m, rank, get_segment, &into);
}

int ftk_h5_read_sum(const char *dir, const struct ftk_manifest *m, int rank, uint64_t *sum)
{
    return ftk_h5_read_rank(dir, m, rank, get_sum, sum);
}

int ftk_h5_part_sum(int dirfd, const struct ftk_manifest *m, const struct ftk_manifest_part *p,
    const uint32_t *ranks, ftk_head_fn *fn, void *arg, uint64_t *sum)
{
    struct ftk_h5_reader src;
    int rc = ftk_h5_reader_open(&src, dirfd, m, p);
    if (rc != FTKIT_OK)
        return rc;
    XXH3_state_t *x = XXH3_createState();
    if (x)
        XXH3_64bits_reset(x);
    else
        rc = ftk_fail(FTKIT_ERR_NOMEM, "state of a checksum");
    for (uint32_t i = 0; i < p->nranks && rc == FTKIT_OK; i++) {
        void *head;
        hid_t group;
        rc = ftk_h5_reader_head(&src, m, ranks[i], &head, &group);
        if (rc != FTKIT_OK)
            break;
        ftk_xxh3_update(x, head, (size_t)((struct ftk_seg_header *)head)->head_bytes);
        if (fn)
            rc = fn(head, p, arg);
        H5Gclose(group);
        free(head);
    }
    if (rc == FTKIT_OK)
        *sum = XXH3_64bits_digest(x);
    XXH3_freeState(x);
    ftk_h5_reader_close(&src);
    return rc;
}

int ftk_h5_part_heads(int dirfd, const struct ftk_manifest *m, const struct ftk_manifest_part *p,
    const uint32_t *ranks, ftk_head_fn *fn, void *arg)
{
    uint64_t sum = 0;
    int rc = ftk_h5_part_sum(dirfd, m, p, ranks, fn, arg, &sum);
    if (rc == FTKIT_OK && sum != p->heads_xxh)
        rc = ftk_fail(FTKIT_ERR_CORRUPT, "set %" PRIu64 ", part %u: not the heads of the manifest",
            m->set, p->part);
    return rc;
}
