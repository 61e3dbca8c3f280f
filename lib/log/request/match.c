/* Matching: which message a receive or a probe gets, in which order, by MPI_Improbe if needed.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "log/determinant/det.h"
#include "log/mode.h"
#include "log/base/dtype.h"
#include "log/base/part.h"
#include "log/base/control.h"
#include "log/base/queue.h"
#include "log/base/runtime.h"
#include "log/determinant/set_up.h"
#include "log/request/match.h"
#include "log/request/order.h"
#include "log/request/overtake.h"
#include "log/request/recv.h"

static bool is_aside_busy(void);
static bool in_turn(uint64_t seq, const struct ftk_envelope *found);

/* The MPI matches a posted receive whatever the program waits for, and a sender may wait for that
 * match.  A matched-probe receive has no such help, so each look at requests looks at these,
 * too. */
void ftk_match_progress_mprobed(void)
{
    struct ftk_log *l = &ftk_log;
    if (l->ctx->detect.failed || l->ctx->detect.repairing || ftk_log_replays_setup()
        || (l->queue.nmprobed == 0 && !is_aside_busy()))
        return;
    for (struct ftk_req *r = l->queue.first, *next; r; r = next) {
        next = r->next; /* a look completes no later request but that of aside */
        if (r->state == FTK_REQ_PROBING)
            (void)ftk_match_mprobed(r); /* the request has the error, if there is one */
    }
}

static int finish_posted(struct ftk_req *r);
static int finish_found(struct ftk_req *r, const struct ftk_envelope *found);
static bool others_first(uint64_t seq, const struct ftk_envelope *found);

void ftk_match_progress_wildcards(void)
{
    struct ftk_log *l = &ftk_log;
    struct ftk_envelope got;
    if (l->ctx->detect.failed || l->ctx->detect.repairing || ftk_log_replays_setup()
        || l->queue.nwildcards == 0)
        return;
    for (struct ftk_req *r = l->queue.first, *next; r; r = next) {
        next = r->next; /* a look completes no later request */
        if (ftk_req_is_receive(r) && r->recv.wildcard_seq && r->state == FTK_REQ_POSTED
            && ftk_match_is_complete(r, &got) && !others_first(r->seq, &got))
            (void)finish_found(r, &got); /* the request has the error, if there is one */
    }
}

/* ---- a message that is taken aside --------------------------------------------------- */

/* A receive of any tag on a shared communicator is a matched-probe receive.  The probe may find a
 * message of another context, which stands in front of the message that the receive looks for.
 * Then the receive `aside` takes that message aside, to the unexpected messages.  `aside` belongs
 * to the channel of the message, and a failure treats it like a receive of the program, because the
 * sender may die before the message is complete.  One message is taken aside at a time.  Until that
 * message is complete nothing else is probed for on its communicator, so that the unexpected
 * messages are in the order of arrival.
 *
 * MPI_Mprobe and MPI_Improbe use `aside`, too, on any communicator: a long message needs its
 * sender, and MPI_Improbe must not wait for the sender.  Until the message is complete, a probe or
 * a receive that matches it gets no other message. */
static struct ftk_req aside;
static struct ftk_unexp *aside_to; /* the message with the buffer; NULL: none is taken aside */

/* The receive `aside` is given up, or it is complete and aside_to is NULL. */
static void drop_aside(struct ftk_req *r)
{
    (void)r;
    ftk_dtype_bytes_free(&aside.type);
    if (aside.real == MPI_REQUEST_NULL)
        ftk_unexp_free(aside_to); /* otherwise the MPI may still write to the buffer */
    aside_to = NULL;
}

static void close_aside(void)
{
    aside = (struct ftk_req){ 0 }; /* the MPI may still write to a buffer: aside_to is not freed */
    aside_to = NULL;
}

static int end_aside(struct ftk_req *r, const MPI_Status *s, int error)
{
    struct ftk_unexp *h = aside_to;
    MPI_Count bytes = 0;
    aside_to = NULL;
    if (error == MPI_SUCCESS)
        error = PMPI_Get_elements_x(s, MPI_BYTE, &bytes);
    h->bytes = (size_t)bytes;
    if (error == MPI_SUCCESS)
        error = ftk_mode_drained(h);
    if (error == MPI_SUCCESS)
        error = ftk_overtake_note(r->seq, h->context, h->source, h->tag);
    if (error == MPI_SUCCESS)
        error = ftk_recv_count(h->context, h->source, h->tag, r->seq, h->data, h->bytes, true);
    if (error == MPI_SUCCESS)
        ftk_unexp_add(h);
    else
        ftk_unexp_free(h);
    return ftk_req_finish(r, error);
}

static int take_unexp(struct ftk_req *r, struct ftk_unexp *h)
{
    int rc =
        ftk_set_up_keeps(r) ? ftk_setup_log_keep(h, r->seq, ftk_set_up_number(r)) : MPI_SUCCESS;
    if (rc == MPI_SUCCESS)
        return ftk_recv_deliver(r, h);
    ftk_unexp_free(h);
    return ftk_req_fail(r, rc);
}

/* ---- order among receives ------------------------------------------------------------ */

bool ftk_match_is_claimed(const struct ftk_envelope *message)
{
    return ftk_log.queue.nmprobed > 0 && ftk_order_earlier(UINT64_MAX, ftk_order_probes, message);
}

/* A receive of any tag would match control messages.  A posted receive would match before an
 * earlier receive that is not posted. */
static bool has_to_probe(const struct ftk_req *r)
{
    return (r->recv.want.tag == MPI_ANY_TAG
               && (ftk_parts.in_band || ftk_context_shares(r->context)))
           || (ftk_log.queue.nmprobed > 0 && r != &aside
               && ftk_order_earlier(r->seq, ftk_order_probes, &r->recv.want))
           || (aside_to && r != &aside && ftk_envelope_matches(&aside.recv.want, &r->recv.want));
}

bool ftk_match_may_take(uint64_t seq, const struct ftk_unexp *h)
{
    const struct ftk_envelope found = { h->context, h->source, h->tag };
    if (ftk_log.queue.nwildcards > 0 && ftk_order_earlier(seq, ftk_order_withheld, &found))
        return false; /* it may be the message of that receive */
    if (ftk_log.queue.nmprobed > 0 && ftk_order_earlier(seq, ftk_order_probes, &found))
        return false; /* that receive takes it in its next look */
    return ftk_log.queue.nwildcards == 0 || in_turn(seq, &found);
}

/* The unexpected message that the receive gets, taken out of the list.  *wait: there is one, but
 * earlier receives come first, and this receive has to look again. */
static struct ftk_unexp *unexp_for(const struct ftk_req *r, bool *wait)
{
    *wait = false;
    if (ftk_log.nunexp == 0 || r == &aside)
        return NULL;
    struct ftk_unexp *h = ftk_log_replays_setup()
                              ? ftk_unexp_of_receive(&r->recv.want, ftk_set_up_number(r))
                              : ftk_unexp_match(&r->recv.want, false);
    *wait = h && !ftk_log_replays_setup() && !ftk_match_may_take(r->seq, h);
    if (h && !*wait)
        ftk_unexp_take(h);
    return *wait ? NULL : h;
}

static int probe_later(struct ftk_req *r)
{
    ftk_queue_probes(r);
    r->state = FTK_REQ_PROBING;
    return MPI_SUCCESS;
}

/* A receive that begins gets a message that is there, as one that is posted does.  A look for
 * another receive could give it a later message, and a probe may have shown the first one.  It is
 * not inlined: a receive that is posted needs fewer registers without it. */
__attribute__((noinline)) static int probe_now(struct ftk_req *r)
{
    (void)probe_later(r);
    return ftk_log.ctx->detect.failed || ftk_log.ctx->detect.repairing ? MPI_SUCCESS
                                                                       : ftk_match_mprobed(r);
}

/* ---- replicas: receives that are withheld until the match is known ------------------------ */

/* Take over what the determinants of the leader say of a receive.  If its match is known, it is no
 * wildcard receive any more.  The tag of a receive of any tag comes before the match of the
 * wildcard receive in front of it. */
static void take_over(struct ftk_req *r)
{
    struct ftk_envelope *want = &r->recv.want;
    if (r->recv.wildcard_seq && ftk_det_match(r->recv.wildcard_seq, &want->source, &want->tag)) {
        r->recv.wildcard_seq = 0;
        r->replay.match = ftk_recv_known(want->tag);
        ftk_queue_no_wildcard();
    }
    if (want->tag == MPI_ANY_TAG && ftk_det_tag(r->recv.number, &want->tag))
        r->replay.match = FTK_MATCH_KNOWN;
}

/* Whether this rank follows another replica and has to wait for the match of r, or of an earlier
 * receive that could get the message for r.  A rank that leads since this repair knows the matches
 * that its predecessor has decided, and repeats them. */
static bool withhold(struct ftk_req *r)
{
    if (r->internal)
        return false;
    take_over(r);
    if (!ftk_mode_follows())
        return false;
    if (!r->recv.wildcard_seq
        && !(ftk_log.queue.nwildcards > 0
             && ftk_order_earlier(r->seq, ftk_order_withheld, &r->recv.want)))
        return false;
    ftk_log.mode->withheld();
    return true;
}

int ftk_match_post(struct ftk_req *r)
{
    struct ftk_log *l = &ftk_log;
    if (r->state == FTK_REQ_WITHDRAWN) {
        r->state = FTK_REQ_WAITING;
        if (!ftk_recv_stays(r))
            return MPI_SUCCESS;
    }
    if (r->replay.cancel == FTK_CANCEL_DONE)
        return MPI_SUCCESS; /* messages that come are for other receives */
    if (l->mode->follows && withhold(r))
        return MPI_SUCCESS;
    if (ftk_mode_delivers()) {
        (void)probe_later(r);
        return ftk_log.mode->receive(r);
    }
    bool wait;
    struct ftk_unexp *h = unexp_for(r, &wait);
    if (h)
        return take_unexp(r, h);
    if (ftk_log_replays_setup())
        return MPI_SUCCESS; /* its message is in the set-up log, or never comes */
    if (wait || has_to_probe(r))
        return probe_now(r);
    ftk_queue_probes_no_more(r);
    r->state = FTK_REQ_WAITING;
    if (r->recv.posted_seq == 0 || r->recv.want.source == MPI_ANY_SOURCE)
        r->recv.posted_seq = l->queue.seq;
    const int tag = r->recv.want.tag == MPI_ANY_TAG
                        ? r->recv.want.tag
                        : ftk_context_wire(r->context, r->recv.want.tag);
    int rc = ftk_recv_is_staged(r) ? ftk_recv_post_staged(r, tag)
                                   : PMPI_Irecv(r->recv.buf, r->count, r->type, r->recv.want.source,
                                       tag, ftk_log_real(r->context), &r->real);
    if (rc == MPI_SUCCESS) {
        r->state = FTK_REQ_POSTED;
        return rc;
    }
    if (!ftk_log_is_failure(rc))
        return ftk_req_fail(r, rc);
    ftk_log_note_failure(); /* posted again after the repair */
    return MPI_SUCCESS;
}

/* ---- completing, in order ------------------------------------------------------------ */

/* Whether an open receive that was posted before seq could match the message.  That receive has
 * been matched then, and is not known to be complete.  One in doubt may have an earlier message. */
static bool others_first(uint64_t seq, const struct ftk_envelope *found)
{
    const struct ftk_envelope any = { found->context, found->source, MPI_ANY_TAG };
    return found->source != MPI_PROC_NULL
           && (ftk_order_earlier(seq, ftk_order_open, found)
               || ftk_order_earlier(seq, ftk_order_in_doubt, &any));
}

bool ftk_match_is_first(const struct ftk_req *r)
{
    return ftk_log.queue.nwildcards == 0
           || !ftk_order_earlier(r->seq, ftk_order_open, &r->recv.want);
}

struct ftk_envelope ftk_match_found(const struct ftk_req *r, const MPI_Status *s)
{
    int cancelled = 0;
    const bool has_one =
        PMPI_Test_cancelled(s, &cancelled) == MPI_SUCCESS && !cancelled && s->MPI_SOURCE >= 0;
    return (struct ftk_envelope){ r->context, has_one ? s->MPI_SOURCE : MPI_PROC_NULL,
        has_one ? ftk_context_tag(r->context, s->MPI_TAG) : MPI_ANY_TAG };
}

bool ftk_match_is_complete(const struct ftk_req *r, struct ftk_envelope *found)
{
    MPI_Status s;
    int done = 0;
    int rc = PMPI_Request_get_status(r->real, &done, &s);
    *found = (struct ftk_envelope){ .context = r->context, .source = MPI_PROC_NULL };
    if (rc == MPI_SUCCESS && done)
        *found = ftk_match_found(r, &s);
    return rc != MPI_SUCCESS || done;
}

struct ftk_req *ftk_match_overtaken(const struct ftk_req *r, const int *dead, bool *complete)
{
    struct ftk_envelope got = { r->context, MPI_ANY_SOURCE, MPI_ANY_TAG };
    *complete = true;
    if (!ftk_order_earlier(r->seq, ftk_order_withdrawn, &got))
        return NULL;
    *complete = ftk_match_is_complete(r, &got);
    return *complete && got.source != MPI_PROC_NULL && !dead[got.source]
               ? ftk_order_earlier(r->seq, ftk_order_withdrawn, &got)
               : NULL;
}

static int finish_posted(struct ftk_req *r)
{
    MPI_Status s;
    int done = 0;
    int rc = ftk_match_test(r, &done, &s);
    if (rc == MPI_SUCCESS) {
        if (!done)
            return rc;
        return ftk_message_complete(r, &s, rc);
    }
    if (ftk_log_is_failure(rc)) {
        ftk_req_failed(r);
        ftk_log_note_failure();
        return MPI_SUCCESS;
    }
    return ftk_message_complete(r, &s, rc);
}

/* Complete a receive that has the message found, and comes next. */
static int finish_found(struct ftk_req *r, const struct ftk_envelope *found)
{
    ftk_recv_note_tag(r, found);
    return finish_posted(r);
}

/* Look at the receives before seq whose messages are open, in their order. */
static void look_at_earlier(uint64_t seq, int context)
{
    struct ftk_envelope got;
    for (struct ftk_req *q = ftk_log.queue.first, *next; q && q->seq < seq; q = next) {
        next = q->next;
        if (q->state == FTK_REQ_POSTED && q->context == context && ftk_order_open(q)
            && ftk_match_is_complete(q, &got) && !others_first(q->seq, &got))
            (void)finish_found(q, &got); /* the request has the error, if there is one */
    }
}

/* A replay needs the matches of the open receives that were matched before this message.  So these
 * receives are completed and recorded first, in their order; false: one of them is not complete.
 * Then in a replay a receive without a determinant can match no message that another receive has
 * got according to a determinant: no message that it could match was reported before it.  The
 * function is not inlined: a look without wildcard receives needs fewer registers. */
__attribute__((noinline)) static bool in_turn(uint64_t seq, const struct ftk_envelope *found)
{
    look_at_earlier(seq, found->context);
    return !others_first(seq, found);
}

bool ftk_match_is_in_turn(const struct ftk_envelope *message)
{
    return ftk_log.queue.nwildcards == 0 || ftk_log_replays_setup() || in_turn(UINT64_MAX, message);
}

int ftk_match_posted(struct ftk_req *r)
{
    struct ftk_envelope got;
    if (ftk_log.queue.nwildcards == 0 || !ftk_req_is_receive(r) || r->internal
        || r->replay.match == FTK_MATCH_KNOWN)
        return finish_posted(r);
    /* finish_posted() looks again: only after a look that has found the receive complete */
    return ftk_match_is_complete(r, &got) && in_turn(r->seq, &got) ? finish_found(r, &got)
                                                                   : MPI_SUCCESS;
}

static int take_aside(const struct ftk_envelope *found, MPI_Message *m, const MPI_Status *s)
{
    MPI_Count bytes;
    int rc = PMPI_Get_elements_x(s, MPI_BYTE, &bytes);
    struct ftk_unexp *h =
        rc == MPI_SUCCESS ? ftk_unexp_new(found->context, found->source, found->tag, (size_t)bytes)
                          : NULL;
    if (!h)
        return rc == MPI_SUCCESS ? MPI_ERR_NO_MEM : rc;
    static const struct ftk_req_ends ends = { .complete = end_aside, .drop = drop_aside };
    aside = (struct ftk_req){ .ends = &ends,
        .kind = FTK_REQ_RECV,
        .internal = true,
        .vc = ftk_log.vcomms.world,
        .context = found->context,
        .state = FTK_REQ_WAITING,
        .peer = found->source,
        .tag = found->tag,
        .recv = { .buf = h->data, .want = *found },
        .type = MPI_BYTE,
        .real = MPI_REQUEST_NULL };
    aside_to = h;
    rc = ftk_dtype_bytes((size_t)bytes, &aside.count, &aside.type);
    ftk_queue_append(&aside);
    aside.recv.posted_seq = ftk_log.queue.seq;
    if (rc == MPI_SUCCESS)
        rc = PMPI_Imrecv(aside.recv.buf, aside.count, aside.type, m, &aside.real);
    if (rc == MPI_SUCCESS) {
        aside.state = FTK_REQ_POSTED;
        return finish_posted(&aside);
    }
    (void)ftk_req_fail(&aside, rc);
    if (!ftk_log_is_failure(rc))
        return rc;
    ftk_log_note_failure(); /* the sender has failed: the message comes again */
    return MPI_SUCCESS;
}

/* Give the message that was found to the oldest receive that matches; for a message of another
 * context than that of r there may be none.  An unexpected message for that receive has come
 * earlier, and waits for its turn: the message that was found goes behind it. */
static int match(struct ftk_req *r, MPI_Message *m, const MPI_Status *s)
{
    const int context = ftk_context_of(ftk_context_comm(r->context), s->MPI_TAG);
    const struct ftk_envelope found = { context, s->MPI_SOURCE,
        ftk_context_tag(context, s->MPI_TAG) };
    const bool other = context != r->context;
    struct ftk_req *first =
        ftk_order_earlier(other ? UINT64_MAX : r->seq, ftk_order_probes, &found);
    if ((other && !first) || (first && !aside_to && ftk_unexp_match(&first->recv.want, false)))
        return take_aside(&found, m, s);
    r = first ? first : r;
    ftk_queue_probed();
    r->state = FTK_REQ_WAITING;
    r->recv.posted_seq = ftk_log.queue.seq;
    int rc = ftk_recv_is_staged(r) ? ftk_recv_take_staged(r, m)
                                   : PMPI_Imrecv(r->recv.buf, r->count, r->type, m, &r->real);
    if (rc != MPI_SUCCESS)
        return ftk_req_fail(r, rc);
    r->state = FTK_REQ_POSTED;
    return rc;
}

bool ftk_match_can_probe(int context)
{
    return !ftk_context_shares(context) || !is_aside_busy();
}

int ftk_match_put_aside(int context, const MPI_Status *s, bool *taken)
{
    MPI_Message m;
    MPI_Status found;
    int flag;
    const struct ftk_envelope of = { context, s->MPI_SOURCE, ftk_context_tag(context, s->MPI_TAG) };
    *taken = false;
    if (ftk_match_is_claimed(&of)) {
        ftk_match_progress_mprobed();
        return MPI_SUCCESS;
    }
    *taken = true;
    int rc = PMPI_Improbe(s->MPI_SOURCE, s->MPI_TAG, ftk_log_real(context), &flag, &m, &found);
    return rc == MPI_SUCCESS && flag ? take_aside(&of, &m, &found) : rc;
}

/* One look; whether a message is still being taken aside. */
static bool is_aside_busy(void)
{
    int rc = aside_to && aside.state == FTK_REQ_POSTED ? finish_posted(&aside) : MPI_SUCCESS;
    if (rc != MPI_SUCCESS)
        ftk_report(FTKIT_ERROR, "MPI error %d: a message is lost", rc);
    return aside_to != NULL;
}

bool ftk_match_arrives(const struct ftk_envelope *want)
{
    return aside_to && is_aside_busy() && ftk_envelope_matches(&aside.recv.want, want);
}

int ftk_match_take(int context, MPI_Message *m, const MPI_Status *s, struct ftk_unexp **out)
{
    *out = NULL;
    if (is_aside_busy()) /* with a message of another channel */
        return ftk_recv_drain(context, m, s, out);
    int rc = ftk_match_drain_later(context, m, s);
    if (rc == MPI_SUCCESS && !aside_to)
        *out = ftk_unexp_match(&aside.recv.want, true);
    return rc;
}

bool ftk_match_can_drain(void)
{
    return !is_aside_busy();
}

int ftk_match_drain_later(int context, MPI_Message *m, const MPI_Status *s)
{
    int rc = ftk_mode_absorb(context, s->MPI_SOURCE);
    if (rc != MPI_SUCCESS)
        return rc;
    context = ftk_context_of(ftk_context_comm(context), s->MPI_TAG);
    const struct ftk_envelope found = { context, s->MPI_SOURCE,
        ftk_context_tag(context, s->MPI_TAG) };
    return take_aside(&found, m, s);
}

/* What a receive does after older receives have looked. */
enum turn { TAKE, AGAIN, LATER };

/* A message may have come that r could get, and so could an older receive.  The older one looks for
 * itself: its envelope may be wider, and may match a message further in front, so that r gets this
 * one.  *source and *tag are what r looks for.  If r has to take a message, they become those of
 * the message that no older receive could get: a probe of any source might find another one. */
static int let_older_look(struct ftk_req *r, int *source, int *tag, enum turn *turn)
{
    MPI_Status s;
    int flag = 0;
    *turn = TAKE;
    if (ftk_log.queue.nmprobed < 2 || !ftk_order_earlier(r->seq, ftk_order_probes, &r->recv.want))
        return MPI_SUCCESS;
    int rc = PMPI_Iprobe(*source, *tag, ftk_log_real(r->context), &flag, &s);
    *turn = flag ? TAKE : LATER; /* a message may come at any moment, so r must not look again */
    if (rc != MPI_SUCCESS || !flag)
        return rc;
    const int context = ftk_context_of(ftk_context_comm(r->context), s.MPI_TAG);
    const struct ftk_envelope found = { context, s.MPI_SOURCE,
        ftk_context_tag(context, s.MPI_TAG) };
    const bool control = ftk_control_is(&s);
    struct ftk_req *older = control ? NULL : ftk_order_earlier(r->seq, ftk_order_probes, &found);
    if (!older) {
        *source = s.MPI_SOURCE;
        *tag = s.MPI_TAG;
        return rc;
    }
    (void)ftk_match_mprobed(older); /* the request has the error, if there is one */
    *turn = older->state == FTK_REQ_PROBING ? LATER : AGAIN;
    return rc;
}

/* One look; *other: the message that was found is for another receive, or is a control message:
 * this receive looks again. */
static int look_for(struct ftk_req *r, bool *other)
{
    MPI_Message m;
    MPI_Status s;
    int flag = 0;
    if (ftk_mode_delivers())
        return ftk_log.mode->receive(r);
    /* first, because this look may complete an unexpected message */
    const bool arrives =
        ftk_match_arrives(&r->recv.want) || (ftk_context_shares(r->context) && is_aside_busy());
    bool wait; /* for an unexpected message */
    struct ftk_unexp *h = unexp_for(r, &wait);
    if (h)
        return take_unexp(r, h);
    if (wait || arrives)
        return MPI_SUCCESS;
    int source = r->recv.want.source;
    int tag = r->recv.want.tag == MPI_ANY_TAG ? r->recv.want.tag
                                              : ftk_context_wire(r->context, r->recv.want.tag);
    enum turn turn;
    int rc = let_older_look(r, &source, &tag, &turn);
    *other = turn == AGAIN;
    if (rc == MPI_SUCCESS && turn == TAKE)
        rc = PMPI_Improbe(source, tag, ftk_log_real(r->context), &flag, &m, &s);
    if (rc != MPI_SUCCESS && !ftk_log_is_failure(rc))
        return ftk_req_fail(r, rc);
    if (rc != MPI_SUCCESS)
        ftk_log_note_failure();
    if (rc != MPI_SUCCESS || !flag)
        return MPI_SUCCESS;
    if (ftk_control_is(&s)) {
        rc = ftk_control_handle(r->context, &m, &s);
        *other = rc == MPI_SUCCESS;
        return rc == MPI_SUCCESS ? rc : ftk_req_fail(r, rc);
    }
    *other = ftk_context_of(ftk_context_comm(r->context), s.MPI_TAG) != r->context;
    rc = match(r, &m, &s);
    if (*other)
        return rc == MPI_SUCCESS ? rc : ftk_req_fail(r, rc);
    return r->state == FTK_REQ_POSTED ? ftk_match_posted(r) : rc;
}

int ftk_match_mprobed(struct ftk_req *r)
{
    bool other = true;
    int rc = MPI_SUCCESS;
    while (rc == MPI_SUCCESS && other && !ftk_req_is_done(r)) {
        other = false;
        rc = look_for(r, &other);
    }
    return rc;
}

const struct ftk_part ftk_part_match = { .close = close_aside,
    .progress = ftk_match_progress_mprobed };
