/* A plane that stands still gets the state of another plane.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_CLONE_PLANE_H
#define FTK_CLONE_PLANE_H

#include "core/context.h"

/* The plane of this rank stands still: write the next set with the other ranks.  This rank gets the
 * segment of its sibling there.  The set is the line to restore then.  FTKIT_ERR_PEER: a rank has
 * failed. */
int ftk_clone_plane(struct ftkit_ctx *ctx);

#endif
