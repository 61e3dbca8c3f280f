/* The kinds of requests, one line each.  To add a kind: one line at the end, and one file that
 * defines `const struct ftk_req_ops ftk_req_kind_<word>` (req_ops.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The place of a line is the number of the kind in sets, so the lines keep their places. */
#ifndef FTK_LOG_REQ_KINDS_H
#define FTK_LOG_REQ_KINDS_H

#define FTK_REQ_KINDS(X)                                                                           \
    X(SEND, send) /* request/kind_send.c: a send */                                                \
    X(RECV, recv) /* request/kind_recv.c: a receive */                                             \
    X(COLL, coll) /* coll/kind_coll.c: a collective */                                             \
    X(RMA, rma)   /* win/rma_req.c: a one-sided operation */

#endif
