/* One-sided operations, as the program calls them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Each call checks its arguments at the origin, so that no operation fails at its target. */
#include <stdlib.h>

#include "log/base/saved.h"
#include "log/coll/coll.h"
#include "log/request/req_ops.h"
#include "log/win/passive.h"
#include "log/win/quick.h"
#include "log/win/win.h"
#include "mpi_calls.h"

/* ---- arguments ----------------------------------------------------------------------- */

static bool is_started(const struct ftk_win *w, int target)
{
    for (int i = 0; i < w->nstart; i++)
        if (w->start[i] == target)
            return true;
    return false;
}

/* Whether operations on the target are of the epoch of a fence. */
static bool is_fenced(const struct ftk_win *w, int target)
{
    return !ftk_win_is_locked(w, target) && w->nstart < 0 && w->fence;
}

static int access_epoch(const struct ftk_win *w, int target)
{
    return ftk_win_is_locked(w, target) || is_fenced(w, target) || is_started(w, target)
               ? MPI_SUCCESS
               : MPI_ERR_RMA_SYNC;
}

/* Whether the items of the target are in its window. */
static int check_range(const struct ftk_win *w, const struct ftk_win_operation *o)
{
    const struct ftk_win_place *p = &w->place[o->target];
    ptrdiff_t low, end;
    int rc = ftk_saved_span((size_t)o->count, o->type, &low, &end);
    if (rc != MPI_SUCCESS)
        return rc;
    if (o->disp < 0)
        return MPI_ERR_DISP;
    if (end == low || w->dynamic) /* the target knows what is attached */
        return MPI_SUCCESS;
    if (o->disp > INT64_MAX / p->unit || o->disp * p->unit > p->size || o->disp * p->unit + low < 0
        || end > p->size - o->disp * p->unit)
        return MPI_ERR_RMA_RANGE;
    return MPI_SUCCESS;
}

static int check_side(int count, MPI_Datatype type, size_t *bytes)
{
    if (count < 0)
        return MPI_ERR_COUNT;
    if (type == MPI_DATATYPE_NULL)
        return MPI_ERR_TYPE;
    return ftk_dtype_size(count, type, bytes);
}

/* Whether the operation combines the elements of the type. */
static int check_op(const struct ftk_win_operation *o)
{
    MPI_Datatype element;
    uint64_t number;
    if (o->op == MPI_OP_NULL || !ftk_coll_op_number(o->op, &number) || number > UINT32_MAX
        || (o->op == MPI_NO_OP && o->kind == FTK_WIN_ACCUMULATE))
        return MPI_ERR_OP;
    int rc = ftk_win_element(o->type, &element);
    if (rc == MPI_SUCCESS && element == MPI_DATATYPE_NULL)
        rc = MPI_ERR_TYPE;
    return rc == MPI_SUCCESS && !ftk_win_combines(element, o->op) ? MPI_ERR_OP : rc;
}

/* Windows, and the data of their operations, are host memory. */
static bool is_host(const void *buf)
{
    return ftk_memory_is_host(ftk_memory_kind_of(buf));
}

/* Check the arguments; *none: the target is MPI_PROC_NULL. */
static int check(const struct ftk_win *w, const struct ftk_win_operation *o, bool *none)
{
    size_t origin = 0, result = 0, target = 0;
    const bool has_data = o->kind != FTK_WIN_GET && o->op != MPI_NO_OP;
    const bool has_result = o->kind == FTK_WIN_GET || o->kind >= FTK_WIN_GET_ACCUMULATE;
    *none = o->target == MPI_PROC_NULL;
    int rc = check_side(o->count, o->type, &target);
    if (rc == MPI_SUCCESS && has_data)
        rc = check_side(o->origin_count, o->origin_type, &origin);
    if (rc == MPI_SUCCESS && has_result)
        rc = check_side(o->result_count, o->result_type, &result);
    if (rc == MPI_SUCCESS && (o->target < 0 || o->target >= w->vc->size) && !*none)
        rc = MPI_ERR_RANK;
    if (rc == MPI_SUCCESS && (o->kind == FTK_WIN_ACCUMULATE || o->kind == FTK_WIN_GET_ACCUMULATE))
        rc = check_op(o);
    if (rc != MPI_SUCCESS || *none)
        return rc;
    rc = access_epoch(w, o->target);
    if (rc == MPI_SUCCESS && !(is_host(o->origin) && is_host(o->compare) && is_host(o->result)))
        rc = MPI_ERR_BUFFER;
    if (rc == MPI_SUCCESS)
        rc = check_range(w, o);
    if (rc == MPI_SUCCESS && ((has_data && origin != target) || (has_result && result < target)))
        rc = MPI_ERR_TRUNCATE;
    return rc;
}

/* ---- operations ---------------------------------------------------------------------- */

/* bytes of a queue with a lock, or of its answer: the queue is sent before a flush */
#define MUCH (64 << 10)

int ftk_win_begin_op(struct ftk_win *w, const struct ftk_win_operation *o, enum ftk_win_way *way)
{
    bool none = false;
    *way = FTK_WIN_NOWHERE;
    if (ftk_log_is_rolling_back())
        return ftk_log_error();
    int rc = check(w, o, &none);
    if (rc != MPI_SUCCESS || none)
        return rc;
    *way = ftk_win_direct(w, o, &rc) ? FTK_WIN_DIRECT : FTK_WIN_QUEUED;
    if (*way == FTK_WIN_QUEUED)
        rc = ftk_win_queue_add(w, o);
    if (rc == MPI_SUCCESS && is_fenced(w, o->target))
        w->used = true;
    return rc;
}

static int do_op(struct ftk_win *w, const struct ftk_win_operation *o)
{
    enum ftk_win_way way;
    int rc = ftk_win_begin_op(w, o, &way);
    if (rc == MPI_SUCCESS && way == FTK_WIN_QUEUED && ftk_win_is_locked(w, o->target)
        && (w->queue[o->target].bytes > MUCH || w->queue[o->target].reply > MUCH))
        rc = ftk_win_push(w, o->target, false);
    return ftk_win_end(w, rc);
}

/* The items that a call has in the memory of its target. */
#define TARGET_ITEMS(count, type)                                                                  \
    &(const struct ftk_win_items)                                                                  \
    {                                                                                              \
        win, target_rank, target_disp, count, type                                                 \
    }

#define ON_WINDOW(real, ...)                                                                       \
    FTK_WIN_OPERATION(real, __VA_ARGS__)                                                           \
    return do_op(w, &o)

int ftk_mpi_Put(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype,
    int target_rank, MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype,
    MPI_Win win)
{
    if (origin_datatype == target_datatype && origin_count == target_count
        && ftk_win_quick_put(TARGET_ITEMS(target_count, target_datatype), origin_addr))
        return MPI_SUCCESS;
    ON_WINDOW(PMPI_Put(origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                  target_count, target_datatype, win),
        .kind = FTK_WIN_PUT, .origin = origin_addr, .origin_count = origin_count,
        .origin_type = origin_datatype, .target = target_rank, .disp = target_disp,
        .count = target_count, .type = target_datatype, .op = MPI_REPLACE);
}

int ftk_mpi_Get(void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
    MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win)
{
    if (origin_datatype == target_datatype && origin_count == target_count
        && ftk_win_quick_get(TARGET_ITEMS(target_count, target_datatype), origin_addr))
        return MPI_SUCCESS;
    ON_WINDOW(PMPI_Get(origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                  target_count, target_datatype, win),
        .kind = FTK_WIN_GET, .result = origin_addr, .result_count = origin_count,
        .result_type = origin_datatype, .target = target_rank, .disp = target_disp,
        .count = target_count, .type = target_datatype, .op = MPI_NO_OP);
}

int ftk_mpi_Accumulate(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype,
    int target_rank, MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype,
    MPI_Op op, MPI_Win win)
{
    if (origin_datatype == target_datatype && origin_count == 1 && target_count == 1
        && ftk_win_quick_combine(TARGET_ITEMS(1, target_datatype), op, origin_addr, NULL))
        return MPI_SUCCESS;
    ON_WINDOW(PMPI_Accumulate(origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                  target_count, target_datatype, op, win),
        .kind = FTK_WIN_ACCUMULATE, .origin = origin_addr, .origin_count = origin_count,
        .origin_type = origin_datatype, .target = target_rank, .disp = target_disp,
        .count = target_count, .type = target_datatype, .op = op);
}

int ftk_mpi_Get_accumulate(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype,
    void *result_addr, int result_count, MPI_Datatype result_datatype, int target_rank,
    MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Op op, MPI_Win win)
{
    ON_WINDOW(
        PMPI_Get_accumulate(origin_addr, origin_count, origin_datatype, result_addr, result_count,
            result_datatype, target_rank, target_disp, target_count, target_datatype, op, win),
        .kind = FTK_WIN_GET_ACCUMULATE, .origin = origin_addr, .origin_count = origin_count,
        .origin_type = origin_datatype, .result = result_addr, .result_count = result_count,
        .result_type = result_datatype, .target = target_rank, .disp = target_disp,
        .count = target_count, .type = target_datatype, .op = op);
}

int ftk_mpi_Fetch_and_op(const void *origin_addr, void *result_addr, MPI_Datatype datatype,
    int target_rank, MPI_Aint target_disp, MPI_Op op, MPI_Win win)
{
    if (ftk_win_quick_combine(TARGET_ITEMS(1, datatype), op, origin_addr, result_addr))
        return MPI_SUCCESS;
    ON_WINDOW(
        PMPI_Fetch_and_op(origin_addr, result_addr, datatype, target_rank, target_disp, op, win),
        .kind = FTK_WIN_GET_ACCUMULATE, .origin = origin_addr, .origin_count = 1,
        .origin_type = datatype, .result = result_addr, .result_count = 1, .result_type = datatype,
        .target = target_rank, .disp = target_disp, .count = 1, .type = datatype, .op = op);
}

int ftk_mpi_Compare_and_swap(const void *origin_addr, const void *compare_addr, void *result_addr,
    MPI_Datatype datatype, int target_rank, MPI_Aint target_disp, MPI_Win win)
{
    if (ftk_win_quick_swap(TARGET_ITEMS(1, datatype), origin_addr, compare_addr, result_addr))
        return MPI_SUCCESS;
    ON_WINDOW(PMPI_Compare_and_swap(
                  origin_addr, compare_addr, result_addr, datatype, target_rank, target_disp, win),
        .kind = FTK_WIN_SWAP, .origin = origin_addr, .compare = compare_addr, .origin_count = 1,
        .origin_type = datatype, .result = result_addr, .result_count = 1, .result_type = datatype,
        .target = target_rank, .disp = target_disp, .count = 1, .type = datatype,
        .op = MPI_REPLACE);
}
