/* Requests from outside (see steer.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/context.h"
#include "core/event.h"
#include "core/requests.h"
#include "core/run_state.h"
#include "status_file.h"
#include "steer.h"
#include "errand.h"
#include "store/halt_file.h"

#define FILE_EVERY_S 0.5
#define LOOK_S 0.02  /* longest wait for the file system, in a vote */
#define REMOVE_S 5.0 /* the same at the end */
#define MARGIN 1.25  /* a durable set may take this times the longest time that was measured */
#define SAME_S 1.0   /* a second SIGTERM within this time is the same request */
#define DEADLINE "checkpoint.deadline"

/* ---- signals ------------------------------------------------------------------------- */

static const int signals[] = { SIGUSR1, SIGUSR2, SIGTERM };
#define NSIGNALS ((int)(sizeof signals / sizeof signals[0]))

/* Written by the handler. */
static volatile sig_atomic_t sets_asked;
static volatile sig_atomic_t halt_signal; /* 0: none */
static struct timespec halt_at;           /* of halt_signal */

static int contexts; /* open ones */

static struct ftk_requests *page; /* of ftkit run; NULL: this process does not see it */

static double since_halt(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)(t.tv_sec - halt_at.tv_sec) + 1e-9 * (double)(t.tv_nsec - halt_at.tv_nsec);
}

/* A second SIGTERM ends the process, as without ftkit.  A scheduler may send the first one twice
 * at once: to mpirun, which hands it on, and to the process. */
static void on_signal(int sig)
{
    int err = errno;
    if (sig == SIGUSR1) {
        sets_asked = sets_asked + 1;
    } else if (!halt_signal) {
        clock_gettime(CLOCK_MONOTONIC, &halt_at);
        halt_signal = sig;
    } else if (sig == SIGTERM && since_halt() > SAME_S) {
        (void)signal(SIGTERM, SIG_DFL);
        (void)raise(SIGTERM);
    }
    errno = err;
}

/* Take the signals that have no handler.  The result has FTK_OWN_... of the others: the program, or
 * its MPI, has handlers for them. */
static int take_signals(void)
{
    static const int owns[NSIGNALS] = { FTK_OWN_USR1, FTK_OWN_USR2, 0 };
    int own = 0;
    for (int i = 0; i < NSIGNALS; i++) {
        struct sigaction is, ours = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
        sigemptyset(&ours.sa_mask);
        if (sigaction(signals[i], NULL, &is) != 0 || (is.sa_flags & SA_SIGINFO)
            || (is.sa_handler != SIG_DFL && is.sa_handler != on_signal))
            own |= owns[i];
        else
            (void)sigaction(signals[i], &ours, NULL); /* without it the signal does what it did */
    }
    return own;
}

/* Begin to look at the page of `ftkit run`. */
static void take_page(struct ftk_steer *s, int own)
{
    static bool tried;
    if (!tried)
        page = ftk_run_map(FTK_REQUESTS_FILE, sizeof *page);
    tried = true;
    if (!page)
        return;
    s->page_sets = atomic_load(&page->sets);
    s->page_halts = atomic_load(&page->halts);
    atomic_fetch_or(&page->own, own);
    atomic_store(&page->readers, 1);
}

/* SIGTERM ends the process again.  The handler of the other two stays: `ftkit run` may send one at
 * the very moment at which the context closes, and the signal would kill the process. */
static void give_signals_back(void)
{
    struct sigaction is;
    if (sigaction(SIGTERM, NULL, &is) == 0 && is.sa_handler == on_signal)
        (void)signal(SIGTERM, SIG_DFL);
}

void ftk_steer_open(struct ftkit_ctx *ctx)
{
    double end = ctx->cfg.deadline_s;
    ctx->steer.end_s = end < 0 ? -end : end > 0 ? 1e-9 * (double)ftk_wall_ns() + end : 0;
    ctx->steer.sets_done = sets_asked;
    int own = ctx->cfg.signals ? 0 : FTK_OWN_ALL;
    if (ctx->cfg.signals && contexts++ == 0) {
        halt_signal = 0; /* of an earlier context */
        own = take_signals();
    }
    take_page(&ctx->steer, own);
}

void ftk_steer_take_deadline(struct ftkit_ctx *ctx, double end_s)
{
    ctx->steer.end_s = end_s;
}

void ftk_steer_close(struct ftkit_ctx *ctx)
{
    if (ctx->cfg.signals && contexts > 0 && --contexts == 0)
        give_signals_back();
}

/* ---- the deadline and the file ----------------------------------------------------------- */

/* Seconds from a request until the set is durable, by the times that were measured: the longest
 * time until the next look, a set that is being written, and the set itself. */
static double need_s(const struct ftkit_ctx *ctx)
{
    double write = fmax(ctx->flush.last_s, ctx->policy.durable_cost_s);
    return ctx->policy.look_s + ctx->policy.call_s + MARGIN * (ctx->policy.costs_s[0] + 2 * write);
}

static bool deadline_is_near(struct ftkit_ctx *ctx)
{
    struct ftk_steer *s = &ctx->steer;
    if (s->end_s <= 0)
        return false;
    double left = s->end_s - 1e-9 * (double)ftk_wall_ns(), need = need_s(ctx);
    if (left > need)
        return false;
    if (left < need / 2 && !s->said_short)
        ftk_report(FTKIT_WARNING,
            "context %s: " DEADLINE " leaves %.1f s, and a durable set needs up to %.1f s: it may "
            "come too late",
            ctx->cfg.name, left, need);
    s->said_short = true;
    return true;
}

/* A look for the file of `ftkit halt`, or its removal. */
struct errand {
    struct ftk_errand errand;
    char dir[FTK_PATH_MAX];
    char name[FTKIT_NAME_MAX + 1];
    uint64_t job;
    bool asks;
};

static void look(struct ftk_errand *e)
{
    struct errand *w = (struct errand *)e;
    w->asks = ftk_halt_file_asks(w->dir, w->name, w->job);
}

static void remove_file(struct ftk_errand *e)
{
    const struct errand *w = (struct errand *)e;
    ftk_halt_file_remove(w->dir, w->name);
}

/* Return whether the errand has ended, and whether the file asks. */
static bool do_errand(
    struct ftkit_ctx *ctx, void (*run)(struct ftk_errand *e), double wait_s, bool *asks)
{
    struct errand *w = calloc(1, sizeof *w);
    if (!w)
        return false;
    w->errand.run = run;
    w->job = ctx->job;
    snprintf(w->dir, sizeof w->dir, "%s", ctx->cfg.h5_dir);
    snprintf(w->name, sizeof w->name, "%s", ctx->cfg.name);
    const bool done = ftk_flush_errand(ctx, &w->errand, wait_s);
    if (done)
        *asks = w->asks;
    ftk_errand_drop(&w->errand);
    return done;
}

/* Whether `ftkit halt` has asked this job. */
static bool file_asks(struct ftkit_ctx *ctx)
{
    struct ftk_steer *s = &ctx->steer;
    if (!ctx->cfg.h5_enabled || ftk_now_s() - s->file_s < FILE_EVERY_S)
        return s->file;
    if (do_errand(ctx, look, LOOK_S, &s->file)) /* else this rank looks again at the next vote */
        s->file_s = ftk_now_s();
    return s->file;
}

/* ---- what this rank asks for ---------------------------------------------------------- */

static const char *signal_name(int sig)
{
    return sig == SIGTERM  ? "SIGTERM"
           : sig == SIGINT ? "SIGINT"
           : sig == SIGHUP ? "SIGHUP"
                           : "SIGUSR2";
}

/* Also for a set that was to be durable: a failure has ended its way to the file system. */
static bool set_is_asked(const struct ftkit_ctx *ctx)
{
    const struct ftk_steer *s = &ctx->steer;
    return (s->owed && ctx->durable < ctx->committed) || sets_asked != s->sets_done
           || (page && atomic_load(&page->sets) != s->page_sets);
}

int ftk_steer_ask(struct ftkit_ctx *ctx)
{
    struct ftk_steer *s = &ctx->steer;
    if (page && atomic_load(&page->halts) != s->page_halts)
        s->reason = signal_name(atomic_load(&page->sig));
    else if (halt_signal)
        s->reason = signal_name(halt_signal);
    else if (ctx->rank == 0 && file_asks(ctx))
        s->reason = "ftkit halt";
    else if (ctx->rank == 0 && deadline_is_near(ctx)) /* by one clock */
        s->reason = DEADLINE;
    else if (s->halt == FTK_HALT_NOT)
        return set_is_asked(ctx) ? FTK_ASK_SET : FTK_ASK_NOTHING;
    return FTK_ASK_HALT;
}

void ftk_steer_taken(struct ftkit_ctx *ctx, int ask)
{
    ctx->steer.sets_done = sets_asked;
    ctx->steer.page_sets = page ? atomic_load(&page->sets) : 0;
    ctx->steer.owed = false;
    if (ask == FTK_ASK_HALT)
        ctx->steer.halt = FTK_HALT_AGREED;
    if (ctx->rank == 0 && ask == FTK_ASK_SET && !ctx->cfg.h5_enabled)
        ftk_report(FTKIT_WARNING,
            "context %s: SIGUSR1 asks for a durable set, but level.hdf5.enabled is false",
            ctx->cfg.name);
}

static void event_halt(const struct ftkit_ctx *ctx)
{
    struct ftk_event e;
    ftk_event_of(&e, ctx, "halt");
    ftk_event_text(
        &e, "reason", ctx->steer.reason ? ctx->steer.reason : "a signal of another rank");
    ftk_event_int(&e, "set", (int64_t)ctx->durable);
    ftk_event_end(&e);
}

static uint64_t halted_set(const struct ftkit_ctx *ctx)
{
    return ctx->cfg.h5_enabled ? ctx->durable : 0;
}

void ftk_steer_halts(const struct ftkit_ctx *ctx)
{
    if (ctx->rank != 0)
        return;
    if (ctx->cfg.h5_enabled)
        ftk_run_state("halts %llu %llu %s", (unsigned long long)ctx->durable,
            (unsigned long long)ctx->committed, ctx->cfg.name);
    else
        ftk_run_state("halts - %llu %s", (unsigned long long)ctx->committed, ctx->cfg.name);
    (void)FTK_FAULT("halt.agreed");
}

void ftk_steer_halted(struct ftkit_ctx *ctx, int rc)
{
    struct ftk_steer *s = &ctx->steer;
    s->halt = FTK_HALT_DURABLE;
    if (ctx->rank != 0)
        return;
    if (s->file)
        (void)do_errand(ctx, remove_file, REMOVE_S, &s->file);
    event_halt(ctx);
    ftk_status_file_last(ctx, "halted");
    ftk_run_state("halted %llu", (unsigned long long)halted_set(ctx));
    const char *reason = s->reason ? s->reason : "a signal";
    if (ctx->cfg.h5_enabled && rc == FTKIT_OK && ctx->durable == ctx->committed)
        ftk_report(FTKIT_INFO, "context %s: halt (%s): set %llu is durable", ctx->cfg.name, reason,
            (unsigned long long)ctx->durable);
    else if (ctx->cfg.h5_enabled)
        ftk_report(FTKIT_WARNING,
            "context %s: halt (%s): the newest durable set is %llu, older than set %llu in "
            "memory%s%s",
            ctx->cfg.name, reason, (unsigned long long)ctx->durable,
            (unsigned long long)ctx->committed, rc == FTKIT_OK ? "" : ": ",
            rc == FTKIT_OK ? "" : ftk_detail_text());
    else
        ftk_report(FTKIT_WARNING,
            "context %s: halt (%s): level.hdf5.enabled is false, so set %llu is in memory only",
            ctx->cfg.name, reason, (unsigned long long)ctx->committed);
}
