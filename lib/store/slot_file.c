/* Slots in mapped files (see place_ops.h).
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
#include <time.h>
#include <unistd.h>

#include "place_ops.h"

#define SLOT_PATH (FTK_PATH_MAX + 256)
#define NEW_S 60 /* seconds in which a living process locks its new file */
#define LOOK_S 1 /* seconds for which a tool may lock a slot to read it */

static void slot_path(const struct ftk_place *p, const char *name, char path[SLOT_PATH])
{
    snprintf(path, SLOT_PATH, "%s/%s", p->dir, name);
}

/* ---- making -------------------------------------------------------------------------- */

/* Make a file with a new name.  Process ids are reused: a slot of a dead process may have our
 * name. */
static int create(struct ftk_place *p, struct ftk_mem_seg *s, char path[SLOT_PATH])
{
    do {
        ftk_slot_name(p, s);
        snprintf(
            path, SLOT_PATH, "%s/%s%s", p->dir, FTK_SLOT_NEW, s->name + strlen(FTK_SLOT_PREFIX));
        s->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    } while (s->fd < 0 && errno == EEXIST);
    return s->fd >= 0 ? 0 : errno;
}

/* Lock a new file.  A tool may have locked it for a moment. */
static int lock_new(int fd)
{
    const struct timespec step = { 0, 1000000 };
    int err = EWOULDBLOCK;
    for (double end = ftk_now_s() + LOOK_S; err == EWOULDBLOCK && ftk_now_s() < end;) {
        err = flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
        if (err == EWOULDBLOCK)
            nanosleep(&step, NULL);
    }
    return err;
}

/* Give a new file the name of its slot.  An existing slot is not replaced: it may hold a
 * segment. */
static int give_name(struct ftk_place *p, struct ftk_mem_seg *s, const char *path)
{
    char last[SLOT_PATH];
    slot_path(p, s->name, last);
    while (link(path, last) != 0) {
        if (errno != EEXIST)
            return errno;
        ftk_slot_name(p, s);
        slot_path(p, s->name, last);
    }
    (void)unlink(path); /* a file that stays is swept later */
    return 0;
}

/* Make a new file, locked and of full size.  Missing space must show here, and not as a signal at a
 * later store. */
static int make_file(struct ftk_place *p, struct ftk_mem_seg *s, size_t bytes)
{
    char path[SLOT_PATH];
    int err = create(p, s, path);
    if (err != 0)
        return ftk_fail_errno(err, "%s", path);
    err = lock_new(s->fd);
    if (err == 0)
        err = FTK_FAULT("place.allocate");
    if (err == 0)
        err = posix_fallocate(s->fd, 0, (off_t)bytes);
    if (err == 0)
        err = give_name(p, s, path);
    if (err == 0)
        return FTKIT_OK;
    (void)unlink(path);
    (void)close(s->fd);
    s->fd = -1;
    return ftk_fail_errno(err, "%zu bytes in %s", bytes, p->dir);
}

static int map_file(struct ftk_place *p, struct ftk_mem_seg *s, size_t bytes)
{
    char path[SLOT_PATH];
    slot_path(p, s->name, path);
    int err = FTK_FAULT("place.map");
    char *at = err ? NULL : p->ops->map(s->fd, path, bytes, &s->direct);
    if (!at)
        return ftk_fail_errno(err ? err : errno, "mapping %s", path);
    s->place = p;
    s->buf = at + FTK_SLOT_BYTES;
    s->cap = bytes - FTK_SLOT_BYTES;
    return FTKIT_OK;
}

static void close_slot(struct ftk_place *p, struct ftk_mem_seg *s, bool keep)
{
    char path[SLOT_PATH];
    slot_path(p, s->name, path);
    if (s->buf)
        p->ops->unmap(s->buf - FTK_SLOT_BYTES, s->cap + FTK_SLOT_BYTES);
    if (!keep && s->fd >= 0 && unlink(path) != 0 && errno != ENOENT)
        ftk_report(FTKIT_WARNING, "cannot remove %s", path);
    if (s->fd >= 0)
        (void)close(s->fd); /* no data are written through it */
}

static int make(struct ftk_place *p, struct ftk_mem_seg *s, size_t bytes)
{
    int rc = make_file(p, s, bytes);
    return rc == FTKIT_OK ? map_file(p, s, bytes) : rc;
}

static int persist(struct ftk_place *p, struct ftk_mem_seg *s, const void *at, size_t bytes)
{
    return p->ops->persist ? p->ops->persist(at, bytes, s->direct) : 0;
}

/* ---- existing slots --------------------------------------------------------------------- */

static int list(const struct ftk_place *p, ftk_slot_fn *fn, void *arg)
{
    DIR *d = opendir(p->dir);
    const struct dirent *e;
    if (!d)
        return errno;
    while ((e = readdir(d)))
        fn(arg, e->d_name);
    (void)closedir(d);
    return 0;
}

static int open_slot(const struct ftk_place *p, struct ftk_mem_seg *s)
{
    char path[SLOT_PATH];
    slot_path(p, s->name, path);
    s->fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (s->fd >= 0)
        return FTKIT_OK;
    int err = errno;
    int rc = ftk_fail_errno(err, "%s", path);
    bool here = err == EMFILE || err == ENFILE || err == ENOMEM;
    return here ? rc : FTKIT_ERR_STATE;
}

static int read_slot(
    const struct ftk_place *p, const struct ftk_mem_seg *s, struct ftk_slot *slot, size_t *room)
{
    struct stat st;
    if (fstat(s->fd, &st) != 0)
        return ftk_fail_errno(errno, "%s/%s", p->dir, s->name);
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink == 0)
        return ftk_fail(FTKIT_ERR_STATE, "%s/%s is not ours", p->dir, s->name);
    if (st.st_size < (off_t)(FTK_SLOT_BYTES + sizeof(struct ftk_seg_header)))
        return ftk_fail(FTKIT_ERR_NOT_FOUND, "%s/%s holds nothing", p->dir, s->name);
    ssize_t n = pread(s->fd, slot, sizeof *slot, 0);
    if (n != (ssize_t)sizeof *slot)
        return ftk_fail_errno(n < 0 ? errno : EIO, "%s/%s", p->dir, s->name);
    *room = (size_t)st.st_size - FTK_SLOT_BYTES;
    return FTKIT_OK;
}

static int peek(const struct ftk_place *p, const char *name, struct ftk_slot *slot)
{
    char path[SLOT_PATH];
    struct stat st;
    slot_path(p, name, path);
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return FTKIT_ERR_STATE;
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid != geteuid()) { /* no job may take it */
        (void)close(fd);
        return FTKIT_ERR_STATE;
    }
    bool read = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)
                && st.st_size >= (off_t)FTK_SLOT_BYTES
                && pread(fd, slot, sizeof *slot, 0) == (ssize_t)sizeof *slot;
    if (fd >= 0)
        (void)close(fd);
    return read ? ftk_slot_check(slot, (uint64_t)st.st_size - FTK_SLOT_BYTES) : FTKIT_ERR_FORMAT;
}

static int lock(const struct ftk_place *p, struct ftk_mem_seg *s)
{
    (void)p;
    return flock(s->fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
}

static int load(struct ftk_place *p, struct ftk_mem_seg *s, size_t room)
{
    return map_file(p, s, room + FTK_SLOT_BYTES);
}

/* ---- removing ------------------------------------------------------------------------ */

/* Whether a file is so new that its process may not have locked it yet. */
static bool is_fresh(const struct stat *st)
{
    return st->st_mtime > time(NULL) - NEW_S;
}

static bool is_foreign(const struct ftk_place *p, int fd, const struct stat *st)
{
    struct ftk_slot slot;
    return st->st_size >= (off_t)FTK_SLOT_BYTES
           && pread(fd, &slot, sizeof slot, 0) == (ssize_t)sizeof slot
           && ftk_slot_is_foreign(p, &slot, (size_t)st->st_size - FTK_SLOT_BYTES);
}

static void sweep(struct ftk_place *p, const char *name)
{
    char path[SLOT_PATH];
    struct stat st;
    bool is_new = strncmp(name, FTK_SLOT_NEW, strlen(FTK_SLOT_NEW)) == 0;
    slot_path(p, name, path);
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return; /* it is gone, or not ours */
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid()
        && !(is_new && is_fresh(&st)) && flock(fd, LOCK_EX | LOCK_NB) == 0
        && !is_foreign(p, fd, &st) && unlink(path) == 0)
        ftk_report(FTKIT_DEBUG, "%s: left by an ended process, removed", path);
    (void)close(fd);
}

const struct ftk_slot_access ftk_slot_file = { list, make, open_slot, read_slot, peek, lock, load,
    persist, close_slot, sweep };
