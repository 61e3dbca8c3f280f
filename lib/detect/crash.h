/* A crash ends the process.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Open MPI prints the stack of a process that crashes (opal_signal: SIGABRT, SIGBUS, SIGFPE,
 * SIGSEGV) before the process ends.  Printing needs memory.  When the crash is inside of malloc()
 * or free(), its thread waits for a lock that it holds: the process lives on and does nothing, and
 * all others wait for it. */
#ifndef FTK_CRASH_H
#define FTK_CRASH_H

/* From now on a process that Open MPI prints the stack of ends after FTK_CRASH_S at the latest, by
 * the signal of the crash.  Handlers of others stay as they are.  One thread at a time. */
void ftk_crash_ends(void);

#define FTK_CRASH_S 5

#endif
