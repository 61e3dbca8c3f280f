/* checkpoint.line = apart: each rank cuts at its own next call of ftkit_checkpoint().
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Functions return codes of ftkit, unless their comment says otherwise. */
#ifndef FTK_LOG_APART_H
#define FTK_LOG_APART_H

#include "core/log_ops.h"

/* In ftkit_checkpoint(), after the first line (log_ops.h: checkpoint). */
int ftk_apart_checkpoint(struct ftkit_ctx *ctx);
/* The set of a halt is committed: all calls fail. */
bool ftk_apart_is_halted(void);
/* Collective, in another call of ftkit that all ranks make together (log_ops.h: finish_set). */
int ftk_apart_finish_set(struct ftkit_ctx *ctx, struct ftk_chan *ch);

#endif
