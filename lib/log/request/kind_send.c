/* Sends as a kind of request; buffered sends.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "log/base/dtype.h"
#include "log/base/runtime.h"
#include "log/base/saved.h"
#include "log/request/message.h"
#include "log/request/req_ops.h"
#include "log/request/send.h"

/* ---- buffered ---------------------------------------------------------------------------
 * Between teams the log is the buffer; inside, the program's buffer is left alone, too: the
 * copy is ours. */

int ftk_send_copy(struct ftk_req *r)
{
    MPI_Datatype type = MPI_BYTE;
    int rc = MPI_SUCCESS;
    if (r->peer != MPI_PROC_NULL) {
        rc = ftk_dtype_packed(r->send.buf, r->count, r->type, &r->own, &r->send.owned);
        if (rc == MPI_SUCCESS)
            rc = ftk_dtype_bytes(r->send.owned, &r->count, &type);
        r->send.buf = r->own;
        r->type = type;
    }
    if (rc == MPI_SUCCESS)
        rc = ftk_req_begin(r);
    r->type = MPI_BYTE; /* the send has begun and does not need the type again */
    ftk_dtype_bytes_free(&type);
    if (rc != MPI_SUCCESS || ftk_req_is_done(r))
        ftk_req_delete(r);
    else
        ftk_req_abandon(r);
    return rc;
}

/* A buffered send is complete whether the MPI has sent its message or not. */
static int start_buffered(struct ftk_req *r)
{
    struct ftk_req *s = ftk_req_new(r->vc);
    r->state = FTK_REQ_COMPLETE;
    ftk_status_make(&r->status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
    r->error = MPI_ERR_NO_MEM;
    if (!s)
        return r->error;
    s->kind = r->kind;
    s->context = r->context;
    s->send.buf = r->send.buf;
    s->count = r->count;
    s->type = r->type;
    s->peer = r->peer;
    s->tag = r->tag;
    r->error = ftk_send_copy(s);
    return r->error;
}

/* ---- the kind ------------------------------------------------------------------------ */

static int start(struct ftk_req *r)
{
    return r->send.buffered ? start_buffered(r) : ftk_req_begin(r);
}

/* Its log entry is sent again. */
static enum ftk_req_state taken(const struct ftk_req *r)
{
    return r->send.entry ? FTK_REQ_LOGGED : FTK_REQ_WAITING;
}

static void describe(const struct ftk_req *r, char *text, size_t room)
{
    char comm[MPI_MAX_OBJECT_NAME + 64];
    if (r->send.handles == 0) {
        ftk_message_describe(r, "send", "to", text, room);
        return;
    }
    ftk_vcomm_describe(r->vc, comm, sizeof comm);
    snprintf(text, room, "a small send on %s", comm);
}

static int save(struct ftk_saving *s, const struct ftk_req *r, uint64_t *head)
{
    head[FTK_HEAD_FLAGS] |=
        (r->send.sync ? FTK_SAVED_SYNC : 0) | (r->send.buffered ? FTK_SAVED_BUFFERED : 0);
    return ftk_message_save(s, r, head, false);
}

static bool is_sane(const uint64_t *head)
{
    return ftk_message_is_sane(head, false);
}

static int load(
    struct ftk_loading *l, struct ftk_req *r, const uint64_t *head, bool known, void **rest)
{
    void *p;
    (void)rest;
    if (head[FTK_HEAD_FLAGS] & FTK_SAVED_DONE)
        ftk_status_empty(&r->status);
    if (known)
        return FTKIT_OK;
    int rc = ftk_message_load(l, r, head, &p);
    if (rc != FTKIT_OK)
        return rc;
    r->context = ftk_vcomm_there(r->vc, r->peer);
    r->send.sync = (head[FTK_HEAD_FLAGS] & FTK_SAVED_SYNC) != 0;
    r->send.buffered = (head[FTK_HEAD_FLAGS] & FTK_SAVED_BUFFERED) != 0;
    r->send.buf = p;
    return FTKIT_OK;
}

const struct ftk_req_ops ftk_req_kind_send = { .start = start,
    .taken = taken,
    .describe = describe,
    .ends_at_line = true,
    .save = save,
    .sane = is_sane,
    .same = ftk_message_is_same,
    .load = load };
