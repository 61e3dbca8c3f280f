/* Redundancy schemes: where the copies or the parity of a segment are, and how they get there.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_SCHEME_H
#define FTK_SCHEME_H

#include "core/schemes.h"

struct ftk_write_ops;

/* What the file of a scheme defines: const struct ftk_scheme_ops ftk_scheme_<word>. */
struct ftk_scheme_ops {
    /* Fill holder [copies][nranks] with the rank that keeps each copy of each rank's segment, -1:
     * nobody does.  domain [nranks] is the failure domain of each rank, map an enum ftk_map.  The
     * copies of a rank have different holders.  Pure: the same on all ranks.  FTKIT_ERR_NOMEM.
     * NULL: a scheme without copies. */
    int (*place)(int map, int nranks, const int *domain, int *holder);
    const struct ftk_write_ops *write; /* write.h */
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
