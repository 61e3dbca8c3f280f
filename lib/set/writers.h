/* Which ranks write sets to the file system, and whose segments.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The ranks of a failure domain form level.hdf5.writers groups of about equal size, in the order of
 * ranks.  The lowest rank of a group writes the segments of the group into one part.  With replicas
 * only the ranks of plane 0 are in groups. */
#ifndef FTK_WRITERS_H
#define FTK_WRITERS_H

#include <stdint.h>

#include "core/config.h"

struct ftkit_ctx;

/* Who writes: the ranks themselves, while the program waits, or their helper threads. */
enum ftk_writes { FTK_WRITES_NOW, FTK_WRITES_BEHIND };

/* Where several ranks write by an automatic number, each has at least so many bytes to write, if
 * the ranks have equal segments: a smaller file costs more than its writer saves. */
#define FTK_WRITERS_LEAST ((uint64_t)1 << 20)

/* The number of groups of n ranks of a domain.  bytes: of the largest segment of all ranks, the
 * same number on all ranks; only used while the program waits. */
int ftk_writers_groups(const struct ftk_config *cfg, enum ftk_writes when, int n, uint64_t bytes);

/* The place of a rank among the groups. */
struct ftk_writers_place {
    int writer; /* of its group; -1: the segment is not written */
    int member; /* number of the rank in its group, from 0 */
    int nranks; /* of its group */
};
/* Takes time for each rank of the job. */
struct ftk_writers_place ftk_writers_place(
    const struct ftkit_ctx *ctx, int rank, enum ftk_writes when, uint64_t bytes);

/* Fill in the writer of each rank, and its number in its group.  writer, member: [nranks], NULL:
 * not wanted. */
void ftk_writers_list(
    const struct ftkit_ctx *ctx, enum ftk_writes when, uint64_t bytes, int *writer, int *member);

#endif
