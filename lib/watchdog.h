/* The watchdog: a thread per process that turns stuck processes of its node into killed
 * ones, because only those are reported by MPI.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_WATCHDOG_H
#define FTK_WATCHDOG_H

#include "ftk.h"

enum ftk_dog_state {
    FTK_DOG_RUN = 1,
    FTK_DOG_BUSY, /* inside an ftkit call that may take long: writing files, callbacks */
    FTK_DOG_REPAIR,
    FTK_DOG_LEFT
};

struct ftk_watchdog;

/* Join the watch of this node, named by job, with timeout_s and stall_s of the
 * configuration.  Local.  *dog is NULL when it is off. */
int ftk_watchdog_open(
    const char *job, double timeout_s, double stall_s, int world_rank, struct ftk_watchdog **dog);
/* What this process is doing; also a sign of progress.  NULL is fine. */
void ftk_watchdog_state(struct ftk_watchdog *dog, enum ftk_dog_state state);
void ftk_watchdog_progress(struct ftk_watchdog *dog);
/* MPI has told of a death: processes of the node that are gone by now are accounted for. */
void ftk_watchdog_told(struct ftk_watchdog *dog);
/* End the job on this node at once; does not return but when there is no watch. */
void ftk_watchdog_end(struct ftk_watchdog *dog, const char *why);
void ftk_watchdog_close(struct ftk_watchdog *dog);

#endif
