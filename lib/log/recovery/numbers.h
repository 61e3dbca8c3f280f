/* Line apart: numbers of messages, which the ranks exchange.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * FTK_TAG_COUNTS: a sender announces how many messages it had sent on each channel at its cut.
 * FTK_TAG_EARLY: a receiver announces how many messages of each channel are early.  Numbers of 0
 * are not sent.  Functions return codes of ftkit; FTKIT_ERR_PEER: a rank has failed. */
#ifndef FTK_LOG_NUMBERS_H
#define FTK_LOG_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

/* Begin to send the numbers of this rank for a set. */
int ftk_numbers_send(int tag, uint64_t set);
/* Whether the receivers have taken all numbers of this rank. */
bool ftk_numbers_are_taken(void);
/* Take the numbers for this rank that have come, without waiting.  Numbers for another set are
 * dropped. */
int ftk_numbers_take(int tag, uint64_t set);
/* The set is given up, or the communicator is revoked: forget the numbers under way. */
void ftk_numbers_drop(void);

#endif
