/* The program's calls of point-to-point communication in log mode.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "core/left_send.h"
#include "log/base/dtype.h"
#include "log/base/queue.h"
#include "log/base/runtime.h"
#include "log/request/recv.h"
#include "log/request/req_ops.h"
#include "log/request/send.h"
#include "arguments.h"
#include "mpi_calls.h"

/* ---- arguments ----------------------------------------------------------------------- */

static int fill_send(struct ftk_req *r, const void *buf, int count, MPI_Datatype type, int dest,
    int tag, struct ftk_vcomm *vc)
{
    int rc = ftk_call_check(vc, count, type, dest, tag, false);
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
    int rc = ftk_call_check(vc, count, type, source, tag, true);
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

/* ---- blocking ------------------------------------------------------------------------ */

static int send_now(const void *buf, int count, MPI_Datatype type, int dest, int tag,
    struct ftk_vcomm *vc, bool sync)
{
    int rc = MPI_SUCCESS;
    if (!sync && ftk_call_check(vc, count, type, dest, tag, false) == MPI_SUCCESS && dest >= 0
        && ftk_send_small(buf, count, type, vc, ftk_vcomm_peer_world(vc, dest), tag, &rc))
        return ftk_vcomm_end(vc, rc);
    struct ftk_req r = { .send.sync = sync };
    rc = fill_send(&r, buf, count, type, dest, tag, vc);
    if (rc == MPI_SUCCESS)
        rc = ftk_req_begin(&r);
    if (rc == MPI_SUCCESS && !ftk_req_is_done(&r))
        rc = ftk_req_wait(&r);
    return ftk_vcomm_end(vc, rc);
}

/* The function name_, which is real_ of the MPI for a communicator that is not ours. */
#define SEND(name_, real_, sync)                                                                   \
    int name_(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) \
    {                                                                                              \
        struct ftk_vcomm *vc = ftk_vcomm_find(comm);                                               \
        return vc ? send_now(buf, count, datatype, dest, tag, vc, sync)                            \
                  : real_(buf, count, datatype, dest, tag, comm);                                  \
    }
SEND(ftk_mpi_Send, PMPI_Send, false)
SEND(ftk_mpi_Ssend, PMPI_Ssend, true)
SEND(ftk_mpi_Rsend, PMPI_Rsend, false)

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
    ftk_status_copy(status, &r.status);
    return ftk_vcomm_end(vc, rc);
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
        return ftk_vcomm_end(vc, rc != MPI_SUCCESS ? rc : rs);
    (void)ftk_req_begin(&r); /* the wait returns the error */
    (void)ftk_req_begin(&s);
    rs = ftk_req_wait(&s);
    rc = ftk_req_wait(&r);
    ftk_status_copy(status, &r.status);
    return ftk_vcomm_end(vc, rs != MPI_SUCCESS ? rs : rc);
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
    int rc = ftk_dtype_packed(buf, count < 0 ? 0 : count, datatype, &copy, &bytes);
    if (rc == MPI_SUCCESS)
        rc = ftk_dtype_bytes(bytes, &n, &type);
    rc = rc != MPI_SUCCESS ? ftk_vcomm_end(vc, rc)
                           : ftk_mpi_Sendrecv(copy, count < 0 ? count : n, type, dest, sendtag, buf,
                               count, datatype, source, recvtag, comm, status);
    ftk_dtype_bytes_free(&type);
    free(copy);
    return rc;
}

/* ---- buffered ------------------------------------------------------------------------- */

int ftk_mpi_Bsend(
    const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Bsend(buf, count, datatype, dest, tag, comm);
    struct ftk_req *r = ftk_req_new(vc);
    if (!r)
        return ftk_vcomm_end(vc, MPI_ERR_NO_MEM);
    int rc = fill_send(r, buf, count, datatype, dest, tag, vc);
    if (rc == MPI_SUCCESS)
        return ftk_vcomm_end(vc, ftk_send_copy(r));
    ftk_req_delete(r);
    return ftk_vcomm_end(vc, rc);
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
        return ftk_vcomm_end(vc, rc);
    }
    *request = ftk_req_handle(r);
    return rc;
}

/* Whether a copy is sent: in a replay, of a message that is not kept (own_bytes() in send.c). */
static bool needs_copy(int world)
{
    return ftk_log.phase == FTK_PHASE_REPLAY && !ftk_log_keeps(world);
}

/* Send a small message without the states of a request.  False: nothing is sent. */
static bool isend_small(const void *buf, int count, MPI_Datatype type, int dest, int tag,
    struct ftk_vcomm *vc, MPI_Request *request, int *error)
{
    MPI_Request real;
    if (dest < 0 || ftk_call_check(vc, count, type, dest, tag, false) != MPI_SUCCESS)
        return false;
    const int world = ftk_vcomm_peer_world(vc, dest), context = ftk_vcomm_there(vc, world);
    struct ftk_req *r = needs_copy(world) ? NULL : ftk_req_sent(vc);
    if (!r)
        return false;
    *request = MPI_REQUEST_NULL;
    if (!ftk_send_at_once(buf, count, type, world, context, tag, &real)) {
        ftk_req_delete(r);
        return false;
    }
    if (real != MPI_REQUEST_NULL) { /* the MPI still reads buf */
        ftk_req_delete(r);
        r = ftk_req_new(vc);
        if (!r) {
            ftk_leave_send(&real, NULL); /* the call returns an error anyway */
            *error = MPI_ERR_NO_MEM;
            return true;
        }
        (void)fill_send(r, buf, count, type, dest, tag, vc); /* checked above */
        ftk_status_empty(&r->status);
        r->real = real;
        r->state = FTK_REQ_POSTED;
        ftk_queue_append(r);
    }
    *request = ftk_req_handle(r);
    return true;
}

static int isend(const void *buf, int count, MPI_Datatype type, int dest, int tag,
    struct ftk_vcomm *vc, bool sync, MPI_Request *request)
{
    int rc = MPI_SUCCESS;
    if (!sync && isend_small(buf, count, type, dest, tag, vc, request, &rc))
        return ftk_vcomm_end(vc, rc);
    struct ftk_req *r = ftk_req_new(vc);
    if (!r)
        return ftk_vcomm_end(vc, MPI_ERR_NO_MEM);
    r->send.sync = sync;
    rc = fill_send(r, buf, count, type, dest, tag, vc);
    if (rc == MPI_SUCCESS)
        rc = ftk_req_begin(r);
    return hand_out(vc, r, rc, request);
}

#define ISEND(name_, real_, sync)                                                                  \
    int name_(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, \
        MPI_Request *request)                                                                      \
    {                                                                                              \
        struct ftk_vcomm *vc = ftk_vcomm_find(comm);                                               \
        return vc ? isend(buf, count, datatype, dest, tag, vc, sync, request)                      \
                  : real_(buf, count, datatype, dest, tag, comm, request);                         \
    }
ISEND(ftk_mpi_Isend, PMPI_Isend, false)
ISEND(ftk_mpi_Issend, PMPI_Issend, true)
ISEND(ftk_mpi_Irsend, PMPI_Irsend, false)

int ftk_mpi_Irecv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
    MPI_Request *request)
{
    struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Irecv(buf, count, datatype, source, tag, comm, request);
    struct ftk_req *r = ftk_req_new(vc);
    if (!r)
        return ftk_vcomm_end(vc, MPI_ERR_NO_MEM);
    int rc = fill_recv(r, buf, count, datatype, source, tag, vc);
    if (rc == MPI_SUCCESS)
        rc = ftk_recv_start(r);
    return hand_out(vc, r, rc, request);
}

/* A receive and a send under one request: r, the receive.  copy: the bytes to send, which the
 * request of the send owns from now on; NULL: the send reads sendbuf. */
static int isendrecv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest,
    int sendtag, char *copy, size_t bytes, struct ftk_req *r, struct ftk_vcomm *vc)
{
    struct ftk_req *s = ftk_req_new(vc);
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
    struct ftk_req *r = ftk_req_new(vc);
    if (!r)
        return ftk_vcomm_end(vc, MPI_ERR_NO_MEM);
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
    struct ftk_req *r = ftk_req_new(vc);
    if (!r)
        return ftk_vcomm_end(vc, MPI_ERR_NO_MEM);
    int rc = fill_recv(r, buf, count, datatype, source, recvtag, vc);
    if (rc == MPI_SUCCESS)
        rc = ftk_dtype_packed(buf, count, datatype, &copy, &bytes);
    if (rc == MPI_SUCCESS)
        rc = ftk_dtype_bytes(bytes, &n, &type);
    if (rc == MPI_SUCCESS)
        rc = isendrecv(copy, n, type, dest, sendtag, copy, bytes, r, vc);
    else
        free(copy);
    if (r->pair)
        r->pair->type = MPI_BYTE; /* the send has begun and does not need the type again */
    ftk_dtype_bytes_free(&type);
    return hand_out(vc, r, rc, request);
}

/* ---- persistent ---------------------------------------------------------------------- */

static int persistent(struct ftk_vcomm *vc, struct ftk_req *r, int rc, MPI_Request *request)
{
    *request = MPI_REQUEST_NULL;
    if (rc != MPI_SUCCESS) {
        ftk_req_delete(r);
        return ftk_vcomm_end(vc, rc);
    }
    ftk_req_persist(r);
    *request = ftk_req_handle(r);
    return rc;
}

#define SEND_INIT(name_, real_, is_sync, is_buffered)                                              \
    int name_(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, \
        MPI_Request *request)                                                                      \
    {                                                                                              \
        struct ftk_vcomm *vc = ftk_vcomm_find(comm);                                               \
        if (!vc)                                                                                   \
            return ftk_foreign_made(                                                               \
                real_(buf, count, datatype, dest, tag, comm, request), request);                   \
        struct ftk_req *r = ftk_req_new(vc);                                                       \
        if (!r)                                                                                    \
            return ftk_vcomm_end(vc, MPI_ERR_NO_MEM);                                              \
        r->send.sync = is_sync;                                                                    \
        r->send.buffered = is_buffered;                                                            \
        int rc = fill_send(r, buf, count, datatype, dest, tag, vc);                                \
        return persistent(vc, r, rc, request);                                                     \
    }
SEND_INIT(ftk_mpi_Send_init, PMPI_Send_init, false, false)
SEND_INIT(ftk_mpi_Ssend_init, PMPI_Ssend_init, true, false)
SEND_INIT(ftk_mpi_Rsend_init, PMPI_Rsend_init, false, false)
SEND_INIT(ftk_mpi_Bsend_init, PMPI_Bsend_init, false, true)

int ftk_mpi_Recv_init(void *buf, int count, MPI_Datatype datatype, int source, int tag,
    MPI_Comm comm, MPI_Request *request)
{
    struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return ftk_foreign_made(
            PMPI_Recv_init(buf, count, datatype, source, tag, comm, request), request);
    struct ftk_req *r = ftk_req_new(vc);
    if (!r)
        return ftk_vcomm_end(vc, MPI_ERR_NO_MEM);
    int rc = fill_recv(r, buf, count, datatype, source, tag, vc);
    return persistent(vc, r, rc, request);
}

/* Another communicator may have the context of a stale request whose communicator is freed. */
static bool can_start(const struct ftk_req *r)
{
    return r->state == FTK_REQ_INACTIVE && r->vc->state != FTK_VCOMM_LOST
           && !(r->stale && r->vc->state != FTK_VCOMM_LIVE);
}

int ftk_mpi_Start(MPI_Request *request)
{
    struct ftk_req *r = ftk_req_of(*request);
    if (!r && ftk_log_is_rolling_back()) /* MPI_..._init() has failed */
        return ftk_log_error();
    if (!r)
        return ftk_foreign_start(request);
    if (r->state != FTK_REQ_INACTIVE || r->stale || r->vc->state != FTK_VCOMM_LIVE) {
        if (!can_start(r))
            return ftk_vcomm_end(r->vc, MPI_ERR_REQUEST);
        ftk_req_wake(r);
    }
    return ftk_vcomm_end(r->vc, ftk_req_ops_of(r)->start(r));
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
