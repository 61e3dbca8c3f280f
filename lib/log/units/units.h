/* Help in a replay: waiting ranks do work units of ranks that have rolled back (ftkit_run_units()).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank that did not roll back waits for those that did.  After 1 ms of a wait in an MPI call it
 * becomes a helper: it asks one of these ranks for units.  That rank, in ftkit_run_units(), gives
 * each helper at most four units at a time, and does units itself meanwhile.
 *
 *     helper                                  rank that has rolled back
 *       ASK ---------------------------------> it is in the list of helpers
 *       <--------------------------------- UNIT  name, number, input
 *       DONE --------------------------------> number, code, output
 *       <--------------------------------- STOP  the call is over, and units have not come back
 *
 * After STOP the helper does no unit of that call, and asks again if it still waits.  A helper does
 * one unit between two looks of its wait, so its own message does not wait longer than that.
 *
 * A unit is a pure function, so the results are the same wherever it runs, and nothing here is in a
 * set or in a log.  All messages are control messages, which a repair receives before the epoch
 * ends.  A new epoch, or a line, ends all help.  The death of a helper, an unknown name or an error
 * loses nothing: the rank does the unit itself.
 *
 * [Parallel recovery: Meneses, PhD thesis, University of Illinois 2013, 2.5] */
#ifndef FTK_LOG_UNITS_H
#define FTK_LOG_UNITS_H

#include "core/unit.h"
#include "log/base/control.h"

/* log_ops.h: run_units. */
int ftk_units_run(const struct ftk_units_call *c);

/* ---- wire.c ------------------------------------------------------------------------------ */

enum ftk_units_tag { FTK_UNITS_ASK = 1, FTK_UNITS_UNIT, FTK_UNITS_DONE, FTK_UNITS_STOP };

/* The head of UNIT and DONE; the bytes follow. */
struct ftk_units_head {
    uint64_t call;   /* of ftkit_run_units() by the rank that has rolled back, from 1 */
    uint64_t number; /* of the unit in the call */
    uint64_t in_bytes, out_bytes;
    int64_t code; /* DONE: of the function; FTK_UNITS_UNABLE: the helper cannot do it */
    char name[FTK_UNIT_NAME];
};
#define FTK_UNITS_UNABLE INT64_MAX
enum { FTK_UNITS_WORDS = sizeof(struct ftk_units_head) / sizeof(uint64_t) };
_Static_assert(sizeof(struct ftk_units_head) == FTK_UNITS_WORDS * sizeof(uint64_t), "whole words");

static inline size_t ftk_units_words(size_t bytes)
{
    return FTK_UNITS_WORDS + (bytes + 7) / 8;
}

/* Send a head with `bytes` bytes behind.  False: not sent. */
bool ftk_units_send(const struct ftk_units_head *h, const void *data, size_t bytes, int dest,
    enum ftk_units_tag tag);
/* The head of a message that has come; *data: the bytes behind.  False: the message is damaged. */
bool ftk_units_read(const struct ftk_control *c, struct ftk_units_head *h, const void **data,
    size_t (*bytes)(const struct ftk_units_head *h));
/* Handle the messages that have come.  False: a failure is known, and nobody gets help now. */
bool ftk_units_look(void);
/* The function of a unit runs: calls of MPI fail meanwhile. */
int ftk_units_call(const struct ftk_units_call *c, size_t i);

/* ---- give.c: the rank that has rolled back ------------------------------------------------ */

void ftk_give_begin(void);
void ftk_give_end(void);
int ftk_give_asked(const struct ftk_control *c);
int ftk_give_returned(const struct ftk_control *c);
void ftk_give_figures(ftkit_info *info);
void ftk_give_close(void);

/* ---- help.c: the rank that waits ----------------------------------------------------------- */

void ftk_help_begin(const struct ftk_log_repair *r);
void ftk_help_end(void);
void ftk_help_turn(unsigned turns);
bool ftk_help_is_idle(void);
int ftk_help_unit(const struct ftk_control *c);
int ftk_help_stop(const struct ftk_control *c);
void ftk_help_figures(ftkit_info *info);
void ftk_help_close(void);

#endif
