/* Parity groups at work: encoding and rebuilding over a channel, pipelined by stripes.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * For each stripe one process, its worker, gathers k elements, computes those that are
 * wanted and sends them where they belong.  All processes go through the stripes in the
 * same order with some of them open at a time, so that transfer and arithmetic overlap;
 * memory beside the objects is FTK_CODING_OPEN rows of blocks.
 *
 * Gathering moves (n - m) + (m - 1) elements per stripe, that is 1 + (m - 1) / (n - m)
 * times each member's bytes.  A ring that carries m sums on would move m times the
 * bytes, read and write each sum again at every member, and is no cheaper for m = 1. */
#ifndef FTK_STORE_CODING_H
#define FTK_STORE_CODING_H

#include "detect/detect.h"
#include "store/changes.h"
#include "store/parity.h"

enum { FTK_CODING_OPEN = 4 };

/* Where the elements of one member are, and where they have to come: processes of the
 * channel's communicator, -1 for nobody; and for what is here, the memory. */
struct ftk_coding_member {
    int data_at, parity_at;
    int data_to, parity_to;
    char *data, *parity;
};

/* Updating parities that are those of older objects, the base, to those of the present:
 * only elements that have changed travel, as differences, and what is computed of them is
 * added.  A stripe in which nothing has changed is left alone. */
struct ftk_coding_delta {
    uint64_t was[FTK_GROUP_MAX], now[FTK_GROUP_MAX]; /* bytes of the members' objects */
    const uint16_t *masks[FTK_GROUP_MAX];            /* changed blocks of those of now */
    const char *base;                                /* the older object of this process */
};

struct ftk_coding {
    struct ftk_code code;
    struct ftk_coding_member member[FTK_GROUP_MAX];
    int tag;                              /* the first of FTK_CODING_TAGS */
    size_t ready;                         /* bytes of the data here that may be read yet */
    const struct ftk_coding_delta *delta; /* NULL: whole objects */
    /* progress */
    int me;
    uint64_t next; /* stripe */
    struct ftk_coding_slot *slots;
    unsigned char *work; /* zeros, then n blocks for each slot */
    struct ftk_solver *solver;
    uint64_t solved; /* what the solver is for, 0 nothing */
};
#define FTK_CODING_TAGS (1 << 24)

/* Allocate for c->code and the members that are set; FTKIT_ERR_NOMEM. */
int ftk_coding_begin(struct ftk_coding *c, int me);

/* Do what can be done.  *done: every stripe is; FTKIT_ERR_PEER: the channel broke. */
int ftk_coding_progress(struct ftk_coding *c, struct ftk_chan *ch, bool *idle, bool *done);
int ftk_coding_run(struct ftk_coding *c, struct ftk_chan *ch); /* to the end */

/* After ftk_coding_begin() for whole objects: update instead, from parities that are in
 * place already.  Each process is one member, and the blocks of both codes are the same. */
void ftk_coding_update(struct ftk_coding *c, const struct ftk_coding_delta *delta);

/* Wind up: also after an error, and when nothing was begun. */
void ftk_coding_end(struct ftk_coding *c, struct ftk_chan *ch);

#endif
