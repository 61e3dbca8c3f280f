/* Line apart: the tail of a rank's part of a set.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The tail has what belongs to the line and is known only after the cut: the numbers of early
 * messages, of both their senders and their receivers, and the determinants of the window.  (Late
 * messages are among the unexpected messages of the set.)  In words of 64 bits: how many channels
 * to this rank have early messages, and for each context, source, tag and number; the same for
 * channels from this rank; the number of determinants, and two words for each.
 *
 * Functions return codes of ftkit. */
#ifndef FTK_LOG_TAIL_H
#define FTK_LOG_TAIL_H

#include "log/base/words.h"

/* At a line apart whose numbers all ranks have announced: append the tail. */
int ftk_tail_write(struct ftk_words *w);
/* Read the n words of a set that is being restored.  Nothing is trusted. */
int ftk_tail_read(const uint64_t *w, size_t n);
/* The restored rank goes on: early messages count as received, and are not sent again; the
 * determinants of the window are repeated. */
int ftk_tail_apply(void);
void ftk_tail_forget(void);

#endif
