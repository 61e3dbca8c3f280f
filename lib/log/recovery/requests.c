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

#include "log/coll.h"
#include "log/det.h"
#include "log/p2p.h"
#include "log/part.h"
#include "log/plane.h"
#include "log/recovery.h"
#include "log/saved.h"
#include "set/handles.h"
#include "set/region.h"
#include "steps.h"

/* The words: the lists of saved.h; the number of requests, the number of persistent requests made
 * so far; for each request these words, and those of its collective (coll/saved.c). */
enum {
    NUMBER,
    FLAGS,
    CONTEXT,
    PEER,
    TAG,
    COUNT,
    TYPE,
    PLACE,
    PLACE_OFFSET,
    ID,
    ERROR,
    SOURCE, /* of the status, if it is complete; likewise the following two */
    STATUS_TAG,
    BYTES,
    HEAD
};
enum {
    IS_RECV = 1,
    IS_COLL = 2,
    IS_SYNC = 4,
    IS_BUFFERED = 8,
    IS_DONE = 16, /* complete; neither this nor IS_OPEN: persistent, and not started */
    IS_OPEN = 32, /* under way */
    IS_PERSISTENT = 64,
    IS_FREED = 128, /* the program has freed it while it was under way */
    IS_CANCELLED = 256,
    IS_SHARED = 512, /* a send that is over: all of them on a communicator share a request */
    IS_BARE = 1024   /* persistent, of set-up: it cannot be made again */
};
#define NO_TYPE UINT64_MAX

/* ---- at a line: which requests a set has --------------------------------------------- */

static struct ftk_words words; /* of the line that is here */

void ftk_requests_saved(void)
{
    ftk_words_free(&words);
}

int64_t ftk_requests_number(MPI_Request request)
{
    const struct ftk_req *r = ftk_req_of(request);
    if (r)
        return r->state == FTK_REQ_FREE || !r->vc ? FTK_NO_HANDLE : ftk_req_number(r);
    return request == MPI_REQUEST_NULL ? FTK_NO_HANDLE : FTK_FOREIGN_HANDLE;
}

/* Whether a request is complete at the line.  At a cut a send counts as complete: its message is in
 * the set of its receiver, or comes there as a late message. */
static bool is_complete(const struct ftk_req *r)
{
    const bool apart = ftk_log.line.state == FTK_LINE_AWAY;
    return ftk_req_is_done(r) || (apart && (r->kind == FTK_REQ_SEND || r->state == FTK_REQ_HALF));
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

/* An error of ftkit_checkpoint() that names the request; why: a sentence. */
static int refuse(const struct ftk_req *r, int code, const char *why)
{
    char what[3 * MPI_MAX_OBJECT_NAME];
    ftk_req_describe(r, what, sizeof what);
    return ftk_fail(code, "%s, %s: %s", what, is_complete(r) ? "complete" : "under way", why);
}

static int not_registered(const struct ftk_req *r)
{
    return refuse(r, FTKIT_ERR_STATE,
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
    if (r->state == FTK_REQ_FREE || !r->vc || (at_rest && found == 0)) {
        *take = false;
        return FTKIT_OK;
    }
    if (r->freed_active && r->kind == FTK_REQ_SEND)
        *take = false; /* complete: its message has been drained */
    else if (!r->freed_active && found < (r->send.handles > 0 ? r->send.handles : 1))
        return not_registered(r);
    if (*take && r->vc->freed)
        return refuse(r, FTKIT_ERR_UNSUPPORTED, "its communicator has been freed");
    if (*take && r->freed_active && r->coll && r->coll->persistent)
        return refuse(r, FTKIT_ERR_UNSUPPORTED, "its request has been freed");
    if (*take && r->then)
        return refuse(r, FTKIT_ERR_UNSUPPORTED, "a set cannot have MPI_Comm_idup under way");
    return FTKIT_OK;
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

/* Why a request cannot be in a set: its memory is in no region. */
static int nowhere(
    const struct ftkit_ctx *ctx, const struct ftk_req *r, ptrdiff_t low, ptrdiff_t end)
{
    char near[160], why[400];
    const char *p = r->kind == FTK_REQ_SEND ? r->send.buf : r->recv.buf;
    const uintptr_t first = (uintptr_t)p + (uintptr_t)low;
    ftk_region_describe_near(ctx, first, first + (uintptr_t)(end - low), near, sizeof near);
    snprintf(why, sizeof why, "its memory, %zu bytes at %p, is in no region: %s",
        (size_t)(end - low), (const void *)(p + low), near);
    return refuse(r, FTKIT_ERR_STATE, why);
}

/* Find the memory of a request; *found: a region has it. */
static int find_memory(struct ftk_saving *s, const struct ftk_req *r, uint64_t *place,
    ptrdiff_t *low, ptrdiff_t *end, bool *found)
{
    const void *p = r->kind == FTK_REQ_SEND ? r->send.buf : r->recv.buf;
    const size_t count = r->peer == MPI_PROC_NULL ? 0 : (size_t)r->count;
    int mrc = ftk_saved_span(count, r->type, low, end);
    return mrc == MPI_SUCCESS ? ftk_saving_place(s, p, *low, *end, place, found)
                              : ftk_fail_mpi(mrc, "the datatype of a request");
}

/* Whether a process can get the request from its set-up, with memory that no set has: its contents
 * do not matter at the line. */
static bool may_be_bare(const struct ftk_req *r)
{
    return r->persistent && r->id <= ftk_log.queue.set_up
           && (r->state == FTK_REQ_INACTIVE || r->kind == FTK_REQ_SEND || !ftk_req_is_done(r));
}

/* Whether the set can have a receive into the region of a place: all its bytes are in the set, if
 * the receive is complete, and other ranks need not have the same, if it is under way. */
static int check_region(const struct ftk_saving *s, const struct ftk_req *r, uint64_t place)
{
    char why[200];
    const struct ftk_region *in = place == FTK_NO_PLACE ? NULL : s->region[place];
    const bool done = is_complete(r);
    const char *flaw = !in                                        ? NULL
                       : done && !in->type.contiguous             ? FTK_REGION_HAS_HOLES
                       : !done && in->kind == FTK_KIND_REPLICATED ? FTK_REGION_IS_REPLICATED
                                                                  : NULL;
    if (!flaw)
        return FTKIT_OK;
    snprintf(why, sizeof why, "its memory is in region '%s', %s", in->name, flaw);
    return refuse(r, FTKIT_ERR_STATE, why);
}

/* The type and the memory of a receive under way, or of a persistent request. */
static int put_memory(struct ftk_saving *s, const struct ftk_req *r, uint64_t *head)
{
    ptrdiff_t low, end;
    bool found;
    int rc = ftk_typemap_add(&s->types, r->type, &head[TYPE]);
    if (rc == FTKIT_OK)
        rc = find_memory(s, r, &head[PLACE], &low, &end, &found);
    if (rc == FTKIT_ERR_UNSUPPORTED)
        return refuse(r, rc, ftk_detail_text());
    if (rc == FTKIT_OK && found && r->kind == FTK_REQ_RECV && r->state != FTK_REQ_INACTIVE)
        rc = check_region(s, r, head[PLACE]);
    if (rc != FTKIT_OK || found)
        return rc;
    if (!may_be_bare(r))
        return nowhere(s->ctx, r, low, end);
    head[FLAGS] |= IS_BARE;
    return FTKIT_OK;
}

/* A receive that is complete: its data are in the set only if its memory is in a region. */
static int has_data(const struct ftk_req *r, bool *yes)
{
    MPI_Count bytes = 0;
    *yes = false;
    if (r->kind != FTK_REQ_RECV || !is_complete(r) || r->error != MPI_SUCCESS)
        return FTKIT_OK;
    int rc = PMPI_Get_elements_x(&r->status, MPI_BYTE, &bytes);
    *yes = bytes > 0 && bytes != MPI_UNDEFINED;
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "MPI_Get_elements_x");
}

/* The same of a collective: of its result the address is known, if anything (run.c). */
static int check_result(struct ftk_saving *s, const struct ftk_req *r)
{
    uint64_t place[FTK_PLACE_WORDS];
    bool found = true;
    int rc = FTKIT_OK;
    if (r->kind == FTK_REQ_COLL && r->error == MPI_SUCCESS && r->recv.buf)
        rc = ftk_saving_place(s, r->recv.buf, 0, 1, place, &found);
    return rc != FTKIT_OK || found ? rc : nowhere(s->ctx, r, 0, 1);
}

static int put_status(const struct ftk_req *r, uint64_t *head)
{
    int cancelled = 0;
    MPI_Count bytes = 0;
    int rc = PMPI_Test_cancelled(&r->status, &cancelled);
    if (rc == MPI_SUCCESS)
        rc = PMPI_Get_elements_x(&r->status, MPI_BYTE, &bytes);
    if (rc != MPI_SUCCESS)
        return ftk_fail_mpi(rc, "the status of a request");
    head[FLAGS] |= cancelled ? IS_CANCELLED : 0;
    head[ERROR] = (uint64_t)(int64_t)r->error;
    head[SOURCE] = (uint64_t)(int64_t)r->status.MPI_SOURCE;
    head[STATUS_TAG] = (uint64_t)(int64_t)r->status.MPI_TAG;
    head[BYTES] = (uint64_t)bytes;
    return FTKIT_OK;
}

static uint64_t flags_of(const struct ftk_req *r)
{
    uint64_t flags = is_complete(r) ? IS_DONE : IS_OPEN;
    if (r->state == FTK_REQ_INACTIVE)
        flags = 0;
    return flags | (r->kind == FTK_REQ_RECV ? IS_RECV : 0) | (r->kind == FTK_REQ_COLL ? IS_COLL : 0)
           | (r->send.sync ? IS_SYNC : 0) | (r->send.buffered ? IS_BUFFERED : 0)
           | (r->persistent ? IS_PERSISTENT : 0) | (r->freed_active ? IS_FREED : 0)
           | (r->send.handles > 0 ? IS_SHARED : 0);
}

/* The collective of a request: its words follow the head. */
static int put_coll(struct ftk_saving *s, const struct ftk_req *r, uint64_t *head)
{
    bool bare = false;
    const bool may = may_be_bare(r) && r->state == FTK_REQ_INACTIVE;
    int rc = ftk_coll_save(s, r->coll, !ftk_req_is_done(r), may ? &bare : NULL);
    head[FLAGS] |= bare ? IS_BARE : 0;
    return rc == FTKIT_ERR_STATE || rc == FTKIT_ERR_UNSUPPORTED ? refuse(r, rc, ftk_detail_text())
                                                                : rc;
}

static int put_request(struct ftk_saving *s, const struct ftk_req *r)
{
    uint64_t head[HEAD] = { [NUMBER] = (uint64_t)ftk_req_number(r),
        [FLAGS] = flags_of(r),
        [CONTEXT] = (uint64_t)r->vc->context,
        [PEER] = r->peer < 0 ? (uint64_t)(int64_t)r->peer : ftk_log_to_plane(r->peer),
        [TAG] = (uint64_t)(int64_t)r->tag,
        [COUNT] = r->send.handles > 0 ? r->send.handles : (uint64_t)r->count,
        [TYPE] = NO_TYPE,
        [PLACE] = FTK_NO_PLACE,
        [ID] = r->id };
    const bool coll = r->kind == FTK_REQ_COLL;
    const size_t at = s->w.n;
    int rc =
        ftk_words_extend(&s->w, HEAD) ? FTKIT_OK : ftk_fail(FTKIT_ERR_NOMEM, "requests of a set");
    if (rc == FTKIT_OK && (head[FLAGS] & IS_DONE))
        rc = put_status(r, head);
    bool data = false;
    if (rc == FTKIT_OK && !(head[FLAGS] & IS_SHARED) && r->state != FTK_REQ_INACTIVE)
        rc = has_data(r, &data);
    if (rc == FTKIT_OK && (head[FLAGS] & IS_DONE))
        rc = check_result(s, r);
    if (rc == FTKIT_OK && coll && r->coll)
        rc = put_coll(s, r, head);
    if (rc == FTKIT_OK && !coll && (r->persistent || (head[FLAGS] & IS_OPEN) || data))
        rc = put_memory(s, r, head);
    if (rc == FTKIT_OK)
        memcpy(s->w.v + at, head, sizeof head);
    return rc;
}

static int put_all(struct ftk_saving *s, const struct chosen *c)
{
    int rc = ftk_words_add(&s->w, c->n);
    ftk_log.stats.requests = c->n;
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
    ftk_requests_saved(); /* of an earlier call */
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
        ftk_requests_saved();
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
    struct ftk_req *r; /* NULL: a shared request */
    struct ftk_vcomm *vc;
    size_t handles; /* of a shared request: so many are left to give */
    size_t given;   /* ... and so many are given */
    struct ftk_coll_progress progress;
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
    for (size_t i = 0; i < back.n; i++)
        free(back.v[i].progress.open);
    free(back.v);
    ftk_loading_free(&back.l, ftk_p2p_type_free);
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
    if (r->coll)
        ftk_coll_delete(r->coll);
    r->coll = NULL;
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
    if (r->kind == FTK_REQ_COLL && r->coll)
        ftk_coll_halt(r);
    else if (!ftk_req_is_done(r))
        (void)ftk_p2p_fail(r, MPI_ERR_PENDING); /* nobody waits for it */
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

/* A number of the set between two bounds. */
static bool is_in(uint64_t word, int64_t least, int64_t most)
{
    return (int64_t)word >= least && (int64_t)word <= most;
}

static bool is_sane(const uint64_t *head)
{
    const bool message = !(head[FLAGS] & (IS_COLL | IS_SHARED));
    const bool needs_type = message && (head[FLAGS] & (IS_OPEN | IS_PERSISTENT));
    const bool names_peer = is_in(head[PEER], 0, ftk_log_plane_size() - 1)
                            || (int64_t)head[PEER] == MPI_PROC_NULL
                            || ((int64_t)head[PEER] == MPI_ANY_SOURCE && (head[FLAGS] & IS_RECV));
    return is_in(head[NUMBER], 0, INT32_MAX) && (!message || names_peer)
           && is_in(head[TAG], INT32_MIN, INT32_MAX) && is_in(head[COUNT], 0, INT32_MAX)
           && is_in(head[ID], 0, UINT32_MAX) && is_in(head[ERROR], INT32_MIN, INT32_MAX)
           && is_in(head[SOURCE], INT32_MIN, INT32_MAX)
           && is_in(head[STATUS_TAG], INT32_MIN, INT32_MAX) && is_in(head[BYTES], 0, INT64_MAX / 4)
           && head[CONTEXT] < FTK_LOG_ALL && (!needs_type || head[TYPE] != NO_TYPE)
           && (!message || !(head[FLAGS] & IS_OPEN) || (head[FLAGS] & IS_RECV));
}

static enum ftk_req_kind kind_of(uint64_t flags)
{
    if (flags & IS_COLL)
        return FTK_REQ_COLL;
    return flags & IS_RECV ? FTK_REQ_RECV : FTK_REQ_SEND;
}

static int peer_of(const uint64_t *head)
{
    const int peer = (int)(int64_t)head[PEER];
    return peer < 0 ? peer : ftk_log_from_plane(peer);
}

/* The arguments of a request that is made again. */
static int fill(struct ftk_req *r, const uint64_t *head, struct ftk_vcomm *vc)
{
    const struct ftk_loading *l = &back.l;
    ptrdiff_t low = 0, end = 0;
    void *p = NULL;
    r->kind = kind_of(head[FLAGS]);
    r->vc = vc;
    r->peer = r->kind == FTK_REQ_COLL ? MPI_PROC_NULL : peer_of(head);
    if (r->peer >= 0 && ftk_vcomm_peer_rank(vc, r->peer) < 0)
        return ftk_loading_damaged();
    r->tag = (int)(int64_t)head[TAG];
    r->count = (int)head[COUNT];
    r->context = r->kind == FTK_REQ_SEND ? ftk_vcomm_there(vc, r->peer) : vc->context;
    r->send.sync = (head[FLAGS] & IS_SYNC) != 0;
    r->send.buffered = (head[FLAGS] & IS_BUFFERED) != 0;
    r->born = 0; /* before the line */
    if (head[TYPE] == NO_TYPE)
        return FTKIT_OK;
    r->type = ftk_types_of(&l->types, head[TYPE]);
    if (r->type == MPI_DATATYPE_NULL)
        return ftk_loading_damaged();
    int mrc = ftk_saved_span(r->peer == MPI_PROC_NULL ? 0 : (size_t)r->count, r->type, &low, &end);
    if (mrc != MPI_SUCCESS)
        return ftk_fail_mpi(mrc, "a datatype of a set");
    int rc = ftk_loading_address(l, &head[PLACE], low, end, &p);
    r->send.buf = r->recv.buf = p;
    return rc;
}

/* Set-up has made the request, or this process has it since before the rollback. */
static int check_known(const struct ftk_req *r, const uint64_t *head)
{
    if (r->kind == kind_of(head[FLAGS]) && r->vc && (uint64_t)r->vc->context == head[CONTEXT]
        && (r->kind == FTK_REQ_COLL
            || (r->count == (int)head[COUNT] && r->peer == peer_of(head)
                && r->tag == (int)(int64_t)head[TAG])))
        return FTKIT_OK;
    return ftk_fail(FTKIT_ERR_STATE,
        "persistent request %u, in the order of their making, is not what it was at the set: "
        "ftkit_recover() has to come after the same calls of MPI_..._init()",
        r->id);
}

static int make_request(const uint64_t *head, struct ftk_vcomm *vc, struct ftk_req **out)
{
    const bool persistent = (head[FLAGS] & IS_PERSISTENT) != 0;
    struct ftk_req *r = persistent ? with_id(head[ID]) : NULL;
    *out = r;
    if (r)
        return check_known(r, head);
    if (head[FLAGS] & IS_BARE)
        return ftk_fail(FTKIT_ERR_STATE,
            "the set has persistent request %llu of set-up, and this process has not made it or "
            "has freed it",
            (unsigned long long)head[ID]);
    r = *out = ftk_req_new();
    if (!r)
        return ftk_fail(FTKIT_ERR_NOMEM, "requests of a set");
    ftk_empty_status(&r->status);
    r->persistent = persistent;
    r->id = (uint32_t)head[ID];
    r->state = persistent ? FTK_REQ_INACTIVE : FTK_REQ_COMPLETE;
    return fill(r, head, vc);
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

/* The collective of the request, if it has one. */
static int read_coll(struct restored *e, bool known)
{
    const bool persistent = (e->flags & IS_PERSISTENT) != 0;
    struct ftk_coll *c = known ? e->r->coll : NULL;
    if (!(e->flags & IS_COLL) || (!persistent && (e->flags & IS_DONE)))
        return FTKIT_OK;
    int rc = ftk_coll_load(&back.l, e->vc, persistent, &c, &e->progress);
    if (rc != FTKIT_OK)
        return rc;
    e->r->coll = c;
    c->owner = e->r;
    return FTKIT_OK;
}

static void set_status(struct ftk_req *r, const uint64_t *head)
{
    if (r->kind == FTK_REQ_SEND)
        ftk_empty_status(&r->status);
    else
        ftk_p2p_status(&r->status, (int)(int64_t)head[SOURCE], (int)(int64_t)head[STATUS_TAG],
            (size_t)head[BYTES]);
    if (head[FLAGS] & IS_CANCELLED)
        (void)PMPI_Status_set_cancelled(&r->status, 1); /* it sets a field */
    r->error = (int)(int64_t)head[ERROR];
}

static int read_request(struct restored *e)
{
    const uint64_t *head = ftk_loading_take(&back.l, HEAD);
    if (!head || !is_sane(head))
        return ftk_loading_damaged();
    e->number = (int64_t)head[NUMBER];
    e->flags = head[FLAGS];
    e->vc = ftk_vcomm_in_context((int)head[CONTEXT]);
    if (!e->vc)
        return ftk_loading_damaged();
    e->handles = e->flags & IS_SHARED ? (size_t)head[COUNT] : 0;
    if (e->flags & IS_SHARED)
        return FTKIT_OK;
    const bool known = (e->flags & IS_PERSISTENT) && with_id(head[ID]);
    int rc = make_request(head, e->vc, &e->r);
    if (rc == FTKIT_OK && known && e->r->state != FTK_REQ_INACTIVE)
        halt(e->r);
    if (rc == FTKIT_OK)
        rc = read_coll(e, known);
    if (rc != FTKIT_OK)
        return give_up(e, known, rc);
    if (e->flags & IS_DONE)
        set_status(e->r, head);
    return FTKIT_OK;
}

static int read_all(void)
{
    const uint64_t *n = ftk_loading_take(&back.l, 2);
    if (!n || n[0] > (uint64_t)(back.l.end - back.l.w) / HEAD || n[1] > UINT32_MAX)
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
    ftk_log.queue.npersistent = (uint32_t)n[1];
    ftk_log.stats.requests = n[0] + back.messages;
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
 * line.  The restore overwrites the registered variables, so nobody completes the requests that
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
    ftk_requests_saved(); /* a set may have ended the job */
    released = false;
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
    if (!(e->flags & (IS_DONE | IS_OPEN)))
        return; /* persistent, and at rest */
    if (e->flags & IS_DONE) {
        r->state = FTK_REQ_COMPLETE;
        r->error = error;
        return;
    }
    if (r->kind == FTK_REQ_COLL)
        ftk_coll_resume(r, &e->progress);
    else
        (void)ftk_req_begin(r); /* the wait returns the error */
    if (e->flags & IS_FREED)
        ftk_req_abandon(r);
}

void ftk_requests_begin(void)
{
    for (size_t i = 0; i < back.n; i++)
        if (back.v[i].r)
            begin_one(&back.v[i]);
    clear_back();
}

/* ---- the part ------------------------------------------------------------------------ */

static void pass_line(enum ftk_pass kind, bool first)
{
    (void)first;
    if (kind == FTK_PASS_CUT)
        ftk_requests_saved();
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

const struct ftk_part ftk_part_under_way = { .forget = ftk_requests_drop,
    .close = close_under_way,
    .line = pass_line,
    .discard = ftk_requests_saved,
    .name = "requests",
    .words = count_words,
    .save = save,
    .load = load };
