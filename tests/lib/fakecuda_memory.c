/* The memory of the driver without a device (see fakecuda.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *  - Freed memory looks like host memory, and its addresses come back.  Memory of a pool, and of a
 *    range that was reserved, names no context.  In a child process every look-up fails.
 *  - A range that was reserved may have a hole.  The driver names the whole range for an address in
 *    the hole, too, but no memory, and a copy of bytes of the hole is refused.
 *  - Host memory that is registered is copied by its pages of that time, not by its address: who
 *    maps other pages there without unregistering gets old bytes.
 *  - Memory of 1 MiB and more keeps its file, and a copy leaves pages out that are not there: so a
 *    test may have arrays of many GiB.
 *
 * FAKECUDA_LOG=FILE  at its end each process writes its registrations, how many kernels in PTX it
 *                    has run, and how often memory of a pool was taken and given back
 * FAKECUDA_ROOM=MIB  of the device, for each process or, with FAKECUDA_SHARED (fakecuda_shared.c),
 *                    for all of them; without it: 64 GiB */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fakecuda_inside.h"

enum { BLOCKS = 4096, RANGES = 256, PAGE = 4096, PIECE = 65536 };
enum { LARGE = 1 << 20, HUGE = 1 << 30 };

struct block {
    char *seen, *real;
    size_t bytes, hole, hole_end; /* hole: of a range that was reserved; both 0: none */
    struct context *context;      /* NULL: of a pool, or of a range that was reserved */
    int device, fd;               /* fd: -1: not kept */
    bool pool, managed, freed;
};
struct range {
    char *at, *alias;
    size_t bytes;
    int fd; /* -1: the pages are those of a file of somebody else */
};

static struct block blocks[BLOCKS];
static int nblocks;
static struct range ranges[RANGES];
static int nranges, registered, unregistered, taken, given_back;

/* ---- copies ------------------------------------------------------------------------------ */

/* Memory, and the file that it is mapped from; fd: -1: any memory. */
struct span {
    char *p;
    int fd;
    off_t at;
};

static struct span span_of(const void *p)
{
    const char *first = p;
    for (int i = 0; i < nblocks; i++)
        if (first >= blocks[i].real && first < blocks[i].real + blocks[i].bytes)
            return (struct span){ (char *)(uintptr_t)p, blocks[i].fd, first - blocks[i].real };
    for (int i = 0; i < nranges; i++)
        if (first >= ranges[i].alias && first < ranges[i].alias + ranges[i].bytes)
            return (struct span){ (char *)(uintptr_t)p, ranges[i].fd, first - ranges[i].alias };
    return (struct span){ (char *)(uintptr_t)p, -1, 0 };
}

/* Whether all bytes are zero; no page is made. */
static bool is_zero(struct span s, size_t bytes)
{
    if (s.fd >= 0) {
        const off_t data = lseek(s.fd, s.at, SEEK_DATA);
        return data < 0 || data >= s.at + (off_t)bytes;
    }
    return bytes == 0 || (s.p[0] == 0 && memcmp(s.p, s.p + 1, bytes - 1) == 0);
}

static void clear(struct span s, size_t bytes)
{
    if (is_zero(s, bytes))
        return;
    if (s.fd < 0)
        memset(s.p, 0, bytes);
    else if (fallocate(s.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, s.at, (off_t)bytes) != 0)
        abort();
}

static struct span behind(struct span s, size_t bytes)
{
    return (struct span){ s.p + bytes, s.fd, s.at + (off_t)bytes };
}

static void copy_spans(struct span to, struct span from, size_t bytes)
{
    for (size_t i = 0, n; i < bytes; i += n) {
        n = bytes - i < PIECE ? bytes - i : PIECE;
        if (is_zero(behind(from, i), n))
            clear(behind(to, i), n);
        else
            memcpy(to.p + i, from.p + i, n);
    }
}

void fakecuda_copy(void *to, const void *from, size_t bytes)
{
    if (bytes < PIECE)
        memcpy(to, from, bytes);
    else
        copy_spans(span_of(to), span_of(from), bytes);
}

/* ---- memory of the device ------------------------------------------------------------------ */

static bool is_in_hole(const struct block *b, size_t at, size_t bytes)
{
    return at < b->hole_end && at + bytes > b->hole;
}

/* The allocation, or the range, that these addresses are of. */
static struct block *range_at(CUdeviceptr p, size_t bytes)
{
    for (int i = 0; i < nblocks; i++) {
        const CUdeviceptr first = (CUdeviceptr)(uintptr_t)blocks[i].seen;
        if (!blocks[i].freed && p >= first && p + bytes <= first + blocks[i].bytes)
            return &blocks[i];
    }
    return NULL;
}

static struct block *block_at(CUdeviceptr p, size_t bytes)
{
    struct block *b = range_at(p, bytes);
    return b && !is_in_hole(b, p - (CUdeviceptr)(uintptr_t)b->seen, bytes) ? b : NULL;
}

char *fakecuda_real_of(CUdeviceptr p, size_t bytes)
{
    const struct block *b = block_at(p, bytes);
    return b ? b->real + (p - (CUdeviceptr)(uintptr_t)b->seen) : NULL;
}

char *fakecuda_block(CUdeviceptr p, CUdeviceptr *first, size_t *bytes)
{
    const struct block *b = block_at(p, 1);
    if (!b)
        return NULL;
    const size_t at = p - (CUdeviceptr)(uintptr_t)b->seen;
    const size_t begin = at >= b->hole_end ? b->hole_end : 0;
    *first = (CUdeviceptr)(uintptr_t)b->seen + begin;
    *bytes = (at < b->hole ? b->hole : b->bytes) - begin;
    return b->real + begin;
}

static struct block *old_block(size_t bytes)
{
    for (int i = 0; i < nblocks; i++)
        if (blocks[i].freed && blocks[i].bytes == bytes)
            return &blocks[i];
    return NULL;
}

static struct block *new_block(size_t bytes)
{
    int fd = memfd_create("device", MFD_CLOEXEC);
    if (nblocks == BLOCKS || fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        abort();
    void *real = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    void *seen = mmap(NULL, bytes, PROT_NONE, MAP_SHARED, fd, 0);
    if (real == MAP_FAILED || seen == MAP_FAILED || (bytes < LARGE && close(fd) != 0))
        abort();
    struct block *b = &blocks[nblocks++];
    *b =
        (struct block){ .seen = seen, .real = real, .bytes = bytes, .fd = bytes < LARGE ? -1 : fd };
    return b;
}

/* Bytes of the device that this process may have, and has. */
static size_t room(void)
{
    const char *text = getenv("FAKECUDA_ROOM");
    return (text ? strtoull(text, NULL, 10) : 65536) << 20;
}

static size_t in_use(void)
{
    size_t bytes = 0;
    for (int i = 0; i < nblocks; i++)
        bytes += blocks[i].freed ? 0 : blocks[i].bytes;
    return bytes;
}

static int allocate(CUdeviceptr *p, size_t bytes, struct context *context, bool pool, bool managed)
{
    const struct context *now = fakecuda_current();
    if (bytes == 0 || !now)
        return bytes == 0 ? INVALID_VALUE : INVALID_CONTEXT;
    bytes = (bytes + PAGE - 1) / PAGE * PAGE;
    const size_t others = fakecuda_of_others(in_use() + bytes);
    if (others + bytes > room() || in_use() > room() - others - bytes) {
        (void)fakecuda_of_others(in_use());
        return OUT_OF_MEMORY;
    }
    struct block *b = old_block(bytes);
    if (!b)
        b = new_block(bytes);
    b->freed = false;
    b->hole = b->hole_end = 0;
    b->context = context;
    b->pool = pool;
    b->managed = managed;
    b->device = now->device;
    if (bytes < HUGE)
        memset(b->real, 0xa5, bytes); /* as it comes */
    *p = (CUdeviceptr)(uintptr_t)b->seen;
    return OK;
}

int cuMemAlloc_v2(CUdeviceptr *p, size_t bytes)
{
    BEGIN();
    return fakecuda_is_unsafe() ? CAPTURE_UNSUPPORTED
                                : allocate(p, bytes, fakecuda_current(), false, false);
}

int cuMemAllocManaged(CUdeviceptr *p, size_t bytes, unsigned flags)
{
    (void)flags;
    BEGIN();
    return allocate(p, bytes, fakecuda_current(), false, true);
}

int fakecuda_reserve(CUdeviceptr *p, size_t bytes)
{
    BEGIN();
    return allocate(p, bytes, NULL, false, false);
}

int fakecuda_unmap(CUdeviceptr p, size_t bytes)
{
    BEGIN();
    struct block *b = range_at(p, bytes);
    if (!b || b->context || b->pool || p % PAGE != 0 || bytes % PAGE != 0)
        return INVALID_VALUE;
    b->hole = p - (CUdeviceptr)(uintptr_t)b->seen;
    b->hole_end = b->hole + bytes;
    return OK;
}

int cuMemAllocAsync(CUdeviceptr *p, size_t bytes, void *stream)
{
    (void)stream;
    BEGIN();
    const int code = allocate(p, bytes, NULL, true, false);
    taken += code == OK;
    return code;
}

static void give_back(const struct work *w)
{
    ((struct block *)w->to)->freed = true;
    given_back++;
}

int cuMemFreeAsync(CUdeviceptr p, void *stream)
{
    BEGIN();
    struct block *b = block_at(p, 1);
    if (!b || !b->pool || (CUdeviceptr)(uintptr_t)b->seen != p)
        return INVALID_VALUE;
    (void)pthread_mutex_lock(&fakecuda_lock);
    fakecuda_add((struct work){ .stream = stream, .kernel = give_back, .to = b });
    (void)pthread_mutex_unlock(&fakecuda_lock);
    return OK;
}

size_t fakecuda_in_pool(void)
{
    size_t bytes = 0;
    for (int i = 0; i < nblocks; i++)
        bytes += blocks[i].pool && !blocks[i].freed ? blocks[i].bytes : 0;
    return bytes;
}

int cuMemGetInfo_v2(size_t *unused, size_t *all)
{
    BEGIN();
    if (!fakecuda_current())
        return INVALID_CONTEXT;
    *all = room();
    *unused = in_use() < room() ? room() - in_use() : 0;
    return OK;
}

int cuMemFree_v2(CUdeviceptr p)
{
    BEGIN();
    if (fakecuda_is_unsafe())
        return CAPTURE_UNSUPPORTED;
    struct block *b = block_at(p, 1);
    if (!b || (CUdeviceptr)(uintptr_t)b->seen != p)
        return INVALID_VALUE;
    b->freed = true;
    (void)fakecuda_of_others(in_use());
    return OK;
}

/* ---- look-ups -------------------------------------------------------------------------------- */

static bool answer(int which, void *to, CUdeviceptr p)
{
    const struct block *b = block_at(p, 1), *range = range_at(p, 1);
    const bool pinned = !range && fakecuda_is_registered((const void *)(uintptr_t)p);
    if (which == 1)
        *(void **)to = b ? b->context : pinned ? fakecuda_primary() : NULL;
    else if (which == 2)
        *(unsigned *)to = b ? 2 : pinned;
    else if (which == 8)
        *(unsigned *)to = b && b->managed;
    else if (which == 9)
        *(int *)to = b ? b->device : pinned ? 0 : -2;
    else if (which == 11)
        *(CUdeviceptr *)to = range ? (CUdeviceptr)(uintptr_t)range->seen : 0;
    else if (which == 12)
        *(size_t *)to = range ? range->bytes : 0;
    else if (which == 17)
        *(const void **)to = b && b->pool ? b : NULL;
    else
        return false;
    return true;
}

int cuPointerGetAttributes(unsigned n, const int *which, void **to, CUdeviceptr p)
{
    if (fakecuda_owner && fakecuda_owner != getpid())
        return NOT_INITIALIZED;
    for (unsigned i = 0; i < n; i++)
        if (!answer(which[i], to[i], p))
            return INVALID_VALUE;
    return OK;
}

/* ---- host memory that is registered ---------------------------------------------------- */

char *fakecuda_host_of(const void *p, size_t bytes)
{
    for (int i = 0; i < nranges; i++) {
        const struct range *r = &ranges[i];
        const char *first = p;
        if (first < r->at || first >= r->at + r->bytes)
            continue;
        return first + bytes <= r->at + r->bytes ? r->alias + (first - r->at) : NULL;
    }
    return (char *)(uintptr_t)p;
}

/* The same pages at another address.  Private pages become those of a file in memory first. */
static char *alias_of(char *p, size_t bytes, int *file)
{
    void *alias = mremap(p, 0, bytes, MREMAP_MAYMOVE); /* shared mappings only */
    *file = -1;
    if (alias != MAP_FAILED)
        return alias;
    int fd = memfd_create("pinned", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        abort();
    alias = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (alias == MAP_FAILED)
        abort();
    copy_spans((struct span){ alias, fd, 0 }, (struct span){ p, -1, 0 }, bytes);
    if (mmap(p, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != p)
        abort();
    *file = fd;
    return alias;
}

bool fakecuda_is_registered(const void *p)
{
    int i = 0;
    while (i < nranges
           && ((const char *)p < ranges[i].at || (const char *)p >= ranges[i].at + ranges[i].bytes))
        i++;
    return i < nranges;
}

int cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags)
{
    (void)flags;
    BEGIN();
    if (fakecuda_is_unsafe())
        return CAPTURE_UNSUPPORTED;
    if (bytes == 0 || (uintptr_t)p % PAGE != 0 || nranges == RANGES)
        return INVALID_VALUE;
    for (int i = 0; i < nranges; i++)
        if ((char *)p < ranges[i].at + ranges[i].bytes && ranges[i].at < (char *)p + bytes)
            return ALREADY_REGISTERED;
    struct range r = { .at = p, .bytes = bytes };
    r.alias = alias_of(p, bytes, &r.fd);
    ranges[nranges++] = r;
    registered++;
    return OK;
}

int cuMemHostUnregister(void *p)
{
    BEGIN();
    if (!fakecuda_current() || fakecuda_is_unsafe())
        return fakecuda_current() ? CAPTURE_UNSUPPORTED : INVALID_CONTEXT;
    int i = 0;
    while (i < nranges && ranges[i].at != p)
        i++;
    if (i == nranges)
        return NOT_REGISTERED;
    if (ranges[i].fd >= 0)
        (void)close(ranges[i].fd);
    (void)munmap(ranges[i].alias, ranges[i].bytes);
    ranges[i] = ranges[--nranges];
    unregistered++;
    return OK;
}

static void __attribute__((destructor)) note_ranges(void)
{
    const char *path = getenv("FAKECUDA_LOG");
    FILE *f = path && registered > 0 && fakecuda_owner == getpid() ? fopen(path, "a") : NULL;
    if (f)
        (void)fprintf(f, "%d registered %d unregistered %llu sums %d taken %d given back\n",
            registered, unregistered, fakecuda_launches, taken, given_back);
    if (f)
        (void)fclose(f);
}
