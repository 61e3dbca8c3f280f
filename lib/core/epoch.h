/* Communicators of earlier epochs.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A repair makes new communicators.  The old ones stay until the repair after it is over,
 * because late events of the MPI may still refer to them. */
#ifndef FTK_EPOCH_H
#define FTK_EPOCH_H

#include "context.h"

/* Keep a communicator of this epoch until the next repair is over.  MPI_COMM_NULL: nothing to
 * do.  FTKIT_ERR_NOMEM. */
int ftk_retire(struct ftkit_ctx *ctx, MPI_Comm comm);

/* A repair is over: free what was retired before it. */
void ftk_free_retired(struct ftkit_ctx *ctx);

#endif
