/* Helper threads of the library (see thread.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <math.h>
#include <signal.h>

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

struct timespec ftk_thread_from_now(double seconds)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    const double end = (double)t.tv_nsec + 1e9 * fmod(seconds, 1);
    t.tv_sec += (time_t)seconds + (end >= 1e9);
    t.tv_nsec = (long)(end >= 1e9 ? end - 1e9 : end);
    return t;
}
