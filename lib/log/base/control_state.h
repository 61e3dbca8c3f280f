/* Control messages that change the state which a set has.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Each one has the number of the message among those of its sender to its receiver in its context,
 * from the beginning of the job.  A set has, for each other rank, how many messages its rank had
 * sent and had handled.  So the numbers say which messages a rank lacks after a rollback, and which
 * ones it has already:
 *
 *   - a sender keeps its messages since the line, and sends them again to ranks that roll back
 *   - a receiver drops a message that it has handled
 *
 * A message may be handled at any time between two calls of the program.  A part whose outcome
 * depends on that time has to record a determinant. */
#ifndef FTK_LOG_CONTROL_STATE_H
#define FTK_LOG_CONTROL_STATE_H

#include "log/base/control.h"

struct ftk_sure;

/* ---- decisions: functions of their arguments ----------------------------------------------- */

/* What a receiver does with a message. */
enum ftk_control_fate {
    FTK_CONTROL_HANDLE,
    FTK_CONTROL_HOLD, /* later */
    FTK_CONTROL_DROP, /* it is handled already */
    FTK_CONTROL_GAP   /* one before it is missing: an error */
};

/* number: of the message; had: handled of its sender; holds: no message is handled now. */
static inline enum ftk_control_fate ftk_control_fate(uint64_t number, uint64_t had, bool holds)
{
    if (holds)
        return FTK_CONTROL_HOLD;
    if (number <= had)
        return FTK_CONTROL_DROP;
    return number == had + 1 ? FTK_CONTROL_HANDLE : FTK_CONTROL_GAP;
}

/* Whether no message is handled.  In a repair no rank knows yet who rolls back; a rank that rolls
 * back, or is new, has no state until its set is restored. */
static inline bool ftk_control_holds(bool repairing, bool rolling_back, bool restored)
{
    return repairing || rolling_back || !restored;
}

/* ---- for control.c ------------------------------------------------------------------------- */

/* Send, as ftk_control_send(). */
int ftk_control_state_send(const uint64_t *w, size_t words, int dest, int tag, int context);
/* A message is received.  MPI codes. */
int ftk_control_state_came(const struct ftk_control *c, int tag);

/* ---- at a line ----------------------------------------------------------------------------- */

/* Collective over the channel of s.  Each rank announces how many messages it has sent.  rounds:
 * see sparse.h.  Codes of ftkit. */
int ftk_control_state_announce(const struct ftk_sure *s, unsigned *rounds);
/* One look at the messages that have come. */
void ftk_control_state_serve(void);
/* Whether a message has been announced, and is not handled yet. */
bool ftk_control_state_lacks(void);

/* Line apart: how many messages this rank had sent to a rank in a context at its cut. */
struct ftk_control_sent {
    int rank, context;
    uint64_t n;
};
/* Write those that are not 0 to v; returns how many.  v NULL: the most that there can be. */
size_t ftk_control_state_sent(struct ftk_control_sent *v);
/* A sender has announced such a number to this rank. */
void ftk_control_state_announced(int rank, int context, uint64_t n);

#endif
