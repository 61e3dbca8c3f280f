/* Replicas: a cancel of a receive has the same outcome in all replicas of a rank.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Whether a receive has got a message when it is cancelled is open in MPI.  The leader decides, and
 * records the outcome before the cancel returns.  A follower waits for it.  A receive of any source
 * is not posted there yet.  A receive that names its source may have got a message that comes later
 * in the leader: then the message goes back to the unexpected messages. */
#include <stdlib.h>
#include <string.h>

#include "core/repair_state.h"
#include "detect/detect.h"
#include "log/base/dtype.h"
#include "log/base/runtime.h"
#include "log/determinant/det.h"
#include "log/request/cancel.h"
#include "log/request/recv.h"

/* The replicas of this rank cannot go on alike: they return to the line, where the outcome is
 * known. */
static int go_back(void)
{
    unsigned turns = 0;
    int rc = MPI_SUCCESS;
    ftk_repair_differ(ftk_log.ctx, FTK_DIFFERS_HERE);
    ftk_detect_raise(ftk_log.ctx);
    while (rc == MPI_SUCCESS && ftk_log.ctx->detect.failed)
        rc = ftk_log_progress(&turns);
    return rc;
}

/* Ask the MPI to cancel a receive, and wait until it is complete: cancelled, or with a message.  A
 * receive whose source is dead may have been matched: the repair knows this.  If the repair has
 * bound the receive, later receives have later messages of the source.  So a follower whose leader
 * has cancelled it in time cannot go on. */
static int cancel_posted(struct ftk_req *r)
{
    unsigned turns = 0;
    while (!ftk_req_is_done(r) && r->replay.cancel != FTK_CANCEL_TOO_LATE) {
        if (r->replay.cancel == FTK_CANCEL_DONE && r->replay.match == FTK_MATCH_BOUND)
            return go_back();
        const bool withdrawn = r->state == FTK_REQ_WITHDRAWN;
        if (r->state != FTK_REQ_POSTED && !withdrawn)
            return ftk_recv_cancelled(r);
        r->recv.cancelled = true; /* the completion shows whether a message had matched it */
        int rc = withdrawn ? MPI_SUCCESS : PMPI_Cancel(&r->real);
        if (rc == MPI_SUCCESS && !withdrawn)
            (void)ftk_req_progress(r); /* the request has the error, if there is one */
        if (rc == MPI_SUCCESS && !ftk_req_is_done(r))
            rc = ftk_log_progress(&turns);
        if (rc != MPI_SUCCESS)
            return rc;
    }
    return ftk_log_is_rolling_back() ? ftk_log_error() : MPI_SUCCESS;
}

/* Whether a receive begun after r may have got a message that should be another one now. */
static bool has_followers(const struct ftk_req *r, const struct ftk_envelope *message)
{
    for (size_t i = 0; i < ftk_req_pool.used; i++) {
        const struct ftk_req *q = &ftk_req_pool.at[i];
        if (ftk_req_is_receive(q) && q->state >= FTK_REQ_COMPLETE && q->seq > r->seq
            && q->state != FTK_REQ_WAITING && q->state != FTK_REQ_PROBING
            && ftk_envelope_matches(&q->recv.want, message))
            return true;
    }
    return false;
}

/* The leader has cancelled the receive, and here it has got a message: another receive gets it. */
static int give_back(struct ftk_req *r)
{
    const int source = ftk_vcomm_peer_world(r->vc, r->status.MPI_SOURCE);
    const struct ftk_envelope of = { r->context, source, r->status.MPI_TAG };
    MPI_Count bytes = 0;
    char *data = NULL;
    if (r->error != MPI_SUCCESS || has_followers(r, &of))
        return go_back();
    int rc = PMPI_Get_elements_x(&r->status, MPI_BYTE, &bytes);
    if (rc == MPI_SUCCESS)
        rc = ftk_dtype_packed_part(r->recv.buf, (size_t)bytes, r->type, &data);
    struct ftk_unexp *h =
        rc == MPI_SUCCESS ? ftk_unexp_new(of.context, source, of.tag, (size_t)bytes) : NULL;
    if (h && bytes > 0)
        memcpy(h->data, data, (size_t)bytes);
    free(data);
    if (!h)
        return rc == MPI_SUCCESS ? MPI_ERR_NO_MEM : rc;
    ftk_unexp_return(h);
    ftk_status_empty(&r->status);
    r->recv.cancelled = true;
    return PMPI_Status_set_cancelled(&r->status, 1);
}

int ftk_cancel_led(struct ftk_req *r)
{
    if (r->replay.cancel == FTK_CANCEL_UNKNOWN && !r->recv.cancelled)
        r->replay.cancel = ftk_det_await_cancel(r->recv.number);
    if (ftk_log_is_rolling_back())
        return ftk_log_error();
    if (r->recv.cancelled || r->replay.cancel == FTK_CANCEL_TOO_LATE)
        return MPI_SUCCESS;
    const bool known = r->replay.cancel == FTK_CANCEL_DONE;
    if (!known && (ftk_req_is_done(r) || r->replay.match != FTK_MATCH_OPEN))
        ftk_det_cancelled(r->recv.number, false);
    if (!known && r->replay.match != FTK_MATCH_OPEN)
        return MPI_SUCCESS; /* too late */
    const int rc = cancel_posted(r);
    return rc == MPI_SUCCESS && known && ftk_req_is_done(r) && !r->recv.cancelled ? give_back(r)
                                                                                  : rc;
}
