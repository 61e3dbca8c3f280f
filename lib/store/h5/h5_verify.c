/* Durable level hdf5, without a job: check every byte of a part, read one region.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A restart gives a set up at the first error; the check continues and reports all errors.
 * HDF5 has checksums of all its metadata (names, types, shapes, attributes), and compares them
 * when it opens an object.  The checksums in the heads cover the data, and the manifest has a
 * checksum of the heads. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/hash.h"
#include "h5_offline.h"
#include "h5_priv.h"

struct verify {
    struct ftk_h5_reader src;
    const struct ftk_manifest *m;
    char file[FTK_H5_NAME_MAX];
    const char *region; /* that is read */
    bool named;         /* a plain file of it is damaged, and was reported */
    ftk_finding_fn *report;
    void *arg;
    int rc; /* code of the first finding */
};

/* Report a finding; its text is the detail of this thread. */
static void found_damage(
    struct verify *v, int code, int64_t rank, const char *region, int64_t block)
{
    struct ftk_finding f = { .code = code, .rank = rank, .block = block };
    snprintf(f.file, sizeof f.file, "%.63s", v->file);
    snprintf(f.region, sizeof f.region, "%s", region);
    snprintf(f.text, sizeof f.text, "%s", ftk_detail_text());
    if (v->rc == FTKIT_OK)
        v->rc = code;
    v->report(&f, v->arg);
}

/* A plain file of a region is damaged. */
static void found_file(void *arg, int code, const char *path)
{
    struct verify *v = arg;
    struct ftk_finding f = { .code = code, .rank = v->src.rank, .block = -1 };
    const struct ftk_plain p = { v->src.dirfd, v->src.set, v->src.rank, v->region };
    _Static_assert(sizeof f.file >= FTK_PLAIN_PATH_MAX, "the path of a plain file");
    ftk_plain_path(&p, path, f.file);
    snprintf(f.region, sizeof f.region, "%s", v->region);
    snprintf(f.text, sizeof f.text, "%s", ftk_detail_text());
    if (v->rc == FTKIT_OK)
        v->rc = code;
    v->named = true;
    v->report(&f, v->arg);
}

/* Return the name of the first region in a block.  *skip: a region in the block could not be
 * read. */
static const char *region_of_block(const void *head, const bool *unread, uint64_t block, bool *skip)
{
    const struct ftk_seg_header *h = head;
    const struct ftk_seg_region *r = ftk_seg_regions_c(head);
    uint64_t lo = block * h->block_bytes, hi = lo + h->block_bytes;
    const char *name = "";
    *skip = false;
    for (uint32_t i = 0; i < h->nregions; i++) {
        if (r[i].bytes == 0 || r[i].offset >= hi || r[i].offset + r[i].bytes <= lo)
            continue;
        if (!*name)
            name = r[i].name;
        *skip |= unread[i];
    }
    return name;
}

/* Compare all blocks, except those with bytes of a region that could not be read.  Such a region
 * is reported already, and its bytes in memory have no value. */
static void verify_blocks(struct verify *v, const void *seg, const bool *unread)
{
    const struct ftk_seg_header *h = seg;
    for (size_t sure = 0; sure < h->data_bytes;) {
        uint64_t block = sure / h->block_bytes;
        bool skip;
        const char *name = region_of_block(seg, unread, block, &skip);
        int rc = skip ? FTKIT_OK : ftk_seg_check_upto(seg, &sure, sure + 1, v->src.file.what);
        if (rc != FTKIT_OK)
            found_damage(v, rc, h->rank, name, (int64_t)block);
        if (skip || rc != FTKIT_OK)
            sure += h->block_bytes;
    }
}

static void verify_data(struct verify *v, const void *head, hid_t group)
{
    const struct ftk_seg_header *h = head;
    const struct ftk_seg_region *r = ftk_seg_regions_c(head);
    void *seg = NULL;
    bool *unread = calloc((size_t)h->nregions + 1, sizeof *unread);
    int rc = unread ? ftk_h5_reader_memory(&v->src, head, group, &seg)
                    : ftk_fail(FTKIT_ERR_NOMEM, "%u regions", h->nregions);
    v->src.found = found_file;
    v->src.found_arg = v;
    if (rc != FTKIT_OK) {
        found_damage(v, rc, h->rank, "", -1);
        free(unread);
        return;
    }
    for (uint32_t i = 0; i < h->nregions; i++) {
        v->region = r[i].name;
        v->named = false;
        rc = ftk_h5_reader_region(&v->src, group, &r[i], ftk_seg_data(seg));
        unread[i] = rc != FTKIT_OK;
        if (unread[i] && !v->named)
            found_damage(v, rc, h->rank, r[i].name, -1);
    }
    verify_blocks(v, seg, unread);
    free(seg);
    free(unread);
}

static void found_stranger(void *arg, const char *path)
{
    struct verify *v = arg;
    struct ftk_finding f = { .code = FTKIT_ERR_FORMAT, .rank = -1, .block = -1 };
    snprintf(f.file, sizeof f.file, "%s", path);
    snprintf(f.text, sizeof f.text, "the set does not have it");
    if (v->rc == FTKIT_OK)
        v->rc = ftk_fail(f.code, "%s: the set does not have it", path);
    v->report(&f, v->arg);
}

/* Look for files of regions that the rank does not have. */
static void verify_strangers(struct verify *v, const void *head, hid_t group)
{
    const struct ftk_seg_header *h = head;
    const struct ftk_seg_region *r = ftk_seg_regions_c(head);
    const char **names = calloc((size_t)h->nregions + 1, sizeof *names);
    size_t n = 0;
    int err = names ? 0 : ENOMEM;
    for (uint32_t i = 0; !err && i < h->nregions; i++)
        if (ftk_h5_files_plain(group, &r[i]))
            names[n++] = r[i].name;
    if (!err)
        err = ftk_plain_strangers(v->src.dirfd, h->rank, h->nranks, names, n, found_stranger, v);
    if (err)
        found_damage(v, ftk_fail_errno(err, FTK_PLAIN_DIR), h->rank, "", -1);
    free(names);
}

static void verify_ranks(struct verify *v, const uint32_t *ranks)
{
    const struct ftk_manifest_part *p = v->src.part;
    bool heads = true;
    XXH3_state_t *x = XXH3_createState();
    if (!x) {
        found_damage(v, ftk_fail(FTKIT_ERR_NOMEM, "state of a checksum"), -1, "", -1);
        return;
    }
    XXH3_64bits_reset(x);
    for (uint32_t i = 0; i < p->nranks; i++) {
        void *head;
        hid_t group;
        int rc = ftk_h5_reader_head(&v->src, v->m, ranks[i], &head, &group);
        if (rc != FTKIT_OK) {
            found_damage(v, rc, ranks[i], "", -1);
            heads = false;
            continue;
        }
        ftk_xxh3_update(x, head, (size_t)((struct ftk_seg_header *)head)->head_bytes);
        verify_data(v, head, group);
        verify_strangers(v, head, group);
        H5Gclose(group);
        free(head);
    }
    if (heads && XXH3_64bits_digest(x) != p->heads_xxh)
        found_damage(v,
            ftk_fail(FTKIT_ERR_CORRUPT,
                "set %" PRIu64 ", part %u: whole, but not what the manifest says", v->m->set,
                p->part),
            -1, "", -1);
    XXH3_freeState(x);
}

static int open_to_verify(const char *dir, const struct ftk_manifest *m, int *dirfd)
{
    int rc = ftk_sets_dir_check(m->context);
    if (rc != FTKIT_OK)
        return rc;
    *dirfd = ftk_h5_open_dir(dir, m->context, m->set);
    if (*dirfd < 0)
        return ftk_fail_errno(errno, "set %" PRIu64 " in %s", m->set, dir);
    return FTKIT_OK;
}

/* The ranks of part m->parts[index] as *ranks, a place in *all.  The caller frees *all. */
static int ranks_of(
    const struct ftk_manifest *m, uint32_t index, uint32_t **all, const uint32_t **ranks)
{
    if (index >= m->nparts)
        return ftk_fail(FTKIT_ERR_ARG, "part %u of %u", index, m->nparts);
    *all = ftk_manifest_ranks(m);
    if (!*all)
        return ftk_fail(FTKIT_ERR_NOMEM, "ranks of set %" PRIu64, m->set);
    *ranks = *all;
    for (uint32_t i = 0; i < index; i++)
        *ranks += m->parts[i].nranks;
    return FTKIT_OK;
}

int ftk_h5_verify_part(const char *dir, const struct ftk_manifest *m, uint32_t index,
    ftk_finding_fn *report, void *arg)
{
    struct verify v = { .m = m, .report = report, .arg = arg };
    struct ftk_h5_quiet q;
    uint32_t *all = NULL;
    const uint32_t *ranks = NULL;
    int dirfd = -1;
    int rc = ranks_of(m, index, &all, &ranks);
    if (rc == FTKIT_OK)
        rc = open_to_verify(dir, m, &dirfd);
    if (rc == FTKIT_OK) {
        ftk_h5_part_name(m->parts[index].part, v.file);
        ftk_h5_quiet(&q);
        rc = ftk_h5_reader_open(&v.src, dirfd, m, &m->parts[index]);
        if (rc == FTKIT_OK) {
            verify_ranks(&v, ranks);
            ftk_h5_reader_close(&v.src);
        } else {
            found_damage(&v, rc, -1, "", -1);
        }
        ftk_h5_loud(&q);
        rc = v.rc;
        close(dirfd);
    }
    free(all);
    return rc;
}

int ftk_h5_part_records(
    const char *dir, const struct ftk_manifest *m, uint32_t index, ftk_head_fn *fn, void *arg)
{
    struct ftk_h5_quiet q;
    uint32_t *all = NULL;
    const uint32_t *ranks = NULL;
    int dirfd = -1;
    int rc = ranks_of(m, index, &all, &ranks);
    if (rc == FTKIT_OK)
        rc = open_to_verify(dir, m, &dirfd);
    if (rc == FTKIT_OK) {
        ftk_h5_quiet(&q);
        rc = ftk_h5_part_heads(dirfd, m, &m->parts[index], ranks, fn, arg);
        ftk_h5_loud(&q);
        close(dirfd);
    }
    free(all);
    return rc;
}

/* ---- one region ---------------------------------------------------------------------- */

/* Read the regions that share blocks with r, then compare these blocks. */
static int read_around(
    const struct ftk_h5_reader *src, hid_t group, void *seg, const struct ftk_seg_region *r)
{
    const struct ftk_seg_header *h = seg;
    const struct ftk_seg_region *all = ftk_seg_regions_c(seg);
    uint64_t lo = r->offset / h->block_bytes * h->block_bytes;
    uint64_t hi = r->offset + r->bytes;
    hi = (hi + h->block_bytes - 1) / h->block_bytes * h->block_bytes;
    int rc = FTKIT_OK;
    for (uint32_t i = 0; i < h->nregions && rc == FTKIT_OK; i++)
        if (&all[i] == r || (all[i].offset < hi && all[i].offset + all[i].bytes > lo))
            rc = ftk_h5_reader_region(src, group, &all[i], ftk_seg_data(seg));
    size_t sure = (size_t)lo;
    if (rc == FTKIT_OK && r->bytes > 0)
        rc = ftk_seg_check_upto(seg, &sure, (size_t)(r->offset + r->bytes), src->file.what);
    return rc;
}

static int get_one(struct ftk_h5_reader *src, const struct ftk_manifest *m, uint32_t rank,
    const char *region, void **seg, const struct ftk_seg_region **record)
{
    void *head = NULL, *s = NULL;
    hid_t group;
    const struct ftk_seg_region *r = NULL;
    int rc = ftk_h5_reader_head(src, m, rank, &head, &group);
    if (rc != FTKIT_OK)
        return rc;
    if (!ftk_seg_find(head, region))
        rc = ftk_fail(FTKIT_ERR_NOT_FOUND, "%s: no region '%s'", src->file.what, region);
    else
        rc = ftk_h5_reader_memory(src, head, group, &s);
    if (rc == FTKIT_OK) {
        r = ftk_seg_find(s, region);
        rc = read_around(src, group, s, r);
    }
    H5Gclose(group);
    free(head);
    if (rc != FTKIT_OK) {
        free(s);
        return rc;
    }
    *seg = s;
    *record = r;
    return FTKIT_OK;
}

int ftk_h5_read_region(const char *dir, const struct ftk_manifest *m, uint32_t rank,
    const char *region, void **seg, const struct ftk_seg_region **record)
{
    struct ftk_h5_reader src;
    struct ftk_h5_quiet q;
    int dirfd = -1;
    if (rank >= m->nranks)
        return ftk_fail(FTKIT_ERR_ARG, "rank %u of %u", rank, m->nranks);
    int rc = open_to_verify(dir, m, &dirfd);
    if (rc != FTKIT_OK)
        return rc;
    ftk_h5_quiet(&q);
    rc = ftk_h5_reader_open(&src, dirfd, m, &m->parts[m->part_of[rank]]);
    if (rc == FTKIT_OK) {
        rc = get_one(&src, m, rank, region, seg, record);
        ftk_h5_reader_close(&src);
    }
    ftk_h5_loud(&q);
    close(dirfd);
    return rc;
}
