/* Durable level hdf5, without a job: repair a set.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The heads of the parts contain all information that is in the manifest and in the master.  So
 * both files can be made again as long as the parts are whole. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/hash.h"
#include "h5_offline.h"
#include "h5_priv.h"

/* Open the directory of a set.  The caller closes *dirfd. */
static int open_to_mend(const char *dir, const char *context, uint64_t set, int *dirfd)
{
    int rc = ftk_sets_dir_check(context);
    if (rc != FTKIT_OK)
        return rc;
    *dirfd = ftk_h5_open_dir(dir, context, set);
    return *dirfd >= 0 ? FTKIT_OK
                       : ftk_fail_errno(errno, "set %" PRIu64 " of '%s' in %s", set, context, dir);
}

/* List a directory.  The caller calls closedir(); dirfd stays open. */
static DIR *list(int dirfd)
{
    int copy = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    if (!d && copy >= 0)
        close(copy);
    return d;
}

int ftk_h5_leftovers(
    const char *dir, const char *context, uint64_t set, bool only_tell, ftk_name_fn *fn, void *arg)
{
    int dirfd = -1;
    int rc = open_to_mend(dir, context, set, &dirfd);
    if (rc != FTKIT_OK)
        return rc;
    DIR *d = list(dirfd);
    if (!d)
        rc = ftk_fail_errno(errno, "directory of set %" PRIu64, set);
    const struct dirent *e;
    while (d && (e = readdir(d))) {
        size_t n = strlen(e->d_name);
        if (n < 4 || strcmp(e->d_name + n - 4, ".tmp") != 0 || !ftk_h5_is_ours(e->d_name))
            continue;
        fn(e->d_name, arg);
        if (!only_tell && unlinkat(dirfd, e->d_name, 0) != 0 && errno != ENOENT)
            rc = ftk_fail_errno(errno, "set %" PRIu64 ": remove %s", set, e->d_name);
    }
    if (d)
        closedir(d);
    close(dirfd);
    return rc;
}

/* ---- a manifest from parts ----------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
    uint32_t x = ((const struct ftk_manifest_part *)a)->part;
    uint32_t y = ((const struct ftk_manifest_part *)b)->part;
    return x < y ? -1 : x > y;
}

/* Find all existing parts, sorted by number. */
static int find_parts(int dirfd, struct ftk_manifest *m)
{
    DIR *d = list(dirfd);
    if (!d)
        return ftk_fail_errno(errno, "directory of set %" PRIu64, m->set);
    const struct dirent *e;
    while ((e = readdir(d))) {
        size_t n = strlen(e->d_name);
        if (strncmp(e->d_name, "part-", 5) != 0 || !ftk_h5_is_ours(e->d_name)
            || strcmp(e->d_name + n - 3, ".h5") != 0 || m->nparts == FTK_MANIFEST_RANKS_MAX)
            continue;
        struct ftk_manifest_part *more = realloc(m->parts, (m->nparts + (size_t)1) * sizeof *more);
        if (!more) {
            closedir(d);
            return ftk_fail(FTKIT_ERR_NOMEM, "parts of set %" PRIu64, m->set);
        }
        m->parts = more;
        m->parts[m->nparts++] =
            (struct ftk_manifest_part){ .part = (uint32_t)strtoul(e->d_name + 5, NULL, 10) };
    }
    closedir(d);
    if (m->nparts > 1)
        qsort(m->parts, m->nparts, sizeof *m->parts, by_number);
    return FTKIT_OK;
}

/* The ranks in a part, from the names of its groups. */
struct ranks {
    uint32_t *v;
    uint32_t n;
};

static herr_t add_rank_found(hid_t group, const char *name, const H5L_info_t *info, void *arg)
{
    struct ranks *r = arg;
    char again[FTK_H5_NAME_MAX];
    (void)group;
    (void)info;
    if (strncmp(name, "rank_", 5) != 0)
        return 0;
    uint32_t rank = (uint32_t)strtoul(name + 5, NULL, 10);
    ftk_h5_rank_name(rank, again);
    if (strcmp(name, again) != 0 || rank >= FTK_MANIFEST_RANKS_MAX
        || r->n == FTK_MANIFEST_RANKS_MAX)
        return 0;
    uint32_t *more = realloc(r->v, (r->n + (size_t)1) * sizeof *more);
    if (!more)
        return -1;
    r->v = more;
    r->v[r->n++] = rank;
    return 0;
}

static int by_rank(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Enter the rank of a checked head into m, as a rank of m->parts[index].  The first head sets
 * nranks, run, program and epoch_id of m.  Until then m->nranks is 0, and the reader accepts any
 * run. */
static int enter(struct ftk_manifest *m, uint32_t index, const struct ftk_seg_header *h)
{
    if (m->nranks == 0) {
        if (h->nranks > FTK_MANIFEST_RANKS_MAX
            || !(m->part_of = malloc(h->nranks * sizeof *m->part_of)))
            return ftk_fail(
                FTKIT_ERR_NOMEM, "set %" PRIu64 " of %" PRIu32 " ranks", m->set, h->nranks);
        m->nranks = h->nranks;
        m->run = h->run;
        memcpy(m->program, h->program, sizeof m->program);
        m->epoch_id = h->epoch_id; /* two epochs may have written a set of this number */
        for (uint32_t i = 0; i < m->nranks; i++)
            m->part_of[i] = UINT32_MAX;
    }
    if (m->part_of[h->rank] != UINT32_MAX)
        return ftk_fail(
            FTKIT_ERR_FORMAT, "set %" PRIu64 ": rank %" PRIu32 " is in two parts", m->set, h->rank);
    m->part_of[h->rank] = index;
    m->parts[index].nranks++;
    return FTKIT_OK;
}

static int learn_ranks(struct ftk_h5_reader *src, struct ftk_manifest *m, uint32_t index,
    const struct ranks *ranks, XXH3_state_t *x)
{
    int rc = FTKIT_OK;
    for (uint32_t i = 0; i < ranks->n && rc == FTKIT_OK; i++) {
        void *head;
        hid_t group;
        rc = ftk_h5_reader_head(src, m, ranks->v[i], &head, &group);
        if (rc != FTKIT_OK)
            break;
        ftk_xxh3_update(x, head, (size_t)((struct ftk_seg_header *)head)->head_bytes);
        rc = enter(m, index, head);
        H5Gclose(group);
        free(head);
    }
    return rc;
}

/* Fill in m->parts[index] from its file. */
static int learn_part(int dirfd, struct ftk_manifest *m, uint32_t index)
{
    struct ftk_manifest any = { .set = m->set }; /* nranks 0: no size of the file to check */
    struct ftk_h5_reader src;
    struct ranks ranks = { 0 };
    XXH3_state_t *x = XXH3_createState();
    int rc = x ? ftk_h5_reader_open(&src, dirfd, &any, &m->parts[index])
               : ftk_fail(FTKIT_ERR_NOMEM, "state of a checksum");
    if (rc != FTKIT_OK) {
        XXH3_freeState(x);
        return rc;
    }
    XXH3_64bits_reset(x);
    if (H5Literate(src.id, H5_INDEX_NAME, H5_ITER_INC, NULL, add_rank_found, &ranks) < 0)
        rc = ftk_h5_fail(&src.io, FTKIT_ERR_CORRUPT, "list of ranks");
    if (ranks.n > 1)
        qsort(ranks.v, ranks.n, sizeof *ranks.v, by_rank);
    if (rc == FTKIT_OK)
        rc = learn_ranks(&src, m, index, &ranks, x);
    if (rc == FTKIT_OK && ranks.n == 0)
        rc = ftk_fail(FTKIT_ERR_FORMAT, "%s: it has no ranks", src.file.what);
    m->parts[index].file_bytes = src.file_bytes;
    m->parts[index].heads_xxh = XXH3_64bits_digest(x);
    ftk_h5_reader_close(&src);
    free(ranks.v);
    XXH3_freeState(x);
    return rc;
}

static int all_there(const struct ftk_manifest *m)
{
    uint32_t missing = 0, first = 0;
    for (uint32_t i = 0; i < m->nranks; i++)
        if (m->part_of[i] == UINT32_MAX && missing++ == 0)
            first = i;
    if (m->nranks == 0)
        return ftk_fail(FTKIT_ERR_LOST, "set %" PRIu64 ": no part is there", m->set);
    if (missing > 0)
        return ftk_fail(FTKIT_ERR_LOST,
            "set %" PRIu64 ": %" PRIu32 " of %" PRIu32 " ranks are in no part, rank %" PRIu32
            " is the first",
            m->set, missing, m->nranks, first);
    return FTKIT_OK;
}

static int learn_parts(int dirfd, struct ftk_manifest *m)
{
    struct ftk_h5_quiet q;
    int rc = find_parts(dirfd, m);
    ftk_h5_quiet(&q);
    for (uint32_t i = 0; i < m->nparts && rc == FTKIT_OK; i++)
        rc = learn_part(dirfd, m, i);
    ftk_h5_loud(&q);
    return rc == FTKIT_OK ? all_there(m) : rc;
}

int ftk_h5_derive(const char *dir, const char *context, uint64_t set, ftk_finding_fn *report,
    void *arg, struct ftk_manifest *out)
{
    struct ftk_manifest m = { .set = set };
    int dirfd = -1;
    int rc = open_to_mend(dir, context, set, &dirfd);
    if (rc != FTKIT_OK)
        return rc;
    snprintf(m.context, sizeof m.context, "%s", context);
    rc = learn_parts(dirfd, &m);
    close(dirfd);
    for (uint32_t i = 0; i < m.nparts && rc == FTKIT_OK; i++)
        rc = ftk_h5_verify_part(dir, &m, i, report, arg);
    if (rc == FTKIT_OK)
        *out = m;
    else
        ftk_manifest_free(&m);
    return rc;
}

int ftk_h5_remake_master(const char *dir, const struct ftk_manifest *m)
{
    int dirfd = -1;
    int rc = open_to_mend(dir, m->context, m->set, &dirfd);
    if (rc != FTKIT_OK)
        return rc;
    rc = ftk_h5_master(dirfd, m);
    close(dirfd);
    return rc;
}
