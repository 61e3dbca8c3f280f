/* Loading sets from media that outlive a process: slots, the second level (level.local), files.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOAD_H
#define FTK_LOAD_H

#include "core/context.h"

/* The result of a search for a set, before it becomes the state of the context. */
struct ftk_loaded {
    uint64_t set; /* the set that was found; 0: none */
    uint64_t run; /* the run that wrote the set */
    int nranks;   /* the number of ranks that wrote the set */
    int *source;  /* [nranks] rank that has each segment, if nranks is not the present number of
                         ranks; else NULL */
    int from;     /* enum ftk_line_from, or the rank whose copy this rank has got */
    bool bare;    /* each rank has its own segment in memory, but there are no copies or parity */
    uint64_t newest;  /* highest number of a set of which any segment or file was found; 0: none */
    uint64_t durable; /* newest set that is known to be whole in the files; 0: none */
};

/* Load the newest set of the level that is whole, or can be made whole from copies and parity, from
 * segments that earlier processes of the job left in slots.  Collective over act. */
int ftk_load_slots(struct ftkit_ctx *ctx, struct ftk_level *level, struct ftk_loaded *l);

/* Load the newest whole set of level.local into level.memory, unless the files have a newer set or
 * a set of another run.  l->set stays 0 if there is none.  Collective over act. */
int ftk_load_level(struct ftkit_ctx *ctx, struct ftk_loaded *l);

/* Find the newest complete set on the file system that every rank can read, and load this rank's
 * segment into memory, unless memory has the segment undamaged.  If another number of ranks wrote
 * the set, each rank gets a share of the segments, for ftk_redistribute().  Collective over act.
 * Errors are the same on all ranks, but for FTKIT_ERR_NOMEM of l->source. */
int ftk_load_files(struct ftkit_ctx *ctx, struct ftk_loaded *l);

/* Return the number and the run of the newest usable set on the file system; *set 0: there is none.
 * A set that is newer than set `than`, or of another run than than_run, is usable if the ranks have
 * read all of it and found it undamaged.  Any other set is not read.  Collective over act; all
 * ranks return an error if one does. */
int ftk_durable_newest(
    struct ftkit_ctx *ctx, uint64_t than, uint64_t than_run, uint64_t *set, uint64_t *run);

#endif
