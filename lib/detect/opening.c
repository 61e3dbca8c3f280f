/* A line about ranks that wait in ftkit_open() (see opening.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The ranks meet in a collective call of MPI that does not return before all have come, and there
 * is no page of the watchdog yet: the ranks have not agreed on its name. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "core/run_state.h"
#include "core/thread.h"
#include "fail_stop.h"
#include "opening.h"

#define PATIENCE 20 /* times say_s */
#define TALKERS 2   /* the first rank may be the one that is missing */
#define RULE "Rule: every rank of the communicator calls ftkit_open, once"

struct ftk_opening {
    int rank;
    double say_s;
    pthread_t thread;
    pthread_mutex_t lock; /* protects done */
    pthread_cond_t wake;
    bool done;
};

/* Wait until done, or for that time; the lock is held.  Whether done. */
static bool wait_for(struct ftk_opening *o, double seconds)
{
    const struct timespec until = ftk_thread_from_now(seconds);
    int rc = 0;
    while (!o->done && rc == 0)
        rc = pthread_cond_timedwait(&o->wake, &o->lock, &until);
    return o->done;
}

static void *watch(void *arg)
{
    struct ftk_opening *o = arg;
    double waited = 0, next = o->say_s;
    pthread_mutex_lock(&o->lock);
    while (waited < PATIENCE * o->say_s && !wait_for(o, next - waited)) {
        waited = next;
        next = 2 * next < PATIENCE * o->say_s ? 2 * next : PATIENCE * o->say_s;
        if (o->rank < TALKERS)
            ftk_report(FTKIT_WARNING,
                "rank %d has waited for other ranks in ftkit_open for %.1f s. " RULE
                " (no error if they compute that long; recover.stall_say)",
                o->rank, waited);
    }
    bool done = o->done;
    pthread_mutex_unlock(&o->lock);
    if (done)
        return NULL;
    ftk_run_state("mistake rank %d has waited for other ranks in ftkit_open for %.1f s. " RULE,
        o->rank, waited);
    ftk_report_last(
        "rank %d has waited for other ranks in ftkit_open for %.1f s: ending the job. " RULE,
        o->rank, waited);
    ftk_fail_stop_die();
}

struct ftk_opening *ftk_opening_begin(int rank, double say_s)
{
    struct ftk_opening *o = say_s > 0 ? calloc(1, sizeof *o) : NULL;
    if (!o)
        return NULL;
    o->rank = rank;
    o->say_s = say_s;
    ftk_thread_cond(&o->wake);
    pthread_mutex_init(&o->lock, NULL);
    if (ftk_thread_start(&o->thread, watch, o) == 0)
        return o;
    pthread_cond_destroy(&o->wake);
    pthread_mutex_destroy(&o->lock);
    free(o);
    return NULL;
}

void ftk_opening_end(struct ftk_opening *o)
{
    if (!o)
        return;
    pthread_mutex_lock(&o->lock);
    o->done = true;
    pthread_cond_signal(&o->wake);
    pthread_mutex_unlock(&o->lock);
    pthread_join(o->thread, NULL);
    pthread_cond_destroy(&o->wake);
    pthread_mutex_destroy(&o->lock);
    free(o);
}
