/* A ring in memory that the processes of a node share: the ranks of the node give their
 * segments to the rank that writes the file.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Member 0 asks the other members one after the other, and takes the segment of each.  So a
 * ring of a few blocks is large enough for any number of members and any size of segments.
 * Helper threads use the ring; they must send no messages, and the ring sends none.  The memory
 * has no name: the members find it under /proc.  So nothing is left when the processes have
 * ended.
 *
 * No wait lasts for ever.  A wait for a member ends when the process of that member has ended,
 * when that member has left (its epoch is over) without having offered the set, when that member
 * or member 0 has given the set up, or when the waiting process wants to stop.  The wait then
 * returns FTKIT_ERR_PEER: the set is given up, and no rank is to blame. */
#ifndef FTK_STORE_RING_H
#define FTK_STORE_RING_H

#include <stdatomic.h>

#include "core/ftk.h"

#define FTK_RING_BLOCK ((size_t)1 << 20) /* bytes copied at a time */
#define FTK_RING_BLOCKS 8u

struct ftk_ring;

/* Where the members find the ring; all zero: there is no ring. */
struct ftk_ring_address {
    int64_t pid;
    int64_t fd;
    uint64_t token; /* also in the ring: in another pid name space pid is another process */
};

/* How long to wait. */
struct ftk_ring_wait {
    atomic_bool *stop; /* true: the wait ends */
    double patience_s; /* the wait ends after this time without a byte; 0: no such limit */
};

/* Member 0: make a ring for nmembers, member 0 included.  FTKIT_ERR_IO, ERR_NOSPACE, ERR_NOMEM:
 * memory cannot be shared. */
int ftk_ring_make(int nmembers, struct ftk_ring **ring, struct ftk_ring_address *at);
/* Member 0: all members that can join have joined. */
void ftk_ring_made(struct ftk_ring *ring);
/* Any other member: join.  The same errors, and FTKIT_ERR_NOT_FOUND. */
int ftk_ring_join(const struct ftk_ring_address *at, int member, struct ftk_ring **ring);
/* This member will offer no further set. */
void ftk_ring_leave(struct ftk_ring *ring);
void ftk_ring_close(struct ftk_ring *ring); /* leaves; NULL is fine */

/* Every member, also member 0: this member takes part in the flush of this set, with a segment
 * of bytes bytes.  Numbers of sets rise. */
void ftk_ring_offer(struct ftk_ring *ring, uint64_t set, size_t bytes);

/* A member other than 0: wait until member 0 asks, then hand over the offered segment. */
int ftk_ring_give(struct ftk_ring *ring, uint64_t set, const void *buf, size_t bytes,
    const struct ftk_ring_wait *wait);

/* Member 0: wait until a member has offered the set, and get the size of the segment; then
 * copy the segment to buf. */
int ftk_ring_offered(struct ftk_ring *ring, uint64_t set, int member, size_t *bytes,
    const struct ftk_ring_wait *wait);
int ftk_ring_take(struct ftk_ring *ring, uint64_t set, int member, void *buf, size_t bytes,
    const struct ftk_ring_wait *wait);

/* Member 0: give up writing this set. */
void ftk_ring_abandon(struct ftk_ring *ring, uint64_t set);

#endif
