/* What the log does at a line and in a repair (see core/log_ops.h for each function).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_RECOVERY_H
#define FTK_LOG_RECOVERY_H

#include "log/log.h"
#include "log/base/words.h"

int ftk_recovery_share_teams(struct ftkit_ctx *ctx, MPI_Comm s, int root, int n);
int ftk_recovery_search(
    struct ftkit_ctx *ctx, MPI_Comm s, int root, const int *lost, int n, bool *all, bool *led);
int ftk_recovery_quiesce(
    struct ftkit_ctx *ctx, const struct ftk_log_repair *r, bool *missed, uint64_t *next);
int ftk_recovery_install(struct ftkit_ctx *ctx, const struct ftk_log_repair *r);

/* The phase of a rank that has rolled back and has the line again. */
enum ftk_phase ftk_recovery_phase(void);

int ftk_line_drain(struct ftk_chan *ch);
/* At a start this rank has found the set that it will restore: drop the messages of set-up. */
int ftk_line_leave_set_up(struct ftkit_ctx *ctx);
/* ... and has restored it. */
int ftk_line_loaded(struct ftkit_ctx *ctx);
bool ftk_line_of_earlier_job(const struct ftkit_ctx *ctx);
void ftk_line_end(struct ftkit_ctx *ctx, bool committed);

/* requests.c: what the program has under way, in a set.  At a line, after the drain: check that a
 * set can have it, and write it as words, until the set is over. */
int ftk_requests_save(struct ftkit_ctx *ctx);
/* Read the words; drop what has been read, if it has not begun. */
int ftk_requests_load(struct ftkit_ctx *ctx, const uint64_t *w, const uint64_t *end);
void ftk_requests_drop(void);
/* Numbers of requests and matched messages in a set (core/log_ops.h). */
int64_t ftk_requests_number(MPI_Request request);
MPI_Request ftk_requests_back(int64_t number);
int64_t ftk_requests_message_number(MPI_Message message);
MPI_Message ftk_requests_message_back(int64_t number);

/* calls.c, for the table of log_ops.h */
void ftk_calls_reschedule(uint64_t next_event);
bool ftk_calls_repeats(void);
int ftk_calls_pass_line(struct ftkit_ctx *ctx);
bool ftk_calls_replayed(struct ftkit_ctx *ctx, bool at_line, int *code);
int ftk_calls_outcome(struct ftkit_ctx *ctx, bool at_line, int code);
/* handles.c: [FTK_HANDLE_KINDS] */
extern const struct ftk_handle_ops *const ftk_handle_kinds[FTK_HANDLE_KINDS];
/* teams.c: the team of each rank, the same on all ranks; NULL: not known yet. */
const int *ftk_teams(void);
/* silent.c: set bit t of teams, [ (n + 63) / 64 ] zeros, if this rank has sent a message to team t
 * since the line without keeping it.  False: the team of this rank keeps its messages. */
bool ftk_silent_sent_to(uint64_t *teams);
/* teams.c: how many teams there are, of what sizes, and how many of them are silent; zeros: not
 * known yet. */
struct ftk_teams_counts {
    int teams, least, most, silent;
};
struct ftk_teams_counts ftk_teams_counts(void);
/* teams.c: what rank 0 says of them at an opening. */
void ftk_teams_say(const struct ftkit_ctx *ctx);
/* image.c: the region of the log in a set. */
extern const struct ftk_system_region ftk_image_region;

/* session.c: the parts of the log are registered, and ftk_log gets its kinds of requests
 * and determinants.
 * ftk_log has its mode. */
void ftk_session_begin(void);

/* Read the set-up log of the lost process, from its part of the line, into the unexpected messages.
 * Codes of ftkit. */
int ftk_log_read_setup(struct ftkit_ctx *ctx, uint64_t line);

#endif
