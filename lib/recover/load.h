/* Loading sets from where they outlive a process: the second level and files.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOAD_H
#define FTK_LOAD_H

#include "core/context.h"

/* Bring the newest whole set of level.local into memory, if there is one that is not older
 * than the files; *set 0: there is none.  Collective. */
int ftk_local_load(struct ftkit_ctx *ctx, uint64_t *set);

/* Find the newest complete set on the file system that every rank can read, and load
 * this rank's segment into memory unless it is there already and holds.
 * Collective; agreed.  *set is 0 when there is none.  *from is the number of ranks of the
 * set; when it is another than now, each rank gets a share of the segments, as
 * ctx->repair.line_source says, for ftk_redistribute(). */
int ftk_durable_load(struct ftkit_ctx *ctx, uint64_t *set, int *from);

/* Number and run of the newest set on the file system that is newer than set `than`, or of
 * another run than than_run, and all of which the ranks have read and found good; else of
 * the newest of those that are older or the same; 0: there is none.  Collective; agreed. */
int ftk_durable_newest(
    struct ftkit_ctx *ctx, uint64_t than, uint64_t than_run, uint64_t *set, uint64_t *run);

#endif
