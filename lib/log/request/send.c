/* Sends: logged, counted, suppressed, handed to the MPI.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "core/grow.h"
#include "core/left_send.h"
#include "log/mode.h"
#include "log/determinant/det.h"
#include "log/base/dtype.h"
#include "log/base/figures.h"
#include "log/base/part.h"
#include "log/base/queue.h"
#include "log/base/runtime.h"
#include "log/base/stage.h"
#include "log/determinant/set_up.h"
#include "log/payload/range.h"
#include "log/request/req_ops.h"
#include "log/request/send.h"

#define REAP 64    /* sends under way before a look at them, which may yield the processor */
#define MUCH 16384 /* bytes of a logged message that is sent before it is copied */

/* The replay check: the message r, number n of its channel, differs from the first execution's; 0:
 * that had no such message. */
static void report_difference(const struct ftk_req *r, uint64_t n);

/* ---- sending ------------------------------------------------------------------------- */

/* Log entries that the MPI is sending. */
static struct ftk_entry **sending;
static size_t nsending, sending_room;
static uint64_t nsuppressed;  /* messages, for ftkit_query() */
static size_t reap_at = REAP; /* with so many under way comes the next look at them */

bool ftk_send_is_over(struct ftk_entry *e)
{
    int done = 0;
    if (e->real == MPI_REQUEST_NULL)
        return true;
    int rc = PMPI_Test(&e->real, &done, MPI_STATUS_IGNORE);
    if (rc != MPI_SUCCESS) { /* the receiver is dead: its replacement gets the message */
        ftk_log_note_failure();
        e->real = MPI_REQUEST_NULL;
        return true;
    }
    return done != 0;
}

void ftk_send_reap(size_t most)
{
    size_t kept = 0;
    for (size_t i = 0; i < nsending; i++)
        if (kept >= most || !ftk_send_is_over(sending[i]))
            sending[kept++] = sending[i];
    nsending = kept;
    reap_at = kept + REAP;
}

static void close_sends(void)
{
    ftk_send_reap(SIZE_MAX);
    for (size_t i = 0; i < nsending; i++)
        ftk_leave_send(&sending[i]->real, NULL); /* no rank will receive it */
    free(sending);
    sending = NULL;
    nsending = sending_room = 0;
    reap_at = REAP;
    nsuppressed = 0;
}

bool ftk_send_needs_before(uint32_t generation)
{
    ftk_send_reap(SIZE_MAX);
    for (size_t i = 0; i < nsending; i++)
        if (sending[i]->generation < generation)
            return true;
    for (const struct ftk_req *r = ftk_log.queue.first; r; r = r->next)
        if (ftk_req_is_send(r) && r->send.entry && r->send.entry->generation < generation)
            return true;
    return false;
}

static int room_to_remember(void)
{
    return ftk_grow(&sending, &sending_room, nsending + 1, sizeof(struct ftk_entry *))
               ? MPI_SUCCESS
               : MPI_ERR_NO_MEM;
}

/* Send a log entry in the background: a later look tests it, unless it is complete at once. */
static int isend_entry(struct ftk_entry *e, int dest, MPI_Comm comm, int tag)
{
    MPI_Datatype type;
    int count;
    char *data = ftk_entry_data(e);
    if (nsending >= reap_at)
        ftk_send_reap(2);
    int rc = ftk_dtype_bytes(e->bytes, &count, &type);
    if (rc == MPI_SUCCESS)
        rc = room_to_remember();
    if (rc == MPI_SUCCESS)
        rc = e->sync ? PMPI_Issend(data, count, type, dest, tag, comm, &e->real)
                     : PMPI_Isend(data, count, type, dest, tag, comm, &e->real);
    if (rc == MPI_SUCCESS && !ftk_over_at_once(&e->real))
        sending[nsending++] = e;
    ftk_dtype_bytes_free(&type);
    return rc;
}

int ftk_send_entry(struct ftk_entry *e, int dest)
{
    MPI_Comm comm = ftk_log_real(e->context);
    const int tag = ftk_context_wire(e->context, e->tag);
    int rc = ftk_mode_before(dest, e->context, e->tag, e);
    if (rc == MPI_SUCCESS)
        rc = isend_entry(e, dest, comm, tag);
    ftk_peer(dest)->count[FTK_COUNT_PROGRAM].sent += rc == MPI_SUCCESS;
    if (rc == MPI_SUCCESS || !ftk_log_is_failure(rc))
        return rc;
    e->real = MPI_REQUEST_NULL;
    ftk_log_note_failure();
    return MPI_SUCCESS; /* logged: the receiver's replacement gets it */
}

/* Suppression: whether the receiver has this message already.  The replay check compares the
 * hash. */
static bool suppressed(const struct ftk_req *r, uint64_t hash)
{
    struct ftk_suppress *m = ftk_suppress_find(r->context, r->peer, r->tag);
    if (!m)
        return false;
    uint64_t n = m->next++;
    if (n > m->upto)
        return false;
    for (int i = 0; i < m->ngaps; i++)
        if (m->gap[i] == n)
            return false;
    nsuppressed++;
    if (m->hash && hash != 0 && m->hash[n - 1] != 0 && m->hash[n - 1] != hash)
        report_difference(r, n);
    return true;
}

static int hash_of(const struct ftk_req *r, uint64_t *hash)
{
    const struct ftk_dtype *f;
    char *copy = NULL;
    size_t bytes = r->send.owned;
    const void *data = r->own;
    int rc = ftk_dtype_facts(r->type, &f);
    if (rc == MPI_SUCCESS && r->send.owned == 0) {
        bytes = (size_t)r->count * (size_t)f->bytes;
        data = r->send.buf;
    }
    if (rc == MPI_SUCCESS && r->send.owned == 0 && bytes > 0
        && !ftk_dtype_is_flat(f, r->send.buf)) {
        rc = ftk_dtype_packed(r->send.buf, r->count, r->type, &copy, &bytes);
        data = copy;
    }
    if (rc == MPI_SUCCESS)
        *hash = ftk_log_hash(bytes > 0 ? data : "", bytes);
    free(copy);
    return rc;
}

/* Give the message to the MPI, from the program's memory or from the request's. */
static int post_send(struct ftk_req *r)
{
    MPI_Comm comm = ftk_log_real(r->context);
    const int tag = ftk_context_wire(r->context, r->tag);
    const void *buf = r->send.owned > 0 ? r->own : r->send.buf;
    MPI_Datatype bytes = MPI_BYTE, type = r->type;
    int count = r->count;
    int rc = ftk_mode_before(r->peer, r->context, r->tag, r->send.entry);
    if (rc == MPI_SUCCESS && r->send.owned > 0) {
        rc = ftk_dtype_bytes(r->send.owned, &count, &bytes);
        type = bytes;
    }
    if (rc == MPI_SUCCESS)
        rc = r->send.sync ? PMPI_Issend(buf, count, type, r->peer, tag, comm, &r->real)
                          : PMPI_Isend(buf, count, type, r->peer, tag, comm, &r->real);
    ftk_dtype_bytes_free(&bytes);
    if (rc == MPI_SUCCESS)
        r->state = FTK_REQ_POSTED;
    ftk_peer(r->peer)->count[FTK_COUNT_PROGRAM].sent += rc == MPI_SUCCESS;
    return rc;
}

/* A long message is sent from the program's memory at once, and is copied into the log meanwhile,
 * if the program does not keep it in a range.  If its receiver dies, the replacement gets the log
 * entry. */
static int send_and_keep(struct ftk_req *r, struct ftk_entry *e, struct ftk_range *in)
{
    ftk_status_empty(&r->status);
    r->send.entry = e;
    int rc = in || ftk_slog_reserve(e->bytes) ? post_send(r) : MPI_ERR_NO_MEM;
    if (rc != MPI_SUCCESS && !ftk_log_is_failure(rc)) {
        ftk_slog_drop_last(r->peer);
        r->send.entry = NULL;
        return ftk_req_fail(r, rc);
    }
    if (rc != MPI_SUCCESS) {
        r->state = FTK_REQ_LOGGED;
        ftk_log_note_failure();
    }
    ftk_queue_append(r);
    if (in) {
        ftk_range_refer(in, e, r->peer, r->send.buf);
        return MPI_SUCCESS;
    }
    /* MPI_SUCCESS: there is memory, and the MPI has just accepted the type */
    return ftk_slog_keep(e, r->send.buf, r->count, r->type);
}

/* A send with a log entry. */
static int send_entry(struct ftk_req *r)
{
    int rc = ftk_send_entry(r->send.entry, r->peer);
    if (rc != MPI_SUCCESS)
        return ftk_req_fail(r, rc);
    if (!r->send.sync)
        return ftk_req_finish(r, MPI_SUCCESS);
    r->state = FTK_REQ_LOGGED;
    return MPI_SUCCESS;
}

/* Between teams: log the message and send the log entry.  The send is complete then: its rank does
 * not wait for the receiver, which makes pipelines faster. */
static int send_logged(struct ftk_req *r, size_t bytes)
{
    struct ftk_log *l = &ftk_log;
    struct ftk_entry *e = ftk_slog_new(r->peer, r->context, r->tag, bytes);
    if (!e)
        return ftk_req_fail(r, MPI_ERR_NO_MEM);
    int rc = l->mode->log_entry ? l->mode->log_entry(e) : MPI_SUCCESS;
    if (rc != MPI_SUCCESS) {
        ftk_slog_drop_last(r->peer);
        return ftk_req_fail(r, rc);
    }
    e->sync = r->send.sync;
    struct ftk_range *in = e->away ? ftk_range_of(r->send.buf, r->type, bytes) : NULL;
    if ((in || bytes > MUCH) && !ftk_log_replays() && l->phase != FTK_PHASE_REPLAY
        && ftk_mpi_takes(r->send.buf) && !ftk_mode_hold(r))
        return send_and_keep(r, e, in);
    rc = ftk_slog_keep(e, r->send.buf, r->count, r->type);
    if (rc != MPI_SUCCESS) {
        ftk_slog_drop_last(r->peer);
        return ftk_req_fail(r, rc);
    }
    if (ftk_log_replays() && l->ctx->cfg.log_check && e->hash == 0)
        e->hash = ftk_log_hash(ftk_entry_data(e), bytes);
    ftk_status_empty(&r->status);
    if (ftk_log_replays() && suppressed(r, e->hash))
        return ftk_req_finish(r, MPI_SUCCESS);
    r->send.entry = e;
    e->unsent = r->state == FTK_REQ_HELD || ftk_mode_hold(r);
    if (e->unsent || r->send.sync)
        ftk_queue_append(r);
    rc = e->unsent ? MPI_SUCCESS : send_entry(r);
    if (rc != MPI_SUCCESS)
        ftk_slog_drop_last(r->peer);
    return rc;
}

/* In a replay a rank sends a copy of a message that it does not keep.  A program may free the
 * request of a send, and use the buffer again when it knows, from a barrier perhaps, that the
 * message has been received.  In a replay the barrier proves nothing: its messages from other teams
 * are in logs, and this rank may leave the barrier before the receiver, which has rolled back, too,
 * has come to the receive. */
static bool may_lose_buffer(struct ftk_req *r)
{
    return ftk_log.phase == FTK_PHASE_REPLAY && !r->internal && ftk_req_of(ftk_req_handle(r));
}

/* The MPI gets a copy of a message that the program may overwrite, or that the MPI cannot read. */
static int own_bytes(struct ftk_req *r, size_t bytes)
{
    if (r->send.owned > 0 || bytes == 0 || (ftk_mpi_takes(r->send.buf) && !may_lose_buffer(r)))
        return MPI_SUCCESS;
    free(r->own); /* of an earlier start */
    return ftk_dtype_packed(r->send.buf, r->count, r->type, &r->own, &r->send.owned);
}

/* Whether the receiver of a message that is not kept has it: a rank of another team, if this team
 * is silent; or the message is an early one of the line. */
static int is_had(const struct ftk_req *r, bool crosses, bool *had)
{
    uint64_t hash = 0;
    int rc = MPI_SUCCESS;
    *had = false;
    if (!ftk_log_replays() || !(crosses || ftk_log.apart.on))
        return rc;
    if (crosses && ftk_log.ctx->cfg.log_check)
        rc = hash_of(r, &hash);
    if (rc == MPI_SUCCESS)
        *had = suppressed(r, hash);
    return rc;
}

/* Inside the team, or from a silent team: send from the program's memory. */
static int send_direct(struct ftk_req *r, size_t bytes, bool crosses)
{
    bool had = false;
    int rc = own_bytes(r, bytes);
    ftk_status_empty(&r->status);
    if (rc == MPI_SUCCESS)
        rc = is_had(r, crosses, &had);
    if (rc != MPI_SUCCESS)
        return ftk_req_fail(r, rc);
    if (had)
        return ftk_req_finish(r, MPI_SUCCESS);
    if (ftk_mode_hold(r)) {
        ftk_queue_append(r);
        return MPI_SUCCESS;
    }
    rc = post_send(r);
    if (rc == MPI_SUCCESS && ftk_over_at_once(&r->real))
        return ftk_req_finish(r, MPI_SUCCESS);
    if (rc != MPI_SUCCESS && !ftk_log_is_failure(rc))
        return ftk_req_fail(r, rc);
    if (rc != MPI_SUCCESS)
        ftk_log_note_failure(); /* this rank will roll back with the receiver */
    ftk_queue_append(r);
    return MPI_SUCCESS;
}

void ftk_send_release(struct ftk_req *r)
{
    ftk_mode_unhold(r);
    if (r->send.entry) {
        r->send.entry->unsent = false;
        (void)send_entry(r);
        return;
    }
    int rc = post_send(r);
    if (rc != MPI_SUCCESS && !ftk_log_is_failure(rc))
        (void)ftk_req_fail(r, rc);
    else if (rc != MPI_SUCCESS)
        ftk_log_note_failure();
}

/* Set-up: keep the hash of a message, or compare it with that of the lost process.  A collective
 * that set-up leaves under way may come further in the replay. */
static int check_set_up(struct ftk_req *r)
{
    uint64_t hash, n = 0;
    int rc = hash_of(r, &hash);
    if (rc != MPI_SUCCESS)
        return rc;
    if (!ftk_log_replays_setup())
        return ftk_set_up_sent(r->context, r->peer, r->tag, hash) == FTKIT_OK ? rc : MPI_ERR_NO_MEM;
    const enum ftk_set_up_send found = ftk_set_up_sends(r->context, r->peer, r->tag, hash, &n);
    if (found == FTK_SENT_ANOTHER || (found == FTK_SENT_NONE && !r->internal))
        report_difference(r, n);
    return rc;
}

int ftk_send_begin(struct ftk_req *r)
{
    struct ftk_log *l = &ftk_log;
    size_t bytes;
    int rc = ftk_dtype_size(r->count, r->type, &bytes);
    if (rc != MPI_SUCCESS)
        return ftk_req_fail(r, rc);
    if (l->in_set_up && l->ctx->cfg.log_check)
        rc = check_set_up(r);
    if (rc != MPI_SUCCESS)
        return ftk_req_fail(r, rc);
    if (ftk_log_replays_setup()) { /* the receivers have all messages from before the line */
        ftk_status_empty(&r->status);
        return ftk_req_finish(r, MPI_SUCCESS);
    }
    ftk_det_before_send();
    if (l->mode->begin_send)
        l->mode->begin_send(r->internal);
    (void)FTK_FAULT("log.send");
    struct ftk_peer *peer = ftk_peer(r->peer);
    peer->messages++;
    peer->bytes += bytes;
    struct ftk_sent *out = l->apart.on ? ftk_sent_find(r->context, r->peer, r->tag) : NULL;
    if (l->apart.on && !out)
        return ftk_req_fail(r, MPI_ERR_NO_MEM);
    const bool crosses = ftk_log_crosses(r->peer), keeps = ftk_log_keeps(r->peer);
    if (crosses && !keeps) /* before the MPI may say that the receiver is dead */
        ftk_silent_sends(peer);
    rc = keeps ? send_logged(r, bytes) : send_direct(r, bytes, crosses);
    if (out)
        out->count += rc == MPI_SUCCESS;
    return rc;
}

/* ---- the replay check ---------------------------------------------------------------- */

static void report_difference(const struct ftk_req *r, uint64_t n)
{
    char of[MPI_MAX_OBJECT_NAME + 128], what[sizeof of + 64];
    const bool is_of_coll = r->internal && r->coll;
    int dest = is_of_coll ? ftk_vcomm_rank(r->vc, r->peer) : ftk_vcomm_peer_rank(r->vc, r->peer);
    if (is_of_coll && dest < 0) /* of the remote group */
        dest = ftk_vcomm_peer_rank(r->vc, r->peer);
    if (is_of_coll)
        ftk_log.kinds[FTK_REQ_COLL]->describe(r, of, sizeof of);
    else
        ftk_vcomm_describe(r->vc, of, sizeof of);
    if (is_of_coll)
        snprintf(what, sizeof what, "what %s, sends to rank %d", of, dest);
    else if (n == 0)
        snprintf(
            what, sizeof what, "a message too many to rank %d with tag %d on %s", dest, r->tag, of);
    else
        snprintf(what, sizeof what, "message %llu to rank %d with tag %d on %s",
            (unsigned long long)n, dest, r->tag, of);
    ftk_report(FTKIT_ERROR,
        "context %s: rank %d: %s is not what it was before the failure: the program does not send "
        "the same again%s%s",
        ftk_log.ctx->cfg.name, ftk_log.me, what,
        ftk_log.in_set_up ? " in the replay of set-up (from ftkit_open to ftkit_recover)" : "",
        ftk_log.ctx->cfg.replicas > 1 ? ", or a bit of the first message had flipped" : "");
    ftk_figures_differs();
}

static bool sends(void)
{
    ftk_send_reap(SIZE_MAX);
    return nsending > 0;
}

static int withdraw(const struct ftk_quiescing *q)
{
    return ftk_quiescing_await(q, sends);
}

static void figures(ftkit_info *info)
{
    info->log_suppressed = nsuppressed;
}

const struct ftk_part ftk_part_send = {
    .close = close_sends, .figures = figures, .sends = sends, .withdraw = withdraw
};
