/* Sleeping while other ranks replay (see nap.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "nap.h"

#include <limits.h>
#include <time.h>

#include "core/ftk.h"
#include "idle.h"

#define IDLE_S 0.001    /* a rank that waits for so long is idle */
#define AWAKE_S 0.005   /* a wait is awake for so long */
#define SHARE (1. / 64) /* a sleep is at most this share of the wait so far */
#define LONGEST_S 0.001
enum { MOST_WAITS = 8 }; /* with sleeps, in an epoch */

/* The epoch in which others replay. */
static struct {
    enum ftk_nap (*look)(void); /* NULL: there is no such epoch, or the replay is over */
    unsigned turns;             /* of the wait at its last look; a new wait begins with fewer */
    double since;               /* the begin of the wait */
    bool slept;                 /* in this wait */
    int waits;                  /* with sleeps, before this one */
    struct ftk_watchdog *dog;   /* valid while look is */
    bool idle;                  /* the page says that this rank is idle */
} nap;

static void mark(bool idle, double now)
{
    if (idle || nap.idle)
        ftk_idle_mark(nap.dog, idle ? now : 0);
    nap.idle = idle;
}

void ftk_nap_begin(struct ftk_watchdog *dog, enum ftk_nap (*look)(void))
{
    nap.dog = dog;
    nap.look = look;
    nap.turns = UINT_MAX;
    nap.slept = false;
    nap.waits = 0;
}

void ftk_nap_end(void)
{
    mark(false, 0);
    nap.look = NULL;
}

static void begin_wait(double now)
{
    mark(false, now);
    nap.waits += nap.slept;
    nap.slept = false;
    nap.since = now;
}

static void sleep_for(double s)
{
    const struct timespec t = { 0, (long)(s * 1e9) };
    (void)nanosleep(&t, NULL); /* a shorter sleep does no harm */
}

void ftk_nap_turn(unsigned turns)
{
    if (!nap.look)
        return;
    const double now = ftk_now_s();
    if (turns <= nap.turns)
        begin_wait(now);
    nap.turns = turns;
    const double waited = now - nap.since;
    if (waited < IDLE_S)
        return;
    const enum ftk_nap what = nap.waits < MOST_WAITS ? nap.look() : FTK_NAP_OVER;
    if (what == FTK_NAP_OVER)
        ftk_nap_end();
    mark(what == FTK_NAP_SLEEP, now);
    if (what != FTK_NAP_SLEEP || waited < AWAKE_S)
        return;
    nap.slept = true;
    sleep_for(waited * SHARE < LONGEST_S ? waited * SHARE : LONGEST_S);
}
