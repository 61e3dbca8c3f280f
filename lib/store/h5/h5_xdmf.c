/* Durable level hdf5: the XDMF file beside the master, for programs that draw.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * XDMF 3 (https://www.xdmf.org, "XDMF Model and Format"); only features that readers of version
 * 2 understand, too.  ParaView and VisIt need a description of the datasets in an HDF5 file.
 * The XDMF file describes every global array of numbers with one to three dimensions, and
 * refers to its dataset in master.h5.
 *
 * Each cell of an array is a node of a regular grid with spacing 1 (Center="Node"), so the grid
 * has the same shape as the dataset.  ftkit does not know the coordinates of the values; values
 * at nodes can be drawn, cut and contoured without coordinates.  Arrays of the same shape share
 * a grid.  Dimensions are in the order of the dataset, the slowest first, which XDMF calls
 * z y x: the last index of a C array is drawn along x.  The time is the number of the set.  The
 * grids of a line apart say so in their names: the blocks of the ranks are of different steps. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "h5_priv.h"

static const struct ftk_file_points xdmf_points = { .write = "h5.xdmf.write" };

/* NULL: XDMF has no such type of number. */
static const char *number_type(uint32_t basic)
{
    switch (basic) {
    case FTK_T_I8:
        return "Char";
    case FTK_T_U8:
        return "UChar";
    case FTK_T_I16:
        return "Short";
    case FTK_T_U16:
        return "UShort";
    case FTK_T_I32:
    case FTK_T_I64:
        return "Int";
    case FTK_T_U32:
    case FTK_T_U64:
        return "UInt";
    case FTK_T_F32:
    case FTK_T_F64:
        return "Float";
    default:
        return NULL;
    }
}

/* XDMF has ':' between file and dataset, '|' between several datasets, and trims blanks. */
static bool name_works(const char *name)
{
    size_t n = strlen(name);
    return !strpbrk(name, ":|") && name[0] != ' ' && name[n - 1] != ' ';
}

static bool is_shown(const struct ftk_seg_region *r)
{
    if (r->ndims > 3 || r->elem_bytes != ftk_basic_bytes(r->basic) || !number_type(r->basic)
        || !name_works(r->name))
        return false;
    for (uint32_t d = 0; d < r->ndims; d++)
        if (r->global[d] == 0)
            return false;
    return true;
}

static bool same_shape(const struct ftk_seg_region *a, const struct ftk_seg_region *b)
{
    return a->ndims == b->ndims
           && memcmp(a->global, b->global, a->ndims * sizeof a->global[0]) == 0;
}

/* ---- text ---------------------------------------------------------------------------- */

static void put_escaped(FILE *f, const char *text)
{
    for (const char *c = text; *c; c++) {
        if (*c == '&')
            fputs("&amp;", f);
        else if (*c == '<')
            fputs("&lt;", f);
        else if (*c == '>')
            fputs("&gt;", f);
        else if (*c == '"')
            fputs("&quot;", f);
        else
            fputc(*c, f);
    }
}

static void put_shape(FILE *f, const struct ftk_seg_region *r)
{
    for (uint32_t d = 0; d < r->ndims; d++)
        fprintf(f, "%s%" PRIu64, d ? " " : "", r->global[d]);
}

static void put_attribute(FILE *f, const struct ftk_seg_region *r)
{
    char name[FTK_H5_NAME_MAX];
    ftk_h5_dataset_name(r->name, name);
    fputs("      <Attribute Name=\"", f);
    put_escaped(f, r->name);
    fputs("\" AttributeType=\"Scalar\" Center=\"Node\">\n        <DataItem Dimensions=\"", f);
    put_shape(f, r);
    fprintf(f, "\" NumberType=\"%s\" Precision=\"%" PRIu64 "\" Format=\"HDF\">",
        number_type(r->basic), r->elem_bytes);
    fputs(FTK_H5_MASTER ":/", f);
    put_escaped(f, name);
    fputs("</DataItem>\n      </Attribute>\n", f);
}

/* XDMF has no regular grid of one dimension, so a row is a plane that is one node wide.  The
 * length comes first, as in the dataset, because readers compare the dimensions from the first
 * one on. */
static void put_mesh(FILE *f, const struct ftk_seg_region *r)
{
    bool solid = r->ndims == 3;
    int n = solid ? 3 : 2;
    fprintf(f, "      <Topology TopologyType=\"%dDCoRectMesh\" Dimensions=\"", n);
    put_shape(f, r);
    fprintf(f, "%s\"/>\n      <Geometry GeometryType=\"%s\">\n", r->ndims == 1 ? " 1" : "",
        solid ? "ORIGIN_DXDYDZ" : "ORIGIN_DXDY");
    for (int k = 0; k < 2; k++) /* the origin, the spacing */
        fprintf(f,
            "        <DataItem Dimensions=\"%d\" NumberType=\"Float\" Precision=\"8\" "
            "Format=\"XML\">%d %d%s</DataItem>\n",
            n, k, k,
            !solid ? ""
            : k    ? " 1"
                   : " 0");
    fputs("      </Geometry>\n", f);
}

/* The grid of a->v[first] and of all later arrays of the same shape. */
static void put_grid(
    FILE *f, const struct ftk_manifest *m, const struct ftk_h5_arrays *a, size_t first)
{
    const struct ftk_seg_region *r = &a->v[first];
    fputs("    <Grid Name=\"", f);
    put_escaped(f, m->context);
    fputc(' ', f);
    for (uint32_t d = 0; d < r->ndims; d++)
        fprintf(f, "%s%" PRIu64, d ? "x" : "", r->global[d]);
    fprintf(f, "%s\" GridType=\"Uniform\">\n      <Time Value=\"%" PRIu64 "\"/>\n",
        a->apart ? " (line apart)" : "", m->set);
    put_mesh(f, r);
    for (size_t i = first; i < a->n; i++)
        if (is_shown(&a->v[i]) && same_shape(&a->v[i], r))
            put_attribute(f, &a->v[i]);
    fputs("    </Grid>\n", f);
}

static bool is_first(const struct ftk_h5_arrays *a, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (is_shown(&a->v[k]) && same_shape(&a->v[k], &a->v[i]))
            return false;
    return true;
}

/* malloc'd *text; *bytes is 0 when there is nothing to show. */
static int format(
    const struct ftk_manifest *m, const struct ftk_h5_arrays *a, char **text, size_t *bytes)
{
    size_t grids = 0;
    *text = NULL;
    FILE *f = open_memstream(text, bytes);
    if (!f)
        return ftk_fail(FTKIT_ERR_NOMEM, "set %" PRIu64 ": %s", m->set, FTK_H5_XDMF);
    fputs("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<Xdmf Version=\"3.0\">\n  <Domain>\n", f);
    for (size_t i = 0; i < a->n; i++) {
        if (!is_shown(&a->v[i]) || !is_first(a, i))
            continue;
        put_grid(f, m, a, i);
        grids++;
    }
    fputs("  </Domain>\n</Xdmf>\n", f);
    bool failed = ferror(f) != 0;
    if (fclose(f) != 0 || failed) {
        free(*text);
        return ftk_fail(FTKIT_ERR_NOMEM, "set %" PRIu64 ": %s", m->set, FTK_H5_XDMF);
    }
    if (grids == 0)
        *bytes = 0;
    return FTKIT_OK;
}

/* ---- the file ------------------------------------------------------------------------ */

int ftk_h5_xdmf(int dirfd, const struct ftk_manifest *m, const struct ftk_h5_arrays *arrays)
{
    char *text;
    size_t bytes;
    int rc = format(m, arrays, &text, &bytes);
    if (rc != FTKIT_OK)
        return rc;
    if (bytes > 0)
        rc = ftk_out_text(dirfd, m->set, FTK_H5_XDMF, &xdmf_points, text, bytes);
    else if (unlinkat(dirfd, FTK_H5_XDMF, 0) != 0 && errno != ENOENT) /* of an earlier master */
        rc = ftk_fail_errno(errno, "set %" PRIu64 ": remove " FTK_H5_XDMF, m->set);
    free(text);
    return rc;
}
