/* Collectives: the steps of a schedule that send and receive nothing.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "core/memory_kind.h"
#include "log/base/dtype.h"
#include "log/base/stage.h"
#include "log/coll/schedule.h"

/* Copy from one datatype to another. */
static int copy(const struct ftk_step *s)
{
    MPI_Comm self;
    struct ftk_stage m; /* of the side that is not packed: the other one is memory of the log */
    int at = 0;
    int rc = ftk_dtype_self(&self);
    if (rc != MPI_SUCCESS)
        return rc;
    if (s->into_type == MPI_PACKED) {
        rc = ftk_stage_begin(&m, s->from, s->count, s->type);
        if (rc == MPI_SUCCESS)
            rc = PMPI_Pack(m.at, s->count, s->type, s->into, s->into_count, &at, self);
        return ftk_stage_end(&m, false, rc);
    }
    if (s->type == MPI_PACKED) {
        rc = ftk_stage_begin(&m, s->into, s->into_count, s->into_type);
        if (rc == MPI_SUCCESS)
            rc = PMPI_Unpack(s->from, s->count, &at, m.at, s->into_count, s->into_type, self);
        return ftk_stage_end(&m, true, rc);
    }
    return ftk_dtype_convert(s->from, s->count, s->type, s->into, s->into_count, s->into_type);
}

/* into = from op into */
static int reduce(const struct ftk_step *s, MPI_Op op)
{
    struct ftk_stage from, into;
    int rc = ftk_stage_begin(&from, s->from, s->count, s->type);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = ftk_stage_begin(&into, s->into, s->count, s->type);
    if (rc == MPI_SUCCESS)
        rc = PMPI_Reduce_local(from.at, into.at, s->count, s->type, op);
    rc = ftk_stage_end(&into, true, rc);
    return ftk_stage_end(&from, false, rc);
}

int ftk_step_local(const struct ftk_step *s, MPI_Op op)
{
    if (s->kind == FTK_STEP_COPY)
        return copy(s);
    if (s->kind == FTK_STEP_REDUCE)
        return reduce(s, op);
    return ftk_stage_failed(ftk_memory_copy(s->into, s->from, s->bytes));
}
