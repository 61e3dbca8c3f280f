/* Helper threads of the library (see thread.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <signal.h>
#include <time.h>

#include "thread.h"

int ftk_thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    sigset_t all, old;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old); /* fails only for a bad argument */
    int err = pthread_create(thread, NULL, run, arg);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return err;
}

void ftk_thread_cond(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr); /* none of these fails on Linux */
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(cond, &attr);
    (void)pthread_condattr_destroy(&attr);
}
