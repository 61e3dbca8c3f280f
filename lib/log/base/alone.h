/* One thread at a time: with MPI_THREAD_MULTIPLE (base/alone.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The state of the log has no locks, and the order of messages is part of the replay.  So only one
 * thread may be in a call of MPI or in a collective call of ftkit at a time; which thread may
 * change between two calls.  The MPI lets several threads call at once only with
 * MPI_THREAD_MULTIPLE: then the calls of the program come through ftk_mpi_guarded, which enters and
 * leaves here. */
#ifndef FTK_LOG_ALONE_H
#define FTK_LOG_ALONE_H

#include <stdbool.h>
#include <stdint.h>

/* A call of the program begins; calls of the same thread may nest.  False: another thread is
 * inside; the first time the function reports both calls.  Any thread. */
bool ftk_alone_enter(const char *call);
void ftk_alone_leave(void);

/* A unit of ftkit_run_units() begins: until ftk_alone_open() all calls find another thread
 * inside.  Returns the thread that is inside, for ftk_alone_open(). */
struct ftk_alone_held {
    uintptr_t owner;
    int depth;
};
struct ftk_alone_held ftk_alone_bar(void);
void ftk_alone_open(struct ftk_alone_held held);
/* FTKIT_ERR_UNSUPPORTED: two threads have been in calls at once, or a unit has made a call, so a
 * message of the program is missing. */
int ftk_alone_check(void);

#endif
