/* Memory of MPI_Alloc_mem that other ranks of the node can map (alloc.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_WIN_ALLOC_H
#define FTK_LOG_WIN_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory in a file, at an address; 0: at any.  False: it cannot be. */
bool ftk_win_block_make(size_t bytes, uintptr_t at, void **base);
/* Free such memory.  False: it is none. */
bool ftk_win_block_free(void *base);

/* Where bytes of this process are, for another process of the node. */
struct ftk_win_spot {
    uint64_t address, token; /* of the file (share_file.h); 0: the bytes are in none */
    uint64_t file_bytes;     /* of the whole file */
    uint64_t at;             /* offset of the bytes in it */
};
/* The spot of [base, base + bytes), all of which one call of MPI_Alloc_mem has given.  False: there
 * is none. */
bool ftk_win_spot_of(const void *base, size_t bytes, struct ftk_win_spot *spot);

#endif
