/* The order of receives under way: which ones come before others, and before a message.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The functions are inline: a receive that is posted looks at a number first, and calls nothing. */
#ifndef FTK_LOG_ORDER_H
#define FTK_LOG_ORDER_H

#include "log/mode.h"
#include "log/request/request.h"

/* Kinds of receives under way that other receives have to wait for. */
typedef bool ftk_order_fn(const struct ftk_req *q);
static inline bool ftk_order_probes(const struct ftk_req *q)
{
    return q->state == FTK_REQ_PROBING;
}
/* Replicas: a wildcard receive that waits for its match (withhold() in match.c).  One that is
 * cancelled gets no message. */
static inline bool ftk_order_withheld(const struct ftk_req *q)
{
    return ftk_log.mode->follows && ftk_req_is_receive(q) && q->recv.wildcard_seq
           && q->state == FTK_REQ_WAITING && q->replay.cancel != FTK_CANCEL_DONE;
}
static inline bool ftk_order_withdrawn(const struct ftk_req *q)
{
    return q->recv.wildcard_seq && q->state == FTK_REQ_WITHDRAWN;
}
/* A wildcard receive for which the MPI may have matched a message, or would have. */
static inline bool ftk_order_wildcard(const struct ftk_req *q)
{
    return (q->recv.wildcard_seq && (q->state == FTK_REQ_POSTED || q->state == FTK_REQ_WITHDRAWN))
           || ftk_order_withheld(q);
}
static inline bool ftk_order_in_doubt(const struct ftk_req *q)
{
    return q->recv.wildcard_seq == FTK_RECV_IN_DOUBT && ftk_order_wildcard(q);
}

/* The first receive of a kind that was posted before seq and matches found, which is the envelope
 * of a message or of a receive. */
static inline struct ftk_req *ftk_order_earlier(
    uint64_t seq, ftk_order_fn *which, const struct ftk_envelope *found)
{
    for (struct ftk_req *q = ftk_log.queue.first; q && q->seq < seq; q = q->next)
        if (ftk_envelope_matches(&q->recv.want, found) && which(q))
            return q;
    return NULL;
}

/* An earlier wildcard receive that may have an earlier message of the source.  In a replay it may
 * get another message.  Then a receive or a probe of any tag, with that sequence number, would get
 * the earlier one. */
static inline bool ftk_order_passes(uint64_t seq, int context, int source)
{
    const struct ftk_envelope any = { context, source, MPI_ANY_TAG };
    return ftk_log.queue.nwildcards > 0 && ftk_order_earlier(seq, ftk_order_wildcard, &any);
}

/* A receive whose message is open, and not recorded: a wildcard receive, or a receive of any tag
 * behind one. */
static inline bool ftk_order_open(const struct ftk_req *q)
{
    if (ftk_order_wildcard(q))
        return true;
    return ftk_req_is_receive(q) && !q->internal && q->recv.want.tag == MPI_ANY_TAG
           && (q->state == FTK_REQ_POSTED || q->state == FTK_REQ_WITHDRAWN)
           && ftk_order_passes(q->seq, q->context, q->recv.want.source);
}

#endif
