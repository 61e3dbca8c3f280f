/* Who keeps whose copy: buddies in other failure domains.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_STORE_MAP_H
#define FTK_STORE_MAP_H

#include "core/config.h"

/* Fill holder[nranks]: the rank that keeps the copy of each rank's segment.
 *
 * domain[nranks] is the failure domain (any int) of the process that carries each rank.
 * Domains are taken in the order of their lowest rank.  map FTK_MAP_PAIR: domains 2i and
 * 2i+1 keep each other's copies, an odd one out makes a ring of three with the last pair;
 * FTK_MAP_RING: each domain's copies go to the next.  Within two domains of equal size
 * the j-th rank goes to the j-th; with unequal sizes copies are spread as evenly as can
 * be.  With one domain only, ranks are paired (or ringed) among themselves, which
 * survives a process but not the domain.  One rank alone: holder[0] = -1.
 *
 * Deterministic: the same on every rank.  Returns the number of ranks whose holder is in
 * their own domain (0 when the copies survive the loss of a domain), < 0 for ERR_NOMEM. */
int ftk_map_buddies(int map, int nranks, const int *domain, int *holder);

/* Fill group[nranks]: the parity group of each rank, numbered from 0.
 *
 * No two ranks of a domain are in one group, and no group has more than size members (2
 * to 32); sizes differ by one at most.  With one domain only every rank counts as one.
 * The ranks are dealt out domain by domain, so a domain of more ranks than there would be
 * groups makes more and smaller ones; groups of one rank have nobody to make parity with.
 *
 * Deterministic.  Returns the number of groups, < 0 for ERR_NOMEM. */
int ftk_map_groups(int size, int nranks, const int *domain, int *group);

#endif
