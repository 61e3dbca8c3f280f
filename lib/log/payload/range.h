/* Memory that the program does not change until the next set (payload/range.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_RANGE_H
#define FTK_LOG_RANGE_H

#include <mpi.h>
#include <stddef.h>

struct ftk_entry;
struct ftk_range;

/* ftkit_share(), ftkit_unshare().  Codes of ftkit. */
int ftk_range_share(const void *buf, size_t bytes);
int ftk_range_unshare(const void *buf);

extern size_t ftk_nranges; /* that are shared */

/* The range that has all bytes of a message of a type without gaps; NULL: none. */
struct ftk_range *ftk_range_find(const void *buf, MPI_Datatype type, size_t bytes);
static inline struct ftk_range *ftk_range_of(const void *buf, MPI_Datatype type, size_t bytes)
{
    return ftk_nranges > 0 ? ftk_range_find(buf, type, bytes) : NULL;
}
/* The entry, which is away, gets its bytes from there. */
void ftk_range_refer(struct ftk_range *r, struct ftk_entry *e, int dest, const void *buf);

#endif
