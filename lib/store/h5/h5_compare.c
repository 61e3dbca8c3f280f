/* Durable level hdf5, without a job: check the master file.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The master is made from the heads of the parts, so the master on disk is compared with one
 * that is made anew, in memory.  Another version of HDF5 may write the same objects in other
 * bytes.  So when the bytes differ, the files are compared again, object by object. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "h5_offline.h"
#include "h5_priv.h"

#define DEPTH_MAX 4 /* a master has two levels of groups */

struct compare {
    struct ftk_h5_io *io; /* of the master on disk */
    ftk_finding_fn *report;
    void *arg;
    int rc;
};

static void found_difference(struct compare *c, int code)
{
    struct ftk_finding f = { .code = code, .rank = -1, .block = -1 };
    snprintf(f.file, sizeof f.file, "%s", FTK_H5_MASTER);
    snprintf(f.text, sizeof f.text, "%s", ftk_detail_text());
    if (c->rc == FTKIT_OK)
        c->rc = code;
    c->report(&f, c->arg);
}

static void unreadable(struct compare *c, const char *name)
{
    found_difference(c, ftk_h5_fail(c->io, FTKIT_ERR_CORRUPT, "cannot read '%s'", name));
}

static void differs(struct compare *c, const char *name, const char *what)
{
    found_difference(c, ftk_fail(FTKIT_ERR_MISMATCH, "%s: '%s' is not what the parts say: %s",
                            c->io->file->what, name, what));
}

/* ---- attributes ---------------------------------------------------------------------- */

/* Read the bytes of an attribute.  false: the attribute cannot be read, or is larger than any
 * attribute of a set. */
static bool attr_bytes(hid_t obj, const char *name, char buf[4096], size_t *bytes)
{
    hid_t a = H5Aopen(obj, name, H5P_DEFAULT);
    hid_t type = a < 0 ? -1 : H5Aget_type(a);
    hsize_t n = a < 0 ? 0 : H5Aget_storage_size(a);
    bool good = type >= 0 && n > 0 && n <= 4096 && H5Tget_class(type) != H5T_VLEN
                && H5Tdetect_class(type, H5T_VLEN) == 0 && H5Tdetect_class(type, H5T_REFERENCE) == 0
                && H5Tis_variable_str(type) == 0 && H5Aread(a, type, buf) >= 0;
    *bytes = (size_t)n;
    ftk_h5_close(type, H5Tclose);
    ftk_h5_close(a, H5Aclose);
    return good;
}

static void compare_attrs(struct compare *c, hid_t want, hid_t have, const char *name)
{
    static const char *const names[] = { "ftkit.set", "ftkit.context", "ftkit.program",
        "ftkit.nranks", "ftkit.type" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char a[4096], b[4096];
        size_t na, nb;
        if (H5Aexists(want, names[i]) <= 0)
            continue;
        if (!attr_bytes(want, names[i], a, &na) || !attr_bytes(have, names[i], b, &nb) || na != nb
            || memcmp(a, b, na) != 0)
            differs(c, name, names[i]);
    }
}

/* ---- virtual datasets ---------------------------------------------------------------- */

static bool same_bounds(hid_t a, hid_t b)
{
    hsize_t from[2][H5S_MAX_RANK], to[2][H5S_MAX_RANK];
    int n = H5Sget_simple_extent_ndims(a);
    if (n < 1 || n != H5Sget_simple_extent_ndims(b)
        || H5Sget_select_npoints(a) != H5Sget_select_npoints(b)
        || H5Sget_select_bounds(a, from[0], to[0]) < 0
        || H5Sget_select_bounds(b, from[1], to[1]) < 0)
        return false;
    size_t bytes = (size_t)n * sizeof(hsize_t);
    return memcmp(from[0], from[1], bytes) == 0 && memcmp(to[0], to[1], bytes) == 0;
}

typedef ssize_t name_fn(hid_t dcpl, size_t i, char *name, size_t bytes);

static bool same_name(name_fn *get, hid_t a, hid_t b, size_t i)
{
    char x[4 * FTK_H5_NAME_MAX] = "", y[4 * FTK_H5_NAME_MAX] = "";
    ssize_t n = get(a, i, x, sizeof x);
    return n > 0 && get(b, i, y, sizeof y) == n && (size_t)n < sizeof x
           && memcmp(x, y, (size_t)n) == 0;
}

static bool same_mapping(hid_t a, hid_t b, size_t i)
{
    if (!same_name(H5Pget_virtual_filename, a, b, i)
        || !same_name(H5Pget_virtual_dsetname, a, b, i))
        return false;
    hid_t x = H5Pget_virtual_vspace(a, i), y = H5Pget_virtual_vspace(b, i);
    bool same = x >= 0 && y >= 0 && same_bounds(x, y);
    ftk_h5_close(x, H5Sclose);
    ftk_h5_close(y, H5Sclose);
    return same;
}

static const char *compare_layouts(hid_t a, hid_t b)
{
    H5D_layout_t layout = H5Pget_layout(a);
    size_t n = 0, nb = 0;
    if (layout != H5Pget_layout(b))
        return "layout";
    if (layout != H5D_VIRTUAL)
        return NULL;
    if (H5Pget_virtual_count(a, &n) < 0 || H5Pget_virtual_count(b, &nb) < 0 || n != nb)
        return "number of blocks";
    for (size_t i = 0; i < n; i++)
        if (!same_mapping(a, b, i))
            return "place of a block";
    return NULL;
}

static const char *compare_datasets(hid_t a, hid_t b)
{
    const char *what = "cannot be read";
    hid_t ta = H5Dget_type(a), tb = H5Dget_type(b);
    hid_t sa = H5Dget_space(a), sb = H5Dget_space(b);
    hid_t pa = H5Dget_create_plist(a), pb = H5Dget_create_plist(b);
    if (ta >= 0 && tb >= 0 && sa >= 0 && sb >= 0 && pa >= 0 && pb >= 0) {
        if (H5Tequal(ta, tb) <= 0)
            what = "type";
        else if (H5Sextent_equal(sa, sb) <= 0)
            what = "shape";
        else
            what = compare_layouts(pa, pb);
    }
    ftk_h5_close(pb, H5Pclose);
    ftk_h5_close(pa, H5Pclose);
    ftk_h5_close(sb, H5Sclose);
    ftk_h5_close(sa, H5Sclose);
    ftk_h5_close(tb, H5Tclose);
    ftk_h5_close(ta, H5Tclose);
    return what;
}

/* ---- groups and links ---------------------------------------------------------------- */

static void compare_groups(struct compare *c, hid_t want, hid_t have, int depth);

static void compare_objects(struct compare *c, hid_t want, hid_t have, const char *name, int depth)
{
    hid_t a = H5Oopen(want, name, H5P_DEFAULT), b = H5Oopen(have, name, H5P_DEFAULT);
    if (a < 0 || b < 0) {
        unreadable(c, name);
    } else if (H5Iget_type(a) != H5Iget_type(b)) {
        differs(c, name, "kind of object");
    } else {
        compare_attrs(c, a, b, name);
        if (H5Iget_type(a) == H5I_GROUP) {
            compare_groups(c, a, b, depth + 1);
        } else {
            const char *what = compare_datasets(a, b);
            if (what)
                differs(c, name, what);
        }
    }
    ftk_h5_close(b, H5Oclose);
    ftk_h5_close(a, H5Oclose);
}

static void compare_link(struct compare *c, hid_t want, hid_t have, const char *name, int depth)
{
    H5L_info_t a, b;
    char x[4 * FTK_H5_NAME_MAX], y[4 * FTK_H5_NAME_MAX];
    if (H5Lget_info(want, name, &a, H5P_DEFAULT) < 0)
        return;
    if (H5Lget_info(have, name, &b, H5P_DEFAULT) < 0)
        unreadable(c, name);
    else if (a.type != b.type)
        differs(c, name, "kind of link");
    else if (a.type == H5L_TYPE_HARD)
        compare_objects(c, want, have, name, depth);
    else if (a.u.val_size != b.u.val_size || a.u.val_size > sizeof x
             || H5Lget_val(want, name, x, sizeof x, H5P_DEFAULT) < 0
             || H5Lget_val(have, name, y, sizeof y, H5P_DEFAULT) < 0
             || memcmp(x, y, a.u.val_size) != 0)
        differs(c, name, "target of a link");
}

struct walk {
    struct compare *c;
    hid_t have;
    int depth;
};

static herr_t each_link(hid_t group, const char *name, const H5L_info_t *info, void *arg)
{
    struct walk *w = arg;
    (void)info;
    compare_link(w->c, group, w->have, name, w->depth);
    return 0;
}

static void compare_groups(struct compare *c, hid_t want, hid_t have, int depth)
{
    H5G_info_t a, b;
    struct walk w = { c, have, depth };
    if (depth > DEPTH_MAX)
        return;
    if (H5Gget_info(want, &a) < 0 || H5Gget_info(have, &b) < 0)
        unreadable(c, "group");
    else if (a.nlinks != b.nlinks)
        differs(c, depth ? "ranks" : "/", "number of names");
    else if (H5Literate(want, H5_INDEX_NAME, H5_ITER_INC, NULL, each_link, &w) < 0)
        unreadable(c, "group");
}

/* ---- files --------------------------------------------------------------------------- */

static bool same_bytes(int a, int b)
{
    char x[8192], y[8192];
    for (off_t at = 0;;) {
        ssize_t n = pread(a, x, sizeof x, at);
        if (n < 0 || pread(b, y, sizeof y, at) != n || memcmp(x, y, (size_t)n) != 0)
            return false;
        if (n == 0)
            return true;
        at += n;
    }
}

static void compare_files(struct compare *c, struct ftk_h5_io *anew)
{
    hid_t want = ftk_h5_file_open(anew), have = -1;
    if (want >= 0)
        have = ftk_h5_file_open(c->io);
    if (want < 0 || have < 0) {
        found_difference(c, ftk_h5_fail(want < 0 ? anew : c->io, FTKIT_ERR_CORRUPT, "open"));
    } else {
        hid_t a = H5Gopen2(want, "/", H5P_DEFAULT), b = H5Gopen2(have, "/", H5P_DEFAULT);
        if (a < 0 || b < 0) {
            unreadable(c, "/");
        } else {
            compare_attrs(c, a, b, "/");
            compare_groups(c, a, b, 0);
        }
        ftk_h5_close(b, H5Gclose);
        ftk_h5_close(a, H5Gclose);
    }
    if (have >= 0)
        ftk_h5_file_close(c->io, have);
    if (want >= 0)
        ftk_h5_file_close(anew, want);
}

/* The parts are damaged, so there is no master to compare with.  Check that each object of the
 * master on disk can be opened. */
static void open_only(struct compare *c)
{
    hid_t file = ftk_h5_file_open(c->io);
    if (file < 0) {
        found_difference(c, ftk_h5_fail(c->io, FTKIT_ERR_CORRUPT, "open"));
        return;
    }
    hid_t root = H5Gopen2(file, "/", H5P_DEFAULT);
    if (root < 0)
        unreadable(c, "/");
    else
        compare_groups(c, root, root, 0);
    ftk_h5_close(root, H5Gclose);
    ftk_h5_file_close(c->io, file);
}

static void compare_master(
    struct compare *c, int dirfd, const struct ftk_manifest *m, struct ftk_h5_io *anew)
{
    anew->file->fd = memfd_create("ftkit-master", MFD_CLOEXEC);
    if (anew->file->fd < 0) {
        found_difference(c, ftk_fail_errno(errno, "memory for a master"));
        return;
    }
    snprintf(
        anew->file->what, sizeof anew->file->what, "set %" PRIu64 ", master made anew", m->set);
    int rc = ftk_h5_master_build(anew, dirfd, m, NULL);
    if (rc == FTKIT_ERR_NOMEM)
        found_difference(c, rc);
    else if (rc != FTKIT_OK)
        open_only(c);
    else if (!same_bytes(anew->file->fd, c->io->file->fd))
        compare_files(c, anew);
    close(anew->file->fd);
}

int ftk_h5_verify_master(
    const char *dir, const struct ftk_manifest *m, ftk_finding_fn *report, void *arg)
{
    struct ftk_file file, of_anew = { .fd = -1 };
    struct ftk_h5_io io = { .file = &file }, anew = { .file = &of_anew };
    struct compare c = { .io = &io, .report = report, .arg = arg };
    struct ftk_h5_quiet q;
    size_t bytes;
    int rc = ftk_sets_dir_check(m->context);
    if (rc != FTKIT_OK)
        return rc;
    int dirfd = ftk_h5_open_dir(dir, m->context, m->set);
    if (dirfd < 0)
        return ftk_fail_errno(errno, "set %" PRIu64 " in %s", m->set, dir);
    rc = ftk_file_open(dirfd, m->set, FTK_H5_MASTER, &file, &bytes);
    if (rc != FTKIT_OK) {
        found_difference(&c, rc);
    } else {
        ftk_h5_quiet(&q);
        compare_master(&c, dirfd, m, &anew);
        ftk_h5_loud(&q);
        ftk_file_close(&file);
    }
    close(dirfd);
    return c.rc;
}
