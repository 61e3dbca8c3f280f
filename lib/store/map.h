/* Maps: the holder of each rank's copy, and the parity group of each rank.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_STORE_MAP_H
#define FTK_STORE_MAP_H

#include "core/config.h"

/* Fill holder [nranks]: the rank that keeps the copy of each rank's segment.
 *
 * domain [nranks] is the failure domain (any int) of the process that carries each rank.  Domains
 * are ordered by their lowest rank.  FTK_MAP_PAIR: domains 2i and 2i+1 keep each other's copies; if
 * the number of domains is odd, the last three make a ring.  FTK_MAP_RING: the copies of each
 * domain go to the next domain.  Between domains of equal size, the copy of the j-th rank goes to
 * the j-th rank; between domains of unequal sizes, the copies are spread as evenly as possible.  If
 * there is only one domain, every rank counts as a domain: the copies survive the loss of a
 * process, but not the loss of the domain.  If there is only one rank, holder[0] = -1.
 *
 * Deterministic: the same on every rank.  Return the number of ranks without a holder in another
 * domain (0: the copies survive the loss of a domain), < 0: FTKIT_ERR_NOMEM. */
int ftk_map_buddies(int map, int nranks, const int *domain, int *holder);

/* Fill group [nranks]: the parity group of each rank, numbered from 0.
 *
 * No group has two ranks of one domain, and no group has more than size members (2 to 32).  The
 * sizes of two groups differ by at most one.  If there is only one domain, every rank counts as a
 * domain.  The ranks are dealt out to the groups domain by domain.  So a large domain, of more than
 * nranks / size ranks, makes more and smaller groups.  A group of one rank makes no parity.
 *
 * Deterministic: the same on every rank.  Return the number of groups, < 0: FTKIT_ERR_NOMEM. */
int ftk_map_groups(int size, int nranks, const int *domain, int *group);

/* Return how many members a group of n may lose, if m are wished for; 0: a rank is alone. */
static inline int ftk_group_parities(int n, int m)
{
    return m < n ? m : n - 1;
}

#endif
