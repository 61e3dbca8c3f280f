/* Segments of the line that are rebuilt from parity.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_REBUILD_H
#define FTK_REBUILD_H

#include "plan.h"

/* Rebuild lost segments and parities of the line from the parity of their groups. */
int ftk_rebuild(
    struct ftkit_ctx *ctx, struct ftk_mem *mem, struct ftk_chan *ch, const struct ftk_plan *p);

#endif
