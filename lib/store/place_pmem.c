/* The place pmem: persistent memory by libpmem; place_pmem_none.c in a build without it.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <libpmem.h>

#include "place_ops.h"

static char *map(int fd, const char *path, size_t bytes, bool *direct)
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
    *direct = is_pmem != 0; /* stores reach the memory without the kernel */
    return p;
}

static void unmap(char *at, size_t bytes)
{
    (void)pmem_unmap(at, bytes); /* if this fails the mapping stays, and no data are lost */
}

static int persist(const void *at, size_t bytes, bool direct)
{
    if (direct) {
        pmem_persist(at, bytes);
        return 0;
    }
    return pmem_msync(at, bytes) == 0 ? 0 : errno;
}

extern const struct ftk_place_ops ftk_place_pmem;
const struct ftk_place_ops ftk_place_pmem = { .map = map, .unmap = unmap, .persist = persist };
