/* What the log asks of each kind of request.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Sends and receives are messages.  They alone are in ftk_log.queue while they are under way, and a
 * failure takes them from the MPI.  A kind that is no message keeps a list of its own requests under
 * way, in a part of the log (part.h) whose forget() ends them.
 *
 * A function that is NULL does nothing, unless its comment says otherwise. */
#ifndef FTK_LOG_REQ_OPS_H
#define FTK_LOG_REQ_OPS_H

#include "log/log.h"
#include "log/req_kinds.h"

struct ftk_req_ops {
    /* A complete request still needs its datatype: a set finds its memory by the datatype. */
    bool keeps_type;

    /* ---- the life of a request; MPI codes ---- */

    /* MPI_Start: a persistent request at rest begins.  Needed by kinds with persistent requests. */
    int (*start)(struct ftk_req *r);
    /* One look at a request under way.  While this rank rolls back the request ends with
     * ftk_log_error().  Needed, unless the kind is a message. */
    int (*progress)(struct ftk_req *r);
    /* The program cancels the request, complete or not. */
    int (*cancel)(struct ftk_req *r);
    /* The program frees a request that is complete or at rest: free what the kind keeps for it. */
    void (*free)(struct ftk_req *r);
    /* What the request is, for messages of the library.  Needed. */
    void (*describe)(const struct ftk_req *r, char *text, size_t room);
};

#define FTK_DECLARE_REQ_KIND(NAME, word) extern const struct ftk_req_ops ftk_req_kind_##word;
FTK_REQ_KINDS(FTK_DECLARE_REQ_KIND)
#undef FTK_DECLARE_REQ_KIND

static inline const struct ftk_req_ops *ftk_req_ops_of(const struct ftk_req *r)
{
    return ftk_log.kinds[r->kind];
}

#endif
