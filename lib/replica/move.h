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

#endif
