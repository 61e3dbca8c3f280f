/* Flushing sets to the file system in the background: what the ranks agree on.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A flush begins in the call that commits its set: the ranks tell each other in one small
 * collective who writes and what the heads of their segments are, hold their segments and
 * give them to their helper threads (flusher.h).  From there on nobody is needed but the
 * threads.  What has become of it travels in the votes that are taken anyway: whether
 * anybody still writes, the most severe error, the newest complete set. */
#ifndef FTK_FLUSH_H
#define FTK_FLUSH_H

#include "core/ftk.h"

struct ftkit_ctx;
struct ftk_chan;
struct ftk_vote;

struct ftk_flush {
    struct ftk_flusher *thread; /* NULL until the first flush */
    struct ftk_ring *ring;      /* of the epoch ring_epoch, NULL: none */
    bool ring_known;            /* for this epoch it is settled who shares with whom */
    int ring_epoch;
    int writer_of_own;        /* rank that writes our segment, in that epoch */
    struct ftk_mem_seg *held; /* what the thread reads */
    uint64_t set;             /* given to the thread and not yet taken back, 0: none */
    uint64_t last;            /* newest set given to it */
    int epoch;                /* when that was */
    int *writer;              /* [nranks] tables of the job */
    int *member;
    uint64_t *heads;
    int error;                /* of our thread, not told to the others yet */
    int told;                 /* agreed, not returned to the program yet */
    int last_error;           /* of the newest flush that has ended here */
    double last_s;            /* its duration */
    bool off;                 /* some rank cannot: write synchronously */
    char why[FTK_DETAIL_MAX]; /* of error and told */
};

/* This rank's words in a vote, and what all of them say.  True while anybody writes; the
 * same on every rank. */
void ftk_flush_ask(struct ftkit_ctx *ctx, struct ftk_vote *v);
bool ftk_flush_agreed(struct ftkit_ctx *ctx, const struct ftk_vote *v);

/* The set in memory is due on the file system: begin to write it in the background, or
 * write it now where that is not possible, or leave it to a later set when an earlier one
 * is still being written (busy) and the program has not asked for this one.  due: 0 only
 * return what was told before, 1 due, 2 asked for.  Collective; the code is agreed. */
int ftk_flush_set(struct ftkit_ctx *ctx, uint64_t set, int due, bool busy);

/* The call in which a rank drains.  INSIDE: another collective call of ftkit; CLOSE_ANYWAY: in
 * ftkit_close(), after a mismatch. */
enum ftk_drain {
    FTK_DRAIN_INSIDE,
    FTK_DRAIN_WAIT,
    FTK_DRAIN_FINISH,
    FTK_DRAIN_CLOSE,
    FTK_DRAIN_CLOSE_ANYWAY,
    FTK_DRAINS
};

/* Vote until nobody writes.  Collective.  FTKIT_ERR_PEER, or FTKIT_OK; errors of files wait
 * for ftk_flush_return().  FTKIT_ERR_MISMATCH on all ranks, once reported: the program's ranks are
 * in different calls, or have called ftkit_checkpoint() a different number of times. */
int ftk_flush_drain(struct ftkit_ctx *ctx, struct ftk_chan *ch, enum ftk_drain call);

/* The agreed error of an earlier flush, once; FTKIT_OK when there is none. */
int ftk_flush_return(struct ftkit_ctx *ctx);

/* Take note of what the thread has finished.  Local. */
void ftk_flush_poll(struct ftkit_ctx *ctx);

/* Newest set that is complete on the file system, as far as this rank can see. */
uint64_t ftk_flush_durable(struct ftkit_ctx *ctx);

/* A repair has ended the epoch: members of the ring offer nothing more in it. */
void ftk_flush_new_epoch(struct ftkit_ctx *ctx);

/* Give up what is being written, end the thread. */
void ftk_flush_close(struct ftkit_ctx *ctx);

#endif
