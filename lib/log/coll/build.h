/* The algorithms of collectives: each builds the schedule of a call.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_BUILD_H
#define FTK_LOG_BUILD_H

#include "log/coll/schedule.h"

/* Where the distance of the ranks that exchange doubles, each rank of a team logs messages.  With
 * more ranks than these too many messages would cross the borders of teams. */
#define FTK_FEW_RANKS 32

static inline bool ftk_is_power_of_two(int n)
{
    return (n & (n - 1)) == 0;
}

void ftk_coll_build(struct ftk_coll *c);    /* schedule.c */
void ftk_build_barrier(struct ftk_coll *c); /* algo.c */
void ftk_build_broadcast(struct ftk_coll *c);
/* Broadcast when all ranks know count and type, or at least the number of bytes. */
void ftk_build_bcast(struct ftk_coll *c, void *buf, int count, MPI_Datatype type, int root);
/* doubling.c.  The number of ranks is a power of two where the operands are halved. */
void ftk_build_doubling_allreduce(struct ftk_coll *c);
void ftk_build_halving_allreduce(struct ftk_coll *c);
void ftk_build_halving_reduce(struct ftk_coll *c);
void ftk_build_reduce(struct ftk_coll *c); /* reduce.c */
/* The address of the operand of this rank. */
const void *ftk_coll_input(const struct ftk_call *a);
/* Whether the operation of the call is commutative. */
bool ftk_coll_commutes(struct ftk_coll *c);
/* Copy count items of the type of the call, unless from is into. */
void ftk_coll_copy_same(struct ftk_coll *c, const void *from, void *into, int count);
void ftk_build_allreduce(struct ftk_coll *c);
void ftk_build_reduce_scatter(struct ftk_coll *c);
void ftk_build_scan(struct ftk_coll *c);
void ftk_build_exscan(struct ftk_coll *c);
void ftk_build_gather(struct ftk_coll *c); /* algo.c */
void ftk_build_gatherv(struct ftk_coll *c);
void ftk_build_scatter(struct ftk_coll *c);
void ftk_build_scatterv(struct ftk_coll *c);
void ftk_build_allgather(struct ftk_coll *c); /* all.c */
void ftk_build_alltoall(struct ftk_coll *c);
void ftk_build_neighbor_allgather(struct ftk_coll *c); /* neighbor.c */
void ftk_build_neighbor_alltoall(struct ftk_coll *c);
/* inter.c: any collective on an intercommunicator; checks the arguments, too. */
void ftk_build_inter(struct ftk_coll *c);
/* Offsets of the packed blocks of nblocks ranks, by the receiving side; the last entry is the
 * sum. */
size_t *ftk_coll_offsets(struct ftk_coll *c, int nblocks);
/* Whether the blocks in the program's buffer are where packed blocks would be. */
bool ftk_coll_is_packed(struct ftk_coll *c, const size_t *off, int nblocks);

#endif
