/* Places that outlive a process (see place.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/hash.h"
#include "memory.h"
#include "pmem.h"

#define HUGE_PAGE (2u << 20)
#define SLOT_PATH (FTK_PATH_MAX + 256)
#define NEW_S 60 /* in which a new file gets its lock, if its process lives */
#define LOOK_S 1 /* for which a tool may have the lock of a slot it looks at */

/* What a place does its own way.  map() is given a file of at least bytes bytes. */
struct ops {
    char *(*map)(int fd, const char *path, size_t bytes, bool *direct);
    int (*flush)(const void *at, size_t bytes, bool direct); /* 0, or an errno */
    int (*persist)(const void *at, size_t bytes, bool direct);
};

/* ---- shared memory: there as soon as it is written ----------------------------------- */

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

/* ---- a file of the node -------------------------------------------------------------- */

static int sync_file(const void *at, size_t bytes, bool direct)
{
    (void)direct;
    uintptr_t from = (uintptr_t)at / FTK_SLOT_BYTES * FTK_SLOT_BYTES;
    size_t n = (size_t)((uintptr_t)at + bytes - from);
    return msync((void *)from, n, MS_SYNC) == 0 ? 0 : errno;
}

/* ---- persistent memory --------------------------------------------------------------- */

static char *map_pmem(int fd, const char *path, size_t bytes, bool *direct)
{
    (void)fd;
    return ftk_pmem_map(path, bytes, direct);
}

static int flush_pmem(const void *at, size_t bytes, bool direct)
{
    if (direct)
        ftk_pmem_flush(at, bytes);
    return 0;
}

static const struct ops places[] = {
    [FTK_PLACE_SHARED] = { map_shared, nothing, nothing },
    [FTK_PLACE_FILE] = { map_shared, nothing, sync_file },
    [FTK_PLACE_PMEM] = { map_pmem, flush_pmem, ftk_pmem_persist },
};

/* ---- slots --------------------------------------------------------------------------- */

/* PID.NUMBER */
static bool is_number(const char *text)
{
    size_t pid = strspn(text, "0123456789");
    size_t n = text[pid] == '.' ? strspn(text + pid + 1, "0123456789") : 0;
    return pid > 0 && n > 0 && text[pid + 1 + n] == '\0';
}

/* Of the kind and behind it like the prefix: one name of a context may begin like another. */
static bool is_like(const char *prefix, const char *kind, const char *name)
{
    if (!*prefix)
        return false;
    const char *rest = prefix + strlen(FTK_SLOT_PREFIX);
    size_t k = strlen(kind), r = strlen(rest);
    return strlen(name) < FTK_SLOT_NAME && strncmp(name, kind, k) == 0
           && strncmp(name + k, rest, r) == 0 && is_number(name + k + r);
}

/* Of this context, level and job. */
static bool is_own(const struct ftk_place *p, const char *kind, const char *name)
{
    return is_like(p->prefix, kind, name);
}

/* Of this context and level, and of another job. */
static bool is_other(const struct ftk_place *p, const char *name)
{
    char all[sizeof p->prefix];
    int n = snprintf(all, sizeof all, FTK_SLOT_PREFIX "%d-%s-", p->level, p->context);
    if (n < 0 || strncmp(name, all, (size_t)n) != 0 || is_own(p, FTK_SLOT_PREFIX, name))
        return false;
    size_t key = strspn(name + n, "0123456789abcdef");
    return key > 0 && name[(size_t)n + key] == '.' && is_number(name + n + key + 1);
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

static void slot_path(const struct ftk_place *p, const char *name, char path[SLOT_PATH])
{
    snprintf(path, SLOT_PATH, "%s/%s", p->dir, name);
}

int ftk_place_is_built(int kind, const char *key)
{
    if (kind != FTK_PLACE_PMEM || ftk_pmem_is_built())
        return FTKIT_OK;
    return ftk_fail(FTKIT_ERR_UNSUPPORTED,
        "%s = pmem: this ftkit was built without libpmem; use file or shared", key);
}

static void name_slots(const struct ftk_place *p, uint64_t key, char prefix[128])
{
    snprintf(
        prefix, 128, FTK_SLOT_PREFIX "%d-%s-%llx.", p->level, p->context, (unsigned long long)key);
}

void ftk_place_identify(struct ftk_place *p, const struct ftk_identity *id)
{
    p->identity = *id;
    if (p->kind != FTK_PLACE_FILE && p->kind != FTK_PLACE_PMEM)
        return; /* the key is that of the run */
    name_slots(p, id->home, p->prefix);
    name_slots(p, 1, p->older);
}

int ftk_place_open(
    struct ftk_place *p, int kind, const char *dir, const char *context, int level, uint64_t key)
{
    struct stat st;
    memset(p, 0, sizeof *p);
    p->kind = kind;
    if (kind == FTK_PLACE_MEMORY)
        return FTKIT_OK;
    snprintf(p->dir, sizeof p->dir, "%s", dir && *dir ? dir : "/dev/shm");
    snprintf(p->context, sizeof p->context, "%s", context);
    p->level = level;
    name_slots(p, key, p->prefix);
    p->found_again = key != 0;
    if (stat(p->dir, &st) != 0)
        return ftk_fail_errno(errno, "%s", p->dir);
    if (!S_ISDIR(st.st_mode) || access(p->dir, W_OK | X_OK) != 0)
        return ftk_fail(FTKIT_ERR_IO, "%s is no directory that can be written", p->dir);
    return FTKIT_OK;
}

static void next_name(struct ftk_place *p, struct ftk_mem_seg *s)
{
    snprintf(s->name, sizeof s->name, "%s%d.%d", p->prefix, (int)getpid(), ++p->made);
}

/* Numbers of processes come again: a name of ours may be that of a slot of a dead one. */
static int create(struct ftk_place *p, struct ftk_mem_seg *s, char path[SLOT_PATH])
{
    do {
        next_name(p, s);
        snprintf(
            path, SLOT_PATH, "%s/%s%s", p->dir, FTK_SLOT_NEW, s->name + strlen(FTK_SLOT_PREFIX));
        s->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    } while (s->fd < 0 && errno == EEXIST);
    return s->fd >= 0 ? 0 : errno;
}

/* A tool may look at it this very moment. */
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

/* What has the name already is not replaced: it may hold. */
static int give_name(struct ftk_place *p, struct ftk_mem_seg *s, const char *path)
{
    char last[SLOT_PATH];
    slot_path(p, s->name, last);
    while (link(path, last) != 0) {
        if (errno != EEXIST)
            return errno;
        next_name(p, s);
        slot_path(p, s->name, last);
    }
    (void)unlink(path); /* if it stays, it is swept */
    return 0;
}

/* A new file, ours alone, of full size: space that is missing is to show here and not as
 * a signal at a store. */
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
    char *at = err ? NULL : places[p->kind].map(s->fd, path, bytes, &s->direct);
    if (!at)
        return ftk_fail_errno(err ? err : errno, "mapping %s", path);
    s->place = p;
    s->buf = at + FTK_SLOT_BYTES;
    s->cap = bytes - FTK_SLOT_BYTES;
    return FTKIT_OK;
}

/* ---- removing ------------------------------------------------------------------------ */

/* A new file has no lock at first. */
static bool is_fresh(const struct stat *st)
{
    return st->st_mtime > time(NULL) - NEW_S;
}

/* Of an ftkit of another version, of a machine with another byte order, or of another
 * program. */
static bool is_foreign(const struct ftk_place *p, int fd, const struct stat *st)
{
    struct ftk_slot slot;
    if (st->st_size < (off_t)FTK_SLOT_BYTES
        || pread(fd, &slot, sizeof slot, 0) != (ssize_t)sizeof slot)
        return false;
    int rc = ftk_slot_check(&slot, (uint64_t)st->st_size - FTK_SLOT_BYTES);
    return rc == FTKIT_ERR_FORMAT
           || (rc == FTKIT_OK && !ftk_identity_fits(&p->identity, slot.program, slot.home));
}

static void sweep_slot(const struct ftk_place *p, const char *name, bool is_new)
{
    char path[SLOT_PATH];
    struct stat st;
    slot_path(p, name, path);
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return; /* gone, or nothing of ours */
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid()
        && !(is_new && is_fresh(&st)) && flock(fd, LOCK_EX | LOCK_NB) == 0
        && !is_foreign(p, fd, &st) && unlink(path) == 0)
        ftk_report(FTKIT_DEBUG, "%s: of a process that is gone, removed", path);
    (void)close(fd);
}

static void sweep(struct ftk_place *p)
{
    DIR *d = opendir(p->dir);
    const struct dirent *e;
    p->kept = false;
    while (d && (e = readdir(d)))
        if (is_own(p, FTK_SLOT_PREFIX, e->d_name))
            sweep_slot(p, e->d_name, false);
        else if (is_own(p, FTK_SLOT_NEW, e->d_name))
            sweep_slot(p, e->d_name, true);
    if (d)
        (void)closedir(d);
}

void ftk_place_sweep(struct ftk_place *p, uint64_t when)
{
    if (p->kind == FTK_PLACE_MEMORY || p->swept == when)
        return;
    p->swept = when;
    sweep(p);
}

/* ---- in use -------------------------------------------------------------------------- */

int ftk_place_map(struct ftk_place *p, struct ftk_mem_seg *s, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return ftk_fail(FTKIT_ERR_NOMEM, "a segment of %zu bytes", bytes);
    size_t unit = bytes >= HUGE_PAGE ? HUGE_PAGE : FTK_SLOT_BYTES;
    bytes = (bytes + FTK_SLOT_BYTES + unit - 1) / unit * unit;
    int rc = make_file(p, s, bytes);
    if (rc == FTKIT_ERR_NOSPACE && p->kept) { /* no set would ever be written otherwise */
        ftk_report(FTKIT_WARNING,
            "%s: slots of an earlier job that were of no use are removed for want of space",
            p->dir);
        sweep(p);
        rc = make_file(p, s, bytes);
    }
    if (rc != FTKIT_OK)
        return rc;
    rc = map_file(p, s, bytes);
    if (rc != FTKIT_OK)
        ftk_place_unmap(p, s, false);
    return rc;
}

void ftk_place_unmap(struct ftk_place *p, struct ftk_mem_seg *s, bool keep)
{
    char path[SLOT_PATH];
    slot_path(p, s->name, path);
    if (s->buf && p->kind == FTK_PLACE_PMEM)
        ftk_pmem_unmap(s->buf - FTK_SLOT_BYTES, s->cap + FTK_SLOT_BYTES);
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
    return ftk_xxh3(&copy, slot->version == 1 ? FTK_SLOT_BYTES_1 : sizeof copy);
}

int ftk_place_seal(struct ftk_place *p, struct ftk_mem_seg *s)
{
    const struct ftk_seg_header *h = (const void *)s->buf;
    struct ftk_slot slot = { .version = FTK_SLOT_VERSION,
        .byte_order = FTK_SEG_BYTE_ORDER,
        .bytes = s->bytes,
        .set = s->set,
        .run = h->run,
        .epoch_id = h->epoch_id,
        .rank = (uint32_t)s->rank,
        .nranks = (uint32_t)s->nranks,
        .parity = s->parity,
        .home = p->identity.home };
    memcpy(slot.program, p->identity.program, sizeof slot.program);
    memcpy(slot.directory, p->identity.directory, sizeof slot.directory);
    memcpy(slot.magic, FTK_SLOT_MAGIC, sizeof slot.magic);
    memcpy(slot.context, h->context, sizeof slot.context);
    slot.sum = slot_sum(&slot);
    int rc = persist(p, s, s->buf, s->bytes);
    (void)FTK_FAULT("place.written");
    if (rc != FTKIT_OK)
        return rc;
    memcpy(s->buf - FTK_SLOT_BYTES, &slot, sizeof slot);
    rc = persist(p, s, s->buf - FTK_SLOT_BYTES, sizeof slot);
    if (rc != FTKIT_OK) /* nobody is to find it beside the slots of another try */
        memset(s->buf - FTK_SLOT_BYTES, 0, sizeof slot);
    (void)FTK_FAULT("place.sealed");
    return rc;
}

int ftk_place_wipe(struct ftk_place *p, struct ftk_mem_seg *s)
{
    memset(s->buf - FTK_SLOT_BYTES, 0, sizeof(struct ftk_slot));
    return persist(p, s, s->buf - FTK_SLOT_BYTES, sizeof(struct ftk_slot));
}

/* ---- what is left of earlier processes ----------------------------------------------- */

int ftk_slot_check(struct ftk_slot *slot, uint64_t room)
{
    if (memcmp(slot->magic, FTK_SLOT_MAGIC, sizeof slot->magic) != 0)
        return ftk_fail(FTKIT_ERR_NOT_FOUND, "slot: it holds nothing");
    if (slot->byte_order != FTK_SEG_BYTE_ORDER)
        return ftk_fail(FTKIT_ERR_FORMAT, "slot: of a machine with another byte order");
    if (slot->version < 1 || slot->version > FTK_SLOT_VERSION)
        return ftk_fail(FTKIT_ERR_FORMAT, "slot: format %u; this ftkit reads 1 to %u",
            (unsigned)slot->version, FTK_SLOT_VERSION);
    if (slot->version == 1)
        memset((char *)slot + FTK_SLOT_BYTES_1, 0, sizeof *slot - FTK_SLOT_BYTES_1);
    if (slot->sum != slot_sum(slot) || slot->set == 0 || slot->rank >= slot->nranks
        || slot->nranks > INT32_MAX || slot->bytes > room
        || slot->bytes < sizeof(struct ftk_seg_header)
        || !memchr(slot->context, '\0', sizeof slot->context)
        || !memchr(slot->program, '\0', sizeof slot->program)
        || !memchr(slot->directory, '\0', sizeof slot->directory))
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
    bool same = ftk_seg_bytes(seg) == slot->bytes && h->set == slot->set && h->run == slot->run
                && h->epoch_id == slot->epoch_id && h->rank == slot->rank
                && h->nranks == slot->nranks
                && ((h->flags & FTK_SEG_PARITY) != 0) == (slot->parity != 0)
                && memcmp(h->context, slot->context, sizeof h->context) == 0
                && (!slot->parity || ftk_parity_group(seg));
    return same ? FTKIT_OK
                : ftk_fail(FTKIT_ERR_CORRUPT, "slot: its header is not that of its segment");
}

static const struct ftk_mem_seg *find_same(const struct ftk_mem *m, const struct ftk_slot *slot)
{
    for (int i = 0; i < m->nsegs; i++) {
        const struct ftk_mem_seg *s = m->segs[i];
        const struct ftk_seg_header *h = (const void *)s->buf;
        if (s->set == slot->set && s->sealed && s->rank == (int)slot->rank
            && s->parity == (slot->parity != 0) && h->run == slot->run
            && h->epoch_id == slot->epoch_id)
            return s;
    }
    return NULL;
}

/* What a slot says of itself; also without its lock, to see whose it is.  FTKIT_ERR_STATE:
 * it is not ours; FTKIT_ERR_BUSY: nor of this job; other codes as those of
 * ftk_slot_check(), or those of the system. */
static int read_header(
    const struct ftk_place *p, const struct ftk_mem_seg *s, struct ftk_slot *slot, off_t *size)
{
    struct stat st;
    if (fstat(s->fd, &st) != 0)
        return ftk_fail_errno(errno, "%s/%s", p->dir, s->name);
    *size = st.st_size;
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink == 0)
        return ftk_fail(FTKIT_ERR_STATE, "%s/%s is not ours", p->dir, s->name);
    if (st.st_size < (off_t)(FTK_SLOT_BYTES + sizeof(struct ftk_seg_header)))
        return ftk_fail(FTKIT_ERR_NOT_FOUND, "%s/%s holds nothing", p->dir, s->name);
    ssize_t n = pread(s->fd, slot, sizeof *slot, 0);
    if (n != (ssize_t)sizeof *slot)
        return ftk_fail_errno(n < 0 ? errno : EIO, "%s/%s", p->dir, s->name);
    int rc = ftk_slot_check(slot, (uint64_t)st.st_size - FTK_SLOT_BYTES);
    if (rc == FTKIT_OK && strncmp(slot->context, p->context, sizeof slot->context) != 0)
        rc = ftk_fail(FTKIT_ERR_STATE, "another context's");
    if (rc == FTKIT_OK && !ftk_identity_fits(&p->identity, slot->program, slot->home))
        rc = ftk_fail(FTKIT_ERR_BUSY, "another job's");
    return rc;
}

/* What was read and is good for nothing is removed; what cannot be had now may be
 * later. */
static bool is_worthless(int rc)
{
    return rc == FTKIT_ERR_NOT_FOUND || rc == FTKIT_ERR_CORRUPT;
}

static void tell_unusable(struct ftk_place *p, const struct ftk_mem_seg *s, int rc)
{
    if (rc == FTKIT_ERR_NOT_FOUND || rc == FTKIT_ERR_STATE
        || (rc == FTKIT_ERR_FORMAT && p->foreign))
        return;
    p->foreign = p->foreign || rc == FTKIT_ERR_FORMAT;
    ftk_report(FTKIT_WARNING, "%s/%s: %s; %s", p->dir, s->name, ftk_detail_text(),
        is_worthless(rc) ? "removed" : "not used");
}

/* Use the locked slot s. */
static int use_slot(struct ftk_place *p, struct ftk_mem *m, struct ftk_mem_seg *s)
{
    off_t size;
    struct ftk_slot slot;
    int rc = read_header(p, s, &slot, &size);
    if (rc != FTKIT_OK)
        return rc;
    const struct ftk_mem_seg *same = find_same(m, &slot);
    if (same)
        return ftk_fail(same->verified ? FTKIT_ERR_NOT_FOUND : FTKIT_ERR_STATE,
            "%s/%s is there already", p->dir, s->name);
    rc = map_file(p, s, (size_t)size);
    if (rc == FTKIT_OK) {
        rc = ftk_slot_check_segment(&slot, s->buf);
        if (rc != FTKIT_OK && rc != FTKIT_ERR_NOMEM)
            rc = FTKIT_ERR_CORRUPT; /* whatever it looks like: the header says it is whole */
    }
    if (rc != FTKIT_OK)
        return rc;
    s->set = slot.set;
    s->rank = (int)slot.rank;
    s->nranks = (int)slot.nranks;
    s->bytes = (size_t)slot.bytes;
    s->parity = slot.parity != 0;
    s->sealed = s->verified = s->found = true;
    return ftk_mem_add(m, s);
}

/* Somebody has the slot: one of this job, for good, or one who dies or looks at it. */
static int note_busy(struct ftk_place *p, const struct ftk_mem *m, const struct ftk_slot *slot)
{
    if (find_same(m, slot))
        return FTKIT_OK;
    struct ftk_slot *busy = realloc(p->busy, ((size_t)p->nbusy + 1) * sizeof *busy);
    if (!busy)
        return ftk_fail(FTKIT_ERR_NOMEM, "list of slots");
    p->busy = busy;
    p->busy[p->nbusy++] = *slot;
    return FTKIT_OK;
}

/* A slot of another job: it stays, and is told of. */
static void note_other(struct ftk_place *p, const struct ftk_slot *slot)
{
    if (p->others++ == 0 || p->other.set == 0)
        p->other = *slot;
}

/* The same of one whose name says that it is another job's. */
static void look_at_other(struct ftk_place *p, const char *name)
{
    char path[SLOT_PATH];
    struct stat st;
    struct ftk_slot slot = { .set = 0 };
    slot_path(p, name, path);
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return;
    bool read = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)
                && st.st_size >= (off_t)FTK_SLOT_BYTES
                && pread(fd, &slot, sizeof slot, 0) == (ssize_t)sizeof slot;
    int rc = read ? ftk_slot_check(&slot, (uint64_t)st.st_size - FTK_SLOT_BYTES) : FTKIT_ERR_FORMAT;
    if (fd >= 0)
        (void)close(fd);
    if (rc != FTKIT_OK)
        memset(&slot, 0, sizeof slot);
    if (rc != FTKIT_ERR_NOT_FOUND) /* that holds nothing */
        note_other(p, &slot);
}

/* FTKIT_OK also when there is nothing for us in the open slot s: it is closed then.  A
 * rank that looks for its own leaves the locks of others alone. */
static int take_slot(
    struct ftk_place *p, struct ftk_mem *m, struct ftk_mem_seg *s, int rank, bool all)
{
    off_t size;
    struct ftk_slot slot;
    int rc = read_header(p, s, &slot, &size);
    if (rc == FTKIT_ERR_BUSY && all)
        note_other(p, &slot);
    if (rc == FTKIT_ERR_BUSY || (!all && (rc != FTKIT_OK || (int)slot.rank != rank))) {
        rc = FTKIT_ERR_STATE;
    } else if (flock(s->fd, LOCK_EX | LOCK_NB) == 0) {
        rc = use_slot(p, m, s);
        if (rc == FTKIT_OK)
            return rc;
        tell_unusable(p, s, rc);
    } else if (errno != EWOULDBLOCK) {
        rc = ftk_fail_errno(errno, "%s/%s", p->dir, s->name);
        tell_unusable(p, s, rc);
    } else {
        rc = rc == FTKIT_OK && all ? note_busy(p, m, &slot) : FTKIT_ERR_STATE;
    }
    ftk_place_unmap(p, s, !is_worthless(rc));
    free(s);
    bool nothing_for_us = rc == FTKIT_ERR_STATE || rc == FTKIT_ERR_FORMAT;
    return nothing_for_us || is_worthless(rc) ? FTKIT_OK : rc;
}

static int adopt_slot(struct ftk_place *p, struct ftk_mem *m, const char *name, int rank, bool all)
{
    char path[SLOT_PATH];
    struct ftk_mem_seg *s = calloc(1, sizeof *s);
    if (!s)
        return ftk_fail(FTKIT_ERR_NOMEM, "list of segments");
    snprintf(s->name, sizeof s->name, "%s", name);
    slot_path(p, name, path);
    s->fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (s->fd >= 0)
        return take_slot(p, m, s, rank, all);
    int err = errno;
    int rc = ftk_fail_errno(err, "%s", path);
    bool here = err == EMFILE || err == ENFILE || err == ENOMEM;
    if (here) /* otherwise it is gone, or nothing of ours */
        tell_unusable(p, s, rc);
    free(s);
    return here ? rc : FTKIT_OK;
}

void ftk_place_forget_busy(struct ftk_place *p)
{
    free(p->busy);
    p->busy = NULL;
    p->nbusy = 0;
}

int ftk_place_adopt(struct ftk_place *p, struct ftk_mem *m, int rank, bool all)
{
    int rc = FTKIT_OK;
    DIR *d = p->found_again ? opendir(p->dir) : NULL;
    const struct dirent *e;
    ftk_place_forget_busy(p);
    p->others = 0;
    if (p->found_again && !d)
        return ftk_fail_errno(errno, "%s", p->dir);
    while (d && (e = readdir(d))) {
        bool ours =
            is_own(p, FTK_SLOT_PREFIX, e->d_name) || is_like(p->older, FTK_SLOT_PREFIX, e->d_name);
        if (!ours && all && *p->older && is_other(p, e->d_name))
            look_at_other(p, e->d_name);
        if (!ours)
            continue;
        int bad = adopt_slot(p, m, e->d_name, rank, all);
        rc = bad != FTKIT_OK ? bad : rc;
    }
    if (d)
        (void)closedir(d);
    return rc;
}
