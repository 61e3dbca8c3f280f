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

/* A row: row[0] pairs, then of each pair: to, messages, bytes. */
enum { FTK_ROW_WORDS = 3 };

/* Collective over ch.  Rank 0 takes the rows of all ranks in the order of the ranks.  row: of this
 * rank; on rank 0 it has room for a pair with each rank, and is overwritten. */
int ftk_matrix_collect(struct ftk_chan *ch, uint64_t *row,
    void (*take)(void *arg, int from, const uint64_t *row), void *arg);

/* log_ops.h: matrix. */
int ftk_matrix_save(struct ftkit_ctx *ctx, struct ftk_chan *ch);

#endif
