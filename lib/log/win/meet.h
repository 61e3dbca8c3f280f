/* Meetings of the ranks of a window by words of memory that they map (meet.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Functions that return int return MPI codes. */
#ifndef FTK_LOG_WIN_MEET_H
#define FTK_LOG_WIN_MEET_H

#include "log/win/win.h"

/* Whether this rank can meet all others by words: it has mapped the memory of each.  It asks those
 * that it has not asked yet. */
bool ftk_win_meet_is_ready(struct ftk_win *w);
/* All ranks have said in one exchange that they are ready, and each of them knows: the next meeting
 * is by words. */
void ftk_win_meet_agree(struct ftk_win *w);
bool ftk_win_meet_is_agreed(const struct ftk_win *w);
/* Wait until all ranks are in this meeting.  *all_idle: each of them has said that it is idle. */
int ftk_win_meet(struct ftk_win *w, bool idle, bool *all_idle);

#endif
