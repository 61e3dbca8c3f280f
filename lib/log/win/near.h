/* Memory that the ranks of a node map from each other (near.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Functions that return int return MPI codes. */
#ifndef FTK_LOG_WIN_NEAR_H
#define FTK_LOG_WIN_NEAR_H

#include "log/win/look.h"
#include "log/win/win.h"

/* ---- a target ------------------------------------------------------------------------- */

/* Whether this rank has its memory where others of the node can map it. */
bool ftk_win_near_has_file(const struct ftk_win *w);
/* Copy the first bytes of the memory of this rank, which may have a file or none.  Those that
 * nobody has used stay without memory. */
void ftk_win_near_copy(const struct ftk_win *w, char *to, size_t bytes);
/* The address of the memory of this rank, and its token; 0: other ranks cannot map it. */
uint64_t ftk_win_near_address(const struct ftk_win *w, uint64_t *token);
/* MPI_Win_post has begun an exposure to an origin. */
void ftk_win_near_posted(struct ftk_win *w, int origin);

/* ---- an origin ------------------------------------------------------------------------ */

/* The memory of a rank in this process; NULL: not mapped. */
char *ftk_win_near_memory(const struct ftk_win *w, int rank);
/* Whether a rank is on this node and has not been asked for its memory; it has been asked now. */
bool ftk_win_near_may_ask(const struct ftk_win *w, int rank);
void ftk_win_near_asked(struct ftk_win *w, int rank);
bool ftk_win_near_is_asked(const struct ftk_win *w, int rank);
/* The program gets the address of the mapped memory of a rank: until the window is gone nothing
 * else comes to it. */
void ftk_win_near_show(struct ftk_win *w, int rank);
/* A rank has answered where its memory is. */
void ftk_win_near_offered(struct ftk_win *w, int rank, uint64_t address, uint64_t token);
/* This process alone combines elements of the memory of a rank, until it unlocks.  Nothing is done
 * for memory that is not mapped.  False: a process has ended, perhaps before its unlock.  So the
 * job goes back, and this process must not combine, nor unlock. */
bool ftk_win_near_lock(const struct ftk_win *w, int rank);
void ftk_win_near_unlock(const struct ftk_win *w, int rank);
/* The two words of a rank for meetings, and the number of the last meeting of this rank (meet.c).
 * words, NULL: the memory of the rank is not mapped. */
_Atomic uint64_t *ftk_win_near_words(const struct ftk_win *w, int rank);
uint64_t *ftk_win_near_meetings(const struct ftk_win *w);
/* MPI_Win_start has begun an epoch with a target. */
void ftk_win_near_started(struct ftk_win *w, int target);
/* A fence is over.  all_in: no rank has operations to apply in this fence. */
void ftk_win_near_fenced(struct ftk_win *w, bool all_in);
/* A fence had an error before it began: no rank knows any more how far the other is.  Until the
 * next rollback operations between fences are messages, of this rank and on it. */
void ftk_win_near_uncounted(struct ftk_win *w);
/* Whether a rank whose memory is mapped has come as far as this one: to the last fence; to the post
 * for the last start. */
bool ftk_win_near_is_fenced(const struct ftk_win *w, int rank);
bool ftk_win_near_has_posted(const struct ftk_win *w, int rank);
/* With a lock: a direct operation on a rank has been done, which gives data or also fetches some; a
 * flush or its like has come behind the operations on a rank. */
void ftk_win_near_opened(struct ftk_win *w, int rank, bool fetches);
void ftk_win_near_flushed(struct ftk_win *w, int rank);
/* Whether direct operations on a rank wait for their flush; one of them has fetched. */
bool ftk_win_near_is_open(const struct ftk_win *w, int rank);
bool ftk_win_near_has_fetched(const struct ftk_win *w, int rank);
/* Operations of this call have been done.  Whether the call should look at messages. */
enum ftk_win_look ftk_win_near_looks(struct ftk_win *w);

#endif
