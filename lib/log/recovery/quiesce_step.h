/* The decisions of quiescing: its steps, and what is known of messages of dead ranks.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The functions call no MPI, and depend on their arguments only; quiesce.c and withdraw.c ask and
 * act.
 *
 *   ANNOUNCE   all ranks exchange what each part has sent
 *      |
 *   WATCH      from here on a further failure ends each wait
 *      |---- a new process has had nothing on the old communicators: LOOK
 *   DRAIN      take all that the live ranks have announced
 *      |
 *   LOOK       has a further rank failed?  WITHDRAW depends on which ranks are dead
 *      |---- a new process: END
 *   WITHDRAW   take from the MPI what is under way
 *      |
 *   END */
#ifndef FTK_LOG_QUIESCE_STEP_H
#define FTK_LOG_QUIESCE_STEP_H

#include "log/log.h"

enum ftk_quiesce_step {
    FTK_QUIESCE_ANNOUNCE, /* the first one */
    FTK_QUIESCE_WATCH,
    FTK_QUIESCE_DRAIN,
    FTK_QUIESCE_LOOK,
    FTK_QUIESCE_WITHDRAW,
    FTK_QUIESCE_END
};

/* The step after this one, in a process that is new or not. */
enum ftk_quiesce_step ftk_quiesce_next(enum ftk_quiesce_step step, bool is_new);

/* What a rank knows of the job: committed lines; calls of ftkit_checkpoint() and the next event at
 * the last one; outcomes of collective calls of ftkit since then. */
struct ftk_job_state {
    uint64_t lines, calls, next_event, nouts;
};

/* Whether a rank that knows a knows more than one that knows b. */
bool ftk_quiesce_is_ahead(const struct ftk_job_state *a, const struct ftk_job_state *b);

/* A receive of messages from source, or MPI_ANY_SOURCE, was matched with a message that its dead
 * sender never finished.  Whether the sender is known: only one dead rank is possible.  Then the
 * receive is bound to the message of that rank, which comes again.  dead [n]: which ranks are;
 * *first: the first of them, n - 1 if there is none. */
bool ftk_quiesce_is_sure(int source, const int *dead, int n, int *first);

/* Whether this rank was at a line whose commit no rank knows that is left.  All messages before the
 * line have been drained.  A message that comes nevertheless is from a dead rank that had seen the
 * commit: its replacement sends that message again, after it has come to that line again.  If
 * another rank knows that the set was given up, that rank may have gone on: its messages count.
 * missed: another rank knows the commit; outs, job_outs: outcomes of calls of ftkit that this rank
 * knows, and that the most advanced rank knows. */
bool ftk_quiesce_is_at_lost_line(
    enum ftk_line_state state, bool missed, uint64_t job_outs, uint64_t outs);

#endif
