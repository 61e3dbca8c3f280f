/* One-sided operations with requests: a kind of request.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The data of an operation are copied in its call.  So a request without a result is complete at
 * once, and any other one when the target has answered. */
#include <stdio.h>
#include <stdlib.h>

#include "log/request/req_ops.h"
#include "log/win/near.h"
#include "log/win/passive.h"
#include "mpi_calls.h"

/* What a request waits for. */
struct awaited {
    uint64_t win; /* id of the window; it may be gone: then the target has answered */
    int target;
    uint64_t serial;
    const char *result; /* the bytes [low, end) of it */
    ptrdiff_t low, end;
};

static struct awaited *of(const struct ftk_req *r)
{
    return (struct awaited *)(void *)r->own;
}

static int progress(struct ftk_req *r)
{
    const struct awaited *a = of(r);
    const struct ftk_win *w = ftk_wins;
    const int error = r->error; /* of the operation */
    while (w && w->id != a->win)
        w = w->next;
    if (w && w->passive && w->passive->done[a->target] < a->serial)
        return MPI_SUCCESS;
    (void)ftk_req_finish(r, error);           /* returns error */
    return w ? ftk_win_end(w, error) : error; /* the call that waits has no handler of the window */
}

static void describe(const struct ftk_req *r, char *text, size_t room)
{
    char comm[MPI_MAX_OBJECT_NAME + 64];
    ftk_vcomm_describe(r->vc, comm, sizeof comm);
    snprintf(
        text, room, "a one-sided operation on rank %d of %s", of(r) ? of(r)->target : -1, comm);
}

static const char *unfit(const struct ftk_req *r)
{
    return ftk_req_is_done(r) ? NULL : "its target has not answered";
}

/* The request is complete: it has at most the address of its result.  A request from a set has
 * none. */
static int save(struct ftk_saving *s, const struct ftk_req *r, uint64_t *head)
{
    const struct awaited *a = of(r);
    uint64_t place[FTK_PLACE_WORDS];
    bool found = true;
    int rc = FTKIT_OK;
    (void)head;
    if (a && a->end > a->low)
        rc = ftk_saving_place(s, a->result, a->low, a->end, place, &found);
    return rc != FTKIT_OK || found ? rc : ftk_saved_nowhere(s->ctx, r, a->result, a->low, a->end);
}

const struct ftk_req_ops ftk_req_kind_rma = {
    .progress = progress, .describe = describe, .unfit = unfit, .save = save
};

void ftk_win_requests_look(void)
{
    for (size_t i = 0; i < ftk_req_pool.used; i++) {
        struct ftk_req *r = &ftk_req_pool.at[i];
        if (r->state == FTK_REQ_RUNNING && r->kind == FTK_REQ_RMA)
            (void)progress(r); /* the request has the error */
    }
}

/* ---- the calls ----------------------------------------------------------------------- */

/* The operation is in the queue: send the queue if its result is awaited. */
static int begin(struct ftk_win *w, const struct ftk_win_operation *o, struct ftk_req *r)
{
    enum ftk_win_way way;
    if (o->target >= 0 && o->target < w->vc->size && !ftk_win_is_locked(w, o->target))
        return MPI_ERR_RMA_SYNC; /* these calls need a lock */
    int rc = ftk_win_begin_op(w, o, &way);
    r->state = FTK_REQ_COMPLETE;
    if (rc != MPI_SUCCESS || way == FTK_WIN_NOWHERE || o->kind == FTK_WIN_PUT
        || o->kind == FTK_WIN_ACCUMULATE)
        return rc;
    struct awaited a = { w->id, o->target, w->passive->sent[o->target] + 1, o->result, 0, 0 };
    rc = ftk_saved_span((size_t)o->result_count, o->result_type, &a.low, &a.end);
    *of(r) = a;
    if (way == FTK_WIN_DIRECT) {
        ftk_win_near_flushed(w, o->target); /* as the message of a queue has all operations */
        return rc == MPI_SUCCESS ? ftk_win_serve_sometimes(w) : rc;
    }
    struct ftk_win_queue *q = &w->queue[o->target];
    q->fetch[q->nfetch - 1].request = rc == MPI_SUCCESS ? r : NULL;
    r->state = FTK_REQ_RUNNING; /* the answer may come at once */
    if (rc == MPI_SUCCESS)
        rc = ftk_win_push(w, o->target, false);
    return rc == MPI_SUCCESS && o->target == w->vc->rank ? ftk_win_serve_once(w) : rc;
}

static int make(struct ftk_win *w, const struct ftk_win_operation *o, MPI_Request *request)
{
    struct ftk_req *r = ftk_log_is_rolling_back() ? NULL : ftk_req_new(w->vc);
    *request = MPI_REQUEST_NULL;
    if (r) {
        r->kind = FTK_REQ_RMA;
        r->real = MPI_REQUEST_NULL;
        r->seq = ftk_queue_next();
        struct awaited *nothing = calloc(1, sizeof *nothing);
        r->own = (char *)nothing;
        ftk_status_empty(&r->status);
    }
    int rc = r && r->own                 ? begin(w, o, r)
             : ftk_log_is_rolling_back() ? ftk_log_error()
                                         : MPI_ERR_NO_MEM;
    if (rc == MPI_SUCCESS) {
        *request = ftk_req_handle(r);
        return rc;
    }
    if (r) {
        r->state = FTK_REQ_COMPLETE;
        ftk_req_delete(r);
    }
    return ftk_win_error(w, rc);
}

#define ON_WINDOW(real, ...)                                                                       \
    FTK_WIN_OPERATION(real, __VA_ARGS__)                                                           \
    return make(w, &o, request)

int ftk_mpi_Rput(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype,
    int target_rank, MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype,
    MPI_Win win, MPI_Request *request)
{
    ON_WINDOW(PMPI_Rput(origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                  target_count, target_datatype, win, request),
        .kind = FTK_WIN_PUT, .origin = origin_addr, .origin_count = origin_count,
        .origin_type = origin_datatype, .target = target_rank, .disp = target_disp,
        .count = target_count, .type = target_datatype, .op = MPI_REPLACE);
}

int ftk_mpi_Rget(void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
    MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win,
    MPI_Request *request)
{
    ON_WINDOW(PMPI_Rget(origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                  target_count, target_datatype, win, request),
        .kind = FTK_WIN_GET, .result = origin_addr, .result_count = origin_count,
        .result_type = origin_datatype, .target = target_rank, .disp = target_disp,
        .count = target_count, .type = target_datatype, .op = MPI_NO_OP);
}

int ftk_mpi_Raccumulate(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype,
    int target_rank, MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype,
    MPI_Op op, MPI_Win win, MPI_Request *request)
{
    ON_WINDOW(PMPI_Raccumulate(origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                  target_count, target_datatype, op, win, request),
        .kind = FTK_WIN_ACCUMULATE, .origin = origin_addr, .origin_count = origin_count,
        .origin_type = origin_datatype, .target = target_rank, .disp = target_disp,
        .count = target_count, .type = target_datatype, .op = op);
}

int ftk_mpi_Rget_accumulate(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype,
    void *result_addr, int result_count, MPI_Datatype result_datatype, int target_rank,
    MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Op op, MPI_Win win,
    MPI_Request *request)
{
    ON_WINDOW(PMPI_Rget_accumulate(origin_addr, origin_count, origin_datatype, result_addr,
                  result_count, result_datatype, target_rank, target_disp, target_count,
                  target_datatype, op, win, request),
        .kind = FTK_WIN_GET_ACCUMULATE, .origin = origin_addr, .origin_count = origin_count,
        .origin_type = origin_datatype, .result = result_addr, .result_count = result_count,
        .result_type = result_datatype, .target = target_rank, .disp = target_disp,
        .count = target_count, .type = target_datatype, .op = op);
}
