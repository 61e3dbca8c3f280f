/* Durable level hdf5: the check that a set is complete.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "h5_priv.h"

static int check_sizes(int dirfd, const struct ftk_manifest *m)
{
    for (uint32_t i = 0; i < m->nparts; i++) {
        char name[FTK_H5_NAME_MAX];
        struct ftk_file f;
        size_t bytes;
        ftk_h5_part_name(m->parts[i].part, name);
        int rc = ftk_file_open(dirfd, m->set, name, &f, &bytes);
        if (rc != FTKIT_OK)
            return rc;
        ftk_file_close(&f);
        if (bytes != m->parts[i].file_bytes)
            return ftk_fail(FTKIT_ERR_CORRUPT, "%s: %zu bytes instead of %" PRIu64, f.what, bytes,
                m->parts[i].file_bytes);
    }
    return FTKIT_OK;
}

int ftk_h5_check_parts(
    int dirfd, const struct ftk_manifest *m, bool deep, ftk_head_fn *fn, void *arg)
{
    int rc = check_sizes(dirfd, m);
    if (rc != FTKIT_OK || !deep)
        return rc;
    uint32_t *ranks = ftk_manifest_ranks(m);
    if (!ranks)
        return ftk_fail(FTKIT_ERR_NOMEM, "ranks of set %" PRIu64, m->set);
    const uint32_t *next = ranks;
    for (uint32_t i = 0; i < m->nparts && rc == FTKIT_OK; i++) {
        rc = ftk_h5_part_heads(dirfd, m, &m->parts[i], next, fn, arg);
        next += m->parts[i].nranks;
    }
    free(ranks);
    return rc;
}

int ftk_h5_open_set(
    const char *dir, const char *context, uint64_t set, bool deep, struct ftk_manifest *m)
{
    struct ftk_manifest got = { 0 };
    int rc = ftk_sets_dir_check(context);
    if (rc != FTKIT_OK)
        return rc;
    int dirfd = ftk_h5_open_dir(dir, context, set);
    if (dirfd < 0)
        return errno == ENOENT
                   ? ftk_fail(
                       FTKIT_ERR_NOT_FOUND, "no set %" PRIu64 " of '%s' in %s", set, context, dir)
                   : ftk_fail_errno(errno, "set %" PRIu64 " of '%s' in %s", set, context, dir);
    rc = ftk_manifest_load(dirfd, context, set, &got);
    if (rc == FTKIT_OK) {
        struct ftk_h5_quiet q;
        ftk_h5_quiet(&q);
        rc = ftk_h5_check_parts(dirfd, &got, deep, NULL, NULL);
        ftk_h5_loud(&q);
    }
    close(dirfd);
    if (rc == FTKIT_OK)
        *m = got;
    else
        ftk_manifest_free(&got);
    return rc;
}
