/* The program's probes in log mode: MPI_Probe, MPI_Mprobe and their like [MPI 3.8].
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "detect/detect.h"
#include "log/base/queue.h"
#include "log/base/runtime.h"
#include "log/determinant/det.h"
#include "log/determinant/set_up.h"
#include "arguments.h"
#include "log/request/match.h"
#include "log/request/order.h"
#include "log/request/recv.h"
#include "mpi_calls.h"

/* What a probe looks for: the program's arguments, or the message of its determinant. */
struct probing {
    const struct ftk_vcomm *vc;
    struct ftk_envelope want;
    struct ftk_envelope asked; /* the program's arguments */
    bool takes;                /* MPI_Mprobe and MPI_Improbe: the message leaves the queue */
    bool blocks;               /* MPI_Probe and MPI_Mprobe */
    bool decides;              /* its outcome is a determinant */
    bool counts;    /* a blocking one of any tag that names its source: it has a number */
    int next;       /* enum ftk_det_next */
    uint64_t bytes; /* THIS, in a replay of set-up: of the message */
};

enum { SMALL = 512 }; /* bytes of a message that needs no help of its sender */

/* What a probe has found. */
struct found {
    bool yes;
    MPI_Status s;        /* MPI_SOURCE: rank of the world */
    struct ftk_unexp *h; /* the message, if the probe takes it; owned */
};

/* ---- one look ------------------------------------------------------------------------ */

/* What look_for_message() does with a message that the MPI has found. */
enum verdict { REPORT, LOOK_AGAIN, NOTHING };

/* A message of another context on a shared communicator goes to its receive, or aside. */
static int other_context(int context, const MPI_Status *s, enum verdict *v)
{
    bool taken;
    int rc = ftk_match_put_aside(context, s, &taken);
    *v = rc == MPI_SUCCESS && taken ? LOOK_AGAIN : NOTHING;
    return rc;
}

/* A message of the probe's context. */
static enum verdict own_context(int context, MPI_Status *s)
{
    s->MPI_TAG = ftk_context_tag(context, s->MPI_TAG);
    const struct ftk_envelope message = { context, s->MPI_SOURCE, s->MPI_TAG };
    if (ftk_log_replays_setup() || !ftk_match_is_claimed(&message))
        return ftk_match_is_in_turn(&message) ? REPORT : NOTHING;
    const size_t claims = ftk_log.queue.nmprobed;
    ftk_match_progress_mprobed();
    /* the next look may find the same message: a repair or other receives come first */
    return ftk_log.ctx->detect.failed || ftk_context_shares(context)
                   || ftk_log.queue.nmprobed == claims
               ? NOTHING
               : LOOK_AGAIN;
}

/* Whether a message may need its sender before it is whole.  The MPI has all of a shorter message
 * that it shows. */
static bool is_long(const MPI_Status *s)
{
    MPI_Count bytes = 0;
    return PMPI_Get_elements_x(s, MPI_BYTE, &bytes) != MPI_SUCCESS || bytes > SMALL;
}

/* PMPI_Iprobe() with three differences.  The control messages before the message that is found are
 * received.  A message for a matched-probe receive, or for another context, goes there.  A message
 * is found only when the wildcard receives that come first are complete and recorded.  *s has the
 * tag of the program. */
static int look_for_message(const struct ftk_envelope *want, bool *found, MPI_Status *s)
{
    const int context = want->context;
    const int wire = want->tag == MPI_ANY_TAG ? want->tag : ftk_context_wire(context, want->tag);
    enum verdict v = LOOK_AGAIN;
    int rc = MPI_SUCCESS, flag;
    *found = false;
    while (rc == MPI_SUCCESS && v == LOOK_AGAIN) {
        if (!ftk_match_can_probe(context))
            return MPI_SUCCESS;
        rc = PMPI_Iprobe(want->source, wire, ftk_log_real(context), &flag, s);
        if (rc != MPI_SUCCESS || !flag)
            return rc;
        const bool control = ftk_control_is(s);
        const int of = ftk_context_of(ftk_context_comm(context), s->MPI_TAG);
        int next; /* a stop message, which may be of a set that is over: it is not absorbed */
        rc = control && ftk_log.apart.on ? ftk_control_next(context, s->MPI_SOURCE, &next)
                                         : ftk_mode_absorb(context, s->MPI_SOURCE);
        if (rc != MPI_SUCCESS || control)
            continue;
        if (of != context)
            rc = other_context(of, s, &v);
        else
            v = own_context(context, s);
    }
    *found = rc == MPI_SUCCESS && v == REPORT;
    return rc;
}

/* How pick_up() takes the message that a look has found. */
enum way {
    LATER,
    BESIDE,  /* the log receives it beside the program */
    AT_ONCE, /* in this call: it is short, or the log receives a message of another channel */
};

/* Before MPI_Improbe takes a long message past others of its source, which have other tags: take
 * these aside, in their order.  Otherwise the long one, when it is complete, would be the first one
 * of the unexpected messages.  LATER: one of the others arrives, or is not in turn. */
static int pass_others(const struct ftk_envelope *of, enum way *way)
{
    const struct ftk_envelope any = { of->context, of->source, MPI_ANY_TAG };
    MPI_Status s;
    bool found, taken = true;
    int rc = MPI_SUCCESS;
    *way = LATER;
    while (rc == MPI_SUCCESS && taken && !ftk_match_arrives(&any)) {
        if (!ftk_match_can_drain()) {
            *way = AT_ONCE;
            return rc;
        }
        rc = look_for_message(&any, &found, &s);
        if (rc != MPI_SUCCESS || !found)
            return rc;
        if (s.MPI_TAG == of->tag) {
            *way = BESIDE;
            return rc;
        }
        s.MPI_TAG = ftk_context_wire(of->context, s.MPI_TAG);
        rc = ftk_match_put_aside(of->context, &s, &taken);
    }
    return rc;
}

/* One look for a message with a tag, which may not be the first one of its source. */
static int look_past_others(const struct ftk_envelope *want, struct ftk_envelope *of, enum way *way)
{
    MPI_Status s;
    bool found;
    *way = LATER;
    int rc = look_for_message(want, &found, &s);
    if (rc != MPI_SUCCESS || !found)
        return rc;
    *of = (struct ftk_envelope){ want->context, s.MPI_SOURCE, s.MPI_TAG };
    *way = want->tag == MPI_ANY_TAG ? BESIDE : AT_ONCE;
    return want->tag != MPI_ANY_TAG && is_long(&s) ? pass_others(of, way) : rc;
}

/* PMPI_Improbe() with the same differences.  *h: NULL while the message arrives.  A look with a tag
 * looks first without taking, also when no wildcard receive is under way: PMPI_Improbe() could take
 * a long message past shorter ones of its source, and the log cannot give the message back. */
static int pick_up(const struct ftk_envelope *want, struct ftk_unexp **h)
{
    struct ftk_envelope of = *want;
    MPI_Message m;
    MPI_Status s;
    enum way way = BESIDE;
    int flag = 0, rc = MPI_SUCCESS;
    if (want->tag != MPI_ANY_TAG || ftk_parts.in_band || ftk_log.queue.nwildcards > 0
        || ftk_log.queue.nmprobed > 0 || ftk_context_shares(of.context))
        rc = look_past_others(want, &of, &way);
    if (rc != MPI_SUCCESS || way == LATER)
        return rc;
    const int tag = of.tag == MPI_ANY_TAG ? of.tag : ftk_context_wire(of.context, of.tag);
    rc = PMPI_Improbe(of.source, tag, ftk_log_real(of.context), &flag, &m, &s);
    if (rc != MPI_SUCCESS || !flag)
        return rc;
    return way == AT_ONCE ? ftk_recv_drain(of.context, &m, &s, h)
                          : ftk_match_take(of.context, &m, &s, h);
}

/* The unexpected message that a probe gets.  *wait: there is such a message, but receives that come
 * first match it. */
static struct ftk_unexp *unexp_for(const struct probing *p, bool *wait)
{
    struct ftk_unexp *h = ftk_unexp_match(&p->want, false);
    *wait = h && !ftk_log_replays_setup() && !ftk_match_may_take(UINT64_MAX, h);
    if (*wait)
        return NULL;
    if (h && p->takes)
        ftk_unexp_take(h);
    return h;
}

static int look(const struct probing *p, struct found *f)
{
    const bool delivers = ftk_mode_delivers();
    const bool arrives = ftk_match_arrives(&p->want);
    bool wait = false;
    int rc = MPI_SUCCESS;
    struct ftk_unexp *h = NULL;
    *f = (struct found){ .s = { .MPI_ERROR = MPI_SUCCESS } };
    if (delivers)
        rc = ftk_log.mode->probe(&p->want, p->takes, &h);
    else
        h = unexp_for(p, &wait);
    if (!h && !wait && !arrives && !delivers && !ftk_log_replays_setup())
        rc = p->takes ? pick_up(&p->want, &h) : look_for_message(&p->want, &f->yes, &f->s);
    if (rc != MPI_SUCCESS && ftk_log_is_failure(rc)) {
        ftk_detect_raise(ftk_log.ctx);
        return MPI_SUCCESS;
    }
    if (rc != MPI_SUCCESS || !h)
        return rc;
    f->yes = true;
    ftk_status_make(&f->s, h->source, h->tag, h->bytes);
    if (!p->takes)
        return rc;
    f->h = h;
    return ftk_set_up_runs() ? ftk_setup_log_keep(h, ftk_queue_next(), 0) : MPI_SUCCESS;
}

/* ---- a probe ------------------------------------------------------------------------- */

/* One step of waiting for a message. */
static int turn(unsigned *turns)
{
    if (ftk_log_replays_setup())
        return MPI_ERR_PENDING; /* the message will never come */
    return ftk_log_progress(turns);
}

/* In a replay of set-up: the message that the lost process has found.  It is in the set-up log only
 * if set-up has received it. */
static int find_again(const struct probing *p, struct found *f)
{
    *f = (struct found){ .yes = true, .s = { .MPI_ERROR = MPI_SUCCESS } };
    ftk_status_make(&f->s, p->want.source, p->want.tag, (size_t)p->bytes);
    if (!p->takes)
        return MPI_SUCCESS;
    f->h = ftk_unexp_of_receive(&p->want, 0);
    if (!f->h) { /* damaged, or another course */
        f->yes = false;
        return MPI_ERR_PENDING;
    }
    ftk_unexp_take(f->h);
    return MPI_SUCCESS;
}

/* A blocking probe that names its source finds the same message in a replay: that is no
 * determinant, unless it is one of any tag behind a wildcard receive (ftk_order_passes).  In a
 * replay of set-up each probe is an outcome like others: the set-up log is in the order of
 * receives. */
static int begin(struct probing *p, int source, int tag)
{
    const struct ftk_det *d;
    int rc = ftk_log_is_rolling_back() ? ftk_log_error() /* messages here are from after the line */
                                       : ftk_call_check(p->vc, 0, MPI_BYTE, source, tag, true);
    p->next = FTK_DET_FREE;
    p->decides = !p->blocks || source == MPI_ANY_SOURCE;
    if (rc == MPI_SUCCESS && p->decides && ftk_log_refuses("a probe"))
        rc = MPI_ERR_UNSUPPORTED_OPERATION;
    if (rc != MPI_SUCCESS)
        return rc;
    p->want = (struct ftk_envelope){ p->vc->context, ftk_vcomm_peer_world(p->vc, source), tag };
    p->asked = p->want;
    if (p->decides || ftk_log_replays_setup())
        p->next = ftk_det_next(FTK_DET_PROBE, &d);
    else if (tag == MPI_ANY_TAG)
        p->counts = ftk_det_probes();
    if (p->next == FTK_DET_THIS) {
        p->bytes = ftk_log_replays_setup() ? ftk_set_up_bytes(d) : 0;
        p->want.source = d->a;
        p->want.tag = d->b;
    } else if (p->next == FTK_DET_FREE) {
        ftk_det_probed_before(&p->want);
    }
    return rc;
}

static int found_nothing(const struct probing *p)
{
    static unsigned turns;
    if (p->next == FTK_DET_FREE && ftk_log_replays_setup())
        return MPI_ERR_PENDING; /* the message will never come */
    if (p->next == FTK_DET_FREE)
        ftk_det_found_nothing();
    else
        ftk_set_up_nothing();
    return ftk_log_progress(&turns);
}

/* Record what a probe has found, unless a replay finds it without that.  A follower has the
 * determinants of its leader. */
static void decided(const struct probing *p, const struct found *f)
{
    const int source = f->s.MPI_SOURCE, tag = f->s.MPI_TAG;
    if (p->next != FTK_DET_FREE)
        return;
    if (p->decides)
        ftk_det_found(FTK_DET_PROBE, source, tag);
    else if (p->counts && !ftk_mode_follows()
             && ftk_order_passes(UINT64_MAX, p->want.context, source))
        ftk_det_found_tag(source, tag);
}

/* A probe has found a message. */
static int found_one(const struct probing *p, const struct found *f)
{
    const struct ftk_envelope found = { p->want.context, f->s.MPI_SOURCE, f->s.MPI_TAG };
    MPI_Count bytes = 0;
    int rc = ftk_set_up_runs() ? PMPI_Get_elements_x(&f->s, MPI_BYTE, &bytes) : MPI_SUCCESS;
    decided(p, f);
    if (!p->takes && p->next == FTK_DET_THIS && !ftk_log.mode->follows)
        ftk_det_probed(&p->asked, &found);
    else if (p->takes)
        ftk_det_probe_took(&found);
    ftk_set_up_probed(f->s.MPI_SOURCE, f->s.MPI_TAG, (uint64_t)bytes);
    return rc;
}

/* Wait until there is a message; or one look. */
static int wait_or_look(struct probing *p, struct found *f)
{
    unsigned turns = 0;
    if (p->next == FTK_DET_NOTHING && !p->blocks)
        return found_nothing(p);
    if (p->next == FTK_DET_THIS && ftk_log_replays_setup())
        return find_again(p, f);
    for (;;) {
        if (p->counts && p->next == FTK_DET_FREE && ftk_det_probe_known(&p->want))
            p->next = FTK_DET_THIS; /* replicas: its determinant has come from the leader */
        int rc = look(p, f);
        if (rc != MPI_SUCCESS)
            return rc;
        if (f->yes || (!p->blocks && p->next == FTK_DET_FREE))
            break;
        rc = turn(&turns);
        if (rc != MPI_SUCCESS)
            return rc;
    }
    if (!f->yes)
        return found_nothing(p);
    return found_one(p, f);
}

static void give_message(
    struct ftk_unexp *h, struct ftk_vcomm *vc, const MPI_Status *s, MPI_Message *message)
{
    h->rank = s->MPI_SOURCE;
    ftk_matched_add(h, vc);
    *message = (MPI_Message)(void *)h;
}

/* A probe.  message: NULL if the probe leaves the message in the queue. */
static int probe(struct ftk_vcomm *vc, int source, int tag, bool blocks, int *flag,
    MPI_Message *message, MPI_Status *status)
{
    struct probing p = { .vc = vc, .takes = message != NULL, .blocks = blocks };
    struct found f = { 0 };
    if (message)
        *message = MPI_MESSAGE_NO_PROC;
    *flag = source == MPI_PROC_NULL;
    if (*flag) {
        ftk_status_put(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
        return MPI_SUCCESS;
    }
    int rc = begin(&p, source, tag);
    if (rc == MPI_SUCCESS)
        rc = wait_or_look(&p, &f);
    *flag = f.yes;
    if (f.yes) {
        f.s.MPI_SOURCE = ftk_vcomm_peer_rank(vc, f.s.MPI_SOURCE);
        ftk_status_copy(status, &f.s);
    }
    if (message && f.h)
        give_message(f.h, vc, &f.s, message);
    if (!f.yes && rc != MPI_SUCCESS
        && (blocks || ftk_log_is_rolling_back() || ftk_log_replays_setup())) {
        *flag = 1; /* a program that polls without a look at errors must not poll for ever */
        ftk_status_none(status);
    }
    return ftk_vcomm_end(vc, rc);
}

/* ---- the calls ----------------------------------------------------------------------- */

int ftk_mpi_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    int flag;
    return vc ? probe(vc, source, tag, true, &flag, NULL, status)
              : PMPI_Probe(source, tag, comm, status);
}

int ftk_mpi_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    return vc ? probe(vc, source, tag, false, flag, NULL, status)
              : PMPI_Iprobe(source, tag, comm, flag, status);
}

int ftk_mpi_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
    struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    int flag;
    return vc ? probe(vc, source, tag, true, &flag, message, status)
              : PMPI_Mprobe(source, tag, comm, message, status);
}

int ftk_mpi_Improbe(
    int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
{
    struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    return vc ? probe(vc, source, tag, false, flag, message, status)
              : PMPI_Improbe(source, tag, comm, flag, message, status);
}

/* ---- matched messages ---------------------------------------------------------------- */

/* The communicator of a matched message; the world after the program has freed it. */
static struct ftk_vcomm *comm_of(const struct ftk_unexp *h)
{
    return h->vc->state == FTK_VCOMM_LIVE ? h->vc : ftk_log.vcomms.world;
}

/* Receive a matched message by request r. */
static int receive_matched(
    struct ftk_req *r, struct ftk_unexp *h, void *buf, int count, MPI_Datatype type)
{
    r->kind = FTK_REQ_RECV;
    r->vc = comm_of(h);
    r->peer = h->source;
    r->tag = h->tag;
    r->recv.buf = buf;
    r->count = count;
    r->type = type;
    int rank = h->rank; /* in its own communicator */
    int rc = ftk_recv_deliver(r, h);
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
    ftk_status_copy(status, &r.status);
    return ftk_vcomm_end(r.vc, rc);
}

int ftk_mpi_Imrecv(
    void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request)
{
    struct ftk_req *r = NULL;
    struct ftk_unexp *h = ftk_matched_take(*message);
    if (!h)
        return PMPI_Imrecv(buf, count, type, message, request);
    r = ftk_req_new(comm_of(h));
    if (!r) {
        ftk_unexp_free(h);
        return ftk_vcomm_end(ftk_log.vcomms.world, MPI_ERR_NO_MEM);
    }
    (void)receive_matched(r, h, buf, count, type); /* the error comes with the wait */
    *message = MPI_MESSAGE_NULL;
    *request = ftk_req_handle(r);
    return MPI_SUCCESS;
}
