/* Writers of struct ftk_req_queue: numbers of requests under way are changed here only.  The list
 * itself is changed here and in request/request.c.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_QUEUE_H
#define FTK_LOG_QUEUE_H

#include "log/log.h"

/* The next sequence number: of a request, a message or a determinant. */
static inline uint64_t ftk_queue_next(void)
{
    return ++ftk_log.queue.seq;
}

/* Append r to the list of requests under way; r gets its sequence number. */
static inline void ftk_queue_append(struct ftk_req *r)
{
    struct ftk_log *l = &ftk_log;
    r->seq = ftk_queue_next();
    r->next = NULL;
    r->prev = l->queue.last;
    if (l->queue.last)
        l->queue.last->next = r;
    else
        l->queue.first = r;
    l->queue.last = r;
}

/* A receive is under way, which may be a wildcard receive; the match of one is known, or it is
 * over. */
static inline void ftk_queue_wildcard(bool is_wildcard)
{
    ftk_log.queue.nwildcards += is_wildcard;
}
static inline void ftk_queue_no_wildcard(void)
{
    ftk_log.queue.nwildcards--;
}

/* The receive r enters the state PROBING. */
static inline void ftk_queue_probes(const struct ftk_req *r)
{
    ftk_log.queue.nmprobed += r->state != FTK_REQ_PROBING;
}
/* The receive r leaves the state PROBING, if it is in this state. */
static inline void ftk_queue_probes_no_more(const struct ftk_req *r)
{
    ftk_log.queue.nmprobed -= r->state == FTK_REQ_PROBING;
}
/* A receive in the state PROBING has its message. */
static inline void ftk_queue_probed(void)
{
    ftk_log.queue.nmprobed--;
}

/* Whether requests are looked at, and none is waited for. */
static inline void ftk_queue_polls(bool polls)
{
    ftk_log.queue.polls = polls;
}

/* The number of a new persistent request, from 1. */
static inline uint32_t ftk_queue_persist(void)
{
    return ++ftk_log.queue.npersistent;
}

/* A rollback: so many persistent requests are made. */
static inline void ftk_queue_persistent(uint32_t n)
{
    ftk_log.queue.npersistent = n;
}

#endif
