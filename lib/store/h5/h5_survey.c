/* Durable level hdf5, without a job: what there is of a set.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "h5_offline.h"
#include "h5_priv.h"

/* Get the time of the set, and the size of all our files in its directory. */
static void measure(int dirfd, struct ftk_set_entry *e)
{
    struct stat st;
    if (fstatat(dirfd, FTK_MANIFEST_FILE, &st, AT_SYMLINK_NOFOLLOW) == 0 || fstat(dirfd, &st) == 0)
        e->written_s = st.st_mtime;
    int copy = dup(dirfd); /* closedir() closes it */
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    if (!d) {
        if (copy >= 0)
            close(copy);
        return;
    }
    const struct dirent *f;
    while ((f = readdir(d)))
        if (ftk_h5_is_ours(f->d_name) && fstatat(dirfd, f->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0
            && S_ISREG(st.st_mode))
            e->bytes += (uint64_t)st.st_size;
    closedir(d);
    e->bytes += ftk_plain_bytes(dirfd);
}

int ftk_h5_examine(const char *dir, const char *context, uint64_t set, struct ftk_set_entry *e)
{
    struct ftk_manifest m;
    int rc = ftk_sets_dir_check(context);
    if (rc != FTKIT_OK)
        return rc;
    memset(e, 0, sizeof *e);
    e->set = set;
    int dirfd = ftk_h5_open_dir(dir, context, set);
    if (dirfd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
        return ftk_fail(FTKIT_ERR_NOT_FOUND, "no set %" PRIu64 " of '%s' in %s", set, context, dir);
    if (dirfd < 0) {
        e->state = FTK_SET_DAMAGED;
        (void)ftk_fail_errno(errno, "directory of set %" PRIu64, set);
        snprintf(e->why, sizeof e->why, "%s", ftk_detail_text());
        return FTKIT_OK;
    }
    measure(dirfd, e);
    rc = ftk_manifest_load(dirfd, context, set, &m);
    if (rc == FTKIT_OK) {
        e->nranks = m.nranks;
        e->nparts = m.nparts;
        rc = ftk_h5_check_parts(dirfd, &m, false, NULL, NULL);
        ftk_manifest_free(&m);
    }
    if (rc != FTKIT_OK) {
        e->state = ftk_h5_is_unfinished(dirfd) ? FTK_SET_INCOMPLETE : FTK_SET_DAMAGED;
        snprintf(e->why, sizeof e->why, "%s", ftk_detail_text());
    }
    close(dirfd);
    return FTKIT_OK;
}

int ftk_h5_manifest_of(const char *dir, const char *context, uint64_t set, struct ftk_manifest *m)
{
    int rc = ftk_sets_dir_check(context);
    if (rc != FTKIT_OK)
        return rc;
    int dirfd = ftk_h5_open_dir(dir, context, set);
    if (dirfd < 0)
        return ftk_fail(errno == ENOENT ? FTKIT_ERR_NOT_FOUND : FTKIT_ERR_IO,
            "set %" PRIu64 " of '%s' in %s: %s", set, context, dir, strerror(errno));
    rc = ftk_manifest_load(dirfd, context, set, m);
    close(dirfd);
    return rc;
}
