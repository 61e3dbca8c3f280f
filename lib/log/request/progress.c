/* Progress: requests begin, are looked at and waited for; failures are repaired meanwhile.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "detect/detect.h"
#include "detect/nap.h"
#include "detect/watchdog.h"
#include "log/mode.h"
#include "log/determinant/det.h"
#include "log/base/dtype.h"
#include "log/base/figures.h"
#include "log/base/part.h"
#include "log/base/queue.h"
#include "log/base/runtime.h"
#include "log/base/stage.h"
#include "log/request/match.h"
#include "log/request/progress.h"
#include "log/request/req_ops.h"
#include "log/request/send.h"
#include "log/determinant/set_up.h"

#define TURNS_CLOCK 64 /* looks at requests for each look at the clock */
#define LONG_S 1.0     /* a wait that others may hear of */
#define SMALL 512      /* bytes of a message that MPI_Send sends without a request of the log */

/* A replacement receives a message that the set-up of the lost process never received; the MPI
 * error. */
static int report_strange(const struct ftk_req *r);

/* ---- waiting ------------------------------------------------------------------------- */

/* A failure is known: repair it.  MPI_SUCCESS, or the error with which calls fail. */
static int repair_failure(void)
{
    struct ftk_log *l = &ftk_log;
    if (ftk_log_is_rolling_back())
        return ftk_log_error();
    int rc = l->repair(l->ctx);
    if (rc != FTKIT_OK) {
        (void)ftk_done(l->ctx, rc < 0 ? rc : FTKIT_ERR_INTERNAL);
        ftk_log_begin_rollback();
    }
    return ftk_log_is_rolling_back() ? ftk_log_error() : MPI_SUCCESS;
}

void ftk_req_keep_going(void)
{
    if (!ftk_log.on || ftk_log_is_rolling_back())
        return;
    if (ftk_log.line.state == FTK_LINE_AWAY)
        ftk_parts_progress();
    ftk_parts_serve();
    if (ftk_log.mode->waits)
        ftk_log.mode->waits();
    ftk_parts_turn(0);
}

static struct {
    unsigned turns; /* at the last look at the clock; a new wait begins with fewer */
    double since_s;
} last_wait; /* the last call that waited */

/* A wait without an end has no other sign: the ranks wait for messages that never come.  Say what
 * this rank waits for, when all ranks of the node have been waiting for long. */
static void look_at_wait(unsigned turns)
{
    struct ftk_log *l = &ftk_log;
    char text[MPI_MAX_OBJECT_NAME + 160] = "what other ranks do";
    const double now = ftk_now_s();
    if (turns <= last_wait.turns || last_wait.since_s <= 0) /* a new wait, or the first one */
        last_wait.since_s = now;
    last_wait.turns = turns;
    if (now - last_wait.since_s < LONG_S
        || !ftk_watchdog_waits(l->ctx->dog, last_wait.since_s, now))
        return;
    const struct ftk_req *r = l->queue.first;
    while (r && ftk_req_is_done(r))
        r = r->next;
    if (r)
        ftk_req_describe(r, text, sizeof text);
    ftk_report(FTKIT_WARNING,
        "context %s: rank %d has waited for %.0f s in %s, for %s; all ranks of this node wait in "
        "calls of MPI. Rule: the calls of the ranks match, also in the replay after a failure, "
        "where a library that counts its calls or keeps duplicates of communicators makes others "
        "(no error if ranks of other nodes compute that long; recover.stall = TIME ends such a "
        "job)",
        l->ctx->cfg.name, l->me, now - last_wait.since_s, ftk_log_call(l->ctx), text);
}

int ftk_log_progress(unsigned *turns)
{
    struct ftk_log *l = &ftk_log;
    if (ftk_log_is_rolling_back())
        return ftk_log_error();
    ftk_parts_progress();
    ftk_parts_serve();
    const bool watches = ++*turns % FTK_TURNS_WATCH == 0;
    if (watches || *turns % FTK_TURNS_SHORT == 1 || ftk_parts.eager)
        ftk_parts_turn(*turns);
    if (ftk_log_is_rolling_back()) /* the job halts */
        return ftk_log_error();
    if (l->ctx->detect.failed || (watches && ftk_detect_poll(l->ctx)))
        return repair_failure();
    if (watches)
        ftk_nap_turn(*turns);
    if (*turns % TURNS_CLOCK == 0)
        look_at_wait(*turns);
    return MPI_SUCCESS;
}

/* ---- beginning ----------------------------------------------------------------------- */

/* Wait for a send from the program's memory that the MPI has begun; returns the error. */
static int wait_until_sent(struct ftk_req *r)
{
    ftk_status_empty(&r->status);
    ftk_queue_append(r);
    return ftk_req_wait(r);
}

_Static_assert(SMALL < FTK_AWAY, "the bytes of a small message follow its entry");

/* Log a small message and send the log entry.  Not inline: sends inside a team are faster then. */
__attribute__((noinline)) static int log_small(
    const void *buf, int count, const struct ftk_dtype *f, int world, int tag, int context)
{
    const size_t bytes = (size_t)count * (size_t)f->bytes;
    struct ftk_entry *e = ftk_slog_new(world, context, tag, bytes);
    int rc = e ? ftk_dtype_pack_known(f, buf, count, e + 1, bytes) : MPI_ERR_NO_MEM;
    if (rc == MPI_SUCCESS) {
        ftk_slog_seal(e);
        rc = ftk_send_entry(e, world);
    }
    if (e && rc != MPI_SUCCESS)
        ftk_slog_drop_last(world);
    return rc;
}

bool ftk_send_at_once(const void *buf, int count, MPI_Datatype type, int world, int context,
    int tag, MPI_Request *real)
{
    struct ftk_log *l = &ftk_log;
    const struct ftk_dtype *f;
    *real = MPI_REQUEST_NULL;
    if (ftk_log_is_rolling_back() || ftk_log_replays_setup()
        || (l->in_set_up && l->ctx->cfg.log_check)
        || (l->mode->needs_request && l->mode->needs_request(world))
        || ftk_dtype_facts(type, &f) != MPI_SUCCESS || (size_t)count * (size_t)f->bytes > SMALL)
        return false;
    const size_t bytes = (size_t)count * (size_t)f->bytes;
    const bool crosses = ftk_log_crosses(world), kept = ftk_log_keeps(world);
    if ((crosses || l->apart.on) && ftk_log_replays())
        return false; /* the receiver may have it */
    if (!kept && !ftk_mpi_takes(buf))
        return false; /* a request has memory for a copy */
    struct ftk_sent *out = l->apart.on ? ftk_sent_find(context, world, tag) : NULL;
    if (l->apart.on && !out)
        return false; /* no memory */
    ftk_det_before_send();
    (void)FTK_FAULT("log.send");
    struct ftk_peer *peer = ftk_peer(world);
    if (crosses && !kept)
        ftk_silent_sends(peer);
    int rc = kept ? log_small(buf, count, f, world, tag, context)
                  : PMPI_Isend(buf, count, type, world, ftk_context_wire(context, tag),
                      ftk_log_real(context), real);
    if (rc != MPI_SUCCESS)
        return false; /* not sent: the send with a request finds the reason */
    if (out)
        out->count++;
    peer->count[FTK_COUNT_PROGRAM].sent += !kept; /* a logged message has been counted */
    peer->messages++;
    peer->bytes += bytes;
    if (!kept)
        (void)ftk_over_at_once(real);
    return true;
}

bool ftk_send_small(const void *buf, int count, MPI_Datatype type, struct ftk_vcomm *vc, int world,
    int tag, int *error)
{
    const int context = ftk_vcomm_there(vc, world);
    MPI_Request real;
    *error = MPI_SUCCESS;
    if (!ftk_send_at_once(buf, count, type, world, context, tag, &real))
        return false;
    if (real == MPI_REQUEST_NULL)
        return true;
    struct ftk_req r = { .kind = FTK_REQ_SEND,
        .vc = vc,
        .context = context,
        .send.buf = buf,
        .count = count,
        .type = type,
        .peer = world,
        .tag = tag,
        .state = FTK_REQ_POSTED,
        .real = real };
    *error = wait_until_sent(&r);
    return true;
}

/* Whether the match of a receive is a determinant.  With replicas also that of a receive of any
 * tag: an earlier wildcard receive may match some of its messages, so a follower cannot post it
 * before that one is matched, and that one may be matched later. */
static bool is_wildcard(const struct ftk_req *r)
{
    return r->peer == MPI_ANY_SOURCE
           || (r->tag == MPI_ANY_TAG && ftk_log.mode->follows && !r->internal);
}

int ftk_req_begin(struct ftk_req *r)
{
    r->state = FTK_REQ_WAITING;
    r->send.entry = NULL;
    r->real = MPI_REQUEST_NULL;
    r->error = MPI_SUCCESS;
    r->send.owned = r->persistent ? 0 : r->send.owned;
    r->recv.wildcard_seq = r->recv.number = 0;
    r->recv.posted_seq = 0;
    r->recv.cancelled = false;
    r->replay = (struct ftk_req_replay){ false, FTK_CANCEL_UNKNOWN };
    if (ftk_log_is_rolling_back())
        return ftk_req_fail(r, ftk_log_error());
    if (r->peer == MPI_PROC_NULL) {
        ftk_status_make(&r->status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
        return ftk_req_finish(r, MPI_SUCCESS);
    }
    if (ftk_req_is_send(r))
        return ftk_send_begin(r);
    if (r->peer == MPI_ANY_SOURCE && ftk_log_refuses("a receive from MPI_ANY_SOURCE"))
        return ftk_req_fail(r, MPI_ERR_UNSUPPORTED_OPERATION);
    r->recv.want = (struct ftk_envelope){ r->context, r->peer, r->tag };
    r->recv.number = r->internal ? 0 : ftk_det_begun(r);
    if (!r->internal)
        r->recv.set_up = ftk_set_up_receive() & FTK_SET_UP_COLL;
    if (ftk_log_replays_setup() && !r->internal && ftk_set_up_was_cancelled(r->recv.set_up))
        r->replay.cancel = FTK_CANCEL_DONE;
    if (is_wildcard(r) && !ftk_log_replays_setup()) {
        bool known = false;
        r->recv.wildcard_seq = ftk_det_receive(&r->recv.want, &known);
        r->replay.match = known ? ftk_recv_known(r->recv.want.tag) : FTK_MATCH_OPEN;
        ftk_queue_wildcard(r->recv.wildcard_seq != 0);
    }
    ftk_queue_append(r);
    return ftk_match_post(r);
}

/* ---- progress ------------------------------------------------------------------------ */

static int progress_any(struct ftk_req *r)
{
    if (ftk_log_is_rolling_back())
        return ftk_req_fail(r, ftk_log_error());
    switch (r->state) {
    case FTK_REQ_POSTED:
        return ftk_match_posted(r);
    case FTK_REQ_PROBING:
        return ftk_match_mprobed(r);
    case FTK_REQ_LOGGED:
        return ftk_send_is_over(r->send.entry) && !ftk_log.ctx->detect.failed
                   ? ftk_req_finish(r, MPI_SUCCESS)
                   : MPI_SUCCESS;
    case FTK_REQ_WAITING:
    case FTK_REQ_WITHDRAWN:
        return ftk_log_replays_setup() && ftk_req_is_receive(r) && !ftk_log.queue.polls
                   ? ftk_req_fail(r, report_strange(r))
                   : MPI_SUCCESS;
    default:
        return MPI_SUCCESS; /* HELD: see ftk_mode_progress() */
    }
}

/* A request that is no message.  No wait outlives a rollback, whatever the kind does. */
static int progress_other(struct ftk_req *r)
{
    int rc = ftk_req_ops_of(r)->progress(r);
    return ftk_req_is_done(r) || !ftk_log_is_rolling_back() ? rc : ftk_req_fail(r, ftk_log_error());
}

/* Of a combined send and receive the receive is complete; its send may not be. */
static void progress_pair(struct ftk_req *r)
{
    struct ftk_req *s = r->pair;
    int rc = ftk_req_progress(s);
    r->state = ftk_req_is_done(s) ? FTK_REQ_COMPLETE : FTK_REQ_HALF;
    if (r->state == FTK_REQ_HALF)
        return;
    r->error = r->error == MPI_SUCCESS ? rc : r->error;
    r->pair = NULL;
    ftk_req_delete(s);
}

int ftk_req_progress(struct ftk_req *r)
{
    if (!ftk_req_is_done(r) && r->state != FTK_REQ_HALF)
        (void)(ftk_req_is_message(r) ? progress_any(r) : progress_other(r));
    if (r->pair && (ftk_req_is_done(r) || r->state == FTK_REQ_HALF))
        progress_pair(r);
    if (ftk_req_is_done(r) && r->then) {
        int (*then)(struct ftk_req *) = r->then;
        r->then = NULL;
        r->error = r->error == MPI_SUCCESS ? then(r) : r->error;
    }
    return ftk_req_is_done(r) ? r->error : MPI_SUCCESS;
}

int ftk_req_wait(struct ftk_req *r)
{
    unsigned turns = 0;
    if (r->replay.cancel == FTK_CANCEL_DONE && !ftk_req_is_done(r)) {
        r->replay.cancel = FTK_CANCEL_UNKNOWN; /* the program does not cancel it this time */
        (void)ftk_match_post(r);               /* the request has the error, if there is one */
    }
    while (!ftk_req_is_done(r) || r->pair) {
        (void)ftk_req_progress(r);
        if (!ftk_req_is_done(r))
            (void)ftk_log_progress(&turns); /* an error ends all requests under way */
    }
    return r->error;
}

/* ---- requests that the program has freed --------------------------------------------- */

/* No call waits for a send that is freed while active.  The log looks at these when there are twice
 * as many as after the last look, and frees their memory. */
static void look_at_freed(void)
{
    struct ftk_log *l = &ftk_log;
    if (++l->queue.nfreed < 64 + 2 * l->queue.nfreed_before || ftk_log_is_rolling_back()
        || l->ctx->detect.failed || l->ctx->detect.repairing)
        return;
    l->queue.nfreed = 0;
    for (struct ftk_req *r = l->queue.first, *next; r; r = next) {
        next = r->next;
        if (!r->freed_active || !ftk_req_is_send(r))
            continue;
        (void)ftk_req_progress(r); /* there is no call to return an error */
        l->queue.nfreed += r->state != FTK_REQ_FREE;
    }
    l->queue.nfreed_before = l->queue.nfreed;
}

void ftk_req_abandon(struct ftk_req *r)
{
    if (r->pair)
        ftk_req_abandon(r->pair);
    r->pair = NULL;
    r->persistent = false; /* an inactive request is deleted at once */
    if (ftk_req_is_done(r) || r->state == FTK_REQ_HALF) {
        ftk_req_delete(r);
        return;
    }
    r->freed_active = true;
    ftk_vcomm_keep(r->vc);
    ftk_vcomm_drop(r->vc);
    look_at_freed();
}

int ftk_req_wait_all(const struct ftk_vcomm *vc)
{
    unsigned turns = 0;
    struct ftk_req *r;
    for (int i = 0; (r = ftk_req_numbered(i)) != NULL; i++) {
        while (r->vc == vc && !ftk_req_is_done(r)) {
            (void)ftk_req_progress(r); /* the request has the error, if there is one */
            int rc = ftk_req_is_done(r) ? MPI_SUCCESS : ftk_log_progress(&turns);
            if (rc != MPI_SUCCESS)
                return rc;
        }
    }
    return MPI_SUCCESS;
}

/* ---- ending all requests ------------------------------------------------------------- */

void ftk_log_begin_rollback(void)
{
    struct ftk_log *l = &ftk_log;
    l->phase = FTK_PHASE_ROLLING_BACK;
    while (l->queue.first)
        (void)ftk_req_fail(l->queue.first, ftk_log_error());
}

static int report_strange(const struct ftk_req *r)
{
    char text[256];
    if (ftk_log.ctx->dead != FTKIT_OK) /* the context has ended with the replay, and said why */
        return MPI_ERR_PENDING;
    ftk_req_describe(r, text, sizeof text);
    ftk_report(FTKIT_ERROR,
        "context %s: rank %d: in the replay of set-up (from ftkit_open to ftkit_recover) the "
        "replacement waits for %s, which the lost process has not received%s",
        ftk_log.ctx->cfg.name, ftk_log.me, text,
        ftk_log.line.setup_unread
            ? ", as far as ftkit knows (the record of its set-up could not be read): "
              "start the job again"
            : ": set-up has to be the same");
    return MPI_ERR_PENDING;
}

static void close_wait(void)
{
    memset(&last_wait, 0, sizeof last_wait);
}

const struct ftk_part ftk_part_wait = { .close = close_wait };
