/* The scheme buddy: a copy of each segment in another failure domain.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Buddy copies: Zheng et al., Cluster 2004.  store/map.h pairs the domains. */
#include "scheme.h"
#include "store/map.h"

static int place(int map, int nranks, const int *domain, int *holder)
{
    int rc = ftk_map_buddies(map, nranks, domain, holder);
    return rc < 0 ? rc : FTKIT_OK;
}

extern const struct ftk_scheme_ops ftk_scheme_buddy;
const struct ftk_scheme_ops ftk_scheme_buddy = { place };
