/* Parity groups at work: encoding and rebuilding over a channel, pipelined by stripes.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * For each stripe one process, the worker of the stripe, gathers k elements, computes the wanted
 * elements and sends each to its process.  All processes take the stripes in the same order, and
 * FTK_CODING_OPEN stripes are open at a time, so that transfer and arithmetic overlap.  Beside the
 * objects, a process needs memory for n blocks per open stripe and one block of zeros.
 *
 * Gathering moves (n - m) + (m - 1) elements per stripe, that is 1 + (m - 1) / (n - m) times the
 * bytes of each member.  The alternative is a ring that passes m sums on.  It would move m times
 * the bytes, read and write each sum at every member, and be no cheaper for m = 1. */
#ifndef FTK_STORE_CODING_H
#define FTK_STORE_CODING_H

#include "core/tags.h"
#include "detect/detect.h"
#include "store/changes.h"
#include "store/parity.h"

enum { FTK_CODING_OPEN = 4 };

/* One member of the group.  *_at: the processes that have the elements of its object and its
 * parity; *_to: the processes that need them.  Both are ranks of the channel's communicator; -1:
 * none.  data, parity: the memory of the elements that this process has or needs. */
struct ftk_coding_member {
    int data_at, parity_at;
    int data_to, parity_to;
    char *data, *parity;
};

/* An update: parities of older objects, the base, become parities of the present objects.  Only
 * changed elements travel, as differences; the result is added to the old parity.  A stripe without
 * changes is skipped. */
struct ftk_coding_delta {
    uint64_t was[FTK_GROUP_MAX], now[FTK_GROUP_MAX]; /* bytes of the members' objects */
    const uint16_t *masks[FTK_GROUP_MAX];            /* changed blocks of the present objects */
    const char *base;                                /* the older object of this process */
};

struct ftk_coding {
    struct ftk_code code;
    struct ftk_coding_member member[FTK_GROUP_MAX];
    int tag;                              /* FTK_TAG_CODING */
    size_t ready;                         /* bytes of this process's data that may be read */
    const struct ftk_coding_delta *delta; /* NULL: whole objects */
    /* progress */
    int me;
    uint64_t next; /* the stripe to open next */
    struct ftk_coding_slot *slots;
    unsigned char *work; /* zeros, then n blocks for each slot */
    struct ftk_solver *solver;
    uint64_t solved; /* the elements that solver reads and makes, as bits; 0: none */
};

/* Allocate the work space.  The caller has set c->code, c->member and c->tag.  me: this process, as
 * a rank of the channel's communicator.  FTKIT_ERR_NOMEM. */
int ftk_coding_begin(struct ftk_coding *c, int me);

/* Make progress, without waiting.  *idle: nothing has moved; *done: every stripe is done.
 * FTKIT_ERR_PEER: the channel is broken. */
int ftk_coding_progress(struct ftk_coding *c, struct ftk_chan *ch, bool *idle, bool *done);
int ftk_coding_run(struct ftk_coding *c, struct ftk_chan *ch); /* to the end */

/* Call after ftk_coding_begin() to update parities that are in place already, instead of encoding
 * whole objects.  Each process is one member, and both codes have the same block. */
void ftk_coding_update(struct ftk_coding *c, const struct ftk_coding_delta *delta);

/* End all requests and free the work space; also after an error, or without ftk_coding_begin(). */
void ftk_coding_end(struct ftk_coding *c, struct ftk_chan *ch);

#endif
