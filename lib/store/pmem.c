/* Persistent memory by libpmem.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "pmem.h"

#include <errno.h>
#include <libpmem.h>

bool ftk_pmem_is_built(void)
{
    return true;
}

char *ftk_pmem_map(const char *path, size_t bytes, bool *direct)
{
    size_t mapped = 0;
    int is_pmem = 0;
    char *p = pmem_map_file(path, 0, 0, 0, &mapped, &is_pmem);
    if (p && mapped < bytes) {
        (void)pmem_unmap(p, mapped);
        errno = EINVAL;
        return NULL;
    }
    *direct = is_pmem != 0;
    return p;
}

void ftk_pmem_unmap(char *at, size_t bytes)
{
    (void)pmem_unmap(at, bytes); /* nothing is lost by a mapping that stays */
}

void ftk_pmem_flush(const void *at, size_t bytes)
{
    pmem_flush(at, bytes);
}

int ftk_pmem_persist(const void *at, size_t bytes, bool direct)
{
    if (direct) {
        pmem_persist(at, bytes);
        return 0;
    }
    return pmem_msync(at, bytes) == 0 ? 0 : errno;
}
