/* Messages from rank to rank: logged, counted, suppressed, received from where they are.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "coll.h"
#include "core/hash.h"
#include "core/log_ops.h"
#include "core/mpi_shim.h"
#include "det.h"
#include "detect/detect.h"
#include "gate.h"
#include "news.h"
#include "p2p.h"
#include "post.h"

#define SMALL 512        /* bytes of a message that MPI_Send sends without a request of ours */
#define MUCH 16384       /* bytes of a kept message that is not copied before it is sent */
#define REAP 64          /* sends under way: a look at one of them may give the processor away */
#define TURNS 16         /* looks at our own requests per look at the watch */

struct ftk_log ftk_log;

/* ---- failures --------------------------------------------------------------------------------*/

int ftk_log_error(void)
{
    return ftk_mpi_failure_code();
}

static void note_failure(void)
{
    ftk_detect_raise(ftk_log.ctx);
}

static int progress_probed(struct ftk_req *r);
static bool is_aside_busy(void);
static bool in_turn(uint64_t stamp, const struct ftk_req *found);

/* A receive that is posted is matched whatever the program waits for, and a sender may wait for
 * that; those that are not posted are looked at instead. */
void ftk_p2p_look_at_probed(void)
{
    struct ftk_log *l = &ftk_log;
    if (l->ctx->failed || l->ctx->repairing || l->reborn || (l->nprobed == 0 && !is_aside_busy()))
        return;
    for (struct ftk_req *r = l->first, *next; r; r = next) {
        next = r->next; /* later than all that a look can complete */
        if (r->probed)
            (void)progress_probed(r); /* its owner gets the error with the request */
    }
}

int ftk_log_repair(void)
{
    struct ftk_log *l = &ftk_log;
    if (l->falling)
        return ftk_log_error();
    int rc = l->repair(l->ctx);
    if (rc != FTKIT_OK) {
        (void)ftk_done(l->ctx, rc < 0 ? rc : FTKIT_ERR_INTERNAL);
        ftk_log_fall();
    }
    return l->falling ? ftk_log_error() : MPI_SUCCESS;
}

void ftk_p2p_keep_going(void)
{
    if (!ftk_log.on || ftk_log.falling)
        return;
    ftk_log.colls->turn();
    ftk_p2p_look_at_probed();
    ftk_news_turn();
}

int ftk_log_turn(unsigned *turns)
{
    struct ftk_log *l = &ftk_log;
    if (l->falling)
        return ftk_log_error();
    ftk_log.colls->turn();
    ftk_p2p_look_at_probed();
    ftk_news_turn();
    if (!l->ctx->failed && (++*turns % TURNS != 0 || !ftk_detect_poll(l->ctx)))
        return MPI_SUCCESS;
    return ftk_log_repair();
}

/* ---- requests under way -------------------------------------------------------------------------*/

static void link_up(struct ftk_req *r)
{
    struct ftk_log *l = &ftk_log;
    r->stamp = ++l->stamp;
    r->next = NULL;
    r->prev = l->last;
    if (l->last)
        l->last->next = r;
    else
        l->first = r;
    l->last = r;
}

static void unlink_from(struct ftk_req *r)
{
    struct ftk_log *l = &ftk_log;
    if (r->prev)
        r->prev->next = r->next;
    else if (l->first == r)
        l->first = r->next;
    else
        return; /* it was never among them */
    if (r->next)
        r->next->prev = r->prev;
    else
        l->last = r->prev;
    r->next = r->prev = NULL;
    if (!l->first)
        ftk_p2p_idle();
}

/* A receive of any tag on a shared communicator is not posted but probed for.  What the probe
 * finds may be of another context and in front of what the receive is to get.  Then this
 * receive takes the message out of the way, into what is held.  It is of the stream of that
 * message, and goes through a failure as a receive of the program does: its sender may die
 * in the middle.  One is under way at a time, and until it is complete nothing more is probed
 * for on that communicator, so that what is held keeps the order of arrival.
 *
 * MPI_Mprobe and MPI_Improbe use it, too, on any communicator: a long message needs its sender,
 * and MPI_Improbe must not wait for the sender.  Until the message is there, no probe and no
 * receive that it matches gets another one. */
static struct ftk_req aside;
static struct ftk_held *aside_to; /* where its bytes go; NULL: it is not under way */

/* It comes to nothing, or is complete and aside_to is NULL. */
static void drop_aside(struct ftk_req *r)
{
    (void)r;
    ftk_p2p_bytes_type_free(&aside.type);
    if (aside.real == MPI_REQUEST_NULL)
        ftk_held_free(aside_to); /* else the MPI may look at it still */
    aside_to = NULL;
}

static int finish(struct ftk_req *r, int error)
{
    unlink_from(r);
    if (r->wild)
        ftk_log.nwild--;
    r->wild = 0;
    ftk_log.nprobed -= r->probed;
    r->probed = false;
    ftk_news_unhold(r);
    r->posted = false;
    if (r->ops)
        r->ops->drop(r);
    if (r->real != MPI_REQUEST_NULL)
        r->own = NULL; /* it is given up, and the MPI may look at it still */
    r->real = MPI_REQUEST_NULL;
    r->done = true;
    r->error = error;
    if (r->orphan) {
        ftk_log.nactive++; /* as its deletion will find */
        ftk_req_delete(r);
    }
    return error;
}

static void empty_status(MPI_Status *s)
{
    memset(s, 0, sizeof *s);
    s->MPI_SOURCE = MPI_ANY_SOURCE;
    s->MPI_TAG = MPI_ANY_TAG;
    s->MPI_ERROR = MPI_SUCCESS;
}

void ftk_p2p_status(MPI_Status *s, int source, int tag, size_t bytes)
{
    empty_status(s);
    s->MPI_SOURCE = source;
    s->MPI_TAG = tag;
    (void)PMPI_Status_set_elements_x(s, MPI_BYTE, (MPI_Count)bytes);
}

void ftk_p2p_tell(MPI_Status *to, const MPI_Status *from)
{
    if (to == MPI_STATUS_IGNORE)
        return;
    int error = to->MPI_ERROR;
    *to = *from;
    to->MPI_ERROR = error;
}

void ftk_p2p_tell_of(MPI_Status *to, int source, int tag, size_t bytes)
{
    MPI_Status s;
    ftk_p2p_status(&s, source, tag, bytes);
    ftk_p2p_tell(to, &s);
}

void ftk_p2p_no_status(MPI_Status *s)
{
    ftk_p2p_tell_of(s, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
}

int ftk_p2p_fail(struct ftk_req *r, int error)
{
    empty_status(&r->status);
    return finish(r, error);
}

/* ---- sending -----------------------------------------------------------------------------------*/

/* The MPI gives every send that is complete at once the handle that a send to nobody has.  This
 * one is never completed, so the handle of another request that is under way differs from it. */
static MPI_Request over = MPI_REQUEST_NULL;

bool ftk_p2p_over_at_once(MPI_Request *real)
{
    if (over == MPI_REQUEST_NULL
        && PMPI_Isend(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_SELF, &over) != MPI_SUCCESS)
        over = MPI_REQUEST_NULL; /* every send is looked at later then */
    if (over == MPI_REQUEST_NULL || *real != over)
        return false;
    *real = MPI_REQUEST_NULL;
    return true;
}

/* Sends from the log that the MPI has not finished. */
static struct ftk_entry **sending;
static size_t nsending, sending_room;
static size_t reap_at = REAP; /* when there are so many, they are looked at */

static bool sent_by_now(struct ftk_entry *e)
{
    int done = 0;
    if (e->real == MPI_REQUEST_NULL)
        return true;
    int rc = PMPI_Test(&e->real, &done, MPI_STATUS_IGNORE);
    if (rc != MPI_SUCCESS) { /* the receiver is gone: whoever comes for it gets it again */
        note_failure();
        e->real = MPI_REQUEST_NULL;
        return true;
    }
    return done != 0;
}

void ftk_p2p_reap(size_t most)
{
    size_t kept = 0;
    for (size_t i = 0; i < nsending; i++)
        if (kept >= most || !sent_by_now(sending[i]))
            sending[kept++] = sending[i];
    nsending = kept;
    reap_at = kept + REAP;
}

void ftk_p2p_close(void)
{
    ftk_p2p_reap(SIZE_MAX);
    for (size_t i = 0; i < nsending; i++)
        if (sending[i]->real != MPI_REQUEST_NULL)
            (void)PMPI_Request_free(&sending[i]->real); /* nobody will receive it */
    nsending = 0;
    if (over != MPI_REQUEST_NULL)
        (void)PMPI_Wait(&over, MPI_STATUS_IGNORE); /* it is complete */
    ftk_p2p_close_types();
    ftk_matched_clear();
}

size_t ftk_p2p_sending(void)
{
    return nsending;
}

static int room_to_remember(void)
{
    if (nsending < sending_room)
        return MPI_SUCCESS;
    size_t room = sending_room ? 2 * sending_room : 64;
    struct ftk_entry **all = realloc(sending, room * sizeof(struct ftk_entry *));
    if (!all)
        return MPI_ERR_NO_MEM;
    sending = all;
    sending_room = room;
    return MPI_SUCCESS;
}

/* Beside the program; it is tested later, unless the MPI has taken it at once. */
static int isend_entry(struct ftk_entry *e, int dest, MPI_Comm comm, int tag)
{
    MPI_Datatype type;
    int count;
    char *data = ftk_entry_data(e);
    if (nsending >= reap_at)
        ftk_p2p_reap(2);
    int rc = ftk_p2p_bytes_type(e->bytes, &count, &type);
    if (rc == MPI_SUCCESS)
        rc = room_to_remember();
    if (rc == MPI_SUCCESS)
        rc = e->sync ? PMPI_Issend(data, count, type, dest, tag, comm, &e->real)
                     : PMPI_Isend(data, count, type, dest, tag, comm, &e->real);
    if (rc == MPI_SUCCESS && !ftk_p2p_over_at_once(&e->real))
        sending[nsending++] = e;
    ftk_p2p_bytes_type_free(&type);
    return rc;
}

int ftk_p2p_transmit(struct ftk_entry *e, int dest)
{
    MPI_Comm comm = ftk_log_real(e->context);
    const int tag = ftk_context_wire(e->context, e->tag);
    int rc = ftk_news_before(dest, e->context);
    if (rc == MPI_SUCCESS)
        rc = ftk_gate_before(dest, e->context, e->tag, e);
    if (rc == MPI_SUCCESS)
        rc = isend_entry(e, dest, comm, tag);
    ftk_log.sent[dest] += rc == MPI_SUCCESS;
    if (rc == MPI_SUCCESS || !ftk_p2p_is_failure(rc))
        return rc;
    e->real = MPI_REQUEST_NULL;
    note_failure();
    return MPI_SUCCESS; /* it is kept: the receiver's replacement gets it */
}

bool ftk_p2p_is_failure(int rc)
{
    int class = rc;
    if (PMPI_Error_class(rc, &class) == MPI_SUCCESS && class == MPI_ERR_TRUNCATE)
        return false;
    /* codes of calls on communicators with dead members say little */
    return ftk_mpi_is_failure(rc) || ftk_log.ctx->failed || ftk_detect_poll(ftk_log.ctx);
}

/* Whether the receiver has this message already; looks at its hash, too. */
static bool suppressed(const struct ftk_req *r, const struct ftk_entry *e)
{
    struct ftk_log *l = &ftk_log;
    struct ftk_mark *m = ftk_mark_find(e->context, r->peer, e->tag);
    if (!m)
        return false;
    uint64_t n = m->next++;
    if (n > m->upto)
        return false;
    for (int i = 0; i < m->nholes; i++)
        if (m->hole[i] == n)
            return false;
    l->suppressed++;
    if (m->hash && e->hash != 0 && m->hash[n - 1] != 0 && m->hash[n - 1] != e->hash)
        ftk_log_differs(r, n);
    return true;
}

/* From the program's memory, or from the request's. */
static int post_send(struct ftk_req *r)
{
    MPI_Comm comm = ftk_log_real(r->context);
    const int tag = ftk_context_wire(r->context, r->tag);
    const void *buf = r->owned > 0 ? r->own : r->sbuf;
    MPI_Datatype bytes = MPI_BYTE, type = r->type;
    int count = r->count;
    int rc = ftk_news_before(r->peer, r->context);
    if (rc == MPI_SUCCESS)
        rc = ftk_gate_before(r->peer, r->context, r->tag, r->entry);
    if (rc == MPI_SUCCESS && r->owned > 0) {
        rc = ftk_p2p_bytes_type(r->owned, &count, &bytes);
        type = bytes;
    }
    if (rc == MPI_SUCCESS)
        rc = r->sync ? PMPI_Issend(buf, count, type, r->peer, tag, comm, &r->real)
                     : PMPI_Isend(buf, count, type, r->peer, tag, comm, &r->real);
    ftk_p2p_bytes_type_free(&bytes);
    r->posted = rc == MPI_SUCCESS;
    ftk_log.sent[r->peer] += rc == MPI_SUCCESS;
    return rc;
}

/* Much data goes out from the program's memory at once and is copied while it travels; when
 * its receiver dies, what is kept is sent to who comes for it. */
static int send_and_keep(struct ftk_req *r, struct ftk_entry *e)
{
    empty_status(&r->status);
    r->entry = e;
    int rc = post_send(r);
    if (rc != MPI_SUCCESS && !ftk_p2p_is_failure(rc)) {
        ftk_keep_drop_last(r->peer);
        r->entry = NULL;
        return ftk_p2p_fail(r, rc);
    }
    if (rc != MPI_SUCCESS)
        note_failure();
    link_up(r);
    rc = ftk_p2p_pack(r->sbuf, r->count, r->type, ftk_entry_data(e), e->bytes);
    return rc; /* of a type that the MPI has just taken: it has no error */
}

/* A send whose bytes are in the log. */
static int send_entry(struct ftk_req *r)
{
    int rc = ftk_p2p_transmit(r->entry, r->peer);
    if (rc != MPI_SUCCESS)
        return ftk_p2p_fail(r, rc);
    return r->sync ? MPI_SUCCESS : finish(r, MPI_SUCCESS);
}

/* Between teams: kept, and sent from where it is kept.  The send is complete then: its rank
 * does not wait for the receiver, which a pipeline would feel. */
static int send_kept(struct ftk_req *r, size_t bytes)
{
    struct ftk_log *l = &ftk_log;
    struct ftk_entry *e = ftk_keep_new(r->peer, r->context, r->tag, bytes);
    if (!e)
        return ftk_p2p_fail(r, MPI_ERR_NO_MEM);
    int rc = ftk_gate_keep(e);
    if (rc != MPI_SUCCESS) {
        ftk_keep_drop_last(r->peer);
        return ftk_p2p_fail(r, rc);
    }
    e->sync = r->sync;
    l->logged_messages++;
    l->logged_bytes += bytes;
    if (bytes > MUCH && !ftk_log_replays() && !l->again && !ftk_news_hold(r))
        return send_and_keep(r, e);
    rc = ftk_p2p_pack(r->sbuf, r->count, r->type, ftk_entry_data(e), bytes);
    if (rc != MPI_SUCCESS) {
        ftk_keep_drop_last(r->peer);
        return ftk_p2p_fail(r, rc);
    }
    if (ftk_log_replays() && l->ctx->cfg.log_check)
        e->hash = ftk_log_hash(ftk_entry_data(e), bytes);
    empty_status(&r->status);
    if (ftk_log_replays() && suppressed(r, e))
        return finish(r, MPI_SUCCESS);
    r->entry = e;
    e->waits = r->waits || ftk_news_hold(r);
    if (e->waits || r->sync)
        link_up(r);
    return e->waits ? MPI_SUCCESS : send_entry(r);
}

/* What a rank that has gone back sends to a team-mate goes out from a copy.  A program may free
 * the request of a send and use the memory again once it knows, from a barrier perhaps, that
 * the message has been received.  In a replay it does not know: the messages of other
 * teams that make up the barrier are there from before, and it may be through while the
 * team-mate has not come to the receive. */
static int own_bytes(struct ftk_req *r, size_t bytes)
{
    if (!ftk_log.again || r->internal || r->owned > 0 || bytes == 0
        || !ftk_req_of(ftk_req_handle(r)))
        return MPI_SUCCESS; /* nobody can free it, or it is a copy already */
    free(r->own); /* of an earlier start */
    return ftk_p2p_packed(r->sbuf, r->count, r->type, &r->own, &r->owned);
}

/* Inside the team: from the program's memory. */
static int send_direct(struct ftk_req *r, size_t bytes)
{
    int rc = own_bytes(r, bytes);
    empty_status(&r->status);
    if (rc != MPI_SUCCESS)
        return ftk_p2p_fail(r, rc);
    if (ftk_news_hold(r)) {
        link_up(r);
        return MPI_SUCCESS;
    }
    rc = post_send(r);
    if (rc == MPI_SUCCESS && ftk_p2p_over_at_once(&r->real))
        return finish(r, MPI_SUCCESS);
    if (rc != MPI_SUCCESS && !ftk_p2p_is_failure(rc))
        return ftk_p2p_fail(r, rc);
    if (rc != MPI_SUCCESS)
        note_failure(); /* of a team-mate: this rank will fall back */
    link_up(r);
    return MPI_SUCCESS;
}

void ftk_p2p_release(struct ftk_req *r)
{
    ftk_news_unhold(r);
    if (r->entry) {
        r->entry->waits = false;
        (void)send_entry(r);
        return;
    }
    int rc = post_send(r);
    if (rc != MPI_SUCCESS && !ftk_p2p_is_failure(rc))
        (void)ftk_p2p_fail(r, rc);
    else if (rc != MPI_SUCCESS)
        note_failure();
}

static int begin_send(struct ftk_req *r)
{
    struct ftk_log *l = &ftk_log;
    size_t bytes;
    int rc = ftk_p2p_bytes(r->count, r->type, &bytes);
    if (rc != MPI_SUCCESS)
        return ftk_p2p_fail(r, rc);
    if (l->reborn) { /* everybody has what was sent before the line */
        empty_status(&r->status);
        return finish(r, MPI_SUCCESS);
    }
    ftk_det_before_send();
    ftk_gate_step(r->internal);
    (void)FTK_FAULT("log.send");
    l->stat_messages[r->peer]++;
    l->stat_bytes[r->peer] += bytes;
    return ftk_log_crosses(r->peer) ? send_kept(r, bytes) : send_direct(r, bytes);
}

/* ---- receiving ------------------------------------------------------------------------------------*/

static int end_aside(struct ftk_req *r, const MPI_Status *s, int error)
{
    struct ftk_held *h = aside_to;
    MPI_Count bytes = 0;
    aside_to = NULL;
    if (error == MPI_SUCCESS)
        error = PMPI_Get_elements_x(s, MPI_BYTE, &bytes);
    h->bytes = (size_t)bytes;
    if (error == MPI_SUCCESS)
        error = ftk_gate_drawn(h);
    if (error == MPI_SUCCESS)
        error = ftk_p2p_note_early(r->stamp, h->context, h->source, h->tag);
    if (error == MPI_SUCCESS)
        error = ftk_p2p_count(h->context, h->source, h->tag, r->stamp, h->data, h->bytes);
    if (error == MPI_SUCCESS)
        ftk_held_add(h);
    else
        ftk_held_free(h);
    return finish(r, error);
}

uint64_t ftk_log_hash(const void *data, size_t bytes)
{
    uint64_t h = ftk_xxh3(data, bytes);
    return h ? h : 1; /* 0: not known */
}

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
static int complete(struct ftk_req *r, const MPI_Status *s, int error)
{
    int cancelled = 0;
    MPI_Count bytes = 0;
    const int tag = ftk_context_tag(r->context, s->MPI_TAG);
    if (r->cancelled && PMPI_Test_cancelled(s, &cancelled) == MPI_SUCCESS && cancelled) {
        ftk_det_cancelled(r->number, true);
        r->status = *s;
        return finish(r, MPI_SUCCESS);
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
        return finish(r, error);
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
    return finish(r, error != MPI_SUCCESS ? error : rc);
}

/* PMPI_Test().  A receive from any source that was once told to be pending because of a
 * failure keeps that as its error (Open MPI 5.0) and ends with it when its message has come,
 * whole and from a live rank: that is no error, and the request is left to be freed. */
static int test(struct ftk_req *r, int *done, MPI_Status *s)
{
    int rc = PMPI_Test(&r->real, done, s);
    if (rc == MPI_SUCCESS || !*done || !ftk_mpi_is_pending(rc))
        return rc;
    if (r->real != MPI_REQUEST_NULL)
        (void)PMPI_Request_free(&r->real); /* it is complete: nothing else is left of it */
    return MPI_SUCCESS;
}

int ftk_p2p_cancelled(struct ftk_req *r)
{
    empty_status(&r->status);
    r->cancelled = true;
    if (!r->vain)
        ftk_det_cancelled(r->number, true);
    (void)finish(r, MPI_SUCCESS);
    return PMPI_Status_set_cancelled(&r->status, 1);
}

/* Its peer is dead.  A receive from any source may be still under way, and is cancelled by the
 * repair. */
static void failed(struct ftk_req *r)
{
    r->posted = r->real != MPI_REQUEST_NULL;
    r->down = !r->posted && r->kind == FTK_REQ_RECV;
}

int ftk_p2p_take_down(struct ftk_req *r)
{
    MPI_Status s;
    int done = 0, cancelled = 0;
    int rc = test(r, &done, &s);
    if (rc != MPI_SUCCESS && ftk_p2p_is_failure(rc)) {
        failed(r);
        return FTKIT_OK;
    }
    if (rc == MPI_SUCCESS && !done)
        return FTKIT_OK;
    if (r->kind == FTK_REQ_RECV && !r->cancelled && rc == MPI_SUCCESS
        && PMPI_Test_cancelled(&s, &cancelled) == MPI_SUCCESS && cancelled)
        r->posted = false; /* by us: it is posted again */
    else if (r->kind == FTK_REQ_RECV)
        (void)complete(r, &s, rc); /* its owner gets the error with the request */
    else
        (void)finish(r, rc);
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
    return finish(r, rc != MPI_SUCCESS ? rc : unpacked);
}

int ftk_p2p_journal(const struct ftk_held *h, uint64_t stamp)
{
    struct ftk_log *l = &ftk_log;
    if (l->ctx->where >= FTK_IN_LOOP || l->reborn)
        return MPI_SUCCESS;
    struct ftk_held *copy = ftk_held_new(h->context, h->source, h->tag, h->bytes);
    if (!copy)
        return MPI_ERR_NO_MEM;
    memcpy(copy->data, h->data, h->bytes);
    copy->stamp = stamp;
    ftk_journal_add(copy);
    return MPI_SUCCESS;
}

static int take_held(struct ftk_req *r, struct ftk_held *h)
{
    int rc = ftk_p2p_journal(h, r->stamp);
    if (rc == MPI_SUCCESS)
        return ftk_p2p_deliver(r, h);
    ftk_held_free(h);
    return ftk_p2p_fail(r, rc);
}

static bool overlap(const struct ftk_req *q, const struct ftk_req *r)
{
    return q->context == r->context
        && (q->from == r->from || q->from == MPI_ANY_SOURCE || r->from == MPI_ANY_SOURCE)
        && (q->with == r->with || q->with == MPI_ANY_TAG || r->with == MPI_ANY_TAG);
}

/* Receives under way that come before others: those that are probed for, and from any source. */
typedef bool which_fn(const struct ftk_req *q);
static bool is_probed(const struct ftk_req *q) { return q->probed; }
static bool is_open(const struct ftk_req *q) { return q->wild && (q->posted || q->down); }
static bool is_down(const struct ftk_req *q) { return q->wild && q->down; }

/* The first of them that was asked for before that stamp and would take what is found, or wanted. */
static struct ftk_req *earlier(uint64_t stamp, which_fn *which, const struct ftk_req *found)
{
    for (struct ftk_req *q = ftk_log.first; q && q->stamp < stamp; q = q->next)
        if (which(q) && overlap(q, found))
            return q;
    return NULL;
}

bool ftk_p2p_claimed(int context, int source, int tag)
{
    const struct ftk_req found = { .context = context, .from = source, .with = tag };
    return ftk_log.nprobed > 0 && earlier(UINT64_MAX, is_probed, &found);
}

/* A receive of any tag would match news, and what is posted after one that is not posted
 * would match before it. */
static bool has_to_probe(const struct ftk_req *r)
{
    return (r->with == MPI_ANY_TAG && (ftk_news_in_band() || ftk_context_shares(r->context)))
        || (ftk_log.nprobed > 0 && earlier(r->stamp, is_probed, r))
        || (aside_to && r != &aside && overlap(&aside, r));
}

bool ftk_p2p_may_take(uint64_t stamp, const struct ftk_held *h)
{
    const struct ftk_req found = { .context = h->context, .from = h->source, .with = h->tag };
    if (!ftk_context_shares(h->context)) /* it was drawn in a repair or at the line */
        return true;
    return !(ftk_log.nprobed > 0 && earlier(stamp, is_probed, &found))
        && (ftk_log.nwild == 0 || in_turn(stamp, &found));
}

/* What is held for a receive, taken out.  *wait: the receive has to come back for what is held,
 * for others come first. */
static struct ftk_held *held_for(const struct ftk_req *r, bool *wait)
{
    *wait = false;
    if (ftk_log.nheld == 0 || r == &aside)
        return NULL;
    struct ftk_held *h = ftk_held_match(r->context, r->from, r->with, false);
    *wait = h && !ftk_log.reborn && !ftk_p2p_may_take(r->stamp, h);
    if (h && !*wait)
        ftk_held_take(h);
    return *wait ? NULL : h;
}

static int probe_later(struct ftk_req *r)
{
    ftk_log.nprobed += !r->probed;
    r->probed = true;
    return MPI_SUCCESS;
}

int ftk_p2p_post(struct ftk_req *r)
{
    struct ftk_log *l = &ftk_log;
    r->down = false;
    if (r->vain)
        return MPI_SUCCESS; /* what comes is for another */
    if (ftk_gate_here()) {
        (void)probe_later(r);
        return ftk_gate_receive(r);
    }
    bool wait;
    struct ftk_held *h = held_for(r, &wait);
    if (h)
        return take_held(r, h);
    if (l->reborn)
        return MPI_SUCCESS; /* what it is to get is in the journal, or never comes */
    if (wait || has_to_probe(r))
        return probe_later(r);
    l->nprobed -= r->probed;
    r->probed = false;
    if (r->when == 0 || r->from == MPI_ANY_SOURCE)
        r->when = l->stamp;
    const int tag = r->with == MPI_ANY_TAG ? r->with : ftk_context_wire(r->context, r->with);
    int rc = PMPI_Irecv(
        r->rbuf, r->count, r->type, r->from, tag, ftk_log_real(r->context), &r->real);
    r->posted = rc == MPI_SUCCESS;
    if (rc == MPI_SUCCESS)
        return rc;
    if (!ftk_p2p_is_failure(rc))
        return ftk_p2p_fail(r, rc);
    note_failure(); /* posted again after the repair */
    return MPI_SUCCESS;
}

/* Kept, and sent from there. */
static int small_kept(const void *buf, int count, MPI_Datatype type, size_t bytes, int world,
    int tag, int context)
{
    struct ftk_log *l = &ftk_log;
    struct ftk_entry *e = ftk_keep_new(world, context, tag, bytes);
    int rc = e ? ftk_p2p_pack(buf, count, type, ftk_entry_data(e), bytes) : MPI_ERR_NO_MEM;
    if (rc == MPI_SUCCESS)
        rc = ftk_p2p_transmit(e, world);
    if (e && rc != MPI_SUCCESS)
        ftk_keep_drop_last(world);
    if (rc != MPI_SUCCESS)
        return rc;
    l->logged_messages++;
    l->logged_bytes += bytes;
    return rc;
}

/* A send that the MPI has begun and not finished, from the program's memory; the error. */
static int wait_until_sent(struct ftk_req *r)
{
    empty_status(&r->status);
    link_up(r);
    return ftk_req_wait(r);
}

bool ftk_p2p_send_small(const void *buf, int count, MPI_Datatype type, struct ftk_vcomm *vc,
    int world, int tag, int *error)
{
    struct ftk_log *l = &ftk_log;
    const struct ftk_type_facts *f;
    const int context = ftk_vcomm_there(vc, world);
    MPI_Request real = MPI_REQUEST_NULL;
    *error = MPI_SUCCESS;
    if (l->falling || l->reborn || l->gates
        || (l->tells && (l->node[world] != l->node[l->me] || ftk_news_holds(world)))
        || ftk_p2p_facts(type, &f) != MPI_SUCCESS
        || (size_t)count * (size_t)f->bytes > SMALL)
        return false;
    const size_t bytes = (size_t)count * (size_t)f->bytes;
    const bool kept = ftk_log_crosses(world);
    if (kept && ftk_log_replays())
        return false; /* the receiver may have it */
    ftk_det_before_send();
    (void)FTK_FAULT("log.send");
    int rc = kept ? small_kept(buf, count, type, bytes, world, tag, context)
                  : PMPI_Isend(buf, count, type, world, ftk_context_wire(context, tag),
                        ftk_log_real(context), &real);
    if (rc != MPI_SUCCESS)
        return false; /* it has not gone: the long way finds out why */
    l->sent[world] += !kept; /* the others have been counted */
    l->stat_messages[world]++;
    l->stat_bytes[world] += bytes;
    if (kept || ftk_p2p_over_at_once(&real))
        return true;
    struct ftk_req r = { .kind = FTK_REQ_SEND, .vc = vc, .context = context, .sbuf = buf,
        .count = count, .type = type, .peer = world, .tag = tag, .posted = true, .real = real };
    *error = wait_until_sent(&r);
    return true;
}

int ftk_req_begin(struct ftk_req *r)
{
    r->done = false;
    r->cancelled = false;
    r->posted = false;
    r->entry = NULL;
    r->real = MPI_REQUEST_NULL;
    r->error = MPI_SUCCESS;
    r->wild = r->number = 0;
    r->when = 0;
    r->owned = r->persistent ? 0 : r->owned;
    if (ftk_log.falling)
        return ftk_p2p_fail(r, ftk_log_error());
    if (r->peer == MPI_PROC_NULL) {
        ftk_p2p_status(&r->status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
        return finish(r, MPI_SUCCESS);
    }
    if (r->kind == FTK_REQ_SEND)
        return begin_send(r);
    if (r->peer == MPI_ANY_SOURCE && ftk_log_refuses("a receive from MPI_ANY_SOURCE"))
        return ftk_p2p_fail(r, MPI_ERR_UNSUPPORTED_OPERATION);
    r->from = r->peer;
    r->with = r->tag;
    r->wild = 0;
    r->planned = r->vain = r->kept = r->down = false;
    r->number = r->internal ? 0 : ftk_det_begun(&r->vain, &r->kept);
    if (r->peer == MPI_ANY_SOURCE && !ftk_log.reborn) {
        r->wild = ftk_det_receive(&r->from, &r->with);
        r->planned = r->wild == 0;
        ftk_log.nwild += r->wild != 0;
    }
    link_up(r);
    return ftk_p2p_post(r);
}

/* ---- completing --------------------------------------------------------------------------------------*/

/* Whether one from any source that was posted before that stamp could have got such a message.
 * It has been matched then, and is not known to be through. */
static bool others_first(uint64_t stamp, const struct ftk_req *found)
{
    return found->from != MPI_PROC_NULL && earlier(stamp, is_open, found);
}

/* What a receive that is through has got, without telling; from is MPI_PROC_NULL when it has got
 * nothing, and its error is all there is. */
static bool is_through(const struct ftk_req *r, struct ftk_req *found)
{
    MPI_Status s;
    int done = 0, cancelled = 0;
    int rc = PMPI_Request_get_status(r->real, &done, &s);
    *found = (struct ftk_req){ .context = r->context, .from = MPI_PROC_NULL };
    if (rc != MPI_SUCCESS || !done)
        return rc != MPI_SUCCESS;
    if (PMPI_Test_cancelled(&s, &cancelled) == MPI_SUCCESS && !cancelled && s.MPI_SOURCE >= 0) {
        found->from = s.MPI_SOURCE;
        found->with = ftk_context_tag(r->context, s.MPI_TAG);
    }
    return true;
}

size_t ftk_p2p_untold(int source)
{
    size_t n = 0;
    struct ftk_req got;
    for (const struct ftk_req *r = ftk_log.nwild > 0 ? ftk_log.first : NULL; r; r = r->next)
        n += r->kind == FTK_REQ_RECV && r->posted && is_through(r, &got) && got.from == source;
    return n;
}

struct ftk_req *ftk_p2p_overtaken(const struct ftk_req *r, const int *dead, bool *through)
{
    struct ftk_req got = { .context = r->context, .from = MPI_ANY_SOURCE, .with = MPI_ANY_TAG };
    *through = true;
    if (!earlier(r->stamp, is_down, &got))
        return NULL;
    *through = is_through(r, &got);
    return *through && got.from != MPI_PROC_NULL && !dead[got.from]
        ? earlier(r->stamp, is_down, &got)
        : NULL;
}

static int finish_posted(struct ftk_req *r)
{
    MPI_Status s;
    int done = 0;
    int rc = test(r, &done, &s);
    if (rc == MPI_SUCCESS) {
        if (!done)
            return rc;
        return r->kind == FTK_REQ_RECV ? complete(r, &s, rc) : finish(r, rc);
    }
    if (ftk_p2p_is_failure(rc)) {
        failed(r);
        note_failure();
        return MPI_SUCCESS;
    }
    return r->kind == FTK_REQ_RECV ? complete(r, &s, rc) : finish(r, rc);
}

/* A replay has to know what receives from any source have got that were matched before this
 * message.  So they are told first, in their order; false: not all of them are through.  Then
 * one that is not known in a replay can take no message that another is known to have got: of
 * those that it could have got none was told while it had not been. */
static bool in_turn(uint64_t stamp, const struct ftk_req *found)
{
    struct ftk_req *q = ftk_log.first;
    for (struct ftk_req *next, got; q && q->stamp < stamp; q = next) {
        next = q->next;
        if (is_open(q) && q->posted && q->context == found->context && is_through(q, &got)
            && !others_first(q->stamp, &got))
            (void)finish_posted(q); /* its owner gets the error with the request */
    }
    return !others_first(stamp, found);
}

bool ftk_p2p_in_turn(int context, int source, int tag)
{
    const struct ftk_req found = { .context = context, .from = source, .with = tag };
    return ftk_log.nwild == 0 || ftk_log.reborn || in_turn(UINT64_MAX, &found);
}

static int progress_posted(struct ftk_req *r)
{
    struct ftk_req got;
    if (ftk_log.nwild == 0 || r->kind != FTK_REQ_RECV || r->internal || r->planned)
        return finish_posted(r);
    /* a second look might find more than the first */
    return is_through(r, &got) && in_turn(r->stamp, &got) ? finish_posted(r) : MPI_SUCCESS;
}

static int take_aside(const struct ftk_req *found, MPI_Message *m, const MPI_Status *s)
{
    MPI_Count bytes;
    int rc = PMPI_Get_elements_x(s, MPI_BYTE, &bytes);
    struct ftk_held *h
        = rc == MPI_SUCCESS ? ftk_held_new(found->context, found->from, found->with, (size_t)bytes)
                            : NULL;
    if (!h)
        return rc == MPI_SUCCESS ? MPI_ERR_NO_MEM : rc;
    static const struct ftk_req_ops ops = { end_aside, drop_aside };
    aside = (struct ftk_req){ .ops = &ops, .kind = FTK_REQ_RECV, .internal = true, .vc = ftk_log.world,
        .context = found->context, .rbuf = h->data, .peer = found->from, .tag = found->with,
        .from = found->from, .with = found->with, .type = MPI_BYTE, .real = MPI_REQUEST_NULL };
    aside_to = h;
    rc = ftk_p2p_bytes_type((size_t)bytes, &aside.count, &aside.type);
    link_up(&aside);
    aside.when = ftk_log.stamp;
    if (rc == MPI_SUCCESS)
        rc = PMPI_Imrecv(aside.rbuf, aside.count, aside.type, m, &aside.real);
    aside.posted = rc == MPI_SUCCESS;
    if (rc == MPI_SUCCESS)
        return finish_posted(&aside);
    (void)ftk_p2p_fail(&aside, rc);
    if (!ftk_p2p_is_failure(rc))
        return rc;
    note_failure(); /* of its sender: the message comes again */
    return MPI_SUCCESS;
}

/* The message that was found is for the first that can take it; of another context than that
 * of r there may be none. */
static int match(struct ftk_req *r, MPI_Message *m, const MPI_Status *s)
{
    const int context = ftk_context_of(ftk_context_channel(r->context), s->MPI_TAG);
    const struct ftk_req found = { .context = context, .from = s->MPI_SOURCE,
        .with = ftk_context_tag(context, s->MPI_TAG) };
    const bool other = context != r->context;
    struct ftk_req *first = earlier(other ? UINT64_MAX : r->stamp, is_probed, &found);
    if (other && !first)
        return take_aside(&found, m, s);
    r = first ? first : r;
    ftk_log.nprobed--;
    r->probed = false;
    r->when = ftk_log.stamp;
    int rc = PMPI_Imrecv(r->rbuf, r->count, r->type, m, &r->real);
    r->posted = rc == MPI_SUCCESS;
    return rc == MPI_SUCCESS ? rc : ftk_p2p_fail(r, rc);
}

bool ftk_p2p_can_probe(int context)
{
    return !ftk_context_shares(context) || !is_aside_busy();
}

int ftk_p2p_put_aside(int context, const MPI_Status *s, bool *taken)
{
    MPI_Message m;
    MPI_Status found;
    int flag;
    const struct ftk_req r = { .context = context, .from = s->MPI_SOURCE,
        .with = ftk_context_tag(context, s->MPI_TAG) };
    *taken = false;
    if (ftk_p2p_claimed(context, r.from, r.with)) {
        ftk_p2p_look_at_probed();
        return MPI_SUCCESS;
    }
    *taken = true;
    int rc = PMPI_Improbe(
        s->MPI_SOURCE, s->MPI_TAG, ftk_log.real[FTK_LOG_SHARED], &flag, &m, &found);
    return rc == MPI_SUCCESS && flag ? take_aside(&r, &m, &found) : rc;
}

/* Whether a message is still being taken aside, after one look. */
static bool is_aside_busy(void)
{
    int rc = aside_to && aside.posted ? finish_posted(&aside) : MPI_SUCCESS;
    if (rc != MPI_SUCCESS)
        ftk_report(FTKIT_ERROR, "MPI error %d: a message is lost", rc);
    return aside_to != NULL;
}

bool ftk_p2p_arrives(int context, int source, int tag)
{
    const struct ftk_req probe = { .context = context, .from = source, .with = tag };
    return aside_to && is_aside_busy() && overlap(&aside, &probe);
}

int ftk_p2p_take_matched(int context, MPI_Message *m, const MPI_Status *s, struct ftk_held **out)
{
    *out = NULL;
    int rc = ftk_news_absorb(context, s->MPI_SOURCE);
    if (rc != MPI_SUCCESS)
        return rc;
    if (is_aside_busy()) /* with a message that this one does not wait for */
        return ftk_p2p_draw(context, m, s, out);
    context = ftk_context_of(ftk_context_channel(context), s->MPI_TAG);
    const struct ftk_req found = { .context = context, .from = s->MPI_SOURCE,
        .with = ftk_context_tag(context, s->MPI_TAG) };
    rc = take_aside(&found, m, s);
    if (rc == MPI_SUCCESS && !aside_to)
        *out = ftk_held_match(context, found.from, found.with, true);
    return rc;
}

/* One look; *other: what was found was for somebody else. */
static int look_for(struct ftk_req *r, bool *other)
{
    MPI_Message m;
    MPI_Status s;
    int flag = 0;
    if (ftk_gate_here())
        return ftk_gate_receive(r);
    /* first, because what is complete by this look is held */
    const bool arrives = ftk_p2p_arrives(r->context, r->from, r->with)
        || (ftk_context_shares(r->context) && is_aside_busy());
    bool wait; /* for what was drawn in a repair, or taken aside */
    struct ftk_held *h = held_for(r, &wait);
    if (h)
        return take_held(r, h);
    if (wait || arrives)
        return MPI_SUCCESS;
    const int tag = r->with == MPI_ANY_TAG ? r->with : ftk_context_wire(r->context, r->with);
    int rc = PMPI_Improbe(r->from, tag, ftk_log_real(r->context), &flag, &m, &s);
    if (rc != MPI_SUCCESS && !ftk_p2p_is_failure(rc))
        return ftk_p2p_fail(r, rc);
    if (rc != MPI_SUCCESS)
        note_failure();
    if (rc != MPI_SUCCESS || !flag)
        return MPI_SUCCESS;
    if (s.MPI_TAG == FTK_POST_TAG) {
        rc = ftk_news_take(r->context, &m, &s);
        return rc == MPI_SUCCESS ? rc : ftk_p2p_fail(r, rc);
    }
    *other = ftk_context_of(ftk_context_channel(r->context), s.MPI_TAG) != r->context;
    rc = match(r, &m, &s);
    if (*other)
        return rc == MPI_SUCCESS ? rc : ftk_p2p_fail(r, rc);
    return r->posted ? progress_posted(r) : rc;
}

static int progress_probed(struct ftk_req *r)
{
    bool other = true;
    int rc = MPI_SUCCESS;
    while (rc == MPI_SUCCESS && other && !r->done) {
        other = false;
        rc = look_for(r, &other);
    }
    return rc;
}

static int progress_any(struct ftk_req *r)
{
    if (ftk_log.falling)
        return ftk_p2p_fail(r, ftk_log_error());
    if (r->posted)
        return progress_posted(r);
    if (r->waits)
        return MPI_SUCCESS; /* see ftk_news_turn() */
    if (r->probed)
        return progress_probed(r);
    if (ftk_log.reborn && r->kind == FTK_REQ_RECV)
        return ftk_p2p_fail(r, ftk_log_strange(r));
    if (r->entry && sent_by_now(r->entry) && !ftk_log.ctx->failed)
        return finish(r, MPI_SUCCESS);
    return MPI_SUCCESS;
}

/* A receive is through, its send perhaps not. */
static void progress_pair(struct ftk_req *r)
{
    struct ftk_req *s = r->pair;
    int rc = ftk_req_progress(s);
    r->half = true;
    r->done = s->done;
    if (!s->done)
        return;
    r->error = r->error == MPI_SUCCESS ? rc : r->error;
    r->pair = NULL;
    ftk_req_delete(s);
}

int ftk_req_progress(struct ftk_req *r)
{
    if (!r->done && !r->half)
        (void)(r->kind == FTK_REQ_COLL ? ftk_log.colls->progress(r) : progress_any(r));
    if (r->pair && (r->done || r->half))
        progress_pair(r);
    if (r->done && r->then) {
        int (*then)(struct ftk_req *) = r->then;
        r->then = NULL;
        r->error = r->error == MPI_SUCCESS ? then(r) : r->error;
    }
    return r->done ? r->error : MPI_SUCCESS;
}

int ftk_req_wait(struct ftk_req *r)
{
    unsigned turns = 0;
    if (r->vain && !r->done) { /* it is not cancelled this time: better late than never */
        r->vain = false;
        (void)ftk_p2p_post(r); /* its error comes with it */
    }
    while (!r->done || r->pair) {
        (void)ftk_req_progress(r);
        if (!r->done)
            (void)ftk_log_turn(&turns); /* when it fails, so do all that are under way */
    }
    return r->error;
}

/* ---- the program's requests ---------------------------------------------------------------------------
 * They lie in one piece of address space, so that a handle tells whether it is one of ours. */

#define POOL_MAX (1u << 22)

static struct ftk_req *pool;
static size_t pool_used;
static struct ftk_req *pool_free;

struct ftk_req *ftk_req_new(void)
{
    struct ftk_req *r = pool_free;
    if (!pool)
        pool = ftk_p2p_reserve(POOL_MAX * sizeof *pool);
    if (!pool)
        return NULL;
    if (r)
        pool_free = r->next;
    else if (pool_used < POOL_MAX)
        r = &pool[pool_used++];
    else
        return NULL;
    memset(r, 0, sizeof *r);
    r->kind = FTK_REQ_DONE;
    r->real = MPI_REQUEST_NULL;
    r->born = ftk_log.ctx->where < FTK_IN_LOOP ? 0 : ftk_log.lines; /* set-up is before all lines */
    ftk_log.nactive++;
    return r;
}

void ftk_req_delete(struct ftk_req *r)
{
    free(r->own);
    r->own = NULL;
    if (!r->persistent || r->active)
        ftk_log.nactive--;
    r->kind = FTK_REQ_NONE;
    r->next = pool_free;
    pool_free = r;
}

/* Nobody waits for sends that are freed under way; what they hold goes when there are twice as many
 * as were left the last time. */
static void look_at_freed(void)
{
    static size_t freed, look = 64;
    if (++freed < look || ftk_log.falling || ftk_log.ctx->failed || ftk_log.ctx->repairing)
        return;
    freed = 0;
    for (struct ftk_req *r = ftk_log.first, *next; r; r = next) {
        next = r->next;
        if (!r->orphan || r->kind != FTK_REQ_SEND)
            continue;
        (void)ftk_req_progress(r); /* there is nobody to tell */
        freed += r->kind == FTK_REQ_SEND;
    }
    look = 64 + 2 * freed;
}

void ftk_req_abandon(struct ftk_req *r)
{
    if (r->pair)
        ftk_req_abandon(r->pair);
    r->pair = NULL;
    r->done = r->done || r->half;
    r->orphan = true;
    if (r->persistent) /* it is active, or it would have been deleted */
        r->persistent = false;
    if (r->done) {
        ftk_req_delete(r);
        return;
    }
    ftk_log.nactive--; /* nobody but us will complete it */
    look_at_freed();
}

struct ftk_req *ftk_req_of(MPI_Request h)
{
    uintptr_t at = (uintptr_t)h, first = (uintptr_t)pool;
    if (!pool || at < first || at >= first + pool_used * sizeof *pool)
        return NULL;
    return (struct ftk_req *)(void *)h;
}

int ftk_req_number(const struct ftk_req *r)
{
    return (int)(r - pool);
}

struct ftk_req *ftk_req_numbered(int number)
{
    return number >= 0 && (size_t)number < pool_used ? &pool[number] : NULL;
}

bool ftk_p2p_has(const struct ftk_vcomm *vc)
{
    for (size_t i = 0; i < pool_used; i++)
        if (pool[i].kind != FTK_REQ_NONE && !pool[i].orphan && pool[i].vc == vc
            && (!pool[i].stale || pool[i].active))
            return true;
    return false;
}

int ftk_p2p_finish(const struct ftk_vcomm *vc)
{
    unsigned turns = 0;
    for (size_t i = 0; i < pool_used; i++) {
        struct ftk_req *r = &pool[i];
        while (r->kind != FTK_REQ_NONE && r->vc == vc && !r->done
            && (!r->persistent || r->active)) {
            (void)ftk_req_progress(r); /* its owner gets the error with the request */
            int rc = r->kind == FTK_REQ_NONE || r->done ? MPI_SUCCESS : ftk_log_turn(&turns);
            if (rc != MPI_SUCCESS)
                return rc;
        }
    }
    return MPI_SUCCESS;
}

void ftk_p2p_part(const struct ftk_vcomm *vc)
{
    for (size_t i = 0; i < pool_used; i++)
        if (pool[i].kind != FTK_REQ_NONE && pool[i].persistent && !pool[i].active && pool[i].vc == vc)
            pool[i].vc = NULL;
}

bool ftk_p2p_uses(MPI_Datatype type)
{
    for (const struct ftk_req *r = ftk_log.first; r; r = r->next)
        if (r->type == type)
            return true;
    for (size_t i = 0; i < pool_used; i++)
        if (pool[i].persistent && pool[i].kind != FTK_REQ_NONE && pool[i].type == type)
            return true;
    return false;
}

/* The program falls back: what it had under way is gone; persistent ones are as at rest. */
void ftk_p2p_forget_requests(void)
{
    for (size_t i = 0; i < pool_used; i++) {
        struct ftk_req *r = &pool[i];
        if (r->kind == FTK_REQ_NONE)
            continue;
        if (!r->persistent) {
            ftk_req_delete(r);
            continue;
        }
        ftk_log.nactive -= r->active;
        r->active = false;
        r->stale = r->stale || (ftk_log.lines > 0 && r->born == ftk_log.lines);
    }
}

/* ---- datatypes that are in use: a receive may have to be posted again, with its type --------*/

static MPI_Datatype *late;
static size_t nlate, late_room;

int ftk_p2p_type_free(MPI_Datatype *datatype)
{
    ftk_p2p_forget_type(*datatype);
    if (!ftk_p2p_uses(*datatype))
        return PMPI_Type_free(datatype);
    if (nlate == late_room) {
        size_t room = late_room ? 2 * late_room : 16;
        MPI_Datatype *all = realloc(late, room * sizeof(MPI_Datatype));
        if (!all)
            return MPI_ERR_NO_MEM;
        late = all;
        late_room = room;
    }
    late[nlate++] = *datatype;
    *datatype = MPI_DATATYPE_NULL;
    return MPI_SUCCESS;
}

void ftk_p2p_idle(void)
{
    ftk_log.nearly = 0;
    size_t kept = 0;
    for (size_t i = 0; i < nlate; i++) {
        if (ftk_p2p_uses(late[i])) {
            late[kept++] = late[i];
            continue;
        }
        ftk_p2p_forget_type(late[i]);
        (void)PMPI_Type_free(&late[i]); /* nobody could be told */
    }
    nlate = kept;
}

void *ftk_p2p_reserve(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}
