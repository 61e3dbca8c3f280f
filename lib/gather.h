/* The processes of a new job meet: they agree on the configuration, the programs and the teams.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_GATHER_H
#define FTK_GATHER_H

#include "core/context.h"

/* Make *start of the live processes of comm, and compare their configurations.  comm is shrunk and
 * not duplicated, because members may be dead already.  local: the error of this process, or
 * FTKIT_OK; repair: whether it can repair.  Sets ctx->mode, to restart only if any process cannot
 * repair, ctx->programs, ctx->teams, and ctx->cfg.spares to the spares of all programs.  *job: a
 * number for the job.  An error is one on all processes. */
int ftk_gather(
    struct ftkit_ctx *ctx, MPI_Comm comm, int local, bool repair, uint64_t *job, MPI_Comm *start);

#endif
