/* Redundancy schemes: where the copies of a segment are.  How copies or parity get there is in
 * write.h, so that a program without MPI can ask where they are.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_SCHEME_H
#define FTK_SCHEME_H

#include "core/schemes.h"

/* What the file of a scheme defines: const struct ftk_scheme_ops ftk_scheme_<word>. */
struct ftk_scheme_ops {
    /* Fill holder [copies][nranks] with the rank that keeps each copy of each rank's segment, -1:
     * no rank does.  domain [nranks] is the failure domain of each rank, map an enum ftk_map.  The
     * copies of a rank have different holders.  Pure: the same on all ranks.  FTKIT_ERR_NOMEM.
     * NULL: a scheme without copies. */
    int (*place)(int map, int nranks, const int *domain, int *holder);
};

struct ftk_scheme {
    int copies;   /* of a segment at other ranks */
    int parities; /* of a group; FTK_PARITIES_ASKED: level.*.parity; 0: no groups */
    const struct ftk_scheme_ops *ops;
};

/* Return the scheme with this enum ftk_scheme_number. */
const struct ftk_scheme *ftk_scheme_of(int number);

/* Fill holder [copies][nranks] by the scheme's place(); a copy without a holder gets -1. */
int ftk_scheme_place(
    const struct ftk_scheme *s, int map, int nranks, const int *domain, int *holder);

#endif
