/* The end of a job that was asked to stop: its last set, and who learns of the end.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_HALT_H
#define FTK_HALT_H

#include "detect/detect.h"

/* Whether the set of a halt is committed: the job writes no further set. */
bool ftk_is_halted(const struct ftkit_ctx *ctx);
/* The same, and no call of this rank has returned FTKIT_HALT yet. */
bool ftk_halts_now(const struct ftkit_ctx *ctx);
/* A step of all ranks: wait until the set of the halt is on the file system. */
int ftk_halt_drain(struct ftkit_ctx *ctx, struct ftk_chan *ch, int *bad);
/* All ranks have taken that step.  rc: why the set is not there, or FTKIT_OK.  FTKIT_HALT. */
int ftk_halt_end(struct ftkit_ctx *ctx, int rc);

#endif
