/* Quiesce: after this step of a repair nothing is under way on the old communicators.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * After a failure every live rank is somewhere inside ftkit.  The step drains all messages in
 * flight between survivors.  Then the step withdraws the requests: a receive that has no message
 * is cancelled; a send is completed, or its receiver is dead. */
#include <stdlib.h>

#include "core/tags.h"
#include "detect/sure.h"
#include "log/base/control.h"
#include "log/determinant/det.h"
#include "log/p2p.h"
#include "steps.h"

/* A receive that is not complete after draining has no message and can be cancelled, or a message
 * of a dead rank has matched the receive and will never be complete.  The MPI may cancel that
 * receive, too, or leave it pending.  So many looks at the MPI's queues, then the receive is given
 * up. */
#define LAST_LOOKS 1000

struct quiescing {
    const struct ftk_log_repair *r;
    MPI_Comm act;
    MPI_Request watch; /* the watch over act: ends with an error when a member fails */
    int buf;
};

static int watch_begin(struct quiescing *s)
{
    int rc = PMPI_Irecv(&s->buf, 1, MPI_INT, MPI_ANY_SOURCE, FTK_TAG_WATCH, s->act, &s->watch);
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "quiescing");
}

static int watch_progress(void *arg)
{
    struct quiescing *s = arg;
    int done = 0;
    int rc = PMPI_Test(&s->watch, &done, MPI_STATUS_IGNORE);
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "quiescing");
}

static void watch_end(struct quiescing *s)
{
    if (s->watch == MPI_REQUEST_NULL)
        return;
    (void)PMPI_Cancel(&s->watch); /* an error: the watch has ended already */
    (void)PMPI_Wait(&s->watch, MPI_STATUS_IGNORE);
}

/* Then no rank knows which messages of source this rank has.  In the next attempt all ranks roll
 * back. */
int ftk_quiesce_ambiguous(int source)
{
    struct ftkit_ctx *ctx = ftk_log.ctx;
    if (!ctx->repair.ambiguous)
        ftk_report(FTKIT_INFO,
            "context %s: rank %d: a message of rank %d that died while it sent may have been "
            "matched by a receive from any source: all ranks roll back",
            ctx->cfg.name, ctx->rank, source);
    ctx->repair.ambiguous = true;
    return ftk_fail(FTKIT_ERR_PEER, "it is not known which messages of rank %d have come", source);
}

/* A receive was matched with a message that its dead sender never finished.  The sender is known
 * when only one dead rank is possible; then the receive is bound to the message of that rank, which
 * comes again. */
bool ftk_quiesce_is_sure(const struct ftk_log_repair *r, const struct ftk_req *q)
{
    int dead = 0;
    for (int k = 0; k < r->n; k++)
        dead += r->is_new[k] != 0;
    return q->recv.want.source != MPI_ANY_SOURCE || dead == 1;
}

/* The match of q implies that earlier receives had matched too.  Record their determinants first,
 * then that of q. */
static int bind_overtaken(const struct ftk_log_repair *r, const struct ftk_req *q, bool *complete)
{
    struct ftk_req *before;
    int dead = 0;
    while (dead < r->n - 1 && !r->is_new[dead])
        dead++;
    while ((before = ftk_p2p_overtaken(q, r->is_new, complete)) && !r->back[r->me]) {
        if (!ftk_quiesce_is_sure(r, before))
            return ftk_quiesce_ambiguous(dead);
        ftk_p2p_bind(before, dead);
    }
    return FTKIT_OK;
}

static int withdraw_receive(struct quiescing *s, struct ftk_req *r)
{
    bool complete;
    const int last = PMPI_Cancel(&r->real) == MPI_SUCCESS ? LAST_LOOKS : 0;
    for (int i = 0; r->state == FTK_REQ_POSTED && i < last; i++) {
        int rc = bind_overtaken(s->r, r, &complete);
        if (rc == FTKIT_OK && complete)
            rc = ftk_p2p_withdraw(r);
        if (rc == FTKIT_OK && r->state == FTK_REQ_POSTED)
            rc = watch_progress(s);
        if (rc != FTKIT_OK)
            return rc;
    }
    if (r->state == FTK_REQ_POSTED && last > 0 && r->real != MPI_REQUEST_NULL)
        (void)PMPI_Request_free(&r->real); /* its sender is dead */
    if (!ftk_req_is_done(r))
        r->state = FTK_REQ_WITHDRAWN;
    return FTKIT_OK;
}

/* Whether this rank was at a line whose commit no rank knows that is left.  All messages before the
 * line have been drained.  A message that comes nevertheless is from a dead rank that had seen the
 * commit: its replacement sends that message again, after it has come to that line again.  If
 * another rank knows that the set was given up, that rank may have gone on: its messages count. */
static bool is_at_lost_line(const struct ftk_log_repair *r)
{
    return ftk_log.line.state == FTK_LINE_DRAINED && !ftk_line_is_missed(ftk_log.ctx, r)
           && ftk_job_state.nouts == ftk_log.calls.n;
}

/* Take a receive from the MPI; a message that it has got is dropped. */
static int discard_receive(struct quiescing *s, struct ftk_req *r)
{
    int done = PMPI_Cancel(&r->real) != MPI_SUCCESS;
    for (int i = 0; !done && i < LAST_LOOKS; i++) {
        int rc = PMPI_Test(&r->real, &done, MPI_STATUS_IGNORE);
        done = done || rc != MPI_SUCCESS;
        rc = watch_progress(s);
        if (rc != FTKIT_OK)
            return rc;
    }
    if (r->real != MPI_REQUEST_NULL)
        (void)PMPI_Request_free(&r->real); /* its sender is dead */
    r->state = FTK_REQ_WITHDRAWN;
    return FTKIT_OK;
}

static int withdraw_all(struct quiescing *s)
{
    const bool drops = is_at_lost_line(s->r);
    for (struct ftk_req *r = ftk_log.queue.first, *next; r; r = next) {
        next = r->next;
        if (r->state != FTK_REQ_POSTED)
            continue;
        if (r->kind == FTK_REQ_RECV) {
            int rc = drops ? discard_receive(s, r) : withdraw_receive(s, r);
            if (rc != FTKIT_OK)
                return rc;
        }
        while (r->state == FTK_REQ_POSTED) {
            int rc = ftk_p2p_withdraw(r);
            if (rc == FTKIT_OK && r->state == FTK_REQ_POSTED)
                rc = watch_progress(s);
            if (rc != FTKIT_OK)
                return rc;
        }
    }
    while (ftk_p2p_sending() + ftk_control_sending() > 0) {
        ftk_p2p_reap(SIZE_MAX);
        int rc = watch_progress(s);
        if (rc != FTKIT_OK)
            return rc;
    }
    return FTKIT_OK;
}

/* Receive the control messages in a context of own_comms.h that are in flight: the MPI sends long
 * ones only when they are received. */
static int drain_own(int context, const struct ftk_log_repair *r, struct quiescing *s)
{
    for (int i = 0, n = ftk_peers_count(); i < n; i++) {
        const int k = ftk_peers_rank(i);
        const struct ftk_count *p = &ftk_peer(k)->count[ftk_context_counter(context)];
        while (!r->is_new[k] && p->received < p->announced) {
            int found = 0;
            int rc = ftk_control_take(context, k, &found);
            if (rc != MPI_SUCCESS)
                return ftk_fail_mpi(rc, "draining control messages");
            rc = found ? FTKIT_OK : watch_progress(s);
            if (rc != FTKIT_OK)
                return rc;
        }
    }
    return FTKIT_OK;
}

/* Whether a rank has sent messages to this one: FTK_COUNTS numbers of it. */
static bool has_sent(const uint64_t *sent)
{
    for (int c = 0; c < FTK_COUNTS; c++)
        if (sent[c] > 0)
            return true;
    return false;
}

/* All ranks exchange how many messages they have sent. */
static int announce(const struct ftk_sure *act, int n)
{
    uint64_t *out = calloc((size_t)2 * FTK_COUNTS * (size_t)n, sizeof *out);
    if (!out)
        return ftk_fail(FTKIT_ERR_NOMEM, "quiescing");
    uint64_t *in = out + FTK_COUNTS * (size_t)n;
    for (int i = 0, count = ftk_peers_count(); i < count; i++) {
        const int k = ftk_peers_rank(i);
        for (int c = 0; c < FTK_COUNTS; c++)
            out[FTK_COUNTS * (size_t)k + (size_t)c] = ftk_peer(k)->count[c].sent;
    }
    int rc = ftk_sure_alltoall(act, out, FTK_COUNTS * sizeof *out, in);
    for (int k = 0; rc == FTKIT_OK && k < n; k++) {
        const uint64_t *sent = in + FTK_COUNTS * (size_t)k;
        if (!has_sent(sent) && !ftk_peers.at[k].joined)
            continue;
        for (int c = 0; c < FTK_COUNTS; c++)
            ftk_peer(k)->count[c].announced = sent[c];
    }
    free(out);
    return rc;
}

int ftk_quiesce(const struct ftk_log_repair *r)
{
    const struct ftk_sure act = { r->act, NULL, "quiescing" };
    struct quiescing s = { .r = r, .act = r->act, .watch = MPI_REQUEST_NULL };
    (void)FTK_FAULT("log.settle");
    ftk_parts_quiesce(r);
    ftk_det_hold(r->back[r->me]);
    int rc = announce(&act, r->n);
    if (rc == FTKIT_OK)
        rc = watch_begin(&s);
    if (rc == FTKIT_OK && !r->is_new[r->me] && !is_at_lost_line(r))
        rc = ftk_drain_all(r->is_new, watch_progress, &s);
    for (int c = FTK_LOG_PROGRAM_COMMS; c < FTK_LOG_COMMS; c++)
        if (rc == FTKIT_OK && !r->is_new[r->me] && ftk_control_uses(c))
            rc = drain_own(c, r, &s);
    if (rc == FTKIT_OK)
        rc = watch_progress(&s); /* the next step depends on which ranks are dead */
    if (rc == FTKIT_OK && !r->is_new[r->me])
        rc = withdraw_all(&s);
    ftk_det_hold(false);
    watch_end(&s);
    (void)FTK_FAULT("log.settled");
    return rc;
}
