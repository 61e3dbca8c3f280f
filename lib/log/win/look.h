/* When a call that takes less time than a look at messages looks.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_WIN_LOOK_H
#define FTK_LOG_WIN_LOOK_H

#include <time.h>

/* The calls of one window.  All 0 in the beginning. */
struct ftk_win_looks {
    unsigned calls;
    unsigned same_time; /* looks at the clock since the last one that has seen another time */
    struct timespec at; /* the time of that one */
};

/* Whether the call should look at messages, as a call that is repeated has to do sometimes.
 * Closely: also at failures. */
enum ftk_win_look { FTK_WIN_LOOK_NOT, FTK_WIN_LOOK, FTK_WIN_LOOK_CLOSELY };
enum ftk_win_look ftk_win_look_due(struct ftk_win_looks *l);

#endif
