/* Messages that completed while receives posted earlier had not.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Functions that return int return MPI codes, unless their comment says otherwise. */
#ifndef FTK_LOG_OVERTAKE_H
#define FTK_LOG_OVERTAKE_H

#include "log/request/request.h"

struct ftk_channel;

/* The receive with that sequence number has completed; receives posted earlier may not have. */
int ftk_overtake_note(uint64_t seq, int context, int source, int tag);
/* How many messages of the channel completed before q, although q was posted earlier: then the MPI
 * had matched q before them.  0: q cannot get messages of the channel. */
size_t ftk_overtake_count(const struct ftk_channel *s, const struct ftk_req *q);
/* How many messages the list has; 0: no receive is overtaken. */
size_t ftk_overtake_length(void);
/* Drop the messages that say nothing of the receives under way. */
void ftk_overtake_tidy(void);
/* No receive under way has been matched. */
void ftk_overtake_clear(void);

#endif
