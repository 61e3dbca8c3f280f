/* A clock of day that is set while programs run; to be preloaded.  At the 40th look of a process
 * the clock jumps a day ahead, at the 80th look to a year before the right time, and so on.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long jump(void)
{
    static atomic_int looks;
    static const long seconds[] = { 0, 86400, -31536000, 3600, -5 };
    return seconds[atomic_fetch_add(&looks, 1) / 40 % 5];
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
    long rc = syscall(SYS_clock_gettime, clock, t);
    if (rc == 0 && clock == CLOCK_REALTIME)
        t->tv_sec += jump();
    return (int)rc;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    int rc = clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return rc;
}

time_t time(time_t *t)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (t)
        *t = now.tv_sec;
    return now.tv_sec;
}
