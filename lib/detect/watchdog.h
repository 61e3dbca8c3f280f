/* The watchdog: a thread per process that turns stuck processes of its node into killed
 * ones, because only those are reported by MPI.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_WATCHDOG_H
#define FTK_WATCHDOG_H

#include "core/ftk.h"

enum ftk_dog_state {
    FTK_DOG_RUN = 1,
    FTK_DOG_BUSY, /* inside an ftkit call that may take long: writing files, callbacks */
    FTK_DOG_REPAIR,
    FTK_DOG_LEFT
};

/* Where a rank is, for the line that says who waits for whom. */
enum ftk_dog_place {
    FTK_AT_OPEN,
    FTK_AT_SPARE, /* waits in ftkit_open() */
    FTK_AT_SETUP, /* in the program, before ftkit_recover() */
    FTK_AT_RECOVER,
    FTK_AT_LOOP,       /* in the program */
    FTK_AT_CHECKPOINT, /* in a call that may wait for other ranks */
    FTK_AT_WAIT,
    FTK_AT_SCRUB,
    FTK_AT_FINISH,
    FTK_AT_END, /* in the program, after ftkit_finish() */
    FTK_AT_CLOSE,
    FTK_AT_FINALIZE, /* in MPI_Finalize() with its context open */
    FTK_AT_PLACES
};

/* A rule of the program, in the words of all messages that name it. */
#define FTK_RULE_LEAVE                                                                             \
    "all ranks leave the loop after the same number of calls of ftkit_checkpoint, "                \
    "through ftkit_finish and ftkit_close"

struct ftk_watchdog;

/* Join the watch of this node, named by job.  Local.  *dog is NULL when it is off. */
struct ftk_config;
int ftk_watchdog_open(
    const char *job, const struct ftk_config *cfg, int world_rank, struct ftk_watchdog **dog);
/* This process is rank and comes to a place, after so many calls of ftkit_checkpoint() (with
 * the one it is in).  NULL is fine. */
void ftk_watchdog_at(struct ftk_watchdog *dog, enum ftk_dog_place place, int rank, uint64_t calls);
/* FTK_AT_LOOP again, one call later: a few nanoseconds. */
void ftk_watchdog_calls(struct ftk_watchdog *dog, uint64_t calls);
/* What this process is doing; also a sign of progress.  NULL is fine. */
void ftk_watchdog_state(struct ftk_watchdog *dog, enum ftk_dog_state state);
void ftk_watchdog_progress(struct ftk_watchdog *dog);
/* The MPI has reported a death: dead processes of the node are known to the MPI. */
void ftk_watchdog_told(struct ftk_watchdog *dog);
/* End the job on this node at once; does not return but when there is no watch. */
void ftk_watchdog_end(struct ftk_watchdog *dog, const char *why);
void ftk_watchdog_close(struct ftk_watchdog *dog);

#endif
