/* A ring in memory that the processes of a node share (see ring.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * put and got count bytes of the segment that is being handed over.  The giver advances put,
 * the taker advances got; put - got bytes lie in the ring.  The taker sets both to zero, then
 * names the member that it asks.  Both sides poll: helper threads have time, and a process that
 * is killed would never release a lock. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "core/hash.h"
#include "core/memfd.h"
#include "ring.h"

#define NAME "ftkit-ring"
#define MAGIC 0x46544b52u /* FTKR */
#define RING_BYTES (FTK_RING_BLOCK * FTK_RING_BLOCKS)
#define HEAD_ALIGN 4096u
#define PAUSE_MIN_NS 50000L
#define PAUSE_MAX_NS 5000000L
#define LOOK_EVERY_S 0.02 /* time between two looks whether a process is alive */

struct member {
    _Atomic int pid; /* 0: has not joined */
    _Atomic int left;
    _Atomic uint64_t offered; /* newest set that the member takes part in */
    _Atomic uint64_t bytes;   /* of its segment of that set */
    _Atomic uint64_t refused; /* newest set that the member has failed to give */
};

struct head {
    uint32_t magic;
    uint32_t nmembers;
    uint64_t token;
    uint64_t data; /* where the blocks begin */
    _Atomic uint64_t asked_set;
    _Atomic int asked; /* member that is to give, -1: none */
    _Atomic uint64_t put, got;
    _Atomic uint64_t abandoned; /* newest set that member 0 has given up */
    struct member members[];    /* [nmembers] */
};

struct ftk_ring {
    struct head *head;
    size_t bytes; /* mapped */
    int member;   /* own */
    int fd;       /* member 0, until all have joined; else -1 */
};

/* ---- waiting ------------------------------------------------------------------------- */

struct pause {
    const struct ftk_ring_wait *wait;
    long ns;
    double looked_s;   /* time of the last look at the process of the other member */
    double progress_s; /* time of the last progress */
};

static struct pause pause_of(const struct ftk_ring_wait *wait)
{
    double now = ftk_now_s();
    return (struct pause){ wait, PAUSE_MIN_NS, now, now };
}

static void happened(struct pause *p)
{
    p->ns = PAUSE_MIN_NS;
    p->progress_s = ftk_now_s();
}

/* Whether this member cannot or will not take part in the set. */
static bool is_gone(const struct member *m, uint64_t set)
{
    int pid = atomic_load(&m->pid);
    if (atomic_load(&m->offered) < set && (pid == 0 || atomic_load(&m->left)))
        return true;
    return kill(pid, 0) != 0 && errno == ESRCH;
}

/* One turn of a wait for member m; an error ends the wait. */
static int turn(struct pause *p, const struct ftk_ring *ring, int m, uint64_t set)
{
    const struct member *other = &ring->head->members[m];
    struct timespec t = { 0, p->ns };
    if (atomic_load(p->wait->stop))
        return ftk_fail(FTKIT_ERR_PEER, "the flush was cancelled");
    if (atomic_load(&ring->head->abandoned) >= set)
        return ftk_fail(FTKIT_ERR_PEER, "the writer of the group has given the set up");
    if (atomic_load(&other->refused) >= set)
        return ftk_fail(FTKIT_ERR_PEER, "process %d of the node has failed to give its part",
            atomic_load(&other->pid));
    double now = ftk_now_s();
    if (now - p->looked_s > LOOK_EVERY_S) {
        p->looked_s = now;
        if (is_gone(other, set))
            return ftk_fail(FTKIT_ERR_PEER, "process %d of the node has ended or left",
                atomic_load(&other->pid));
    }
    if (p->wait->patience_s > 0 && now - p->progress_s > p->wait->patience_s)
        return ftk_fail(FTKIT_ERR_PEER, "no data from process %d for %.1f s",
            atomic_load(&other->pid), now - p->progress_s);
    (void)nanosleep(&t, NULL); /* a shorter sleep does no harm */
    p->ns = 2 * p->ns < PAUSE_MAX_NS ? 2 * p->ns : PAUSE_MAX_NS;
    return FTKIT_OK;
}

/* ---- making and joining -------------------------------------------------------------- */

static size_t head_bytes(int nmembers)
{
    size_t n = sizeof(struct head) + (size_t)nmembers * sizeof(struct member);
    return (n + HEAD_ALIGN - 1) / HEAD_ALIGN * HEAD_ALIGN;
}

static struct ftk_ring *map_ring(int fd, size_t bytes)
{
    struct ftk_ring *ring = calloc(1, sizeof *ring);
    if (!ring)
        return NULL;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        free(ring);
        return NULL;
    }
    ring->head = p;
    ring->bytes = bytes;
    ring->fd = -1;
    return ring;
}

static uint64_t new_token(void)
{
    static atomic_uint count;
    uint64_t seed[3] = { ftk_wall_ns(), (uint64_t)getpid(), atomic_fetch_add(&count, 1) };
    return ftk_xxh3(seed, sizeof seed);
}

int ftk_ring_make(int nmembers, struct ftk_ring **out, struct ftk_ring_address *at)
{
    size_t bytes = head_bytes(nmembers) + RING_BYTES;
    int err = FTK_FAULT("ring.make");
    int fd = -1;
    if (!err)
        err = ftk_memfd_make(NAME, bytes, &fd);
    struct ftk_ring *ring = err ? NULL : map_ring(fd, bytes);
    if (!ring) {
        int rc = ftk_fail_errno(err ? err : errno, "%zu bytes of shared memory", bytes);
        if (fd >= 0)
            (void)close(fd); /* an error loses no data: the file is empty */
        return rc;
    }
    struct head *h = ring->head;
    ring->fd = fd;
    h->magic = MAGIC;
    h->nmembers = (uint32_t)nmembers;
    h->token = new_token();
    h->data = head_bytes(nmembers);
    atomic_store(&h->asked, -1);
    atomic_store(&h->members[0].pid, (int)getpid());
    *at = (struct ftk_ring_address){ getpid(), fd, h->token };
    *out = ring;
    return FTKIT_OK;
}

void ftk_ring_made(struct ftk_ring *ring)
{
    if (ring->fd >= 0)
        (void)close(ring->fd); /* the mapping stays */
    ring->fd = -1;
}

static bool is_meant(const struct ftk_ring *ring, const struct ftk_ring_address *at, int member)
{
    const struct head *h = ring->head;
    return h->magic == MAGIC && h->token == at->token && member > 0
           && (uint32_t)member < h->nmembers && h->data + RING_BYTES == ring->bytes;
}

/* Map the file at an address if it is large enough for a ring; else NULL with errno. */
static struct ftk_ring *open_ring(const struct ftk_ring_address *at)
{
    struct ftk_ring *ring = NULL;
    size_t bytes = 0;
    int fd = -1;
    int err = ftk_memfd_open(NAME, (pid_t)at->pid, (int)at->fd, &fd, &bytes);
    if (!err && bytes < head_bytes(1) + RING_BYTES)
        err = ENOENT;
    if (!err) {
        ring = map_ring(fd, bytes);
        err = errno;
    }
    if (fd >= 0)
        (void)close(fd); /* the mapping stays */
    errno = err;
    return ring;
}

static void unmap_ring(struct ftk_ring *ring)
{
    (void)munmap(ring->head, ring->bytes);
    free(ring);
}

int ftk_ring_join(const struct ftk_ring_address *at, int member, struct ftk_ring **out)
{
    char path[64];
    int err = FTK_FAULT("ring.join");
    if (at->pid <= 0)
        return ftk_fail(FTKIT_ERR_NOT_FOUND, "no ring to join");
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)at->pid, (int)at->fd);
    struct ftk_ring *ring = err ? NULL : open_ring(at);
    if (!ring)
        return ftk_fail_errno(err ? err : errno, "join the ring at %s", path);
    if (!is_meant(ring, at, member)) {
        unmap_ring(ring);
        return ftk_fail(FTKIT_ERR_IO, "%s is not the ring that was meant", path);
    }
    ring->member = member;
    atomic_store(&ring->head->members[member].pid, (int)getpid());
    *out = ring;
    return FTKIT_OK;
}

void ftk_ring_leave(struct ftk_ring *ring)
{
    atomic_store(&ring->head->members[ring->member].left, 1);
}

void ftk_ring_close(struct ftk_ring *ring)
{
    if (!ring)
        return;
    ftk_ring_leave(ring);
    ftk_ring_made(ring);
    unmap_ring(ring);
}

/* ---- handing over -------------------------------------------------------------------- */

static char *blocks(const struct ftk_ring *ring)
{
    return (char *)ring->head + ring->head->data;
}

void ftk_ring_offer(struct ftk_ring *ring, uint64_t set, size_t bytes)
{
    struct member *m = &ring->head->members[ring->member];
    atomic_store(&m->bytes, bytes);
    atomic_store(&m->offered, set);
}

static size_t piece(size_t left)
{
    return left < FTK_RING_BLOCK ? left : FTK_RING_BLOCK;
}

/* Only the last piece of a segment is shorter than a block, so no piece runs over the end of the
 * ring. */
static int give(struct ftk_ring *ring, uint64_t set, const void *buf, size_t bytes,
    const struct ftk_ring_wait *wait)
{
    struct head *h = ring->head;
    /* no limit: this member is asked after the members before it, and the file may be slow */
    struct ftk_ring_wait ever = { wait->stop, 0 };
    struct pause p = pause_of(&ever);
    size_t put = 0;
    int rc = FTKIT_OK;
    while (rc == FTKIT_OK
           && (atomic_load(&h->asked) != ring->member || atomic_load(&h->asked_set) != set))
        rc = turn(&p, ring, 0, set);
    while (rc == FTKIT_OK && put < bytes) {
        size_t n = piece(bytes - put);
        if (put + n - atomic_load(&h->got) > RING_BYTES) {
            rc = turn(&p, ring, 0, set);
            continue;
        }
        int err = FTK_FAULT("flush.block");
        if (err)
            return ftk_fail_errno(err, "handing over a block");
        memcpy(blocks(ring) + put % RING_BYTES, (const char *)buf + put, n);
        put += n;
        atomic_store(&h->put, put);
        happened(&p);
    }
    return rc;
}

int ftk_ring_give(struct ftk_ring *ring, uint64_t set, const void *buf, size_t bytes,
    const struct ftk_ring_wait *wait)
{
    int rc = give(ring, set, buf, bytes, wait);
    if (rc != FTKIT_OK)
        atomic_store(&ring->head->members[ring->member].refused, set);
    return rc;
}

int ftk_ring_offered(struct ftk_ring *ring, uint64_t set, int member, size_t *bytes,
    const struct ftk_ring_wait *wait)
{
    const struct member *m = &ring->head->members[member];
    struct pause p = pause_of(wait);
    int rc = FTKIT_OK;
    while (rc == FTKIT_OK && atomic_load(&m->offered) < set)
        rc = turn(&p, ring, member, set);
    if (rc == FTKIT_OK)
        *bytes = atomic_load(&m->bytes);
    return rc;
}

int ftk_ring_take(struct ftk_ring *ring, uint64_t set, int member, void *buf, size_t bytes,
    const struct ftk_ring_wait *wait)
{
    struct head *h = ring->head;
    struct pause p = pause_of(wait);
    size_t got = 0;
    int rc = FTKIT_OK;
    atomic_store(&h->put, 0);
    atomic_store(&h->got, 0);
    atomic_store(&h->asked_set, set);
    atomic_store(&h->asked, member);
    while (rc == FTKIT_OK && got < bytes) {
        size_t n = piece(bytes - got);
        if (atomic_load(&h->put) < got + n) {
            rc = turn(&p, ring, member, set);
            continue;
        }
        memcpy((char *)buf + got, blocks(ring) + got % RING_BYTES, n);
        got += n;
        atomic_store(&h->got, got);
        happened(&p);
    }
    atomic_store(&h->asked, -1);
    return rc;
}

void ftk_ring_abandon(struct ftk_ring *ring, uint64_t set)
{
    atomic_store(&ring->head->abandoned, set);
}
