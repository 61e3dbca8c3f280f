/* From the records of a failure log to failures of the machine, in two steps.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Source: E. Meneses, Scalable Message-Logging Techniques for Effective Fault Tolerance in HPC
 * Applications, PhD thesis, University of Illinois, 2013, section 7.1. */
#ifndef FTK_MODEL_COALESCE_H
#define FTK_MODEL_COALESCE_H

#include <stddef.h>

/* One node has failed. */
struct ftk_coalesce_record {
    double at_s;
    double repair_s; /* until it was back; < 0: not known */
    int node;
};

/* The machine has failed: some nodes, at about the same time. */
struct ftk_coalesce_failure {
    double at_s;     /* of its first record */
    double repair_s; /* the longest; < 0: none is known */
    int nodes;       /* >= 1 */
    size_t records;  /* so many of v, after those of the failures before */
};

/* Keep one record of those that a fault which was not repaired at once has left: drop a record of a
 * node that is at most window_s after the last kept record of the node.  The kept ones, in the
 * order of their times, come first.  Returns their number. */
size_t ftk_coalesce_same_node(struct ftk_coalesce_record *v, size_t n, double window_s);

/* Make one failure of the records less than window_s after the first of them (or at its time), and
 * count their distinct nodes.  v is in the order of times; out has room for n.  Returns the number
 * of failures.  v's records of a failure are in the order of their nodes then. */
size_t ftk_coalesce_together(
    struct ftk_coalesce_record *v, size_t n, double window_s, struct ftk_coalesce_failure *out);

#endif
