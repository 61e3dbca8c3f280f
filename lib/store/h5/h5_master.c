/* Durable level hdf5: the master file, for tools that do not know ftkit.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *     /<array>        virtual dataset of the global shape over the blocks of all ranks
 *     /<replicated>   link to the region of rank 0 in its part: all ranks have the same data
 *     /ranks/00003    link to the group of a rank in its part
 *
 * The names of parts are relative to the master, so a set's directory may be moved.  Cells that
 * no rank holds read as NaN, or as 0 if the type has no NaN; `ftkit export` writes the same.  An
 * array has the attributes that rank 0 has for the array.  The master is made from the heads of
 * the parts; the heads are checked against the manifest.
 *
 * In a set of a line apart the blocks of an array are of different steps.  The file and each array
 * then have the attribute ftkit.line = "apart". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h5_priv.h"

static const struct ftk_file_points master_points = { .write = "h5.master.write" };

/* A global array while the blocks of the ranks are added. */
struct array {
    struct ftk_seg_region first; /* record of the first rank that has the array */
    hid_t type, space, dcpl;
};

struct master {
    struct ftk_h5_io *io;
    hid_t file;
    hid_t ranks; /* group /ranks */
    struct array *arrays;
    size_t narrays;
    bool apart;  /* a rank of the set has FTK_SEG_APART */
    char *notes; /* attributes, as rank 0 has them, or NULL */
    size_t notes_bytes;
};

/* ---- arrays -------------------------------------------------------------------------- */

/* The value of cells that no rank holds.  An object header of HDF5 has no room for the items of
 * several KiB that only a forged set has. */
static herr_t set_fill(hid_t dcpl, hid_t type, const struct ftk_seg_region *r)
{
    char item[4096];
    size_t bytes = (size_t)r->elem_bytes;
    if (bytes > sizeof item || !ftk_basic_fill(r->basic, item, bytes))
        return 0;
    return H5Pset_fill_value(dcpl, type, item);
}

static void array_close(struct array *a)
{
    ftk_h5_close(a->dcpl, H5Pclose);
    ftk_h5_close(a->space, H5Sclose);
    ftk_h5_close(a->type, H5Tclose);
}

static int array_add(struct master *w, const struct ftk_seg_region *r, struct array **out)
{
    struct array *more = realloc(w->arrays, (w->narrays + 1) * sizeof *more);
    if (!more)
        return ftk_fail(FTKIT_ERR_NOMEM, "%s: table of arrays", w->io->file->what);
    w->arrays = more;
    struct array *a = &more[w->narrays];
    hsize_t dims[FTKIT_DIMS_MAX];
    for (uint32_t d = 0; d < r->ndims; d++)
        dims[d] = r->global[d];
    a->first = *r;
    a->type = ftk_h5_type(r);
    a->space = H5Screate_simple((int)r->ndims, dims, NULL);
    a->dcpl = H5Pcreate(H5P_DATASET_CREATE);
    if (a->type < 0 || a->space < 0 || a->dcpl < 0 || H5Pset_obj_track_times(a->dcpl, false) < 0
        || set_fill(a->dcpl, a->type, r) < 0) {
        int rc = ftk_h5_fail(w->io, FTKIT_ERR_IO, "array '%s'", r->name);
        array_close(a);
        return rc;
    }
    w->narrays++;
    *out = a;
    return FTKIT_OK;
}

/* Find the array of this record, or add it.  FTKIT_ERR_MISMATCH: ranks disagree on the array. */
static int array_find(struct master *w, const struct ftk_seg_region *r, struct array **out)
{
    for (size_t i = 0; i < w->narrays; i++) {
        const struct ftk_seg_region *f = &w->arrays[i].first;
        if (strcmp(f->name, r->name) != 0)
            continue;
        if (f->basic != r->basic || f->elem_bytes != r->elem_bytes || f->ndims != r->ndims
            || memcmp(f->global, r->global, r->ndims * sizeof r->global[0]) != 0)
            return ftk_fail(FTKIT_ERR_MISMATCH,
                "%s: ranks disagree on type or global shape of '%s'", w->io->file->what, r->name);
        *out = &w->arrays[i];
        return FTKIT_OK;
    }
    return array_add(w, r, out);
}

/* In the names of sources HDF5 treats '%' as a special character; "%%" is a plain '%'. */
static void source_name(uint32_t rank, const char *region, char *buf, size_t bytes)
{
    char group[FTK_H5_NAME_MAX], name[FTK_H5_NAME_MAX];
    ftk_h5_rank_name(rank, group);
    ftk_h5_dataset_name(region, name);
    size_t n = (size_t)snprintf(buf, bytes, "/%s/", group);
    for (const char *c = name; *c && n + 3 < bytes; c++) {
        if (*c == '%')
            buf[n++] = '%';
        buf[n++] = *c;
    }
    buf[n] = '\0';
}

static int array_map(struct master *w, const struct ftk_seg_region *r, uint32_t rank,
    const struct ftk_manifest_part *p)
{
    struct array *a = NULL;
    struct ftk_h5_shape s;
    char file[FTK_H5_NAME_MAX], name[3 * FTK_H5_NAME_MAX];
    int rc = array_find(w, r, &a);
    ftk_h5_shape(r, &s);
    if (rc != FTKIT_OK || s.items == 0)
        return rc;
    ftk_h5_part_name(p->part, file);
    source_name(rank, r->name, name, sizeof name);
    hsize_t start[FTKIT_DIMS_MAX];
    for (int d = 0; d < s.ndims; d++)
        start[d] = r->start[d];
    hid_t block = H5Screate_simple(s.ndims, s.dims, NULL);
    if (block < 0 || H5Sselect_hyperslab(a->space, H5S_SELECT_SET, start, NULL, s.dims, NULL) < 0
        || H5Pset_virtual(a->dcpl, a->space, file, name, block) < 0)
        rc = ftk_h5_fail(w->io, FTKIT_ERR_IO, "block of '%s' on rank %u", r->name, rank);
    ftk_h5_close(block, H5Sclose);
    return rc;
}

static herr_t mark(const struct master *w, hid_t object)
{
    return w->apart ? ftk_h5_attr_text(object, "ftkit.line", "apart") : 0;
}

static int array_write(struct master *w, struct array *a)
{
    char name[FTK_H5_NAME_MAX];
    ftk_h5_dataset_name(a->first.name, name);
    hid_t ds = -1;
    if (H5Sselect_all(a->space) < 0
        || (ds = H5Dcreate2(w->file, name, a->type, a->space, H5P_DEFAULT, a->dcpl, H5P_DEFAULT))
               < 0
        || ftk_h5_attr_text(ds, "ftkit.type", ftk_basic_name(a->first.basic)) < 0
        || ftk_h5_attr_of_region(ds, w->notes, w->notes_bytes, a->first.name) < 0 || mark(w, ds) < 0
        || H5Dclose(ds) < 0)
        return ftk_h5_fail(w->io, FTKIT_ERR_IO, "array '%s'", a->first.name);
    return w->io->file->err ? ftk_fail_errno(w->io->file->err, "%s: write", w->io->file->what)
                            : FTKIT_OK;
}

/* ---- the file ------------------------------------------------------------------------ */

static int link_replicated(
    struct master *w, const struct ftk_seg_region *r, uint32_t rank, const char *file)
{
    char name[FTK_H5_NAME_MAX], group[FTK_H5_NAME_MAX], target[2 * FTK_H5_NAME_MAX + 2];
    ftk_h5_rank_name(rank, group);
    ftk_h5_dataset_name(r->name, name);
    snprintf(target, sizeof target, "/%s/%s", group, name);
    if (H5Lcreate_external(file, target, w->file, name, H5P_DEFAULT, H5P_DEFAULT) < 0)
        return ftk_h5_fail(w->io, FTKIT_ERR_IO, "link to '%s'", r->name);
    return FTKIT_OK;
}

static int add_rank_to_master(const void *head, const struct ftk_manifest_part *p, void *arg)
{
    struct master *w = arg;
    const struct ftk_seg_header *h = head;
    const struct ftk_seg_region *r = ftk_seg_regions_c(head);
    char file[FTK_H5_NAME_MAX], group[FTK_H5_NAME_MAX], number[16];
    w->apart = w->apart || (h->flags & FTK_SEG_APART) != 0;
    ftk_h5_part_name(p->part, file);
    ftk_h5_rank_name(h->rank, group);
    snprintf(number, sizeof number, "%05u", h->rank);
    if (H5Lcreate_external(file, group, w->ranks, number, H5P_DEFAULT, H5P_DEFAULT) < 0)
        return ftk_h5_fail(w->io, FTKIT_ERR_IO, "link to rank %u", h->rank);
    int rc = FTKIT_OK;
    for (uint32_t i = 0; i < h->nregions && rc == FTKIT_OK; i++) {
        if (r[i].kind == FTK_KIND_ARRAY)
            rc = array_map(w, &r[i], h->rank, p);
        else if (r[i].kind == FTK_KIND_REPLICATED && h->rank == 0)
            rc = link_replicated(w, &r[i], h->rank, file);
    }
    return rc;
}

static int read_attributes(struct master *w, int dirfd, const struct ftk_manifest *m)
{
    struct ftk_h5_reader src;
    void *head = NULL;
    hid_t group;
    int rc = ftk_h5_reader_open(&src, dirfd, m, &m->parts[m->part_of[0]]);
    if (rc != FTKIT_OK)
        return rc;
    rc = ftk_h5_reader_head(&src, m, 0, &head, &group);
    if (rc == FTKIT_OK) {
        rc = ftk_h5_reader_attributes(&src, head, group, &w->notes, &w->notes_bytes);
        H5Gclose(group);
        free(head);
    }
    ftk_h5_reader_close(&src);
    return rc;
}

static int fill_file(struct master *w, int dirfd, const struct ftk_manifest *m)
{
    uint64_t nranks = m->nranks;
    if (ftk_h5_attr_u64(w->file, "ftkit.set", &m->set, 0) < 0
        || ftk_h5_attr_text(w->file, "ftkit.context", m->context) < 0
        || (*m->program && ftk_h5_attr_text(w->file, "ftkit.program", m->program) < 0)
        || ftk_h5_attr_u64(w->file, "ftkit.nranks", &nranks, 0) < 0
        || (w->ranks = ftk_h5_group(w->file, "ranks")) < 0)
        return ftk_h5_fail(w->io, FTKIT_ERR_IO, "attributes and groups");
    int rc = ftk_h5_check_parts(dirfd, m, true, add_rank_to_master, w);
    if (rc == FTKIT_OK)
        rc = read_attributes(w, dirfd, m);
    for (size_t i = 0; i < w->narrays; i++) {
        if (rc == FTKIT_OK)
            rc = array_write(w, &w->arrays[i]);
        array_close(&w->arrays[i]);
    }
    if (rc == FTKIT_OK && mark(w, w->file) < 0)
        rc = ftk_h5_fail(w->io, FTKIT_ERR_IO, "attributes");
    if (H5Gclose(w->ranks) < 0 && rc == FTKIT_OK)
        rc = ftk_h5_fail(w->io, FTKIT_ERR_IO, "close the groups");
    return rc;
}

/* Copy the records of the arrays, for the XDMF file. */
static int hand_over(const struct master *w, struct ftk_h5_arrays *out)
{
    out->n = 0;
    out->apart = w->apart;
    out->v = malloc((w->narrays + 1) * sizeof *out->v);
    if (!out->v)
        return ftk_fail(FTKIT_ERR_NOMEM, "%s: table of arrays", w->io->file->what);
    while (out->n < w->narrays) {
        out->v[out->n] = w->arrays[out->n].first;
        out->n++;
    }
    return FTKIT_OK;
}

int ftk_h5_master_build(
    struct ftk_h5_io *io, int dirfd, const struct ftk_manifest *m, struct ftk_h5_arrays *arrays)
{
    struct ftk_h5_quiet q;
    int rc;
    ftk_h5_quiet(&q);
    struct master w = { .io = io, .file = ftk_h5_file_create(io) };
    if (w.file < 0) {
        rc = ftk_h5_fail(io, FTKIT_ERR_IO, "create");
    } else {
        rc = fill_file(&w, dirfd, m);
        if (ftk_h5_file_close(io, w.file) < 0 && rc == FTKIT_OK)
            rc = ftk_h5_fail(io, FTKIT_ERR_IO, "close");
    }
    ftk_h5_loud(&q);
    if (rc == FTKIT_OK && arrays)
        rc = hand_over(&w, arrays);
    free(w.arrays);
    free(w.notes);
    return rc;
}

int ftk_h5_master(int dirfd, const struct ftk_manifest *m)
{
    struct ftk_out o;
    struct ftk_h5_io io = { .file = &o.file };
    struct ftk_h5_arrays arrays = { 0 };
    int rc = ftk_out_create(&o, dirfd, m->set, FTK_H5_MASTER, &master_points);
    if (rc != FTKIT_OK)
        return rc;
    rc = ftk_h5_master_build(&io, dirfd, m, &arrays);
    if (rc == FTKIT_OK)
        rc = ftk_out_finish(&o);
    else
        ftk_out_discard(&o);
    if (rc == FTKIT_OK)
        rc = ftk_h5_xdmf(dirfd, m, &arrays);
    free(arrays.v);
    return rc;
}
