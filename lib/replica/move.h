/* Moving bytes between the replicas of a rank.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_MOVE_H
#define FTK_MOVE_H

#include "detect/detect.h"

/* Move bytes from the replica in plane `from` into buf of the replicas in other planes; to: bit p:
 * plane p.  The replicas of the rank that are in none of these planes do nothing.  what: for error
 * texts.  FTKIT_ERR_PEER: a failure. */
int ftk_sphere_move(
    struct ftk_chan *ch, void *buf, size_t bytes, int from, unsigned to, const char *what);

/* Each replica of the rank sends `bytes` bytes to the others.  all [planes][bytes]: the part of
 * this replica is in place already.  FTKIT_ERR_PEER: a failure. */
int ftk_sphere_exchange(struct ftk_chan *ch, void *all, size_t bytes, const char *what);
/* The same among the replicas in these planes, bit p: plane p, to which this one belongs. */
int ftk_sphere_exchange_in(
    struct ftk_chan *ch, unsigned planes, void *all, size_t bytes, const char *what);

#endif
