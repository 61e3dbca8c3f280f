/* Parity groups at work: encoding and rebuilding over a channel, pipelined by stripes.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * For each stripe one process, its worker, gathers k elements, computes the wanted ones and sends
 * them to their processes.  All processes take the stripes in the same order, with FTK_CODING_OPEN
 * of them open at a time, so that transfer and arithmetic overlap.  Beside the objects this needs
 * FTK_CODING_OPEN rows of blocks.
 *
 * Gathering moves (n - m) + (m - 1) elements per stripe, that is 1 + (m - 1) / (n - m) times each
 * member's bytes.  A ring that carries m sums on would move m times the bytes, read and write each
 * sum again at every member, and is no cheaper for m = 1. */
#ifndef FTK_STORE_CODING_H
#define FTK_STORE_CODING_H

#include "core/tags.h"
#include "detect/detect.h"
#include "store/changes.h"
#include "store/parity.h"

enum { FTK_CODING_OPEN = 4 };

/* The processes that have the elements of one member, and those that need them: ranks of the
 * channel's communicator, -1: none; and the memory of the elements that this process has. */
struct ftk_coding_member {
    int data_at, parity_at;
    int data_to, parity_to;
    char *data, *parity;
};

/* An update of the parities of older objects, the base, to the parities of the present objects:
 * only changed elements travel, as differences, and the result is added.  A stripe without changes
 * is skipped. */
struct ftk_coding_delta {
    uint64_t was[FTK_GROUP_MAX], now[FTK_GROUP_MAX]; /* bytes of the members' objects */
    const uint16_t *masks[FTK_GROUP_MAX];            /* changed blocks of those of now */
    const char *base;                                /* the older object of this process */
};

struct ftk_coding {
    struct ftk_code code;
    struct ftk_coding_member member[FTK_GROUP_MAX];
    int tag;                              /* FTK_TAG_CODING */
    size_t ready;                         /* bytes of the data here that may be read yet */
    const struct ftk_coding_delta *delta; /* NULL: whole objects */
    /* progress */
    int me;
    uint64_t next; /* stripe */
    struct ftk_coding_slot *slots;
    unsigned char *work; /* zeros, then n blocks for each slot */
    struct ftk_solver *solver;
    uint64_t solved; /* the pattern of losses that solver is for; 0: none */
};

/* Allocate for c->code and the members that are set; FTKIT_ERR_NOMEM. */
int ftk_coding_begin(struct ftk_coding *c, int me);

/* Progress.  *done: every stripe is done; FTKIT_ERR_PEER: the channel is broken. */
int ftk_coding_progress(struct ftk_coding *c, struct ftk_chan *ch, bool *idle, bool *done);
int ftk_coding_run(struct ftk_coding *c, struct ftk_chan *ch); /* to the end */

/* After ftk_coding_begin() for whole objects: update instead, from parities that are in
 * place already.  Each process is one member, and the blocks of both codes are the same. */
void ftk_coding_update(struct ftk_coding *c, const struct ftk_coding_delta *delta);

/* End and free; also after an error, or without ftk_coding_begin(). */
void ftk_coding_end(struct ftk_coding *c, struct ftk_chan *ch);

#endif
