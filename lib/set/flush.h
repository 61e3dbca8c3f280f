/* Flushing sets to the file system in the background: what the ranks agree on.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A flush begins after the commit of its set.  In one small collective the ranks agree which
 * rank writes which segment, and exchange the checksums of the heads.  Each rank then holds its
 * segment and gives it to its helper thread (flusher.h).  From there on the threads need no call of
 * the ranks.  Later votes, which are taken anyway, carry the outcome: whether a thread still
 * writes, the most severe error, the newest complete set. */
#ifndef FTK_FLUSH_H
#define FTK_FLUSH_H

#include "core/ftk.h"

struct ftkit_ctx;
struct ftk_chan;
struct ftk_vote;

struct ftk_flush {
    struct ftk_flusher *thread; /* NULL until the first flush */
    struct ftk_ring *ring;      /* of the epoch ring_epoch, NULL: none */
    bool ring_known;            /* in this epoch the members of the ring are agreed */
    int ring_epoch;
    int writer_of_own;        /* rank that writes this rank's segment, in that epoch */
    struct ftk_mem_seg *held; /* the segment that the thread reads */
    uint64_t set;             /* given to the thread and not yet taken back, 0: none */
    uint64_t last;            /* newest set given to the thread */
    int epoch;                /* epoch in which set last was given */
    int *writer;              /* [nranks] tables of the thread's job; writer -1: none */
    int *member;
    uint64_t *heads;
    int error;                 /* of this rank's thread; the other ranks do not know it yet */
    int agreed;                /* error that all ranks know; not returned to the program yet */
    int last_error;            /* error of the newest flush that has ended here */
    double last_s;             /* its duration */
    bool off;                  /* some rank has no thread: all ranks write synchronously */
    bool reported;             /* that the file system does not answer */
    struct ftk_behind *behind; /* files that are not of a set; NULL until the first errand */
    char why[FTK_DETAIL_MAX];  /* text of error and agreed */
};

/* Take over from a survivor how many seconds its newest flush has taken; 0: not measured. */
void ftk_flush_take_cost(struct ftkit_ctx *ctx, double s);

/* Put this rank's words into a vote; read the result of the vote.  ftk_flush_agreed() returns
 * whether the thread of any rank still writes; the answer is the same on every rank. */
void ftk_flush_ask(struct ftkit_ctx *ctx, struct ftk_vote *v);
bool ftk_flush_agreed(struct ftkit_ctx *ctx, const struct ftk_vote *v);

/* How a set that is due on the file system is written, the same on every rank.  due: 0: no; 1: yes;
 * 2: the program has asked for it.  busy: of ftk_flush_agreed(). */
enum ftk_flush_how {
    FTK_FLUSH_NOT,   /* not: it is not due, or an earlier set still is being written */
    FTK_FLUSH_NOW,   /* in the background */
    FTK_FLUSH_AFTER, /* in the background, when no thread writes any more */
    FTK_FLUSH_WAIT   /* the program waits: some rank has no thread */
};
enum ftk_flush_how ftk_flush_how(const struct ftkit_ctx *ctx, uint64_t set, int due, bool busy);

/* The set in memory is due on the file system.  Begin to write it in the background; or write it
 * now, if there is no thread; or skip it, if an earlier set is still being written (busy) and the
 * program has not asked for this one.  due: 0: only return an agreed error, 1: due, 2: the program
 * has asked for it.  Collective; the code is agreed. */
int ftk_flush_set(struct ftk_chan *ch, uint64_t set, int due, bool busy);

/* The call in which a rank drains.  INSIDE: another collective call of ftkit; CLOSE_ANYWAY: in
 * ftkit_close(), after a mismatch. */
enum ftk_drain {
    FTK_DRAIN_INSIDE,
    FTK_DRAIN_WAIT,
    FTK_DRAIN_FINISH,
    FTK_DRAIN_CLOSE,
    FTK_DRAIN_CLOSE_ANYWAY,
    /* no drains, but the look of a policy, and a scrub, whose votes have these words, too */
    FTK_DRAIN_LOOK,
    FTK_DRAIN_SCRUB,
    FTK_DRAINS
};

/* Put the call in which this rank is, and its number, into a vote: words 2 to 5.
 * ftk_flush_mismatch(): report that the calls differ, and return FTKIT_ERR_MISMATCH. */
void ftk_flush_ask_calls(const struct ftkit_ctx *ctx, enum ftk_drain call, struct ftk_vote *v);
int ftk_flush_mismatch(const struct ftkit_ctx *ctx, const struct ftk_vote *v);

/* Vote until no thread writes.  Collective.  FTKIT_ERR_PEER, or FTKIT_OK; errors of files wait for
 * ftk_flush_return().  FTKIT_ERR_MISMATCH on all ranks, reported once: the program's ranks are in
 * different calls, or have called ftkit_checkpoint() a different number of times. */
int ftk_flush_drain(struct ftkit_ctx *ctx, struct ftk_chan *ch, enum ftk_drain call);

/* Return the agreed error of an earlier flush, once; FTKIT_OK: there is none. */
int ftk_flush_return(struct ftkit_ctx *ctx);

/* Note the result of the thread, if it is done.  Local. */
void ftk_flush_poll(struct ftkit_ctx *ctx);

/* Return the newest set that is complete on the file system, as far as this rank can see.  Waits
 * for the file system for a moment at most. */
uint64_t ftk_flush_durable(struct ftkit_ctx *ctx);

/* Report, once, that the file system does not answer, and that it answers again.  Local. */
void ftk_flush_look(struct ftkit_ctx *ctx);

/* A repair has ended the epoch: members of the ring offer no more segments. */
void ftk_flush_new_epoch(struct ftkit_ctx *ctx);

/* Give up the set that is being written, and end the threads.  false: a thread waits for a file
 * system that does not answer, and still needs the context. */
bool ftk_flush_close(struct ftkit_ctx *ctx);

#endif
