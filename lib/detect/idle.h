/* Cores of a node that ranks leave free while they wait for a replay.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Only in an epoch in which other ranks replay (nap.h) a waiting rank marks itself in the page of
 * the watchdog: with the time of each look of its wait.  No call ends a mark when the wait is over,
 * because waits end in many places, also of ranks that wait for nothing else.  So a mark holds for
 * a short time.  That also ends the mark of a rank that was killed or stopped in its wait. */
#ifndef FTK_IDLE_H
#define FTK_IDLE_H

#include <stdbool.h>

struct ftk_watchdog;

/* This rank has been waiting for a replay, and still waits at now; 0: it does not.  dog NULL: do
 * nothing. */
void ftk_idle_mark(struct ftk_watchdog *dog, double now);
/* For a rank that replays: the cores that processes of this job may use on this node, multiplied by
 * the ranks of this node that wait now, and divided by all of its ranks; rounded down.  dog NULL:
 * 0. */
int ftk_idle_cores(struct ftk_watchdog *dog, double now);

#endif
