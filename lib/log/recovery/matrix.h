/* Who has sent how much to whom: the communication matrix of the program.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Every rank has its row, messages and bytes to each rank since the first line; before it
 * each rank is a team of its own, whatever the teams are.  The row is part of the rank's
 * state: it goes back with the rank, and a replacement has that of the line.  So a message
 * counts once, however often it was sent again. */
#ifndef FTK_LOG_MATRIX_H
#define FTK_LOG_MATRIX_H

#include "log/log.h"

/* log_ops.h: matrix. */
int ftk_matrix_save(struct ftkit_ctx *ctx, struct ftk_chan *ch);

#endif
