/* Replicas at a set: the regions, and with replicas.compare = messages the messages since the line,
 * are compared before the set is committed.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A set whose replicas differ is never committed.  What the ranks do then, the same on all:
 *
 *   - One of three replicas is odd: it gets the regions of the others, and the set is written
 *     again.
 *   - Otherwise the replicas of that rank go back to the line; the others stay.  If the set
 *     differs again, or if a message differs, all ranks go back.
 *   - If the set differs for the third time, or if there is no line yet, the job ends: the program
 *     is not deterministic.
 *
 * A flipped bit can also change the course of a replica: it leaves its loop early, say.  So before
 * each call in which all ranks wait for each other, the replicas of a rank exchange which
 * call it is. */
#ifndef FTK_REPLICAS_H
#define FTK_REPLICAS_H

#include "replica/compare.h"
#include "store/memory.h"

/* Compare the own segment (NULL: there is none, the set ends with an error) with those of the other
 * replicas, and mend the regions of the odd one of three.  Nothing is done without replicas.
 * FTKIT_ERR_PEER: a failure; FTKIT_ERR_CALLBACK: a region could not be mended. */
int ftk_replicas_compare(struct ftk_chan *ch, struct ftk_mem_seg *own, struct ftk_comparison *c);

/* This rank is about to wait for all ranks in a call of ftkit (ctx->replica.place).  Collective
 * over the replicas of the rank whose planes do not stand still.  FTKIT_ERR_PEER: a failure; or the
 * replicas are in different calls, and a repair follows, in which ranks go back or the job ends. */
int ftk_replicas_meet(struct ftk_chan *ch);

/* Two words of the vote that commits the set. */
void ftk_replicas_ask(
    const struct ftkit_ctx *ctx, const struct ftk_comparison *c, struct ftk_vote *v);

/* The call of ftkit in which this rank is (enum ftk_dog_place), or was last. */
static inline void ftk_replicas_at(struct ftkit_ctx *ctx, int place)
{
    ctx->replica.place = place;
}

/* A repair is over.  Planes that stand still until the next set: bit p; lost: ranks were lost, and
 * other planes take over. */
void ftk_replicas_stand_still(struct ftkit_ctx *ctx, unsigned planes, bool lost);

/* What the ranks have agreed on. */
enum { FTK_REPLICAS_AGAIN = 1 /* write the set again */ };

/* FTKIT_OK: commit the set.  FTK_REPLICAS_AGAIN.  FTKIT_ERR_PEER: a repair follows, in which ranks
 * go back, or the job ends. */
int ftk_replicas_agreed(
    struct ftk_chan *ch, uint64_t set, const struct ftk_comparison *c, const struct ftk_vote *v);

/* The set has ended with an error of some rank: the comparison does not count. */
void ftk_replicas_undecided(struct ftkit_ctx *ctx, const struct ftk_comparison *c);

/* A set is committed. */
void ftk_replicas_committed(struct ftkit_ctx *ctx);

#endif
