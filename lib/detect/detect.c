/* Detection of failures: the error handler and the watch (see detect.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Without interposition a rank learns of a failure in three ways: an MPI call of the program
 * fails and the error handler runs; the watch ends inside an ftkit call; or another rank has
 * revoked the communicator on which this rank is blocked.  The first rank that learns of the
 * failure revokes, so the program's calls fail at once on all ranks until each rank comes to its
 * next ftkit call. */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/escape.h"
#include "core/event.h"
#include "core/log_ops.h"
#include "core/mpi_shim.h"
#include "core/repair_state.h"
#include "core/run_state.h"
#include "detect.h"
#include "fail_stop.h"
#include "last_word.h"
#include "misuse.h"
#include "notice.h"
#include "watchdog.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the list */
static struct ftkit_ctx *contexts;
static int nglobal; /* contexts in the list that can repair */
static MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
static MPI_Errhandler world_old = MPI_ERRHANDLER_NULL;
static MPI_Errhandler self_old = MPI_ERRHANDLER_NULL;
static bool world_forbidden;               /* MPI_COMM_WORLD has spares, and is revoked */
static MPI_Comm last_base = MPI_COMM_NULL; /* has the program's error handler, also after the end
                                              of the context: communicators that the program has
                                              derived keep ftkit's handler */

/* ---- the error handler --------------------------------------------------------------- */

void ftk_detect_raise(struct ftkit_ctx *ctx)
{
    if (ctx->mode == FTKIT_MODE_RESTART)
        return;
    const struct ftk_notice n = ftk_notice_of(ctx);
    const unsigned what = ftk_notice_raise(&n);
    ftk_watchdog_reported(ctx->dog);
    if (what & FTK_RAISE_CALLED) /* a context ends by a revoke, too */
        ftk_report(FTKIT_DEBUG, "context %s: a spare is called", ctx->cfg.name);
    if (what & FTK_RAISE_SAY) {
        struct ftk_event e;
        ftk_report(
            FTKIT_DEBUG, "context %s: rank %d has learned of a failure", ctx->cfg.name, ctx->rank);
        ftk_event_of(&e, ctx, "failure");
        ftk_event_end(&e);
    }
    ctx->detect.failed = 1;
    ftk_mpi_revoke(ctx->comms.ctl);
    if (what & FTK_RAISE_WORK) {
        ftk_mpi_revoke(ctx->comms.act);
        ftk_mpi_revoke(ctx->comms.app); /* with the log the program does not use app */
    }
    for (int i = 0; (what & FTK_RAISE_TRACKED) && i < ctx->detect.ntracked; i++)
        ftk_mpi_revoke(ctx->detect.tracked[i]);
}

static bool uses(const struct ftkit_ctx *ctx, MPI_Comm comm)
{
    if (comm == ctx->comms.app)
        return true;
    for (int i = 0; i < ctx->detect.ntracked; i++)
        if (comm == ctx->detect.tracked[i])
            return true;
    return false;
}

/* Whether a failure is known that is not repaired.  No MPI call. */
static bool knows(const struct ftkit_ctx *c)
{
    return c->mode != FTKIT_MODE_RESTART
           && (c->detect.failed || c->detect.repairing || ftk_log_rolling_back(c));
}

/* Whether a context, from first on in the list (only: first alone), knows of a failure, or learns
 * of one within FTK_UNCLEAR_WAIT_S.  The code of an error is no evidence: a broken socket, or a
 * collective or a constructor on a communicator with a dead member, may return any code, some
 * milliseconds before the notice of the failure.  An error of the program itself can wait. */
static bool await_notice(struct ftkit_ctx *first, bool only)
{
    double end = ftk_now_s() + FTK_UNCLEAR_WAIT_S;
    do {
        bool known = false;
        for (struct ftkit_ctx *c = first; c; c = only ? NULL : c->next)
            if (knows(c) || (c->mode != FTKIT_MODE_RESTART && ftk_detect_poll(c)))
                known = true;
        if (known)
            return true;
        struct timespec nap = { 0, 1000000 };
        nanosleep(&nap, NULL);
    } while (ftk_now_s() < end);
    return false;
}

/* Return the only context of this process that repairs, or NULL. */
static struct ftkit_ctx *repairing_context(void)
{
    struct ftkit_ctx *ctx = contexts;
    while (ctx && ctx->mode == FTKIT_MODE_RESTART)
        ctx = ctx->next;
    return ctx;
}

static bool explained(void)
{
    return await_notice(contexts, false);
}

bool ftk_detect_confirm(struct ftkit_ctx *ctx)
{
    return ctx->mode != FTKIT_MODE_RESTART && !ctx->dead && await_notice(ctx, true);
}

void ftk_detect_abort(const char *call, int code)
{
    char why[160];
    const struct ftkit_ctx *ctx = repairing_context();
    if (!ctx || ctx->dead)
        return;
    if (!explained()) {
        /* with fault tolerance on, MPI_Abort() ends only the caller, without a report */
        snprintf(why, sizeof why, "rank %d has called %s with %d: ending the job", ctx->rank, call,
            code);
        if (ftk_run_sees()) /* mpirun will report only that this process was killed */
            ftk_run_state("abort %d %d", ctx->rank, code);
        ftk_watchdog_end(ctx->dog, why);
        return;
    }
    ftk_report(FTKIT_WARNING,
        "rank %d has called %s with %d while a failure waits for its repair: this process "
        "counts as lost, too. Rule: ask ftkit_confirm() before a check ends the program",
        ctx->rank, call, code);
    ftk_last_word(ctx->dog, FTKIT_LOST_ABORT, code);
    ftk_fail_stop_die();
}

bool ftk_detect_known(void)
{
    for (const struct ftkit_ctx *c = contexts; c; c = c->next)
        if (knows(c))
            return true;
    return false;
}

void ftk_detect_end(struct ftkit_ctx *ctx, const char *why)
{
    ftk_run_state("fatal %s", why);
    ftk_watchdog_end(ctx->dog, why);
    ftk_report_last("%s", why);
}

/* The program has MPI_ERRORS_ARE_FATAL.  The MPI itself would end only this process, and its
 * message would name the function that calls error handlers. */
void ftk_detect_fatal(struct ftkit_ctx *ctx, int code)
{
    char text[MPI_MAX_ERROR_STRING], why[FTK_DETAIL_MAX + 160];
    int len = 0, class = code;
    if (MPI_Error_class(code, &class) != MPI_SUCCESS
        || MPI_Error_string(code, text, &len) != MPI_SUCCESS)
        snprintf(text, sizeof text, "MPI error %d", code);
    if (class == MPI_ERR_UNSUPPORTED_OPERATION && ftk_log_of(ctx)) {
        snprintf(why, sizeof why,
            "rank %d: %s is not possible with the message log (log.enabled); mpi-support.md has "
            "a line for every function",
            ctx->rank, ftk_log_call(ctx));
        ftk_misuse_end(ctx, why);
    }
    snprintf(why, sizeof why,
        ctx->dead ? "rank %d: %s of the program failed: %s"
                  : "rank %d: %s of the program failed, and no failure of a rank explains it: %s; "
                    "ending the job (MPI_ERRORS_ARE_FATAL)",
        ctx->rank, ftk_log_call(ctx), ctx->dead ? ctx->detail : text);
    ftk_detect_end(ctx, why);
}

/* Whether the handler that the program had chosen is MPI_ERRORS_ARE_FATAL.  The handler is that of
 * the communicator to; for MPI_COMM_WORLD and MPI_COMM_SELF it is old. */
static bool is_fatal(MPI_Comm to, MPI_Errhandler old)
{
    MPI_Errhandler h = old;
    bool own = to != MPI_COMM_SELF && to != MPI_COMM_WORLD;
    if (own && MPI_Comm_get_errhandler(to, &h) != MPI_SUCCESS)
        return false;
    bool fatal = h == MPI_ERRORS_ARE_FATAL;
    if (own && !fatal && h != MPI_ERRORS_RETURN)
        (void)MPI_Errhandler_free(&h); /* only the reference */
    return fatal;
}

/* Give an error of the program to the handler that the program had chosen. */
static void pass_on(MPI_Comm comm, int code)
{
    MPI_Comm to = comm;
    MPI_Errhandler old = comm == MPI_COMM_SELF ? self_old : world_old;
    struct ftkit_ctx *ctx = repairing_context();
    if (comm != MPI_COMM_SELF && comm != MPI_COMM_WORLD)
        to = last_base;
    for (struct ftkit_ctx *c = contexts; c; c = c->next)
        if (uses(c, comm))
            to = c->base;
    if (ctx && is_fatal(to, old))
        ftk_detect_fatal(ctx, code);
    else
        ftk_run_state("fatal an MPI call of the program failed (error %d)", code);
    if (to == MPI_COMM_SELF || to == MPI_COMM_WORLD) {
        (void)MPI_Comm_set_errhandler(to, old);
        (void)MPI_Comm_call_errhandler(to, code);
        (void)MPI_Comm_set_errhandler(to, handler);
    } else {
        (void)MPI_Comm_call_errhandler(to, code);
    }
}

/* A call of the program has failed: from now on the state of the program may be wrong. */
static void mark_doubt(void)
{
    for (struct ftkit_ctx *c = contexts; c; c = c->next)
        if (c->detect.failed && !c->callback.running && !c->detect.repairing)
            c->detect.app_errors = true;
}

/* The last step of a failing call.  With the log only calls of ftkit itself come here. */
static void leave_body(void)
{
    struct ftkit_ctx *ctx = repairing_context();
    if (ctx && !ftk_log_of(ctx) && knows(ctx))
        ftk_escape_leave(ctx);
}

/* The program uses MPI_COMM_WORLD, on which the spares never join a call: end the job. */
static void say_world(void)
{
    char why[320];
    int rank = -1;
    struct ftkit_ctx *ctx = repairing_context();
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank); /* only for the text */
    snprintf(why, sizeof why,
        "process %d (rank %d of the job) communicates on MPI_COMM_WORLD after ftkit_open. Its "
        "spares are members of it and never come. Rule: after ftkit_open use ftkit_comm() or "
        "the variable of ftkit_bind_comm() instead of MPI_COMM_WORLD",
        (int)getpid(), rank);
    if (ctx)
        ftk_misuse_end(ctx, why);
    ftk_run_state("fatal %s", why);
    ftk_report_last("%s", why);
    ftk_fail_stop_die();
}

void ftk_detect_forbid_world(void)
{
    world_forbidden = true;
    ftk_mpi_revoke(MPI_COMM_WORLD);
}

/* A call has failed because of a failure, on a communicator that is not ftkit's.  If it is older
 * than the last repair, no notice of a failure will come. */
static void look_for_stale(MPI_Comm comm, const char *call)
{
    for (struct ftkit_ctx *c = contexts; c; c = c->next) {
        if (knows(c) || !ftk_misuse_is_stale(c, comm))
            continue;
        ftk_misuse_stale(c, comm, call);
        ftk_detect_raise(c);
    }
}

static bool is_mine(MPI_Comm comm)
{
    for (const struct ftkit_ctx *c = contexts; c; c = c->next)
        if (uses(c, comm))
            return true;
    return false;
}

/* Raise on all contexts; comm: on those alone that have it, or MPI_COMM_NULL. */
static void raise_on(MPI_Comm comm)
{
    for (struct ftkit_ctx *c = contexts; c; c = c->next)
        if (comm == MPI_COMM_NULL || uses(c, comm))
            ftk_detect_raise(c);
}

/* Runs inside the failing MPI call of the program. */
static void on_error(MPI_Comm *comm, int *code, ...)
{
    const struct ftk_call_error e = { .failure = ftk_mpi_is_failure(*code),
        .open = contexts != NULL,
        .mine = is_mine(*comm),
        .world = *comm == MPI_COMM_WORLD,
        .forbidden = world_forbidden,
        .self = *comm == MPI_COMM_SELF };
    enum ftk_error_first first = ftk_notice_error(&e);
    if (first == FTK_ERROR_MISTAKE)
        say_world();
    if (first == FTK_ERROR_RAISE)
        raise_on(*comm);
    if (first == FTK_ERROR_DERIVED) {
        va_list more; /* of Open MPI, whose next argument is the name of the function */
        va_start(more, code);
        look_for_stale(*comm, va_arg(more, const char *));
        va_end(more);
        ftk_mpi_revoke(*comm); /* derived from app: interrupt its other members, too */
    }
    if (first == FTK_ERROR_DERIVED || first == FTK_ERROR_UNCLEAR) {
        first = ftk_notice_after_wait(&e, explained());
        if (first == FTK_ERROR_RAISE)
            raise_on(MPI_COMM_NULL);
    }
    if (first == FTK_ERROR_PROGRAM) {
        pass_on(*comm, *code);
        return;
    }
    mark_doubt();
    leave_body();
}

/* ---- tracked communicators --------------------------------------------------------------
 * The delete callback of an attribute runs when the program frees such a communicator, so that
 * ftkit never revokes it afterwards. */

static int keyval = MPI_KEYVAL_INVALID;

static int on_free(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)key;
    (void)value;
    (void)extra;
    for (struct ftkit_ctx *c = contexts; c; c = c->next)
        for (int i = 0; i < c->detect.ntracked; i++)
            if (c->detect.tracked[i] == comm)
                c->detect.tracked[i--] = c->detect.tracked[--c->detect.ntracked];
    return MPI_SUCCESS;
}

int ftk_detect_track(struct ftkit_ctx *ctx, MPI_Comm comm)
{
    if (ctx->detect.ntracked == FTK_TRACKED_MAX)
        return ftk_fail(FTKIT_ERR_STATE, "at most %d tracked communicators", FTK_TRACKED_MAX);
    int rc = MPI_Comm_set_attr(comm, keyval, ctx);
    if (rc != MPI_SUCCESS)
        return ftk_fail_mpi(rc, "tracking a communicator");
    ctx->detect.tracked[ctx->detect.ntracked++] = comm;
    return FTKIT_OK;
}

int ftk_detect_untrack(struct ftkit_ctx *ctx, MPI_Comm comm)
{
    for (int i = 0; i < ctx->detect.ntracked; i++) {
        if (ctx->detect.tracked[i] != comm)
            continue;
        int rc = MPI_Comm_delete_attr(comm, keyval); /* runs on_free() */
        return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "forgetting a communicator");
    }
    return ftk_fail(FTKIT_ERR_NOT_FOUND, "the communicator is not tracked");
}

/* ---- the list ------------------------------------------------------------------------ */

static int make_objects(void)
{
    int rc = MPI_SUCCESS;
    if (handler == MPI_ERRHANDLER_NULL)
        rc = MPI_Comm_create_errhandler(on_error, &handler);
    if (rc == MPI_SUCCESS && keyval == MPI_KEYVAL_INVALID)
        rc = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_free, &keyval, NULL);
    if (rc == MPI_SUCCESS)
        rc = ftk_vote_objects();
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "making MPI objects");
}

/* Set ftkit's error handler on MPI_COMM_WORLD and MPI_COMM_SELF.  When a communicator could not be
 * made because of a failure, the program may call MPI functions on MPI_COMM_NULL.  MPI raises these
 * errors on WORLD or SELF, and they must not end the job. */
static int guard_world(void)
{
    int rc = MPI_SUCCESS;
    if (!world_forbidden) /* otherwise WORLD has ftkit's handler already */
        rc = MPI_Comm_get_errhandler(MPI_COMM_WORLD, &world_old);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_get_errhandler(MPI_COMM_SELF, &self_old);
    if (rc == MPI_SUCCESS && !world_forbidden)
        rc = MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "setting error handlers");
}

static int remember_handler(MPI_Comm base)
{
    MPI_Errhandler h;
    int rc = last_base == MPI_COMM_NULL ? ftk_mpi_alone(&last_base) : MPI_SUCCESS;
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_get_errhandler(base, &h);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_set_errhandler(last_base, h);
    if (rc == MPI_SUCCESS && h != MPI_ERRORS_ARE_FATAL && h != MPI_ERRORS_RETURN)
        rc = MPI_Errhandler_free(&h);
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "keeping the error handler");
}

int ftk_detect_open(struct ftkit_ctx *ctx)
{
    pthread_mutex_lock(&lock);
    int rc = make_objects();
    if (rc == FTKIT_OK && ctx->mode != FTKIT_MODE_RESTART && nglobal == 0)
        rc = guard_world();
    if (rc == FTKIT_OK && ctx->mode != FTKIT_MODE_RESTART)
        rc = remember_handler(ctx->base);
    if (rc == FTKIT_OK) {
        nglobal += ctx->mode != FTKIT_MODE_RESTART;
        ctx->next = contexts;
        contexts = ctx;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

struct ftkit_ctx *ftk_detect_first(void)
{
    return contexts;
}

/* The number of members of comm that are spares of the context. */
static int spares_in(const struct ftkit_ctx *ctx, MPI_Comm comm)
{
    MPI_Group all, theirs;
    int n = 0, size = 0;
    if (ctx->comms.ctl == MPI_COMM_NULL || MPI_Comm_group(ctx->comms.ctl, &all) != MPI_SUCCESS)
        return 0;
    if (MPI_Comm_group(comm, &theirs) == MPI_SUCCESS) {
        int rc = MPI_Group_size(all, &size);
        for (int i = ctx->nranks; rc == MPI_SUCCESS && i < size; i++) {
            int there = MPI_UNDEFINED;
            rc = MPI_Group_translate_ranks(all, 1, &i, theirs, &there);
            n += rc == MPI_SUCCESS && there != MPI_UNDEFINED;
        }
        (void)MPI_Group_free(&theirs);
    }
    (void)MPI_Group_free(&all);
    return n;
}

int ftk_detect_spares_in(MPI_Comm comm, char name[FTKIT_NAME_MAX + 1])
{
    for (const struct ftkit_ctx *c = contexts; c; c = c->next) {
        int n = spares_in(c, comm);
        if (n > 0) {
            snprintf(name, FTKIT_NAME_MAX + 1, "%s", c->cfg.name);
            return n;
        }
    }
    return 0;
}

bool ftk_detect_active(void)
{
    return nglobal > 0;
}

static void free_objects(void)
{
    /* errors are ignored: nothing depends on these objects any more */
    (void)MPI_Errhandler_free(&handler);
    ftk_vote_forget();
    (void)MPI_Comm_free_keyval(&keyval); /* stays valid in communicators that have it */
}

static void unguard_world(void)
{
    if (!world_forbidden)
        (void)MPI_Comm_set_errhandler(MPI_COMM_WORLD, world_old);
    (void)MPI_Comm_set_errhandler(MPI_COMM_SELF, self_old);
    if (!world_forbidden && world_old != MPI_ERRORS_ARE_FATAL && world_old != MPI_ERRORS_RETURN)
        (void)MPI_Errhandler_free(&world_old);
    if (self_old != MPI_ERRORS_ARE_FATAL && self_old != MPI_ERRORS_RETURN)
        (void)MPI_Errhandler_free(&self_old);
}

void ftk_detect_close(struct ftkit_ctx *ctx)
{
    while (ctx->detect.ntracked > 0)
        if (ftk_detect_untrack(ctx, ctx->detect.tracked[0]) != FTKIT_OK)
            break;
    pthread_mutex_lock(&lock);
    for (struct ftkit_ctx **p = &contexts; *p; p = &(*p)->next) {
        if (*p != ctx)
            continue;
        *p = ctx->next;
        nglobal -= ctx->mode != FTKIT_MODE_RESTART;
        if (ctx->mode != FTKIT_MODE_RESTART && nglobal == 0)
            unguard_world();
        if (!contexts)
            free_objects();
        break;
    }
    pthread_mutex_unlock(&lock);
}

/* ---- the watch ----------------------------------------------------------------------- */

/* Give app the error handler of the program: in a job without repair. */
static int use_own_handler(struct ftkit_ctx *ctx)
{
    MPI_Errhandler h;
    if (ctx->comms.app == MPI_COMM_NULL)
        return FTKIT_OK;
    int rc = MPI_Comm_get_errhandler(ctx->base, &h);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_set_errhandler(ctx->comms.app, h);
    if (rc == MPI_SUCCESS && ftk_mpi_outlives())
        rc = ftk_fail_stop_guard(ctx->comms.app, h);
    if (rc == MPI_SUCCESS && h != MPI_ERRORS_ARE_FATAL && h != MPI_ERRORS_RETURN)
        rc = MPI_Errhandler_free(&h);
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "the error handler of comm");
}

int ftk_detect_arm(struct ftkit_ctx *ctx)
{
    if (ctx->mode == FTKIT_MODE_RESTART)
        return use_own_handler(ctx);
    int rc = MPI_SUCCESS;
    if (ctx->comms.app != MPI_COMM_NULL)
        rc = MPI_Comm_set_errhandler(ctx->comms.app, handler);
    if (rc == MPI_SUCCESS)
        rc = MPI_Irecv(&ctx->detect.watch_buf, 1, MPI_INT, MPI_ANY_SOURCE, 0, ctx->comms.ctl,
            &ctx->detect.watch);
    if (rc == MPI_SUCCESS)
        return FTKIT_OK;
    if (!ftk_mpi_is_failure(rc))
        return ftk_fail_mpi(rc, "posting the watch");
    ftk_detect_raise(ctx); /* a process has died already: the next call repairs */
    return FTKIT_OK;
}

int ftk_detect_disarm(struct ftkit_ctx *ctx)
{
    ctx->detect.watch_s = 0;
    if (ctx->detect.watch == MPI_REQUEST_NULL)
        return FTKIT_OK;
    int rc = MPI_Cancel(&ctx->detect.watch);
    if (rc == MPI_SUCCESS)
        rc = MPI_Wait(&ctx->detect.watch, MPI_STATUS_IGNORE);
    ctx->detect.watch = MPI_REQUEST_NULL;
    if (rc != MPI_SUCCESS && !ftk_mpi_is_failure(rc))
        return ftk_fail_mpi(rc, "taking down the watch");
    return FTKIT_OK;
}

/* Whether only idle spares have failed, which needs no repair: then acknowledge the failures. */
static bool only_spares(struct ftkit_ctx *ctx)
{
    int gone = 0;
    int size = 0;
    if (MPI_Comm_size(ctx->comms.ctl, &size) != MPI_SUCCESS
        || !ftk_mpi_ack_from(ctx->comms.ctl, ctx->nranks, &gone))
        return false;
    ctx->nspares = size - ctx->nranks - gone;
    ftk_watchdog_reported(ctx->dog);
    if (ctx->rank == 0)
        ftk_report(FTKIT_WARNING, "context %s: an idle spare is gone, %d left", ctx->cfg.name,
            ctx->nspares);
    return true;
}

bool ftk_detect_poll(struct ftkit_ctx *ctx)
{
    int done = 0;
    if (ctx->detect.failed)
        return true;
    if (ctx->detect.watch_s == 0 && ctx->detect.watch != MPI_REQUEST_NULL
        && MPI_Test(&ctx->detect.watch, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS
        && !only_spares(ctx))
        ctx->detect.watch_s = ftk_now_s(); /* the watch may still be active: disarm cancels it */
    if (ctx->cfg.replicas > 1 && ctx->where == FTK_IN_LOOP && ctx->committed > 0
        && ftk_watchdog_parts(ctx->dog)) {
        ftk_repair_differ(ctx, FTK_DIFFERS_ALL);
        ftk_detect_raise(ctx);
        return true;
    }
    if (ctx->detect.watch_s == 0)
        return false;
    const struct ftk_notice n = ftk_notice_of(ctx);
    if (ftk_notice_is_due(&n, ftk_now_s()))
        ftk_detect_raise(ctx);
    return ctx->detect.failed;
}
