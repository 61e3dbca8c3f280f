/* Directories in which all ranks write files together (see joint_dir.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/grow.h"
#include "core/hash.h"
#include "joint_dir.h"
#include "sets_dir.h"
#include "tree.h"

#define ID_DIGITS 16
#define NAME_BYTES (ID_DIGITS + 1 + FTKIT_NAME_MAX + 1)

static void name_of(const struct ftk_joint *j, uint64_t id, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "%016" PRIx64 ".%s", id, j->region);
}

int ftk_joint_path(const struct ftk_joint *j, uint64_t id, char path[FTK_JOINT_PATH_MAX])
{
    char name[NAME_BYTES], above[FTK_PATH_MAX];
    int rc = ftk_sets_dir_path(j->dir, j->context, above);
    if (rc != FTKIT_OK)
        return rc;
    name_of(j, id, name);
    if (snprintf(path, FTK_JOINT_PATH_MAX, "%s/" FTK_JOINT_DIR "/%s", above, name)
        < FTK_JOINT_PATH_MAX)
        return FTKIT_OK;
    return ftk_fail(FTKIT_ERR_SIZE, "the path of files below %s is too long", above);
}

/* Open the directory of all regions: a file descriptor, or -1 with errno. */
static int open_joint(const struct ftk_joint *j, bool make)
{
    int above = ftk_sets_dir_open(j->dir, j->context);
    if (above < 0)
        return -1;
    int fd = -1, err = make ? FTK_FAULT("joint.mkdir") : 0;
    if (err == 0 && make && mkdirat(above, FTK_JOINT_DIR, 0700) != 0 && errno != EEXIST)
        err = errno;
    if (err == 0) {
        fd = ftk_tree_open(above, FTK_JOINT_DIR);
        err = fd < 0 ? errno : 0;
    }
    (void)close(above); /* nothing was written through it */
    errno = err;
    return fd;
}

/* ---- making -------------------------------------------------------------------------- */

/* A number that other processes hardly take; mkdir() decides. */
static uint64_t draw(void)
{
    static uint64_t drawn;
    struct timespec now = { 0 };
    (void)clock_gettime(CLOCK_REALTIME, &now); /* without a clock the number is taken again */
    const uint64_t from[4] = { (uint64_t)now.tv_sec, (uint64_t)now.tv_nsec, (uint64_t)getpid(),
        ++drawn };
    const uint64_t id = ftk_xxh3(from, sizeof from) >> 2;
    return id > 0 ? id : 1;
}

int ftk_joint_make(const struct ftk_joint *j, uint64_t *id)
{
    char name[NAME_BYTES];
    uint64_t drawn;
    int err = 0;
    int fd = open_joint(j, true);
    if (fd < 0)
        return ftk_fail_errno(errno, "making %s/%s.ftkit/" FTK_JOINT_DIR, j->dir, j->context);
    do {
        drawn = draw();
        name_of(j, drawn, name);
        err = mkdirat(fd, name, 0700) == 0 ? 0 : errno;
    } while (err == EEXIST);
    (void)close(fd); /* nothing was written through it */
    if (err != 0)
        return ftk_fail_errno(
            err, "making %s/%s.ftkit/" FTK_JOINT_DIR "/%s", j->dir, j->context, name);
    *id = drawn;
    return FTKIT_OK;
}

int ftk_joint_look(const struct ftk_joint *j, uint64_t id)
{
    char path[FTK_JOINT_PATH_MAX];
    int rc = ftk_joint_path(j, id, path);
    if (rc != FTKIT_OK)
        return rc;
    int err = FTK_FAULT("joint.look");
    int fd = err ? -1 : ftk_tree_open(AT_FDCWD, path);
    if (fd < 0)
        return ftk_fail(FTKIT_ERR_IO,
            "%s, which rank 0 has made: %s. Rule: level.hdf5.directory is on a file system of all "
            "nodes",
            path, strerror(err ? err : errno));
    (void)close(fd); /* nothing was written */
    return FTKIT_OK;
}

/* ---- removing ------------------------------------------------------------------------ */

struct found {
    const struct ftk_joint *j;
    uint64_t keep;
    char (*names)[NAME_BYTES];
    size_t n, room;
};

static int note(void *arg, int dir, const char *name, const struct stat *st)
{
    struct found *f = arg;
    char own[NAME_BYTES];
    (void)dir;
    const bool ours = strlen(name) > ID_DIGITS + 1 && strlen(name) < NAME_BYTES
                      && name[ID_DIGITS] == '.' && strspn(name, "0123456789abcdef") >= ID_DIGITS
                      && S_ISDIR(st->st_mode);
    if (!ours || (f->j->region && strcmp(name + ID_DIGITS + 1, f->j->region) != 0))
        return 0;
    if (f->j->region)
        name_of(f->j, f->keep, own);
    if (f->j->region && strcmp(name, own) == 0)
        return 0;
    if (!ftk_grow(&f->names, &f->room, f->n + 1, sizeof *f->names))
        return ENOMEM;
    snprintf(f->names[f->n++], NAME_BYTES, "%s", name);
    return 0;
}

static int remove_dir(int fd, const char *name)
{
    int err = ftk_tree_empty(fd, name, NULL);
    if (err == 0 && unlinkat(fd, name, AT_REMOVEDIR) != 0)
        err = errno;
    return err == ENOENT ? 0 : err;
}

static int remove_found(int fd, struct found *f, ftk_joint_still_fn *still, void *arg)
{
    int rc = f->n > 0 && still ? still(arg) : FTKIT_OK;
    for (size_t i = 0; rc == FTKIT_OK && i < f->n; i++) {
        (void)FTK_FAULT("joint.sweep");
        int err = remove_dir(fd, f->names[i]);
        if (err != 0)
            rc = ftk_fail_errno(err, "removing " FTK_JOINT_DIR "/%s", f->names[i]);
    }
    return rc;
}

int ftk_joint_sweep(const struct ftk_joint *j, uint64_t keep, ftk_joint_still_fn *still, void *arg,
    bool only_count, size_t *n)
{
    struct found f = { .j = j, .keep = keep };
    *n = 0;
    int fd = open_joint(j, false);
    if (fd < 0)
        return errno == ENOENT
                   ? FTKIT_OK
                   : ftk_fail_errno(errno, "%s/%s.ftkit/" FTK_JOINT_DIR, j->dir, j->context);
    int err = ftk_tree_each(fd, ".", note, &f);
    int rc = err == 0 ? FTKIT_OK : ftk_fail_errno(err, "names in " FTK_JOINT_DIR);
    if (rc == FTKIT_OK && !only_count)
        rc = remove_found(fd, &f, still, arg);
    (void)close(fd); /* nothing was written through it */
    if (rc == FTKIT_OK)
        *n = f.n;
    free(f.names);
    return rc;
}

int ftk_joint_remove(const struct ftk_joint *j, uint64_t id)
{
    char name[NAME_BYTES];
    int fd = open_joint(j, false);
    if (fd < 0)
        return errno == ENOENT ? FTKIT_OK
                               : ftk_fail_errno(errno, "%s of '%s'", FTK_JOINT_DIR, j->context);
    name_of(j, id, name);
    int err = id > 0 ? remove_dir(fd, name) : 0;
    (void)close(fd); /* nothing was written through it */
    if (err != 0)
        return ftk_fail_errno(err, "removing " FTK_JOINT_DIR "/%s", name);
    int above = ftk_sets_dir_open(j->dir, j->context);
    if (above >= 0) {
        (void)unlinkat(above, FTK_JOINT_DIR, AT_REMOVEDIR); /* unless it has other directories */
        (void)close(above);
    }
    return FTKIT_OK;
}
