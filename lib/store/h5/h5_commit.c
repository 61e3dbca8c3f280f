/* Durable level hdf5: complete a set: write its master, then its manifest.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "h5_priv.h"

static const struct ftk_file_points manifest_points = {
    .write = "h5.manifest.write",
    .fsync = "h5.manifest.fsync",
    .rename = "h5.manifest.rename",
    .dirsync = "h5.manifest.dirsync",
};

int ftk_h5_commit(const char *dir, uint64_t flush, const struct ftk_manifest *m)
{
    char *text = NULL;
    size_t bytes = 0;
    int rc = ftk_sets_dir_check(m->context);
    if (rc == FTKIT_OK)
        rc = ftk_manifest_text(m, &text, &bytes);
    if (rc != FTKIT_OK)
        return rc;
    int dirfd = -1;
    rc = ftk_h5_open_made(dir, m->context, m->set, flush, &dirfd);
    if (rc == FTKIT_OK)
        rc = ftk_h5_master(dirfd, m);
    if (rc == FTKIT_OK)
        rc = ftk_out_text(dirfd, m->set, FTK_MANIFEST_FILE, &manifest_points, text, bytes);
    if (rc == FTKIT_OK) /* beside a manifest this mark has no meaning, so ignore an error */
        (void)unlinkat(dirfd, FTK_H5_UNFINISHED, 0);
    free(text);
    if (dirfd >= 0)
        close(dirfd);
    return rc;
}
