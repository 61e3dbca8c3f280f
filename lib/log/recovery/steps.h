/* The steps of the message log in a repair and at the line, for the files of this folder.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Functions return codes of ftkit.  r: the repair (core/log_ops.h). */
#ifndef FTK_LOG_STEPS_H
#define FTK_LOG_STEPS_H

#include "core/log_ops.h"
#include "log/base/part.h"
#include "quiesce_step.h"

/* ---- drain.c ------------------------------------------------------------------------- */

/* One look at each request under way. */
void ftk_drain_poll(void);
/* Drain until all messages have come that the other ranks have announced, except those of ranks
 * with not_from[rank] (NULL: no exception).  progress(arg) is called between looks; an error of it,
 * such as a failure, ends the draining. */
int ftk_drain_all(const int *not_from, int (*progress)(void *arg), void *arg);
/* Line apart, all ranks have cut: one look for late messages.  *all: all have come. */
int ftk_drain_late(bool *all);

/* ---- teams.c ------------------------------------------------------------------------- */

/* Collective over r->act, at an opening: make the table by the configuration. */
int ftk_teams_make(const struct ftk_log_repair *r);
/* Write the teams that are in force when newest is the newest set that is committed, and which of
 * them are silent, as words [n] for another process.  Returns the set that has begun them. */
uint64_t ftk_teams_words(int *word, int n, uint64_t newest);
/* These words [n] are in force from now on; n is the number of ranks.  set: the set that has begun
 * them.  FTKIT_ERR_NOMEM: the tables in force are those before. */
int ftk_teams_take(const int *word, int n, uint64_t set);
/* The set is committed, and team [n] is in force from now on, without silent teams.  team is
 * allocated, and belongs to teams.c from now on. */
void ftk_teams_change(int *team, int n, uint64_t set);
void ftk_teams_close(void);

/* ---- quiesce.c ----------------------------------------------------------------------- */

/* Collective over r->act.  FTKIT_ERR_PEER: a further failure; the step is repeated then. */
int ftk_quiesce(const struct ftk_log_repair *r);

/* ---- withdraw.c ---------------------------------------------------------------------- */

/* It is not known which messages of source this rank has: all ranks roll back in the next
 * attempt. */
int ftk_withdraw_ambiguous(int source);

/* ---- job_state.c --------------------------------------------------------------------- */

/* The view of the most advanced survivor, or of one that an attempt of this repair has lost. */
extern struct ftk_job_state ftk_job_state;
/* The tables of a process that has just got its rank. */
int ftk_job_enter(const struct ftk_log_repair *r);

/* ---- line.c -------------------------------------------------------------------------- */

/* The log passes the line, which is committed.  calls: of ftkit_checkpoint() at the line. */
void ftk_line_pass(struct ftkit_ctx *ctx, enum ftk_pass kind, uint64_t calls);

/* ---- matched.c: the messages that a probe has matched, in a set ---------------------- */

struct ftk_saving;
struct ftk_loading;
/* requests.c: the set has so many more. */
void ftk_requests_count(uint64_t n);
/* Append them.  FTKIT_ERR_STATE: a message is in no registered variable. */
int ftk_matched_save(struct ftk_saving *s);
/* Read them.  *n: so many are among the matched messages now, also after an error. */
int ftk_matched_load(struct ftk_loading *l, uint64_t *n);

/* ---- image.c, line apart ------------------------------------------------------------- */

/* This rank cuts: write what changes after the cut.  Then late messages and the tail are known. */
int ftk_image_cut(void);
int ftk_image_finish(void);
/* Whether this rank was writing a set and has not seen the commit, which another rank knows. */
bool ftk_line_is_missed(const struct ftkit_ctx *ctx, const struct ftk_log_repair *r);

#endif
