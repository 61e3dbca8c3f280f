/* The losses of the last repairs, and why (ftkit_failures()).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_FAILURES_H
#define FTK_FAILURES_H

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
void ftk_failures_free(struct ftk_failures *f);

#endif
