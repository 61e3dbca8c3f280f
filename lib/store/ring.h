/* A ring in memory that the processes of a node share: ranks hand their segments to the one
 * of them that writes.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Member 0 takes, the others give, one after the other, when they are asked; so the ring
 * is as small as a few blocks however many members there are and however large their
 * segments.  It is for helper threads: nothing in it sends messages.  It has no name (the
 * members find it under /proc), so nothing is left of it when its processes are gone.
 *
 * Nobody waits for ever: a member whose process is gone, or that has left (its epoch is
 * over) without having offered the set, ends the waits of those that need it, and so does
 * their own wish to stop.  Such an end is FTKIT_ERR_PEER: the set is given up, by nobody's
 * fault. */
#ifndef FTK_STORE_RING_H
#define FTK_STORE_RING_H

#include <stdatomic.h>

#include "core/ftk.h"

#define FTK_RING_BLOCK ((size_t)1 << 20) /* bytes copied at a time */
#define FTK_RING_BLOCKS 8u

struct ftk_ring;

/* Where the members find it; all zero: nowhere. */
struct ftk_ring_address {
    int64_t pid;
    int64_t fd;
    uint64_t token; /* is in the ring too: a process of another name space is not meant */
};

/* How long to wait. */
struct ftk_ring_wait {
    atomic_bool *stop; /* ends it */
    double patience_s; /* so long without a byte from a member that lives */
};

/* Member 0: a ring for so many, itself included.  FTKIT_ERR_IO, ERR_NOSPACE, ERR_NOMEM
 * where memory cannot be shared. */
int ftk_ring_make(int nmembers, struct ftk_ring **ring, struct ftk_ring_address *at);
/* Everybody who will come has joined. */
void ftk_ring_made(struct ftk_ring *ring);
/* Any other member.  The same errors, and FTKIT_ERR_NOT_FOUND. */
int ftk_ring_join(const struct ftk_ring_address *at, int member, struct ftk_ring **ring);
/* This member offers nothing after what it has offered. */
void ftk_ring_leave(struct ftk_ring *ring);
void ftk_ring_close(struct ftk_ring *ring); /* leaves; NULL is fine */

/* Every member, member 0 too: it will take part in the flush of this set, with so many
 * bytes.  Numbers of sets rise. */
void ftk_ring_offer(struct ftk_ring *ring, uint64_t set, size_t bytes);

/* Another member: hand over what was offered. */
int ftk_ring_give(struct ftk_ring *ring, uint64_t set, const void *buf, size_t bytes,
    const struct ftk_ring_wait *wait);

/* Member 0: the bytes a member offers, then those into buf. */
int ftk_ring_offered(struct ftk_ring *ring, uint64_t set, int member, size_t *bytes,
    const struct ftk_ring_wait *wait);
int ftk_ring_take(struct ftk_ring *ring, uint64_t set, int member, void *buf, size_t bytes,
    const struct ftk_ring_wait *wait);

/* Member 0: this set is not written any further. */
void ftk_ring_abandon(struct ftk_ring *ring, uint64_t set);

#endif
