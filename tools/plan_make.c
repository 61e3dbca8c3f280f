/* ftkit plan: the plan from costs and failure rates, by the formulas of lib/model.
 *
 * Failures are of two kinds.  A share of them (job_loss) ends the job and leaves its nodes: only
 * the levels local and files outlive it.  The rest are failures of nodes, of one or several at
 * once.  The scheme of the memory level survives a part of these; after the others the job starts
 * again from the files.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <string.h>

#include "plan.h"

#define EQUAL 0.001 /* efficiencies that differ less are the same for the choice of a scheme */

/* ---- the job ------------------------------------------------------------------------- */

/* The job without a log; survives: of the failures of nodes, the memory level. */
static struct ftk_model_job job_of(struct pl_plan *plan, double survives)
{
    const struct pl_ask *a = &plan->ask;
    double loss = a->job_loss.v, nodes = 1 - loss;
    const double share[PL_LEVELS] = { nodes * survives, loss, nodes * (1 - survives) };
    struct ftk_model_job job = { .work_s = a->work.v,
        .mtbf_s = a->mtbf.v,
        .sockets = a->nodes.v,
        .busy_w = a->busy.v,
        .idle_w = a->idle.v,
        .protocol = { 1, 1, 1, INFINITY } };
    double rest = 0; /* of failures whose level has no costs: the next level */
    for (int l = 0; l < PL_LEVELS; l++) {
        rest += share[l];
        if (a->cost[l].from == PL_UNKNOWN)
            continue;
        plan->level_of[job.nlevels] = l;
        job.level[job.nlevels++] = (struct ftk_model_level){ .cost_s = a->cost[l].v,
            .latency_s = l == PL_FILES ? a->flush.v : 0,
            .restart_s = l == PL_MEMORY ? a->repair.v : a->relaunch.v,
            .share = rest,
            .whole = l != PL_MEMORY };
        rest = 0;
    }
    return job;
}

/* ---- schemes ------------------------------------------------------------------------- */

static void add_scheme(
    struct pl_plan *plan, const char *name, enum ftk_model_map map, int group, int parity)
{
    const struct pl_ask *a = &plan->ask;
    int n = (int)a->nodes.v;
    if (group > n)
        return;
    struct pl_scheme *s = &plan->scheme[plan->nschemes++];
    *s = (struct pl_scheme){ .name = name, .placement = { map, group, parity } };
    s->memory = ftk_model_memory(&s->placement);
    s->survives = ftk_model_survivability(&s->placement, &a->multiplicity, n, 0);
    s->survives_log =
        ftk_model_survivability(&s->placement, &a->multiplicity, n, (int)a->acquaintances.v);
    struct ftk_model_job job = job_of(plan, s->survives);
    struct ftk_model_pattern pattern;
    struct ftk_model_cost cost;
    s->feasible = ftk_model_optimum(&job, FTK_MODEL_TIME, &pattern, &cost);
    s->efficiency = s->feasible ? job.work_s / cost.time_s : 0;
}

/* The most efficient scheme; of those that are nearly so, the one that needs least memory. */
static int best_scheme(const struct pl_plan *plan)
{
    double most = 0;
    int best = 0;
    for (int i = 0; i < plan->nschemes; i++)
        most = fmax(most, plan->scheme[i].efficiency);
    for (int i = 0; i < plan->nschemes; i++) {
        const struct pl_scheme *s = &plan->scheme[i], *b = &plan->scheme[best];
        bool good = s->efficiency >= most - EQUAL, better = b->efficiency >= most - EQUAL;
        if (good && (!better || s->memory < b->memory - 1e-9))
            best = i;
    }
    return best;
}

static void make_schemes(struct pl_plan *plan)
{
    int group = plan->ask.group, parity = plan->ask.parity;
    add_scheme(plan, "buddy, pairs", FTK_MODEL_PAIR, 2, 1);
    add_scheme(plan, "buddy, ring", FTK_MODEL_RING, 2, 1);
    if (group > 0) {
        add_scheme(plan, parity > 1 ? "rs" : "xor", FTK_MODEL_PARITY, group, parity);
    } else {
        add_scheme(plan, "xor", FTK_MODEL_PARITY, 4, 1);
        add_scheme(plan, "xor", FTK_MODEL_PARITY, 8, 1);
        add_scheme(plan, "rs", FTK_MODEL_PARITY, 8, 2);
        add_scheme(plan, "rs", FTK_MODEL_PARITY, 16, 2);
        add_scheme(plan, "rs", FTK_MODEL_PARITY, 32, 3);
    }
    plan->best_scheme = best_scheme(plan);
}

/* ---- protocols ----------------------------------------------------------------------- */

static struct pl_protocol *add_protocol(struct pl_plan *plan, enum pl_kind kind, int size)
{
    struct pl_protocol *p = &plan->protocol[plan->nprotocols++];
    *p = (struct pl_protocol){ .kind = kind, .size = size };
    return p;
}

static void add_rollback(struct pl_plan *plan, enum pl_kind kind, int size, double slowdown,
    double speed, double imbalance)
{
    struct pl_protocol *p = add_protocol(plan, kind, size);
    const struct pl_scheme *s = &plan->scheme[plan->best_scheme];
    double survives = kind == PL_RESTART ? s->survives : s->survives_log;
    p->job = job_of(plan, plan->nschemes > 0 ? survives : 0);
    p->job.protocol = (struct ftk_model_protocol){ slowdown, speed, imbalance,
        kind == PL_RESTART ? (double)INFINITY : size };
    p->feasible = ftk_model_optimum(&p->job, plan->ask.aim, &p->pattern, &p->cost);
    p->efficiency = p->feasible ? p->job.work_s / p->cost.time_s : 0;
}

static void add_replicas(struct pl_plan *plan, enum pl_kind kind, int degree)
{
    const struct pl_ask *a = &plan->ask;
    struct pl_protocol *p = add_protocol(plan, kind, degree);
    struct ftk_model_replicas r = { .work_s = a->work.v,
        .beta = a->beta.v,
        .degree = degree,
        .nodes = a->nodes.v,
        .mtbf_s = a->node_mtbf.v,
        .clone_s = a->clone.v,
        .relaunch_s = a->relaunch.v };
    p->feasible = kind == PL_CLONED ? ftk_model_cloned_s(&r, &p->cost.time_s)
                                    : ftk_model_uncloned_s(&r, &p->cost.time_s);
    if (!p->feasible)
        return;
    struct ftk_model_cost *c = &p->cost;
    double lost = c->time_s - ftk_model_replicas_s(&r); /* by failures */
    p->efficiency = a->work.v / c->time_s / degree;
    c->work_s = a->work.v;
    c->log_s = degree * ftk_model_replicas_s(&r) - a->work.v;
    *(kind == PL_CLONED ? &c->restart_s : &c->redo_s) = degree * lost;
}

static void make_protocols(struct pl_plan *plan)
{
    const struct pl_ask *a = &plan->ask;
    double p = a->parallel.v;
    add_rollback(plan, PL_RESTART, 0, 1, 1, 1);
    for (int i = 0; i < a->nteams; i++)
        add_rollback(plan, PL_LOG, a->team[i].nodes, a->team[i].slowdown, a->team[i].speed, 1);
    add_rollback(plan, PL_PARALLEL, (int)p, a->team[0].slowdown, p, (p + 1) / p);
    for (int r = 2; r <= 3; r++) {
        add_replicas(plan, PL_CLONED, r);
        add_replicas(plan, PL_UNCLONED, r);
    }
}

static int best_protocol(const struct pl_plan *plan)
{
    int best = -1;
    for (int i = 0; i < plan->nprotocols; i++) {
        const struct pl_protocol *p = &plan->protocol[i];
        if (!p->feasible || p->kind > PL_LOG)
            continue;
        double now = plan->ask.aim == FTK_MODEL_TIME ? p->cost.time_s : p->cost.joules;
        const struct ftk_model_cost *b = best >= 0 ? &plan->protocol[best].cost : NULL;
        if (!b || now < (plan->ask.aim == FTK_MODEL_TIME ? b->time_s : b->joules))
            best = i;
    }
    return best;
}

void ftk_pl_choose(struct pl_plan *plan)
{
    const struct pl_ask *ask = &plan->ask;
    plan->best = best_protocol(plan);
    if (plan->best < 0)
        return;
    double time = plan->protocol[plan->best].cost.time_s, repair = ask->node_repair.v;
    /* nodes that fail, as many at once as one node with this MTBF would */
    double lost = ask->nodes.v * (1 - ask->job_loss.v)
                  * ftk_model_mean_nodes(&ask->multiplicity, (int)ask->nodes.v);
    plan->spares = ftk_model_spares(lost, time, ask->node_mtbf.v, repair, ask->risk.v);
    plan->spares_mean = ftk_model_spares_mean(lost, time, ask->node_mtbf.v, repair);
}

void ftk_pl_make(const struct pl_ask *ask, struct pl_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    plan->ask = *ask;
    if (ask->cost[PL_MEMORY].from != PL_UNKNOWN)
        make_schemes(plan);
    make_protocols(plan);
    ftk_pl_choose(plan);
}
