/* The places shared and file: files that are mapped.  Shared memory has a segment as soon as the
 * segment is written; a file on a disk of the node has it after msync().
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>

#include "place_ops.h"

static char *map_file(int fd, const char *path, size_t bytes, bool *direct)
{
    (void)path;
    *direct = false;
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (bytes >= FTK_HUGE_PAGE) /* a hint, taken where the system allows it for such files */
        (void)madvise(p, bytes, MADV_HUGEPAGE);
    return p;
}

static void unmap(char *at, size_t bytes)
{
    (void)munmap(at, bytes);
}

static int sync_file(const void *at, size_t bytes, bool direct)
{
    (void)direct;
    uintptr_t from = (uintptr_t)at / FTK_SLOT_BYTES * FTK_SLOT_BYTES;
    size_t n = (size_t)((uintptr_t)at + bytes - from);
    return msync((void *)from, n, MS_SYNC) == 0 ? 0 : errno;
}

extern const struct ftk_place_ops ftk_place_shared, ftk_place_file;
const struct ftk_place_ops ftk_place_shared = { .map = map_file, .unmap = unmap };
const struct ftk_place_ops ftk_place_file = {
    .map = map_file, .unmap = unmap, .persist = sync_file
};
