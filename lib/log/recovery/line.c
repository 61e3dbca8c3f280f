/* The message log at the line: a set is written, committed or loaded.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "detect/sure.h"
#include "log/control.h"
#include "log/matrix.h"
#include "log/mode.h"
#include "log/det.h"
#include "log/p2p.h"
#include "log/recovery.h"
#include "steps.h"

static int line_progress(void *arg)
{
    struct ftk_chan *ch = arg;
    if (ftk_detect_poll(ch->ctx))
        return ftk_fail(FTKIT_ERR_PEER, "draining: a rank has failed");
    ftk_mode_progress();
    return FTKIT_OK;
}

/* Whether a send is under way, or the MPI still reads log entries. */
static bool still_sends(void)
{
    for (const struct ftk_req *r = ftk_log.queue.first; r; r = r->next)
        if (r->kind == FTK_REQ_SEND)
            return true;
    return ftk_p2p_sending() + ftk_control_sending() > 0;
}

/* The number of receives under way whose requests the program has freed: a rank that rolls back
 * would not begin them again. */
static size_t freed_receives(void)
{
    size_t n = 0;
    for (const struct ftk_req *r = ftk_log.queue.first; r; r = r->next)
        n += r->kind == FTK_REQ_RECV && r->freed_active && !r->internal;
    return n;
}

static int drain(struct ftk_chan *ch)
{
    struct ftk_log *l = &ftk_log;
    const struct ftk_sure s = { ch->comm, ch, "draining" };
    int rc = FTKIT_OK;
    while (rc == FTKIT_OK && l->mode->holds_any
           && l->mode->holds_any()) /* a send is counted when it is sent */
        rc = line_progress(ch);
    if (rc != FTKIT_OK)
        return rc;
    rc = ftk_sure_alltoall(&s, l->counts.sent, sizeof *l->counts.sent, l->counts.announced);
    if (rc == FTKIT_OK)
        rc = ftk_drain_all(l->counts.announced, NULL, line_progress, ch);
    while (rc == FTKIT_OK && still_sends()) { /* the receivers have drained all messages */
        ftk_drain_poll();
        ftk_p2p_reap(SIZE_MAX);
        rc = line_progress(ch);
    }
    if (rc == FTKIT_OK)
        ftk_channel_line();
    (void)FTK_FAULT("log.drained");
    return rc;
}

int ftk_line_drain(struct ftk_chan *ch)
{
    int rc = drain(ch);
    if (rc == FTKIT_OK && ftk_matched_any())
        return ftk_fail(FTKIT_ERR_STATE,
            "a message that was matched by a probe has not been received: with log.enabled that "
            "comes before ftkit_checkpoint");
    size_t left = ftk_log.queue.nactive + freed_receives();
    if (rc == FTKIT_OK && left > 0)
        return ftk_fail(FTKIT_ERR_STATE,
            "%zu requests of the program are not complete: with log.enabled ftkit_checkpoint "
            "is called when none but persistent ones at rest are left",
            left);
    return rc;
}

/* Sends that set-up leaves open are complete when all messages are drained.  A receive that set-up
 * leaves open without a message would get a message that the loop received before the line. */
static int drain_set_up(struct ftk_chan *ch)
{
    size_t left = 0;
    int rc = drain(ch);
    for (const struct ftk_req *r = ftk_log.queue.first; rc == FTKIT_OK && r; r = r->next)
        left += r->kind == FTK_REQ_RECV;
    return left == 0 ? rc
                     : ftk_fail(FTKIT_ERR_STATE,
                         "%zu receives that were begun before ftkit_recover have got nothing: with "
                         "log.enabled a job cannot go on from a set with them",
                         left);
}

void ftk_line_forget(struct ftkit_ctx *ctx)
{
    struct ftk_log *l = &ftk_log;
    if (l->line.none_yet)
        ftk_matrix_clear(); /* messages before the first line are not of teams */
    l->line.none_yet = l->line.of_earlier_job = false;
    if (l->phase == FTK_PHASE_REPLAY)
        l->phase = FTK_PHASE_NORMAL;
    l->line.count++;
    l->calls.n = l->calls.seq = 0;
    l->line.calls = ctx->policy.calls;
    l->line.next_event = ctx->policy.next_event;
    ftk_slog_clear();
    ftk_suppress_clear();
    ftk_vcomm_line();
}

/* All messages of set-up have been delivered or are in the line, so none has to be sent again. */
int ftk_line_loaded(struct ftkit_ctx *ctx, int rc)
{
    struct ftk_chan ch = ftk_chan_of(ctx);
    struct ftk_unexp *last = ftk_log.unexp.last;
    int drained = drain_set_up(&ch);
    for (struct ftk_unexp *h; (h = last ? last->next : ftk_log.unexp.first) != NULL;) {
        ftk_unexp_take(h);
        ftk_unexp_free(h);
    }
    if (rc == FTKIT_OK)
        rc = drained;
    if (rc == FTKIT_OK) {
        ftk_line_committed(ctx);
        ftk_log.line.calls = 1; /* see ftk_policy_reset() */
        ftk_log.line.of_earlier_job = true;
        ctx->policy.requested = 1; /* a set with the set-up of this job */
    }
    return rc;
}

bool ftk_line_of_earlier_job(const struct ftkit_ctx *ctx)
{
    return ftk_log.line.of_earlier_job || (ctx->committed > 0 && ftk_log.line.count == 0);
}

void ftk_line_committed(struct ftkit_ctx *ctx)
{
    ftk_line_forget(ctx);
    ftk_channel_clear();
    ftk_det_line();
    ftk_mode_line();
}
