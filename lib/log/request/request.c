/* The program's requests, and the list of those under way.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/grow.h"
#include "core/mpi_shim.h"
#include "log/mode.h"
#include "log/base/dtype.h"
#include "log/base/part.h"
#include "log/base/queue.h"
#include "log/base/runtime.h"
#include "log/request/overtake.h"
#include "log/request/req_ops.h"

#define POOL_MAX (1u << 22)

/* Reserve address space, zeroed; NULL: there is none. */
static void *reserve(size_t bytes);

/* No request is under way: free datatypes that waited for requests. */
static void free_late_types(void);

/* ---- requests under way -------------------------------------------------------------- */

static void unlink_from(struct ftk_req *r)
{
    struct ftk_log *l = &ftk_log;
    if (r->prev)
        r->prev->next = r->next;
    else if (l->queue.first == r)
        l->queue.first = r->next;
    else
        return; /* not in the list */
    if (r->next)
        r->next->prev = r->prev;
    else
        l->queue.last = r->prev;
    r->next = r->prev = NULL;
    if (l->queue.first)
        return;
    free_late_types();
    ftk_overtake_clear();
}

/* Nobody needs the memory of a complete message, but the MPI, if it still has the request.  What
 * other kinds have there is theirs. */
static void drop_own(struct ftk_req *r)
{
    if (r->real == MPI_REQUEST_NULL && !ftk_req_is_message(r))
        return;
    if (r->real == MPI_REQUEST_NULL)
        free(r->own);
    r->own = NULL;
    r->send.owned = 0;
}

int ftk_req_finish(struct ftk_req *r, int error)
{
    unlink_from(r);
    if (r->recv.wildcard_seq)
        ftk_queue_no_wildcard();
    r->recv.wildcard_seq = 0;
    ftk_queue_probes_no_more(r);
    ftk_mode_unhold(r);
    if (r->ends && r->ends->drop)
        r->ends->drop(r);
    if (r->own)
        drop_own(r);
    r->real = MPI_REQUEST_NULL;
    r->state = FTK_REQ_COMPLETE;
    r->error = error;
    if (r->freed_active)
        ftk_req_delete_freed(r);
    return error;
}

int ftk_req_fail(struct ftk_req *r, int error)
{
    ftk_status_empty(&r->status);
    return ftk_req_finish(r, error);
}

/* ---- the request of the MPI ---------------------------------------------------------- */

/* Its peer is dead.  A wildcard receive may still be under way; the repair cancels it then. */
void ftk_req_failed(struct ftk_req *r)
{
    if (r->real == MPI_REQUEST_NULL)
        r->state = ftk_req_ops_of(r)->taken(r);
}

/* ---- the program's requests ------------------------------------------------------------- */

struct ftk_req_pool ftk_req_pool;

struct ftk_req *ftk_req_blank(void)
{
    struct ftk_req *r = ftk_req_pool.free;
    if (!ftk_req_pool.at)
        ftk_req_pool.at = reserve(POOL_MAX * sizeof *ftk_req_pool.at);
    if (!ftk_req_pool.at)
        return NULL;
    if (r)
        ftk_req_pool.free = r->next;
    else if (ftk_req_pool.used < POOL_MAX)
        r = &ftk_req_pool.at[ftk_req_pool.used++];
    else
        return NULL;
    memset(r, 0, sizeof *r);
    r->state = FTK_REQ_COMPLETE;
    r->real = MPI_REQUEST_NULL;
    r->born = ftk_log.ctx->where < FTK_IN_LOOP
                  ? 0
                  : (uint32_t)ftk_log.line.count; /* set-up precedes all lines */
    return r;
}

void ftk_req_persist(struct ftk_req *r)
{
    r->persistent = true;
    r->state = FTK_REQ_INACTIVE;
    r->id = ftk_queue_persist();
    if (ftk_log.ctx->where < FTK_IN_LOOP)
        ftk_log.queue.set_up = r->id;
}

/* A request that sends on vc will share. */
static struct ftk_req *share_one(struct ftk_vcomm *vc)
{
    struct ftk_req *r = ftk_log.vcomms.spare;
    if (r)
        ftk_log.vcomms.spare = r->next;
    else
        r = ftk_req_blank();
    if (!r)
        return NULL;
    ftk_status_empty(&r->status);
    r->vc = vc;
    vc->sent = r;
    return r;
}

struct ftk_req *ftk_req_sent(struct ftk_vcomm *vc)
{
    struct ftk_req *r = vc->sent ? vc->sent : share_one(vc);
    if (!r)
        return NULL;
    r->state = FTK_REQ_COMPLETE;
    r->send.handles++;
    ftk_vcomm_hold(vc); /* for each handle */
    return r;
}

/* The program has lost n handles of a shared request. */
static void give_back(struct ftk_req *r, size_t n)
{
    r->send.handles -= n;
    r->vc->refs -= (uint32_t)n;
    if (r->send.handles == 0)
        r->state = FTK_REQ_FREE;
}

void ftk_req_delete(struct ftk_req *r)
{
    if (r->state == FTK_REQ_FREE)
        return; /* a handle from before a rollback */
    if (r->send.handles > 0) {
        give_back(r, 1);
        return;
    }
    if (r->own) /* seldom: this saves the call */
        free(r->own);
    r->own = NULL;
    ftk_vcomm_drop(r->vc);
    r->state = FTK_REQ_FREE;
    r->next = ftk_req_pool.free;
    ftk_req_pool.free = r;
}

void ftk_req_delete_freed(struct ftk_req *r)
{
    ftk_vcomm_hold(r->vc);
    ftk_vcomm_let_go(r->vc);
    ftk_req_delete(r);
}

int ftk_req_number(const struct ftk_req *r)
{
    return (int)(r - ftk_req_pool.at);
}

struct ftk_req *ftk_req_numbered(int number)
{
    return number >= 0 && (size_t)number < ftk_req_pool.used ? &ftk_req_pool.at[number] : NULL;
}

/* Whether a request uses the type: one that is under way, or persistent, or a receive that is
 * complete, whose memory a set has to find. */
static bool uses_type(MPI_Datatype type)
{
    for (const struct ftk_req *r = ftk_log.queue.first; r; r = r->next)
        if (r->type == type)
            return true;
    for (size_t i = 0; i < ftk_req_pool.used; i++)
        if (ftk_req_pool.at[i].state != FTK_REQ_FREE && ftk_req_pool.at[i].type == type
            && (ftk_req_pool.at[i].persistent || ftk_req_ops_of(&ftk_req_pool.at[i])->keeps_type))
            return true;
    return false;
}

/* Whether a persistent request was made since the line.  A rank that has the state of its sibling
 * at the line was elsewhere before: its requests since the line before are not its sibling's. */
static bool is_since(const struct ftk_req *r)
{
    const struct ftk_log_line *l = &ftk_log.line;
    return l->count > 0 && r->born > 0 && r->born + (l->of_sibling ? 1 : 0) >= l->count;
}

/* This rank rolls back: delete the program's requests; persistent ones become inactive, and stale
 * if the program made them after the line. */
static void forget(void)
{
    for (size_t i = 0; i < ftk_req_pool.used; i++) {
        struct ftk_req *r = &ftk_req_pool.at[i];
        if (r->state == FTK_REQ_FREE)
            continue;
        if (r->send.handles > 0) {
            give_back(r, r->send.handles);
            continue;
        }
        if (r->freed_active) {
            ftk_req_delete_freed(r);
            continue;
        }
        if (!r->persistent) {
            ftk_req_delete(r);
            continue;
        }
        if (r->state == FTK_REQ_INACTIVE)
            ftk_req_wake(r);
        r->stale = r->stale || is_since(r);
        ftk_req_rest(r);
    }
}

/* The persistent requests that the program made before its cut. */
static uint32_t made_at_cut;

static int cut(bool apart)
{
    (void)apart;
    made_at_cut = ftk_log.queue.npersistent;
    return FTKIT_OK;
}

/* Persistent requests that were made after the cut are made after the line. */
static void pass_line(enum ftk_pass kind, bool first)
{
    (void)first;
    for (size_t i = 0; kind == FTK_PASS_CUT && i < ftk_req_pool.used; i++) {
        struct ftk_req *r = &ftk_req_pool.at[i];
        if (r->state != FTK_REQ_FREE && r->persistent && r->id > made_at_cut && !r->stale)
            r->born = (uint32_t)ftk_log.line.count;
    }
}

/* ---- datatypes in use: a receive may have to be posted again, with its type ---------- */

static MPI_Datatype *late;
static size_t nlate, late_room;

int ftk_req_type_free(MPI_Datatype *datatype)
{
    ftk_dtype_forget(*datatype);
    if (!uses_type(*datatype))
        return PMPI_Type_free(datatype);
    if (!ftk_grow(&late, &late_room, nlate + 1, sizeof(MPI_Datatype)))
        return MPI_ERR_NO_MEM;
    late[nlate++] = *datatype;
    *datatype = MPI_DATATYPE_NULL;
    return MPI_SUCCESS;
}

static void free_late_types(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < nlate; i++) {
        if (uses_type(late[i])) {
            late[kept++] = late[i];
            continue;
        }
        ftk_dtype_forget(late[i]);
        (void)PMPI_Type_free(&late[i]); /* there is no call to return an error */
    }
    nlate = kept;
}

/* Back to the pool. */
static void free_shared(struct ftk_req *r)
{
    r->next = ftk_req_pool.free;
    ftk_req_pool.free = r;
}

/* A request at rest can never start again. */
static void lose_comm(struct ftk_req *r)
{
    ftk_req_wake(r);
    ftk_vcomm_drop(r->vc);
    r->vc = &ftk_vcomm_lost;
    ftk_vcomm_hold(r->vc);
    ftk_req_rest(r);
}

/* No communicator outlives the log: the program's persistent requests lose theirs. */
static void let_comms_go(void)
{
    for (struct ftk_vcomm *vc = ftk_log.vcomms.list; vc; vc = vc->next) {
        if (vc->sent)
            free_shared(vc->sent);
        vc->sent = NULL;
    }
    for (struct ftk_req *r = ftk_log.vcomms.spare, *next; r; r = next) {
        next = r->next;
        free_shared(r);
    }
    ftk_log.vcomms.spare = NULL;
    for (size_t i = 0; i < ftk_req_pool.used; i++)
        if (ftk_req_pool.at[i].state != FTK_REQ_FREE)
            lose_comm(&ftk_req_pool.at[i]);
}

static void close_requests(void)
{
    made_at_cut = 0;
    let_comms_go();
    free_late_types();
    if (nlate > 0)
        return; /* types of persistent requests that the program has not freed */
    free(late);
    late = NULL;
    late_room = 0;
}

static void *reserve(size_t bytes)
{
    void *p = mmap(
        NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* ---- the part ------------------------------------------------------------------------ */

static bool sends(void)
{
    for (const struct ftk_req *r = ftk_log.queue.first; r; r = r->next)
        if (ftk_req_is_send(r))
            return true;
    return false;
}

const struct ftk_part ftk_part_requests = {
    .forget = forget, .close = close_requests, .sends = sends, .cut = cut, .line = pass_line
};
