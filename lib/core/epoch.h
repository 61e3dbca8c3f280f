/* Communicators of earlier epochs.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A repair makes new communicators.  The old ones are kept until the following repair is over,
 * because late events of the MPI may still refer to them; those of the program until the context is
 * closed. */
#ifndef FTK_EPOCH_H
#define FTK_EPOCH_H

#include "context.h"

/* Retire a communicator: ftk_mpi_free() is called when the next repair is over.  MPI_COMM_NULL: no
 * effect.  FTKIT_ERR_NOMEM. */
int ftk_retire(struct ftkit_ctx *ctx, MPI_Comm comm);

/* The same for a communicator that the program has used. */
int ftk_retire_app(struct ftkit_ctx *ctx, MPI_Comm comm);
/* Whether comm was retired by ftk_retire_app(). */
bool ftk_was_app(const struct ftkit_ctx *ctx, MPI_Comm comm);

/* A repair is over: free the communicators that were retired before the previous call. */
void ftk_free_retired(struct ftkit_ctx *ctx);
/* The context is closed: free all. */
void ftk_free_all_retired(struct ftkit_ctx *ctx);

#endif
