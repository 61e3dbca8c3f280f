/* Processes that have been killed and are not gone yet.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A process that dies gives its memory of a device back late: other processes notice its death when
 * its connections close, and the driver frees the memory behind that, for up to a second. */
#ifndef FTK_EXITS_H
#define FTK_EXITS_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether a process of this machine is ending: the kernel frees what it had, or only its exit code
 * is left.  (The first thread of a process can have ended before the others.)  false: it lives, or
 * is gone, or /proc does not show it. */
bool ftk_exits_is_ending(pid_t pid);

/* Whether a process has ended.  Its parent may not have asked for the outcome yet. */
bool ftk_exits_has_ended(pid_t pid);

/* Wait until a process is gone, or only its exit code is left; at most so long.  true: it is. */
bool ftk_exits_await(pid_t pid, double seconds);

#endif
