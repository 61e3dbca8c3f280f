/* The directories of plain files (see plain_files.h).
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
#include <unistd.h>

#include "core/access.h"
#include "file.h"
#include "plain_files.h"
#include "tree.h"

#define NAME_MAX_BYTES (FTKIT_NAME_MAX + 32)

/* ---- names --------------------------------------------------------------------------- */

/* A region has printable ASCII without '/'.  Names that begin with a dot could be hidden, or have a
 * meaning. */
static void region_name(const char *region, char buf[NAME_MAX_BYTES])
{
    const bool plain = region[0] != '.' && strncmp(region, "ftkit.", 6) != 0;
    snprintf(buf, NAME_MAX_BYTES, "%s%s", plain ? "" : "ftkit.region.", region);
}

static void rank_name(uint32_t rank, char buf[NAME_MAX_BYTES])
{
    snprintf(buf, NAME_MAX_BYTES, "rank-%05" PRIu32, rank);
}

void ftk_plain_path(const struct ftk_plain *p, const char *path, char buf[FTK_PLAIN_PATH_MAX])
{
    char region[NAME_MAX_BYTES], rank[NAME_MAX_BYTES];
    region_name(p->region, region);
    rank_name(p->rank, rank);
    snprintf(
        buf, FTK_PLAIN_PATH_MAX, FTK_PLAIN_DIR "/%s/%s%s%s", region, rank, *path ? "/" : "", path);
}

int ftk_plain_fail(const struct ftk_plain *p, int err, const char *path, const char *step)
{
    return ftk_fail_errno(err, "set %" PRIu64 ", rank %" PRIu32 ", files '%s': %s%s%s", p->set,
        p->rank, p->region, *path ? path : "its directory", step ? ": " : "", step ? step : "");
}

/* ---- opening ------------------------------------------------------------------------- */

/* Open a directory in another one, and close the other one. */
static int step_into(int at, const char *name, bool make)
{
    int fd = -1;
    if (at < 0)
        return -1;
    int err = make ? FTK_FAULT("files.plain.mkdir") : 0;
    if (!err && make) {
        err = ftk_access_make_dir(at, name);
        err = err == EEXIST ? 0 : err;
    }
    if (!err) {
        fd = ftk_tree_open(at, name);
        err = errno;
    }
    (void)close(at); /* nothing was written through it */
    errno = err;
    return fd;
}

/* The directory of the region. */
static int open_region(const struct ftk_plain *p, bool make)
{
    char region[NAME_MAX_BYTES];
    region_name(p->region, region);
    const int set = fcntl(p->dirfd, F_DUPFD_CLOEXEC, 0);
    return step_into(step_into(set, FTK_PLAIN_DIR, make), region, make);
}

int ftk_plain_open(const struct ftk_plain *p)
{
    char rank[NAME_MAX_BYTES];
    rank_name(p->rank, rank);
    return step_into(open_region(p, false), rank, false);
}

/* Remove a directory with all that is in it: 0, or an errno; no such directory: 0. */
static int remove_dir(int at, const char *name, const char *point)
{
    int err = ftk_tree_empty(at, name, point);
    if (err == 0 && unlinkat(at, name, AT_REMOVEDIR) != 0)
        err = errno;
    return err == ENOENT ? 0 : err;
}

int ftk_plain_make(const struct ftk_plain *p)
{
    char rank[NAME_MAX_BYTES];
    rank_name(p->rank, rank);
    const int region = open_region(p, true);
    if (region < 0)
        return -1;
    const int err = remove_dir(region, rank, NULL);
    if (err == 0)
        return step_into(region, rank, true);
    (void)close(region); /* nothing was written through it */
    errno = err;
    return -1;
}

static int sync_one(int fd)
{
    if (fd < 0)
        return errno;
    const int err = ftk_file_sync(fd, -1, "files.plain.dirsync");
    (void)close(fd);                /* nothing was written through it */
    return err == EINVAL ? 0 : err; /* EINVAL: directories need no fsync */
}

int ftk_plain_sync_above(const struct ftk_plain *p)
{
    const int err = sync_one(open_region(p, false));
    return err ? err : sync_one(ftk_tree_open(p->dirfd, FTK_PLAIN_DIR));
}

void ftk_plain_leave(struct ftk_plain_way *way)
{
    if (way->fd >= 0)
        (void)close(way->fd); /* nothing was written through it */
    way->fd = -1;
}

int ftk_plain_go(struct ftk_plain_way *way, const char *path, const char **name)
{
    char part[FTK_ARCHIVE_PATH_MAX + 1];
    const char *slash = strrchr(path, '/');
    const size_t n = slash ? (size_t)(slash - path) : 0;
    *name = slash ? slash + 1 : path;
    if (way->fd >= 0 && strlen(way->above) == n && memcmp(way->above, path, n) == 0)
        return 0;
    ftk_plain_leave(way);
    way->fd = fcntl(way->root, F_DUPFD_CLOEXEC, 0);
    for (size_t at = 0, bytes; way->fd >= 0 && at < n; at += bytes + 1) {
        bytes = strcspn(path + at, "/");
        memcpy(part, path + at, bytes);
        part[bytes] = '\0';
        way->fd = step_into(way->fd, part, false);
    }
    memcpy(way->above, path, n);
    way->above[n] = '\0';
    return way->fd >= 0 ? 0 : errno;
}

/* ---- the whole tree ------------------------------------------------------------------ */

static int add_bytes(void *arg, int dir, const char *name, const struct stat *st)
{
    if (S_ISREG(st->st_mode))
        *(uint64_t *)arg += (uint64_t)st->st_size;
    if (S_ISDIR(st->st_mode))
        (void)ftk_tree_each(dir, name, add_bytes, arg); /* it may be gone */
    return 0;
}

uint64_t ftk_plain_bytes(int dirfd)
{
    uint64_t bytes = 0;
    (void)ftk_tree_each(dirfd, FTK_PLAIN_DIR, add_bytes, &bytes); /* most sets have none */
    return bytes;
}

/* ---- what does not belong there ------------------------------------------------------ */

struct strangers {
    uint32_t rank, nranks;
    const char *const *regions;
    size_t n;
    const char *above; /* the directory of a region that is listed */
    bool known;        /* the rank has the region */
    ftk_plain_stranger_fn *fn;
    void *arg;
};

static void stranger(const struct strangers *s, const char *name)
{
    char path[FTK_PLAIN_PATH_MAX];
    snprintf(path, sizeof path, FTK_PLAIN_DIR "/%s%s%s", s->above, *s->above ? "/" : "", name);
    s->fn(s->arg, path);
}

static int look_at_rank(void *arg, int dir, const char *name, const struct stat *st)
{
    const struct strangers *s = arg;
    char own[NAME_MAX_BYTES] = "";
    unsigned long rank = 0;
    (void)dir;
    if (strncmp(name, "rank-", 5) == 0 && (rank = strtoul(name + 5, NULL, 10)) < s->nranks)
        rank_name((uint32_t)rank, own);
    const bool good = S_ISDIR(st->st_mode) && strcmp(name, own) == 0;
    if (good ? rank == s->rank && !s->known : s->rank == 0)
        stranger(s, name);
    return 0;
}

static int look_at_region(void *arg, int dir, const char *name, const struct stat *st)
{
    struct strangers *s = arg;
    char own[NAME_MAX_BYTES];
    s->above = "";
    s->known = false;
    for (size_t i = 0; i < s->n; i++) {
        region_name(s->regions[i], own);
        s->known = s->known || strcmp(own, name) == 0;
    }
    if (S_ISDIR(st->st_mode)) {
        s->above = name;
        return ftk_tree_each(dir, name, look_at_rank, s);
    }
    if (s->rank == 0)
        stranger(s, name);
    return 0;
}

int ftk_plain_strangers(int dirfd, uint32_t rank, uint32_t nranks, const char *const *regions,
    size_t n, ftk_plain_stranger_fn *fn, void *arg)
{
    struct strangers s = { rank, nranks, regions, n, "", false, fn, arg };
    const int err = ftk_tree_each(dirfd, FTK_PLAIN_DIR, look_at_region, &s);
    return err == ENOENT || err == ENOTDIR || err == ELOOP ? 0 : err; /* none, or not ours */
}

/* ---- removing ------------------------------------------------------------------------ */

int ftk_plain_remove(int dirfd, const char *point)
{
    struct stat st;
    if (fstatat(dirfd, FTK_PLAIN_DIR, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? 0 : errno;
    if (!S_ISDIR(st.st_mode))
        return 0; /* it is not ours */
    const int err = remove_dir(dirfd, FTK_PLAIN_DIR, point);
    return err == ENOTEMPTY || err == EEXIST ? 0 : err; /* the directory stays */
}
