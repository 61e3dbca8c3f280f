/* Set-up, as its replay needs it: what a rank did between ftkit_open() and ftkit_recover().
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A replacement repeats set-up alone, in the phase FTK_PHASE_SETUP_REPLAY.  The set-up log
 * (payload.h) has the messages, each with the number of its receive.  The record of set-up (here)
 * has the rest: the outcomes of probes and tests, also how many found nothing; receives that were
 * cancelled; and with log.check a hash of each message that set-up sent.  Both are in every part of
 * a set, in every mode of log.determinants.
 *
 * The record is made while set-up runs, and does not change after the first line. */
#ifndef FTK_LOG_SET_UP_H
#define FTK_LOG_SET_UP_H

#include "log/determinant/det.h"

/* Number of a receive of a collective that set-up has begun: all of them have it. */
#define FTK_SET_UP_COLL ((UINT32_C(1) << 31) - 1)

/* Whether this process runs set-up for the first time, so that the record grows. */
static inline bool ftk_set_up_runs(void)
{
    return ftk_log.in_set_up && !ftk_log_replays_setup() && !ftk_log_is_rolling_back();
}
/* Whether the message of a receive belongs to the set-up log: set-up has begun the receive, and
 * there is no line yet that has it. */
static inline bool ftk_set_up_keeps(const struct ftk_req *r)
{
    return (ftk_log.in_set_up || (r->recv.set_up != 0 && ftk_log.line.none_yet))
           && !ftk_log_replays_setup();
}

/* Its number in the set-up log. */
static inline uint32_t ftk_set_up_number(const struct ftk_req *r)
{
    return r->internal ? 0 : r->recv.set_up;
}

/* ---- the record grows ---- */

/* A receive of the program begins: its number in set-up, from 1; 0: set-up is over. */
uint32_t ftk_set_up_receive(void);
/* The receive with that number was cancelled in time. */
void ftk_set_up_cancelled(uint32_t number);
/* Outcomes of probes and tests.  A probe also has the length of its message. */
void ftk_set_up_nothing(void);
void ftk_set_up_found(const struct ftk_det *det); /* with its MORE */
void ftk_set_up_outcome(struct ftk_det det);      /* or one MORE */
void ftk_set_up_probed(int source, int tag, uint64_t bytes);
/* Set-up sends a message.  FTKIT_ERR_NOMEM. */
int ftk_set_up_sent(int context, int dest, int tag, uint64_t hash);

/* ---- the replay of set-up ---- */

/* As ftk_det_next().  Behind a PROBE comes a MORE with the length of the message. */
int ftk_set_up_next(uint32_t kind, const struct ftk_det **det);
uint64_t ftk_set_up_bytes(const struct ftk_det *probe);
bool ftk_set_up_was_cancelled(uint32_t number);
/* Compare a message with that of the lost process, number *n of its channel. */
enum ftk_set_up_send { FTK_SENT_THE_SAME, FTK_SENT_ANOTHER, FTK_SENT_NONE };
enum ftk_set_up_send ftk_set_up_sends(int context, int dest, int tag, uint64_t hash, uint64_t *n);
/* The replay has come to its end: report it, if the lost process did more. */
void ftk_set_up_end(void);

/* ---- in a set ---- */

/* Read the record for a replay; nothing in it is trusted. */
int ftk_set_up_read(const uint64_t *w, size_t n);
/* The log closes. */
void ftk_set_up_close(void);

#endif
