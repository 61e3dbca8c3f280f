/* Durable level hdf5: facts about parts that other processes have written.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * When a set is written in the background, the writer of the manifest gets no messages from the
 * other writers; it reads their files.  A part that has its name is whole and durable.  The
 * checksums of its heads show whether the part belongs to this flush. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "h5_priv.h"

bool ftk_h5_threadsafe(void)
{
    hbool_t safe = false;
    /* open HDF5 now: exit handlers run in reverse order, so HDF5 must register its handler before
     * ftkit does */
    return !FTK_FAULT("h5.threadsafe") && H5open() >= 0 && H5is_library_threadsafe(&safe) >= 0
           && safe;
}

int ftk_h5_look(const char *dir, const char *context, uint64_t set, uint32_t part, uint64_t *sign)
{
    char name[FTK_H5_NAME_MAX], tmp[FTK_H5_NAME_MAX + 8];
    struct stat st;
    int dirfd = ftk_h5_open_dir(dir, context, set);
    if (dirfd < 0)
        return ftk_fail_errno(errno, "directory of set %" PRIu64 " under %s", set, dir);
    ftk_h5_part_name(part, name);
    snprintf(tmp, sizeof tmp, "%s.tmp", name);
    *sign = 0;
    int rc = fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0
                 ? FTKIT_OK
                 : ftk_fail(errno == ENOENT ? FTKIT_ERR_NOT_FOUND : FTKIT_ERR_IO,
                     "set %" PRIu64 ": no %s", set, name);
    if (rc == FTKIT_OK || fstatat(dirfd, tmp, &st, AT_SYMLINK_NOFOLLOW) == 0)
        *sign = (uint64_t)st.st_size * 1000000007u + (uint64_t)st.st_mtim.tv_sec * 1000000000u
                + (uint64_t)st.st_mtim.tv_nsec;
    close(dirfd);
    return rc;
}

static int compare_head(const void *head, const struct ftk_manifest_part *p, void *arg)
{
    const struct ftk_seg_header *h = head;
    const uint64_t *heads = arg;
    if (h->head_xxh == heads[h->rank])
        return FTKIT_OK;
    return ftk_fail(FTKIT_ERR_CORRUPT,
        "set %" PRIu64 ", part %u: the segment of rank %u is another one", h->set, p->part,
        h->rank);
}

static int learn_part(int dirfd, const uint64_t *heads, const struct ftk_manifest *m,
    const uint32_t *ranks, struct ftk_manifest_part *p)
{
    char name[FTK_H5_NAME_MAX];
    struct ftk_file f;
    size_t bytes;
    ftk_h5_part_name(p->part, name);
    int rc = ftk_file_open(dirfd, m->set, name, &f, &bytes);
    if (rc != FTKIT_OK)
        return rc;
    ftk_file_close(&f);
    p->file_bytes = bytes;
    return ftk_h5_part_sum(dirfd, m, p, ranks, compare_head, (void *)heads, &p->heads_xxh);
}

int ftk_h5_learn(const char *dir, const uint64_t *heads, struct ftk_manifest *m)
{
    struct ftk_h5_quiet q;
    int dirfd = ftk_h5_open_dir(dir, m->context, m->set);
    if (dirfd < 0)
        return ftk_fail_errno(errno, "directory of set %" PRIu64 " under %s", m->set, dir);
    uint32_t *ranks = ftk_manifest_ranks(m);
    int rc = ranks ? FTKIT_OK : ftk_fail(FTKIT_ERR_NOMEM, "ranks of set %" PRIu64, m->set);
    const uint32_t *next = ranks;
    ftk_h5_quiet(&q);
    for (uint32_t i = 0; i < m->nparts && rc == FTKIT_OK; i++) {
        rc = learn_part(dirfd, heads, m, next, &m->parts[i]);
        next += m->parts[i].nranks;
    }
    ftk_h5_loud(&q);
    free(ranks);
    close(dirfd);
    return rc;
}
