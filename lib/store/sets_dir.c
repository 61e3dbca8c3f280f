/* The directory of the sets of a context (see sets_dir.h).
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

#include "sets_dir.h"
#include "core/access.h"
#include "core/grow.h"

#define SUFFIX ".ftkit"
#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

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
        if (!ftk_grow(&v, &room, have + 1, sizeof *v)) {
            rc = ftk_fail(FTKIT_ERR_NOMEM, "list of contexts");
            break;
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

/* ---- the directory of a context ------------------------------------------------------ */

static bool of_any_user;

void ftk_sets_dir_of_any_user(void)
{
    of_any_user = true;
}

/* Whether another user has made the directory in one in which all users may make directories.  root
 * and the owner of the upper directory could do anything there. */
static int check_owner(int fd, const char *above)
{
    struct stat st, up;
    if (of_any_user)
        return 0;
    if (fstat(fd, &st) != 0 || stat(above, &up) != 0)
        return errno;
    const bool trusted = st.st_uid == geteuid() || st.st_uid == 0 || st.st_uid == up.st_uid;
    return trusted || !(up.st_mode & S_IWOTH) ? 0 : EPERM;
}

int ftk_sets_dir_open(const char *dir, const char *context)
{
    char path[FTK_PATH_MAX];
    if (ftk_sets_dir_path(dir, context, path) != FTKIT_OK) {
        errno = ENAMETOOLONG;
        return -1;
    }
    const int fd = ftk_access_open_dir(path);
    const int err = fd >= 0 ? check_owner(fd, *dir ? dir : ".") : 0;
    if (!err)
        return fd;
    (void)close(fd); /* nothing was written */
    errno = err;
    return -1;
}

int ftk_sets_dir_make(const char *dir, const char *context, mode_t rights)
{
    char path[FTK_PATH_MAX];
    if (ftk_sets_dir_path(dir, context, path) != FTKIT_OK)
        return ENAMETOOLONG;
    int fd = ftk_sets_dir_open(dir, context);
    int err = fd < 0 ? errno : 0;
    if (err == ENOENT) {
        const bool made = mkdir(path, 0700) == 0;
        if (!made && errno != EEXIST)
            return errno;
        fd = ftk_sets_dir_open(dir, context);
        err = fd < 0 ? errno : made ? ftk_access_set(fd, rights) : 0;
    }
    if (fd >= 0)
        (void)close(fd); /* nothing was written */
    return err;
}

/* ---- directories of sets ------------------------------------------------------------- */

void ftk_sets_dir_name(const char *word, uint64_t set, char name[FTK_SETS_DIR_NAME_MAX])
{
    snprintf(name, FTK_SETS_DIR_NAME_MAX, "%s-%010" PRIu64, word, set);
}

/* The number in the name of a set's directory.  Each number has exactly one spelling. */
static bool set_number(const char *name, const char *word, uint64_t *set)
{
    char again[FTK_SETS_DIR_NAME_MAX];
    const size_t n = strlen(word);
    if (strncmp(name, word, n) != 0 || name[n] != '-' || name[n + 1] < '0' || name[n + 1] > '9')
        return false;
    errno = 0;
    *set = strtoull(name + n + 1, NULL, 10);
    ftk_sets_dir_name(word, *set, again);
    return errno == 0 && strcmp(name, again) == 0;
}

int ftk_sets_dir_open_set(const char *dir, const char *context, const char *word, uint64_t set)
{
    char name[FTK_SETS_DIR_NAME_MAX];
    int ctxfd = ftk_sets_dir_open(dir, context);
    if (ctxfd < 0)
        return -1;
    ftk_sets_dir_name(word, set, name);
    int fd = openat(ctxfd, name, OPEN_DIR | O_NOFOLLOW);
    int err = errno;
    close(ctxfd);
    errno = err;
    return fd;
}

struct numbers {
    uint64_t *v;
    size_t n;
};

/* Add the numbers in the directory of a context. */
static int scan(const char *dir, const char *context, const char *word, struct numbers *out)
{
    int fd = ftk_sets_dir_open(dir, context);
    if (fd < 0 && errno == ENOENT)
        return FTKIT_OK;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        int err = errno;
        if (fd >= 0)
            close(fd);
        return ftk_fail_errno(err, "sets of '%s' in %s", context, dir);
    }
    int rc = FTKIT_OK;
    const struct dirent *e;
    for (errno = 0; rc == FTKIT_OK && (e = readdir(d)); errno = 0) {
        uint64_t set;
        if (!set_number(e->d_name, word, &set))
            continue;
        uint64_t *more = realloc(out->v, (out->n + 1) * sizeof *more);
        if (!more) {
            rc = ftk_fail(FTKIT_ERR_NOMEM, "list of sets");
            break;
        }
        out->v = more;
        out->v[out->n++] = set;
    }
    if (rc == FTKIT_OK && errno != 0)
        rc = ftk_fail_errno(errno, "sets of '%s' in %s", context, dir);
    closedir(d);
    return rc;
}

int ftk_sets_dir_numbers(
    const char *dir, const char *context, const char *word, uint64_t **sets, size_t *n)
{
    struct numbers all = { 0 };
    int rc = ftk_sets_dir_check(context);
    if (rc == FTKIT_OK)
        rc = scan(dir, context, word, &all);
    if (rc != FTKIT_OK) {
        free(all.v);
        return rc;
    }
    *sets = all.v;
    *n = all.n;
    return FTKIT_OK;
}

/* ---- durable names ------------------------------------------------------------------- */

static int sync_dir(int fd)
{
    return fsync(fd) == 0 || errno == EINVAL ? 0 : -1; /* EINVAL: directories need no fsync */
}

/* fsync the directory that holds path. */
static int sync_parent(const char *path)
{
    char parent[FTK_PATH_MAX];
    snprintf(parent, sizeof parent, "%s", path);
    char *slash = strrchr(parent, '/');
    if (!slash)
        snprintf(parent, sizeof parent, ".");
    else
        slash[slash == parent] = '\0';
    int fd = open(parent, OPEN_DIR);
    if (fd < 0)
        return -1;
    int rc = sync_dir(fd);
    int err = errno;
    close(fd);
    errno = err;
    return rc;
}

int ftk_sets_dir_sync(const char *dir, const char *context, uint64_t set)
{
    char path[FTK_PATH_MAX];
    int rc = ftk_sets_dir_path(dir, context, path);
    if (rc != FTKIT_OK)
        return rc;
    int ctxfd = ftk_sets_dir_open(dir, context);
    if (ctxfd < 0 || sync_dir(ctxfd) != 0 || sync_parent(path) != 0)
        rc = ftk_fail_errno(errno, "set %" PRIu64 ": fsync of %s", set, path);
    if (ctxfd >= 0)
        close(ctxfd);
    return rc;
}
