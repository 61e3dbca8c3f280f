/* When a call that takes less time than a look at messages looks (look.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <stdbool.h>

#include "log/win/look.h"

/* The coarse clock goes on each few milliseconds, and costs a few loads. */
static bool has_time_gone(struct timespec *at)
{
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC_COARSE, &now) != 0)
        return true;
    const bool has = now.tv_nsec != at->tv_nsec || now.tv_sec != at->tv_sec;
    *at = now;
    return has;
}

/* Few calls may take long, with the work of the program between them; and another rank may wait for
 * many quick ones.  So both count.  When many looks at the clock have seen the same time the calls
 * are quick, and few of them look at it. */
enum ftk_win_look ftk_win_look_due(struct ftk_win_looks *l)
{
    enum { EACH = 64, QUICK = 16, EACH_QUICK = 8 };
    l->calls++;
    if (l->same_time == QUICK && l->calls % EACH_QUICK != 0)
        return FTK_WIN_LOOK_NOT;
    if (has_time_gone(&l->at)) {
        l->same_time = 0;
        return FTK_WIN_LOOK_CLOSELY;
    }
    if (l->same_time < QUICK)
        l->same_time++;
    return l->calls % EACH == 0 ? FTK_WIN_LOOK : FTK_WIN_LOOK_NOT;
}
