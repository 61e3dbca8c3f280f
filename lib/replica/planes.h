/* Planes and spheres: the ranks of a job with replicas (replicas.count > 1).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The program has n ranks.  A plane is one whole copy of them, and a sphere has the replicas of one
 * rank [DINO 4].  Within ftkit each process that works has a rank of its own, from 0 to
 * replicas.count * n - 1: rank p * n + r is the replica of rank r of the program in plane p.  So
 * sets, logs and repairs need no further rules for replicas.  Messages of the program stay within a
 * plane: MPI_COMM_WORLD and ftkit_comm() have the ranks of one plane. */
#ifndef FTK_PLANES_H
#define FTK_PLANES_H

#include "core/context.h"

/* The ranks of the program. */
static inline int ftk_plane_size(const struct ftkit_ctx *ctx)
{
    return ctx->nranks / ctx->cfg.replicas;
}

static inline int ftk_plane_of(const struct ftkit_ctx *ctx, int rank)
{
    return rank / ftk_plane_size(ctx);
}

/* The rank of the program that a rank is a replica of. */
static inline int ftk_plane_home(const struct ftkit_ctx *ctx, int rank)
{
    return rank % ftk_plane_size(ctx);
}

/* The replica of this rank in a plane. */
static inline int ftk_sphere_rank(const struct ftkit_ctx *ctx, int plane)
{
    return plane * ftk_plane_size(ctx) + ftk_plane_home(ctx, ctx->rank);
}

/* Check that the working processes make whole planes.  size: of the communicator, with spares.
 * FTKIT_ERR_CONFIG, with the arithmetic; FTKIT_ERR_UNSUPPORTED: the job cannot repair. */
int ftk_planes_check(const struct ftkit_ctx *ctx, int size);

/* The identity of the job's sets: jobs with other numbers of planes do not take them. */
uint64_t ftk_planes_identity(const struct ftkit_ctx *ctx, uint64_t home);

/* This process has its rank for the first time.  fresh: no rank has failed yet; then rank 0 reports
 * the planes.  With replicas.output = first the standard output of planes above 0 ends here.
 * FTKIT_ERR_CONFIG: replicas of a rank share a node, although topology.ranks_per_node names nodes:
 * the same on all ranks.  FTKIT_ERR_IO. */
int ftk_planes_open(const struct ftkit_ctx *ctx, bool fresh);

/* A repair has placed replacements.  If more replicas than before share a node with another one of
 * their rank, a line says so; reports: on this process. */
void ftk_planes_repaired(struct ftkit_ctx *ctx, bool reports);

/* The number of replicas that do not protect their rank now: their plane stands still, or they
 * share a node with another replica of the rank. */
int ftk_planes_degraded(const struct ftkit_ctx *ctx);

#endif
