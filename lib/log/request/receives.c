/* The receives under way at a line, and their numbers: determinants name receives by them.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "log/determinant/det.h"
#include "log/base/part.h"
#include "log/request/match.h"
#include "log/request/receives.h"

static bool is_numbered(const struct ftk_req *r)
{
    return ftk_req_is_receive(r) && !r->internal;
}

/* Whether determinants name the receive by a number among the wildcard receives. */
static bool is_wildcard(const struct ftk_req *r)
{
    return r->recv.wildcard_seq != 0 && r->recv.wildcard_seq != FTK_RECV_IN_DOUBT;
}

/* Whether the outcome of a receive belongs before a cut, though the receive is under way.  The set
 * has a receive under way as one that has just begun: its match and its cancel are free then. */
static bool is_of_before(const struct ftk_req *r)
{
    return r->replay.match != FTK_MATCH_OPEN || r->replay.cancel != FTK_CANCEL_UNKNOWN
           || r->recv.cancelled;
}

bool ftk_receives_may_cut(void)
{
    for (const struct ftk_req *r = ftk_log.queue.first; r; r = r->next)
        if (ftk_req_is_receive(r) && is_of_before(r))
            return false;
    return true;
}

void ftk_receives_look(void)
{
    for (struct ftk_req *r = ftk_log.queue.first, *next; r; r = next) {
        next = r->next; /* a look completes no later request */
        if (ftk_req_is_receive(r) && r->state == FTK_REQ_POSTED && is_of_before(r))
            (void)ftk_match_posted(r); /* the request has the error, if there is one */
    }
}

/* Note the receives under way, for their determinants after the line. */
static int cut(bool apart)
{
    size_t nw = 0, nr = 0, n = 0;
    for (const struct ftk_req *r = ftk_log.queue.first; r; r = r->next)
        n += is_numbered(r);
    uint32_t *wildcards = malloc((2 * n + 1) * sizeof *wildcards);
    if (!wildcards)
        return ftk_fail(FTKIT_ERR_NOMEM, "receives under way");
    uint32_t *receives = wildcards + n;
    for (const struct ftk_req *r = ftk_log.queue.first; r; r = r->next) {
        if (!is_numbered(r))
            continue;
        if (is_wildcard(r))
            wildcards[nw++] = r->recv.wildcard_seq;
        receives[nr++] = r->recv.number;
    }
    int rc = apart ? ftk_det_cut(wildcards, nw, receives, nr)
                   : ftk_det_at_line(wildcards, nw, receives, nr);
    free(wildcards);
    return rc;
}

/* A receive that is complete, and for which the program has not waited, can still be cancelled, in
 * vain.  Its old number may be that of another receive behind the line. */
static void number_complete_ones(void)
{
    for (size_t i = 0; i < ftk_req_pool.used; i++) {
        struct ftk_req *r = &ftk_req_pool.at[i];
        if (is_numbered(r) && (r->state == FTK_REQ_COMPLETE || r->state == FTK_REQ_HALF))
            r->recv.number = ftk_det_number_of_complete(r->recv.number);
    }
}

/* The line is committed, and its determinants begin: number the receives anew. */
static void pass_line(enum ftk_pass kind, bool first)
{
    (void)kind;
    (void)first;
    number_complete_ones();
    for (struct ftk_req *r = ftk_log.queue.first; r; r = r->next) {
        if (!is_numbered(r))
            continue;
        if (is_wildcard(r))
            r->recv.wildcard_seq = ftk_det_new_number(FTK_DET_WILDCARDS, r->recv.wildcard_seq);
        r->recv.number = ftk_det_new_number(FTK_DET_RECEIVES, r->recv.number);
    }
}

/* Post the receives on the communicators of this epoch, in the order of their sequence numbers. */
static int stay(const struct ftk_log_repair *repair)
{
    (void)repair;
    for (struct ftk_req *r = ftk_log.queue.first, *next; r; r = next) {
        next = r->next;
        if (ftk_req_is_receive(r) && r->state != FTK_REQ_POSTED)
            (void)ftk_match_post(r); /* the request has the error, if there is one */
    }
    return FTKIT_OK;
}

const struct ftk_part ftk_part_receives = { .cut = cut, .line = pass_line, .stay = stay };
