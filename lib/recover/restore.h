/* Bringing the regions of a rank to the line.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_RESTORE_H
#define FTK_RESTORE_H

#include "core/context.h"

struct ftk_mem_seg;

/* After a repair, or in ftkit_recover(): run the callback of the program, then bring the regions of
 * this rank to the line, as ctx->repair.pending says.  After a further failure the function repairs
 * and begins again.  *set: the set that was restored; 0: none.  An error: the context is dead. */
int ftk_restore_line(struct ftkit_ctx *ctx, uint64_t *set);

/* Whether this job can go on from a segment of any rank: a line apart needs the log, and the same
 * number of ranks; several programs need the same program on each rank.  FTKIT_ERR_UNSUPPORTED: it
 * cannot. */
int ftk_check_line(const struct ftkit_ctx *ctx, const struct ftk_mem_seg *s);

#endif
