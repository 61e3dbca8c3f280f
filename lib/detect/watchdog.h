/* The watchdog: a thread per process that kills stuck processes of its node, because MPI reports
 * only processes that have died.
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

/* Where a rank is, for the line that names the places of all ranks. */
enum ftk_dog_place {
    FTK_AT_OPEN,
    FTK_AT_SPARE, /* waits in ftkit_open() */
    FTK_AT_SETUP, /* in the program, before ftkit_recover() */
    FTK_AT_RECOVER,
    FTK_AT_LOOP,       /* in the program */
    FTK_AT_CHECKPOINT, /* in a call that may wait for other ranks */
    FTK_AT_REQUEST,    /* ... for a set that ftkit_request() has asked for */
    FTK_AT_WAIT,
    FTK_AT_SCRUB,
    FTK_AT_FINISH,
    FTK_AT_END, /* in the program, after ftkit_finish() */
    FTK_AT_CLOSE,
    FTK_AT_FINALIZE, /* in MPI_Finalize() with its context open */
    FTK_AT_PLACES
};

/* A rule for programs; all messages about the rule use these words. */
#define FTK_RULE_LEAVE                                                                             \
    "all ranks leave the loop after the same number of calls of ftkit_checkpoint, "                \
    "through ftkit_finish and ftkit_close"

/* Lines that one process of a node writes for all. */
enum ftk_dog_once { FTK_ONCE_STALE, FTK_ONCE_FATAL_HANDLER };

struct ftk_watchdog;

/* Start the watchdog of this process, in the page of the node that job names.  Local. */
struct ftk_config;
int ftk_watchdog_open(
    const char *job, const struct ftk_config *cfg, int world_rank, struct ftk_watchdog **dog);
/* This process, which carries this rank (-1: none), comes to a place.  calls: its calls of
 * ftkit_checkpoint(), including a call that has not returned.  With dog = NULL this function and
 * the next ones do nothing. */
void ftk_watchdog_at(struct ftk_watchdog *dog, enum ftk_dog_place place, int rank, uint64_t calls);
/* This process is back at FTK_AT_LOOP after one more call.  Takes a few nanoseconds. */
void ftk_watchdog_calls(struct ftk_watchdog *dog, uint64_t calls);
/* With replicas: the ranks of a plane.  Only then are replicas compared that wait. */
void ftk_watchdog_planes(struct ftk_watchdog *dog, int size);
/* With replicas: this set is committed.  Replicas that never meet can go back from then on. */
void ftk_watchdog_line(struct ftk_watchdog *dog, uint64_t set);
/* Whether replicas of some rank wait at different places for so long that they never meet: one of
 * them has taken another course.  True at most once for each time that this is found; dog may be
 * NULL. */
bool ftk_watchdog_parts(struct ftk_watchdog *dog);
/* With the message log: this rank has waited in a call of MPI since then.  True: all ranks of the
 * node have been waiting for recover.stall_say, and this rank is to say what it waits for. */
bool ftk_watchdog_waits(struct ftk_watchdog *dog, double since, double now);
/* Whether this process is the first one of its node that asks; without a watchdog: true. */
bool ftk_watchdog_first(struct ftk_watchdog *dog, enum ftk_dog_once line);
/* This process enters a state. */
void ftk_watchdog_state(struct ftk_watchdog *dog, enum ftk_dog_state state);
/* This process has called ftkit, which is a sign of progress. */
void ftk_watchdog_progress(struct ftk_watchdog *dog);
/* The MPI has reported a failure. */
void ftk_watchdog_reported(struct ftk_watchdog *dog);
/* This process has memory of a device. */
void ftk_watchdog_device(struct ftk_watchdog *dog);
/* Wait until processes of the job on this node that had memory of a device, and are ending, have
 * given it back.  After five seconds a line says so, and after `seconds` the wait ends with a
 * line. */
void ftk_watchdog_await_devices(struct ftk_watchdog *dog, double seconds);
/* Whether n processes of the job, which are all that it has, are on this node.  dog NULL: true. */
bool ftk_watchdog_alone(const struct ftk_watchdog *dog, int n);
/* A repair has ended well: all processes know of all that have died before. */
void ftk_watchdog_repaired(struct ftk_watchdog *dog);
/* A repair without a set has ended, and this process waits for the replacements in its first
 * ftkit_checkpoint().  They run their set-up again.  If they take much longer than this process
 * did, they wait for messages that no process sends: the job is ended. */
void ftk_watchdog_await(struct ftk_watchdog *dog);
/* This process is in ftkit_close() because an exception unwinds.  If the other ranks do not
 * follow, this process ends as a lost one. */
void ftk_watchdog_unwind(struct ftk_watchdog *dog);
/* End the job on this node at once.  Returns only when dog is NULL. */
void ftk_watchdog_end(struct ftk_watchdog *dog, const char *why);
void ftk_watchdog_close(struct ftk_watchdog *dog);

#endif
