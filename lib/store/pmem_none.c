/* A build without libpmem: ftkit_open() refuses the place before anything is mapped.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "pmem.h"

#include <errno.h>

bool ftk_pmem_is_built(void)
{
    return false;
}

char *ftk_pmem_map(const char *path, size_t bytes, bool *direct)
{
    (void)path;
    (void)bytes;
    *direct = false;
    errno = ENOTSUP;
    return NULL;
}

void ftk_pmem_unmap(char *at, size_t bytes)
{
    (void)at;
    (void)bytes;
}

void ftk_pmem_flush(const void *at, size_t bytes)
{
    (void)at;
    (void)bytes;
}

int ftk_pmem_persist(const void *at, size_t bytes, bool direct)
{
    (void)at;
    (void)bytes;
    (void)direct;
    return ENOTSUP;
}
