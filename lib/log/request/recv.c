/* Receives: what a complete one leaves in the logs, and delivery from what is held.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "log/gate.h"
#include "log/news.h"
#include "log/p2p.h"

/* ---- messages that are drawn -------------------------------------------------------*/

int ftk_p2p_draw(int context, MPI_Message *m, const MPI_Status *s, struct ftk_held **out)
{
    MPI_Count bytes;
    int rc = PMPI_Get_elements_x(s, MPI_BYTE, &bytes);
    if (rc != MPI_SUCCESS)
        return rc;
    MPI_Datatype type;
    int n;
    rc = ftk_news_absorb(context, s->MPI_SOURCE);
    if (rc != MPI_SUCCESS)
        return rc;
    context = ftk_context_of(ftk_context_channel(context), s->MPI_TAG);
    struct ftk_held *h = ftk_held_new(
        context, s->MPI_SOURCE, ftk_context_tag(context, s->MPI_TAG), (size_t)bytes);
    if (!h)
        return MPI_ERR_NO_MEM;
    rc = ftk_p2p_bytes_type((size_t)bytes, &n, &type);
    if (rc == MPI_SUCCESS)
        rc = PMPI_Mrecv(h->data, n, type, m, MPI_STATUS_IGNORE);
    ftk_p2p_bytes_type_free(&type);
    if (rc == MPI_SUCCESS)
        rc = ftk_gate_drawn(h);
    const uint64_t stamp = ++ftk_log.stamp;
    if (rc == MPI_SUCCESS)
        rc = ftk_p2p_note_early(stamp, context, h->source, h->tag);
    if (rc == MPI_SUCCESS)
        rc = ftk_p2p_count(context, h->source, h->tag, stamp, h->data, h->bytes);
    if (rc != MPI_SUCCESS) {
        ftk_held_free(h);
        return rc;
    }
    *out = h;
    return rc;
}

/* ---- receiving ------------------------------------------------------------------------------------*/

/* A message has come from another team: it is counted, on its stream and for the journal. */
int ftk_p2p_count(
    int context, int source, int tag, uint64_t stamp, const void *data, size_t bytes)
{
    struct ftk_log *l = &ftk_log;
    uint64_t hash = 0;
    l->received[source]++;
    if (!ftk_log_crosses(source))
        return MPI_SUCCESS;
    struct ftk_stream_in *s = ftk_stream_in(context, source, tag);
    if (s && data && l->ctx->cfg.log_check)
        hash = ftk_log_hash(data, bytes);
    if (!s || ftk_stream_in_count(s, stamp, hash) != FTKIT_OK)
        return MPI_ERR_NO_MEM;
    return MPI_SUCCESS;
}

/* What a message brought, so many bytes of it, in memory of the heap; the program's buffer may
 * have had less room. */
static int copy_out(const struct ftk_req *r, size_t bytes, size_t room, char **copy)
{
    if (bytes <= room)
        return ftk_p2p_packed_part(r->rbuf, bytes, r->type, copy);
    int rc = ftk_p2p_packed_part(r->rbuf, room, r->type, copy);
    char *all = rc == MPI_SUCCESS ? realloc(*copy, bytes) : NULL;
    if (!all)
        return rc == MPI_SUCCESS ? MPI_ERR_NO_MEM : rc;
    memset(all + room, 0, bytes - room);
    *copy = all;
    return MPI_SUCCESS;
}

/* Whether the bytes are needed beside the program's own buffer. */
static int record(struct ftk_req *r, int source, int tag, size_t bytes)
{
    struct ftk_log *l = &ftk_log;
    bool journal = l->ctx->where < FTK_IN_LOOP && !l->reborn;
    bool hash = l->ctx->cfg.log_check && ftk_log_crosses(source);
    const struct ftk_type_facts *f;
    char *copy = NULL;
    const void *data = NULL;
    size_t room = 0;
    int rc = ftk_p2p_facts(r->type, &f);
    if (rc == MPI_SUCCESS)
        room = (size_t)r->count * (size_t)f->bytes;
    hash = hash && bytes <= room; /* of one that is cut nobody knows it */
    if (rc == MPI_SUCCESS && hash && f->dense && !journal)
        data = r->rbuf;
    else if (rc == MPI_SUCCESS && (journal || hash))
        rc = copy_out(r, bytes, room, &copy);
    if (rc == MPI_SUCCESS)
        rc = ftk_p2p_count(
            r->context, source, tag, r->stamp, hash && copy ? copy : data, bytes);
    if (rc == MPI_SUCCESS && journal) {
        struct ftk_held *h = calloc(1, sizeof *h);
        if (!h) {
            free(copy);
            return MPI_ERR_NO_MEM;
        }
        *h = (struct ftk_held){ .context = r->context, .source = source, .tag = tag,
            .bytes = bytes, .data = copy, .stamp = r->stamp };
        ftk_journal_add(h);
        return rc;
    }
    free(copy);
    return rc;
}

/* One that was posted later is through before one that was posted earlier: if that one's
 * sender dies, it shows whether it had been matched (settle.c). */
int ftk_p2p_note_early(uint64_t stamp, int context, int source, int tag)
{
    struct ftk_log *l = &ftk_log;
    if (!l->first || l->first->stamp >= stamp || !ftk_log_crosses(source))
        return MPI_SUCCESS;
    if (l->nearly == l->early_room) {
        size_t room = l->early_room ? 2 * l->early_room : 64;
        struct ftk_early *all = realloc(l->early, room * sizeof *all);
        if (!all)
            return MPI_ERR_NO_MEM;
        l->early = all;
        l->early_room = room;
    }
    l->early[l->nearly++] = (struct ftk_early){ .stamp = stamp, .context = context,
        .source = source, .tag = tag, .when = ++l->stamp };
    return MPI_SUCCESS;
}

/* What this receive has got leaves a determinant when MPI could have given it another message. */
static void decided(const struct ftk_req *r, int source, int tag)
{
    if (r->wild)
        ftk_det_received(r->wild, source, tag);
}

void ftk_p2p_bind(struct ftk_req *r, int source)
{
    r->from = source;
    if (r->wild == 0)
        return;
    decided(r, source, r->with);
    r->wild = 0;
    ftk_log.nwild--;
}

/* The MPI has completed a receive. */
int ftk_recv_complete(struct ftk_req *r, const MPI_Status *s, int error)
{
    int cancelled = 0;
    MPI_Count bytes = 0;
    const int tag = ftk_context_tag(r->context, s->MPI_TAG);
    if (r->cancelled && PMPI_Test_cancelled(s, &cancelled) == MPI_SUCCESS && cancelled) {
        ftk_det_cancelled(r->number, true);
        r->status = *s;
        return ftk_req_finish(r, MPI_SUCCESS);
    }
    if (r->cancelled && !r->kept)
        ftk_det_cancelled(r->number, false);
    r->cancelled = false; /* it had been matched already */
    (void)FTK_FAULT("log.received");
    if (error == MPI_SUCCESS)
        error = ftk_news_absorb(r->context, s->MPI_SOURCE);
    if (r->ops)
        return r->ops->complete(r, s, error);
    if (error == MPI_SUCCESS)
        error = ftk_gate_absorb(r->context, s->MPI_SOURCE);
    if (error == MPI_SUCCESS && !r->wild && ftk_log.ctx->where >= FTK_IN_LOOP
        && !ftk_log_crosses(s->MPI_SOURCE)) { /* nothing of it has to be known later */
        ftk_log.received[s->MPI_SOURCE]++;
        r->status = *s;
        r->status.MPI_SOURCE = ftk_vcomm_peer_rank(r->vc, s->MPI_SOURCE);
        r->status.MPI_TAG = tag;
        decided(r, s->MPI_SOURCE, tag);
        return ftk_req_finish(r, error);
    }
    int rc = PMPI_Get_elements_x(s, MPI_BYTE, &bytes);
    if (rc == MPI_SUCCESS)
        rc = ftk_p2p_note_early(r->stamp, r->context, s->MPI_SOURCE, tag);
    if (rc == MPI_SUCCESS)
        rc = record(r, s->MPI_SOURCE, tag, (size_t)bytes);
    r->status = *s;
    r->status.MPI_SOURCE = ftk_vcomm_peer_rank(r->vc, s->MPI_SOURCE);
    r->status.MPI_TAG = tag;
    decided(r, s->MPI_SOURCE, tag);
    return ftk_req_finish(r, error != MPI_SUCCESS ? error : rc);
}

int ftk_p2p_cancelled(struct ftk_req *r)
{
    ftk_empty_status(&r->status);
    r->cancelled = true;
    if (!r->vain)
        ftk_det_cancelled(r->number, true);
    (void)ftk_req_finish(r, MPI_SUCCESS);
    return PMPI_Status_set_cancelled(&r->status, 1);
}

int ftk_p2p_take_down(struct ftk_req *r)
{
    MPI_Status s;
    int done = 0, cancelled = 0;
    int rc = ftk_req_test(r, &done, &s);
    if (rc != MPI_SUCCESS && ftk_p2p_is_failure(rc)) {
        ftk_req_failed(r);
        return FTKIT_OK;
    }
    if (rc == MPI_SUCCESS && !done)
        return FTKIT_OK;
    if (r->kind == FTK_REQ_RECV && !r->cancelled && rc == MPI_SUCCESS
        && PMPI_Test_cancelled(&s, &cancelled) == MPI_SUCCESS && cancelled)
        r->posted = false; /* by us: it is posted again */
    else if (r->kind == FTK_REQ_RECV)
        (void)ftk_recv_complete(r, &s, rc); /* its owner gets the error with the request */
    else
        (void)ftk_req_finish(r, rc);
    return FTKIT_OK;
}

/* From what has been drawn before; it has been counted then. */
int ftk_p2p_deliver(struct ftk_req *r, struct ftk_held *h)
{
    size_t room, bytes = h->bytes;
    int rc = ftk_p2p_bytes(r->count, r->type, &room);
    if (rc == MPI_SUCCESS && bytes > room) {
        bytes = room;
        rc = MPI_ERR_TRUNCATE;
    }
    int unpacked = ftk_p2p_unpack(h->data, bytes, r->rbuf, r->count, r->type);
    ftk_p2p_status(&r->status, ftk_vcomm_peer_rank(r->vc, h->source), h->tag, bytes);
    decided(r, h->source, h->tag);
    ftk_held_free(h);
    return ftk_req_finish(r, rc != MPI_SUCCESS ? rc : unpacked);
}
