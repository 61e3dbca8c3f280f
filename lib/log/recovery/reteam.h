/* log.teams = dynamic: teams that follow the communication of the program.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_RETEAM_H
#define FTK_LOG_RETEAM_H

#include "core/log_ops.h"

/* At an opening, home [n] is known: FTKIT_ERR_CONFIG: teams of log.team_size cannot keep nodes
 * whole.  The same on all ranks. */
int ftk_reteam_check(const struct ftkit_ctx *ctx, const int *home, int n);

/* Collective over ch: a set is being written, and all messages are drained.  Rank 0 shares the
 * teams that it has made; or the ranks give rank 0 their rows of the matrix.  FTKIT_OK or
 * FTKIT_ERR_PEER. */
int ftk_reteam_meet(struct ftk_chan *ch);

#endif
