/* The place object, for tests/rooms.t: a directory as a store of objects, which cannot be mapped,
 * and of which only whole objects can be written.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "place_ops.h"

#define PATH (FTK_PATH_MAX + 320)

static void path_of(const char *dir, const char *kind, const char *name, char path[PATH])
{
    snprintf(path, PATH, "%s/%s-%s", dir, kind, name);
}

static int write_all(int fd, const char *from, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = write(fd, from, bytes);
        if (n < 0)
            return errno;
        from += n;
        bytes -= (size_t)n;
    }
    return fsync(fd) == 0 ? 0 : errno;
}

static int put(const char *dir, const char *name, const void *from, size_t bytes)
{
    char path[PATH], new[PATH];
    path_of(dir, "object", name, path);
    path_of(dir, "new", name, new);
    int fd = open(new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    int err = write_all(fd, from, bytes);
    if (close(fd) != 0 && err == 0)
        err = errno;
    return err == 0 && rename(new, path) != 0 ? errno : err;
}

static int get(const char *dir, const char *name, void *to, size_t bytes, size_t *all)
{
    char path[PATH], *at = to;
    struct stat st;
    path_of(dir, "object", name, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    int err = fstat(fd, &st) == 0 ? 0 : errno;
    *all = (size_t)st.st_size;
    for (ssize_t n = 1; err == 0 && bytes > 0 && n > 0; at += n, bytes -= (size_t)n) {
        n = read(fd, at, bytes);
        err = n < 0 ? errno : 0;
    }
    (void)close(fd);
    return err;
}

static int remove_object(const char *dir, const char *name)
{
    char path[PATH];
    path_of(dir, "object", name, path);
    return unlink(path) == 0 || errno == ENOENT ? 0 : errno;
}

static int list(const char *dir, ftk_slot_fn *fn, void *arg)
{
    DIR *d = opendir(dir);
    const struct dirent *e;
    if (!d)
        return errno;
    while ((e = readdir(d)))
        if (strncmp(e->d_name, "object-", 7) == 0)
            fn(arg, e->d_name + 7);
    (void)closedir(d);
    return 0;
}

static int lock(const char *dir, const char *name, int *handle)
{
    char path[PATH];
    path_of(dir, "lock", name, path);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        *handle = fd;
        return 0;
    }
    int err = errno;
    (void)close(fd);
    return err;
}

static void unlock(const char *dir, const char *name, int handle)
{
    (void)dir;
    (void)name;
    (void)close(handle);
}

extern const struct ftk_place_ops ftk_place_object;
const struct ftk_place_ops ftk_place_object = {
    .put = put, .get = get, .remove = remove_object, .list = list, .lock = lock, .unlock = unlock
};
