/* Receives as a kind of request.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "log/base/queue.h"
#include "log/base/runtime.h"
#include "log/base/saved.h"
#include "log/determinant/det.h"
#include "log/mode.h"
#include "log/request/cancel.h"
#include "log/request/match.h"
#include "log/request/message.h"
#include "log/request/recv.h"
#include "log/request/req_ops.h"

/* A receive may get a message at once that is too long for its buffer: the wait returns the
 * error. */
int ftk_recv_start(struct ftk_req *r)
{
    int rc = ftk_req_begin(r);
    return rc == MPI_ERR_TRUNCATE ? MPI_SUCCESS : rc;
}

/* The outcome of the cancel is not known, or is recorded later: an earlier wildcard receive could
 * get the message, and is not complete; or the source is dead.  Until the outcome is recorded, no
 * later receive and no probe gets a message that this receive could have got. */
static void doubt(struct ftk_req *r)
{
    if (r->recv.wildcard_seq)
        return;
    r->recv.wildcard_seq = FTK_RECV_IN_DOUBT;
    ftk_queue_wildcard(true);
}

/* The outcome is recorded at once: later outcomes depend on it, because a receive that is cancelled
 * leaves its message to others.  A receive that is not cancelled now has been matched.  If earlier
 * wildcard receives have been matched before it, their outcomes are recorded first.  A receive
 * whose source is dead may have been matched, too: the repair decides (ftk_recv_stays). */
static int cancel_posted(struct ftk_req *r)
{
    r->recv.cancelled = true; /* the completion shows whether a message had matched it */
    int rc = PMPI_Cancel(&r->real);
    if (rc != MPI_SUCCESS)
        return rc;
    (void)ftk_match_posted(r); /* the request has the error, if there is one */
    const bool withdrawn = r->state == FTK_REQ_WITHDRAWN;
    if ((r->state != FTK_REQ_POSTED && !withdrawn) || r->replay.cancel != FTK_CANCEL_UNKNOWN)
        return rc;
    if (!withdrawn && ftk_match_is_first(r))
        return ftk_recv_too_late(r);
    doubt(r);
    return rc;
}

/* In a replay: whether a determinant names the message of a later receive under way, which this one
 * could have got.  Then this one had been matched before.  Its own message comes first. */
static bool was_matched(const struct ftk_req *r)
{
    for (const struct ftk_req *q = ftk_det_has_plan() ? r->next : NULL; q; q = q->next)
        if (ftk_req_is_receive(q) && q->replay.match == FTK_MATCH_KNOWN
            && ftk_envelope_matches(&q->recv.want, &r->recv.want))
            return true;
    return false;
}

static int cancel(struct ftk_req *r)
{
    if (r->replay.cancel == FTK_CANCEL_TOO_LATE)
        return MPI_SUCCESS; /* it got a message in the first execution */
    if (ftk_log_refuses("MPI_Cancel"))
        return MPI_ERR_UNSUPPORTED_OPERATION;
    if (ftk_log.mode->follows)
        return ftk_cancel_led(r);
    if (!ftk_req_is_done(r) && r->replay.cancel == FTK_CANCEL_UNKNOWN && was_matched(r))
        return ftk_recv_too_late(r);
    if (r->replay.match
        != FTK_MATCH_OPEN) /* of the first execution, or a repair has bound the receive */
        return ftk_recv_too_late(r);
    if (ftk_req_is_done(r) && !r->recv.cancelled)
        ftk_det_cancelled(r->recv.number, false); /* too late */
    if (ftk_req_is_done(r))
        return MPI_SUCCESS;
    if (r->state == FTK_REQ_POSTED)
        return cancel_posted(r);
    if (r->state != FTK_REQ_WITHDRAWN)
        return ftk_recv_cancelled(r);
    r->recv.cancelled = true; /* the repair decides */
    doubt(r);
    return MPI_SUCCESS;
}

static enum ftk_req_state taken(const struct ftk_req *r)
{
    (void)r;
    return FTK_REQ_WITHDRAWN;
}

static void describe(const struct ftk_req *r, char *text, size_t room)
{
    ftk_message_describe(r, "receive", "from", text, room);
}

static int save(struct ftk_saving *s, const struct ftk_req *r, uint64_t *head)
{
    return ftk_message_save(s, r, head, true);
}

static bool is_sane(const uint64_t *head)
{
    return ftk_message_is_sane(head, true);
}

static int load(
    struct ftk_loading *l, struct ftk_req *r, const uint64_t *head, bool known, void **rest)
{
    (void)rest;
    return known ? FTKIT_OK : ftk_message_load(l, r, head, &r->recv.buf);
}

static void resume(struct ftk_req *r, const void *rest)
{
    (void)rest;
    (void)ftk_req_begin(r); /* the wait returns the error */
}

const struct ftk_req_ops ftk_req_kind_recv = { .keeps_type = true,
    .start = ftk_recv_start,
    .taken = taken,
    .cancel = cancel,
    .describe = describe,
    .save = save,
    .sane = is_sane,
    .same = ftk_message_is_same,
    .load = load,
    .resume = resume };
