/* The repair state machine (see recover.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/epoch.h"
#include "core/log_ops.h"
#include "core/mpi_shim.h"
#include "core/ranks.h"
#include "core/run_state.h"
#include "detect/sure.h"
#include "detect/watchdog.h"
#include "recover.h"
#include "set/checkpoint.h"
#include "set/group.h"
#include "set/region.h"
#include "set/stream.h"

/* One attempt: what it has made so far, to be installed or thrown away. */
#define LOST_TOLD 64 /* of one repair; with more the job is hardly repaired */

struct attempt {
    struct ftkit_ctx *ctx;
    MPI_Comm s;
    struct ftk_comms next;
    struct ftk_census census;
    struct ftk_plan plan;
    bool planned;
    int error; /* our own, 0 while all is well */
    struct ftk_stream *streams;
    int *domain;
    int *holder;
    int *incarnations;
    uint64_t run, epoch_id;
    uint64_t next_set;
    uint64_t line; /* set that is in memory at the end */
    int line_nranks;
    int epoch;
    int repeats;
    double t_start, t_shrunk, t_planned, t_built;
};

static int hard(struct attempt *a, int rc)
{
    /* failures of peers start the next attempt; anything else of ours ends the repair */
    if (rc != FTKIT_OK && rc != FTKIT_ERR_PEER && rc != FTKIT_ERR_MPI && rc != FTKIT_ERR_CORRUPT) {
        ftk_report(FTKIT_ERROR, "context %s: rank %d: %s", a->ctx->cfg.name, a->ctx->rank,
            ftk_detail_text());
        a->ctx->local_error = rc;
    }
    return rc;
}

/* ---- plan ---------------------------------------------------------------------------- */

static int same_plan(struct attempt *a)
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

/* Which ranks have no process in the census. */
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

/* With the log a repair rests on more than the census: teams, which outlive the processes
 * they were made for, and what the lost had seen decided. */
static int know_teams(struct attempt *a, struct ftk_plan_rules *rules)
{
    int root = 0;
    for (int i = 0; i < a->census.n; i++)
        if (a->census.entries[i].local_error != 0)
            return FTKIT_OK; /* one of them may be without a log; it is all over */
    while (root < a->census.n && a->census.entries[root].rank < 0)
        root++;
    if (root == a->census.n || !ftk_log_of(a->ctx))
        return FTKIT_OK; /* at an opening they are made when the ranks are */
    int n = a->census.entries[root].nranks;
    int rc = ftk_log_share_teams(a->ctx, a->s, root, n);
    int *lost = lost_ranks(&a->census, n);
    if (!lost)
        return ftk_fail(FTKIT_ERR_NOMEM, "plan");
    if (rc == FTKIT_OK)
        rc = ftk_log_search(a->ctx, a->s, lost, n, &rules->all);
    free(lost);
    rules->team = ftk_log_teams(a->ctx);
    return rc;
}

static int make_plan(struct attempt *a)
{
    struct ftkit_ctx *ctx = a->ctx;
    struct ftk_plan_rules rules = { .nranks = ctx->nranks,
        .map = ctx->cfg.map,
        .scheme = ctx->cfg.scheme,
        .files = ctx->cfg.h5_enabled,
        .local = ctx->cfg.local_scheme != FTK_SCHEME_NONE,
        .repair = true,
        .attempts = ctx->cfg.attempts,
        .supply = ctx->cfg.supply,
        .nsupply = ctx->cfg.nsupply };
    for (;;) {
        (void)FTK_FAULT("repair.census");
        int rc = ftk_census_take(ctx, &ctx->mem, a->s, &a->census);
        if (rc == FTKIT_OK)
            rc = know_teams(a, &rules);
        if (rc == FTKIT_OK)
            rc = ftk_plan_make(&a->census, &rules, &a->plan);
        a->planned = rc == FTKIT_OK;
        (void)FTK_FAULT("repair.plan");
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
        rc = ftk_supply_spawn(ctx, a->s, a->plan.nspawn, &merged);
        if (rc == FTKIT_OK)
            rc = ftk_retire(ctx, a->s);
        if (rc != FTKIT_OK)
            return rc;
        a->s = merged;
        ftk_plan_free(&a->plan);
        ftk_census_free(&a->census);
    }
}

/* ---- build --------------------------------------------------------------------------- */

/* Order among all: working ranks by number, then the rest as they come. */
static int my_rank_in_plan(const struct attempt *a, int *me)
{
    int rc = MPI_Comm_rank(a->s, me);
    return rc == MPI_SUCCESS ? FTKIT_OK : ftk_fail_mpi(rc, "rank");
}

/* The processes as they lie in ctl: order [nprocs]. */
static void order_of(const struct ftk_plan *p, int *order)
{
    int n = p->nranks;
    memcpy(order, p->proc_of, (size_t)n * sizeof *order);
    for (int i = 0; i < p->nprocs; i++)
        if (p->rank_of[i] < 0)
            order[n++] = i;
}

static int split(struct attempt *a, int color, int key, const int *members, int n, MPI_Comm *comm)
{
    const struct ftk_sure s = { a->s, NULL, "making communicators" };
    return ftk_sure_comm(&s, MPI_Comm_split(a->s, color, key, comm), comm, members, n);
}

static int build_comms(struct attempt *a)
{
    const struct ftk_sure s = { a->s, NULL, "making communicators" };
    const struct ftk_plan *p = &a->plan;
    int me;
    int rc = my_rank_in_plan(a, &me);
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
        (void)MPI_Comm_free(&a->next.act); /* injected: it was never made */
        rc = ftk_sure_comm(&s, MPI_ERR_OTHER, &a->next.act, NULL, 0);
    }
    if (rc == FTKIT_OK) /* all have act: one without could not make others leave it */
        rc = ftk_sure_meet(&s);
    if (rc == FTKIT_OK && rank >= 0) {
        const struct ftk_sure act = { a->next.act, NULL, "making communicators" };
        int mrc = MPI_Comm_dup(a->next.act, &a->next.app);
        rc = ftk_sure_comm(&act, mrc, &a->next.app, NULL, 0);
    }
    (void)FTK_FAULT("repair.built");
    return rc;
}

/* Whose sets and slots these are: the same on all ranks, whatever each of them runs and sees. */
static int share_identity(struct attempt *a, int root)
{
    struct ftkit_ctx *ctx = a->ctx;
    const struct ftk_sure act = { a->next.act, NULL, "sharing the identity of the job" };
    struct ftk_identity id = ctx->identity;
    int rc = ftk_sure_bcast(&act, root, &id, sizeof id);
    if (rc != FTKIT_OK)
        return rc;
    ctx->identity = id;
    ftk_place_identify(&ctx->mem.place, &id);
    ftk_place_identify(&ctx->local.mem.place, &id);
    return FTKIT_OK;
}

/* How much a repair counts for recover.attempts.  One that replaces nobody counts, too, or calls
 * that fail after every repair would be repaired for ever; but less, because copies that do not
 * hold are replaced in such repairs, and have a limit of their own (ftk_drop_own()). */
static int weight_of(const struct ftk_plan *p)
{
    return p->lost > 0 ? FTK_REPEAT : p->rollback ? 1 : 0;
}

/* What the survivors know and replacements do not: from the survivor of lowest rank. */
static int share_state(struct attempt *a)
{
    struct ftkit_ctx *ctx = a->ctx;
    const struct ftk_plan *p = &a->plan;
    int root = 0;
    while (root + 1 < p->nranks && p->is_new[root])
        root++;
    if (p->is_new[root])
        root = 0; /* everybody is new */
    int64_t head[5] = { (int64_t)ctx->run, (int64_t)ctx->next_set, ctx->epoch + 1,
        (ctx->repeats_of == p->line ? ctx->repeats : 0) + weight_of(p), (int64_t)ftk_random() };
    const struct ftk_sure act = { a->next.act, NULL, "sharing the state" };
    int rc = ftk_sure_bcast(&act, root, head, sizeof head);
    bool mine = !p->is_new[root] && ctx->incarnations && ctx->nranks == p->nranks;
    for (int r = 0; r < p->nranks; r++)
        a->incarnations[r] = mine ? ctx->incarnations[r] : 0;
    if (rc == FTKIT_OK)
        rc = ftk_sure_bcast(
            &act, root, a->incarnations, (size_t)p->nranks * sizeof *a->incarnations);
    if (rc == FTKIT_OK)
        rc = share_identity(a, root);
    if (rc != FTKIT_OK)
        return rc;
    for (int r = 0; r < p->nranks; r++)
        a->incarnations[r] += p->is_new[r] && !p->fresh;
    /* at a start some may know the line, and with it the run, that others still look for */
    a->run = p->line > 0 ? p->run : (uint64_t)head[0];
    a->next_set = (uint64_t)head[1];
    a->epoch = (int)head[2];
    a->repeats = (int)head[3];
    a->epoch_id = (uint64_t)head[4];
    for (int i = 0; i < a->census.n; i++) /* a number is never used for two sets */
        if (a->census.entries[i].next_set > a->next_set)
            a->next_set = a->census.entries[i].next_set;
    return FTKIT_OK;
}

static int allocate(struct attempt *a)
{
    size_t n = (size_t)a->plan.nranks;
    a->streams = calloc(n + 1, sizeof *a->streams);
    a->domain = malloc(n * sizeof *a->domain);
    a->holder = malloc(n * sizeof *a->holder);
    a->incarnations = malloc(n * sizeof *a->incarnations);
    if (!a->streams || !a->domain || !a->holder || !a->incarnations)
        return ftk_fail(FTKIT_ERR_NOMEM, "tables of %zu ranks", n);
    memcpy(a->domain, a->plan.domain, n * sizeof *a->domain);
    memcpy(a->holder, a->plan.holder, n * sizeof *a->holder);
    return FTKIT_OK;
}

/* What the message log has to know of this repair. */
static struct ftk_log_repair for_log(const struct attempt *a)
{
    const struct ftk_plan *p = &a->plan;
    int me = 0;
    (void)my_rank_in_plan(a, &me); /* it has worked before */
    return (struct ftk_log_repair){ .act = a->next.act,
        .me = p->rank_of[me],
        .n = p->nranks,
        .is_new = p->is_new,
        .domain = p->domain,
        .back = p->back,
        .line = p->line,
        .fresh = p->fresh,
        .epoch_id = a->epoch_id };
}

/* ---- one attempt --------------------------------------------------------------------- */

/* While the others' segments travel, those who have theirs make sure that they hold.  The
 * replacements, on whom all wait, do that while they restore. */
static int verify_own(struct attempt *a)
{
    struct ftkit_ctx *ctx = a->ctx;
    int me = 0;
    int rc = my_rank_in_plan(a, &me);
    if (rc != FTKIT_OK)
        return rc;
    int rank = a->plan.rank_of[me];
    struct ftk_mem_seg *s = ftk_mem_find(&ctx->mem, a->plan.line, rank);
    if (!s || a->plan.is_new[rank])
        return FTKIT_OK;
    if (FTK_FAULT("repair.corrupt")) {
        s->buf[s->bytes - 1] ^= 1;
        s->verified = false;
    }
    rc = ftk_mem_verify(s, "own copy");
    return rc == FTKIT_OK ? rc : ftk_drop_own(ctx, s);
}

static int restore_copies(struct attempt *a)
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
        return FTKIT_OK; /* after the repair, when the ranks are whole */
    int rc = FTKIT_OK;
    ftk_plan_clear(p, &ctx->mem);
    if (p->pending != FTK_PENDING_SHRUNK)
        rc = ftk_transfer(ctx, &ctx->mem, &ch, p);
    if (rc == FTKIT_OK)
        rc = ftk_rebuild(ctx, &ctx->mem, &ch, p);
    if (rc == FTKIT_OK && p->pending != FTK_PENDING_SHRUNK)
        rc = verify_own(a);
    (void)FTK_FAULT("repair.restored");
    return rc;
}

static int attempt(struct attempt *a)
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
        struct ftk_log_repair r = for_log(a);
        rc = ftk_log_quiesce(a->ctx, &r);
    }
    return rc;
}

/* ---- after an attempt ---------------------------------------------------------------- */

/* Nobody may wait for us where we do not come to: on s, and on act from when all have it. */
static void leave(struct attempt *a)
{
    ftk_mpi_revoke(a->s);
    ftk_mpi_revoke(a->next.act);
}

static int discard(struct attempt *a)
{
    struct ftkit_ctx *ctx = a->ctx;
    free(a->streams);
    free(a->domain);
    free(a->holder);
    free(a->incarnations);
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

static void install_tables(struct attempt *a)
{
    struct ftkit_ctx *ctx = a->ctx;
    free(ctx->streams);
    free(ctx->domain);
    free(ctx->holder);
    free(ctx->incarnations);
    ctx->streams = a->streams;
    ctx->domain = a->domain;
    ctx->holder = a->holder;
    ctx->incarnations = a->incarnations;
}

/* The pending work of this rank, by where it is. */
static int pending_of(const struct attempt *a, int was_rank)
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
        return FTK_PENDING_NONE; /* a fresh start goes on where it is */
    return p->pending;
}

static void rebind(struct ftkit_ctx *ctx)
{
    for (int i = 0; !ftk_log_of(ctx) && i < ctx->nbound; i++)
        ftk_bound_set(&ctx->bound[i], ctx->comms.app);
}

static int spare_number(const struct attempt *a, int me)
{
    int n = 0;
    for (int i = 0; i < me; i++)
        n += a->plan.rank_of[i] < 0;
    return n;
}

static int install(struct attempt *a)
{
    struct ftkit_ctx *ctx = a->ctx;
    int was = ctx->rank;
    int me, logged = FTKIT_OK;
    char why[FTK_DETAIL_MAX] = "";
    int rc = my_rank_in_plan(a, &me);
    if (rc == FTKIT_OK)
        rc = ftk_detect_disarm(ctx);
    if (rc == FTKIT_OK)
        rc = ftk_retire(ctx, ctx->comms.app);
    if (rc == FTKIT_OK)
        rc = ftk_retire(ctx, ctx->comms.act);
    if (rc == FTKIT_OK)
        rc = ftk_retire(ctx, ctx->comms.ctl);
    if (rc == FTKIT_OK)
        rc = ftk_retire(ctx, a->s);
    if (rc != FTKIT_OK)
        return rc;
    install_tables(a);
    ctx->comms = a->next;
    ctx->failed = 0;
    ctx->ntracked = 0;
    ctx->local_error = 0;
    ctx->ambiguous = false;
    ctx->spawn_failed = false;
    ctx->rank = a->plan.rank_of[me];
    ctx->nranks = a->plan.nranks;
    ctx->nspares = a->plan.nprocs - a->plan.nranks;
    ctx->epoch++;
    ftk_flush_new_epoch(ctx);
    if (ctx->rank >= 0) {
        struct ftk_log_repair of = for_log(a);
        ctx->incarnation = a->incarnations[ctx->rank];
        logged = ftk_log_install(ctx, &of);
        if (logged != FTKIT_OK)
            snprintf(why, sizeof why, "%s", ftk_detail_text());
        ctx->pending = pending_of(a, was);
        ctx->app_errors = false;
        ctx->run = a->run;
        ctx->epoch_id = a->epoch_id;
        ctx->next_set = a->next_set;
        ctx->epoch = a->epoch;
        ctx->repeats = a->repeats;
        ctx->repeats_of = a->plan.line;
        ctx->committed = a->plan.line;
        ctx->line = a->plan.line;
        ctx->line_nranks = a->line_nranks;
        ctx->line_from_file = a->plan.from_file;
        ctx->line_unusable = a->plan.unusable;
        free(ctx->line_source);
        ctx->line_source = a->plan.source;
        a->plan.source = NULL;
        /* processes of the plan are members of s; from here on they are ranks */
        for (int r = 0; ctx->line_source && r < ctx->line_nranks; r++)
            if (ctx->line_source[r] >= 0)
                ctx->line_source[r] = a->plan.rank_of[ctx->line_source[r]];
        bool whole = ctx->pending == FTK_PENDING_LINE && !ctx->line_from_file;
        if (whole || (ftk_log_of(ctx) && !a->plan.back[ctx->rank]))
            ftk_mem_drop_others(&ctx->mem, ctx->line);
        if (a->plan.back[ctx->rank])
            ftk_policy_reset(ctx);
        rc = ftk_group_map(
            ctx, ctx->cfg.scheme, ctx->cfg.group, ctx->cfg.parity, &ctx->group, &ctx->alone);
        if (rc == FTKIT_OK)
            rc = ftk_local_map(ctx);
        if (rc != FTKIT_OK)
            return rc;
    }
    if (ctx->rank < 0) /* segments from an attempt in which this one was no spare */
        ftk_mem_drop_others(&ctx->mem, 0);
    if (ctx->rank >= 0)
        ftk_fault_rank(ctx->rank, ctx->incarnation);
    else
        ftk_fault_rank(a->plan.nranks + spare_number(a, me), 0);
    ftk_free_retired(ctx);
    ftk_sure_close();
    rebind(ctx);
    rc = ftk_detect_arm(ctx);
    if (logged != FTKIT_OK) { /* of this rank alone, after all have agreed */
        ftk_report(FTKIT_ERROR, "context %s: rank %d: %s", ctx->cfg.name, ctx->rank, why);
        ctx->local_error = logged;
        ftk_detect_raise(ctx);
    }
    return rc;
}

static bool rebuilt(const struct ftk_plan *p, int rank)
{
    for (int i = 0; i < p->ngroups; i++)
        for (int k = 0; k < p->groups[i].n; k++)
            if (p->groups[i].rank[k] == rank && p->groups[i].data_to[k] >= 0)
                return true;
    return false;
}

/* Which ranks got their segment from where. */
static void tell_sources(const struct attempt *a)
{
    const struct ftkit_ctx *ctx = a->ctx;
    const struct ftk_plan *p = &a->plan;
    char text[256] = "";
    size_t at = 0;
    int others = 0;
    if (p->pending != FTK_PENDING_LINE || p->from_file)
        return; /* settling tells */
    for (int r = 0; r < p->nranks; r++) {
        bool copied = (p->need_own[r] || p->is_new[r]) && ctx->line_source[r] != r;
        others += !copied && !rebuilt(p, r);
        if (at >= sizeof text - 64)
            continue;
        if (copied)
            at += (size_t)snprintf(text + at, sizeof text - at,
                "%srank %d from the copy at rank %d", at ? ", " : "", r, ctx->line_source[r]);
        else if (rebuilt(p, r))
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

/* Who returns to the line: "ranks 2 and 3 return to set 7, all others go on". */
static void tell_back(const struct attempt *a)
{
    const struct ftkit_ctx *ctx = a->ctx;
    const struct ftk_plan *p = &a->plan;
    char ranks[128], to[64];
    if (!ftk_log_of(ctx) || p->from_file)
        return; /* settling tells which set there is */
    int n = ftk_ranks_text(p->back, p->nranks, ranks, sizeof ranks);
    if (p->line)
        snprintf(to, sizeof to, "set %llu", (unsigned long long)p->line);
    else
        snprintf(to, sizeof to, "%s start, before set 1", n == 1 ? "its" : "their");
    if (n > 0)
        ftk_report(FTKIT_INFO, "context %s: %s return%s to %s%s", ctx->cfg.name,
            n == p->nranks ? "all ranks" : ranks, n == 1 && n < p->nranks ? "s" : "", to,
            n < p->nranks ? ", all others go on" : "");
}

static void tell(const struct attempt *a)
{
    struct ftkit_ctx *ctx = a->ctx;
    const struct ftk_plan *p = &a->plan;
    ctx->detect_s = a->t_shrunk - a->t_start;
    ctx->supply_s = a->t_planned - a->t_shrunk;
    ctx->rebuild_s = a->t_built - a->t_planned;
    if (p->fresh) {
        if (ctx->rank == 0)
            ftk_run_state("open %s", ctx->cfg.name);
        return;
    }
    ctx->repairs++;
    ctx->restore_s = ftk_now_s() - a->t_built;
    ctx->repair_s = ftk_now_s() - a->t_start;
    if (ctx->rank != 0)
        return;
    int replaced = 0;
    for (int r = 0; r < p->nranks; r++)
        replaced += p->is_new[r];
    ftk_run_state("repaired %d %s", p->lost, ctx->cfg.name);
    ftk_report(FTKIT_INFO,
        "context %s: %s in %.1f ms (meet %.1f, plan and supply %.1f, rebuild %.1f, "
        "restore %.1f): %d rank%s replaced, %d given up, %d spare%s left, %sback to set %llu%s",
        ctx->cfg.name, p->from_file ? "processes are back" : "repaired", 1e3 * ctx->repair_s,
        1e3 * ctx->detect_s, 1e3 * ctx->supply_s, 1e3 * ctx->rebuild_s, 1e3 * ctx->restore_s,
        replaced, FTK_S(replaced), p->lost - replaced, ctx->nspares, FTK_S(ctx->nspares),
        p->from_file ? "going " : "", (unsigned long long)p->line,
        p->from_file ? " or older, from files" : "");
    tell_sources(a);
    tell_back(a);
}

static int end_fatal(struct ftkit_ctx *ctx, const struct ftk_plan *p, int me)
{
    ctx->dead = p->code < 0 ? p->code : FTKIT_ERR_PEER;
    if (me == 0) {
        /* of calls that do not fit together a relaunch would be the same */
        ftk_run_state("%s %s", p->code == FTKIT_ERR_MISMATCH ? "mistake" : "fatal", p->why);
        ftk_report(FTKIT_ERROR, "context %s: %s", ctx->cfg.name, p->why);
    }
    return ftk_fail(ctx->dead, "%s", p->why);
}

/* Tell `ftkit run` which processes this repair knows to be lost: mpirun's own word may come when
 * all is over.  At the end of a context, also which are idle spares, of which nothing is expected.
 * One process of each MPI_COMM_WORLD tells of those it can name. */
static void tell_processes(const struct attempt *a)
{
    const struct ftkit_ctx *ctx = a->ctx;
    const MPI_Comm old = ctx->comms.ctl == MPI_COMM_NULL ? ctx->base : ctx->comms.ctl;
    int lost[LOST_TOLD], me = 0;
    if (MPI_Comm_rank(a->s, &me) != MPI_SUCCESS || !ftk_mpi_is_first_in(a->s, me))
        return;
    int n = ftk_mpi_failed_in(old, lost, LOST_TOLD);
    for (int i = 0; i < n; i++)
        ftk_run_process("lost", lost[i]);
    bool end = a->plan.outcome == FTK_PLAN_CLOSE && ctx->cfg.spares_exit;
    for (int i = 0; end && i < a->census.n; i++) {
        int at = a->census.entries[i].rank < 0 ? ftk_mpi_world_rank(a->s, i) : -1;
        if (at >= 0)
            ftk_run_process("idle", at);
    }
}

/* The agreement said yes. */
static int conclude(struct attempt *a)
{
    struct ftkit_ctx *ctx = a->ctx;
    int me = 0;
    int rc = FTKIT_OK;
    switch (a->plan.outcome) {
    case FTK_PLAN_CLOSE:
        rc = my_rank_in_plan(a, &me);
        if (rc == FTKIT_OK && me == 0) /* the first of those that are left */
            ftk_run_state("closed %s", ctx->cfg.name);
        if (rc == FTKIT_OK)
            rc = ftk_retire(ctx, a->s);
        return rc == FTKIT_OK ? FTK_PARTED : rc;
    case FTK_PLAN_FATAL:
        rc = my_rank_in_plan(a, &me);
        if (rc == FTKIT_OK)
            rc = ftk_retire(ctx, a->s);
        return rc == FTKIT_OK ? end_fatal(ctx, &a->plan, me) : rc;
    default:
        rc = install(a);
        if (rc == FTKIT_OK)
            tell(a);
        return rc;
    }
}

static void clean(struct attempt *a)
{
    ftk_census_free(&a->census);
    if (a->planned)
        ftk_plan_free(&a->plan);
}

/* SHRINK: the live members of the last communicator of all. */
static int meet(struct ftkit_ctx *ctx, MPI_Comm from, MPI_Comm *s)
{
    (void)FTK_FAULT("repair.shrink");
    int mrc = ftk_mpi_shrink(from, s);
    (void)FTK_FAULT("repair.shrunk");
    if (mrc != MPI_SUCCESS)
        return ctx->dead = ftk_fail_mpi(mrc, "shrinking to the live processes");
    return FTKIT_OK;
}

int ftk_repair(struct ftkit_ctx *ctx, MPI_Comm start)
{
    MPI_Comm from = start == MPI_COMM_NULL ? ctx->comms.ctl : start;
    bool shrink = start == MPI_COMM_NULL;
    double t0 = ftk_now_s();
    int result;
    if (ctx->dead)
        return ctx->dead;
    if (shrink)
        ftk_detect_raise(ctx);
    ftk_watchdog_state(ctx->dog, FTK_DOG_REPAIR);
    ctx->repairing = true;
    ftk_mem_unverify(&ctx->mem);
    ftk_mem_unverify(&ctx->local.mem);
    for (;;) {
        struct attempt a = { .ctx = ctx, .s = from, .t_start = t0 };
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
        int mrc = ftk_mpi_agree(a.s, a.error == FTKIT_OK, &agreed);
        (void)FTK_FAULT("repair.agreed");
        if (mrc == MPI_SUCCESS && agreed) {
            if (shrink) /* who was gone has been dealt with */
                ftk_watchdog_told(ctx->dog);
            tell_processes(&a);
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
    }
    ftk_watchdog_state(ctx->dog, FTK_DOG_RUN);
    ctx->repairing = false;
    if (result < 0 && !ctx->dead)
        ctx->dead = result;
    return result;
}
