/* Collectives: how schedules run.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Collective number k of a communicator uses slot k % FTK_COLL_SLOTS, and the tag of that slot.
 * Its messages begin when the previous collective of the slot is complete on this rank; the call
 * returns at once.  No collective waits for ever: among all incomplete ones, the one with the
 * lowest number waits for no other.
 *
 * Persistent collectives are matched by the order of their initialisation, not of their starts
 * (MPI-4.0, 6.13), so each has its own tag.
 *
 * A tag names the context of the rank that receives: members may have different ones. */
#include <string.h>

#include "log/coll/saved.h"
#include "log/coll/schedule.h"
#include "log/mode.h"
#include "log/base/dtype.h"
#include "log/base/part.h"
#include "log/base/queue.h"
#include "log/base/runtime.h"
#include "log/determinant/set_up.h"
#include "log/request/send.h"

/* Tags of persistent collectives per context.  The tags of plain contexts are below 2^27, where
 * those of comm.h begin; the tags of shared contexts are from 2^28 and 2^30 on. */
#define PERSISTENT (1 << 20)
#define EXTRA_SLOTS (1 << 28)
#define EXTRA_FIRST (1 << 30)
#define EXTRA_PERSISTENT (1 << 19)
_Static_assert(EXTRA_FIRST + (FTK_LOG_EXTRAS - 1) * EXTRA_PERSISTENT < INT32_MAX - EXTRA_PERSISTENT,
    "the last tag is that of control messages");

#define SMALL_BCAST 512 /* bytes of a broadcast without a schedule */

static struct ftk_coll *first_coll, *last_coll; /* under way */
static uint64_t fences;                         /* numbers of struct ftk_coll.fence so far */

/* ---- tags ---------------------------------------------------------------------------- */

/* The tag of a slot, for a rank that receives in context. */
static int slot_tag(int slot, int context)
{
    return ftk_context_shares(context)
               ? EXTRA_SLOTS + (context - FTK_LOG_EXTRA) * FTK_COLL_SLOTS + slot
               : context * FTK_COLL_SLOTS + slot;
}

/* The tag of a collective, for a rank that receives in context. */
static int tag_of(const struct ftk_coll *c, int context)
{
    if (!c->persistent)
        return slot_tag(c->index, context);
    return ftk_context_shares(context)
               ? EXTRA_FIRST + (context - FTK_LOG_EXTRA) * EXTRA_PERSISTENT
                     + c->index % EXTRA_PERSISTENT
               : FTK_LOG_CONTEXTS * FTK_COLL_SLOTS + context * PERSISTENT + c->index;
}

/* ---- running ------------------------------------------------------------------------- */

static void link_up(struct ftk_coll *c)
{
    c->under_way = true;
    c->next = NULL;
    c->prev = last_coll;
    if (last_coll)
        last_coll->next = c;
    else
        first_coll = c;
    last_coll = c;
}

static void leave_slot(struct ftk_coll *c)
{
    if (!c->slot)
        return;
    if (c->slot_next)
        c->slot_next->slot_prev = c->slot_prev;
    else
        *c->slot = c->slot_prev;
    if (c->slot_prev)
        c->slot_prev->slot_next = c->slot_next;
    c->slot_next = c->slot_prev = NULL;
    c->slot = NULL;
}

static void unlink_from(struct ftk_coll *c)
{
    if (!c->under_way)
        return;
    c->under_way = false;
    if (c->prev)
        c->prev->next = c->next;
    else
        first_coll = c->next;
    if (c->next)
        c->next->prev = c->prev;
    else
        last_coll = c->prev;
    leave_slot(c);
}

/* No message of the collective is under way: its request is complete. */
static void finish_coll(struct ftk_coll *c, int error)
{
    struct ftk_req *r = c->owner;
    int (*then)(struct ftk_req *) = r->then;
    unlink_from(c);
    if (!c->persistent || r->freed_active) {
        r->coll = NULL;
        ftk_coll_delete(c);
    }
    memset(&r->status, 0, sizeof r->status);
    r->status.MPI_SOURCE = MPI_ANY_SOURCE;
    r->status.MPI_TAG = MPI_ANY_TAG;
    r->status.MPI_ERROR = MPI_SUCCESS;
    r->state = FTK_REQ_COMPLETE;
    r->error = error;
    r->then = NULL;
    if (then && error == MPI_SUCCESS)
        r->error = then(r);
    if (r->freed_active)
        ftk_req_delete_freed(r);
}

/* Begin the message of a step in the request q, of the collective c or NULL.  False: the message is
 * small and is over, and q is not used. */
static bool begin_message(const struct ftk_step *s, struct ftk_vcomm *vc, struct ftk_coll *c,
    int tag, struct ftk_req *q, int *error)
{
    const bool sends = s->kind == FTK_STEP_SEND;
    const int peer = ftk_coll_peer(vc, s->peer);
    MPI_Request real = MPI_REQUEST_NULL;
    const bool sent =
        sends && s->count > 0
        && ftk_send_at_once(s->from, s->count, s->type, peer, FTK_LOG_COLLS, tag, &real);
    *error = MPI_SUCCESS;
    if (sent && real == MPI_REQUEST_NULL)
        return false;
    *q = (struct ftk_req){
        .kind = sends ? FTK_REQ_SEND : FTK_REQ_RECV,
        .internal = true,
        .coll = c,
        .vc = vc,
        .context = FTK_LOG_COLLS,
        .send.buf = s->from,
        .recv.buf = s->into,
        .recv.set_up = c && c->set_up ? FTK_SET_UP_COLL : 0,
        .count = s->count,
        .type = s->type,
        .peer = peer,
        .tag = tag,
        .state = FTK_REQ_POSTED,
        .real = real,
    };
    if (sent) {
        ftk_queue_append(q);
        return true;
    }
    ftk_slog_fence(c ? c->fence : 0);
    *error = ftk_req_begin(q);
    ftk_slog_fence(0);
    return true;
}

/* The context in which the receiver of a step has the message. */
static int context_of(const struct ftk_vcomm *vc, const struct ftk_step *s)
{
    return s->kind == FTK_STEP_SEND ? ftk_vcomm_there(vc, ftk_coll_peer(vc, s->peer)) : vc->context;
}

static void post(struct ftk_coll *c, const struct ftk_step *s)
{
    int error;
    c->open +=
        begin_message(s, c->vc, c, tag_of(c, context_of(c->vc, s)), &c->reqs[c->open], &error);
    if (error != MPI_SUCCESS)
        ftk_coll_fail(c, error);
}

/* Whether all messages since the last fence are complete. */
static bool fence_reached(struct ftk_coll *c)
{
    bool all = true;
    for (size_t i = c->first; i < c->open; i++) {
        struct ftk_req *q = &c->reqs[i];
        int rc = ftk_req_is_done(q) ? q->error : ftk_req_progress(q);
        if (!ftk_req_is_done(q))
            all = false;
        else if (all)
            c->first = i + 1;
        if (rc != MPI_SUCCESS)
            ftk_coll_fail(c, rc);
    }
    if (all)
        c->first = c->open = 0;
    return all;
}

static void local(struct ftk_coll *c, const struct ftk_step *s)
{
    const int rc = ftk_step_local(s, c->call.op);
    if (rc != MPI_SUCCESS)
        ftk_coll_fail(c, rc);
}

/* Run the schedule as far as possible.  After a local error this rank has no result, but still
 * sends and receives the messages: other ranks wait for them. */
static void run_steps(struct ftk_coll *c)
{
    if (c->slot_prev && !ftk_log_is_rolling_back())
        return;
    for (; c->at < c->nsteps && !(c->error && ftk_log_is_rolling_back()); c->at++) {
        const struct ftk_step *s = &c->steps[c->at];
        if (s->kind == FTK_STEP_SEND || s->kind == FTK_STEP_RECV)
            post(c, s);
        else if (s->kind != FTK_STEP_FENCE && !c->error)
            local(c, s);
        else if (s->kind == FTK_STEP_FENCE && !fence_reached(c))
            return;
        else if (s->kind == FTK_STEP_FENCE)
            c->fence = ++fences;
    }
    if (fence_reached(c))
        finish_coll(c, c->error);
}

void ftk_coll_poll(void)
{
    static bool inside;
    const bool polled = ftk_log.queue.polls;
    if (!first_coll || inside)
        return;
    inside = true;
    ftk_queue_polls(true);
    for (struct ftk_coll *c = first_coll, *next; c; c = next) {
        next = c->next;
        run_steps(c);
    }
    inside = false;
    ftk_queue_polls(polled);
}

bool ftk_coll_any(void)
{
    return first_coll != NULL;
}

int ftk_coll_progress(struct ftk_req *r)
{
    if (!ftk_req_is_done(r))
        run_steps(r->coll);
    return ftk_req_is_done(r) ? r->error : MPI_SUCCESS;
}

/* ---- beginning and ending ------------------------------------------------------------ */

/* The last collective of its slot. */
static void enter_slot(struct ftk_coll *c)
{
    c->index = (int)((c->number - 1) % FTK_COLL_SLOTS);
    struct ftk_coll **slot = &c->vc->slot[c->index];
    c->slot = slot;
    c->slot_prev = *slot;
    if (*slot)
        (*slot)->slot_next = c;
    *slot = c;
}

/* Give a collective that is not persistent its number, slot and tag. */
static void take_number(struct ftk_coll *c)
{
    c->vc->colls++;
    c->number = c->vc->colls % FTK_COLL_INIT;
    enter_slot(c);
}

/* Begin the receives of the steps that were open at the set; the other messages are complete.  Each
 * receive has a request: the next set finds the receives by their order. */
static void begin_open(struct ftk_coll *c, const struct ftk_coll_progress *p)
{
    c->at = p->at;
    c->open = c->first = 0;
    c->fence = ++fences;
    c->error = p->error;
    for (size_t i = p->first; i < p->at; i++) {
        if (p->open[i - p->first])
            post(c, &c->steps[i]);
        else if (c->steps[i].kind == FTK_STEP_RECV)
            c->reqs[c->open++] = (struct ftk_req){ .kind = FTK_REQ_RECV,
                .internal = true,
                .coll = c,
                .vc = c->vc,
                .state = FTK_REQ_COMPLETE,
                .real = MPI_REQUEST_NULL };
    }
}

void ftk_coll_halt(struct ftk_req *r)
{
    struct ftk_coll *c = r->coll;
    for (size_t i = c->first; c->under_way && i < c->open; i++)
        if (!ftk_req_is_done(&c->reqs[i]))
            (void)ftk_req_fail(&c->reqs[i], MPI_ERR_PENDING); /* no call waits for it */
    unlink_from(c);
    r->state = FTK_REQ_INACTIVE;
}

void ftk_coll_resume(struct ftk_req *r, const struct ftk_coll_progress *p)
{
    struct ftk_coll *c = r->coll;
    c->set_up = false;
    r->state = FTK_REQ_RUNNING;
    r->error = MPI_SUCCESS;
    r->seq = ftk_queue_next();
    c->owner = r;
    if (!c->persistent)
        enter_slot(c);
    link_up(c);
    begin_open(c, p);
    run_steps(c);
}

int ftk_coll_begin(struct ftk_req *r)
{
    struct ftk_coll *c = r->coll;
    c->set_up = ftk_log.in_set_up;
    r->state = FTK_REQ_RUNNING;
    r->error = MPI_SUCCESS;
    r->seq = ftk_queue_next(); /* the order of requests in a set */
    c->owner = r;
    c->error = c->too_long ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
    c->at = c->open = c->first = 0;
    c->fence = ++fences;
    if (!c->persistent && !ftk_log_is_rolling_back())
        take_number(c);
    if (ftk_log_is_rolling_back()) {
        finish_coll(c, ftk_log_error());
        return r->error;
    }
    link_up(c);
    run_steps(c);
    return ftk_req_is_done(r) ? r->error : MPI_SUCCESS;
}

/* Free a collective of a rank that rolls back: its receives have been cancelled and its sends are
 * complete. */
static void drop_coll(struct ftk_req *r)
{
    struct ftk_coll *c = r->coll;
    if (!c)
        return;
    unlink_from(c);
    r->state = FTK_REQ_COMPLETE;
    r->error = ftk_log_error();
    if (c->persistent)
        return;
    r->coll = NULL;
    ftk_coll_delete(c);
}

/* Drop all collectives under way. */
static void forget(void)
{
    while (first_coll)
        drop_coll(first_coll->owner);
}

void ftk_coll_free(struct ftk_req *r)
{
    struct ftk_coll *c = r->coll;
    if (!c)
        return;
    unlink_from(c);
    r->coll = NULL;
    ftk_coll_delete(c);
}

/* Free unused objects. */
static void close_colls(void)
{
    ftk_coll_free_memory();
    ftk_schedule_close();
    fences = 0;
}

/* ---- small broadcasts -------------------------------------------------------------------
 * A blocking broadcast of a few bytes takes less time than a schedule of its own.  Its messages are
 * those of ftk_build_bcast(), so each rank chooses for itself. */

/* Whether the call needs no schedule: this rank neither replays nor rolls back, and no earlier
 * collective has the slot. */
static bool is_small_bcast(const struct ftk_vcomm *vc, const struct ftk_call *call)
{
    const struct ftk_side *r = &call->r;
    const struct ftk_dtype *f;
    return call->kind == FTK_BCAST && !vc->remote && vc->size > 1 && call->root >= 0
           && call->root < vc->size && r->count > 0 && r->count <= SMALL_BCAST
           && ftk_log.phase == FTK_PHASE_NORMAL && !ftk_log.mode->needs_request
           && !vc->slot[vc->colls % FTK_COLL_SLOTS] && r->type != MPI_DATATYPE_NULL
           && ftk_dtype_facts(r->type, &f) == MPI_SUCCESS && f->bytes > 0
           && r->count * f->bytes <= SMALL_BCAST;
}

static int bcast_small(struct ftk_vcomm *vc, const struct ftk_call *call)
{
    const struct ftk_side *r = &call->r;
    struct ftk_step s = { .count = r->count, .type = r->type };
    const int slot = (int)(vc->colls++ % FTK_COLL_SLOTS);
    struct ftk_tree t;
    struct ftk_req q[sizeof t.kid / sizeof *t.kid];
    int rc = MPI_SUCCESS, error, open = 0;
    ftk_coll_tree(vc, call->root, &t);
    if (t.parent >= 0) {
        s.kind = FTK_STEP_RECV;
        s.peer = t.parent;
        s.into = ftk_coll_at(r->buf, 0);
        (void)begin_message(&s, vc, NULL, slot_tag(slot, context_of(vc, &s)), q, &rc);
        rc = ftk_req_wait(q);
    }
    s.kind = FTK_STEP_SEND;
    s.from = r->buf;
    /* after an error of this rank alone the others still get their messages */
    for (int i = t.nkids - 1; i >= 0 && !ftk_log_is_rolling_back(); i--) {
        s.peer = t.kid[i];
        open += begin_message(&s, vc, NULL, slot_tag(slot, context_of(vc, &s)), &q[open], &error);
        rc = rc != MPI_SUCCESS ? rc : error;
    }
    for (int i = 0; i < open; i++) {
        error = ftk_req_wait(&q[i]);
        rc = rc != MPI_SUCCESS ? rc : error;
    }
    return rc;
}

/* ---- the three forms ----------------------------------------------------------------- */

static void prepare(struct ftk_req *r, struct ftk_vcomm *vc)
{
    r->kind = FTK_REQ_COLL;
    r->vc = vc;
    r->real = MPI_REQUEST_NULL;
}

/* Whether the memory belongs to the schedule. */
static bool is_own(const struct ftk_coll *c, const char *p)
{
    bool own = p >= c->arena && p < c->arena + c->used;
    for (const struct ftk_temp *t = c->temps; t && !own; t = t->next)
        own = p >= t->bytes && p < t->bytes + t->room;
    return own;
}

/* An address in the program's memory that the collective writes to, for the check of a set that the
 * memory is in a region; NULL: there is none. */
static void *result_of(const struct ftk_coll *c)
{
    for (size_t i = 0; i < c->nsteps; i++) {
        const struct ftk_step *s = &c->steps[i];
        const bool copies = s->kind == FTK_STEP_COPY, moves = s->kind == FTK_STEP_MOVE;
        const int count = moves ? (int)(s->bytes > 0) : copies ? s->into_count : s->count;
        MPI_Aint low = 0, extent;
        if (s->kind == FTK_STEP_FENCE || s->kind == FTK_STEP_SEND || count == 0
            || is_own(c, s->into))
            continue;
        if (!moves
            && PMPI_Type_get_true_extent(copies ? s->into_type : s->type, &low, &extent)
                   != MPI_SUCCESS)
            continue; /* the call ends with the error */
        return (char *)s->into + low;
    }
    return NULL;
}

static int start(struct ftk_req *r, struct ftk_vcomm *vc, const struct ftk_call *call, bool owned)
{
    prepare(r, vc);
    int rc = ftk_coll_make(vc, call, owned, &r->coll);
    if (rc == MPI_SUCCESS && owned)
        r->recv.buf = result_of(r->coll);
    return rc == MPI_SUCCESS ? ftk_coll_begin(r) : rc;
}

static int wait_for(struct ftk_vcomm *vc, const struct ftk_call *call)
{
    struct ftk_req r = { .kind = FTK_REQ_COLL };
    int rc = start(&r, vc, call, false);
    if (rc == MPI_SUCCESS && !ftk_req_is_done(&r))
        rc = ftk_req_wait(&r);
    drop_coll(&r); /* after a wait that ended with an error: r goes out of scope */
    return rc;
}

int ftk_coll_now(struct ftk_vcomm *vc, const struct ftk_call *call)
{
    int rc = is_small_bcast(vc, call) ? bcast_small(vc, call) : wait_for(vc, call);
    return ftk_vcomm_end(vc, rc);
}

int ftk_coll_later(struct ftk_vcomm *vc, const struct ftk_call *call, MPI_Request *request)
{
    struct ftk_req *r = ftk_req_new(vc);
    *request = MPI_REQUEST_NULL; /* a program may wait for it after an error */
    if (!r)
        return ftk_vcomm_error(vc, MPI_ERR_NO_MEM);
    int rc = start(r, vc, call, true);
    if (rc != MPI_SUCCESS) {
        ftk_req_delete(r);
        return ftk_vcomm_error(vc, rc);
    }
    *request = ftk_req_handle(r);
    return MPI_SUCCESS;
}

int ftk_coll_init(struct ftk_vcomm *vc, const struct ftk_call *call, MPI_Request *request)
{
    struct ftk_req *r = ftk_log_is_rolling_back() ? NULL : ftk_req_new(vc);
    *request = MPI_REQUEST_NULL;
    if (!r)
        return ftk_vcomm_error(vc, ftk_log_is_rolling_back() ? ftk_log_error() : MPI_ERR_NO_MEM);
    prepare(r, vc);
    int rc = ftk_coll_make(vc, call, true, &r->coll);
    if (rc != MPI_SUCCESS) {
        ftk_req_delete(r);
        return ftk_vcomm_error(vc, rc);
    }
    uint64_t number = vc->colls / FTK_COLL_INIT % PERSISTENT;
    vc->colls += FTK_COLL_INIT;
    r->coll->number = vc->colls / FTK_COLL_INIT;
    r->coll->persistent = true;
    r->coll->owner = r;
    r->coll->index = (int)number;
    ftk_req_persist(r);
    *request = ftk_req_handle(r);
    return MPI_SUCCESS;
}

/* ---- for the construction of communicators ------------------------------------------- */

static struct ftk_call exchange(const void *mine, void *all, size_t bytes)
{
    return (struct ftk_call){ .kind = FTK_EXCHANGE,
        .name = "the making of a communicator",
        .s = { .buf = mine, .count = (int)bytes, .type = MPI_BYTE },
        .r = { .buf = all, .count = (int)bytes, .type = MPI_BYTE } };
}

int ftk_coll_allgather(struct ftk_vcomm *vc, const void *mine, void *all, size_t bytes)
{
    struct ftk_call call = exchange(mine, all, bytes);
    return bytes > INT32_MAX ? MPI_ERR_COUNT : wait_for(vc, &call);
}

int ftk_coll_broadcast(struct ftk_vcomm *vc, int root, void *buf, size_t bytes)
{
    struct ftk_call call = {
        .kind = FTK_BCAST, .root = root, .r = { .buf = buf, .count = (int)bytes, .type = MPI_BYTE }
    };
    return bytes > INT32_MAX ? MPI_ERR_COUNT : wait_for(vc, &call);
}

int ftk_coll_iallgather_bytes(
    struct ftk_req *r, struct ftk_vcomm *vc, const void *mine, void *all, size_t bytes)
{
    struct ftk_call call = exchange(mine, all, bytes);
    return bytes > INT32_MAX ? MPI_ERR_COUNT : start(r, vc, &call, true);
}

const struct ftk_part ftk_part_coll = { .enter_loop = ftk_coll_note_ops,
    .forget = forget,
    .close = close_colls,
    .progress = ftk_coll_poll };
