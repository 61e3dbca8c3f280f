/* The page of the watchdog: what the processes of a job on one node tell each other, and
 * whether that job lives.  No MPI in here: the ftkit program looks at it, too.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A page is a file of /dev/shm.  Every process that uses it has it locked (flock,
 * shared): the lock ends with the process, also with one that is killed.  A page that can
 * be locked alone belongs to nobody alive, and so do the determinants (log/det.h) of its
 * job. */
#ifndef FTK_WATCH_PAGE_H
#define FTK_WATCH_PAGE_H

#include <stdatomic.h>
#include <sys/types.h>

#include "core/ftk.h"

#define FTK_DOG_PREFIX "ftkit-dog-" /* <job>-<node> */
#define FTK_DET_PREFIX "ftkit-det-" /* <run>-<job>-<rank>-<process>-<0 or 1> */
#define FTK_DOG_SLOTS 1024

struct ftk_dog_slot {
    _Alignas(64) _Atomic int pid; /* 0: free.  Each has cache lines of its own */
    _Atomic int state;            /* enum ftk_dog_state */
    int world_rank;
    _Atomic double beat_s;  /* CLOCK_MONOTONIC is one clock for the node */
    _Atomic double since_s; /* when the state was entered */
    _Atomic double progress_s;
    _Atomic double longest_s;
    _Atomic double told_s;  /* time of the last report of a death by the MPI */
    _Atomic int place;      /* enum ftk_dog_place */
    _Atomic int rank;       /* of the context; -1: a spare */
    _Atomic uint64_t calls; /* of ftkit_checkpoint() */
    _Atomic double at_s;    /* when it came to the place */
};

struct ftk_dog_page {
    _Atomic unsigned magic;
    _Atomic uint64_t said; /* bits of the time when the next line is due, 0: none was said */
    struct ftk_dog_slot slots[FTK_DOG_SLOTS];
};

/* Open or make the page of that name in /dev/shm, and lock it.  *lock is a descriptor
 * that keeps it locked.  0 or an errno. */
int ftk_dog_page_open(const char *name, struct ftk_dog_page **page, int *lock);
/* Unmap it, let the lock go; remove: and the file. */
void ftk_dog_page_close(const char *name, struct ftk_dog_page *page, int lock, bool remove);

/* Remove what jobs of this user without a living process on this node have left in
 * /dev/shm: pages and determinants.  Returns how many files; dry: would be removed. */
int ftk_dog_sweep(bool dry);

/* What a process says of itself; false: it is in no page. */
struct ftk_dog_word {
    int state;       /* enum ftk_dog_state */
    double since_s;  /* in this state */
    double silent_s; /* since its last sign of progress, -1: none yet */
};
bool ftk_dog_ask(pid_t pid, struct ftk_dog_word *word);

#endif
