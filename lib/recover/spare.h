/* Spare processes.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_SPARE_H
#define FTK_SPARE_H

#include "core/context.h"

/* Wait as a spare.  FTKIT_OK: this process carries a rank now; FTK_PARTED: the job is over; an
 * error: the context is dead. */
int ftk_spare_wait(struct ftkit_ctx *ctx);
/* A set is committed: rank 0 sends the sizes of its segments to the spares, once in an epoch and
 * again when a size has grown.  Other ranks do nothing.  Does not wait. */
void ftk_spare_announce(const struct ftkit_ctx *ctx);
/* Forget what the spares have got.  Before the communicators are freed. */
void ftk_spare_close(void);

#endif
