/* ftkit sim: the protocols of a plan, simulated by lib/model.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <string.h>

#include "ftkit.h"
#include "sim.h"

#define LIMIT 1000 /* times the work: a run that takes longer makes no progress */

/* How the machine of a job with so many nodes fails. */
static struct ftk_machine_law law_of(const struct sm_ask *sim, const struct pl_ask *ask,
    const struct sm_failures *failures, double nodes, double mtbf_s)
{
    struct ftk_machine_law law = { .nodes = (int)nodes,
        .mtbf_s = mtbf_s,
        .shape = sim->shape.v,
        .scale_s = mtbf_s / tgamma(1 + 1 / sim->shape.v),
        .multiplicity = ask->multiplicity,
        .job_loss = ask->job_loss.v,
        .repair_s = ask->node_repair.v,
        .repair_sigma = sim->sigma.v,
        .log = failures ? &failures->log : NULL,
        .from_start = sim->from_start };
    return law;
}

static int rollback(const struct sm_ask *ask, const struct sm_failures *failures,
    const struct sm_size *size, int i, struct ftk_sim_result *result)
{
    static const enum ftk_sim_keeps keeps[PL_LEVELS] = {
        [PL_MEMORY] = FTK_SIM_MEMORY, [PL_LOCAL] = FTK_SIM_LOCAL, [PL_FILES] = FTK_SIM_FILES
    };
    const struct pl_plan *plan = &size->plan;
    const struct pl_protocol *p = &plan->protocol[i];
    struct ftk_sim sim = { .job = p->job,
        .pattern = p->pattern,
        .machine = law_of(ask, &plan->ask, failures, plan->ask.nodes.v, plan->ask.mtbf.v),
        .log = p->kind != PL_RESTART,
        .acquaintances = (int)plan->ask.acquaintances.v,
        .spares = size->spares,
        .when_short = ask->when_short,
        .per_node = ask->per_node,
        .limit_s = LIMIT * plan->ask.work.v };
    if (plan->nschemes > 0)
        sim.placement = plan->scheme[plan->best_scheme].placement;
    else
        sim.placement = (struct ftk_model_placement){ FTK_MODEL_RING, 2, 1 };
    for (int l = 0; l < p->job.nlevels; l++)
        sim.keeps[l] = keeps[plan->level_of[l]];
    return ftk_simulate(&sim, ask->seed, ask->runs, result);
}

static int replicas(
    const struct sm_ask *ask, const struct sm_size *size, int i, struct ftk_sim_result *result)
{
    const struct pl_ask *a = &size->plan.ask;
    const struct pl_protocol *p = &size->plan.protocol[i];
    double nodes = a->nodes.v * p->size;
    struct ftk_sim_replicas sim = { .job = { .work_s = a->work.v,
                                        .beta = a->beta.v,
                                        .degree = p->size,
                                        .nodes = a->nodes.v,
                                        .clone_s = a->clone.v,
                                        .relaunch_s = a->relaunch.v },
        .clones = p->kind == PL_CLONED,
        .busy_w = a->busy.v,
        .idle_w = a->idle.v,
        .machine = law_of(ask, a, NULL, nodes, a->node_mtbf.v / nodes),
        .limit_s = LIMIT * a->work.v };
    sim.machine.job_loss = 0; /* the formulas have no such failures, and there are no sets */
    return ftk_simulate_replicas(&sim, ask->seed, ask->runs, result);
}

/* The period that was asked for takes the place of the planned one.  Each level has a set
 * before the end of the work. */
static void set_period(const struct sm_ask *ask, struct pl_plan *plan)
{
    for (int i = 0; i < plan->nprotocols; i++) {
        struct pl_protocol *p = &plan->protocol[i];
        double most = floor(p->job.work_s * p->job.protocol.slowdown / ask->period.v), every = 1;
        if (p->kind > PL_PARALLEL)
            continue;
        p->pattern.period_s = ask->period.v;
        for (int l = 0; l < p->job.nlevels; l++) {
            p->pattern.every[l] = (int)fmin(fmax(fmin(every, most), 1), 1e9);
            every *= ask->every;
        }
        p->feasible = ftk_model_rollback(&p->job, &p->pattern, &p->cost);
        p->efficiency = p->feasible ? p->job.work_s / p->cost.time_s : 0;
    }
    ftk_pl_choose(plan);
}

static int best_of(const struct sm_size *size)
{
    int best = size->plan.best;
    for (int i = 0; size->plan.best < 0 && i < size->plan.nprotocols; i++)
        if (size->plan.protocol[i].kind <= PL_LOG && size->result[i].runs > 0
            && (best < 0 || size->result[i].time_s < size->result[best].time_s))
            best = i;
    return best;
}

int ftk_sm_make(const struct sm_ask *sim, const struct pl_ask *ask,
    const struct sm_failures *failures, enum pl_kind last, struct sm_size *size)
{
    int rc = FTKIT_OK;
    memset(size, 0, sizeof *size);
    ftk_pl_make(ask, &size->plan);
    if (sim->period.from != PL_UNKNOWN)
        set_period(sim, &size->plan);
    size->spares = sim->spares.from != PL_UNKNOWN ? (int)sim->spares.v : size->plan.spares;
    for (int i = 0; rc == FTKIT_OK && i < size->plan.nprotocols; i++) {
        const struct pl_protocol *p = &size->plan.protocol[i];
        bool replica = p->kind > PL_PARALLEL;
        if (p->kind > last || (replica && failures))
            continue; /* the log has no failures of replicas */
        if (!p->feasible && (replica || sim->period.from == PL_UNKNOWN))
            continue; /* there is no period */
        rc = replica ? replicas(sim, size, i, &size->result[i])
                     : rollback(sim, failures, size, i, &size->result[i]);
        size->done[i] = true;
    }
    size->best = best_of(size);
    if (rc != FTKIT_OK)
        ftk_tool_say("out of memory");
    return rc == FTKIT_OK ? TOOL_OK : TOOL_FAIL;
}

double ftk_sm_efficiency(const struct sm_size *size, int protocol)
{
    const struct pl_protocol *p = &size->plan.protocol[protocol];
    const struct ftk_sim_result *r = &size->result[protocol];
    if (!size->done[protocol] || r->runs == 0)
        return 0;
    return size->plan.ask.work.v / r->time_s / (p->kind > PL_PARALLEL ? p->size : 1);
}
