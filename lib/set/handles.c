/* Variables that hold handles of MPI (see handles.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "core/binding.h"
#include "detect/detect.h"
#include "handles.h"
#include "region.h"

/* Return the one context of the process that logs, or NULL. */
static const struct ftkit_ctx *logging(void)
{
    const struct ftkit_ctx *ctx = ftk_detect_first();
    while (ctx && !ftk_log_of(ctx))
        ctx = ctx->next;
    return ctx;
}

/* ---- reading and setting variables --------------------------------------------------- */

static struct ftk_handle handle_of(const struct ftk_handles *h, size_t i)
{
    const MPI_Fint *const f = h->at;
    if (h->fortran && ftk_log_of(h->ctx))
        return ftk_log_handle_f2c(h->ctx, h->kind, f[i]);
    struct ftk_handle handle = { .kind = h->kind };
    switch (h->kind) {
    case FTK_HANDLE_COMM:
        handle.comm = h->fortran ? MPI_Comm_f2c(f[i]) : ((const MPI_Comm *)h->at)[i];
        break;
    case FTK_HANDLE_REQUEST:
        handle.request = h->fortran ? MPI_Request_f2c(f[i]) : ((const MPI_Request *)h->at)[i];
        break;
    case FTK_HANDLE_MESSAGE:
        handle.message = h->fortran ? MPI_Message_f2c(f[i]) : ((const MPI_Message *)h->at)[i];
        break;
    case FTK_HANDLE_WINDOW:
        handle.win = h->fortran ? MPI_Win_f2c(f[i]) : ((const MPI_Win *)h->at)[i];
        break;
    case FTK_HANDLE_KINDS:
        break; /* no kind */
    }
    return handle;
}

MPI_Request ftk_handles_request(const struct ftk_handles *h, size_t i)
{
    return handle_of(h, i).request;
}

MPI_Message ftk_handles_message(const struct ftk_handles *h, size_t i)
{
    return handle_of(h, i).message;
}

MPI_Win ftk_handles_window(const struct ftk_handles *h, size_t i)
{
    return handle_of(h, i).win;
}

static MPI_Fint to_fortran(const struct ftk_handles *h, struct ftk_handle to)
{
    if (ftk_log_of(h->ctx))
        return ftk_log_handle_c2f(h->ctx, to);
    if (h->kind == FTK_HANDLE_COMM)
        return MPI_Comm_c2f(to.comm);
    if (h->kind == FTK_HANDLE_REQUEST)
        return MPI_Request_c2f(to.request);
    return h->kind == FTK_HANDLE_MESSAGE ? MPI_Message_c2f(to.message) : MPI_Win_c2f(to.win);
}

static void set_handle(const struct ftk_handles *h, size_t i, struct ftk_handle to)
{
    if (h->fortran)
        ((MPI_Fint *)h->at)[i] = to_fortran(h, to);
    else if (h->kind == FTK_HANDLE_COMM)
        ((MPI_Comm *)h->at)[i] = to.comm;
    else if (h->kind == FTK_HANDLE_REQUEST)
        ((MPI_Request *)h->at)[i] = to.request;
    else if (h->kind == FTK_HANDLE_MESSAGE)
        ((MPI_Message *)h->at)[i] = to.message;
    else
        ((MPI_Win *)h->at)[i] = to.win;
}

/* Communicators and windows live across sets; requests and messages complete. */
static bool is_lasting(const struct ftk_handles *h)
{
    return h->kind == FTK_HANDLE_COMM || h->kind == FTK_HANDLE_WINDOW;
}

/* ---- into a set ---------------------------------------------------------------------- */

/* Without the log no request survives a failure.  One that is under way would be lost. */
static int check_without_log(const struct ftk_handles *h, size_t i)
{
    int done = 1;
    MPI_Request r = h->kind == FTK_HANDLE_REQUEST ? ftk_handles_request(h, i) : MPI_REQUEST_NULL;
    if (h->kind == FTK_HANDLE_MESSAGE)
        done = ftk_handles_message(h, i) == MPI_MESSAGE_NULL
               || ftk_handles_message(h, i) == MPI_MESSAGE_NO_PROC;
    int rc =
        r == MPI_REQUEST_NULL ? MPI_SUCCESS : MPI_Request_get_status(r, &done, MPI_STATUS_IGNORE);
    if (rc != MPI_SUCCESS)
        return ftk_fail_mpi(rc, "MPI_Request_get_status");
    return done ? FTKIT_OK
                : ftk_fail(FTKIT_ERR_STATE,
                    "region '%s': variable %zu holds %s under way: without log.enabled complete it "
                    "before ftkit_checkpoint()",
                    h->name, i, h->kind == FTK_HANDLE_REQUEST ? "a request" : "a matched message");
}

/* The context whose log has the object: one that lasts is of the one log of the process. */
static const struct ftkit_ctx *logs(const struct ftk_handles *h)
{
    return is_lasting(h) ? logging() : ftk_log_of(h->ctx) ? h->ctx : NULL;
}

/* The number of the object that variable i holds. */
static int number_of(const struct ftk_handles *h, size_t i, int64_t *number)
{
    const struct ftkit_ctx *ctx = logs(h);
    *number = FTK_NO_HANDLE;
    if (!ctx)
        return is_lasting(h) ? FTKIT_OK : check_without_log(h, i);
    *number = ftk_log_handle_number(ctx, handle_of(h, i));
    return *number != FTK_FOREIGN_HANDLE
               ? FTKIT_OK
               : ftk_fail(FTKIT_ERR_ARG,
                   "region '%s': variable %zu holds no %s of the program's messages: a set cannot "
                   "have requests of files, of windows or of other libraries, nor values that are "
                   "not set",
                   h->name, i, h->kind == FTK_HANDLE_REQUEST ? "request" : "matched message");
}

static int measure(void *arg, size_t *bytes)
{
    const struct ftk_handles *h = arg;
    int64_t number;
    int rc = FTKIT_OK;
    for (size_t i = 0; rc == FTKIT_OK && i < h->n; i++)
        rc = number_of(h, i, &number);
    *bytes = h->n * sizeof number;
    return rc;
}

static int pack(void *arg, void *buf, size_t bytes)
{
    const struct ftk_handles *h = arg;
    int64_t number;
    if (bytes != h->n * sizeof number)
        return ftk_fail(FTKIT_ERR_INTERNAL, "region '%s': another size", h->name);
    for (size_t i = 0; i < h->n; i++) {
        int rc = number_of(h, i, &number);
        if (rc != FTKIT_OK)
            return rc;
        memcpy((char *)buf + i * sizeof number, &number, sizeof number);
    }
    return FTKIT_OK;
}

/* ---- back ---------------------------------------------------------------------------- */

static int set_back(const struct ftk_handles *h, size_t i, int64_t number)
{
    const struct ftkit_ctx *ctx = logs(h);
    struct ftk_handle handle = { .kind = h->kind };
    int rc = FTKIT_OK;
    if (ctx)
        handle = handle_of(h, i);
    else if (h->kind == FTK_HANDLE_COMM)
        handle.comm = MPI_COMM_NULL;
    else if (h->kind == FTK_HANDLE_REQUEST)
        handle.request = MPI_REQUEST_NULL;
    else if (h->kind == FTK_HANDLE_MESSAGE)
        handle.message = MPI_MESSAGE_NULL;
    else
        handle.win = MPI_WIN_NULL;
    if (ctx)
        rc = ftk_log_handle_back(ctx, number, &handle);
    if (rc == FTKIT_OK)
        set_handle(h, i, handle);
    return rc;
}

static int unpack(void *arg, const void *buf, size_t bytes)
{
    const struct ftk_handles *h = arg;
    int64_t number;
    int rc = FTKIT_OK;
    if (bytes != h->n * sizeof number)
        return ftk_fail(FTKIT_ERR_SIZE, "region '%s': %zu variables, and %zu in the set", h->name,
            h->n, bytes / sizeof number);
    for (size_t i = 0; rc == FTKIT_OK && i < h->n; i++) {
        memcpy(&number, (const char *)buf + i * sizeof number, sizeof number);
        rc = set_back(h, i, number);
    }
    return rc;
}

/* ---- registration -------------------------------------------------------------------- */

static void variables(const void *arg, const void **at, size_t *bytes)
{
    static const size_t each[] = { sizeof(MPI_Comm), sizeof(MPI_Request), sizeof(MPI_Message),
        sizeof(MPI_Win) };
    const struct ftk_handles *h = arg;
    *at = h->at;
    *bytes = h->n * (h->fortran ? sizeof(MPI_Fint) : each[h->kind]);
}

static const struct ftk_system_region handles_region = {
    .ops = { sizeof(ftkit_serializer), measure, pack, unpack },
    .order = FTK_RESTORE_HANDLES,
    .differs_in_replicas = true,
    .variables = variables,
};

static int register_handles(const char *call, const char *name, const struct ftk_handles *like)
{
    struct ftk_handles *h = malloc(sizeof *h);
    int rc = FTKIT_OK;
    if (!h)
        rc = ftk_fail(FTKIT_ERR_NOMEM, "%s", call);
    else
        *h = *like;
    if (rc == FTKIT_OK)
        rc = ftk_check_ctx(like->ctx, call);
    if (rc == FTKIT_OK && !like->at && like->n > 0)
        rc = ftk_fail(FTKIT_ERR_ARG, "%s: region '%s': the address of the variables is NULL", call,
            name ? name : "");
    if (rc == FTKIT_OK)
        rc = ftk_region_check_new(like->ctx, call, name);
    if (rc == FTKIT_OK)
        rc = ftk_region_check_variables(call, name, like->at);
    if (rc == FTKIT_OK)
        rc = ftk_region_add_named(like->ctx, &handles_region, name, h);
    if (rc == FTKIT_OK)
        memcpy(h->name, name, strlen(name) + 1);
    else
        free(h);
    return ftk_done(like->ctx, rc);
}

int ftkit_register_comm(ftkit_ctx *ctx, const char *name, MPI_Comm *comm)
{
    return register_handles("ftkit_register_comm", name,
        &(struct ftk_handles){ .ctx = ctx, .kind = FTK_HANDLE_COMM, .at = comm, .n = 1 });
}

int ftkit_register_requests(ftkit_ctx *ctx, const char *name, MPI_Request *requests, size_t n)
{
    return register_handles("ftkit_register_requests", name,
        &(struct ftk_handles){ .ctx = ctx, .kind = FTK_HANDLE_REQUEST, .at = requests, .n = n });
}

int ftkit_register_messages(ftkit_ctx *ctx, const char *name, MPI_Message *messages, size_t n)
{
    return register_handles("ftkit_register_messages", name,
        &(struct ftk_handles){ .ctx = ctx, .kind = FTK_HANDLE_MESSAGE, .at = messages, .n = n });
}

int ftkit_register_window(ftkit_ctx *ctx, const char *name, MPI_Win *win)
{
    return register_handles("ftkit_register_window", name,
        &(struct ftk_handles){ .ctx = ctx, .kind = FTK_HANDLE_WINDOW, .at = win, .n = 1 });
}

int ftkit_binding_register_handles(
    ftkit_ctx *ctx, const char *name, enum ftkit_binding_handle kind, MPI_Fint *handles, size_t n)
{
    static const char *const call[] = { "ftkit_register_comm", "ftkit_register_requests",
        "ftkit_register_messages", "ftkit_register_window" };
    return register_handles(call[kind], name,
        &(struct ftk_handles){ .ctx = ctx,
            .kind = (enum ftk_handle_kind)kind,
            .fortran = true,
            .at = handles,
            .n = n });
}

const struct ftk_handles *ftk_handles_next(
    const struct ftkit_ctx *ctx, enum ftk_handle_kind kind, const struct ftk_handles *at)
{
    bool found = at == NULL;
    for (int i = 0; i < ctx->regions.n; i++) {
        const struct ftk_region *r = &ctx->regions.list[i];
        const struct ftk_handles *h = r->system == &handles_region ? r->arg : NULL;
        if (found && h && h->kind == kind)
            return h;
        found = found || h == at;
    }
    return NULL;
}
