/* One thread at a time (see alone.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "core/ftk.h"
#include "core/run_state.h"
#include "log/base/alone.h"
#include "log/base/part.h"

static _Atomic uintptr_t owner;      /* pthread_self() of the thread that is inside; 0: none */
static int depth;                    /* nested calls of the owner */
static _Atomic(const char *) inside; /* the outermost of them */
static _Atomic bool crowded;         /* two threads were inside at once, or a unit was */

enum { UNIT = 1 }; /* an owner that is no thread */

static uintptr_t self(void)
{
    return (uintptr_t)pthread_self();
}

static void report(const char *call)
{
    const char *other = atomic_load(&inside);
    char why[240];
    if (atomic_exchange(&crowded, true))
        return;
    if (atomic_load(&owner) == UNIT)
        snprintf(why, sizeof why,
            "rank %d: %s is called while a unit of ftkit_run_units runs. Rule: a unit computes its "
            "output from its input alone, and calls neither MPI nor ftkit",
            ftk_log.me, call);
    else
        snprintf(why, sizeof why,
            "rank %d: a thread calls %s while another thread is in %s. Rule: with the message log "
            "one thread at a time calls MPI and ftkit, also with MPI_THREAD_MULTIPLE",
            ftk_log.me, call, other ? other : "MPI");
    ftk_run_state("mistake %s", why);
    ftk_report(FTKIT_ERROR, "%s; no set is written from now on", why);
}

bool ftk_alone_enter(const char *call)
{
    uintptr_t none = 0;
    if (atomic_load_explicit(&owner, memory_order_relaxed) == self()) {
        depth++;
        return true;
    }
    if (!atomic_compare_exchange_strong_explicit(
            &owner, &none, self(), memory_order_acquire, memory_order_relaxed)) {
        report(call);
        return false;
    }
    atomic_store_explicit(&inside, call, memory_order_relaxed);
    depth = 1;
    return true;
}

void ftk_alone_leave(void)
{
    if (--depth == 0)
        atomic_store_explicit(&owner, 0, memory_order_release);
}

struct ftk_alone_held ftk_alone_bar(void)
{
    const struct ftk_alone_held held = { atomic_load_explicit(&owner, memory_order_relaxed),
        depth };
    atomic_store_explicit(&owner, UNIT, memory_order_relaxed);
    return held;
}

void ftk_alone_open(struct ftk_alone_held held)
{
    depth = held.depth;
    atomic_store_explicit(&owner, held.owner, memory_order_release);
}

int ftk_alone_check(void)
{
    return !atomic_load(&crowded)
               ? FTKIT_OK
               : ftk_fail(FTKIT_ERR_UNSUPPORTED,
                   "two threads have called MPI at once, or a unit of ftkit_run_units has, and one "
                   "call has failed: with the message log one thread at a time calls MPI and "
                   "ftkit, and a unit calls neither");
}

static void close_alone(void)
{
    atomic_store(&owner, 0);
    atomic_store(&inside, NULL);
    atomic_store(&crowded, false);
    depth = 0;
}

const struct ftk_part ftk_part_alone = { .close = close_alone };
