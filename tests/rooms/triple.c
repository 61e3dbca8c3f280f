/* The scheme triple, for tests/rooms.t: two copies of each segment, in the next two failure
 * domains.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "scheme.h"
#include "store/map.h"

static int place(int map, int nranks, const int *domain, int *holder)
{
    (void)map; /* the holder of the holder is a third rank in a ring */
    int rc = ftk_map_buddies(FTK_MAP_RING, nranks, domain, holder);
    for (int r = 0; rc >= 0 && r < nranks; r++) {
        int second = holder[r] >= 0 ? holder[holder[r]] : -1;
        holder[nranks + r] = second == r ? -1 : second;
    }
    return rc < 0 ? rc : FTKIT_OK;
}

extern const struct ftk_scheme_ops ftk_scheme_triple;
const struct ftk_scheme_ops ftk_scheme_triple = { place };
