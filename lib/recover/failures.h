/* The losses of the last repairs, and why (ftkit_failures()).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_FAILURES_H
#define FTK_FAILURES_H

#include <stdint.h>

struct ftkit_ctx;
struct ftk_attempt;
struct ftk_failures;

/* Make the list of an attempt, without losses: the processes of the next epoch.
 * FTKIT_ERR_NOMEM. */
int ftk_failures_begin(struct ftk_attempt *a);
/* Collective over the ranks of the next epoch: all get the losses that root knows, and the reasons
 * that any rank knows.  root: the lowest rank that has survived, or 0. */
int ftk_failures_share(struct ftk_attempt *a, int root);
/* The processes have agreed: the list is that of the context. */
void ftk_failures_install(struct ftk_attempt *a);
/* The job goes on from an older set than the plan said. */
void ftk_failures_line(struct ftkit_ctx *ctx, uint64_t set);
void ftk_failures_free(struct ftk_failures *f);

#endif
