/* Loading sets from where they outlive a process: the second level and files.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOAD_H
#define FTK_LOAD_H

#include "core/context.h"

/* The result of a search for a set, before it becomes the state of the context. */
struct ftk_loaded {
    uint64_t set;    /* its segments are in memory; 0: no set was found */
    uint64_t run;    /* that wrote the set */
    int nranks;      /* that wrote the set */
    int *source;     /* [nranks] rank that has each segment, when nranks is another number than now;
                         else NULL */
    bool bare;       /* memory has the own segment of each rank, but no copies or parity */
    uint64_t newest; /* highest number of a set of which anything was found; 0: none */
    uint64_t durable; /* newest set that is known to be complete in the files; 0: none */
};

/* Make the newest set of the level whole that can be, from segments that earlier processes of the
 * job left in places that outlive them.  Collective over act. */
int ftk_load_slots(struct ftkit_ctx *ctx, struct ftk_level *level, struct ftk_loaded *l);

/* Bring the newest whole set of level.local into memory, if there is a set that is not older than
 * the files.  Collective. */
int ftk_load_level(struct ftkit_ctx *ctx, struct ftk_loaded *l);

/* Find the newest complete set on the file system that every rank can read, and load the segment of
 * this rank into memory, unless a sound one is there.  If another number of ranks wrote the set,
 * each rank gets a share of the segments, for ftk_redistribute().  Collective; agreed. */
int ftk_load_files(struct ftkit_ctx *ctx, struct ftk_loaded *l);

/* Number and run of the newest set on the file system that is newer than set `than`, or of
 * another run than than_run, and all of which the ranks have read and found good; else of
 * the newest of those that are older or the same; 0: there is none.  Collective; agreed. */
int ftk_durable_newest(
    struct ftkit_ctx *ctx, uint64_t than, uint64_t than_run, uint64_t *set, uint64_t *run);

#endif
