/* The lines about a repair (see attempt.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "attempt.h"
#include "core/event.h"
#include "core/mpi_shim.h"
#include "core/ranks.h"
#include "core/run_state.h"
#include "set/course.h"

/* Report from where each rank has its segment of the line. */
static void report_sources(const struct ftk_attempt *a)
{
    const struct ftkit_ctx *ctx = a->ctx;
    const struct ftk_plan *p = &a->plan;
    char text[256] = "";
    size_t at = 0;
    int others = 0;
    if (p->pending != FTK_PENDING_LINE || p->from_file)
        return; /* the restore reports the sources */
    for (int r = 0; r < p->nranks; r++) {
        bool copied = (p->need_own[r] || p->is_new[r]) && ctx->repair.line_source[r] != r;
        others += !copied && !ftk_plan_rebuilds(p, r);
        if (at >= sizeof text - 64)
            continue;
        if (copied)
            at +=
                (size_t)snprintf(text + at, sizeof text - at, "%srank %d from the copy at rank %d",
                    at ? ", " : "", r, ctx->repair.line_source[r]);
        else if (ftk_plan_rebuilds(p, r))
            at += (size_t)snprintf(text + at, sizeof text - at,
                "%srank %d from the parity of its group", at ? ", " : "", r);
    }
    if (at >= sizeof text - 64)
        at += (size_t)snprintf(text + at, sizeof text - at, ", ...");
    if (others == p->nranks)
        snprintf(text, sizeof text, "all ranks from their own memory");
    else if (others > 0)
        snprintf(text + at, sizeof text - at, ", all others from their own memory");
    ftk_report(
        FTKIT_INFO, "context %s: set %llu: %s", ctx->cfg.name, (unsigned long long)p->line, text);
}

/* Report a plane whose state others get, and which no other plane is compared with. */
static void report_alone(const struct ftkit_ctx *ctx, const struct ftk_plan *p)
{
    const unsigned whole = ((1U << ctx->cfg.replicas) - 1) & ~p->stale;
    if ((whole & (whole - 1)) != 0)
        return;
    ftk_report(FTKIT_WARNING,
        "context %s: plane %d is alone until then: a bit that flips in it after set %llu is not "
        "found (replicas.lost = compared finds it)",
        ctx->cfg.name, ffs((int)whole) - 1, (unsigned long long)p->line);
}

/* Report the ranks that roll back: "ranks 2 and 3 return to set 7, all others go on". */
static void report_back(const struct ftk_attempt *a)
{
    const struct ftkit_ctx *ctx = a->ctx;
    const struct ftk_plan *p = &a->plan;
    char ranks[128], to[64];
    if (!ftk_log_of(ctx) || p->from_file)
        return; /* the restore reports the set */
    int n = ftk_ranks_text(p->back, p->nranks, ranks, sizeof ranks);
    if (p->stale) {
        ftk_report(FTKIT_INFO,
            "context %s: %s stand still until call %llu, which gives them the state of their "
            "replicas; all others go on",
            ctx->cfg.name, ranks, (unsigned long long)p->clone_at);
        report_alone(ctx, p);
        return;
    }
    if (p->line)
        snprintf(to, sizeof to, "set %llu", (unsigned long long)p->line);
    else
        snprintf(to, sizeof to, "%s start, before set 1", n == 1 ? "its" : "their");
    if (n > 0)
        ftk_report(FTKIT_INFO, "context %s: %s return%s to %s%s", ctx->cfg.name,
            n == p->nranks ? "all ranks" : ranks, n == 1 && n < p->nranks ? "s" : "", to,
            n < p->nranks ? ", all others go on" : "");
}

static void event_list(struct ftk_event *e, const char *key, const int *is, int n)
{
    ftk_event_list(e, key);
    for (int r = 0; r < n; r++)
        if (is[r])
            ftk_event_item(e, r);
    ftk_event_list_end(e);
}

/* The event "repair".  Rank 0 adds what is the same on all ranks. */
static void event_repair(const struct ftk_attempt *a)
{
    const struct ftkit_ctx *ctx = a->ctx;
    const struct ftk_plan *p = &a->plan;
    struct ftk_event e;
    ftk_event_of(&e, ctx, "repair");
    ftk_event_seconds(&e, "seconds", ctx->stats.repair_s);
    ftk_event_seconds(&e, "detect", ctx->stats.detect_s);
    ftk_event_seconds(&e, "supply", ctx->stats.supply_s);
    ftk_event_seconds(&e, "rebuild", ctx->stats.rebuild_s);
    ftk_event_seconds(&e, "restore", ctx->stats.restore_s);
    ftk_event_int(&e, "line", (int64_t)p->line);
    ftk_event_int(&e, "epoch", ctx->epoch);
    if (ctx->rank == 0) {
        ftk_event_int(&e, "lost", p->lost);
        ftk_event_int(&e, "spares", ctx->nspares);
        event_list(&e, "replaced", p->is_new, p->nranks);
        event_list(&e, p->stale ? "stand" : "back", p->back, p->nranks);
    }
    ftk_event_end(&e);
}

/* A process that was spawned belongs to the job from now on (mark `joined`).  The end of a process
 * of a spawn that was given up is no failure of the job. */
static void report_joined(const struct ftkit_ctx *ctx)
{
    static bool reported;
    int me = 0;
    if (reported || !ctx->repair.spawned || MPI_Comm_rank(MPI_COMM_WORLD, &me) != MPI_SUCCESS)
        return;
    reported = true;
    ftk_run_process("joined", me);
}

void ftk_attempt_report(const struct ftk_attempt *a)
{
    struct ftkit_ctx *ctx = a->ctx;
    const struct ftk_plan *p = &a->plan;
    report_joined(ctx);
    ctx->stats.detect_s = a->t_shrunk - a->t_start;
    ctx->stats.supply_s = a->t_planned - a->t_shrunk;
    ctx->stats.rebuild_s = a->t_built - a->t_planned;
    if (p->fresh) {
        if (ctx->rank == 0)
            ftk_run_state("open %s", ctx->cfg.name);
        return;
    }
    ctx->stats.repairs++;
    ctx->stats.restore_s = ftk_now_s() - a->t_built;
    ctx->stats.repair_s = ftk_now_s() - a->t_start;
    ftk_course_repaired(ctx, ctx->stats.repair_s);
    if (ctx->rank >= 0)
        event_repair(a);
    if (ctx->rank != 0)
        return;
    int replaced = 0;
    for (int r = 0; r < p->nranks; r++)
        replaced += p->is_new[r];
    char back[80] = "";
    if (!p->stale)
        snprintf(back, sizeof back, ", %sback to set %llu%s", p->from_file ? "going " : "",
            (unsigned long long)p->line, p->from_file ? " or older, from files" : "");
    /* first: a lost rank 0 may have been the only one to see the set of a halt */
    ftk_run_state("back %llu %s", (unsigned long long)p->line, ctx->cfg.name);
    ftk_run_state("repaired %d %s", p->lost, ctx->cfg.name);
    ftk_report(FTKIT_INFO,
        "context %s: %s in %.1f ms (meet %.1f, plan and supply %.1f, rebuild %.1f, "
        "restore %.1f): %d rank%s replaced, %d given up, %d spare%s left%s",
        ctx->cfg.name, p->from_file ? "processes are back" : "repaired", 1e3 * ctx->stats.repair_s,
        1e3 * ctx->stats.detect_s, 1e3 * ctx->stats.supply_s, 1e3 * ctx->stats.rebuild_s,
        1e3 * ctx->stats.restore_s, replaced, FTK_S(replaced), p->lost - replaced, ctx->nspares,
        FTK_S(ctx->nspares), back);
    report_sources(a);
    report_back(a);
}

/* The number of a repair of the context, the same on all processes: that of the epoch which ends.
 * A spare that was spawned has seen fewer epochs than a rank. */
static int number_of(const struct ftk_attempt *a)
{
    int epoch = a->ctx->epoch;
    for (int i = 0; i < a->census.n; i++)
        if (a->census.entries[i].epoch > epoch)
            epoch = a->census.entries[i].epoch;
    return epoch;
}

/* Report to `ftkit run` the processes that this repair has found to be lost (mark `lost`), because
 * mpirun may report them only after the job has ended; when the context closes, also its idle
 * spares (mark `idle`).  One process of each MPI_COMM_WORLD reports the processes of that world.
 * The mark `lost` has the number of the repair and of all its losses: `ftkit run` asks whether all
 * of them have called MPI_Abort. */
void ftk_attempt_report_processes(const struct ftk_attempt *a)
{
    const struct ftkit_ctx *ctx = a->ctx;
    int me = 0;
    if (MPI_Comm_rank(a->s, &me) != MPI_SUCCESS || !ftk_mpi_is_first_in(a->s, me))
        return;
    /* in an opening ftk_gather() reports the lost; a process that joins a repair has no view of
     * the lost, and a survivor reports them */
    const bool opening = ctx->comms.ctl == MPI_COMM_NULL;
    if (!opening)
        ftk_run_lost(ctx->comms.ctl, a->s, number_of(a), ctx->cfg.name);
    bool end = a->plan.outcome == FTK_PLAN_CLOSE && ctx->cfg.spares_exit;
    for (int i = 0; end && i < a->census.n; i++) {
        int at = a->census.entries[i].rank < 0 ? ftk_mpi_world_rank(a->s, i) : -1;
        if (at >= 0)
            ftk_run_process("idle", at);
    }
}
