/* The directory of the sets of a context (see sets_dir.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sets_dir.h"

#define SUFFIX ".ftkit"

int ftk_sets_dir_check(const char *context)
{
    size_t n = context ? strlen(context) : 0;
    bool good = n > 0 && n <= FTKIT_NAME_MAX;
    for (size_t i = 0; i < n && good; i++)
        good = context[i] >= ' ' && context[i] <= '~' && context[i] != '/';
    return good ? FTKIT_OK : ftk_fail(FTKIT_ERR_NAME, "name of the context");
}

int ftk_sets_dir_path(const char *dir, const char *context, char buf[FTK_PATH_MAX])
{
    int rc = ftk_sets_dir_check(context);
    if (rc != FTKIT_OK)
        return rc;
    int n = snprintf(buf, FTK_PATH_MAX, "%s/%s" SUFFIX, *dir ? dir : ".", context);
    if (n < 0 || n >= FTK_PATH_MAX - FTK_SETS_DIR_NAME_MAX)
        return ftk_fail(FTKIT_ERR_ARG, "path of the sets is too long: %.64s...", dir);
    return FTKIT_OK;
}

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
    return ftk_sets_dir_check(name) == FTKIT_OK
           && fstatat(dirfd, file, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

int ftk_sets_dir_contexts(const char *dir, char (**names)[FTKIT_NAME_MAX + 1], size_t *n)
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
