/* Durable level hdf5: names, types and shapes of datasets.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include "h5_priv.h"
#include "store/attribute.h"

/* ---- names --------------------------------------------------------------------------- */

void ftk_h5_part_name(uint32_t part, char *buf)
{
    snprintf(buf, FTK_H5_NAME_MAX, "part-%05u.h5", part);
}

void ftk_h5_rank_name(uint32_t rank, char *buf)
{
    snprintf(buf, FTK_H5_NAME_MAX, "rank_%05u", rank);
}

/* Names with a meaning in HDF5, and names that our own datasets use. */
static bool name_taken(const char *region)
{
    size_t n = strlen(region);
    return strcmp(region, ".") == 0 || strcmp(region, "ranks") == 0
           || strncmp(region, "ftkit.", 6) == 0 || (n >= 5 && strcmp(region + n - 5, ".halo") == 0);
}

void ftk_h5_dataset_name(const char *region, char *buf)
{
    const char *prefix = name_taken(region) ? "ftkit.region." : "";
    snprintf(buf, FTK_H5_NAME_MAX, "%s%s", prefix, region);
}

void ftk_h5_halo_name(const char *region, char *buf)
{
    if (name_taken(region))
        snprintf(buf, FTK_H5_NAME_MAX, "ftkit.halo.%s", region);
    else
        snprintf(buf, FTK_H5_NAME_MAX, "%s.halo", region);
}

/* ---- types --------------------------------------------------------------------------- */

/* A complex number in the form that h5py and other programs read. */
static hid_t complex_of(hid_t part)
{
    size_t bytes = H5Tget_size(part);
    hid_t t = H5Tcreate(H5T_COMPOUND, 2 * bytes);
    if (t >= 0 && (H5Tinsert(t, "r", 0, part) < 0 || H5Tinsert(t, "i", bytes, part) < 0)) {
        H5Tclose(t);
        t = -1;
    }
    return t;
}

static hid_t basic_type(uint32_t basic)
{
    switch (basic) {
    case FTK_T_I8:
        return H5Tcopy(H5T_STD_I8LE);
    case FTK_T_I16:
        return H5Tcopy(H5T_STD_I16LE);
    case FTK_T_I32:
        return H5Tcopy(H5T_STD_I32LE);
    case FTK_T_I64:
        return H5Tcopy(H5T_STD_I64LE);
    case FTK_T_U16:
        return H5Tcopy(H5T_STD_U16LE);
    case FTK_T_U32:
        return H5Tcopy(H5T_STD_U32LE);
    case FTK_T_U64:
        return H5Tcopy(H5T_STD_U64LE);
    case FTK_T_F32:
        return H5Tcopy(H5T_IEEE_F32LE);
    case FTK_T_F64:
        return H5Tcopy(H5T_IEEE_F64LE);
    case FTK_T_LONGDOUBLE:
        return H5Tcopy(H5T_NATIVE_LDOUBLE);
    case FTK_T_C32:
        return complex_of(H5T_IEEE_F32LE);
    case FTK_T_C64:
        return complex_of(H5T_IEEE_F64LE);
    case FTK_T_CLONGDOUBLE:
        return complex_of(H5T_NATIVE_LDOUBLE);
    default: /* bytes, text and bool: nothing to convert, readable everywhere */
        return H5Tcopy(H5T_STD_U8LE);
    }
}

hid_t ftk_h5_type(const struct ftk_seg_region *r)
{
    size_t bytes = ftk_basic_bytes(r->basic);
    if (r->kind != FTK_KIND_ARRAY || r->elem_bytes == bytes)
        return basic_type(r->basic);
    /* each item of the array has several basic values */
    hsize_t n = r->elem_bytes / bytes;
    hid_t basic = basic_type(r->basic);
    hid_t t = basic < 0 ? -1 : H5Tarray_create2(basic, 1, &n);
    ftk_h5_close(basic, H5Tclose);
    return t;
}

/* ---- shapes -------------------------------------------------------------------------- */

void ftk_h5_shape(const struct ftk_seg_region *r, struct ftk_h5_shape *s)
{
    memset(s, 0, sizeof *s);
    s->ndims = 1;
    s->item_bytes = ftk_basic_bytes(r->basic);
    s->items = (size_t)(r->bytes / s->item_bytes);
    s->dims[0] = s->mem[0] = s->items;
    if (r->kind != FTK_KIND_ARRAY)
        return;
    s->ndims = (int)r->ndims;
    s->item_bytes = (size_t)r->elem_bytes;
    s->items = 1;
    for (int d = 0; d < s->ndims; d++) {
        s->dims[d] = r->local[d];
        s->width[d] = r->halo[d];
        s->mem[d] = r->local[d] + 2 * r->halo[d];
        s->items *= (size_t)r->local[d];
    }
    s->halo_items = (size_t)r->count - s->items;
}

hid_t ftk_h5_interior(const struct ftk_h5_shape *s)
{
    hid_t space = H5Screate_simple(s->ndims, s->mem, NULL);
    if (space >= 0 && s->items > 0
        && H5Sselect_hyperslab(space, H5S_SELECT_SET, s->width, NULL, s->dims, NULL) < 0) {
        H5Sclose(space);
        space = -1;
    }
    return space;
}

void ftk_h5_runs_start(struct ftk_h5_runs *it, const struct ftk_h5_shape *s)
{
    memset(it, 0, sizeof *it);
    it->s = s;
    it->nrows = s->halo_items > 0 ? 1 : 0;
    for (int d = 0; d < s->ndims - 1; d++)
        it->nrows *= (size_t)s->mem[d];
}

static bool row_is_interior(const struct ftk_h5_runs *it)
{
    const struct ftk_h5_shape *s = it->s;
    for (int d = 0; d < s->ndims - 1; d++)
        if (it->at[d] < s->width[d] || it->at[d] - s->width[d] >= s->dims[d])
            return false;
    return true;
}

static void next_row(struct ftk_h5_runs *it)
{
    const struct ftk_h5_shape *s = it->s;
    it->row++;
    it->right = false;
    for (int d = s->ndims - 2; d >= 0; d--) {
        if (++it->at[d] < s->mem[d])
            break;
        it->at[d] = 0;
    }
}

bool ftk_h5_runs_next(struct ftk_h5_runs *it, size_t *begin, size_t *items)
{
    const struct ftk_h5_shape *s = it->s;
    int last = s->ndims - 1;
    if (it->row >= it->nrows)
        return false;
    *begin = it->row * (size_t)s->mem[last];
    if (!row_is_interior(it)) {
        *items = (size_t)s->mem[last];
        next_row(it);
        return true;
    }
    *items = (size_t)s->width[last];
    if (it->right) {
        *begin += (size_t)(s->width[last] + s->dims[last]);
        next_row(it);
    } else {
        it->right = true;
    }
    return true;
}

/* ---- attributes ---------------------------------------------------------------------- */

/* Without times, so that the same set makes the same bytes. */
hid_t ftk_h5_group(hid_t loc, const char *name)
{
    hid_t gcpl = H5Pcreate(H5P_GROUP_CREATE);
    hid_t group = -1;
    if (gcpl >= 0 && H5Pset_obj_track_times(gcpl, false) >= 0)
        group = H5Gcreate2(loc, name, H5P_DEFAULT, gcpl, H5P_DEFAULT);
    ftk_h5_close(gcpl, H5Pclose);
    return group;
}

static herr_t put_attr(hid_t obj, const char *name, hid_t type, hid_t space, const void *v)
{
    hid_t a = H5Acreate2(obj, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    herr_t rc = a < 0 ? -1 : H5Awrite(a, type, v);
    if (a >= 0 && H5Aclose(a) < 0)
        rc = -1;
    return rc;
}

static bool is_ascii(const char *text)
{
    while (*text && (unsigned char)*text < 0x80)
        text++;
    return *text == '\0';
}

herr_t ftk_h5_attr_text(hid_t obj, const char *name, const char *text)
{
    hid_t type = H5Tcopy(H5T_C_S1);
    hid_t space = H5Screate(H5S_SCALAR);
    herr_t rc = -1;
    if (type >= 0 && space >= 0 && H5Tset_size(type, strlen(text) + 1) >= 0
        && (is_ascii(text) || H5Tset_cset(type, H5T_CSET_UTF8) >= 0))
        rc = put_attr(obj, name, type, space, text);
    ftk_h5_close(space, H5Sclose);
    ftk_h5_close(type, H5Tclose);
    return rc;
}

herr_t ftk_h5_attr_of_region(hid_t obj, const char *table, size_t bytes, const char *region)
{
    struct ftk_attr a;
    for (size_t at = 0; table && ftk_attr_next(table, bytes, &at, &a);)
        if (strcmp(a.region, region) == 0 && ftk_h5_attr_text(obj, a.name, a.value) < 0)
            return -1;
    return 0;
}

herr_t ftk_h5_attr_u64(hid_t obj, const char *name, const uint64_t *v, size_t n)
{
    hsize_t dim = n;
    hid_t space = n == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &dim, NULL);
    herr_t rc = space < 0 ? -1 : put_attr(obj, name, H5T_STD_U64LE, space, v);
    ftk_h5_close(space, H5Sclose);
    return rc;
}
