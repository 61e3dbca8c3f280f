/* Errands (see behind.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "core/thread.h"
#include "behind.h"

struct ftk_behind {
    pthread_mutex_t lock; /* protects the rest */
    pthread_cond_t wake, ended;
    struct ftk_errand *errand; /* under way; NULL: none */
    double since_s;
    bool stop; /* the context is closed: the thread frees the struct at its end */
};

static void free_behind(struct ftk_behind *b)
{
    pthread_cond_destroy(&b->wake);
    pthread_cond_destroy(&b->ended);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

void ftk_errand_drop(struct ftk_errand *e)
{
    if (atomic_fetch_sub(&e->users, 1) == 1)
        free(e);
}

static void *work(void *arg)
{
    struct ftk_behind *b = arg;
    pthread_mutex_lock(&b->lock);
    while (b->errand || !b->stop) {
        if (!b->errand) {
            pthread_cond_wait(&b->wake, &b->lock);
            continue;
        }
        struct ftk_errand *e = b->errand;
        pthread_mutex_unlock(&b->lock);
        e->run(e);
        ftk_errand_drop(e);
        pthread_mutex_lock(&b->lock);
        b->errand = NULL;
        pthread_cond_signal(&b->ended);
    }
    pthread_mutex_unlock(&b->lock);
    free_behind(b);
    return NULL;
}

static struct ftk_behind *start(void)
{
    pthread_t thread;
    struct ftk_behind *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    (void)pthread_mutex_init(&b->lock, NULL);
    ftk_thread_cond(&b->wake);
    ftk_thread_cond(&b->ended);
    if (ftk_thread_start(&thread, work, b) == 0) {
        (void)pthread_detach(thread);
        return b;
    }
    free_behind(b);
    return NULL;
}

bool ftk_behind_do(struct ftk_behind **at, struct ftk_errand *e, double wait_s)
{
    const struct timespec until = ftk_thread_from_now(wait_s);
    atomic_store(&e->users, 1);
    if (!*at)
        *at = start();
    struct ftk_behind *b = *at;
    if (!b)
        return false;
    pthread_mutex_lock(&b->lock);
    const bool taken = !b->errand;
    if (taken) {
        atomic_store(&e->users, 2);
        b->errand = e;
        b->since_s = ftk_now_s();
        pthread_cond_signal(&b->wake);
    }
    int err = 0;
    while (taken && wait_s > 0 && b->errand == e && err != ETIMEDOUT)
        err = pthread_cond_timedwait(&b->ended, &b->lock, &until);
    const bool done = taken && b->errand != e;
    pthread_mutex_unlock(&b->lock);
    return done;
}

/* The lock is held.  Whether there is no errand under way any more. */
static bool wait_idle(struct ftk_behind *b, double wait_s)
{
    const struct timespec until = ftk_thread_from_now(wait_s);
    int err = 0;
    while (b->errand && err != ETIMEDOUT)
        err = pthread_cond_timedwait(&b->ended, &b->lock, &until);
    return !b->errand;
}

bool ftk_behind_idle(struct ftk_behind *b, double wait_s)
{
    if (!b)
        return true;
    pthread_mutex_lock(&b->lock);
    const bool idle = wait_idle(b, wait_s);
    pthread_mutex_unlock(&b->lock);
    return idle;
}

double ftk_behind_busy_s(struct ftk_behind *b)
{
    if (!b)
        return 0;
    pthread_mutex_lock(&b->lock);
    const double s = b->errand ? ftk_now_s() - b->since_s : 0;
    pthread_mutex_unlock(&b->lock);
    return s;
}

bool ftk_behind_close(struct ftk_behind **at, double wait_s)
{
    struct ftk_behind *b = *at;
    *at = NULL;
    if (!b)
        return true;
    pthread_mutex_lock(&b->lock);
    const bool ended = wait_idle(b, wait_s);
    b->stop = true;
    pthread_cond_signal(&b->wake);
    pthread_mutex_unlock(&b->lock); /* from here on the struct is the thread's */
    return ended;
}
