/* The handles of MPI that variables of the program have, in a set and in Fortran: functions for
 * each kind (core/log_ops.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "log/request/progress.h"
#include "log/recovery/recovery.h"
#include "log/vcomm/comm.h"
#include "log/vcomm/vcomm_image.h"
#include "log/win/win.h"
#include "mpi_calls.h"

/* ---- communicators ------------------------------------------------------------------- */

static int64_t comm_number(struct ftk_handle h)
{
    return ftk_vcomm_image_context(h.comm);
}

static int comm_back(int64_t number, struct ftk_handle *h)
{
    return ftk_vcomm_of_context(number > INT32_MAX ? -1 : (int)number, &h->comm);
}

static struct ftk_handle comm_f2c(MPI_Fint handle)
{
    return (struct ftk_handle){ .kind = FTK_HANDLE_COMM, .comm = PMPI_Comm_f2c(handle) };
}

static MPI_Fint comm_c2f(struct ftk_handle h)
{
    return PMPI_Comm_c2f(h.comm);
}

static const struct ftk_handle_ops comms = { comm_number, comm_back, comm_f2c, comm_c2f };

/* ---- requests ------------------------------------------------------------------------ */

static int64_t request_number(struct ftk_handle h)
{
    return ftk_requests_number(h.request);
}

static int request_back(int64_t number, struct ftk_handle *h)
{
    h->request = ftk_requests_back(number);
    return FTKIT_OK;
}

static struct ftk_handle request_f2c(MPI_Fint handle)
{
    return (
        struct ftk_handle){ .kind = FTK_HANDLE_REQUEST, .request = ftk_mpi_Request_f2c(handle) };
}

static MPI_Fint request_c2f(struct ftk_handle h)
{
    return ftk_mpi_Request_c2f(h.request);
}

static const struct ftk_handle_ops requests = { request_number, request_back, request_f2c,
    request_c2f };

/* ---- messages that a probe has matched ----------------------------------------------- */

static int64_t message_number(struct ftk_handle h)
{
    return ftk_requests_message_number(h.message);
}

static int message_back(int64_t number, struct ftk_handle *h)
{
    h->message = ftk_requests_message_back(number);
    return FTKIT_OK;
}

static struct ftk_handle message_f2c(MPI_Fint handle)
{
    return (
        struct ftk_handle){ .kind = FTK_HANDLE_MESSAGE, .message = ftk_mpi_Message_f2c(handle) };
}

static MPI_Fint message_c2f(struct ftk_handle h)
{
    return ftk_mpi_Message_c2f(h.message);
}

static const struct ftk_handle_ops messages = { message_number, message_back, message_f2c,
    message_c2f };

/* ---- windows: the handles are the MPI's ------------------------------------------------ */

static int64_t window_number(struct ftk_handle h)
{
    return ftk_win_number(h.win);
}

static int window_back(int64_t number, struct ftk_handle *h)
{
    return ftk_win_back(number, &h->win);
}

static struct ftk_handle window_f2c(MPI_Fint handle)
{
    return (struct ftk_handle){ .kind = FTK_HANDLE_WINDOW, .win = PMPI_Win_f2c(handle) };
}

static MPI_Fint window_c2f(struct ftk_handle h)
{
    return PMPI_Win_c2f(h.win);
}

static const struct ftk_handle_ops windows = { window_number, window_back, window_f2c, window_c2f };

const struct ftk_handle_ops *const ftk_handle_kinds[FTK_HANDLE_KINDS] = {
    [FTK_HANDLE_COMM] = &comms,
    [FTK_HANDLE_REQUEST] = &requests,
    [FTK_HANDLE_MESSAGE] = &messages,
    [FTK_HANDLE_WINDOW] = &windows,
};
