/* Flushing sets to the file system in the background (see flush.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * At most one flush is under way in a job.  A repair does not stop the flush: the threads of the
 * survivors continue.  Either all their parts become complete, or a thread gives up, because a
 * process of its node has ended or because a part does not come.  A vote shows that the flush ends:
 * when the threads of all other ranks have stopped, rank 0 soon gives up parts that are missing.
 * The next flush begins only after the end of this one. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "checkpoint.h"
#include "core/log_ops.h"
#include "core/run_state.h"
#include "detect/detect.h"
#include "detect/watchdog.h"
#include "energy/energy.h"
#include "flush_start.h"
#include "flusher.h"
#include "errand.h"
#include "number.h"
#include "store/durable/sets.h"

/* Indices of the words of a vote. */
enum { WORD_ERROR = 6, WORD_BUSY = 7, WORD_DURABLE = 8 };
/* Values of WORD_BUSY; the vote takes the smallest.  FIRST: the thread of rank 0 writes; OTHER:
 * that of another rank; NEVER: a rank has no thread. */
enum { BUSY_NO = 0, BUSY_FIRST = -1, BUSY_OTHER = -2, BUSY_NEVER = -3 };

#define GRACE_S 60.0 /* until files of another node are visible here */
#define SILENT_S 5.0 /* a line reports a file system that has not answered for so long */
#define CLOSE_S 5.0  /* most time that closing waits for an errand */
#define LOOK_S 0.1   /* most time that ftkit_query() waits for it */
#define PAUSE_MIN_S 0.0005
#define PAUSE_MAX_S 0.01

/* ---- results of the thread ----------------------------------------------------------- */

void ftk_flush_poll(struct ftkit_ctx *ctx)
{
    struct ftk_flush *fl = &ctx->flush;
    struct ftk_flush_result r;
    if (fl->set == 0 || !ftk_flusher_done(fl->thread, &r))
        return;
    ftk_mem_unhold(fl->held);
    fl->held = NULL;
    fl->set = 0;
    ftk_energy_end(ctx, FTK_ENERGY_FLUSH);
    fl->last_s = r.seconds;
    fl->last_error = r.rc == FTKIT_ERR_PEER ? FTKIT_OK : r.rc;
    if (r.complete)
        ftk_set_number_durable(ctx, r.set);
    if (r.rc == FTKIT_ERR_PEER) {
        ftk_policy_flush_lost(ctx);
    } else if (r.rc != FTKIT_OK) {
        fl->error = r.rc;
        snprintf(fl->why, sizeof fl->why, "%s", r.why);
    }
}

/* Whether a set is complete. */
struct look {
    struct ftk_errand errand;
    char dir[FTK_PATH_MAX];
    char context[FTKIT_NAME_MAX + 1];
    uint64_t set;
    bool complete;
};

static void look(struct ftk_errand *e)
{
    struct look *l = (struct look *)e;
    struct ftk_manifest m = { 0 };
    l->complete = ftk_sets_open(l->dir, l->context, l->set, &m) == FTKIT_OK;
    ftk_manifest_free(&m);
}

uint64_t ftk_flush_durable(struct ftkit_ctx *ctx)
{
    struct look *l;
    ftk_flush_poll(ctx);
    if (ctx->flush.last <= ctx->durable || !(l = calloc(1, sizeof *l)))
        return ctx->durable;
    l->errand.run = look;
    l->set = ctx->flush.last;
    snprintf(l->dir, sizeof l->dir, "%s", ctx->cfg.h5_dir);
    snprintf(l->context, sizeof l->context, "%s", ctx->cfg.name);
    if (ftk_flush_errand(ctx, &l->errand, LOOK_S) && l->complete)
        ftk_set_number_durable(ctx, l->set);
    ftk_errand_drop(&l->errand);
    return ctx->durable;
}

void ftk_flush_look(struct ftkit_ctx *ctx)
{
    struct ftk_flush *fl = &ctx->flush;
    const double set_s = ftk_flusher_silent_s(fl->thread), other_s = ftk_behind_busy_s(fl->behind);
    const double silent_s = set_s > other_s ? set_s : other_s;
    const bool silent = silent_s > SILENT_S;
    if (silent == fl->reported)
        return;
    fl->reported = silent;
    if (silent)
        ftk_report(FTKIT_WARNING,
            "context %s: rank %d: the file system of %s has not answered for %.0f s: sets are not "
            "durable meanwhile; the program goes on",
            ctx->cfg.name, ctx->rank, ctx->cfg.h5_dir, silent_s);
    else
        ftk_report(FTKIT_INFO, "context %s: rank %d: the file system of %s answers again",
            ctx->cfg.name, ctx->rank, ctx->cfg.h5_dir);
}

/* Whether this rank can flush in the background.  Starts the thread. */
static bool is_able(struct ftkit_ctx *ctx)
{
    struct ftk_flush *fl = &ctx->flush;
    if (!ctx->cfg.h5_enabled || !ctx->cfg.h5_async || !ctx->level[FTK_LEVEL_MEMORY].on)
        return false;
    if (fl->thread)
        return true;
    return ftk_sets_in_background(ftk_sets_level(ctx->cfg.h5_level))
           && ftk_flusher_start(&fl->thread) == FTKIT_OK;
}

/* ---- votes --------------------------------------------------------------------------- */

void ftk_flush_take_cost(struct ftkit_ctx *ctx, double s)
{
    ctx->flush.last_s = s;
}

void ftk_flush_ask(struct ftkit_ctx *ctx, struct ftk_vote *v)
{
    struct ftk_flush *fl = &ctx->flush;
    ftk_flush_poll(ctx);
    v->min[WORD_ERROR] = fl->error < fl->agreed ? fl->error : fl->agreed;
    v->min[WORD_BUSY] = BUSY_NO;
    if (fl->set)
        v->min[WORD_BUSY] = ctx->rank == 0 ? BUSY_FIRST : BUSY_OTHER;
    else if (fl->off || !is_able(ctx))
        v->min[WORD_BUSY] = BUSY_NEVER;
    if (ctx->rank == 0)
        v->min[WORD_DURABLE] = (int64_t)ctx->durable;
}

static void say_off(struct ftkit_ctx *ctx)
{
    bool wanted = ctx->cfg.h5_enabled && ctx->cfg.h5_async && ctx->level[FTK_LEVEL_MEMORY].on;
    if (!ctx->flush.off && wanted && ctx->rank == 0)
        ftk_report(FTKIT_WARNING,
            "context %s: a rank has no helper thread, or an HDF5 that is not thread-safe: "
            "sets are written to the file system while the program waits",
            ctx->cfg.name);
    ctx->flush.off = true;
    if (ctx->flush.set) /* begun when all ranks had a thread */
        ftk_flusher_cancel(ctx->flush.thread);
}

bool ftk_flush_agreed(struct ftkit_ctx *ctx, const struct ftk_vote *v)
{
    struct ftk_flush *fl = &ctx->flush;
    int error = (int)v->min[WORD_ERROR];
    if (v->min[WORD_BUSY] == BUSY_NEVER)
        say_off(ctx);
    if (error < 0) {
        if (fl->error == 0 && fl->agreed == 0)
            snprintf(fl->why, sizeof fl->why,
                "a set was not written to the file system by "
                "another rank: %s",
                ftkit_strerror(error));
        fl->agreed = error;
        fl->error = 0;
        if (fl->set) /* the set cannot become complete any more */
            ftk_flusher_cancel(fl->thread);
    }
    if (fl->set && v->min[WORD_BUSY] == BUSY_FIRST) /* this is rank 0, and no other rank writes */
        ftk_flusher_alone(fl->thread, fl->epoch == ctx->epoch ? GRACE_S : GRACE_FAILED_S);
    if ((int64_t)ctx->durable < v->min[WORD_DURABLE])
        ftk_set_number_durable(ctx, (uint64_t)v->min[WORD_DURABLE]);
    return v->min[WORD_BUSY] == BUSY_FIRST || v->min[WORD_BUSY] == BUSY_OTHER;
}

int ftk_flush_return(struct ftkit_ctx *ctx)
{
    struct ftk_flush *fl = &ctx->flush;
    int rc = fl->agreed;
    fl->agreed = 0;
    return rc == FTKIT_OK ? rc : ftk_fail(rc, "%s", fl->why);
}

/* The vote of a drain carries the call in which each rank is.  The vote before a set has the word
 * FTK_VOTE_CALLS, too: so the vote of a drain on one rank never passes for the vote of a set on
 * another rank. */
enum { WORD_FIRST = 2, WORD_LAST = 3, RANK_BITS = 24, CALL_BITS = 56 };

void ftk_flush_ask_calls(const struct ftkit_ctx *ctx, enum ftk_drain call, struct ftk_vote *v)
{
    /* the first call after a rollback or a start is still to come (see loop.c) */
    bool counts = call != FTK_DRAIN_INSIDE && call != FTK_DRAIN_CLOSE_ANYWAY && !ftk_log_apart(ctx);
    bool ahead = ctx->first_call && call != FTK_DRAIN_LOOK;
    uint64_t calls = counts ? ctx->policy.calls + ahead : 0;
    int64_t with_rank =
        (int64_t)(calls << RANK_BITS) * FTK_DRAINS + ((int64_t)call << RANK_BITS) + ctx->rank;
    ftk_vote_same(v, FTK_VOTE_CALLS, (uint64_t)call << CALL_BITS | calls);
    v->min[WORD_FIRST] = with_rank;
    v->min[WORD_LAST] = -with_rank;
}

static enum ftk_drain call_of(int64_t with_rank)
{
    return (enum ftk_drain)((with_rank >> RANK_BITS) % FTK_DRAINS);
}

/* "rank 2 is in ftkit_close after 20 calls of ftkit_checkpoint" */
static bool say_where(int64_t with_rank, int nranks, char *text, size_t bytes)
{
    static const char *const names[FTK_DRAINS] = { "ftkit_checkpoint", "ftkit_wait", "ftkit_finish",
        "ftkit_close", "ftkit_close", "ftkit_checkpoint", "ftkit_scrub" };
    int rank = (int)(with_rank & ((1 << RANK_BITS) - 1));
    int64_t calls = (with_rank >> RANK_BITS) / FTK_DRAINS;
    if (with_rank < 0 || with_rank == INT64_MAX || rank >= nranks)
        return false;
    snprintf(text, bytes, "rank %d is in %s after %lld calls of ftkit_checkpoint", rank,
        names[call_of(with_rank)], (long long)calls);
    return true;
}

int ftk_flush_mismatch(const struct ftkit_ctx *ctx, const struct ftk_vote *v)
{
    char first[96], last[96];
    if (!say_where(v->min[WORD_FIRST], ctx->nranks, first, sizeof first)
        || !say_where(-v->min[WORD_LAST], ctx->nranks, last, sizeof last)) {
        snprintf(first, sizeof first, "some ranks are at the end");
        snprintf(last, sizeof last, "others in ftkit_checkpoint");
    }
    int rc = ftk_fail(FTKIT_ERR_MISMATCH, "%s, %s. Rule: " FTK_RULE_LEAVE, first, last);
    bool again = call_of(v->min[WORD_FIRST]) == FTK_DRAIN_CLOSE_ANYWAY; /* it counts no calls */
    if (ctx->rank == 0 && !again) { /* the job fails even if the program ignores the code */
        ftk_run_state("exit 1");
        ftk_report(FTKIT_ERROR, "context %s: %s", ctx->cfg.name, ftk_detail_text());
    }
    return rc;
}

int ftk_flush_drain(struct ftkit_ctx *ctx, struct ftk_chan *ch, enum ftk_drain call)
{
    double pause_s = PAUSE_MIN_S;
    for (;;) {
        struct ftk_vote v;
        ftk_vote_init(&v);
        ftk_flush_ask(ctx, &v);
        ftk_flush_ask_calls(ctx, call, &v);
        int rc = ftk_vote(ch, ctx->nranks, &v);
        if (rc == FTKIT_OK && !ftk_vote_is_same(&v, FTK_VOTE_CALLS))
            return ftk_flush_mismatch(ctx, &v);
        const bool done = rc != FTKIT_OK || !ftk_flush_agreed(ctx, &v);
        ftk_flush_look(ctx); /* also at the end: the file system may answer again */
        if (done)
            return rc;
        struct timespec t = { 0, (long)(1e9 * pause_s) };
        (void)nanosleep(&t, NULL); /* a shorter sleep does no harm */
        pause_s = 2 * pause_s < PAUSE_MAX_S ? 2 * pause_s : PAUSE_MAX_S;
        ftk_watchdog_progress(ctx->dog);
    }
}

/* ---- beginning ----------------------------------------------------------------------- */

/* Begin, and wait until the thread of this rank has the set. */
static int submit(struct ftk_chan *ch, uint64_t set)
{
    struct ftk_flush_start *s = NULL;
    unsigned turns = 0;
    bool done = false;
    int rc = ftk_flush_start(ch, set, &s);
    while (rc == FTKIT_OK && !done) {
        rc = ftk_flush_start_step(&s, &done);
        if (rc == FTKIT_OK && !done)
            ftk_chan_progress(ch, &turns);
    }
    return rc;
}

static int begin(struct ftk_chan *ch, uint64_t set, bool wait)
{
    int rc = wait ? ftk_flush_drain(ch->ctx, ch, FTK_DRAIN_INSIDE) : FTKIT_OK;
    return rc == FTKIT_OK ? submit(ch, set) : rc;
}

static int write_now(struct ftk_chan *ch, uint64_t set)
{
    ftk_energy_begin(ch->ctx, FTK_ENERGY_FLUSH);
    int rc = ftk_durable_write(ch, set);
    ftk_energy_end(ch->ctx, FTK_ENERGY_FLUSH);
    return rc;
}

enum ftk_flush_how ftk_flush_how(const struct ftkit_ctx *ctx, uint64_t set, int due, bool busy)
{
    if (due == 1 && busy) {
        if (ctx->rank == 0)
            ftk_report(FTKIT_DEBUG,
                "context %s: set %llu is not written to the file system: an earlier "
                "one still is",
                ctx->cfg.name, (unsigned long long)set);
        return FTK_FLUSH_NOT;
    }
    if (!due)
        return FTK_FLUSH_NOT;
    return ctx->flush.off ? FTK_FLUSH_WAIT : busy ? FTK_FLUSH_AFTER : FTK_FLUSH_NOW;
}

int ftk_flush_set(struct ftk_chan *ch, uint64_t set, int due, bool busy)
{
    struct ftkit_ctx *ctx = ch->ctx;
    int rc = FTKIT_OK;
    const enum ftk_flush_how how = ftk_flush_how(ctx, set, due, busy);
    if (how != FTK_FLUSH_NOT) {
        double t0 = ftk_now_s();
        rc = how == FTK_FLUSH_WAIT ? write_now(ch, set) : begin(ch, set, how == FTK_FLUSH_AFTER);
        if (rc != FTKIT_ERR_PEER) /* else the next set is due: see ftk_set_write() */
            ftk_policy_flushed(ctx, ftk_now_s() - t0);
    }
    if (rc == FTKIT_ERR_PEER)
        return rc;
    int before = ftk_flush_return(ctx);
    return rc != FTKIT_OK ? rc : before;
}

bool ftk_flush_close(struct ftkit_ctx *ctx)
{
    struct ftk_flush *fl = &ctx->flush;
    const bool busy = !ftk_behind_close(&fl->behind, CLOSE_S);
    if (!ftk_flusher_close(fl->thread) || busy)
        return false;
    ftk_ring_close(fl->ring);
    free(fl->writer);
    free(fl->member);
    free(fl->heads);
    memset(fl, 0, sizeof *fl);
    return true;
}
