/* Planes that stand still get the state of another plane: at a set.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * After the loss of a rank its plane stands still, and a whole plane goes on to its next call of
 * ftkit_checkpoint().  All ranks write a set there.  A rank of a plane that stands still has no
 * state of its own: its segment is a copy of its sibling's.  When the set is committed, the rank
 * restores this segment.  So it continues at the call that wrote the set, as after a rollback.
 * [DINO 4-6: a clone of the sibling, by pages of the process; here by regions] */
#ifndef FTK_CLONE_H
#define FTK_CLONE_H

#include "detect/detect.h"
#include "pack.h"
#include "store/memory.h"

/* Whether the plane of this rank stands still. */
static inline bool ftk_clone_is_here(const struct ftkit_ctx *ctx)
{
    return ctx->repair.pending == FTK_PENDING_CLONE;
}

/* The plane whose state the others get: the lowest that is whole. */
int ftk_clone_source(const struct ftkit_ctx *ctx);

/* The steps of such a set; the other replicas of a rank do nothing in them.  FTKIT_ERR_PEER: a rank
 * has failed. */

/* The sizes of the segment: from the sibling. */
int ftk_clone_sizes(struct ftk_chan *ch, size_t *head_bytes, size_t *data_bytes);
/* The sibling: all blocks are packed; send the segment. */
int ftk_clone_send(struct ftk_chan *ch, struct ftk_packer *p);
/* Receive the segment into own, and make it the segment of this rank; p: as if all were packed. */
int ftk_clone_receive(struct ftk_chan *ch, struct ftk_mem_seg *own, struct ftk_packer *p);

/* A collective call of ftkit begins that writes no set, or this rank closes: if planes stand still,
 * they have to return to the line.  FTKIT_ERR_PEER: a repair follows. */
int ftk_clone_give_up(struct ftkit_ctx *ctx);

#endif
