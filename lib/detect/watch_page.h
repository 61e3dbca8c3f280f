/* The page of the watchdog: the state of the processes of a job on one node, in shared memory. The
 * page also shows whether the job lives.  No MPI in this file: the ftkit program uses it, too.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A page is a file of /dev/shm, or without that of /tmp.  Every process that uses the page holds a
 * shared lock on it (flock); the lock ends with the process, also when the process is killed.  If
 * an exclusive lock can be taken, no living process uses the page or the determinants (log/det.h)
 * of its job. */
#ifndef FTK_WATCH_PAGE_H
#define FTK_WATCH_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "core/ftk.h"

#define FTK_DOG_PREFIX "ftkit-dog-" /* <job>-<node> */
#define FTK_DET_PREFIX "ftkit-det-" /* <run>-<job>-<rank>-<process>-<0 or 1> */
#define FTK_DOG_SLOTS 1024
#define FTK_DOG_WORDS 256
#define FTK_DOG_CPUS 1024

struct ftk_dog_slot {
    _Alignas(64) _Atomic int pid; /* 0: free; < 0: being filled.  Slots share no cache line */
    _Atomic int state;            /* enum ftk_dog_state */
    int world_rank;
    int job;                   /* ftk_mpi_job() */
    _Atomic double beat_s;     /* last heartbeat; all times are of CLOCK_MONOTONIC, one per node */
    _Atomic double since_s;    /* when the state was entered */
    _Atomic double progress_s; /* last sign of progress; 0: none yet */
    _Atomic double longest_s;  /* longest stretch between two signs of progress; 0: none yet */
    _Atomic double reported_s; /* time of the last report of a death by the MPI */
    _Atomic int place;         /* enum ftk_dog_place */
    _Atomic int rank;          /* of the context; -1: a spare */
    _Atomic uint64_t calls;    /* of ftkit_checkpoint() */
    _Atomic double at_s;       /* when the process came to the place */
    /* with the message log, of a wait in a call of MPI that takes more than a second: its begin,
     * and the last time at which the process was seen in it */
    _Atomic double waits_s, waiting_s;
    _Atomic double idle_s;   /* when it was last seen waiting for a replay (idle.h); 0: never */
    _Atomic uint64_t passed; /* calls that have returned at once: has_passed() in silence.c */
    /* the process of the slot that has, or had, memory of a device; its next process does not clear
     * that */
    _Atomic int device_pid;
};

/* Why a process ended: last_word.h. */
struct ftk_dog_last {
    _Atomic unsigned number; /* of the word, from 1; 0: none, or it is being written */
    _Atomic int job, world_rank;
    _Atomic int reason, code;
};

struct ftk_dog_page {
    _Atomic unsigned magic;
    _Atomic uint64_t said;  /* bits of the time when the next line is due; 0: no line was written */
    _Atomic int plane;      /* ranks of a plane; 0: no replicas.  Spares look at the page, too */
    _Atomic unsigned back;  /* how often replicas were found to wait at different places */
    _Atomic uint64_t line;  /* with replicas: a set to which they could go back; 0: none yet */
    _Atomic unsigned first; /* bits 1 << enum ftk_dog_once: a process of the node has said so */
    _Atomic bool ends;      /* a process of the node ends the job */
    /* bits of cores that processes of the job may use (idle.h) */
    _Atomic uint64_t cores[FTK_DOG_CPUS / 64];
    _Atomic unsigned nwords; /* last words so far; the newest ones are in words */
    struct ftk_dog_last words[FTK_DOG_WORDS];
    struct ftk_dog_slot slots[FTK_DOG_SLOTS];
};

/* Open or make the page of that name in /dev/shm, and lock it.  The descriptor *lock keeps the
 * page locked.  Returns 0 or an errno. */
int ftk_dog_page_open(const char *name, struct ftk_dog_page **page, int *lock);
/* Unmap the page and release the lock; remove: also remove the file. */
void ftk_dog_page_close(const char *name, struct ftk_dog_page *page, int lock, bool remove);

/* Remove pages and determinants that jobs of this user have left in /dev/shm, if no process of
 * the job lives on this node.  Returns the number of files; dry: of files that would be removed. */
int ftk_dog_sweep(bool dry);

/* Whether a process of a job (its number) lives on this machine: 1 or 0; -1: this user may not read
 * the page of the job. */
int ftk_dog_job_lives(uint64_t job);

/* ftk_dog_ask(): read the state of a process from its page.  False: the process is in no page. */
struct ftk_dog_word {
    int state;       /* enum ftk_dog_state */
    double since_s;  /* in this state */
    double silent_s; /* since its last sign of progress, -1: none yet */
};
bool ftk_dog_ask(pid_t pid, struct ftk_dog_word *word);

#endif
