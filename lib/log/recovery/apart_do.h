/* checkpoint.line = apart: what carries the actions of apart_step.c out, and gives it the events.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Functions return codes of ftkit, unless their comment says otherwise. */
#ifndef FTK_LOG_APART_DO_H
#define FTK_LOG_APART_DO_H

#include "core/log_ops.h"
#include "detect/tally.h"
#include "log/recovery/recovery.h"
#include "set/cut.h"
#include "set/flush_start.h"
#include "apart_step.h"

/* Words of the votes. */
enum {
    FTK_WORD_ERROR = 0,
    FTK_WORD_DURABLE = 1,
    FTK_WORD_LOCAL = 2,
    FTK_WORD_WANT = 3,
    FTK_WORD_LOCAL_ERROR = 4
};

#define FTK_APART_GIVE_UP 10 /* times checkpoint.patience */
#define FTK_APART_REST_S 1.0 /* after a set was given up, until the next one */

/* What this rank has under way.  rank is changed by ftk_apart_step() only. */
extern struct ftk_apart_work {
    struct ftk_apart_rank rank;
    struct ftk_tally *tally; /* of this epoch; NULL: not opened yet */
    struct ftk_vote heard;   /* the result of the last round */
    double since_s;          /* the set is initiated */
    bool warned;             /* that this rank has not cut */
    double again_s;          /* rank 0: a set was given up; no other is initiated sooner */
    struct ftk_cut *cut;
    uint64_t calls;                    /* of ftkit_checkpoint(), at the cut */
    int noted;                         /* the error of this rank whose text is own_why */
    char own_why[FTK_DETAIL_MAX - 96]; /* room for a beginning */
    bool flushing;                     /* at the commit: a thread of some rank writes */
    struct ftk_chan beside;            /* of the start of a flush */
    struct ftk_flush_start *start;
    double start_s; /* how long the start has held the program so far */
    int result;     /* of a set that was given up: for the next ftkit_checkpoint() */
    char why[FTK_DETAIL_MAX];
} ftk_apart;

/* An event has come: take the step, and carry its actions out.  Returns the first error. */
int ftk_apart_happens(struct ftk_apart_event e);
/* ... an error of this rank, a word of the next round.  FTKIT_OK is none. */
void ftk_apart_fails(int code);
/* Keep the text of an error of this rank: other calls write other texts before it is reported. */
void ftk_apart_note_error(void);
/* The number of a round of a set in the tallies. */
uint64_t ftk_apart_number(uint64_t set, enum ftk_apart_round round);

#endif
