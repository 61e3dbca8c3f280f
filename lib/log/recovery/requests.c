/* The requests of the program, in a set.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A request in a set has a number, and the registered variables of the program have these numbers
 * (set/handles.h).  At a line all messages have been drained.  So a send is complete; a receive is
 * complete, or gets a message that is sent after the line; and so are the messages of a collective
 * since its last fence.  A restore makes the requests again, in the order in which the program had
 * begun them: they match the same messages, and have the same numbers in determinants.
 *
 * A persistent request has an id: its place among all persistent requests that the process has
 * made.  One that set-up makes is there in a replacement, with the same id; one that the loop has
 * made is made again. [Schulz et al., SC 2004, 4.1]
 *
 * The section of a set goes on with the messages that a probe has matched (matched.c). */
#include <stdlib.h>
#include <string.h>

#include "log/base/dtype.h"
#include "log/base/figures.h"
#include "log/base/part.h"
#include "log/base/plane.h"
#include "log/base/queue.h"
#include "log/base/runtime.h"
#include "log/base/saved.h"
#include "log/recovery/recovery.h"
#include "log/request/req_ops.h"
#include "set/handles.h"
#include "steps.h"

/* The words: the lists of saved.h; the number of requests, the number of persistent requests made
 * so far; for each request its head (saved.h), and the words of its kind (req_ops.h). */

/* ---- at a line: which requests a set has --------------------------------------------- */

static struct ftk_words words; /* of the line that is here */
static uint64_t in_set;        /* requests and messages, of that line or the last one */

void ftk_requests_count(uint64_t n)
{
    in_set += n;
}

static void drop_words(void)
{
    ftk_words_free(&words);
}

/* A rollback or a restore has taken its communicator from the program. */
static bool is_lost(const struct ftk_req *r)
{
    return r->vc->state == FTK_VCOMM_LOST;
}

int64_t ftk_requests_number(MPI_Request request)
{
    const struct ftk_req *r = ftk_req_of(request);
    if (r)
        return r->state == FTK_REQ_FREE || is_lost(r) ? FTK_NO_HANDLE : ftk_req_number(r);
    return request == MPI_REQUEST_NULL ? FTK_NO_HANDLE : FTK_FOREIGN_HANDLE;
}

/* How many registered variables have each request: found [requests of the pool]. */
static void count_variables(const struct ftkit_ctx *ctx, size_t *found)
{
    const struct ftk_handles *h = NULL;
    while ((h = ftk_handles_next(ctx, FTK_HANDLE_REQUEST, h)) != NULL)
        for (size_t i = 0; i < h->n; i++) {
            int64_t number = ftk_requests_number(ftk_handles_request(h, i));
            if (number >= 0)
                found[number]++;
        }
}

static int not_registered(const struct ftk_req *r)
{
    return ftk_saved_refuse(r, FTKIT_ERR_STATE,
        "it is in no registered variable (complete it before ftkit_checkpoint(), or register its "
        "variable with ftkit_register_requests())");
}

/* Requests that the set gets, in the order of their beginning. */
struct chosen {
    struct ftk_req **v; /* [n] */
    size_t n;
};

static int by_seq(const void *a, const void *b)
{
    const struct ftk_req *const *x = a, *const *y = b;
    return ((*x)->seq > (*y)->seq) - ((*x)->seq < (*y)->seq);
}

/* Whether the set gets a request.  found: how many registered variables have it. */
static int choose_one(struct ftk_req *r, size_t found, bool *take)
{
    const bool at_rest = r->state == FTK_REQ_INACTIVE;
    *take = found > 0 || r->freed_active;
    if (r->state == FTK_REQ_FREE || is_lost(r) || (at_rest && found == 0)) {
        *take = false;
        return FTKIT_OK;
    }
    const struct ftk_req_ops *ops = ftk_req_ops_of(r);
    if (r->freed_active && ops->ends_at_line)
        *take = false; /* complete */
    else if (!r->freed_active && found < (r->send.handles > 0 ? r->send.handles : 1))
        return not_registered(r);
    if (*take && r->vc->state != FTK_VCOMM_LIVE)
        return ftk_saved_refuse(r, FTKIT_ERR_UNSUPPORTED, "its communicator has been freed");
    const char *why = *take && ops->unfit ? ops->unfit(r) : NULL;
    if (*take && !why && r->then)
        why = "a set cannot have MPI_Comm_idup under way";
    return why ? ftk_saved_refuse(r, FTKIT_ERR_UNSUPPORTED, why) : FTKIT_OK;
}

/* found [used]; a combined send and receive counts as its receive. */
static int choose(const size_t *found, struct chosen *c)
{
    const size_t used = ftk_req_pool.used;
    bool *is_pair = calloc(used + 1, sizeof *is_pair);
    int rc = is_pair ? FTKIT_OK : ftk_fail(FTKIT_ERR_NOMEM, "requests of a set");
    for (size_t i = 0; rc == FTKIT_OK && i < used; i++) {
        const struct ftk_req *r = &ftk_req_pool.at[i];
        if (r->state != FTK_REQ_FREE && r->pair)
            is_pair[ftk_req_number(r->pair)] = true;
    }
    for (size_t i = 0; rc == FTKIT_OK && i < used; i++) {
        bool take = false;
        if (is_pair[i])
            continue;
        rc = choose_one(&ftk_req_pool.at[i], found[i], &take);
        if (rc == FTKIT_OK && take)
            c->v[c->n++] = &ftk_req_pool.at[i];
    }
    free(is_pair);
    return rc;
}

/* ---- writing ------------------------------------------------------------------------- */

static int put_status(const struct ftk_req *r, uint64_t *head)
{
    int cancelled = 0;
    MPI_Count bytes = 0;
    int rc = PMPI_Test_cancelled(&r->status, &cancelled);
    if (rc == MPI_SUCCESS)
        rc = PMPI_Get_elements_x(&r->status, MPI_BYTE, &bytes);
    if (rc != MPI_SUCCESS)
        return ftk_fail_mpi(rc, "the status of a request");
    head[FTK_HEAD_FLAGS] |= cancelled ? FTK_SAVED_CANCELLED : 0;
    head[FTK_HEAD_ERROR] = (uint64_t)(int64_t)r->error;
    head[FTK_HEAD_SOURCE] = (uint64_t)(int64_t)r->status.MPI_SOURCE;
    head[FTK_HEAD_STATUS_TAG] = (uint64_t)(int64_t)r->status.MPI_TAG;
    head[FTK_HEAD_BYTES] = (uint64_t)bytes;
    return FTKIT_OK;
}

static uint64_t flags_of(const struct ftk_req *r)
{
    uint64_t flags = ftk_saved_is_complete(r) ? FTK_SAVED_DONE : FTK_SAVED_OPEN;
    if (r->state == FTK_REQ_INACTIVE)
        flags = 0;
    return flags | ftk_saved_kind_bits(r->kind) | (r->persistent ? FTK_SAVED_PERSISTENT : 0)
           | (r->freed_active ? FTK_SAVED_FREED : 0) | (r->send.handles > 0 ? FTK_SAVED_SHARED : 0);
}

static int put_request(struct ftk_saving *s, const struct ftk_req *r)
{
    uint64_t head[FTK_HEAD_WORDS] = { [FTK_HEAD_NUMBER] = (uint64_t)ftk_req_number(r),
        [FTK_HEAD_FLAGS] = flags_of(r),
        [FTK_HEAD_CONTEXT] = (uint64_t)r->vc->context,
        [FTK_HEAD_PEER] = r->peer < 0 ? (uint64_t)(int64_t)r->peer : ftk_log_to_plane(r->peer),
        [FTK_HEAD_TAG] = (uint64_t)(int64_t)r->tag,
        [FTK_HEAD_COUNT] = r->send.handles > 0 ? r->send.handles : (uint64_t)r->count,
        [FTK_HEAD_TYPE] = FTK_NO_TYPE,
        [FTK_HEAD_PLACE] = FTK_NO_PLACE,
        [FTK_HEAD_ID] = r->id };
    const struct ftk_req_ops *ops = ftk_req_ops_of(r);
    const size_t at = s->w.n;
    int rc = ftk_words_extend(&s->w, FTK_HEAD_WORDS)
                 ? FTKIT_OK
                 : ftk_fail(FTKIT_ERR_NOMEM, "requests of a set");
    if (rc == FTKIT_OK && (head[FTK_HEAD_FLAGS] & FTK_SAVED_DONE))
        rc = put_status(r, head);
    if (rc == FTKIT_OK && ops->save)
        rc = ops->save(s, r, head);
    if (rc == FTKIT_OK)
        memcpy(s->w.v + at, head, sizeof head);
    return rc;
}

static int put_all(struct ftk_saving *s, const struct chosen *c)
{
    int rc = ftk_words_add(&s->w, c->n);
    in_set = c->n;
    if (rc == FTKIT_OK)
        rc = ftk_words_add(&s->w, ftk_log.queue.npersistent);
    for (size_t i = 0; rc == FTKIT_OK && i < c->n; i++)
        rc = put_request(s, c->v[i]);
    if (rc == FTKIT_OK)
        rc = ftk_matched_save(s);
    if (rc == FTKIT_OK)
        rc = ftk_saving_heads(s, &words);
    uint64_t *at = rc == FTKIT_OK ? ftk_words_extend(&words, s->w.n) : NULL;
    if (rc == FTKIT_OK && !at)
        rc = ftk_fail(FTKIT_ERR_NOMEM, "requests of a set");
    if (at)
        memcpy(at, s->w.v, s->w.n * sizeof *at);
    return rc;
}

int ftk_requests_save(struct ftkit_ctx *ctx)
{
    struct ftk_saving s = { .ctx = ctx };
    struct chosen c = { 0 };
    size_t *found = calloc(ftk_req_pool.used + 1, sizeof *found);
    c.v = calloc(ftk_req_pool.used + 1, sizeof(struct ftk_req *));
    drop_words(); /* of an earlier call */
    int rc = found && c.v ? FTKIT_OK : ftk_fail(FTKIT_ERR_NOMEM, "requests of a set");
    if (rc == FTKIT_OK) {
        count_variables(ctx, found);
        rc = choose(found, &c);
    }
    if (rc == FTKIT_OK) {
        qsort(c.v, c.n, sizeof *c.v, by_seq);
        rc = put_all(&s, &c);
    }
    if (rc == FTKIT_OK && FTK_FAULT("req.write"))
        rc = ftk_fail(FTKIT_ERR_NOMEM, "injected");
    if (rc != FTKIT_OK)
        drop_words();
    ftk_saving_free(&s);
    free(c.v);
    free(found);
    return rc;
}

/* ---- reading ------------------------------------------------------------------------- */

/* A request of the set. */
struct restored {
    int64_t number;
    uint64_t flags;
    struct ftk_req *r;    /* NULL: a shared request */
    struct ftk_vcomm *vc; /* kept; NULL: the head is damaged */
    size_t handles;       /* of a shared request: so many are left to give */
    size_t given;         /* ... and so many are given */
    void *rest;           /* for resume() */
};

static struct {
    struct restored *v; /* [n] in the order of their beginning */
    size_t n;
    uint64_t messages; /* matched ones */
    struct ftk_loading l;
} back;

static bool released; /* the requests of set-up: see release_set_up() */

static void clear_back(void)
{
    for (size_t i = 0; i < back.n; i++) {
        free(back.v[i].rest);
        if (back.v[i].vc)
            ftk_vcomm_let_go(back.v[i].vc);
    }
    free(back.v);
    ftk_loading_free(&back.l, ftk_req_type_free);
    back.v = NULL;
    back.n = 0;
    back.messages = 0;
}

/* Delete a request that has been read and has not begun.  A persistent one stays, at rest. */
static void drop_one(struct restored *e)
{
    struct ftk_req *r = e->r;
    for (size_t i = 0; !r && e->vc && i < e->given; i++)
        if (e->vc->sent)
            ftk_req_delete(e->vc->sent);
    if (!r || r->state == FTK_REQ_FREE || r->persistent)
        return;
    if (ftk_req_ops_of(r)->free)
        ftk_req_ops_of(r)->free(r);
    ftk_req_delete(r);
}

void ftk_requests_drop(void)
{
    for (size_t i = 0; i < back.n; i++)
        drop_one(&back.v[i]);
    if (back.messages > 0)
        ftk_matched_clear();
    clear_back();
}

/* A request of set-up is under way, or complete, that was at rest or elsewhere at the line. */
static void halt(struct ftk_req *r)
{
    if (ftk_req_ops_of(r)->halt)
        ftk_req_ops_of(r)->halt(r);
    if (!ftk_req_is_done(r))
        (void)ftk_req_fail(r, MPI_ERR_PENDING); /* no call waits for it */
    r->state = FTK_REQ_INACTIVE;
}

/* The persistent request of this process with an id. */
static struct ftk_req *with_id(uint64_t id)
{
    for (size_t i = 0; id > 0 && i < ftk_req_pool.used; i++) {
        struct ftk_req *r = &ftk_req_pool.at[i];
        if (r->state != FTK_REQ_FREE && r->persistent && r->id == id && !r->stale)
            return r;
    }
    return NULL;
}

/* Whether the head is that of a request that this library knows. */
static bool is_sane(const uint64_t *head)
{
    const uint64_t kind = ftk_saved_kind(head);
    if (kind >= FTK_REQ_NKINDS)
        return false;
    const struct ftk_req_ops *ops = ftk_log.kinds[kind];
    return ftk_saved_is_in(head[FTK_HEAD_NUMBER], 0, INT32_MAX)
           && ftk_saved_is_in(head[FTK_HEAD_TAG], INT32_MIN, INT32_MAX)
           && ftk_saved_is_in(head[FTK_HEAD_COUNT], 0, INT32_MAX)
           && ftk_saved_is_in(head[FTK_HEAD_ID], 0, UINT32_MAX)
           && ftk_saved_is_in(head[FTK_HEAD_ERROR], INT32_MIN, INT32_MAX)
           && ftk_saved_is_in(head[FTK_HEAD_SOURCE], INT32_MIN, INT32_MAX)
           && ftk_saved_is_in(head[FTK_HEAD_STATUS_TAG], INT32_MIN, INT32_MAX)
           && ftk_saved_is_in(head[FTK_HEAD_BYTES], 0, INT64_MAX / 4)
           && head[FTK_HEAD_CONTEXT] < FTK_LOG_ALL
           && ((head[FTK_HEAD_FLAGS] & FTK_SAVED_SHARED)
               || ((!(head[FTK_HEAD_FLAGS] & FTK_SAVED_OPEN) || ops->resume)
                   && (!ops->sane || ops->sane(head))));
}

/* What requests of all kinds get that are made again. */
static void fill(struct ftk_req *r, const uint64_t *head, struct ftk_vcomm *vc)
{
    const bool persistent = (head[FTK_HEAD_FLAGS] & FTK_SAVED_PERSISTENT) != 0;
    ftk_status_empty(&r->status);
    r->kind = (enum ftk_req_kind)ftk_saved_kind(head);
    r->persistent = persistent;
    r->id = (uint32_t)head[FTK_HEAD_ID];
    r->state = persistent ? FTK_REQ_INACTIVE : FTK_REQ_COMPLETE;
    r->vc = vc;
    r->context = vc->context;
    r->peer = MPI_PROC_NULL;
    r->tag = (int)(int64_t)head[FTK_HEAD_TAG];
    r->count = (int)head[FTK_HEAD_COUNT];
    r->born = 0; /* before the line */
}

/* Set-up has made the request, or this process has it since before the rollback. */
static int check_known(const struct ftk_req *r, const uint64_t *head)
{
    const struct ftk_req_ops *ops = ftk_req_ops_of(r);
    if (r->kind == ftk_saved_kind(head) && !is_lost(r)
        && (uint64_t)r->vc->context == head[FTK_HEAD_CONTEXT] && (!ops->same || ops->same(r, head)))
        return FTKIT_OK;
    return ftk_fail(FTKIT_ERR_STATE,
        "persistent request %u, in the order of their making, is not what it was at the set: "
        "ftkit_recover() has to come after the same calls of MPI_..._init()",
        r->id);
}

static int make_request(const uint64_t *head, struct ftk_vcomm *vc, struct ftk_req **out)
{
    const bool persistent = (head[FTK_HEAD_FLAGS] & FTK_SAVED_PERSISTENT) != 0;
    struct ftk_req *r = persistent ? with_id(head[FTK_HEAD_ID]) : NULL;
    *out = r;
    if (r)
        return check_known(r, head);
    if (head[FTK_HEAD_FLAGS] & FTK_SAVED_BARE)
        return ftk_fail(FTKIT_ERR_STATE,
            "the set has persistent request %llu of set-up, and this process has not made it or "
            "has freed it",
            (unsigned long long)head[FTK_HEAD_ID]);
    r = *out = ftk_req_new(vc);
    if (!r)
        return ftk_fail(FTKIT_ERR_NOMEM, "requests of a set");
    fill(r, head, vc);
    return FTKIT_OK;
}

/* An error: a request that has been made for it goes. */
static int give_up(struct restored *e, bool known, int rc)
{
    if (e->r && !known) {
        e->r->persistent = false;
        drop_one(e);
        e->r = NULL;
    }
    return rc;
}

static void set_status(struct ftk_req *r, const uint64_t *head)
{
    ftk_status_make(&r->status, (int)(int64_t)head[FTK_HEAD_SOURCE],
        (int)(int64_t)head[FTK_HEAD_STATUS_TAG], (size_t)head[FTK_HEAD_BYTES]);
    if (head[FTK_HEAD_FLAGS] & FTK_SAVED_CANCELLED)
        (void)PMPI_Status_set_cancelled(&r->status, 1); /* it sets a field */
    r->error = (int)(int64_t)head[FTK_HEAD_ERROR];
}

static int read_request(struct restored *e)
{
    const uint64_t *head = ftk_loading_take(&back.l, FTK_HEAD_WORDS);
    if (!head || !is_sane(head))
        return ftk_loading_damaged();
    e->number = (int64_t)head[FTK_HEAD_NUMBER];
    e->flags = head[FTK_HEAD_FLAGS];
    e->vc = ftk_vcomm_in_context((int)head[FTK_HEAD_CONTEXT]);
    if (!e->vc)
        return ftk_loading_damaged();
    ftk_vcomm_keep(e->vc);
    e->handles = e->flags & FTK_SAVED_SHARED ? (size_t)head[FTK_HEAD_COUNT] : 0;
    if (e->flags & FTK_SAVED_SHARED)
        return FTKIT_OK;
    const bool known = (e->flags & FTK_SAVED_PERSISTENT) && with_id(head[FTK_HEAD_ID]);
    int rc = make_request(head, e->vc, &e->r);
    if (rc == FTKIT_OK && known && e->r->state != FTK_REQ_INACTIVE)
        halt(e->r);
    if (rc == FTKIT_OK && (e->flags & FTK_SAVED_DONE))
        set_status(e->r, head);
    if (rc == FTKIT_OK && ftk_req_ops_of(e->r)->load)
        rc = ftk_req_ops_of(e->r)->load(&back.l, e->r, head, known, &e->rest);
    return rc == FTKIT_OK ? rc : give_up(e, known, rc);
}

static int read_all(void)
{
    const uint64_t *n = ftk_loading_take(&back.l, 2);
    if (!n || n[0] > (uint64_t)(back.l.end - back.l.w) / FTK_HEAD_WORDS || n[1] > UINT32_MAX)
        return ftk_loading_damaged();
    back.v = calloc((size_t)n[0] + 1, sizeof *back.v);
    if (!back.v)
        return ftk_fail(FTKIT_ERR_NOMEM, "requests of a set");
    int rc = FTKIT_OK;
    for (uint64_t i = 0; rc == FTKIT_OK && i < n[0]; i++)
        rc = read_request(&back.v[back.n++]);
    if (rc == FTKIT_OK)
        rc = ftk_matched_load(&back.l, &back.messages);
    if (rc != FTKIT_OK)
        return rc;
    ftk_queue_persistent((uint32_t)n[1]);
    in_set = n[0] + back.messages;
    return rc;
}

/* A request of set-up, in a variable that the restore overwrites. */
static void release(struct ftk_req *r)
{
    if (!r || r->state == FTK_REQ_FREE)
        return;
    if (r->persistent) { /* the line says whether it is under way */
        if (r->state != FTK_REQ_INACTIVE)
            halt(r);
        return;
    }
    if (ftk_req_is_done(r))
        ftk_req_delete(r);
    else
        ftk_req_abandon(r);
}

/* Set-up has begun requests that the lost process, or the earlier job, had completed before the
 * line.  The restore overwrites the registered variables, so no call completes the requests that
 * these variables hold.  Once in a process. */
static void release_set_up(const struct ftkit_ctx *ctx)
{
    const struct ftk_handles *h = NULL;
    if (ctx->where >= FTK_IN_LOOP || released)
        return;
    released = true;
    while ((h = ftk_handles_next(ctx, FTK_HANDLE_REQUEST, h)) != NULL)
        for (size_t i = 0; i < h->n; i++)
            release(ftk_req_of(ftk_handles_request(h, i)));
    while ((h = ftk_handles_next(ctx, FTK_HANDLE_MESSAGE, h)) != NULL)
        for (size_t i = 0; i < h->n; i++)
            ftk_unexp_free(ftk_matched_take(ftk_handles_message(h, i)));
}

static void close_under_way(void)
{
    ftk_requests_drop();
    drop_words(); /* a set may have ended the job */
    released = false;
    in_set = 0;
}

static void figures(ftkit_info *info)
{
    info->log_requests = in_set;
}

int ftk_requests_load(struct ftkit_ctx *ctx, const uint64_t *w, const uint64_t *end)
{
    ftk_requests_drop();
    release_set_up(ctx);
    if (w == end)
        return FTKIT_OK;
    back.l = (struct ftk_loading){ .ctx = ctx, .w = w, .end = end };
    int rc = ftk_loading_heads(&back.l);
    if (rc == FTKIT_OK)
        rc = read_all();
    if (rc == FTKIT_OK && FTK_FAULT("req.read"))
        rc = ftk_fail(FTKIT_ERR_NOMEM, "injected");
    if (rc != FTKIT_OK)
        ftk_requests_drop();
    return rc;
}

/* A handle of the shared request; not more than the program had. */
static struct ftk_req *give_shared(struct restored *e)
{
    if (e->given >= e->handles)
        return e->vc->sent;
    struct ftk_req *r = ftk_req_sent(e->vc);
    e->given += r != NULL;
    return r;
}

MPI_Request ftk_requests_back(int64_t number)
{
    for (size_t i = 0; i < back.n; i++) {
        struct restored *e = &back.v[i];
        if (e->number != number)
            continue;
        struct ftk_req *r = e->r ? e->r : give_shared(e);
        return r ? ftk_req_handle(r) : MPI_REQUEST_NULL;
    }
    return MPI_REQUEST_NULL;
}

/* ---- beginning again ----------------------------------------------------------------- */

static void begin_one(struct restored *e)
{
    struct ftk_req *r = e->r;
    const int error = r->error;
    if (!(e->flags & (FTK_SAVED_DONE | FTK_SAVED_OPEN)))
        return; /* persistent, and at rest */
    if (e->flags & FTK_SAVED_DONE) {
        r->state = FTK_REQ_COMPLETE;
        r->error = error;
        return;
    }
    ftk_req_ops_of(r)->resume(r, e->rest);
    if (e->flags & FTK_SAVED_FREED)
        ftk_req_abandon(r);
}

static void begin_again(void)
{
    for (size_t i = 0; i < back.n; i++)
        if (back.v[i].r)
            begin_one(&back.v[i]);
    clear_back();
}

/* ---- the part ------------------------------------------------------------------------ */

static int restored(void)
{
    if (ftk_log.ctx->where >= FTK_IN_LOOP)
        begin_again();
    return FTKIT_OK;
}

static size_t count_words(void)
{
    return words.n;
}

static uint64_t *save(uint64_t *w)
{
    return ftk_words_save(&words, w);
}

static int load(const struct ftk_section *in)
{
    return in->w && in->as_many ? ftk_requests_load(ftk_log.ctx, in->w, in->end) : FTKIT_OK;
}

const struct ftk_part ftk_part_under_way = { .enter_loop = begin_again,
    .forget = ftk_requests_drop,
    .close = close_under_way,
    .figures = figures,
    .cut_over = drop_words,
    .restored = restored,
    .name = "requests",
    .words = count_words,
    .save = save,
    .load = load };
