/* Requests of the MPI in the program's waits and tests (see foreign.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "log/base/layer.h"
#include "log/base/part.h"
#include "log/base/runtime.h"

static struct ftk_foreign_request *find(MPI_Request h)
{
    return ftk_layer() ? ftk_foreign_find(ftk_layer()->foreign, h) : NULL;
}

/* No state is known. */
static int start(void)
{
    struct ftk_foreign *f = ftk_layer()->foreign;
    for (size_t i = 0; i < f->room; i++)
        f->at[i].state = FTK_FOREIGN_UNKNOWN;
    return FTKIT_OK;
}

int ftk_foreign_made(int rc, const MPI_Request *request)
{
    if (rc == MPI_SUCCESS && ftk_layer())
        rc = ftk_foreign_add(ftk_layer()->foreign, *request);
    struct ftk_foreign_request *f = rc == MPI_SUCCESS ? find(*request) : NULL;
    if (f)
        f->state = FTK_FOREIGN_INACTIVE;
    return rc;
}

/* A request that was started while the log was off.  MPI_Testany shows whether a request is
 * inactive or complete, but completes it: the program gets the completion later. */
static void find_out(struct ftk_foreign_request *f)
{
    int done = 0, index = MPI_UNDEFINED;
    if (PMPI_Request_get_status(f->request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) {
        f->state = FTK_FOREIGN_ACTIVE;
        return;
    }
    MPI_Request same = f->request; /* it is persistent and stays */
    f->error = PMPI_Testany(1, &same, &index, &done, &f->status);
    f->state = f->error == MPI_SUCCESS && index == MPI_UNDEFINED ? FTK_FOREIGN_INACTIVE
                                                                 : FTK_FOREIGN_TAKEN;
}

bool ftk_foreign_is_active(MPI_Request h)
{
    struct ftk_foreign_request *f = find(h);
    if (f && f->state == FTK_FOREIGN_UNKNOWN)
        find_out(f);
    return !f || f->state != FTK_FOREIGN_INACTIVE;
}

/* The completion that the MPI has reported already goes to the program. */
static int give(struct ftk_foreign_request *f, MPI_Status *status)
{
    f->state = FTK_FOREIGN_INACTIVE;
    ftk_status_copy(status, &f->status);
    return f->error;
}

int ftk_foreign_test(MPI_Request *h, int *done, MPI_Status *status)
{
    struct ftk_foreign_request *f = find(*h);
    *done = 1;
    if (f && f->state == FTK_FOREIGN_TAKEN)
        return give(f, status);
    int rc = PMPI_Test(h, done, status);
    *done = *done || rc != MPI_SUCCESS;
    if (f && *done)
        f->state = FTK_FOREIGN_INACTIVE;
    return rc;
}

int ftk_foreign_wait(MPI_Request *h, MPI_Status *status)
{
    struct ftk_foreign_request *f = find(*h);
    if (f && f->state == FTK_FOREIGN_TAKEN)
        return give(f, status);
    int rc = PMPI_Wait(h, status);
    if (f)
        f->state = FTK_FOREIGN_INACTIVE;
    return rc;
}

int ftk_foreign_get_status(MPI_Request h, int *done, MPI_Status *status)
{
    const struct ftk_foreign_request *f = find(h);
    if (!f || f->state != FTK_FOREIGN_TAKEN)
        return PMPI_Request_get_status(h, done, status);
    *done = 1;
    ftk_status_copy(status, &f->status);
    return MPI_SUCCESS;
}

int ftk_foreign_start(MPI_Request *h)
{
    struct ftk_foreign_request *f = find(*h);
    if (f && f->state == FTK_FOREIGN_TAKEN)
        return MPI_ERR_REQUEST; /* the program has not completed it */
    int rc = PMPI_Start(h);
    if (f && rc == MPI_SUCCESS)
        f->state = FTK_FOREIGN_ACTIVE;
    return rc;
}

int ftk_foreign_free(MPI_Request *h)
{
    const MPI_Request request = *h;
    int rc = PMPI_Request_free(h);
    if (rc == MPI_SUCCESS && ftk_layer())
        ftk_foreign_remove(ftk_layer()->foreign, request);
    return rc;
}

const struct ftk_part ftk_part_foreign = { .start = start };
