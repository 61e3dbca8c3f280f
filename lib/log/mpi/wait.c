/* The program's waits and tests in log mode.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Arrays may hold requests of the log and requests of the MPI (of calls on other communicators, of
 * files, generalized requests).  The MPI tests its own. */
#include <stdlib.h>
#include <string.h>

#include "log/base/runtime.h"
#include "log/determinant/det.h"
#include "log/mode.h"
#include "log/request/req_ops.h"
#include "mpi_calls.h" /* foreign.h, too */

/* Whether a wait counts the request h, which is r if it is one of the log.  Inactive requests are
 * complete with an empty status. */
static bool is_counted(MPI_Request h, const struct ftk_req *r)
{
    return r ? r->state > FTK_REQ_INACTIVE : h != MPI_REQUEST_NULL && ftk_foreign_is_active(h);
}

static bool is_active(MPI_Request h)
{
    return is_counted(h, ftk_req_of(h));
}

/* The completion has been reported: delete the request, or a persistent one becomes inactive. */
static void consume(MPI_Request *h, struct ftk_req *r)
{
    if (r->persistent) {
        ftk_req_rest(r);
        return;
    }
    ftk_req_delete(r);
    *h = MPI_REQUEST_NULL;
}

/* The communicator of the first failed request of a call, kept: the error goes to its error
 * handler, and a line may be committed before. */
static struct ftk_vcomm *failed_on;

/* One look; *done: the request is consumed, with its error and status. */
static int test_one(MPI_Request *h, int *done, MPI_Status *status)
{
    struct ftk_req *r = ftk_req_of(*h);
    if (!is_counted(*h, r)) {
        *done = 1;
        ftk_status_none(status);
        return MPI_SUCCESS;
    }
    if (!r)
        return ftk_foreign_test(h, done, status);
    if (!ftk_req_is_done(r) || r->pair || r->then)
        (void)ftk_req_progress(r);
    *done = ftk_req_is_done(r);
    if (!*done)
        return MPI_SUCCESS;
    int rc = r->error;
    if (rc != MPI_SUCCESS && !failed_on) {
        failed_on = r->vc;
        ftk_vcomm_keep(failed_on);
    }
    ftk_status_copy(status, &r->status);
    consume(h, r);
    return rc;
}

static int end(int rc)
{
    const struct ftk_vcomm *vc = failed_on ? failed_on : ftk_log.vcomms.world;
    if (failed_on)
        ftk_vcomm_let_go(failed_on); /* not deleted within this call */
    failed_on = NULL;
    return ftk_vcomm_end(vc, rc);
}

int ftk_mpi_Wait(MPI_Request *request, MPI_Status *status)
{
    struct ftk_req *r = ftk_req_of(*request);
    if (!is_counted(*request, r)) {
        ftk_status_none(status);
        return MPI_SUCCESS;
    }
    if (!r)
        return ftk_foreign_wait(request, status);
    int rc = ftk_req_wait(r);
    const struct ftk_vcomm *vc = r->vc;
    ftk_status_copy(status, &r->status);
    consume(request, r);
    return ftk_vcomm_end(vc, rc);
}

/* ---- tests: their outcomes are determinants ------------------------------------------ */

/* A test that fails because a determinant says so. */
static int nothing_again(void)
{
    static unsigned turns;
    return end(ftk_log_progress(&turns));
}

/* A test that found nothing. */
static int nothing(void)
{
    static unsigned turns;
    ftk_det_found_nothing();
    return end(ftk_log_progress(&turns));
}

/* Wait until a request is complete, because a determinant says so; the request is not consumed. */
static void await(MPI_Request h)
{
    struct ftk_req *r = ftk_req_of(h);
    unsigned turns = 0;
    int done = 0;
    if (!is_active(h))
        return;
    if (r)
        (void)ftk_req_wait(r); /* the error is returned when the request is consumed */
    while (!r && !done && ftk_foreign_get_status(h, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS)
        if (ftk_log_progress(&turns) != MPI_SUCCESS)
            return;
}

static void await_all(int count, const MPI_Request requests[])
{
    for (int i = 0; i < count; i++)
        await(requests[i]);
}

/* Whether the outcome of a test depends on no request. */
static bool none_active(int count, const MPI_Request requests[])
{
    for (int i = 0; i < count; i++)
        if (is_active(requests[i]))
            return false;
    return true;
}

/* Whether a call is refused because its outcome would be a determinant. */
static bool is_refused(const char *call, int count, const MPI_Request requests[])
{
    return !none_active(count, requests) && ftk_log_refuses(call);
}

int ftk_mpi_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    const struct ftk_det *d;
    *flag = 0;
    if (is_refused("MPI_Test", 1, request))
        return end(MPI_ERR_UNSUPPORTED_OPERATION);
    int next = none_active(1, request) ? FTK_DET_THIS : ftk_det_next(FTK_DET_TEST, &d);
    if (next == FTK_DET_NOTHING)
        return nothing_again();
    if (next == FTK_DET_THIS)
        await(*request);
    int rc = test_one(request, flag, status);
    if (!*flag)
        return nothing();
    if (next == FTK_DET_FREE)
        ftk_det_found(FTK_DET_TEST, 0, 0);
    return end(rc);
}

/* ---- all ----------------------------------------------------------------------------- */

/* One look at a request, which is not consumed. */
static int look_at_one(MPI_Request h, bool *done)
{
    struct ftk_req *r = ftk_req_of(h);
    int flag = 1;
    int rc = MPI_SUCCESS;
    if (is_active(h) && r) {
        (void)ftk_req_progress(r);
        flag = ftk_req_is_done(r);
    } else if (is_active(h)) {
        rc = ftk_foreign_get_status(h, &flag, MPI_STATUS_IGNORE);
        flag = flag || rc != MPI_SUCCESS;
    }
    *done = flag != 0;
    return rc;
}

static MPI_Status *nth(MPI_Status *statuses, int i)
{
    return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];
}

/* Consume n requests: those with the indices [n], or with NULL the first n. */
static int take_some(int n, const int *indices, MPI_Request requests[], MPI_Status *statuses)
{
    int result = MPI_SUCCESS;
    for (int i = 0; i < n; i++) {
        int done = 0;
        int rc = test_one(&requests[indices ? indices[i] : i], &done, nth(statuses, i));
        if (nth(statuses, i) != MPI_STATUS_IGNORE)
            statuses[i].MPI_ERROR = done ? rc : MPI_ERR_PENDING;
        if (rc != MPI_SUCCESS)
            result = statuses == MPI_STATUSES_IGNORE ? rc : MPI_ERR_IN_STATUS;
    }
    return result;
}

/* Wait until a request is complete, and consume the request.  MPI_ERR_PENDING: the request cannot
 * be complete, because this rank rolls back. */
static int wait_one(MPI_Request *request, MPI_Status *status, unsigned *turns)
{
    int done = 0;
    for (;;) {
        int rc = test_one(request, &done, status);
        if (done)
            return rc;
        rc = ftk_log_progress(turns);
        if (rc == MPI_SUCCESS)
            continue;
        rc = test_one(request, &done, status);
        return done ? rc : MPI_ERR_PENDING;
    }
}

int ftk_mpi_Waitall(int count, MPI_Request array_of_requests[], MPI_Status *statuses)
{
    unsigned turns = 0;
    int result = MPI_SUCCESS;
    for (int i = 0; i < count; i++) {
        MPI_Status *status = nth(statuses, i);
        int rc = wait_one(&array_of_requests[i], status, &turns);
        if (status != MPI_STATUS_IGNORE)
            status->MPI_ERROR = rc;
        if (rc != MPI_SUCCESS)
            result = statuses == MPI_STATUSES_IGNORE ? rc : MPI_ERR_IN_STATUS;
    }
    return end(result);
}

int ftk_mpi_Testall(
    int count, MPI_Request array_of_requests[], int *flag, MPI_Status array_of_statuses[])
{
    const struct ftk_det *d;
    bool all = true;
    *flag = 0;
    if (is_refused("MPI_Testall", count, array_of_requests))
        return end(MPI_ERR_UNSUPPORTED_OPERATION);
    int next =
        none_active(count, array_of_requests) ? FTK_DET_THIS : ftk_det_next(FTK_DET_TEST, &d);
    if (next == FTK_DET_NOTHING)
        return nothing_again();
    if (next == FTK_DET_THIS)
        await_all(count, array_of_requests);
    for (int i = 0; i < count; i++) {
        bool done;
        (void)look_at_one(array_of_requests[i], &done); /* its status has the error */
        all = all && done;
    }
    if (!all)
        return nothing();
    *flag = 1;
    if (next == FTK_DET_FREE)
        ftk_det_found(FTK_DET_TEST, 0, 0);
    return end(take_some(count, NULL, array_of_requests, array_of_statuses));
}

/* ---- any ----------------------------------------------------------------------------- */

/* Find and consume the first complete request; *index: MPI_UNDEFINED if there is none. */
static int find_any(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    for (int i = 0; i < count; i++) {
        int done = 0;
        if (!is_active(requests[i]))
            continue;
        int rc = test_one(&requests[i], &done, status);
        if (!done)
            continue;
        *index = i;
        return rc;
    }
    *index = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

/* The request that the determinant names. */
static int find_this(int count, MPI_Request requests[], int which, int *index, MPI_Status *status)
{
    int done = 0;
    if (which >= count)
        return MPI_ERR_REQUEST; /* the call is not that of the first execution */
    await(requests[which]);
    *index = which;
    return test_one(&requests[which], &done, status);
}

int ftk_mpi_Waitany(int count, MPI_Request array_of_requests[], int *index, MPI_Status *status)
{
    unsigned turns = 0;
    const struct ftk_det *d;
    *index = MPI_UNDEFINED;
    if (none_active(count, array_of_requests)) {
        ftk_status_none(status);
        return MPI_SUCCESS;
    }
    if (ftk_log_refuses("MPI_Waitany"))
        return end(MPI_ERR_UNSUPPORTED_OPERATION);
    if (ftk_det_next(FTK_DET_TEST, &d) == FTK_DET_THIS)
        return end(find_this(count, array_of_requests, d->a, index, status));
    for (;;) {
        int rc = find_any(count, array_of_requests, index, status);
        if (rc == MPI_SUCCESS && *index == MPI_UNDEFINED)
            rc = ftk_log_progress(&turns);
        if (*index != MPI_UNDEFINED)
            ftk_det_found(FTK_DET_TEST, *index, 0);
        if (rc != MPI_SUCCESS || *index != MPI_UNDEFINED)
            return end(rc);
    }
}

int ftk_mpi_Testany(
    int count, MPI_Request array_of_requests[], int *index, int *flag, MPI_Status *status)
{
    const struct ftk_det *d;
    *index = MPI_UNDEFINED;
    *flag = 1;
    if (none_active(count, array_of_requests)) {
        ftk_status_none(status);
        return MPI_SUCCESS;
    }
    if (ftk_log_refuses("MPI_Testany"))
        return end(MPI_ERR_UNSUPPORTED_OPERATION);
    int next = ftk_det_next(FTK_DET_TEST, &d);
    if (next == FTK_DET_THIS)
        return end(find_this(count, array_of_requests, d->a, index, status));
    *flag = 0;
    if (next == FTK_DET_NOTHING)
        return nothing_again();
    int rc = find_any(count, array_of_requests, index, status);
    if (*index == MPI_UNDEFINED)
        return nothing();
    *flag = 1;
    ftk_det_found(FTK_DET_TEST, *index, 0);
    return end(rc);
}

/* ---- some ---------------------------------------------------------------------------- */

/* Consume the requests that were complete in the first execution. */
static int find_these(int count, MPI_Request requests[], const struct ftk_det *d, int *outcount,
    int indices[], MPI_Status *statuses)
{
    *outcount = d->a;
    if (d->a > count)
        return MPI_ERR_REQUEST; /* the call is not that of the first execution */
    int n = d->a;
    for (int i = 0; i < n; i++) {
        indices[i] = d[1 + i].a;
        if (indices[i] >= count)
            return MPI_ERR_REQUEST;
    }
    for (int i = 0; i < n; i++) /* the wait may move the determinants: d is not used again */
        await(requests[indices[i]]);
    return take_some(n, indices, requests, statuses);
}

static int find_some(
    int count, MPI_Request requests[], int *outcount, int indices[], MPI_Status *statuses)
{
    int n = 0;
    for (int i = 0; i < count; i++) {
        bool done = false;
        if (!is_active(requests[i]))
            continue;
        (void)look_at_one(requests[i], &done); /* its status has the error */
        if (done)
            indices[n++] = i;
    }
    *outcount = n;
    if (n == 0)
        return MPI_SUCCESS;
    ftk_det_found(FTK_DET_SOME, n, 0);
    for (int i = 0; i < n; i++)
        ftk_det_more(indices[i]);
    return take_some(n, indices, requests, statuses);
}

int ftk_mpi_Waitsome(int incount, MPI_Request array_of_requests[], int *outcount,
    int array_of_indices[], MPI_Status array_of_statuses[])
{
    unsigned turns = 0;
    const struct ftk_det *d;
    *outcount = MPI_UNDEFINED;
    if (none_active(incount, array_of_requests))
        return MPI_SUCCESS;
    if (ftk_log_refuses("MPI_Waitsome"))
        return end(MPI_ERR_UNSUPPORTED_OPERATION);
    if (ftk_det_next(FTK_DET_SOME, &d) == FTK_DET_THIS)
        return end(find_these(
            incount, array_of_requests, d, outcount, array_of_indices, array_of_statuses));
    for (;;) {
        int rc =
            find_some(incount, array_of_requests, outcount, array_of_indices, array_of_statuses);
        if (rc == MPI_SUCCESS && *outcount == 0)
            rc = ftk_log_progress(&turns);
        if (rc != MPI_SUCCESS || *outcount != 0)
            return end(rc);
    }
}

int ftk_mpi_Testsome(int incount, MPI_Request array_of_requests[], int *outcount,
    int array_of_indices[], MPI_Status array_of_statuses[])
{
    const struct ftk_det *d;
    *outcount = MPI_UNDEFINED;
    if (none_active(incount, array_of_requests))
        return MPI_SUCCESS;
    if (ftk_log_refuses("MPI_Testsome"))
        return end(MPI_ERR_UNSUPPORTED_OPERATION);
    int next = ftk_det_next(FTK_DET_SOME, &d);
    if (next == FTK_DET_THIS)
        return end(find_these(
            incount, array_of_requests, d, outcount, array_of_indices, array_of_statuses));
    *outcount = 0;
    if (next == FTK_DET_NOTHING)
        return nothing_again();
    int rc = find_some(incount, array_of_requests, outcount, array_of_indices, array_of_statuses);
    return *outcount == 0 ? nothing() : end(rc);
}

/* ---- requests themselves ------------------------------------------------------------- */

int ftk_mpi_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    const struct ftk_det *d;
    struct ftk_req *r = ftk_req_of(request);
    if (!r && request != MPI_REQUEST_NULL)
        return ftk_foreign_get_status(request, flag, status);
    *flag = 1;
    if (!r || !is_active(request)) {
        ftk_status_none(status);
        return MPI_SUCCESS;
    }
    if (ftk_log_refuses("MPI_Request_get_status"))
        return end(MPI_ERR_UNSUPPORTED_OPERATION);
    int next = ftk_det_next(FTK_DET_TEST, &d);
    *flag = 0;
    if (next == FTK_DET_NOTHING)
        return nothing_again();
    if (next == FTK_DET_THIS)
        await(request);
    (void)ftk_req_progress(r);
    if (!ftk_req_is_done(r))
        return nothing();
    *flag = 1;
    if (next == FTK_DET_FREE)
        ftk_det_found(FTK_DET_TEST, 0, 0);
    ftk_status_copy(status, &r->status);
    return ftk_log_is_rolling_back() ? r->error
                                     : MPI_SUCCESS; /* otherwise the consuming call returns it */
}

int ftk_mpi_Request_free(MPI_Request *request)
{
    struct ftk_req *r = ftk_req_of(*request);
    if (!r && ftk_log_is_rolling_back()) /* its creation has failed */
        return ftk_log_error();
    if (!r)
        return ftk_foreign_free(request);
    *request = MPI_REQUEST_NULL;
    if (!ftk_req_is_done(r)) {
        ftk_req_abandon(r);
        return MPI_SUCCESS;
    }
    if (ftk_req_ops_of(r)->free)
        ftk_req_ops_of(r)->free(r);
    if (r->state == FTK_REQ_INACTIVE)
        ftk_req_wake(r);
    ftk_req_delete(r);
    return MPI_SUCCESS;
}

int ftk_mpi_Cancel(MPI_Request *request)
{
    struct ftk_req *r = ftk_req_of(*request);
    if (!r)
        return PMPI_Cancel(request);
    if (!ftk_req_ops_of(r)->cancel)
        return MPI_SUCCESS;
    return end(ftk_req_ops_of(r)->cancel(r));
}
