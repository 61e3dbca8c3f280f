/* Closing contexts.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_CLOSE_H
#define FTK_CLOSE_H

#include "core/context.h"

/* Free a context, also one whose opening has failed. */
void ftk_free_context(struct ftkit_ctx *ctx);
/* Close contexts that are open when the program calls MPI_Finalize.  FTKIT_ERR_MPI. */
int ftk_guard_finalize(void);

#endif
