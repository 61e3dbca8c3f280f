/* The kind of memory walled, for tests/rooms.t: memory that stands for that of a device.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A file in memory is mapped twice.  The program registers addresses of the first mapping, the
 * wall, which nobody may read or write: an access that does not go through the functions of the
 * kind is a SIGSEGV, or EFAULT in a system call.  The functions use the second mapping, and so does
 * the program where it computes, as a kernel on a device would (walled_here()). */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "core/ftk.h"
#include "core/memory_kind.h"

#define ROOM ((size_t)64 << 20)
#define ALIGN 64

void *walled_alloc(size_t bytes);
void *walled_here(const void *p);
void walled_give_back(void);

static bool gone;
static char *wall, *behind;
static size_t used;

/* Each chunk has its size in front. */
static size_t *size_of(const void *p)
{
    return (size_t *)walled_here((const char *)p - ALIGN);
}

void *walled_here(const void *p)
{
    return behind + ((const char *)p - wall);
}

static bool open_wall(void)
{
    if (wall)
        return true;
    int fd = memfd_create("walled", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)ROOM) != 0)
        return false;
    void *a = mmap(NULL, ROOM, PROT_NONE, MAP_SHARED, fd, 0);
    void *b = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (close(fd) != 0 || a == MAP_FAILED || b == MAP_FAILED)
        return false;
    wall = a;
    behind = b;
    return true;
}

void *walled_alloc(size_t bytes)
{
    size_t all = ALIGN + (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (!open_wall() || all > ROOM - used)
        return NULL;
    char *p = wall + used + ALIGN;
    used += all;
    *size_of(p) = bytes;
    return p;
}

/* As cudaFree(): the addresses are no memory of the kind any more. */
void walled_give_back(void)
{
    gone = true;
}

static bool present(void)
{
    return wall != NULL;
}

static bool owns(const void *p)
{
    return wall && !gone && (const char *)p >= wall && (const char *)p < wall + ROOM;
}

static int copy_out(void *to, const void *from, size_t bytes)
{
    memcpy(to, walled_here(from), bytes);
    return FTKIT_OK;
}

static int copy_in(void *to, const void *from, size_t bytes)
{
    memcpy(walled_here(to), from, bytes);
    return FTKIT_OK;
}

static int sum(const void *from, size_t bytes, uint64_t seed, uint64_t *out)
{
    *out = ftk_xxh3_seed(walled_here(from), bytes, seed);
    return FTKIT_OK;
}

static void *alloc(void *old, size_t bytes)
{
    void *p = walled_alloc(bytes);
    if (p && old)
        memcpy(walled_here(p), walled_here(old), bytes < *size_of(old) ? bytes : *size_of(old));
    return p;
}

const struct ftk_memory_ops ftk_memory_walled = { .name = "walled",
    .present = present,
    .owns = owns,
    .copy_out = copy_out,
    .copy_in = copy_in,
    .sum = sum,
    .alloc = alloc };
