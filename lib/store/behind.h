/* Errands: short work on files that a thread does in place of the program, which may not wait for
 * a file system.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A context has one thread, from its first errand on.  The thread does one errand at a time; while
 * a file system does not answer, further errands are refused. */
#ifndef FTK_BEHIND_H
#define FTK_BEHIND_H

#include <stdatomic.h>

#include "core/ftk.h"

struct ftk_behind;

/* The first member of a struct of the caller, which was allocated with calloc(). */
struct ftk_errand {
    void (*run)(struct ftk_errand *e); /* in the thread */
    _Atomic int users;                 /* of ftk_behind_do() and ftk_errand_drop() */
};

/* Do an errand, and wait for its end, at most so many seconds.  false: it has not ended, or not
 * begun; its results may not be read.  Either way the caller drops the errand. */
bool ftk_behind_do(struct ftk_behind **b, struct ftk_errand *e, double wait_s);
/* Free the errand, unless the thread still has it. */
void ftk_errand_drop(struct ftk_errand *e);
/* Wait until there is no errand under way, at most so many seconds.  false: there still is one. */
bool ftk_behind_idle(struct ftk_behind *b, double wait_s);
/* For how many seconds the present errand has been under way; 0: there is none. */
double ftk_behind_busy_s(struct ftk_behind *b);
/* End the thread; NULL inside is fine.  false: its errand has not ended within so many seconds.  A
 * thread that waits for a file system stays behind alone. */
bool ftk_behind_close(struct ftk_behind **b, double wait_s);

#endif
