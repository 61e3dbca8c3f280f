/* Receives: records of complete receives, delivery of unexpected messages.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "log/base/dtype.h"
#include "log/base/queue.h"
#include "log/base/runtime.h"
#include "log/mode.h"
#include "log/determinant/det.h"
#include "log/determinant/set_up.h"
#include "log/request/match.h"
#include "log/request/order.h"
#include "log/request/overtake.h"
#include "log/request/recv.h"

/* ---- draining ------------------------------------------------------------------------ */

int ftk_recv_drain(int context, MPI_Message *m, const MPI_Status *s, struct ftk_unexp **out)
{
    MPI_Count bytes;
    int rc = PMPI_Get_elements_x(s, MPI_BYTE, &bytes);
    if (rc != MPI_SUCCESS)
        return rc;
    MPI_Datatype type;
    int n;
    rc = ftk_mode_absorb(context, s->MPI_SOURCE);
    if (rc != MPI_SUCCESS)
        return rc;
    context = ftk_context_of(ftk_context_comm(context), s->MPI_TAG);
    struct ftk_unexp *h =
        ftk_unexp_new(context, s->MPI_SOURCE, ftk_context_tag(context, s->MPI_TAG), (size_t)bytes);
    if (!h)
        return MPI_ERR_NO_MEM;
    rc = ftk_dtype_bytes((size_t)bytes, &n, &type);
    if (rc == MPI_SUCCESS)
        rc = PMPI_Mrecv(h->data, n, type, m, MPI_STATUS_IGNORE);
    ftk_dtype_bytes_free(&type);
    if (rc == MPI_SUCCESS)
        rc = ftk_mode_drained(h);
    const uint64_t seq = ftk_queue_next();
    if (rc == MPI_SUCCESS)
        rc = ftk_overtake_note(seq, context, h->source, h->tag);
    if (rc == MPI_SUCCESS)
        rc = ftk_recv_count(context, h->source, h->tag, seq, h->data, h->bytes, true);
    if (rc != MPI_SUCCESS) {
        ftk_unexp_free(h);
        return rc;
    }
    *out = h;
    return rc;
}

/* ---- into memory of a device ----------------------------------------------------------- */

/* The memory of the request, for all bytes that it may get. */
static int stage(struct ftk_req *r, int *n, MPI_Datatype *type)
{
    size_t bytes;
    *type = MPI_BYTE;
    int rc = ftk_dtype_size(r->count, r->type, &bytes);
    if (rc == MPI_SUCCESS && !r->own)
        r->own = malloc(bytes ? bytes : 1);
    if (rc == MPI_SUCCESS && !r->own)
        rc = MPI_ERR_NO_MEM;
    return rc == MPI_SUCCESS ? ftk_dtype_bytes(bytes, n, type) : rc;
}

int ftk_recv_post_staged(struct ftk_req *r, int wire_tag)
{
    MPI_Datatype type;
    int n = 0;
    int rc = stage(r, &n, &type);
    if (rc == MPI_SUCCESS)
        rc = PMPI_Irecv(
            r->own, n, type, r->recv.want.source, wire_tag, ftk_log_real(r->context), &r->real);
    ftk_dtype_bytes_free(&type);
    return rc;
}

int ftk_recv_take_staged(struct ftk_req *r, MPI_Message *m)
{
    MPI_Datatype type;
    int n = 0;
    int rc = stage(r, &n, &type);
    if (rc == MPI_SUCCESS)
        rc = PMPI_Imrecv(r->own, n, type, m, &r->real);
    ftk_dtype_bytes_free(&type);
    return rc;
}

/* The MPI has written the memory of the request, unless error says that it has not. */
static int unstage(struct ftk_req *r, const MPI_Status *s, int error)
{
    MPI_Count bytes = 0;
    int rc = error == MPI_SUCCESS ? PMPI_Get_elements_x(s, MPI_BYTE, &bytes) : error;
    if (rc == MPI_SUCCESS)
        rc = ftk_dtype_unpack(r->own, (size_t)bytes, r->recv.buf, r->count, r->type);
    free(r->own);
    r->own = NULL;
    return rc;
}

/* ---- receiving ----------------------------------------------------------------------- */

/* A message has been received: count it, and if it comes from another team, or lines are apart,
 * record it on its channel. */
int ftk_recv_count(
    int context, int source, int tag, uint64_t seq, const void *data, size_t bytes, bool hash)
{
    struct ftk_log *l = &ftk_log;
    const bool crosses = ftk_log_crosses(source);
    uint64_t sum = 0;
    ftk_peer(source)->count[FTK_COUNT_PROGRAM].received++;
    if (!crosses && !l->apart.on)
        return MPI_SUCCESS;
    struct ftk_channel *s = ftk_channel_find(context, source, tag);
    if (s && data && hash && crosses && l->ctx->cfg.log_check)
        sum = ftk_log_hash(data, bytes);
    if (!s || ftk_channel_count(s, seq, sum) != FTKIT_OK)
        return MPI_ERR_NO_MEM;
    return l->apart.open && ftk_late_wants(s, seq) ? ftk_late_received(s, seq, data, bytes)
                                                   : MPI_SUCCESS;
}

/* Line apart: whether a message may be late, so that its data are needed. */
static bool may_be_late(const struct ftk_req *r, int source, int tag)
{
    const struct ftk_channel *s =
        ftk_log.apart.open ? ftk_channel_find(r->context, source, tag) : NULL;
    return s && ftk_late_wants(s, r->seq);
}

/* The bytes of a received message, copied to the heap; the program's buffer may have been shorter
 * than the message. */
static int copy_out(const struct ftk_req *r, size_t bytes, size_t room, char **copy)
{
    if (bytes <= room)
        return ftk_dtype_packed_part(r->recv.buf, bytes, r->type, copy);
    int rc = ftk_dtype_packed_part(r->recv.buf, room, r->type, copy);
    char *all = rc == MPI_SUCCESS ? realloc(*copy, bytes) : NULL;
    if (!all)
        return rc == MPI_SUCCESS ? MPI_ERR_NO_MEM : rc;
    memset(all + room, 0, bytes - room);
    *copy = all;
    return MPI_SUCCESS;
}

/* Record a received message: its bytes, too, if a hash, a set or the set-up log needs them. */
static int record(struct ftk_req *r, int source, int tag, size_t bytes)
{
    struct ftk_log *l = &ftk_log;
    bool in_set_up = ftk_set_up_keeps(r);
    bool hash = l->ctx->cfg.log_check && ftk_log_crosses(source);
    const bool late = may_be_late(r, source, tag);
    const struct ftk_dtype *f;
    char *copy = NULL;
    const void *data = NULL;
    size_t room = 0;
    int rc = ftk_dtype_facts(r->type, &f);
    if (rc == MPI_SUCCESS)
        room = (size_t)r->count * (size_t)f->bytes;
    hash = hash && bytes <= room; /* the hash of a truncated message is not known */
    if (rc == MPI_SUCCESS && (hash || late) && ftk_dtype_is_flat(f, r->recv.buf) && !in_set_up
        && bytes <= room)
        data = r->recv.buf;
    else if (rc == MPI_SUCCESS && (in_set_up || hash || late))
        rc = copy_out(r, bytes, room, &copy);
    if (rc == MPI_SUCCESS)
        rc = ftk_recv_count(
            r->context, source, tag, r->seq, (hash || late) && copy ? copy : data, bytes, hash);
    if (rc == MPI_SUCCESS && in_set_up) {
        struct ftk_unexp *h = calloc(1, sizeof *h);
        if (!h) {
            free(copy);
            return MPI_ERR_NO_MEM;
        }
        *h = (struct ftk_unexp){ .context = r->context,
            .source = source,
            .tag = tag,
            .bytes = bytes,
            .data = copy,
            .seq = r->seq,
            .receive = ftk_set_up_number(r) };
        ftk_setup_log_add(h);
        return rc;
    }
    free(copy);
    return rc;
}

/* Record a determinant, if MPI could have given this receive another message. */
static void decided(const struct ftk_req *r, int source, int tag)
{
    if (r->recv.wildcard_seq)
        ftk_det_received(r->recv.wildcard_seq, source, tag);
}

void ftk_recv_note_tag(const struct ftk_req *r, const struct ftk_envelope *found)
{
    const bool decides = r->recv.wildcard_seq && r->recv.wildcard_seq != FTK_RECV_IN_DOUBT;
    if (r->recv.want.tag == MPI_ANY_TAG && !decides && !r->internal
        && found->source != MPI_PROC_NULL && ftk_order_passes(r->seq, found->context, found->source)
        && !ftk_mode_follows())
        ftk_det_tagged(r->recv.number, found->source, found->tag);
}

void ftk_recv_bind(struct ftk_req *r, int source)
{
    r->recv.want.source = source;
    if (r->replay.match == FTK_MATCH_OPEN)
        r->replay.match = FTK_MATCH_BOUND;
    if (r->recv.wildcard_seq == 0)
        return;
    if (r->recv.wildcard_seq != FTK_RECV_IN_DOUBT)
        decided(r, source, r->recv.want.tag);
    r->recv.wildcard_seq = 0;
    ftk_queue_no_wildcard();
}

/* Whether a received message is only counted: no determinant, no hash, no copy. */
static bool is_only_counted(const struct ftk_req *r, const MPI_Status *s, int error)
{
    return error == MPI_SUCCESS && !r->recv.wildcard_seq && !ftk_set_up_keeps(r)
           && !ftk_log_crosses(s->MPI_SOURCE) && !ftk_log.apart.open;
}

static int only_count(const struct ftk_req *r, int source, int tag)
{
    const int rc =
        ftk_log.apart.on ? ftk_overtake_note(r->seq, r->context, source, tag) : MPI_SUCCESS;
    return rc == MPI_SUCCESS ? ftk_recv_count(r->context, source, tag, r->seq, NULL, 0, false) : rc;
}

static int record_whole(struct ftk_req *r, const MPI_Status *s, int tag)
{
    MPI_Count bytes = 0;
    int rc = PMPI_Get_elements_x(s, MPI_BYTE, &bytes);
    if (rc == MPI_SUCCESS)
        rc = ftk_overtake_note(r->seq, r->context, s->MPI_SOURCE, tag);
    return rc == MPI_SUCCESS ? record(r, s->MPI_SOURCE, tag, (size_t)bytes) : rc;
}

static void cancelled_in_time(const struct ftk_req *r)
{
    ftk_det_cancelled(r->recv.number, true);
    if (ftk_set_up_keeps(r))
        ftk_set_up_cancelled(r->recv.set_up);
}

int ftk_recv_too_late(struct ftk_req *r)
{
    if (r->replay.cancel == FTK_CANCEL_UNKNOWN) {
        ftk_det_cancelled(r->recv.number, false);
        r->replay.cancel = FTK_CANCEL_TOO_LATE;
    }
    r->recv.cancelled = false; /* a repair posts it again if the sender is dead */
    if (r->recv.wildcard_seq == FTK_RECV_IN_DOUBT) {
        r->recv.wildcard_seq = 0;
        ftk_queue_no_wildcard();
    }
    return MPI_SUCCESS;
}

/* The MPI has completed a receive. */
int ftk_recv_complete(struct ftk_req *r, const MPI_Status *s, int error)
{
    int cancelled = 0;
    const int tag = ftk_context_tag(r->context, s->MPI_TAG);
    if (r->recv.cancelled && PMPI_Test_cancelled(s, &cancelled) == MPI_SUCCESS && cancelled) {
        if (r->replay.cancel != FTK_CANCEL_DONE)
            cancelled_in_time(r);
        r->status = *s;
        return ftk_req_finish(r, MPI_SUCCESS);
    }
    if (r->recv.cancelled)
        ftk_recv_too_late(r);
    (void)FTK_FAULT("log.received");
    if (r->own)
        error = unstage(r, s, error);
    if (error == MPI_SUCCESS)
        error = ftk_mode_absorb(r->context, s->MPI_SOURCE);
    if (r->ends)
        return r->ends->complete(r, s, error);
    const int rc =
        is_only_counted(r, s, error) ? only_count(r, s->MPI_SOURCE, tag) : record_whole(r, s, tag);
    r->status = *s;
    r->status.MPI_SOURCE = ftk_vcomm_peer_rank(r->vc, s->MPI_SOURCE);
    r->status.MPI_TAG = tag;
    decided(r, s->MPI_SOURCE, tag);
    return ftk_req_finish(r, error != MPI_SUCCESS ? error : rc);
}

int ftk_recv_cancelled(struct ftk_req *r)
{
    ftk_status_empty(&r->status);
    r->recv.cancelled = true;
    if (r->replay.cancel != FTK_CANCEL_DONE)
        cancelled_in_time(r);
    (void)ftk_req_finish(r, MPI_SUCCESS);
    return PMPI_Status_set_cancelled(&r->status, 1);
}

bool ftk_recv_stays(struct ftk_req *r)
{
    if (!r->recv.cancelled)
        return true;
    (void)(r->replay.match != FTK_MATCH_OPEN ? ftk_recv_too_late(r)
                                             : ftk_recv_cancelled(r)); /* MPI_SUCCESS */
    return !ftk_req_is_done(r);
}

/* A message that is too long for the receive is one, too. */
static void complete_withdrawn(struct ftk_req *r, const MPI_Status *s, bool done, int error)
{
    if (done && ftk_req_is_receive(r)) {
        const struct ftk_envelope found = ftk_match_found(r, s);
        ftk_recv_note_tag(r, &found);
    }
    (void)ftk_message_complete(r, s, error); /* the request has the error, if there is one */
}

int ftk_message_withdraw(struct ftk_req *r)
{
    MPI_Status s;
    int done = 0, cancelled = 0;
    int rc = ftk_match_test(r, &done, &s);
    if (rc != MPI_SUCCESS && ftk_log_is_failure(rc)) {
        ftk_req_failed(r);
        return FTKIT_OK;
    }
    if (rc == MPI_SUCCESS && !done)
        return FTKIT_OK;
    if (ftk_req_is_receive(r) && !r->recv.cancelled && rc == MPI_SUCCESS
        && PMPI_Test_cancelled(&s, &cancelled) == MPI_SUCCESS && cancelled)
        r->state = FTK_REQ_WITHDRAWN; /* cancelled by the log, not by the program */
    else
        complete_withdrawn(r, &s, done, rc);
    return FTKIT_OK;
}

/* Deliver an unexpected message; it was counted when it was drained. */
int ftk_recv_deliver(struct ftk_req *r, struct ftk_unexp *h)
{
    size_t room, bytes = h->bytes;
    int rc = ftk_dtype_size(r->count, r->type, &room);
    if (rc == MPI_SUCCESS && bytes > room) {
        bytes = room;
        rc = MPI_ERR_TRUNCATE;
    }
    int unpacked = ftk_dtype_unpack(h->data, bytes, r->recv.buf, r->count, r->type);
    ftk_status_make(&r->status, ftk_vcomm_peer_rank(r->vc, h->source), h->tag, bytes);
    decided(r, h->source, h->tag);
    ftk_recv_note_tag(r, &(struct ftk_envelope){ h->context, h->source, h->tag });
    ftk_unexp_free(h);
    return ftk_req_finish(r, rc != MPI_SUCCESS ? rc : unpacked);
}
