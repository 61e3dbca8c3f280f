/* Place "hdf5", without a job: list the contexts of a directory and their sets.
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

#define SUFFIX ".ftkit"

/* ---- contexts ------------------------------------------------------------------------ */

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Get the name of the context from the name of its directory.  false: file is not the directory
 * of a context.  A link is not followed. */
static bool context_name(int dirfd, const char *file, char name[FTKIT_NAME_MAX + 1])
{
    struct stat st;
    size_t n = strlen(file), tail = sizeof SUFFIX - 1;
    if (n <= tail || n - tail > FTKIT_NAME_MAX || strcmp(file + n - tail, SUFFIX) != 0)
        return false;
    memcpy(name, file, n - tail);
    name[n - tail] = '\0';
    return ftk_h5_check_context(name) == FTKIT_OK
           && fstatat(dirfd, file, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

int ftk_h5_contexts(const char *dir, char (**names)[FTKIT_NAME_MAX + 1], size_t *n)
{
    char(*v)[FTKIT_NAME_MAX + 1] = NULL;
    size_t have = 0, room = 0;
    int rc = FTKIT_OK;
    DIR *d = opendir(*dir ? dir : ".");
    if (!d)
        return ftk_fail_errno(errno, "%s", dir);
    const struct dirent *e;
    for (errno = 0; (e = readdir(d)); errno = 0) {
        char name[FTKIT_NAME_MAX + 1];
        if (!context_name(dirfd(d), e->d_name, name))
            continue;
        if (have == room) {
            room = room ? 2 * room : 16;
            void *more = realloc(v, room * sizeof *v);
            if (!more) {
                rc = ftk_fail(FTKIT_ERR_NOMEM, "list of contexts");
                break;
            }
            v = more;
        }
        memcpy(v[have++], name, sizeof name);
    }
    if (rc == FTKIT_OK && errno != 0)
        rc = ftk_fail_errno(errno, "%s", dir);
    closedir(d);
    if (rc != FTKIT_OK) {
        free(v);
        return rc;
    }
    if (have > 0)
        qsort(v, have, sizeof *v, by_name);
    *names = v;
    *n = have;
    return FTKIT_OK;
}

/* ---- sets ---------------------------------------------------------------------------- */

/* Get the time of the set, and the size of all our files in its directory. */
static void measure(int dirfd, struct ftk_h5_entry *e)
{
    struct stat st;
    if (fstatat(dirfd, FTK_H5_MANIFEST, &st, AT_SYMLINK_NOFOLLOW) == 0 || fstat(dirfd, &st) == 0)
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
}

int ftk_h5_examine(const char *dir, const char *context, uint64_t set, struct ftk_h5_entry *e)
{
    struct ftk_h5_manifest m;
    int rc = ftk_h5_check_context(context);
    if (rc != FTKIT_OK)
        return rc;
    memset(e, 0, sizeof *e);
    e->set = set;
    int dirfd = ftk_h5_open_dir(dir, context, set);
    if (dirfd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
        return ftk_fail(FTKIT_ERR_NOT_FOUND, "no set %" PRIu64 " of '%s' in %s", set, context, dir);
    if (dirfd < 0) {
        e->state = FTK_H5_DAMAGED;
        (void)ftk_fail_errno(errno, "directory of set %" PRIu64, set);
        snprintf(e->why, sizeof e->why, "%s", ftk_detail_text());
        return FTKIT_OK;
    }
    measure(dirfd, e);
    rc = ftk_h5_read_manifest(dirfd, context, set, &m);
    if (rc == FTKIT_OK) {
        e->nranks = m.nranks;
        e->nparts = m.nparts;
        rc = ftk_h5_check_parts(dirfd, &m, false, NULL, NULL);
        ftk_h5_manifest_free(&m);
    }
    if (rc != FTKIT_OK) {
        e->state = ftk_h5_is_unfinished(dirfd) ? FTK_H5_INCOMPLETE : FTK_H5_DAMAGED;
        snprintf(e->why, sizeof e->why, "%s", ftk_detail_text());
    }
    close(dirfd);
    return FTKIT_OK;
}

int ftk_h5_survey(const char *dir, const char *context, struct ftk_h5_entry **v, size_t *n)
{
    uint64_t *sets = NULL;
    size_t all = 0, have = 0;
    int rc = ftk_h5_numbers(dir, context, &sets, &all);
    if (rc != FTKIT_OK)
        return rc;
    struct ftk_h5_entry *e = calloc(all ? all : 1, sizeof *e);
    if (!e)
        rc = ftk_fail(FTKIT_ERR_NOMEM, "list of sets");
    for (size_t i = 0; i < all && rc == FTKIT_OK; i++) {
        rc = ftk_h5_examine(dir, context, sets[i], &e[have]);
        if (rc == FTKIT_OK)
            have++;
        else if (rc == FTKIT_ERR_NOT_FOUND) /* just removed, or no directory */
            rc = FTKIT_OK;
    }
    free(sets);
    if (rc != FTKIT_OK) {
        free(e);
        return rc;
    }
    *v = e;
    *n = have;
    return FTKIT_OK;
}

int ftk_h5_manifest_of(
    const char *dir, const char *context, uint64_t set, struct ftk_h5_manifest *m)
{
    int rc = ftk_h5_check_context(context);
    if (rc != FTKIT_OK)
        return rc;
    int dirfd = ftk_h5_open_dir(dir, context, set);
    if (dirfd < 0)
        return ftk_fail(errno == ENOENT ? FTKIT_ERR_NOT_FOUND : FTKIT_ERR_IO,
            "set %" PRIu64 " of '%s' in %s: %s", set, context, dir, strerror(errno));
    rc = ftk_h5_read_manifest(dirfd, context, set, m);
    close(dirfd);
    return rc;
}
