/* Comparing the messages that the replicas of a rank have sent since the line.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_COMPARE_MESSAGES_H
#define FTK_COMPARE_MESSAGES_H

#include "compare.h"

/* The sums of the messages differ: find the first message that differs between planes that do not
 * stand still.  Collective over the sphere.  *c: result, subject, plane, message and sum.
 *
 * A collective that is under way at the set has sent more messages in one plane than in another.
 * So a message of a collective that only one of them has sent is no difference.  FTKIT_ERR_PEER: a
 * failure. */
int ftk_sphere_compare_messages(struct ftk_chan *ch, struct ftk_comparison *c);

/* Compare two lists in the order of ftk_messages_order(): *x is the first difference and sum[0] and
 * sum[1] its sums in a and b, 0: not sent.  False: there is none.  Pure. */
bool ftk_messages_differ(const struct ftk_message *a, size_t na, const struct ftk_message *b,
    size_t nb, struct ftk_message *x, uint64_t *sum);

#endif
