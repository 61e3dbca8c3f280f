/* Leaving the body of ftkit_escape() from an MPI call that a failure has ended.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_ESCAPE_H
#define FTK_ESCAPE_H

#include "context.h"

/* An MPI call of the program fails because of a failure that makes this rank roll back, and nothing
 * of ftkit or of the MPI is left to do in the call: leave the body that runs.  Returns if there is
 * none, if another thread runs it, or if a call of ftkit in it has made this MPI call. */
void ftk_escape_leave(struct ftkit_ctx *ctx);

/* The context is being closed: the body that runs must not use it any more. */
void ftk_escape_forget(struct ftkit_ctx *ctx);

#endif
