/* Persistent memory: pmem.c by libpmem, pmem_none.c in a build without it.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_STORE_PMEM_H
#define FTK_STORE_PMEM_H

#include <stdbool.h>
#include <stddef.h>

/* Whether this build has libpmem.  Without it nothing can be mapped. */
bool ftk_pmem_is_built(void);

/* Map a file of at least bytes bytes; NULL with errno.  *direct: stores reach the memory
 * without the kernel. */
char *ftk_pmem_map(const char *path, size_t bytes, bool *direct);
void ftk_pmem_unmap(char *at, size_t bytes);

/* Write back what is in the cache, soon. */
void ftk_pmem_flush(const void *at, size_t bytes);
/* Make it hold; 0, or an errno. */
int ftk_pmem_persist(const void *at, size_t bytes, bool direct);

#endif
