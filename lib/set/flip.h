/* Fault injection: `ftkit run --flip` asks a rank to flip one bit of its segment in memory, or of a
 * region of the program.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The request and the answer are in a mapped file beside the state file of the run
 * (FTKIT_RUN_STATE names its directory).  Only `ftkit run --flip` makes the file; without the file
 * a look costs one test.  The rank itself flips the bit, because only the rank can write to its
 * process memory. */
#ifndef FTK_FLIP_H
#define FTK_FLIP_H

#include <stdatomic.h>

#include "core/ftk.h"

#define FTK_FLIP_FILE "flip"

struct ftk_flip {
    _Atomic uint64_t asked;  /* number of the last request, 0: none; written last */
    _Atomic uint64_t done;   /* number of the last request that was fulfilled; written last */
    _Atomic int rank;        /* that the request is for */
    _Atomic uint64_t random; /* chooses the bit */
    char region[64];         /* of the program; "": a bit of the segment; written before asked */
    _Atomic uint64_t set;    /* the answer: the bit of this byte of the segment of this set, or of
                                the region; 0: there is no such region, or it has no memory */
    _Atomic uint64_t byte;
    _Atomic int bit;
    _Atomic int pid;
};

struct ftkit_ctx;
/* This rank is in ftkit_checkpoint(), and looks for events there: fulfil a request for this rank,
 * if a set is committed.  Otherwise the request waits. */
void ftk_flip_look(struct ftkit_ctx *ctx);

#endif
