/* Installing an attempt: the processes have agreed, and a new epoch begins.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attempt.h"
#include "core/epoch.h"
#include "core/repair_state.h"
#include "detect/misuse.h"
#include "detect/sure.h"
#include "detect/watchdog.h"
#include "failures.h"
#include "programs.h"
#include "replica/planes.h"
#include "set/checkpoint.h"
#include "set/course.h"
#include "set/number.h"
#include "set/policy.h"
#include "set/replicas.h"

int ftk_attempt_rank(const struct ftk_attempt *a, int *me)
{
    int rc = MPI_Comm_rank(a->s, me);
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "rank");
}

struct ftk_log_repair ftk_attempt_for_log(const struct ftk_attempt *a)
{
    const struct ftk_plan *p = &a->plan;
    int me = 0;
    (void)ftk_attempt_rank(a, &me); /* the same call has succeeded before */
    return (struct ftk_log_repair){ .act = a->next.act,
        .me = p->rank_of[me],
        .n = p->nranks,
        .is_new = p->is_new,
        .domain = p->domain,
        .back = p->back,
        .line = p->line,
        .fresh = p->fresh,
        .epoch_id = a->epoch_id,
        .stale = p->stale,
        .clone_at = p->clone_at };
}

static void install_tables(struct ftk_attempt *a)
{
    struct ftkit_ctx *ctx = a->ctx;
    for (int i = 0; i < FTK_LEVELS; i++)
        ftk_level_take_layout(&ctx->level[i], &a->layout[i]);
    free(ctx->domain);
    free(ctx->incarnations);
    ctx->domain = a->domain;
    ctx->incarnations = a->incarnations;
    ftk_failures_install(a);
    ftk_programs_install(ctx, a->programs, a->plan.nranks);
}

/* Return the work that is left for this rank (enum ftk_pending).  was_rank: its rank before the
 * repair, -1: none. */
static int pending_of(const struct ftk_attempt *a, int was_rank)
{
    const struct ftkit_ctx *ctx = a->ctx;
    const struct ftk_plan *p = &a->plan;
    bool replaced = was_rank < 0;
    if (ctx->where >= FTK_IN_CLOSE)
        return FTK_PENDING_NONE;
    if (!p->back[ctx->rank] && (ctx->where == FTK_IN_LOOP || p->line > 0))
        return FTK_PENDING_NONE;
    if (p->rollback)
        return p->pending;
    if (ctx->where == FTK_IN_LOOP && !replaced)
        return FTK_PENDING_NONE; /* a fresh start continues */
    return p->pending;
}

static void rebind(struct ftkit_ctx *ctx)
{
    for (int i = 0; !ftk_log_of(ctx) && i < ctx->nbound; i++)
        ftk_bound_set(&ctx->bound[i], ctx->comms.app);
}

static int spare_number(const struct ftk_attempt *a, int me)
{
    int n = 0;
    for (int i = 0; i < me; i++)
        n += a->plan.rank_of[i] < 0;
    return n;
}

/* Retire the communicators of the old epoch, and s. */
static int retire_epoch(struct ftkit_ctx *ctx, MPI_Comm s)
{
    int rc = ftk_detect_disarm(ctx);
    if (rc == FTKIT_OK && !ftk_log_of(ctx) && ctx->rank >= 0)
        ftk_misuse_epoch_ends(ctx);
    if (rc == FTKIT_OK)
        rc =
            ftk_log_of(ctx) ? ftk_retire(ctx, ctx->comms.app) : ftk_retire_app(ctx, ctx->comms.app);
    if (rc == FTKIT_OK)
        rc = ftk_retire(ctx, ctx->comms.act);
    if (rc == FTKIT_OK)
        rc = ftk_retire(ctx, ctx->comms.ctl);
    return rc == FTKIT_OK ? ftk_retire(ctx, s) : rc;
}

/* Install the state that working ranks and spares have in common. */
static void install_epoch(struct ftk_attempt *a, int me)
{
    struct ftkit_ctx *ctx = a->ctx;
    install_tables(a);
    ctx->comms = a->next;
    ftk_detect_new_epoch(ctx);
    ftk_repair_new_epoch(ctx);
    ctx->rank = a->plan.rank_of[me];
    ctx->nranks = a->plan.nranks;
    ctx->nspares = a->plan.nprocs - a->plan.nranks;
    ctx->epoch++;
    ftk_flush_new_epoch(ctx);
}

/* Where the plan finds the segment of this rank: a rank, or enum ftk_line_from. */
static int from_of(const struct ftk_attempt *a)
{
    const struct ftk_plan *p = &a->plan;
    const int r = a->ctx->rank;
    if (r < 0 || r >= p->nranks || !p->source || p->from_file)
        return FTK_LINE_SELF;
    if (ftk_plan_rebuilds(p, r))
        return FTK_LINE_PARITY;
    return p->need_own[r] && p->source[r] >= 0 ? p->rank_of[p->source[r]] : FTK_LINE_SELF;
}

/* Install the line of the plan, and the sources of its segments. */
static void install_line(struct ftk_attempt *a)
{
    struct ftkit_ctx *ctx = a->ctx;
    ftk_set_number_committed(ctx, a->plan.line);
    ftk_repair_line(ctx, a->plan.line, from_of(a));
    ftk_repair_line_ranks(ctx, a->line_nranks);
    ctx->repair.line_passed = a->plan.line_passed;
    if (ctx->cfg.replicas > 1)
        ftk_watchdog_line(ctx->dog, ctx->committed);
    ftk_repair_line_in_file(ctx, a->plan.from_file);
    ctx->repair.line_unusable = a->plan.unusable;
    /* sources of the plan are processes, line_source has ranks of the new epoch */
    for (int r = 0; a->plan.source && r < a->line_nranks; r++)
        if (a->plan.source[r] >= 0)
            a->plan.source[r] = a->plan.rank_of[a->plan.source[r]];
    ftk_repair_line_source(ctx, a->plan.source);
    a->plan.source = NULL;
    /* a set apart is in level.local before it is committed: see set/cut.h */
    if (a->plan.line > 0)
        ftk_mem_drop_newer(&ctx->level[FTK_LEVEL_LOCAL].mem, a->plan.line);
    bool whole =
        (ctx->repair.pending == FTK_PENDING_LINE || ctx->repair.pending == FTK_PENDING_CLONE)
        && !ctx->repair.line_from_file;
    if (whole || (ftk_log_of(ctx) && !a->plan.back[ctx->rank]))
        ftk_mem_drop_others(&ctx->level[FTK_LEVEL_MEMORY].mem, ctx->repair.line);
}

/* The set that this rank was writing is committed: another rank has seen the success of the vote.
 * Do what this rank does after a commit. */
static void catch_up(struct ftkit_ctx *ctx, uint64_t next_event)
{
    ftk_policy_committed(ctx, 0);
    ftk_policy_set_event(ctx, next_event);
    ftk_repair_set_committed(ctx);
    ftk_policy_count_set(ctx);
}

/* Install the log of a working rank.  An error is of this rank alone. */
static int install_log(struct ftk_attempt *a)
{
    struct ftkit_ctx *ctx = a->ctx;
    const struct ftk_log_repair of = ftk_attempt_for_log(a);
    if (a->missed)
        catch_up(ctx, a->next_event);
    return ftk_log_install(ctx, &of);
}

/* This process carries its rank for the first time: take over what a survivor knows. */
static void take_over(struct ftkit_ctx *ctx, const struct ftk_handover *of)
{
    ftk_policy_take_costs(ctx, of->set_s, of->durable_s);
    ftk_flush_take_cost(ctx, of->flush_s);
    ftk_steer_take_deadline(ctx, of->deadline_s);
    ftk_course_take_over(ctx, of->course_set, of->course_far, of->course_far_s);
}

/* Whether this is the lowest rank that has been there before the repair. */
static bool reports(const struct ftk_plan *p, int rank)
{
    for (int r = 0; r < rank; r++)
        if (!p->is_new[r])
            return false;
    return !p->is_new[rank];
}

/* Planes that stand still get their state at the set of this call. */
static void install_planes(struct ftk_attempt *a)
{
    struct ftkit_ctx *ctx = a->ctx;
    const struct ftk_plan *p = &a->plan;
    ftk_replicas_stand_still(ctx, p->stale, p->lost > 0);
    ftk_planes_repaired(ctx, reports(p, ctx->rank));
    if (p->stale == 0)
        return;
    if (!p->back[ctx->rank])
        ftk_policy_set_event(ctx, p->clone_at);
}

/* Install the state of a working rank.  was: its rank before the repair, -1: none. */
static void install_rank(struct ftk_attempt *a, int was)
{
    struct ftkit_ctx *ctx = a->ctx;
    ftk_repair_pending(ctx, pending_of(a, was));
    ftk_detect_forget_errors(ctx);
    ftk_set_number_run(ctx, a->run);
    ctx->epoch_id = a->epoch_id;
    ftk_set_number(ctx, a->next_set);
    ctx->epoch = a->epoch;
    ftk_repair_repeats(ctx, &a->plan.repeats);
    install_line(a);
    if (was < 0)
        take_over(ctx, &a->handover);
    if (a->plan.back[ctx->rank]) {
        ftk_policy_reset(ctx);
        ftk_course_go_back(ctx);
    }
    install_planes(a);
}

/* The log of this rank cannot serve the ranks that go back.  A damaged message is only in the log:
 * if all ranks go back, no rank needs the message. */
static void report_of_log(struct ftkit_ctx *ctx, int rc, const char *why)
{
    const bool damaged = rc == FTKIT_ERR_CORRUPT;
    ftk_report(damaged ? FTKIT_WARNING : FTKIT_ERROR, "context %s: rank %d: %s%s", ctx->cfg.name,
        ctx->rank, why, damaged ? "; all ranks go back" : "");
    if (damaged)
        ftk_repair_differ(ctx, FTK_DIFFERS_ALL);
    else
        ftk_repair_flaw(ctx, rc);
    ftk_detect_raise(ctx);
}

int ftk_attempt_install(struct ftk_attempt *a)
{
    struct ftkit_ctx *ctx = a->ctx;
    int was = ctx->rank;
    int me, logged = FTKIT_OK;
    char why[FTK_DETAIL_MAX] = "";
    int rc = ftk_attempt_rank(a, &me);
    if (rc == FTKIT_OK)
        rc = retire_epoch(ctx, a->s);
    if (rc != FTKIT_OK)
        return rc;
    install_epoch(a, me);
    if (ctx->rank >= 0) {
        ctx->incarnation = a->incarnations[ctx->rank];
        logged = install_log(a);
        if (logged != FTKIT_OK)
            snprintf(why, sizeof why, "%s", ftk_detail_text());
        install_rank(a, was);
        ftk_fault_rank(ctx->rank, ctx->incarnation);
    } else {
        /* segments of a failed attempt in which this process would have carried a rank */
        ftk_mem_drop_others(&ctx->level[FTK_LEVEL_MEMORY].mem, 0);
        ftk_fault_rank(a->plan.nranks + spare_number(a, me), 0);
    }
    ftk_free_retired(ctx);
    ftk_sure_close();
    rebind(ctx);
    if (ctx->rank >= 0)
        ftk_durable_stand_in(ctx, a->plan.fresh);
    rc = ftk_detect_arm(ctx);
    if (logged != FTKIT_OK) /* of this rank alone: the next census has it */
        report_of_log(ctx, logged, why);
    return rc;
}
