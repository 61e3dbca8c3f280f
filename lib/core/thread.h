/* Helper threads of the library.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_THREAD_H
#define FTK_THREAD_H

#include <pthread.h>
#include <time.h>

/* Start a thread that receives no signals: the threads of the program receive them.  0, or an
 * errno. */
int ftk_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);
/* Initialise a condition whose timed waits take times of CLOCK_MONOTONIC. */
void ftk_thread_cond(pthread_cond_t *cond);
/* The time of CLOCK_MONOTONIC so many seconds from now, for such a wait. */
struct timespec ftk_thread_from_now(double seconds);

#endif
