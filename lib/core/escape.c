/* Leaving a body of the program (see escape.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Without the log the jump begins in the error handler of the communicator.  An MPI calls error
 * handlers as the last step of a call: Open MPI 5.0 holds no lock then, and has ended what the call
 * has begun.  With the log the jump begins in libftkit_mpi, when the log has returned. */
#include <pthread.h>
#include <setjmp.h>

#include "escape.h"

struct ftk_escape {
    struct ftkit_ctx *ctx; /* NULL: closed in the body */
    jmp_buf env;
    ftkit_body_fn *leave;
    void *arg;
    pthread_t thread;
    volatile bool left;
};

void ftk_escape_leave(struct ftkit_ctx *ctx)
{
    struct ftk_escape *e = ctx->escape;
    if (!e || ctx->serving || ctx->callback.running || !pthread_equal(e->thread, pthread_self()))
        return;
    ctx->escape = NULL; /* what runs on the way out, as destructors, gets errors from MPI */
    e->left = true;
    if (!e->leave)
        longjmp(e->env, 1);
    e->leave(e->arg);
    e->left = false; /* it has not left */
    ctx->escape = e;
}

void ftk_escape_forget(struct ftkit_ctx *ctx)
{
    if (ctx->escape)
        ctx->escape->ctx = NULL;
    ctx->escape = NULL;
}

static int check(const struct ftkit_ctx *ctx, ftkit_body_fn *body)
{
    int rc = ftk_check_ctx(ctx, "ftkit_escape");
    if (rc == FTKIT_OK && !body)
        rc = ftk_fail(FTKIT_ERR_ARG, "ftkit_escape: body is NULL");
    if (rc == FTKIT_OK && ctx->where != FTK_IN_LOOP)
        rc = ftk_fail(FTKIT_ERR_STATE, "ftkit_escape before ftkit_recover or ftkit_step");
    if (rc == FTKIT_OK && ctx->escape)
        rc = ftk_fail(FTKIT_ERR_STATE, "ftkit_escape in the body of another ftkit_escape");
    return rc;
}

static void enter(struct ftkit_ctx *ctx, struct ftk_escape *e)
{
    ctx->escape = e;
}

int ftkit_escape(ftkit_ctx *ctx, ftkit_body_fn *body, void *arg, ftkit_body_fn *leave)
{
    int rc = check(ctx, body);
    if (rc != FTKIT_OK)
        return ftk_done(ctx, rc);
    struct ftk_escape e = { .ctx = ctx, .leave = leave, .arg = arg, .thread = pthread_self() };
    enter(ctx, &e);
    if (setjmp(e.env) == 0)
        body(arg);
    if (e.ctx)
        e.ctx->escape = NULL;
    return e.left ? FTKIT_ESCAPED : FTKIT_OK;
}
