/* Intercommunicators: what the making of communicators and collectives need of them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Where both groups act together (an agreement, a barrier, a merge) their ranks have one
 * order that is the same on all of them: the group with the lowest rank of the world
 * comes first. */
#ifndef FTK_LOG_INTER_H
#define FTK_LOG_INTER_H

#include "log/log.h"

/* Ranks of both groups, or of the one there is; the number of this process among them;
 * the world rank of the i-th. */
static inline int ftk_vcomm_members(const struct ftk_vcomm *vc)
{
    return vc->size + (vc->remote ? vc->remote->size : 0);
}
static inline int ftk_vcomm_place(const struct ftk_vcomm *vc)
{
    return vc->rank + (vc->remote && vc->remote->first ? vc->remote->size : 0);
}
/* Whether the i-th is of the local group; *rank: its rank in its group. */
static inline bool ftk_vcomm_is_local(const struct ftk_vcomm *vc, int i, int *rank)
{
    bool local_first = !vc->remote || !vc->remote->first;
    int front = local_first ? vc->size : vc->remote->size;
    *rank = i < front ? i : i - front;
    return (i < front) == local_first;
}
static inline int ftk_vcomm_nth(const struct ftk_vcomm *vc, int i)
{
    int rank;
    return ftk_vcomm_is_local(vc, i, &rank) ? ftk_vcomm_world(vc, rank) : vc->remote->member[rank];
}

/* One with room for so many members and none in it; NULL: no memory. */
struct ftk_remote *ftk_remote_new(int members);
void ftk_remote_free(struct ftk_remote *r);
/* One like from; NULL: no memory. */
struct ftk_remote *ftk_remote_copy(const struct ftk_remote *from);
/* Its members are known, and those of the local group: the way back, and the order of
 * both. False: a rank is in both groups, or twice in one. */
bool ftk_remote_seal(struct ftk_vcomm *vc);

#endif
