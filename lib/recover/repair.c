/* The repair state machine (see repair.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attempt.h"
#include "complete.h"
#include "core/epoch.h"
#include "core/mpi_shim.h"
#include "core/run_state.h"
#include "detect/builds.h"
#include "detect/sure.h"
#include "detect/watchdog.h"
#include "energy/energy.h"
#include "failures.h"
#include "programs.h"
#include "repair.h"
#include "set/checkpoint.h"
#include "supply.h"
#include "transfer.h"

/* Return rc.  An error that another attempt cannot cure becomes the local error: the plan of the
 * next attempt ends the job. */
static int hard(struct ftk_attempt *a, int rc)
{
    if (rc != FTKIT_OK && rc != FTKIT_ERR_PEER && rc != FTKIT_ERR_MPI && rc != FTKIT_ERR_CORRUPT) {
        ftk_report(FTKIT_ERROR, "context %s: rank %d: %s", a->ctx->cfg.name, a->ctx->rank,
            ftk_detail_text());
        ftk_repair_flaw(a->ctx, rc);
    }
    return rc;
}

/* ---- plan ---------------------------------------------------------------------------- */

static int same_plan(struct ftk_attempt *a)
{
    const struct ftk_sure s = { a->s, NULL, "comparing plans" };
    uint64_t hash = ftk_plan_hash(&a->plan);
    int64_t both[2] = { (int64_t)hash, (int64_t)~hash };
    int rc = ftk_sure_min(&s, both, 2);
    if (rc != FTKIT_OK)
        return rc;
    if ((uint64_t)both[0] != hash || (uint64_t)both[1] != ~hash)
        return ftk_fail(FTKIT_ERR_INTERNAL, "processes have made different plans");
    return FTKIT_OK;
}

/* Return for each of n ranks whether it has no process in the census: 1; to be freed.  NULL: no
 * memory. */
static int *lost_ranks(const struct ftk_census *c, int n)
{
    int *lost = malloc((size_t)n * sizeof *lost);
    for (int r = 0; lost && r < n; r++)
        lost[r] = 1;
    for (int i = 0; lost && i < c->n; i++)
        if (c->entries[i].rank >= 0)
            lost[c->entries[i].rank] = 0;
    return lost;
}

/* With several programs a plan needs the program of each rank, which spawned processes do not
 * know. */
static int know_programs(struct ftk_attempt *a, struct ftk_plan_rules *rules)
{
    for (int i = 0; i < a->census.n; i++)
        if (a->census.entries[i].local_error != 0)
            return FTKIT_OK; /* the plan will end the job */
    const struct ftk_programs *const programs = &a->ctx->programs;
    rules->programs = programs;
    return ftk_programs_share(a->ctx, a->s, &a->census);
}

/* With the log a plan needs more than the census: the teams, which spares and spawned processes do
 * not know, and whether the determinants of the lost ranks are lost, too. */
static int know_teams(struct ftk_attempt *a, struct ftk_plan_rules *rules)
{
    int root = -1;
    for (int i = 0; i < a->census.n; i++)
        if (a->census.entries[i].local_error != 0)
            return FTKIT_OK; /* the plan will end the job; the process with it may have no log */
    for (int i = 0; i < a->census.n; i++) {
        const struct ftk_census_entry *e = &a->census.entries[i];
        /* the newest set may have begun other teams */
        if (e->rank >= 0 && (root < 0 || e->committed > a->census.entries[root].committed))
            root = i;
    }
    if (root < 0 || !ftk_log_of(a->ctx))
        return FTKIT_OK; /* at an opening no process has a team yet */
    int n = a->census.entries[root].nranks;
    int *lost = lost_ranks(&a->census, n);
    if (!lost)
        return ftk_fail(FTKIT_ERR_NOMEM, "plan");
    int rc = ftk_log_search(a->ctx, a->s, root, lost, n, &rules->all, &rules->led);
    free(lost);
    rules->team = ftk_log_teams(a->ctx);
    rules->silent = ftk_log_silent(a->ctx);
    return rc;
}

/* Compare the builds of ftkit in an attempt with a process that may have been spawned for this
 * repair: the executable or the library may have been replaced since the start of the job.  If they
 * differ, the plan is to end the job.  A relaunch has one build again. */
static int compare_builds(struct ftk_attempt *a)
{
    const struct ftk_sure s = { a->s, NULL, "comparing builds of ftkit" };
    struct ftk_builds b = { .differ = false };
    int me = 0;
    int rc = ftk_attempt_rank(a, &me);
    if (rc == FTKIT_OK)
        rc = ftk_builds_compare(&s, me, &b);
    if (rc != FTKIT_OK || !b.differ)
        return rc;
    a->plan = (struct ftk_plan){ .outcome = FTK_PLAN_FATAL, .code = FTKIT_ERR_PEER, .flawed = -1 };
    snprintf(a->plan.why, sizeof a->plan.why,
        "process %d of the repair has ftkit %s, and process %d has ftkit %s; the last processes "
        "are spawned. Rule: all processes of a job have one build of ftkit",
        b.process[0], b.text[0], b.process[1], b.text[1]);
    a->planned = true;
    return FTKIT_OK;
}

static int make_plan(struct ftk_attempt *a)
{
    struct ftkit_ctx *ctx = a->ctx;
    struct ftk_plan_rules rules = ftk_plan_rules_of(ctx, &ctx->level[FTK_LEVEL_MEMORY]);
    rules.files = ctx->cfg.h5_enabled;
    rules.local = ctx->level[FTK_LEVEL_LOCAL].on;
    rules.repair = true;
    rules.attempts = ctx->cfg.attempts;
    rules.supply = ctx->cfg.supply;
    rules.nsupply = ctx->cfg.nsupply;
    rules.lost = ctx->cfg.replica_lost;
    for (;;) {
        int rc = a->compares ? compare_builds(a) : FTKIT_OK;
        if (rc != FTKIT_OK || a->planned)
            return rc;
        (void)FTK_FAULT("repair.census");
        rc = ftk_census_take(ctx, &ctx->level[FTK_LEVEL_MEMORY].mem, a->s, &a->census);
        if (rc == FTKIT_OK)
            rc = know_programs(a, &rules);
        if (rc == FTKIT_OK)
            rc = know_teams(a, &rules);
        if (rc == FTKIT_OK)
            rc = ftk_plan_make(&a->census, &rules, &a->plan);
        a->planned = rc == FTKIT_OK;
        (void)FTK_FAULT("repair.plan");
        if (rc == FTKIT_OK)
            ftk_plan_void(&a->plan, &ctx->level[FTK_LEVEL_MEMORY].mem);
        if (rc == FTKIT_OK)
            rc = same_plan(a);
        if (rc != FTKIT_OK || a->plan.outcome != FTK_PLAN_SPAWN)
            return rc;
        MPI_Comm merged = MPI_COMM_NULL;
        (void)FTK_FAULT("repair.spawn");
        int me;
        if (MPI_Comm_rank(a->s, &me) == MPI_SUCCESS && me == 0)
            ftk_report(FTKIT_INFO, "context %s: spawning %d process%s", ctx->cfg.name,
                a->plan.nspawn, a->plan.nspawn == 1 ? "" : "es");
        rc = ftk_supply_spawn(
            ctx, a->s, a->plan.spawned_program, a->plan.nspawn, &merged, &a->refused);
        if (rc == FTKIT_OK)
            rc = ftk_retire(ctx, a->s);
        if (rc != FTKIT_OK)
            return rc;
        a->s = merged;
        a->compares = true;
        ftk_plan_free(&a->plan);
        a->planned = false;
        ftk_census_free(&a->census);
    }
}

/* ---- build --------------------------------------------------------------------------- */

/* Set order [nprocs] to the processes in the order of the next ctl. */
static void order_of(const struct ftk_plan *p, int *order)
{
    int n = p->nranks;
    memcpy(order, p->proc_of, (size_t)n * sizeof *order);
    for (int i = 0; i < p->nprocs; i++)
        if (p->rank_of[i] < 0)
            order[n++] = i;
}

/* MPI_Comm_split() of s.  The result must have the n processes in members, in that order. */
static int split(
    struct ftk_attempt *a, int color, int key, const int *members, int n, MPI_Comm *comm)
{
    const struct ftk_sure s = { a->s, NULL, "making communicators" };
    return ftk_sure_comm(&s, MPI_Comm_split(a->s, color, key, comm), comm, members, n);
}

static int build_comms(struct ftk_attempt *a)
{
    const struct ftk_sure s = { a->s, NULL, "making communicators" };
    const struct ftk_plan *p = &a->plan;
    int me;
    int rc = ftk_attempt_rank(a, &me);
    if (rc != FTKIT_OK)
        return rc;
    int rank = p->rank_of[me];
    int key = rank >= 0 ? rank : p->nranks + me;
    int *order = malloc((size_t)p->nprocs * sizeof *order);
    if (!order)
        return ftk_fail(FTKIT_ERR_NOMEM, "making communicators");
    order_of(p, order);
    (void)FTK_FAULT("repair.build");
    rc = split(a, 0, key, order, p->nprocs, &a->next.ctl);
    if (rc == FTKIT_OK)
        rc = split(
            a, rank >= 0 ? 0 : MPI_UNDEFINED, key, order, rank >= 0 ? p->nranks : 0, &a->next.act);
    free(order);
    if (FTK_FAULT("repair.split")) {
        (void)MPI_Comm_free(&a->next.act); /* injected: as if it had never been made */
        rc = ftk_sure_comm(&s, MPI_ERR_OTHER, &a->next.act, NULL, 0);
    }
    if (rc == FTKIT_OK) /* all ranks must have act before any uses it: only then leave() works */
        rc = ftk_sure_meet(&s);
    if (rc == FTKIT_OK && rank >= 0) {
        const struct ftk_sure act = { a->next.act, NULL, "making communicators" };
        int mrc = MPI_Comm_dup(a->next.act, &a->next.app);
        rc = ftk_sure_comm(&act, mrc, &a->next.app, NULL, 0);
    }
    (void)FTK_FAULT("repair.built");
    return rc;
}

/* Share the identity of the job's sets and slots: the same on all ranks, although the name of the
 * executable and the path of the directory may differ between nodes. */
static int share_identity(struct ftk_attempt *a, int root)
{
    struct ftkit_ctx *ctx = a->ctx;
    const struct ftk_sure act = { a->next.act, NULL, "sharing the identity of the job" };
    struct ftk_identity id = ctx->identity;
    int rc = ftk_sure_bcast(&act, root, &id, sizeof id);
    if (rc != FTKIT_OK)
        return rc;
    ctx->identity = id;
    for (int i = 0; i < FTK_LEVELS; i++)
        ftk_place_identify(&ctx->level[i].mem.place, &id);
    return FTKIT_OK;
}

/* Share the state that replacements lack: from the survivor of the lowest rank. */
static int share_state(struct ftk_attempt *a)
{
    struct ftkit_ctx *ctx = a->ctx;
    const struct ftk_plan *p = &a->plan;
    int root = 0;
    while (root + 1 < p->nranks && p->is_new[root])
        root++;
    if (p->is_new[root])
        root = 0; /* all ranks are new */
    int64_t head[4] = { (int64_t)ctx->run, (int64_t)ctx->next_set, ctx->epoch + 1,
        (int64_t)ftk_random() };
    const struct ftk_sure act = { a->next.act, NULL, "sharing the state" };
    int rc = ftk_sure_bcast(&act, root, head, sizeof head);
    bool mine = !p->is_new[root] && ctx->incarnations && ctx->nranks == p->nranks;
    for (int r = 0; r < p->nranks; r++)
        a->incarnations[r] = mine ? ctx->incarnations[r] : 0;
    if (rc == FTKIT_OK)
        rc = ftk_sure_bcast(
            &act, root, a->incarnations, (size_t)p->nranks * sizeof *a->incarnations);
    a->handover = (struct ftk_handover){ .set_s = ftk_policy_usual_cost(ctx),
        .durable_s = ctx->policy.durable_cost_s,
        .flush_s = ctx->flush.last_s,
        .deadline_s = ctx->steer.end_s,
        .course_set = ctx->course.on ? ctx->course.set : 0,
        .course_far = ctx->course.far,
        .course_far_s = ctx->course.far_s };
    if (rc == FTKIT_OK)
        rc = ftk_sure_bcast(&act, root, &a->handover, sizeof a->handover);
    if (rc == FTKIT_OK)
        rc = share_identity(a, root);
    if (rc == FTKIT_OK)
        rc = ftk_failures_share(a, root);
    if (rc != FTKIT_OK)
        return rc;
    for (int r = 0; r < p->nranks; r++)
        a->incarnations[r] += p->is_new[r] && !p->fresh;
    /* if a start has failed, some ranks may know the line and its run, and the root may not */
    a->run = p->line > 0 ? p->run : (uint64_t)head[0];
    a->next_set = (uint64_t)head[1];
    a->epoch = (int)head[2];
    a->epoch_id = (uint64_t)head[3];
    for (int i = 0; i < a->census.n; i++) /* a number is never used for two sets */
        if (a->census.entries[i].next_set > a->next_set)
            a->next_set = a->census.entries[i].next_set;
    return FTKIT_OK;
}

static int allocate(struct ftk_attempt *a)
{
    size_t n = (size_t)a->plan.nranks;
    int me = 0;
    a->domain = malloc(n * sizeof *a->domain);
    a->incarnations = malloc(n * sizeof *a->incarnations);
    if (!a->domain || !a->incarnations)
        return ftk_fail(FTKIT_ERR_NOMEM, "tables of %zu ranks", n);
    memcpy(a->domain, a->plan.domain, n * sizeof *a->domain);
    int rc = ftk_attempt_rank(a, &me);
    if (rc == FTKIT_OK)
        rc = ftk_programs_list(&a->ctx->programs, &a->census, &a->plan, &a->programs);
    if (rc == FTKIT_OK)
        rc = ftk_failures_begin(a);
    for (int i = 0; rc == FTKIT_OK && i < FTK_LEVELS; i++)
        rc = ftk_layout_make(
            &a->ctx->level[i], a->plan.rank_of[me], a->plan.nranks, a->domain, &a->layout[i]);
    return rc;
}

/* ---- one attempt --------------------------------------------------------------------- */

/* Verify the own segment of a rank that has one, before the agreement.  A replacement verifies its
 * segment later, while it restores: all ranks wait for replacements, so they have less time. */
static int verify_own(struct ftk_attempt *a)
{
    struct ftkit_ctx *ctx = a->ctx;
    int me = 0;
    int rc = ftk_attempt_rank(a, &me);
    if (rc != FTKIT_OK)
        return rc;
    int rank = a->plan.rank_of[me];
    struct ftk_mem_seg *s = ftk_mem_find(&ctx->level[FTK_LEVEL_MEMORY].mem, a->plan.line, rank);
    if (!s || a->plan.is_new[rank])
        return FTKIT_OK;
    if (FTK_FAULT("repair.corrupt")) {
        s->buf[s->bytes - 1] ^= 1;
        s->verified = false;
    }
    rc = ftk_mem_verify(s, "own copy");
    return rc == FTKIT_OK ? rc : ftk_drop_own(ctx, s);
}

static int restore_copies(struct ftk_attempt *a)
{
    struct ftkit_ctx *ctx = a->ctx;
    const struct ftk_plan *p = &a->plan;
    struct ftk_chan ch = { .ctx = ctx, .comm = a->next.act, .repairing = true, .also = a->s };
    a->line = p->line;
    a->line_nranks = p->line_nranks;
    (void)FTK_FAULT("repair.restore");
    if (p->line == 0)
        return FTKIT_OK;
    if (p->from_file)
        return FTKIT_OK; /* the ranks load the line after the repair */
    /* after a shrink: the plan has segments to rebuild, but no transfers and no copies */
    int rc = ftk_complete(ctx, &ctx->level[FTK_LEVEL_MEMORY].mem, &ch, p);
    if (rc == FTKIT_OK && p->pending != FTK_PENDING_SHRUNK)
        rc = verify_own(a);
    (void)FTK_FAULT("repair.restored");
    return rc;
}

static int attempt(struct ftk_attempt *a)
{
    int rc = make_plan(a);
    a->t_planned = ftk_now_s();
    if (rc != FTKIT_OK || a->plan.outcome != FTK_PLAN_GO)
        return rc;
    rc = allocate(a);
    if (rc == FTKIT_OK)
        rc = build_comms(a);
    if (rc == FTKIT_OK && a->next.act != MPI_COMM_NULL)
        rc = share_state(a);
    a->t_built = ftk_now_s();
    if (rc == FTKIT_OK && a->next.act != MPI_COMM_NULL)
        rc = restore_copies(a);
    if (rc == FTKIT_OK && a->next.act != MPI_COMM_NULL) {
        struct ftk_log_repair r = ftk_attempt_for_log(a);
        rc = ftk_log_quiesce(a->ctx, &r, &a->missed, &a->next_event);
    }
    return rc;
}

/* ---- after an attempt ---------------------------------------------------------------- */

/* This process leaves the attempt: revoke s and act, so that no process waits for this one. */
static void leave(struct ftk_attempt *a)
{
    ftk_mpi_revoke(a->s);
    ftk_mpi_revoke(a->next.act);
}

static int discard(struct ftk_attempt *a)
{
    struct ftkit_ctx *ctx = a->ctx;
    for (int i = 0; i < FTK_LEVELS; i++)
        ftk_layout_free(&a->layout[i]);
    free(a->domain);
    free(a->incarnations);
    free(a->programs);
    ftk_failures_free(a->failures);
    ftk_mpi_revoke(a->next.app);
    ftk_mpi_revoke(a->next.act);
    ftk_mpi_revoke(a->next.ctl);
    int rc = ftk_log_discard(ctx);
    if (rc == FTKIT_OK)
        rc = ftk_retire(ctx, a->next.app);
    if (rc == FTKIT_OK)
        rc = ftk_retire(ctx, a->next.act);
    if (rc == FTKIT_OK)
        rc = ftk_retire(ctx, a->next.ctl);
    return rc;
}

/* Whether this process reports to `ftkit run` why the job ends: the one that knows the cause, and
 * the first one where `ftkit run` does not see that node. */
static bool reports_why(const struct ftk_attempt *a, int me)
{
    const struct ftk_census_entry *e = a->census.entries;
    int flawed = a->plan.flawed;
    return me == flawed || (me == 0 && (flawed < 0 || e[flawed].node != e[0].node));
}

/* The contexts of these processes end now: what the processes do next follows from the error. */
static void report_ended(const struct ftk_census *c)
{
    for (int i = 0; i < c->n; i++)
        ftk_run_state("ended %d %d", c->entries[i].process.job, c->entries[i].process.world_rank);
}

static int end_fatal(struct ftk_attempt *a, int me)
{
    struct ftkit_ctx *ctx = a->ctx;
    const struct ftk_plan *p = &a->plan;
    char why[FTK_DETAIL_MAX];
    int cut = (int)strcspn(p->why, ":"); /* the cause instead of the text of the code */
    if (me == p->flawed && ctx->repair.local_why[0])
        snprintf(why, sizeof why, "%.*s: %.400s", cut, p->why, ctx->repair.local_why);
    else
        snprintf(why, sizeof why, "%s", p->why);
    ftk_context_end(ctx, p->code < 0 ? p->code : FTKIT_ERR_PEER);
    if (reports_why(a, me)) {
        /* after a mismatch of the ranks' calls a relaunch would end in the same way */
        if (p->repeats.deaths >= FTK_DEATHS)
            ftk_run_state("again");
        if (p->code != FTKIT_ERR_MISMATCH)
            report_ended(&a->census);
        const bool lacking = p->code == FTKIT_ERR_PEER && ctx->epoch == 0 && !ctx->repair.spawned;
        ftk_run_state("%s %s",
            p->code == FTKIT_ERR_MISMATCH ? "mistake"
            : lacking                     ? "lacking"
                                          : "fatal",
            why);
        ftk_report(FTKIT_ERROR, "context %s: %s", ctx->cfg.name, why);
    }
    return ftk_fail(ctx->dead, "%s", why);
}

/* The processes have agreed: do what the plan says. */
static int conclude(struct ftk_attempt *a)
{
    struct ftkit_ctx *ctx = a->ctx;
    int me = 0;
    int rc = FTKIT_OK;
    switch (a->plan.outcome) {
    case FTK_PLAN_CLOSE:
        rc = ftk_attempt_rank(a, &me);
        if (rc == FTKIT_OK && me == 0) /* the first live process */
            ftk_run_state("closed %s", ctx->cfg.name);
        if (rc == FTKIT_OK)
            rc = ftk_retire(ctx, a->s);
        return rc == FTKIT_OK ? FTK_PARTED : rc;
    case FTK_PLAN_FATAL:
        rc = ftk_attempt_rank(a, &me);
        if (rc == FTKIT_OK)
            rc = ftk_retire(ctx, a->s);
        return rc == FTKIT_OK ? end_fatal(a, me) : rc;
    default:
        rc = ftk_attempt_install(a);
        if (rc == FTKIT_OK)
            ftk_attempt_report(a);
        return rc;
    }
}

static void clean(struct ftk_attempt *a)
{
    ftk_census_free(&a->census);
    if (a->planned)
        ftk_plan_free(&a->plan);
}

/* SHRINK: make s of the live members of from, which is ctl or the last attempt's s. */
static int meet(struct ftkit_ctx *ctx, MPI_Comm from, MPI_Comm *s)
{
    (void)FTK_FAULT("repair.shrink");
    int mrc = ftk_mpi_shrink(from, s);
    (void)FTK_FAULT("repair.shrunk");
    if (mrc != MPI_SUCCESS)
        return ftk_context_end(ctx, ftk_fail_mpi(mrc, "shrinking to the live processes"));
    return FTKIT_OK;
}

int ftk_repair(struct ftkit_ctx *ctx, MPI_Comm start)
{
    MPI_Comm from = start == MPI_COMM_NULL ? ctx->comms.ctl : start;
    bool shrink = start == MPI_COMM_NULL;
    bool compares =
        !shrink && ctx->repair.spawned; /* as the processes that have spawned this one */
    double t0 = ftk_now_s();
    int result;
    if (ctx->dead)
        return ctx->dead;
    if (shrink)
        ftk_detect_raise(ctx);
    ftk_watchdog_state(ctx->dog, FTK_DOG_REPAIR);
    if (ctx->where != FTK_ALL_CLOSED) /* that one only ends the context */
        ftk_energy_begin(ctx, FTK_ENERGY_REPAIR);
    ftk_log_freeze(ctx);
    ctx->detect.repairing = true;
    for (int i = 0; i < FTK_LEVELS; i++)
        ftk_mem_unverify(&ctx->level[i].mem);
    for (;;) {
        struct ftk_attempt a = { .ctx = ctx, .s = from, .compares = compares, .t_start = t0 };
        int agreed = 0;
        a.next = (struct ftk_comms){ MPI_COMM_NULL, MPI_COMM_NULL, MPI_COMM_NULL };
        result = shrink ? meet(ctx, from, &a.s) : FTKIT_OK;
        if (result != FTKIT_OK)
            break;
        if (shrink && from != ctx->comms.ctl && (result = ftk_retire(ctx, from)) != FTKIT_OK)
            break;
        a.t_shrunk = ftk_now_s();
        a.error = hard(&a, attempt(&a));
        if (a.error != FTKIT_OK && ctx->mode != FTKIT_MODE_RESTART)
            leave(&a);
        (void)FTK_FAULT("repair.agree");
        int mrc = a.refused ? MPI_SUCCESS : ftk_mpi_agree(a.s, a.error == FTKIT_OK, &agreed);
        (void)FTK_FAULT("repair.agreed");
        if (mrc == MPI_SUCCESS && agreed) {
            if (shrink) /* the failures are repaired */
                ftk_watchdog_repaired(ctx->dog);
            ftk_attempt_report_processes(&a);
            result = conclude(&a);
            clean(&a);
            break;
        }
        ftk_report(FTKIT_DEBUG, "context %s: repair starts again: %s", ctx->cfg.name,
            a.error ? ftk_detail_text() : "another process asks for it");
        result = discard(&a);
        clean(&a);
        if (result == FTKIT_OK && ctx->mode == FTKIT_MODE_RESTART)
            result = a.error ? a.error : ftk_fail(FTKIT_ERR_PEER, "another process failed");
        if (result != FTKIT_OK)
            break;
        from = a.s;
        shrink = true;
        compares = true; /* on all processes: this attempt may have spawned some */
    }
    ftk_watchdog_state(ctx->dog, FTK_DOG_RUN);
    ctx->detect.repairing = false;
    ftk_energy_end(ctx, FTK_ENERGY_REPAIR);
    if (result == FTKIT_OK && ctx->where == FTK_IN_LOOP)
        ftk_energy_choose_reader(ctx); /* the lowest rank of the node may be another one */
    if (result < 0 && !ctx->dead)
        ftk_context_end(ctx, result);
    return result;
}
