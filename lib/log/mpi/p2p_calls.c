/* The program's calls of point-to-point communication in log mode.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "detect/detect.h"
#include "log/coll.h"
#include "log/mode.h"
#include "log/det.h"
#include "log/p2p.h"
#include "log/control.h"
#include "mpi_calls.h"

/* Handles in Fortran: handles of the MPI are small numbers, those of the log begin here. */
#define OURS FTK_HANDLES_FROM

enum { CAN_BE_ANY = 1 };

/* ---- arguments ----------------------------------------------------------------------- */

static int check(
    const struct ftk_vcomm *vc, int count, MPI_Datatype type, int peer, int tag, int flags)
{
    if (count < 0)
        return MPI_ERR_COUNT;
    if (type == MPI_DATATYPE_NULL)
        return MPI_ERR_TYPE;
    if (peer != MPI_PROC_NULL && (peer < 0 || peer >= ftk_vcomm_peers(vc))
        && !(flags & CAN_BE_ANY && peer == MPI_ANY_SOURCE))
        return MPI_ERR_RANK;
    if (tag < 0 && !(flags & CAN_BE_ANY && tag == MPI_ANY_TAG))
        return MPI_ERR_TAG;
    if (tag == FTK_CONTROL_TAG && ftk_log.mode->in_band)
        return MPI_ERR_TAG;
    if (tag > FTK_TAG_MAX && ftk_context_shares(vc->context))
        return MPI_ERR_TAG;
    return MPI_SUCCESS;
}

static int fill_send(struct ftk_req *r, const void *buf, int count, MPI_Datatype type, int dest,
    int tag, struct ftk_vcomm *vc)
{
    int rc = check(vc, count, type, dest, tag, 0);
    r->kind = FTK_REQ_SEND;
    r->vc = vc;
    r->send.buf = buf;
    r->count = count;
    r->type = type;
    r->peer = rc == MPI_SUCCESS ? ftk_vcomm_peer_world(vc, dest) : dest;
    r->context = rc == MPI_SUCCESS ? ftk_vcomm_there(vc, r->peer) : vc->context;
    r->tag = tag;
    return rc;
}

static int fill_recv(struct ftk_req *r, void *buf, int count, MPI_Datatype type, int source,
    int tag, struct ftk_vcomm *vc)
{
    int rc = check(vc, count, type, source, tag, CAN_BE_ANY);
    r->kind = FTK_REQ_RECV;
    r->vc = vc;
    r->context = vc->context;
    r->recv.buf = buf;
    r->count = count;
    r->type = type;
    r->peer = rc == MPI_SUCCESS ? ftk_vcomm_peer_world(vc, source) : source;
    r->tag = tag;
    return rc;
}

/* The result of a call: an error goes to the error handler of the communicator.  While this rank
 * rolls back no handler is called (ftk_vcomm_error()). */
static int end(const struct ftk_vcomm *vc, int rc)
{
    return __builtin_expect(rc == MPI_SUCCESS, 1) ? rc : ftk_vcomm_error(vc, rc);
}

/* ---- blocking ------------------------------------------------------------------------ */

static int send_now(const void *buf, int count, MPI_Datatype type, int dest, int tag,
    struct ftk_vcomm *vc, bool sync)
{
    int rc = MPI_SUCCESS;
    if (!sync && check(vc, count, type, dest, tag, 0) == MPI_SUCCESS && dest >= 0
        && ftk_p2p_send_small(buf, count, type, vc, ftk_vcomm_peer_world(vc, dest), tag, &rc))
        return end(vc, rc);
    struct ftk_req r = { .send.sync = sync };
    rc = fill_send(&r, buf, count, type, dest, tag, vc);
    if (rc == MPI_SUCCESS)
        rc = ftk_req_begin(&r);
    if (rc == MPI_SUCCESS && !ftk_req_is_done(&r))
        rc = ftk_req_wait(&r);
    return end(vc, rc);
}

#define SEND(Name, sync)                                                                           \
    int ftk_mpi_##Name(                                                                            \
        const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)       \
    {                                                                                              \
        struct ftk_vcomm *vc = ftk_vcomm_find(comm);                                               \
        return vc ? send_now(buf, count, datatype, dest, tag, vc, sync)                            \
                  : PMPI_##Name(buf, count, datatype, dest, tag, comm);                            \
    }
SEND(Send, false)
SEND(Ssend, true)
SEND(Rsend, false)

int ftk_mpi_Recv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
    MPI_Status *status)
{
    struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    struct ftk_req r = { 0 };
    if (!vc)
        return PMPI_Recv(buf, count, datatype, source, tag, comm, status);
    int rc = fill_recv(&r, buf, count, datatype, source, tag, vc);
    if (rc == MPI_SUCCESS)
        rc = ftk_req_begin(&r);
    if (rc == MPI_SUCCESS && !ftk_req_is_done(&r))
        rc = ftk_req_wait(&r);
    ftk_p2p_copy_status(status, &r.status);
    return end(vc, rc);
}

int ftk_mpi_Sendrecv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest,
    int sendtag, void *recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag,
    MPI_Comm comm, MPI_Status *status)
{
    struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    struct ftk_req s = { 0 }, r = { 0 };
    if (!vc)
        return PMPI_Sendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount,
            recvtype, source, recvtag, comm, status);
    int rc = fill_recv(&r, recvbuf, recvcount, recvtype, source, recvtag, vc);
    int rs = fill_send(&s, sendbuf, sendcount, sendtype, dest, sendtag, vc);
    if (rc != MPI_SUCCESS || rs != MPI_SUCCESS)
        return end(vc, rc != MPI_SUCCESS ? rc : rs);
    (void)ftk_req_begin(&r); /* the wait returns the error */
    (void)ftk_req_begin(&s);
    rs = ftk_req_wait(&s);
    rc = ftk_req_wait(&r);
    ftk_p2p_copy_status(status, &r.status);
    return end(vc, rs != MPI_SUCCESS ? rs : rc);
}

int ftk_mpi_Sendrecv_replace(void *buf, int count, MPI_Datatype datatype, int dest, int sendtag,
    int source, int recvtag, MPI_Comm comm, MPI_Status *status)
{
    struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    MPI_Datatype type = MPI_BYTE;
    char *copy;
    size_t bytes;
    int n = 0;
    if (!vc)
        return PMPI_Sendrecv_replace(
            buf, count, datatype, dest, sendtag, source, recvtag, comm, status);
    int rc = ftk_p2p_packed(buf, count < 0 ? 0 : count, datatype, &copy, &bytes);
    if (rc == MPI_SUCCESS)
        rc = ftk_p2p_bytes_type(bytes, &n, &type);
    rc = rc != MPI_SUCCESS ? end(vc, rc)
                           : ftk_mpi_Sendrecv(copy, count < 0 ? count : n, type, dest, sendtag, buf,
                               count, datatype, source, recvtag, comm, status);
    ftk_p2p_bytes_type_free(&type);
    free(copy);
    return rc;
}

/* ---- buffered ---------------------------------------------------------------------------
 * Between teams the log is the buffer; inside, the program's buffer is left alone, too: the
 * copy is ours. */

/* Copy the bytes and send the copy.  r has all arguments, and the program has no handle of r. */
static int send_copy(struct ftk_req *r)
{
    MPI_Datatype type = MPI_BYTE;
    int rc = MPI_SUCCESS;
    if (r->peer != MPI_PROC_NULL) {
        rc = ftk_p2p_packed(r->send.buf, r->count, r->type, &r->own, &r->send.owned);
        if (rc == MPI_SUCCESS)
            rc = ftk_p2p_bytes_type(r->send.owned, &r->count, &type);
        r->send.buf = r->own;
        r->type = type;
    }
    if (rc == MPI_SUCCESS)
        rc = ftk_req_begin(r);
    r->type = MPI_BYTE; /* the send has begun and does not need the type again */
    ftk_p2p_bytes_type_free(&type);
    if (rc != MPI_SUCCESS || ftk_req_is_done(r))
        ftk_req_delete(r);
    else
        ftk_req_abandon(r);
    return rc;
}

int ftk_mpi_Bsend(
    const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Bsend(buf, count, datatype, dest, tag, comm);
    struct ftk_req *r = ftk_req_new();
    if (!r)
        return end(vc, MPI_ERR_NO_MEM);
    int rc = fill_send(r, buf, count, datatype, dest, tag, vc);
    if (rc == MPI_SUCCESS)
        return end(vc, send_copy(r));
    ftk_req_delete(r);
    return end(vc, rc);
}

int ftk_mpi_Ibsend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag,
    MPI_Comm comm, MPI_Request *request)
{
    if (!ftk_vcomm_find(comm))
        return PMPI_Ibsend(buf, count, datatype, dest, tag, comm, request);
    *request = MPI_REQUEST_NULL;
    int rc = ftk_mpi_Bsend(buf, count, datatype, dest, tag, comm);
    if (rc == MPI_SUCCESS)
        rc = ftk_mpi_Isend(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, comm, request);
    return rc;
}

/* ---- non-blocking -------------------------------------------------------------------- */

static int hand_out(struct ftk_vcomm *vc, struct ftk_req *r, int rc, MPI_Request *request)
{
    if (rc != MPI_SUCCESS && !ftk_log_is_rolling_back()) {
        ftk_req_delete(r);
        *request = MPI_REQUEST_NULL;
        return end(vc, rc);
    }
    *request = ftk_req_handle(r);
    return rc;
}

static int isend(const void *buf, int count, MPI_Datatype type, int dest, int tag,
    struct ftk_vcomm *vc, bool sync, MPI_Request *request)
{
    struct ftk_req *r = ftk_req_new();
    if (!r)
        return end(vc, MPI_ERR_NO_MEM);
    r->send.sync = sync;
    int rc = fill_send(r, buf, count, type, dest, tag, vc);
    if (rc == MPI_SUCCESS)
        rc = ftk_req_begin(r);
    return hand_out(vc, r, rc, request);
}

/* A receive may get a message at once that is too long for its buffer: the wait returns the
 * error. */
static int begin(struct ftk_req *r)
{
    int rc = ftk_req_begin(r);
    return r->kind == FTK_REQ_RECV && rc == MPI_ERR_TRUNCATE ? MPI_SUCCESS : rc;
}

#define ISEND(Name, sync)                                                                          \
    int ftk_mpi_##Name(const void *buf, int count, MPI_Datatype datatype, int dest, int tag,       \
        MPI_Comm comm, MPI_Request *request)                                                       \
    {                                                                                              \
        struct ftk_vcomm *vc = ftk_vcomm_find(comm);                                               \
        return vc ? isend(buf, count, datatype, dest, tag, vc, sync, request)                      \
                  : PMPI_##Name(buf, count, datatype, dest, tag, comm, request);                   \
    }
ISEND(Isend, false)
ISEND(Issend, true)
ISEND(Irsend, false)

int ftk_mpi_Irecv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
    MPI_Request *request)
{
    struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Irecv(buf, count, datatype, source, tag, comm, request);
    struct ftk_req *r = ftk_req_new();
    if (!r)
        return end(vc, MPI_ERR_NO_MEM);
    int rc = fill_recv(r, buf, count, datatype, source, tag, vc);
    if (rc == MPI_SUCCESS)
        rc = begin(r);
    return hand_out(vc, r, rc, request);
}

/* A receive and a send under one request: r, the receive.  copy: the bytes to send, which the
 * request of the send owns from now on; NULL: the send reads sendbuf. */
static int isendrecv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest,
    int sendtag, char *copy, size_t bytes, struct ftk_req *r, struct ftk_vcomm *vc)
{
    struct ftk_req *s = ftk_req_new();
    if (!s) {
        free(copy);
        return MPI_ERR_NO_MEM;
    }
    s->own = copy;
    s->send.owned = bytes;
    int rc = fill_send(s, sendbuf, sendcount, sendtype, dest, sendtag, vc);
    if (rc != MPI_SUCCESS) {
        ftk_req_delete(s);
        return rc;
    }
    r->pair = s;
    (void)ftk_req_begin(r); /* the wait returns the error */
    (void)ftk_req_begin(s);
    if (ftk_req_is_done(r))
        r->state = FTK_REQ_HALF;
    return rc;
}

int ftk_mpi_Isendrecv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest,
    int sendtag, void *recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag,
    MPI_Comm comm, MPI_Request *request)
{
    struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Isendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount,
            recvtype, source, recvtag, comm, request);
    struct ftk_req *r = ftk_req_new();
    if (!r)
        return end(vc, MPI_ERR_NO_MEM);
    int rc = fill_recv(r, recvbuf, recvcount, recvtype, source, recvtag, vc);
    if (rc == MPI_SUCCESS)
        rc = isendrecv(sendbuf, sendcount, sendtype, dest, sendtag, NULL, 0, r, vc);
    return hand_out(vc, r, rc, request);
}

int ftk_mpi_Isendrecv_replace(void *buf, int count, MPI_Datatype datatype, int dest, int sendtag,
    int source, int recvtag, MPI_Comm comm, MPI_Request *request)
{
    struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    MPI_Datatype type = MPI_BYTE;
    char *copy = NULL;
    size_t bytes;
    int n = 0;
    if (!vc)
        return PMPI_Isendrecv_replace(
            buf, count, datatype, dest, sendtag, source, recvtag, comm, request);
    struct ftk_req *r = ftk_req_new();
    if (!r)
        return end(vc, MPI_ERR_NO_MEM);
    int rc = fill_recv(r, buf, count, datatype, source, recvtag, vc);
    if (rc == MPI_SUCCESS)
        rc = ftk_p2p_packed(buf, count, datatype, &copy, &bytes);
    if (rc == MPI_SUCCESS)
        rc = ftk_p2p_bytes_type(bytes, &n, &type);
    if (rc == MPI_SUCCESS)
        rc = isendrecv(copy, n, type, dest, sendtag, copy, bytes, r, vc);
    else
        free(copy);
    if (r->pair)
        r->pair->type = MPI_BYTE; /* the send has begun and does not need the type again */
    ftk_p2p_bytes_type_free(&type);
    return hand_out(vc, r, rc, request);
}

/* ---- persistent ---------------------------------------------------------------------- */

static int persistent(struct ftk_vcomm *vc, struct ftk_req *r, int rc, MPI_Request *request)
{
    *request = MPI_REQUEST_NULL;
    if (rc != MPI_SUCCESS) {
        ftk_req_delete(r);
        return end(vc, rc);
    }
    r->persistent = true;
    r->state = FTK_REQ_INACTIVE;
    ftk_log.queue.nactive--;
    *request = ftk_req_handle(r);
    return rc;
}

#define SEND_INIT(Name, is_sync, is_buffered)                                                      \
    int ftk_mpi_##Name(const void *buf, int count, MPI_Datatype datatype, int dest, int tag,       \
        MPI_Comm comm, MPI_Request *request)                                                       \
    {                                                                                              \
        struct ftk_vcomm *vc = ftk_vcomm_find(comm);                                               \
        if (!vc)                                                                                   \
            return PMPI_##Name(buf, count, datatype, dest, tag, comm, request);                    \
        struct ftk_req *r = ftk_req_new();                                                         \
        if (!r)                                                                                    \
            return end(vc, MPI_ERR_NO_MEM);                                                        \
        r->send.sync = is_sync;                                                                    \
        r->send.buffered = is_buffered;                                                            \
        int rc = fill_send(r, buf, count, datatype, dest, tag, vc);                                \
        return persistent(vc, r, rc, request);                                                     \
    }
SEND_INIT(Send_init, false, false)
SEND_INIT(Ssend_init, true, false)
SEND_INIT(Rsend_init, false, false)
SEND_INIT(Bsend_init, false, true)

int ftk_mpi_Recv_init(void *buf, int count, MPI_Datatype datatype, int source, int tag,
    MPI_Comm comm, MPI_Request *request)
{
    struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Recv_init(buf, count, datatype, source, tag, comm, request);
    struct ftk_req *r = ftk_req_new();
    if (!r)
        return end(vc, MPI_ERR_NO_MEM);
    int rc = fill_recv(r, buf, count, datatype, source, tag, vc);
    return persistent(vc, r, rc, request);
}

/* A buffered send is complete whether the MPI has sent its message or not. */
static int start_buffered(struct ftk_req *r)
{
    struct ftk_req *s = ftk_req_new();
    r->state = FTK_REQ_COMPLETE;
    ftk_p2p_status(&r->status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
    r->error = MPI_ERR_NO_MEM;
    if (!s)
        return r->error;
    s->kind = r->kind;
    s->vc = r->vc;
    s->context = r->context;
    s->send.buf = r->send.buf;
    s->count = r->count;
    s->type = r->type;
    s->peer = r->peer;
    s->tag = r->tag;
    r->error = send_copy(s);
    return r->error;
}

static int start(struct ftk_req *r)
{
    if (r->kind == FTK_REQ_COLL)
        return ftk_coll_begin(r);
    return r->send.buffered ? start_buffered(r) : begin(r);
}

int ftk_mpi_Start(MPI_Request *request)
{
    struct ftk_req *r = ftk_req_of(*request);
    if (!r && ftk_log_is_rolling_back()) /* MPI_..._init() has failed */
        return ftk_log_error();
    if (!r)
        return PMPI_Start(request);
    if (r->state != FTK_REQ_INACTIVE || !r->vc)
        return end(r->vc ? r->vc : ftk_log.vcomms.world, MPI_ERR_REQUEST);
    ftk_log.queue.nactive++;
    return end(r->vc, start(r));
}

int ftk_mpi_Startall(int count, MPI_Request array_of_requests[])
{
    int result = MPI_SUCCESS;
    for (int i = 0; i < count; i++) {
        int rc = ftk_mpi_Start(&array_of_requests[i]);
        result = result == MPI_SUCCESS ? rc : result;
    }
    return result;
}

/* What a probe looks for: the program's arguments, or the message of its determinant. */
struct probing {
    const struct ftk_vcomm *vc;
    int source, tag; /* of the world */
    bool decides;    /* its outcome is a determinant */
    int next;        /* enum ftk_det_next */
};

/* ---- probing ------------------------------------------------------------------------- */

/* PMPI_Iprobe() with three differences.  The control messages before the message that is found are
 * received.  A message for a matched-probe receive, or for another context, goes there.  A message
 * is found only when the wildcard receives that come first are complete and recorded.  *s has the
 * tag of the program. */
static int look_up(int context, int source, int tag, int *flag, MPI_Status *s)
{
    const int wire = tag == MPI_ANY_TAG ? tag : ftk_context_wire(context, tag);
    for (;;) {
        *flag = 0;
        if (!ftk_p2p_can_probe(context))
            return MPI_SUCCESS;
        int rc = PMPI_Iprobe(source, wire, ftk_log_real(context), flag, s);
        if (rc != MPI_SUCCESS || !*flag)
            return rc;
        bool found = !ftk_log.mode->in_band || s->MPI_TAG != FTK_CONTROL_TAG;
        rc = ftk_mode_absorb(context, s->MPI_SOURCE);
        if (rc != MPI_SUCCESS)
            return rc;
        int of = ftk_context_of(ftk_context_comm(context), s->MPI_TAG);
        if (found && of != context) {
            bool taken;
            rc = ftk_p2p_put_aside(of, s, &taken);
            if (rc == MPI_SUCCESS && taken)
                continue;
            *flag = 0;
            return rc;
        }
        s->MPI_TAG = found ? ftk_context_tag(context, s->MPI_TAG) : s->MPI_TAG;
        if (found
            && (ftk_log_replays_setup() || !ftk_p2p_claimed(context, s->MPI_SOURCE, s->MPI_TAG))) {
            *flag = ftk_p2p_in_turn(context, s->MPI_SOURCE, s->MPI_TAG);
            return rc;
        }
        if (found)
            ftk_p2p_progress_mprobed();
        /* the next look may find the same message: a repair or other receives come first */
        if (found && (ftk_log.ctx->detect.failed || ftk_context_shares(context))) {
            *flag = 0;
            return rc;
        }
    }
}

/* The same for PMPI_Improbe(); *s is for ftk_p2p_take_matched(). */
static int pick_up(int context, int source, int tag, int *flag, MPI_Message *m, MPI_Status *s)
{
    if (!ftk_log.mode->in_band && ftk_log.queue.nwildcards == 0 && !ftk_context_shares(context))
        return PMPI_Improbe(source, tag, ftk_log_real(context), flag, m, s);
    int rc = look_up(context, source, tag, flag, s);
    if (rc != MPI_SUCCESS || !*flag)
        return rc;
    return PMPI_Improbe(
        s->MPI_SOURCE, ftk_context_wire(context, s->MPI_TAG), ftk_log_real(context), flag, m, s);
}

/* The unexpected message that a probe gets.  *wait: there is such a message, but receives that come
 * first match it. */
static struct ftk_unexp *unexp_for(const struct ftk_envelope *want, bool take, bool *wait)
{
    struct ftk_unexp *h = ftk_unexp_match(want, false);
    *wait = h && !ftk_log_replays_setup() && !ftk_p2p_may_take(UINT64_MAX, h);
    if (*wait)
        return NULL;
    if (h && take)
        ftk_unexp_take(h);
    return h;
}

/* Look whether there is a message; the message stays. */
static int look(const struct ftk_vcomm *vc, int source, int tag, int *flag, MPI_Status *status)
{
    struct ftk_log *l = &ftk_log;
    struct ftk_unexp *h = NULL;
    MPI_Status s;
    const struct ftk_envelope want = { vc->context, source, tag };
    const bool arrives = ftk_p2p_arrives(vc->context, source, tag);
    bool wait = false;
    int rc = MPI_SUCCESS;
    *flag = 0;
    if (ftk_mode_delivers())
        rc = l->mode->probe(&want, false, &h);
    else
        h = unexp_for(&want, false, &wait);
    *flag = h != NULL;
    if (h)
        ftk_p2p_status(&s, h->source, h->tag, h->bytes);
    else if (!wait && !arrives && !ftk_log_replays_setup() && !ftk_mode_delivers())
        rc = look_up(vc->context, source, tag, flag, &s);
    if (rc != MPI_SUCCESS && ftk_p2p_is_failure(rc)) {
        ftk_detect_raise(l->ctx);
        rc = MPI_SUCCESS;
        *flag = 0;
    }
    if (rc == MPI_SUCCESS && *flag) {
        s.MPI_SOURCE = ftk_vcomm_peer_rank(vc, s.MPI_SOURCE);
        ftk_p2p_copy_status(status, &s);
    }
    return rc;
}

/* The same; *out gets the message. */
static int take(const struct ftk_vcomm *vc, int source, int tag, struct ftk_unexp **out)
{
    struct ftk_log *l = &ftk_log;
    MPI_Message m;
    MPI_Status s;
    const struct ftk_envelope want = { vc->context, source, tag };
    const bool arrives = ftk_p2p_arrives(vc->context, source, tag);
    bool wait = false;
    int flag = 0, rc = MPI_SUCCESS;
    *out = NULL;
    if (ftk_mode_delivers())
        rc = l->mode->probe(&want, true, out);
    else
        *out = unexp_for(&want, true, &wait);
    if (*out)
        return ftk_p2p_log_setup(*out, ++l->queue.seq);
    if (wait || arrives || ftk_log_replays_setup() || ftk_mode_delivers())
        return rc;
    rc = pick_up(vc->context, source, tag, &flag, &m, &s);
    if (rc == MPI_SUCCESS && flag)
        rc = ftk_p2p_take_matched(vc->context, &m, &s, out);
    if (rc == MPI_SUCCESS && *out)
        rc = ftk_p2p_log_setup(*out, ++l->queue.seq);
    if (rc != MPI_SUCCESS && ftk_p2p_is_failure(rc)) {
        ftk_detect_raise(l->ctx);
        return MPI_SUCCESS;
    }
    return rc;
}

static int no_proc(MPI_Status *status)
{
    ftk_p2p_put_status(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    return MPI_SUCCESS;
}

/* One step of waiting for a message. */
static int turn(unsigned *turns)
{
    if (ftk_log_replays_setup())
        return MPI_ERR_PENDING; /* the message will never come */
    return ftk_log_progress(turns);
}

/* blocks: a blocking probe that names its source finds the same message in a replay. */
static int probe_begin(
    struct probing *p, const struct ftk_vcomm *vc, int source, int tag, bool blocks)
{
    const struct ftk_det *d;
    int rc = ftk_log_is_rolling_back() ? ftk_log_error() /* messages here are from after the line */
                                       : check(vc, 0, MPI_BYTE, source, tag, CAN_BE_ANY);
    *p = (struct probing){ .vc = vc,
        .source = rc == MPI_SUCCESS ? ftk_vcomm_peer_world(vc, source) : MPI_PROC_NULL,
        .tag = tag,
        .decides = (!blocks || source == MPI_ANY_SOURCE) && !ftk_log_replays_setup(),
        .next = FTK_DET_FREE };
    if (rc == MPI_SUCCESS && p->decides && ftk_log_refuses("a probe"))
        rc = MPI_ERR_UNSUPPORTED_OPERATION;
    if (rc != MPI_SUCCESS || !p->decides)
        return rc;
    p->next = ftk_det_next(FTK_DET_PROBE, &d);
    if (p->next == FTK_DET_THIS) {
        p->source = d->a;
        p->tag = d->b;
    }
    return rc;
}

static void probe_found(const struct probing *p, int source, int tag)
{
    if (p->decides && p->next == FTK_DET_FREE)
        ftk_det_found(FTK_DET_PROBE, source, tag);
}

static int probe_nothing(const struct probing *p)
{
    static unsigned turns;
    if (p->next == FTK_DET_FREE)
        ftk_det_found_nothing();
    return ftk_log_progress(&turns);
}

/* Wait until there is a message; or one look. */
static int probe(struct probing *p, bool blocks, int *flag, MPI_Status *status)
{
    unsigned turns = 0;
    MPI_Status s = { .MPI_ERROR = MPI_SUCCESS };
    int rc = MPI_SUCCESS;
    *flag = 0;
    if (p->next == FTK_DET_NOTHING && !blocks)
        return probe_nothing(p);
    for (;;) {
        rc = look(p->vc, p->source, p->tag, flag, &s);
        if (rc != MPI_SUCCESS || *flag || (!blocks && p->next == FTK_DET_FREE))
            break;
        rc = turn(&turns);
        if (rc != MPI_SUCCESS)
            return rc;
    }
    if (rc == MPI_SUCCESS && !*flag)
        return probe_nothing(p);
    if (rc == MPI_SUCCESS)
        probe_found(p, ftk_vcomm_peer_world(p->vc, s.MPI_SOURCE), s.MPI_TAG);
    if (rc == MPI_SUCCESS)
        ftk_p2p_copy_status(status, &s);
    return rc;
}

int ftk_mpi_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    struct probing p;
    int flag;
    if (!vc)
        return PMPI_Probe(source, tag, comm, status);
    if (source == MPI_PROC_NULL)
        return no_proc(status);
    int rc = probe_begin(&p, vc, source, tag, true);
    if (rc == MPI_SUCCESS)
        rc = probe(&p, true, &flag, status);
    if (rc != MPI_SUCCESS) /* the program may read the status */
        ftk_p2p_no_status(status);
    return end(vc, rc);
}

/* A program that polls without a look at errors must not poll for ever: report success with an
 * empty status. */
static void found_in_rollback(int rc, int *flag, MPI_Status *status)
{
    if (rc == MPI_SUCCESS || !ftk_log_is_rolling_back())
        return;
    *flag = 1;
    ftk_p2p_no_status(status);
}

int ftk_mpi_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    struct probing p;
    if (!vc)
        return PMPI_Iprobe(source, tag, comm, flag, status);
    *flag = 1;
    if (source == MPI_PROC_NULL)
        return no_proc(status);
    *flag = 0;
    int rc = probe_begin(&p, vc, source, tag, false);
    if (rc == MPI_SUCCESS)
        rc = probe(&p, false, flag, status);
    found_in_rollback(rc, flag, status);
    return end(vc, rc);
}

static void give_message(
    struct ftk_unexp *h, const struct ftk_vcomm *vc, MPI_Message *message, MPI_Status *status)
{
    h->rank = ftk_vcomm_peer_rank(vc, h->source);
    ftk_matched_add(h);
    ftk_p2p_put_status(status, h->rank, h->tag, h->bytes);
    *message = (MPI_Message)(void *)h;
}

/* The same as probe(), and *h gets the message. */
static int match(struct probing *p, bool blocks, struct ftk_unexp **h)
{
    unsigned turns = 0;
    int rc = MPI_SUCCESS;
    *h = NULL;
    if (p->next == FTK_DET_NOTHING && !blocks)
        return probe_nothing(p);
    for (;;) {
        rc = take(p->vc, p->source, p->tag, h);
        if (rc != MPI_SUCCESS || *h || (!blocks && p->next == FTK_DET_FREE))
            break;
        rc = turn(&turns);
        if (rc != MPI_SUCCESS)
            return rc;
    }
    if (rc == MPI_SUCCESS && !*h)
        return probe_nothing(p);
    if (rc == MPI_SUCCESS)
        probe_found(p, (*h)->source, (*h)->tag);
    return rc;
}

int ftk_mpi_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
    struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    struct probing p;
    struct ftk_unexp *h = NULL;
    if (!vc)
        return PMPI_Mprobe(source, tag, comm, message, status);
    *message = MPI_MESSAGE_NO_PROC;
    if (source == MPI_PROC_NULL)
        return no_proc(status);
    int rc = probe_begin(&p, vc, source, tag, true);
    if (rc == MPI_SUCCESS)
        rc = match(&p, true, &h);
    if (h)
        give_message(h, vc, message, status);
    else
        ftk_p2p_no_status(status);
    return end(vc, rc);
}

int ftk_mpi_Improbe(
    int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
{
    struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    struct probing p;
    struct ftk_unexp *h = NULL;
    if (!vc)
        return PMPI_Improbe(source, tag, comm, flag, message, status);
    *message = MPI_MESSAGE_NO_PROC;
    *flag = 1;
    if (source == MPI_PROC_NULL)
        return no_proc(status);
    int rc = probe_begin(&p, vc, source, tag, false);
    if (rc == MPI_SUCCESS)
        rc = match(&p, false, &h);
    *flag = h != NULL;
    if (h)
        give_message(h, vc, message, status);
    else
        found_in_rollback(rc, flag, status);
    return end(vc, rc);
}

/* Receive a matched message by request r.  Its communicator is the one with the context of the
 * message. */
static int receive_matched(
    struct ftk_req *r, struct ftk_unexp *h, void *buf, int count, MPI_Datatype type)
{
    struct ftk_vcomm *vc = ftk_log.vcomms.list;
    while (vc && (vc->freed || vc->context != h->context))
        vc = vc->next;
    r->kind = FTK_REQ_RECV;
    r->vc = vc ? vc : ftk_log.vcomms.world;
    r->recv.buf = buf;
    r->count = count;
    r->type = type;
    int rank = h->rank; /* the communicator may have been freed */
    int rc = ftk_p2p_deliver(r, h);
    r->status.MPI_SOURCE = rank;
    return rc;
}

int ftk_mpi_Mrecv(void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status)
{
    struct ftk_unexp *h = ftk_matched_take(*message);
    struct ftk_req r = { 0 };
    if (!h)
        return PMPI_Mrecv(buf, count, type, message, status);
    int rc = receive_matched(&r, h, buf, count, type);
    *message = MPI_MESSAGE_NULL;
    ftk_p2p_copy_status(status, &r.status);
    return end(r.vc, rc);
}

int ftk_mpi_Imrecv(
    void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request)
{
    struct ftk_req *r = NULL;
    struct ftk_unexp *h = ftk_matched_take(*message);
    if (!h)
        return PMPI_Imrecv(buf, count, type, message, request);
    r = ftk_req_new();
    if (!r) {
        ftk_unexp_free(h);
        return end(ftk_log.vcomms.world, MPI_ERR_NO_MEM);
    }
    (void)receive_matched(r, h, buf, count, type); /* the error comes with the wait */
    *message = MPI_MESSAGE_NULL;
    *request = ftk_req_handle(r);
    return MPI_SUCCESS;
}

/* ---- datatypes ----------------------------------------------------------------------- */

int ftk_mpi_Type_free(MPI_Datatype *datatype)
{
    if (ftk_coll_type_free(datatype))
        return MPI_SUCCESS;
    int rc = ftk_p2p_type_free(datatype);
    return rc == MPI_ERR_NO_MEM ? end(ftk_log.vcomms.world, rc) : rc;
}

/* ---- MPI_Abort ----------------------------------------------------------------------- */

int ftk_mpi_Abort(MPI_Comm comm, int errorcode)
{
    (void)comm; /* the handle of a virtual communicator would end this process alone */
    ftk_detect_abort("MPI_Abort", errorcode);
    return PMPI_Abort(MPI_COMM_WORLD, errorcode);
}

int ftk_mpi_Op_free(MPI_Op *op)
{
    return ftk_coll_op_free(op);
}

/* ---- handles in Fortran -------------------------------------------------------------- */

MPI_Fint ftk_mpi_Request_c2f(MPI_Request request)
{
    const struct ftk_req *r = ftk_req_of(request);
    return r ? OURS + ftk_req_number(r) : PMPI_Request_c2f(request);
}

MPI_Request ftk_mpi_Request_f2c(MPI_Fint request)
{
    struct ftk_req *r = request >= OURS ? ftk_req_numbered(request - OURS) : NULL;
    return r ? ftk_req_handle(r) : PMPI_Request_f2c(request);
}

MPI_Fint ftk_mpi_Message_c2f(MPI_Message message)
{
    int number = ftk_matched_number(message);
    return number >= 0 ? OURS + number : PMPI_Message_c2f(message);
}

MPI_Message ftk_mpi_Message_f2c(MPI_Fint message)
{
    struct ftk_unexp *h = message >= OURS ? ftk_matched_numbered(message - OURS) : NULL;
    return h ? (MPI_Message)(void *)h : PMPI_Message_f2c(message);
}
