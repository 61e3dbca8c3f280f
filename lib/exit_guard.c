/* exit() with an open context (see exit_guard.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/run_state.h"
#include "core/symbol.h"
#include "detect/detect.h"
#include "detect/last_word.h"
#include "exit_guard.h"
#include "set/flusher.h"

static volatile sig_atomic_t open_contexts; /* contexts with recover.exit_is_failure */
static pid_t guarded;                       /* this process; a child of fork() may call exit() */

/* Whether a context is open that has not ended by an error.  Such an end was reported before. */
static bool some_goes_on(void)
{
    const struct ftkit_ctx *ctx = ftk_detect_first();
    while (ctx && ctx->dead)
        ctx = ctx->next;
    return ctx != NULL;
}

/* Whether all ranks have come to the end of their loops in all contexts that are open. */
static bool has_finished(void)
{
    const struct ftkit_ctx *ctx = ftk_detect_first();
    while (ctx && ctx->where == FTK_IN_LOOP && ctx->replica.sets == FTK_SETS_OVER)
        ctx = ctx->next;
    return ctx == NULL;
}

/* how: "with exit code 3", "by quick_exit()" */
static void say_exit(const char *how)
{
    int rank = -1;
    if (!some_goes_on())
        return;
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank); /* only for the text */
    ftk_report(FTKIT_WARNING,
        "process %d (rank %d of the job) ends its program %s and its context open%s: it counts "
        "as lost. Rule: %s",
        (int)getpid(), rank, how, ftk_detect_known() ? " while a failure waits for its repair" : "",
        ftk_detect_known() ? "ask ftkit_confirm() before a check ends the program"
                           : "every rank calls ftkit_close() before it ends");
}

/* Whether this process, and not a child of fork(), ends with a context open. */
static bool ends_open(void)
{
    int finalized = 0;
    return getpid() == guarded && open_contexts > 0 && MPI_Finalized(&finalized) == MPI_SUCCESS
           && !finalized;
}

/* Why this process is lost, for ftkit_failures(). */
static void last_word(int code)
{
    for (const struct ftkit_ctx *c = ftk_detect_first(); c; c = c->next)
        ftk_last_word(c->dog, FTKIT_LOST_EXIT, code);
}

static void on_process_exit(int status, void *arg)
{
    (void)arg;
    char how[32];
    if (getpid() == guarded && status != 0 && open_contexts == 0 && ftk_run_sees())
        ftk_run_state("exit %d", status); /* after a repair mpirun's exit code means nothing */
    if (!ends_open())
        return;
    snprintf(how, sizeof how, "with exit code %d", status);
    say_exit(how);
    if (status == 0 && has_finished()) /* else the job would be computed again */
        ftk_run_state("unclosed");
    last_word(status);
    kill(getpid(), SIGKILL);
}

static void on_quick_exit(void)
{
    if (!ends_open())
        return;
    say_exit("by quick_exit()"); /* the exit code is not known here */
    last_word(-1);
    kill(getpid(), SIGKILL);
}

/* std::uncaught_exceptions() of the C++ library that the program has, if it has one. */
bool ftk_guard_unwinds(void)
{
    int (*count)(void);
    return ftk_symbol_find(RTLD_DEFAULT, "_ZSt19uncaught_exceptionsv", &count) && count() > 0;
}

void ftk_guard_exit(const struct ftkit_ctx *ctx, int change)
{
    static bool installed;
    if (!ctx->cfg.exit_is_failure || ctx->mode == FTKIT_MODE_RESTART)
        return;
    if (!installed && ctx->cfg.h5_enabled && ctx->cfg.h5_async)
        ftk_flusher_prepare(); /* first: handlers of exit() run in reverse order */
    guarded = getpid();
    if (!installed)
        installed = on_exit(on_process_exit, NULL) == 0 && at_quick_exit(on_quick_exit) == 0;
    open_contexts += change;
}
