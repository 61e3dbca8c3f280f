/* Writers of struct ftk_log_line, struct ftk_log_calls and struct ftk_log_epoch for other files:
 * line.c, calls.c and recovery.c own these parts, and other files of recovery/ call the functions
 * here.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_STATE_H
#define FTK_LOG_STATE_H

#include <stdlib.h>
#include <string.h>

#include "log/log.h"

/* ---- the line ------------------------------------------------------------------------------ */

/* Opening: there is no line. */
static inline void ftk_line_open(void)
{
    ftk_log.line.none_yet = true;
}

/* Take over the line of the job, with this number, at that call of ftkit_checkpoint(). */
static inline void ftk_line_adopt(uint64_t count, uint64_t calls, uint64_t next_event)
{
    ftk_log.line.count = count;
    ftk_log.line.calls = calls;
    ftk_log.line.next_event = next_event;
}

/* A repair: whether a rank goes back to the line, and whether there is none yet. */
static inline void ftk_line_repaired(bool shunned, bool none_yet)
{
    ftk_log.line.shunned = ftk_log.line.shunned || shunned;
    ftk_log.line.none_yet = none_yet;
}

/* The line is restored: this rank has its own state again. */
static inline void ftk_line_restored(void)
{
    ftk_log.line.of_sibling = false;
}

/* The calls of this rank at the line. */
static inline void ftk_line_count_from(uint64_t calls)
{
    ftk_log.line.calls = calls;
}

/* The next event after the line. */
static inline void ftk_line_reschedule(uint64_t next_event)
{
    ftk_log.line.next_event = next_event;
}

/* Whether the set-up log at the line could not be read. */
static inline void ftk_line_setup_unread(bool unread)
{
    ftk_log.line.setup_unread = unread;
}

/* ---- calls of ftkit since the line --------------------------------------------------------- */

/* A new line: there are none. */
static inline void ftk_calls_forget(void)
{
    ftk_log.calls.n = ftk_log.calls.seq = 0;
}

/* Take over the calls of the job: takes outs [n]. */
static inline void ftk_calls_adopt(struct ftk_logged_call *outs, size_t n)
{
    free(ftk_log.calls.outs);
    ftk_log.calls.outs = outs;
    ftk_log.calls.n = n;
}

/* This rank makes them again, from the first on. */
static inline void ftk_calls_go_back(void)
{
    ftk_log.calls.seq = 0;
}

static inline void ftk_calls_close(void)
{
    free(ftk_log.calls.outs);
    ftk_log.calls = (struct ftk_log_calls){ 0 };
}

/* ---- the epoch ------------------------------------------------------------------------------ */

/* Opening: there are no communicators yet. */
static inline void ftk_epoch_open(void)
{
    for (int c = 0; c < FTK_LOG_COMMS; c++)
        ftk_log.epoch.real[c] = ftk_log.epoch.next[c] = MPI_COMM_NULL;
}

/* The communicators of the repair are those of the epoch. */
static inline void ftk_epoch_begin(void)
{
    memcpy(ftk_log.epoch.real, ftk_log.epoch.next, sizeof ftk_log.epoch.real);
    for (int c = 0; c < FTK_LOG_COMMS; c++)
        ftk_log.epoch.next[c] = MPI_COMM_NULL;
}

/* The plane that decides open outcomes. */
static inline void ftk_epoch_lead(int plane)
{
    ftk_log.epoch.leader = plane;
}

/* What a repair under way has learned of the epoch that it replaces. */
static inline void ftk_epoch_replaced(unsigned all_rolled_back, uint64_t id)
{
    ftk_log.epoch.all_rolled_back_now = all_rolled_back;
    ftk_log.epoch.id_now = id;
}

#endif
