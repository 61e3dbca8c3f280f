/* exit() with an open context.  MPI does not report a process that calls exit(): the other
 * processes would wait for ever.  So a process that exits with an open context kills itself, which
 * MPI reports (recover.exit_is_failure).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_EXIT_GUARD_H
#define FTK_EXIT_GUARD_H

#include "core/context.h"

/* A context is open (change 1), or is not open any more (-1). */
void ftk_guard_exit(const struct ftkit_ctx *ctx, int change);

/* Whether a C++ exception unwinds the stack of this thread. */
bool ftk_guard_unwinds(void);

#endif
