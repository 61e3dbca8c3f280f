/* Places that outlive a process (see place.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libpmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hash.h"
#include "memory.h"

#define HUGE_PAGE (2u << 20)

/* What a place does its own way.  map() is given a file of at least bytes bytes. */
struct ops {
    char *(*map)(int fd, const char *path, size_t bytes, bool *direct);
    int (*flush)(const void *at, size_t bytes, bool direct); /* 0, or an errno */
    int (*persist)(const void *at, size_t bytes, bool direct);
};

/* ---- shared memory: there as soon as it is written --------------------------------------*/

static char *map_shared(int fd, const char *path, size_t bytes, bool *direct)
{
    (void)path;
    *direct = false;
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (bytes >= HUGE_PAGE) /* a hint, taken where the system allows it for such files */
        (void)madvise(p, bytes, MADV_HUGEPAGE);
    return p;
}

static int nothing(const void *at, size_t bytes, bool direct)
{
    (void)at;
    (void)bytes;
    (void)direct;
    return 0;
}

/* ---- a file of the node ------------------------------------------------------------------*/

static int sync_file(const void *at, size_t bytes, bool direct)
{
    (void)direct;
    uintptr_t from = (uintptr_t)at / FTK_SLOT_BYTES * FTK_SLOT_BYTES;
    size_t n = (size_t)((uintptr_t)at + bytes - from);
    return msync((void *)from, n, MS_SYNC) == 0 ? 0 : errno;
}

/* ---- persistent memory -------------------------------------------------------------------*/

static char *map_pmem(int fd, const char *path, size_t bytes, bool *direct)
{
    size_t mapped = 0;
    int is_pmem = 0;
    (void)fd;
    char *p = pmem_map_file(path, 0, 0, 0, &mapped, &is_pmem);
    if (p && mapped < bytes) {
        (void)pmem_unmap(p, mapped);
        errno = EINVAL;
        return NULL;
    }
    *direct = is_pmem != 0;
    return p;
}

static int flush_pmem(const void *at, size_t bytes, bool direct)
{
    if (direct)
        pmem_flush(at, bytes);
    return 0;
}

static int persist_pmem(const void *at, size_t bytes, bool direct)
{
    if (direct) {
        pmem_persist(at, bytes);
        return 0;
    }
    return pmem_msync(at, bytes) == 0 ? 0 : errno;
}

static const struct ops places[] = {
    [FTK_PLACE_SHARED] = { map_shared, nothing, nothing },
    [FTK_PLACE_FILE] = { map_shared, nothing, sync_file },
    [FTK_PLACE_PMEM] = { map_pmem, flush_pmem, persist_pmem },
};

/* ---- slots -------------------------------------------------------------------------------*/

/* PID.NUMBER */
static bool is_number(const char *text)
{
    size_t pid = strspn(text, "0123456789");
    size_t n = text[pid] == '.' ? strspn(text + pid + 1, "0123456789") : 0;
    return pid > 0 && n > 0 && text[pid + 1 + n] == '\0';
}

/* The name of one context may begin like that of another. */
static bool is_own(const struct ftk_place *p, const char *name)
{
    size_t prefix = strlen(p->prefix);
    return strlen(name) < FTK_SLOT_NAME && strncmp(name, p->prefix, prefix) == 0
           && is_number(name + prefix);
}

bool ftk_place_is_slot(const char *name)
{
    const char *dot = strrchr(name, '.');
    while (dot && dot > name && dot[-1] != '.')
        dot--;
    bool slot = strncmp(name, FTK_SLOT_PREFIX, strlen(FTK_SLOT_PREFIX)) == 0
                || strncmp(name, FTK_SLOT_NEW, strlen(FTK_SLOT_NEW)) == 0;
    return slot && dot && strlen(name) < FTK_SLOT_NAME && is_number(dot);
}

static void slot_path(const struct ftk_place *p, const char *name, char *path, size_t bytes)
{
    snprintf(path, bytes, "%s/%s", p->dir, name);
}

int ftk_place_open(struct ftk_place *p, int kind, const char *dir, const char *context,
    int level, uint64_t key)
{
    struct stat st;
    memset(p, 0, sizeof *p);
    p->kind = kind;
    if (kind == FTK_PLACE_MEMORY)
        return FTKIT_OK;
    snprintf(p->dir, sizeof p->dir, "%s", dir && *dir ? dir : "/dev/shm");
    snprintf(p->context, sizeof p->context, "%s", context);
    snprintf(p->prefix, sizeof p->prefix, FTK_SLOT_PREFIX "%d-%s-%llx.", level, context,
        (unsigned long long)key);
    p->found_again = key != 0;
    if (stat(p->dir, &st) != 0)
        return ftk_fail_errno(errno, "%s", p->dir);
    if (!S_ISDIR(st.st_mode) || access(p->dir, W_OK | X_OK) != 0)
        return ftk_fail(FTKIT_ERR_IO, "%s is no directory that can be written", p->dir);
    return FTKIT_OK;
}

/* A new file, ours alone, of full size: space that is missing is to show here and not as
 * a signal at a store. */
static int make_file(struct ftk_place *p, struct ftk_mem_seg *s, size_t bytes)
{
    char path[FTK_PATH_MAX + 256], last[FTK_PATH_MAX + 256];
    snprintf(s->name, sizeof s->name, "%s%d.%d", p->prefix, (int)getpid(), ++p->made);
    slot_path(p, s->name, last, sizeof last);
    snprintf(path, sizeof path, "%s/%s%s", p->dir, FTK_SLOT_NEW,
        s->name + strlen(FTK_SLOT_PREFIX));
    s->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (s->fd < 0)
        return ftk_fail_errno(errno, "%s", path);
    int err = flock(s->fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    if (err == 0)
        err = FTK_FAULT("place.allocate");
    if (err == 0)
        err = posix_fallocate(s->fd, 0, (off_t)bytes);
    if (err == 0)
        err = rename(path, last) == 0 ? 0 : errno;
    if (err == 0)
        return FTKIT_OK;
    (void)unlink(path);
    (void)close(s->fd);
    s->fd = -1;
    return ftk_fail_errno(err, "%zu bytes in %s", bytes, p->dir);
}

static int map_file(struct ftk_place *p, struct ftk_mem_seg *s, size_t bytes)
{
    char path[FTK_PATH_MAX + 256];
    slot_path(p, s->name, path, sizeof path);
    char *at = places[p->kind].map(s->fd, path, bytes, &s->direct);
    if (!at)
        return ftk_fail_errno(errno, "mapping %s", path);
    s->place = p;
    s->buf = at + FTK_SLOT_BYTES;
    s->cap = bytes - FTK_SLOT_BYTES;
    return FTKIT_OK;
}

int ftk_place_map(struct ftk_place *p, struct ftk_mem_seg *s, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return ftk_fail(FTKIT_ERR_NOMEM, "a segment of %zu bytes", bytes);
    size_t unit = bytes >= HUGE_PAGE ? HUGE_PAGE : FTK_SLOT_BYTES;
    bytes = (bytes + FTK_SLOT_BYTES + unit - 1) / unit * unit;
    int rc = make_file(p, s, bytes);
    if (rc != FTKIT_OK)
        return rc;
    rc = map_file(p, s, bytes);
    if (rc != FTKIT_OK)
        ftk_place_unmap(p, s, false);
    return rc;
}

void ftk_place_unmap(struct ftk_place *p, struct ftk_mem_seg *s, bool keep)
{
    char path[FTK_PATH_MAX + 256];
    slot_path(p, s->name, path, sizeof path);
    if (s->buf && p->kind == FTK_PLACE_PMEM)
        (void)pmem_unmap(s->buf - FTK_SLOT_BYTES, s->cap + FTK_SLOT_BYTES);
    else if (s->buf)
        (void)munmap(s->buf - FTK_SLOT_BYTES, s->cap + FTK_SLOT_BYTES);
    if (!keep && s->fd >= 0 && unlink(path) != 0 && errno != ENOENT)
        ftk_report(FTKIT_WARNING, "cannot remove %s", path);
    if (s->fd >= 0)
        (void)close(s->fd); /* nothing is written through it */
    s->fd = -1;
    s->buf = NULL;
    s->cap = 0;
}

void ftk_place_flush(const struct ftk_place *p, const void *at, size_t bytes)
{
    if (p->kind == FTK_PLACE_PMEM)
        (void)flush_pmem(at, bytes, true);
}

/* The order that makes a slot trustworthy: segment, then header, each waited for. */
static int persist(struct ftk_place *p, struct ftk_mem_seg *s, const void *at, size_t bytes)
{
    int err = FTK_FAULT("place.persist");
    if (err == 0)
        err = places[p->kind].persist(at, bytes, s->direct);
    return err == 0 ? FTKIT_OK : ftk_fail_errno(err, "%s/%s", p->dir, s->name);
}

static uint64_t slot_sum(const struct ftk_slot *slot)
{
    struct ftk_slot copy = *slot;
    copy.sum = 0;
    return XXH3_64bits(&copy, sizeof copy);
}

int ftk_place_seal(struct ftk_place *p, struct ftk_mem_seg *s)
{
    const struct ftk_seg_header *h = (const void *)s->buf;
    struct ftk_slot slot = { .version = FTK_SLOT_VERSION,
        .byte_order = FTK_SEG_BYTE_ORDER,
        .bytes = s->bytes,
        .set = s->set,
        .run = h->run,
        .stamp = h->stamp,
        .rank = (uint32_t)s->rank,
        .nranks = (uint32_t)s->nranks,
        .parity = s->parity };
    memcpy(slot.magic, FTK_SLOT_MAGIC, sizeof slot.magic);
    memcpy(slot.context, h->context, sizeof slot.context);
    slot.sum = slot_sum(&slot);
    int rc = persist(p, s, s->buf, s->bytes);
    (void)FTK_FAULT("place.written");
    if (rc != FTKIT_OK)
        return rc;
    memcpy(s->buf - FTK_SLOT_BYTES, &slot, sizeof slot);
    rc = persist(p, s, s->buf - FTK_SLOT_BYTES, sizeof slot);
    (void)FTK_FAULT("place.sealed");
    return rc;
}

int ftk_place_wipe(struct ftk_place *p, struct ftk_mem_seg *s)
{
    memset(s->buf - FTK_SLOT_BYTES, 0, sizeof(struct ftk_slot));
    return persist(p, s, s->buf - FTK_SLOT_BYTES, sizeof(struct ftk_slot));
}

/* ---- what is left of earlier processes ---------------------------------------------------*/

int ftk_slot_check(const struct ftk_slot *slot, uint64_t room)
{
    if (memcmp(slot->magic, FTK_SLOT_MAGIC, sizeof slot->magic) != 0)
        return ftk_fail(FTKIT_ERR_NOT_FOUND, "slot: it holds nothing");
    if (slot->byte_order != FTK_SEG_BYTE_ORDER)
        return ftk_fail(FTKIT_ERR_FORMAT, "slot: of a machine with another byte order");
    if (slot->version != FTK_SLOT_VERSION)
        return ftk_fail(FTKIT_ERR_FORMAT, "slot: format %u; this ftkit reads %u",
            (unsigned)slot->version, FTK_SLOT_VERSION);
    if (slot->sum != slot_sum(slot) || slot->set == 0 || slot->rank >= slot->nranks
        || slot->nranks > INT32_MAX || slot->bytes > room
        || slot->bytes < sizeof(struct ftk_seg_header)
        || !memchr(slot->context, '\0', sizeof slot->context))
        return ftk_fail(FTKIT_ERR_CORRUPT, "slot: its header is damaged");
    return FTKIT_OK;
}

int ftk_slot_check_segment(const struct ftk_slot *slot, const char *seg)
{
    const struct ftk_seg_header *h = (const void *)seg;
    int rc = ftk_seg_check_head(seg, (size_t)slot->bytes, "slot");
    if (rc == FTKIT_OK)
        rc = ftk_seg_check_data(seg, "slot");
    if (rc != FTKIT_OK)
        return rc;
    bool same = ftk_seg_bytes(seg) == slot->bytes && h->set == slot->set
                && h->run == slot->run && h->stamp == slot->stamp && h->rank == slot->rank
                && h->nranks == slot->nranks
                && ((h->flags & FTK_SEG_PARITY) != 0) == (slot->parity != 0)
                && memcmp(h->context, slot->context, sizeof h->context) == 0
                && (!slot->parity || ftk_parity_group(seg));
    return same ? FTKIT_OK
                : ftk_fail(FTKIT_ERR_CORRUPT, "slot: its header is not that of its segment");
}

static bool is_there(const struct ftk_mem *m, const struct ftk_slot *slot)
{
    for (int i = 0; i < m->nsegs; i++) {
        const struct ftk_mem_seg *s = m->segs[i];
        const struct ftk_seg_header *h = (const void *)s->buf;
        if (s->set == slot->set && s->sealed && s->rank == (int)slot->rank
            && s->parity == (slot->parity != 0) && h->run == slot->run
            && h->stamp == slot->stamp)
            return true;
    }
    return false;
}

/* Use the locked slot s, or find that nobody can.  *wanted false: it is somebody else's. */
static int use_slot(struct ftk_place *p, struct ftk_mem *m, struct ftk_mem_seg *s, int rank,
    bool all, bool *wanted)
{
    struct stat st;
    struct ftk_slot slot;
    *wanted = true;
    if (fstat(s->fd, &st) != 0)
        return ftk_fail_errno(errno, "%s/%s", p->dir, s->name);
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid()) {
        *wanted = false;
        return ftk_fail(FTKIT_ERR_FORMAT, "%s/%s is not ours", p->dir, s->name);
    }
    if (st.st_size < (off_t)(FTK_SLOT_BYTES + sizeof(struct ftk_seg_header))
        || pread(s->fd, &slot, sizeof slot, 0) != (ssize_t)sizeof slot)
        return ftk_fail(FTKIT_ERR_NOT_FOUND, "%s/%s holds nothing", p->dir, s->name);
    int rc = ftk_slot_check(&slot, (uint64_t)st.st_size - FTK_SLOT_BYTES);
    if (rc != FTKIT_OK) {
        *wanted = rc != FTKIT_ERR_FORMAT;
        if (rc == FTKIT_ERR_CORRUPT || (!*wanted && !p->foreign))
            ftk_report(FTKIT_WARNING, "%s/%s: %s; %s", p->dir, s->name, ftk_detail_text(),
                *wanted ? "removed" : "not used");
        p->foreign = p->foreign || !*wanted;
        return rc;
    }
    if (strncmp(slot.context, p->context, sizeof slot.context) != 0) {
        *wanted = false;
        return ftk_fail(FTKIT_ERR_STATE, "another context's");
    }
    if (!all && (int)slot.rank != rank) {
        *wanted = false;
        return ftk_fail(FTKIT_ERR_STATE, "another rank's");
    }
    if (is_there(m, &slot))
        return ftk_fail(FTKIT_ERR_STATE, "%s/%s is there already", p->dir, s->name);
    rc = map_file(p, s, (size_t)st.st_size);
    if (rc == FTKIT_OK && ftk_slot_check_segment(&slot, s->buf) != FTKIT_OK) {
        ftk_report(FTKIT_WARNING, "%s/%s: %s; removed", p->dir, s->name, ftk_detail_text());
        rc = FTKIT_ERR_CORRUPT;
    }
    s->set = slot.set;
    s->rank = (int)slot.rank;
    s->nranks = (int)slot.nranks;
    s->bytes = (size_t)slot.bytes;
    s->parity = slot.parity != 0;
    s->sealed = s->verified = true;
    return rc;
}

static int adopt_slot(
    struct ftk_place *p, struct ftk_mem *m, const char *name, int rank, bool all)
{
    char path[FTK_PATH_MAX + 256];
    bool wanted = true;
    struct ftk_mem_seg *s = calloc(1, sizeof *s);
    if (!s)
        return ftk_fail(FTKIT_ERR_NOMEM, "list of segments");
    snprintf(s->name, sizeof s->name, "%s", name);
    slot_path(p, name, path, sizeof path);
    s->fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (s->fd < 0 || flock(s->fd, LOCK_EX | LOCK_NB) != 0) {
        if (s->fd >= 0)
            (void)close(s->fd);
        free(s);
        return FTKIT_OK; /* gone, or in use */
    }
    int rc = use_slot(p, m, s, rank, all, &wanted);
    if (rc == FTKIT_OK)
        rc = ftk_mem_add(m, s);
    if (rc == FTKIT_OK)
        return rc;
    ftk_place_unmap(p, s, !wanted);
    free(s);
    return rc == FTKIT_ERR_NOMEM ? rc : FTKIT_OK;
}

static void sweep_slot(const struct ftk_place *p, const char *name)
{
    char path[FTK_PATH_MAX + 256];
    struct stat st;
    slot_path(p, name, path, sizeof path);
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return; /* gone, or nothing of ours */
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)
        && st.st_uid == geteuid() && unlink(path) == 0)
        ftk_report(FTKIT_DEBUG, "%s: of a process that is gone, removed", path);
    (void)close(fd);
}

void ftk_place_sweep(struct ftk_place *p, uint64_t when)
{
    if (p->kind == FTK_PLACE_MEMORY || p->swept == when)
        return;
    p->swept = when;
    DIR *d = opendir(p->dir);
    const struct dirent *e;
    while (d && (e = readdir(d)))
        if (is_own(p, e->d_name))
            sweep_slot(p, e->d_name);
    if (d)
        (void)closedir(d);
}

int ftk_place_adopt(struct ftk_place *p, struct ftk_mem *m, int rank, bool all)
{
    int rc = FTKIT_OK;
    DIR *d = p->found_again ? opendir(p->dir) : NULL;
    const struct dirent *e;
    while (d && rc == FTKIT_OK && (e = readdir(d)))
        if (is_own(p, e->d_name))
            rc = adopt_slot(p, m, e->d_name, rank, all);
    if (d)
        (void)closedir(d);
    return rc;
}
