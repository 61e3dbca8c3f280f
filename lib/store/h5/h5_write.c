/* Durable level hdf5: writing parts.  A part is one HDF5 file with the segments of some ranks.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Data go from the memory of the segment to the file without conversion: dataset and memory have
 * the same type, so every bit comes back.  Only the halo cells of an array, which lie around its
 * block, are gathered in a dataset of their own.  On demand, datasets of at least DEFLATE_FROM
 * bytes are compressed: shuffle puts bytes of equal weight side by side, then deflate runs at
 * its fastest level.  Each chunk is written once. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/hash.h"
#include "h5_priv.h"
#include "store/attribute.h"

#define PACE_BYTES ((size_t)1 << 20) /* about this much is written between two calls of pace */
#define CHUNK_BYTES PACE_BYTES       /* a piece has whole chunks; a chunk fits HDF5's cache */
#define DEFLATE_FROM 4096u           /* smaller datasets are not compressed */
#define DEFLATE_LEVEL 1u

static const struct ftk_file_points part_points = {
    .create = "h5.part.create",
    .write = "h5.part.write",
    .fsync = "h5.part.fsync",
    .close = "h5.part.close",
    .rename = "h5.part.rename",
    .dirsync = "h5.part.dirsync",
};

/* A dataset to be written.  mem: H5S_ALL, or a selection in buf. */
struct dataset {
    const char *name;
    hid_t type;
    int ndims;
    const hsize_t *dims;
    hid_t mem;
    const void *buf;   /* NULL: nothing to write */
    bool deflate;      /* compress the dataset if it is large enough */
    const char *notes; /* attributes of all regions of the rank, or NULL */
    size_t notes_bytes;
    const char *files; /* the directory of plain files, or NULL */
};

static herr_t describe(hid_t ds, const struct ftk_seg_region *r)
{
    static const char *const kinds[] = {
        [FTK_KIND_FLAT] = "flat",
        [FTK_KIND_REPLICATED] = "replicated",
        [FTK_KIND_ARRAY] = "array",
        [FTK_KIND_GROWING] = "growing",
        [FTK_KIND_SERIALIZED] = "serialized",
    };
    if (ftk_h5_attr_text(ds, "ftkit.kind", kinds[r->kind]) < 0
        || ftk_h5_attr_text(ds, "ftkit.type", ftk_basic_name(r->basic)) < 0)
        return -1;
    if (r->kind != FTK_KIND_ARRAY)
        return 0;
    if (ftk_h5_attr_u64(ds, "ftkit.global", r->global, r->ndims) < 0
        || ftk_h5_attr_u64(ds, "ftkit.start", r->start, r->ndims) < 0
        || ftk_h5_attr_u64(ds, "ftkit.halo", r->halo, r->ndims) < 0)
        return -1;
    return 0;
}

/* Write rows at..at+rows-1 of the first dimension.  In memory the block may have a halo, which
 * has the same width on both sides of a dimension. */
static herr_t write_rows(hid_t ds, const struct dataset *d, hsize_t at, hsize_t rows)
{
    hsize_t start[FTKIT_DIMS_MAX] = { 0 }, count[FTKIT_DIMS_MAX], have[FTKIT_DIMS_MAX];
    hid_t file = H5Dget_space(ds);
    hid_t mem = H5Scopy(d->mem == H5S_ALL ? file : d->mem);
    herr_t rc = -1;
    memcpy(count, d->dims, (size_t)d->ndims * sizeof *count);
    start[0] = at;
    count[0] = rows;
    if (file < 0 || mem < 0 || H5Sget_simple_extent_dims(mem, have, NULL) < 0
        || H5Sselect_hyperslab(file, H5S_SELECT_SET, start, NULL, count, NULL) < 0)
        goto out;
    for (int k = 0; k < d->ndims; k++)
        start[k] += (have[k] - d->dims[k]) / 2;
    if (H5Sselect_hyperslab(mem, H5S_SELECT_SET, start, NULL, count, NULL) >= 0)
        rc = H5Dwrite(ds, d->type, mem, file, H5P_DEFAULT, d->buf);
out:
    ftk_h5_close(mem, H5Sclose);
    ftk_h5_close(file, H5Sclose);
    return rc;
}

/* Write in pieces of whole rows.  Between two pieces other threads may use HDF5. */
static int put_slowly(const struct ftk_h5_io *io, hid_t ds, const struct dataset *d)
{
    size_t row = H5Tget_size(d->type);
    for (int k = 1; k < d->ndims; k++)
        row *= (size_t)d->dims[k];
    hsize_t most = row < PACE_BYTES ? PACE_BYTES / row : 1;
    for (hsize_t at = 0; at < d->dims[0]; at += most) {
        hsize_t rows = d->dims[0] - at < most ? d->dims[0] - at : most;
        if (write_rows(ds, d, at, rows) < 0)
            return ftk_h5_fail(io, FTKIT_ERR_IO, "write dataset '%s'", d->name);
        int rc = io->file->err ? FTKIT_OK : io->pace(io->pace_arg, (size_t)rows * row);
        if (rc != FTKIT_OK)
            return rc;
    }
    return FTKIT_OK;
}

static int put_data(const struct ftk_h5_io *io, hid_t ds, const struct dataset *d)
{
    if (!d->buf)
        return FTKIT_OK;
    if (io->pace)
        return put_slowly(io, ds, d);
    if (H5Dwrite(ds, d->type, d->mem, H5S_ALL, H5P_DEFAULT, d->buf) < 0)
        return ftk_h5_fail(io, FTKIT_ERR_IO, "write dataset '%s'", d->name);
    return FTKIT_OK;
}

static bool is_worth_it(const struct dataset *d)
{
    size_t bytes = H5Tget_size(d->type);
    for (int k = 0; k < d->ndims; k++)
        bytes *= (size_t)d->dims[k];
    return bytes >= DEFLATE_FROM;
}

/* A chunk has whole rows, or is part of a long row; put_slowly() writes whole chunks. */
static herr_t set_chunks(hid_t dcpl, const struct dataset *d)
{
    hsize_t chunk[FTKIT_DIMS_MAX];
    size_t bytes = H5Tget_size(d->type);
    for (int k = d->ndims - 1; k >= 0; k--) {
        hsize_t most = bytes > 0 && bytes < CHUNK_BYTES ? CHUNK_BYTES / bytes : 1;
        chunk[k] = d->dims[k] < most ? d->dims[k] : most;
        bytes *= (size_t)chunk[k];
    }
    if (H5Pset_chunk(dcpl, d->ndims, chunk) < 0 || H5Pset_shuffle(dcpl) < 0)
        return -1;
    return H5Pset_deflate(dcpl, DEFLATE_LEVEL);
}

static herr_t set_layout(hid_t dcpl, const struct dataset *d)
{
    if (d->deflate && is_worth_it(d))
        return set_chunks(dcpl, d);
    return H5Pset_layout(dcpl, H5D_CONTIGUOUS);
}

/* r NULL: the dataset is not a region of the program. */
static herr_t set_attributes(hid_t ds, const struct dataset *d, const struct ftk_seg_region *r)
{
    if (r && describe(ds, r) < 0)
        return -1;
    if (d->files && ftk_h5_attr_text(ds, FTK_H5_FILES, d->files) < 0)
        return -1;
    return r ? ftk_h5_attr_of_region(ds, d->notes, d->notes_bytes, r->name) : 0;
}

static int put_dataset(const struct ftk_h5_io *io, hid_t group, const struct dataset *d,
    const struct ftk_seg_region *r)
{
    int rc = FTKIT_OK;
    hid_t ds = -1;
    hid_t space = H5Screate_simple(d->ndims, d->dims, NULL);
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    if (space < 0 || dcpl < 0 || set_layout(dcpl, d) < 0
        || H5Pset_fill_time(dcpl, H5D_FILL_TIME_NEVER) < 0
        || H5Pset_obj_track_times(dcpl, false) < 0
        || (ds = H5Dcreate2(group, d->name, d->type, space, H5P_DEFAULT, dcpl, H5P_DEFAULT)) < 0
        || set_attributes(ds, d, r) < 0)
        rc = ftk_h5_fail(io, FTKIT_ERR_IO, "make dataset '%s'", d->name);
    else
        rc = put_data(io, ds, d);
    if (ds >= 0 && H5Dclose(ds) < 0 && rc == FTKIT_OK)
        rc = ftk_h5_fail(io, FTKIT_ERR_IO, "close dataset '%s'", d->name);
    ftk_h5_close(dcpl, H5Pclose);
    ftk_h5_close(space, H5Sclose);
    if (rc == FTKIT_OK && io->file->err)
        rc = ftk_fail_errno(io->file->err, "%s: write dataset '%s'", io->file->what, d->name);
    return rc;
}

/* The halo has a dataset of its own: so the datasets of an array on all ranks fit together. */
static int put_halo(const struct ftk_h5_io *io, hid_t group, const struct ftk_seg_region *r,
    const struct ftk_h5_shape *s, hid_t type, const char *block)
{
    if (s->halo_items == 0)
        return FTKIT_OK;
    char name[FTK_H5_NAME_MAX];
    ftk_h5_halo_name(r->name, name);
    char *frame = malloc(s->halo_items * s->item_bytes);
    if (!frame)
        return ftk_fail(
            FTKIT_ERR_NOMEM, "halo of '%s': %zu bytes", r->name, s->halo_items * s->item_bytes);
    char *to = frame;
    size_t begin, items;
    struct ftk_h5_runs it;
    ftk_h5_runs_start(&it, s);
    while (ftk_h5_runs_next(&it, &begin, &items)) {
        memcpy(to, block + begin * s->item_bytes, items * s->item_bytes);
        to += items * s->item_bytes;
    }
    hsize_t n = s->halo_items;
    struct dataset d = { name, type, 1, &n, H5S_ALL, frame, io->deflate, NULL, 0, NULL };
    int rc = put_dataset(io, group, &d, NULL);
    free(frame);
    return rc;
}

/* Write plain files, and what describes them. */
static int put_files(const struct ftk_h5_io *io, hid_t group, const struct ftk_plain *p,
    const struct ftk_seg_region *r, const char *block, const struct ftk_archive_list *list)
{
    char name[FTK_H5_NAME_MAX], sums_name[FTK_H5_NAME_MAX], dir[FTK_PLAIN_PATH_MAX];
    uint64_t *sums = NULL;
    hsize_t n = list->head.head_bytes, nsums = list->head.nentries;
    int rc = ftk_h5_files_put(io, p, block, list, &sums);
    hid_t type = ftk_h5_type(r);
    ftk_h5_dataset_name(r->name, name);
    ftk_h5_files_name(r->name, sums_name);
    ftk_plain_path(p, "", dir);
    if (rc == FTKIT_OK && type < 0)
        rc = ftk_h5_fail(io, FTKIT_ERR_IO, "type of '%s'", r->name);
    struct dataset head = { name, type, 1, &n, H5S_ALL, block, false, NULL, 0, dir };
    struct dataset all = { sums_name, H5T_STD_U64LE, 1, &nsums, H5S_ALL, nsums ? sums : NULL, false,
        NULL, 0, NULL };
    if (rc == FTKIT_OK)
        rc = put_dataset(io, group, &head, r);
    if (rc == FTKIT_OK)
        rc = put_dataset(io, group, &all, NULL);
    ftk_h5_close(type, H5Tclose);
    free(sums);
    return rc;
}

/* A region of files is plain files, if this is wanted; *done: it was one. */
static int try_files(const struct ftk_h5_io *io, hid_t group, const struct ftk_seg_header *h,
    const struct ftk_seg_region *r, bool *done)
{
    struct ftk_archive_list list;
    const char *block = ftk_seg_data_c(h) + r->offset;
    *done = ftk_h5_files_wanted(io, r, block, &list);
    if (!*done)
        return FTKIT_OK;
    const struct ftk_plain p = { io->files->dirfd, io->files->set, h->rank, r->name };
    const int rc = put_files(io, group, &p, r, block, &list);
    free(list.v);
    return rc;
}

static int put_region(const struct ftk_h5_io *io, hid_t group, const struct ftk_seg_region *r,
    const void *seg, const struct ftk_seg_region *notes)
{
    const char *data = ftk_seg_data_c(seg);
    bool done;
    int tried = try_files(io, group, seg, r, &done);
    if (tried != FTKIT_OK || done)
        return tried;
    char name[FTK_H5_NAME_MAX];
    struct ftk_h5_shape s;
    ftk_h5_dataset_name(r->name, name);
    ftk_h5_shape(r, &s);
    const char *block = data + r->offset;
    hid_t type = ftk_h5_type(r);
    hid_t mem = s.halo_items > 0 ? ftk_h5_interior(&s) : H5S_ALL;
    int rc;
    if (type < 0 || mem < 0) {
        rc = ftk_h5_fail(io, FTKIT_ERR_IO, "type and space of '%s'", r->name);
    } else {
        struct dataset d = { name, type, s.ndims, s.dims, mem, s.items > 0 ? block : NULL,
            io->deflate, notes ? data + notes->offset : NULL, notes ? (size_t)notes->bytes : 0,
            NULL };
        rc = put_dataset(io, group, &d, r);
        if (rc == FTKIT_OK)
            rc = put_halo(io, group, r, &s, type, block);
    }
    if (mem != H5S_ALL)
        ftk_h5_close(mem, H5Sclose);
    ftk_h5_close(type, H5Tclose);
    return rc;
}

/* The region with the attributes of a rank, or NULL. */
static const struct ftk_seg_region *notes_of(const void *seg)
{
    const struct ftk_seg_region *r = ftk_seg_find(seg, FTK_ATTRIBUTES);
    bool good = r && r->kind == FTK_KIND_FLAT
                && ftk_attr_check(ftk_seg_data_c(seg) + r->offset, (size_t)r->bytes);
    return good ? r : NULL;
}

static int put_rank(const struct ftk_h5_io *io, hid_t file, const void *seg)
{
    const struct ftk_seg_header *h = seg;
    char name[FTK_H5_NAME_MAX];
    ftk_h5_rank_name(h->rank, name);
    hid_t group = ftk_h5_group(file, name);
    if (group < 0)
        return ftk_h5_fail(io, FTKIT_ERR_IO, "create group %s", name);
    hsize_t n = h->head_bytes;
    struct dataset head = { FTK_H5_HEAD, H5T_STD_U8LE, 1, &n, H5S_ALL, seg, false, NULL, 0, NULL };
    int rc = put_dataset(io, group, &head, NULL);
    const struct ftk_seg_region *r = ftk_seg_regions_c(seg);
    const struct ftk_seg_region *notes = notes_of(seg);
    for (uint32_t i = 0; i < h->nregions && rc == FTKIT_OK; i++)
        rc = put_region(io, group, &r[i], seg, notes);
    if (H5Gclose(group) < 0 && rc == FTKIT_OK)
        rc = ftk_h5_fail(io, FTKIT_ERR_IO, "close group %s", name);
    return rc;
}

/* Source of a part: job->next() gives the segments one after the other. */
struct part_source {
    const struct ftk_part_job *job;
    XXH3_state_t *sum;
    uint64_t run; /* of the first segment, as is nranks */
    uint32_t nranks;
    uint32_t last_rank; /* of the segment before */
};

/* Get segment i; check that it belongs to the set and has a higher rank than the one before. */
static int next_segment(struct part_source *src, int i, const void **seg)
{
    int rc = src->job->next(src->job->arg, seg);
    if (rc != FTKIT_OK)
        return rc;
    const struct ftk_seg_header *h = *seg;
    rc = ftk_seg_check_head(h, (size_t)h->head_bytes, "segment in memory");
    if (rc != FTKIT_OK)
        return rc;
    if (i == 0) {
        src->run = h->run;
        src->nranks = h->nranks;
    } else if (h->rank <= src->last_rank) {
        return ftk_fail(
            FTKIT_ERR_ARG, "rank %u does not come after rank %u", h->rank, src->last_rank);
    }
    src->last_rank = h->rank;
    if (h->set != src->job->set || strcmp(h->context, src->job->context) != 0 || h->run != src->run
        || h->nranks != src->nranks)
        return ftk_fail(FTKIT_ERR_ARG,
            "set %" PRIu64 ": segment of rank %u is of set %" PRIu64 " of '%s'", src->job->set,
            h->rank, h->set, h->context);
    ftk_xxh3_update(src->sum, h, (size_t)h->head_bytes);
    return FTKIT_OK;
}

static int put_file(struct ftk_h5_io *io, struct part_source *src)
{
    const void *seg = NULL;
    int rc = next_segment(src, 0, &seg);
    if (rc != FTKIT_OK)
        return rc;
    hid_t file = ftk_h5_file_create(io);
    if (file < 0)
        return ftk_h5_fail(io, FTKIT_ERR_IO, "create");
    uint64_t nranks = src->nranks;
    if (ftk_h5_attr_u64(file, "ftkit.set", &src->job->set, 0) < 0
        || ftk_h5_attr_text(file, "ftkit.context", src->job->context) < 0
        || ftk_h5_attr_u64(file, "ftkit.nranks", &nranks, 0) < 0
        || (io->deflate && ftk_h5_attr_text(file, FTK_H5_COMPRESS, "deflate") < 0))
        rc = ftk_h5_fail(io, FTKIT_ERR_IO, "attributes");
    for (int i = 0; i < src->job->nsegs && rc == FTKIT_OK; i++) {
        if (i > 0)
            rc = next_segment(src, i, &seg);
        if (rc == FTKIT_OK)
            rc = put_rank(io, file, seg);
    }
    if (ftk_h5_file_close(io, file) < 0 && rc == FTKIT_OK)
        rc = ftk_h5_fail(io, FTKIT_ERR_IO, "close");
    return rc;
}

static int write_file(int dirfd, struct part_source *src, struct ftk_manifest_part *out)
{
    char name[FTK_H5_NAME_MAX];
    struct stat st;
    struct ftk_out o;
    struct ftk_h5_io io;
    struct ftk_h5_quiet q;
    const struct ftk_h5_files files = { dirfd, src->job->set };
    ftk_h5_part_name(src->job->part, name);
    int rc = ftk_out_create(&o, dirfd, src->job->set, name, &part_points);
    if (rc != FTKIT_OK)
        return rc;
    o.stays = src->job->pace != NULL; /* written in the background: rank 0 uses it without a vote */
    io = (struct ftk_h5_io){ .file = &o.file,
        .pace = src->job->pace,
        .pace_arg = src->job->arg,
        .deflate = src->job->deflate,
        .files = src->job->plain ? &files : NULL };
    ftk_h5_quiet(&q);
    rc = put_file(&io, src);
    ftk_h5_loud(&q);
    if (rc == FTKIT_OK && fstat(o.file.fd, &st) != 0)
        rc = ftk_fail_errno(errno, "set %" PRIu64 ": stat %s", src->job->set, name);
    if (rc != FTKIT_OK) {
        ftk_out_discard(&o);
        return rc;
    }
    rc = ftk_out_finish(&o);
    if (rc == FTKIT_OK)
        *out = (struct ftk_manifest_part){ .part = src->job->part,
            .nranks = (uint32_t)src->job->nsegs,
            .file_bytes = (uint64_t)st.st_size,
            .heads_xxh = XXH3_64bits_digest(src->sum) };
    return rc;
}

int ftk_h5_write_job(const struct ftk_part_job *job, struct ftk_manifest_part *out)
{
    struct part_source src = { .job = job };
    if (job->nsegs < 1)
        return ftk_fail(FTKIT_ERR_ARG, "a part of %d segments", job->nsegs);
    int rc = ftk_sets_dir_check(job->context);
    if (rc != FTKIT_OK)
        return rc;
    src.sum = XXH3_createState();
    if (!src.sum)
        return ftk_fail(FTKIT_ERR_NOMEM, "state of a checksum");
    XXH3_64bits_reset(src.sum);
    int dirfd = -1;
    rc = ftk_h5_open_made(job->dir, job->context, job->set, job->flush, &dirfd);
    if (rc == FTKIT_OK) {
        rc = write_file(dirfd, &src, out);
        close(dirfd);
    }
    XXH3_freeState(src.sum);
    return rc;
}

bool ftk_h5_can_deflate(void)
{
    unsigned can = 0;
    return H5Zfilter_avail(H5Z_FILTER_DEFLATE) > 0
           && H5Zget_filter_info(H5Z_FILTER_DEFLATE, &can) >= 0
           && (can & H5Z_FILTER_CONFIG_ENCODE_ENABLED) != 0;
}
