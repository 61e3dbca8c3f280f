/* A crash ends the process (see crash.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "crash.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static const int signals[] = { SIGABRT, SIGBUS, SIGFPE, SIGSEGV };
enum { SIGNALS = sizeof signals / sizeof *signals };

static struct sigaction theirs[SIGNALS]; /* the handlers of Open MPI */
static atomic_int crashed;               /* the first signal; 0: none */

static void unblock(int sig)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, sig);
    (void)pthread_sigmask(SIG_UNBLOCK, &one, NULL); /* both are signals: it cannot fail */
}

/* The stack is still not printed: end as without a handler. */
static void on_alarm(int alarm_signal)
{
    const int sig = atomic_load(&crashed);
    (void)alarm_signal;
    (void)signal(sig, SIG_DFL);
    unblock(sig);
    (void)raise(sig);
}

static void on_crash(int sig, siginfo_t *info, void *context)
{
    int none = 0;
    struct sigaction late = { .sa_handler = on_alarm };
    if (atomic_compare_exchange_strong(&crashed, &none, sig)
        && sigaction(SIGALRM, &late, NULL) == 0) {
        unblock(SIGALRM);
        (void)alarm(FTK_CRASH_S);
    }
    for (int i = 0; i < SIGNALS; i++)
        if (signals[i] == sig)
            theirs[i].sa_sigaction(sig, info, context); /* does not return */
}

static bool is_of_mpi(const struct sigaction *is)
{
    Dl_info of;
    return (is->sa_flags & SA_SIGINFO) && is->sa_sigaction != on_crash
           && dladdr((void *)is->sa_sigaction, &of) != 0 && of.dli_fname
           && strstr(of.dli_fname, "libopen-pal.so");
}

void ftk_crash_ends(void)
{
    for (int i = 0; i < SIGNALS; i++) {
        struct sigaction is, ours;
        if (sigaction(signals[i], NULL, &is) != 0 || !is_of_mpi(&is))
            continue;
        ours = is;
        ours.sa_sigaction = on_crash;
        theirs[i] = is;
        (void)sigaction(signals[i], &ours, NULL); /* without it the crash does what it did */
    }
}
