/* Messages of the program, and its requests, when a repair quiesces the old communicators.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * All messages in flight between survivors are drained.  Then the requests are withdrawn: a receive
 * that has no message is cancelled; a send is completed, or its receiver is dead. */
#include "core/repair_state.h"
#include "log/request/match.h"
#include "log/request/recv.h"
#include "steps.h"

/* Then no rank knows which messages of source this rank has.  In the next attempt all ranks roll
 * back. */
int ftk_withdraw_ambiguous(int source)
{
    struct ftkit_ctx *ctx = ftk_log.ctx;
    if (!ctx->repair.ambiguous)
        ftk_report(FTKIT_INFO,
            "context %s: rank %d: a message of rank %d that died while it sent may have been "
            "matched by a receive from any source: all ranks roll back",
            ctx->cfg.name, ctx->rank, source);
    ftk_repair_ambiguous(ctx);
    return ftk_fail(FTKIT_ERR_PEER, "it is not known which messages of rank %d have come", source);
}

/* The match of q implies that earlier receives had matched too.  Record their determinants first,
 * then that of q. */
static int bind_overtaken(const struct ftk_log_repair *r, const struct ftk_req *q, bool *complete)
{
    struct ftk_req *before;
    int dead;
    while ((before = ftk_match_overtaken(q, r->is_new, complete)) && !r->back[r->me]) {
        if (!ftk_quiesce_is_sure(before->recv.want.source, r->is_new, r->n, &dead))
            return ftk_withdraw_ambiguous(dead);
        ftk_recv_bind(before, dead);
    }
    return FTKIT_OK;
}

/* A receive that is not complete after draining has no message and can be cancelled, or a message
 * of a dead rank has matched the receive and will never be complete.  The MPI may cancel that
 * receive, too, or leave it pending: FTK_LAST_LOOKS. */
static int withdraw_receive(const struct ftk_quiescing *s, struct ftk_req *r)
{
    bool complete;
    for (int i = 0; r->state == FTK_REQ_POSTED && i < FTK_LAST_LOOKS; i++) {
        int rc = bind_overtaken(s->r, r, &complete);
        if (rc == FTKIT_OK && complete)
            rc = ftk_message_withdraw(r);
        if (rc == FTKIT_OK && r->state == FTK_REQ_POSTED)
            rc = s->look(s->arg);
        if (rc != FTKIT_OK)
            return rc;
    }
    if (r->state == FTK_REQ_POSTED && r->real != MPI_REQUEST_NULL)
        (void)PMPI_Request_free(&r->real); /* its sender is dead */
    if (!ftk_req_is_done(r))
        r->state = FTK_REQ_WITHDRAWN;
    return FTKIT_OK;
}

/* Whether this rank was at a line whose commit no rank knows that is left. */
static bool is_at_lost_line(const struct ftk_log_repair *r)
{
    return ftk_quiesce_is_at_lost_line(ftk_log.line.state, ftk_line_is_missed(ftk_log.ctx, r),
        ftk_job_state.nouts, ftk_log.calls.n);
}

/* Take a receive from the MPI; a message that it has got is dropped. */
static int discard_receive(const struct ftk_quiescing *s, struct ftk_req *r)
{
    int done = 0;
    for (int i = 0; !done && i < FTK_LAST_LOOKS; i++) {
        int rc = PMPI_Test(&r->real, &done, MPI_STATUS_IGNORE);
        done = done || rc != MPI_SUCCESS;
        rc = done ? FTKIT_OK : s->look(s->arg);
        if (rc != FTKIT_OK)
            return rc;
    }
    if (r->real != MPI_REQUEST_NULL)
        (void)PMPI_Request_free(&r->real); /* its sender is dead */
    r->state = FTK_REQ_WITHDRAWN;
    return FTKIT_OK;
}

static int withdraw_request(const struct ftk_quiescing *s, struct ftk_req *r, bool drops)
{
    int rc = FTKIT_OK;
    if (ftk_req_is_receive(r))
        rc = drops ? discard_receive(s, r) : withdraw_receive(s, r);
    while (rc == FTKIT_OK && r->state == FTK_REQ_POSTED) {
        rc = ftk_message_withdraw(r);
        if (rc == FTKIT_OK && r->state == FTK_REQ_POSTED)
            rc = s->look(s->arg);
    }
    return rc;
}

/* ---- the part ------------------------------------------------------------------------ */

static void announce(int rank, uint64_t *numbers)
{
    *numbers = ftk_peer(rank)->count[FTK_COUNT_PROGRAM].sent;
}

static void announced(int rank, const uint64_t *numbers)
{
    ftk_peer(rank)->count[FTK_COUNT_PROGRAM].announced = *numbers;
}

static int drain(const struct ftk_quiescing *s)
{
    return is_at_lost_line(s->r) ? FTKIT_OK : ftk_drain_all(s->r->is_new, s->look, s->arg);
}

static bool is_posted(const struct ftk_req *r)
{
    return ftk_req_is_receive(r) && r->state == FTK_REQ_POSTED;
}

/* Whether the MPI has cancelled the receive for the log. */
static bool is_cancelled(const struct ftk_req *r)
{
    MPI_Status s;
    int done = 0, cancelled = 0;
    return !r->recv.cancelled && PMPI_Request_get_status(r->real, &done, &s) == MPI_SUCCESS && done
           && PMPI_Test_cancelled(&s, &cancelled) == MPI_SUCCESS && cancelled;
}

/* Cancel all receives before a look at the MPI.  A message of a dead rank may still come in a look.
 * It must not match a receive when an earlier one, which could have had the message, is cancelled
 * already: the log would take the earlier one for matched.  No further failure may come between: a
 * receive that is cancelled, and counts as posted, would be taken for complete. */
static void cancel_receives(void)
{
    for (struct ftk_req *r = ftk_log.queue.first; r; r = r->next)
        if (is_posted(r) && PMPI_Cancel(&r->real) != MPI_SUCCESS)
            r->state = FTK_REQ_WITHDRAWN;
    for (struct ftk_req *r = ftk_log.queue.first; r; r = r->next)
        if (is_posted(r) && is_cancelled(r)) {
            (void)PMPI_Request_free(&r->real); /* complete */
            r->state = FTK_REQ_WITHDRAWN;
        }
}

static int withdraw(const struct ftk_quiescing *s)
{
    const bool drops = is_at_lost_line(s->r);
    int rc = FTKIT_OK;
    cancel_receives();
    for (struct ftk_req *r = ftk_log.queue.first, *next; rc == FTKIT_OK && r; r = next) {
        next = r->next;
        if (r->state == FTK_REQ_POSTED)
            rc = withdraw_request(s, r, drops);
    }
    return rc;
}

const struct ftk_part ftk_part_messages = { .announces = 1,
    .announce = announce,
    .announced = announced,
    .drain = drain,
    .withdraw = withdraw };
