/* Letters: what the log itself tells other ranks between the program's messages.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_POST_H
#define FTK_LOG_POST_H

#include "log/log.h"

/* Words of 64 bits to a rank, on a communicator of the log; they are free again at once.
 * MPI codes. */
int ftk_post(const uint64_t *w, size_t words, int dest, int tag, int context);
/* Those that the MPI has not finished sending, after one look. */
size_t ftk_post_sending(void);
void ftk_post_close(void);

/* The tag of letters on the program's communicators, which it cannot use. */
enum { FTK_POST_TAG = INT32_MAX }; /* what Open MPI calls MPI_TAG_UB */

/* Receive a letter that a probe has matched: *w is the caller's to free, also on error. */
int ftk_post_take(int context, MPI_Message *m, const MPI_Status *s, uint64_t **w, size_t *words);

#endif
