/* Ranks in a set of a job with replicas (replica/planes.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages of the program stay within a plane.  So the state of the log in a set names other ranks
 * by their rank within the plane.  The replicas of a rank have the same state, and one of them can
 * be restored from the set of another one. */
#ifndef FTK_LOG_PLANE_H
#define FTK_LOG_PLANE_H

#include "log/log.h"

/* The ranks of a plane; without replicas all ranks.  A repair asks before the context knows its
 * ranks, so ftk_plane_size() would be too early. */
static inline int ftk_log_plane_size(void)
{
    return ftk_log.n / ftk_log.ctx->cfg.replicas;
}

static inline int ftk_log_plane_of(int rank)
{
    return rank / ftk_log_plane_size();
}

/* The rank within its plane of a rank of this plane, and the reverse. */
static inline uint64_t ftk_log_to_plane(int rank)
{
    return (uint64_t)(rank % ftk_log_plane_size());
}
static inline int ftk_log_from_plane(int rank)
{
    const int size = ftk_log_plane_size();
    return ftk_log.me / size * size + rank;
}

/* Whether all ranks of a plane roll back: then the events since the line are void there. */
static inline bool ftk_log_plane_is_back(const struct ftk_log_repair *r, int plane)
{
    const int n = ftk_log_plane_size();
    for (int k = plane * n; k < (plane + 1) * n; k++)
        if (!r->back[k])
            return false;
    return true;
}

#endif
