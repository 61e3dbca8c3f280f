/* Which rank does which unit of a call of ftkit_run_units(): a pure part, without messages.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The rank of the call does units from the first one on, and gives units to helpers from the last
 * one on.  When all units are given, the rank may do those that have not come back, too: the first
 * result of a unit wins.  After a unit has failed, only those before it count.
 *
 *     OPEN --give--> GIVEN --returned, or done here--> DONE
 *      |  <--take---  |
 *      +------------- done here ---------------------> DONE */
#ifndef FTK_LOG_HAND_H
#define FTK_LOG_HAND_H

#include <stdbool.h>
#include <stddef.h>

enum ftk_hand_state { FTK_HAND_OPEN, FTK_HAND_GIVEN, FTK_HAND_DONE };

struct ftk_hand {
    size_t n;
    unsigned char *state; /* [n] */
    size_t low;           /* all units before are done */
    size_t high;          /* no unit from here on is open */
    size_t open, given;   /* units in these states */
};

enum { FTK_HAND_NONE = -1 };

/* False: no memory. */
bool ftk_hand_begin(struct ftk_hand *h, size_t n);
void ftk_hand_end(struct ftk_hand *h);
/* The unit to be done here next: the first open one, or else the first one that is given.
 * FTK_HAND_NONE: all are done. */
ptrdiff_t ftk_hand_next(struct ftk_hand *h);
/* The last open unit, which is given to a helper now.  FTK_HAND_NONE: at most one unit is open,
 * and that one is done here. */
ptrdiff_t ftk_hand_give(struct ftk_hand *h);
/* A helper does not do unit i, which may be done already. */
void ftk_hand_take(struct ftk_hand *h, size_t i);
/* Unit i has a result.  False: it had one before. */
bool ftk_hand_done(struct ftk_hand *h, size_t i);
/* Unit i has failed: neither it nor those behind it count from now on. */
void ftk_hand_cut(struct ftk_hand *h, size_t i);

#endif
