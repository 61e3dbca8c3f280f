/* The state of the watchdog of a process, for the files that make it up (see watchdog.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_DOG_H
#define FTK_DOG_H

#include <pthread.h>

#include "core/context.h"
#include "watch_page.h"
#include "watchdog.h"

struct ftk_watchdog {
    char name[96];
    struct ftk_dog_page *page;
    int page_lock;
    struct ftk_dog_slot *own;
    double timeout_s;
    double stall_s;
    double say_s;
    unsigned back_seen; /* ftk_dog_page.back, as far as this process has acted on it */
    double looked_s;    /* last turn of the thread */
    uint64_t joined;    /* the last call of ftkit_checkpoint() that did not return at once */
    int reported[FTK_DOG_SLOTS];     /* process of the slot of whose end MPI has notice from us */
    _Atomic double repaired_s;       /* time of the last repair, 0: none */
    double wait_since_s, wait_due_s; /* the last long wait in a call of MPI, and its next line */
    bool cores_shown;                /* the page has the cores of this process (idle.c) */
    double opened_s;                 /* when the program left ftkit_open() */
    _Atomic double setup_s;          /* from there to its first ftkit_checkpoint(), 0: not known */
    _Atomic double awaits_s; /* since when survivors without a set wait for a replacement, 0: not */
    _Atomic double unwinds_s; /* since when an exception is in ftkit_close(), 0: it is not */
    _Atomic double resumed_s; /* first turn after the machine, or the job, had stood still */
    pthread_t thread;
    pthread_mutex_t lock; /* protects stop */
    pthread_cond_t wake;
    bool stop;
};

/* Kill all processes of the job on this node at once, this process last.  At once, because the
 * others must not begin to repair a job that cannot continue. */
void ftk_dog_end_job(struct ftk_watchdog *dog, const char *why);
/* Whether the process of a slot has ended. */
bool ftk_dog_vanished(const struct ftk_dog_slot *s);
/* Return the later of a time and the end of the last standstill.  Otherwise the processes of a
 * suspended job would kill each other when they wake up one after the other. */
double ftk_dog_from(const struct ftk_watchdog *dog, double then);

/* silence.c: no rank of the node has made progress for recover.stall_say: write a line, and end the
 * job if the page proves a mistake. */
void ftk_dog_look_for_silence(struct ftk_watchdog *dog, double now);
/* silence.c: this process waits for ranks that perhaps never come. */
void ftk_dog_look_for_absence(struct ftk_watchdog *dog, double now);
/* silence.c: a rank is in a set that it alone has asked for: end the job. */
void ftk_dog_look_for_requests(struct ftk_watchdog *dog);
/* silence.c: recover.stall: no rank has made progress for that long. */
void ftk_dog_look_for_stall(struct ftk_watchdog *dog, double now);

#endif
