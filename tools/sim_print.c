/* ftkit sim: the result as text and as JSON.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "sim.h"

static const char *const part_keys[FTK_SIM_PARTS] = { "work", "log", "sets", "redo", "restart",
    "degraded" };
static const char *const part_text[FTK_SIM_PARTS] = { "work", "slowdown by the log", "sets",
    "lost work done again", "restarts", "fewer nodes" };
static const char *const count_keys[FTK_SIM_COUNTS] = { "failures", "spares", "short", "relaunches",
    "job_losses", "data_lost", "determinants_lost" };
static const char *const count_text[FTK_SIM_COUNTS] = { "failures", "spares used",
    "failures without a spare", "relaunches", "failures that ended the job",
    "failures that lost data in memory", "failures that lost determinants alone" };

/* ---- text ------------------------------------------------------------------------------ */

/* The costs of the job, and those of each --with. */
static void print_costs(const struct sm_ask *sim, const struct sm_size *size, int n, FILE *out)
{
    fprintf(out, "%-*s", SM_NAME_MAX + 2, "Costs");
    for (int i = 0; i < SM_COSTS; i++)
        fprintf(out, " %12s", ftk_sm_cost_key(i));
    for (int w = 0; w <= sim->nwith; w++) {
        fprintf(out, "\n  %-*s", SM_NAME_MAX, w > 0 ? sim->with[w - 1].name : "this job");
        for (int i = 0; i < SM_COSTS; i++) {
            const struct pl_value *v = ftk_sm_cost(&ftk_sm_row(size, n, w)->plan.ask, i);
            char cost[40];
            fprintf(out, " %12s", v->from == PL_UNKNOWN ? "none" : ftk_pl_duration(v->v, cost));
        }
    }
    fputs("\n\n", out);
}

/* What was simulated for a protocol, as the end of its line. */
static void print_result(const struct sm_size *size, int i, FILE *out)
{
    const struct ftk_sim_result *r = &size->result[i];
    double error_s = r->error_s > 1e-9 * r->time_s ? r->error_s : 0; /* more than rounding */
    char time[40], error[40];
    if (!size->done[i])
        fputs("not simulated: the log has no failures of replicas\n", out);
    else if (r->runs == 0)
        fputs("no run makes progress\n", out);
    else
        fprintf(out, "%14s  +- %9s  %8.2f %%%s\n", ftk_pl_duration(r->time_s, time),
            ftk_pl_duration(error_s, error), 100 * ftk_sm_efficiency(size, i),
            r->stuck > 0 ? "  (some runs make no progress)" : "");
}

static void print_line(char mark, const char *name, const struct sm_size *size, int i, FILE *out)
{
    const struct pl_protocol *p = &size->plan.protocol[i];
    char plan[40];
    fprintf(out, "%c %-30s ", mark, name);
    if (!p->feasible && !size->done[i]) {
        fputs("no progress\n", out);
        return;
    }
    fprintf(out, "%14s  ", p->feasible ? ftk_pl_duration(p->cost.time_s, plan) : "no progress");
    print_result(size, i, out);
}

static void print_protocols(const struct sm_ask *sim, const struct sm_size *size, FILE *out)
{
    fprintf(out, "%-32s %14s  %14s  %12s  %10s\n", "Protocols", "plan", "simulated", "95 %",
        "efficiency");
    for (int i = 0; i < size->plan.nprotocols; i++) {
        char name[64];
        print_line(
            i == size->best ? '*' : ' ', ftk_pl_name(&size->plan.protocol[i], name), size, i, out);
    }
    if (sim->nwith > 0)
        fputs("Checkpoint/restart with other costs\n", out);
    for (int w = 0; w < sim->nwith; w++)
        print_line(' ', sim->with[w].name, &size[w + 1], 0, out);
}

/* Where time and energy of the plan's protocol go, and what happened. */
static void print_best(const struct sm_size *size, FILE *out)
{
    const struct pl_plan *plan = &size->plan;
    const struct ftk_sim_result *r = &size->result[size->best];
    char name[64];
    double joules = 0;
    for (int i = 0; i < FTK_SIM_PARTS; i++)
        joules += r->part_j[i];
    fprintf(out, "\n%s: shares of the time and of the energy\n",
        ftk_pl_name(&plan->protocol[size->best], name));
    for (int i = 0; i < FTK_SIM_PARTS; i++)
        if (r->part_s[i] > 1e-9 * r->time_s)
            fprintf(out, "  %-22s %6.2f %%  %6.2f %%\n", part_text[i],
                100 * r->part_s[i] / r->time_s, joules > 0 ? 100 * r->part_j[i] / joules : 0);
    fprintf(out, "  energy: %.4g kWh (model, %g W and %g W of a node)\n", joules / 3.6e6,
        plan->ask.busy.v, plan->ask.idle.v);
    fputs("  in a run on average:\n", out);
    for (int i = 0; i < FTK_SIM_COUNTS; i++)
        if (r->count[i] > 0)
            fprintf(out, "    %-38s %10.4g\n", count_text[i], r->count[i]);
    fprintf(out,
        "    %-38s %10.4g\n"
        "  most nodes under repair at once: %.4g on average, %d in any run; spares: %d\n",
        "nodes under repair", r->away, r->away_most_mean, r->away_most, size->spares);
}

/* One protocol for each number of nodes. */
static void print_by_size(const struct sm_size *size, int n, int i, FILE *out)
{
    char mtbf[40];
    for (int k = 0; k < n; k++) {
        const struct pl_protocol *p = &size[k].plan.protocol[i];
        fprintf(out, "%10.0f nodes, a failure every %-12s ", size[k].plan.ask.nodes.v,
            ftk_pl_duration(size[k].plan.ask.mtbf.v, mtbf));
        if (!p->feasible && !size[k].done[i])
            fputs("no progress\n", out);
        else if (!size[k].done[i])
            fprintf(out, "%6.2f %%  not simulated\n", 100 * p->efficiency);
        else
            fprintf(out, "%6.2f %%  %6.2f %%\n", 100 * p->efficiency,
                100 * ftk_sm_efficiency(&size[k], i));
    }
}

static void print_sizes(const struct sm_ask *sim, const struct sm_size *size, int n, FILE *out)
{
    fputs("Efficiency by number of nodes: plan, simulated\n", out);
    for (int i = 0; i < size[0].plan.nprotocols; i++) {
        char name[64];
        fprintf(out, "\n%s\n", ftk_pl_name(&size[0].plan.protocol[i], name));
        print_by_size(size, n, i, out);
    }
    for (int w = 0; w < sim->nwith; w++) {
        fprintf(out, "\ncheckpoint/restart, %s\n", sim->with[w].name);
        print_by_size(ftk_sm_row(size, n, w + 1), n, 0, out);
    }
}

void ftk_sm_print(const struct sm_ask *sim, const struct sm_size *size, int nsizes, FILE *out)
{
    const struct pl_ask *a = &size->plan.ask;
    char mtbf[40], work[40];
    if (nsizes == 1)
        fprintf(out, "Job: %.0f node%s, %s of work, a failure every %s\n", a->nodes.v,
            a->nodes.v > 1 ? "s" : "", ftk_pl_duration(a->work.v, work),
            ftk_pl_duration(a->mtbf.v, mtbf));
    fprintf(out, "Simulation: %d runs, seed %llu, ", sim->runs, (unsigned long long)sim->seed);
    if (sim->log)
        fprintf(out, "failures of %s%s\n\n", sim->log, sim->from_start ? ", from its start" : "");
    else if (sim->shape.v == 1)
        fputs("exponential gaps between failures\n\n", out);
    else
        fprintf(out, "Weibull gaps between failures, shape %g\n\n", sim->shape.v);
    if (sim->nwith > 0)
        print_costs(sim, size, nsizes, out);
    if (nsizes > 1) {
        print_sizes(sim, size, nsizes, out);
        return;
    }
    print_protocols(sim, size, out);
    if (size->best >= 0 && size->result[size->best].runs > 0)
        print_best(size, out);
}

/* ---- JSON ------------------------------------------------------------------------------ */

static void parts_json(struct ftk_json *j, const char *name, const double *part)
{
    ftk_json_open(j, name, '{');
    for (int i = 0; i < FTK_SIM_PARTS; i++)
        ftk_json_real(j, part_keys[i], part[i]);
    ftk_json_close(j, '}');
}

static void result_json(struct ftk_json *j, const struct ftk_sim_result *r)
{
    ftk_json_int(j, "runs", r->runs);
    ftk_json_int(j, "stuck", r->stuck);
    if (r->runs == 0)
        return;
    ftk_json_real(j, "seconds", r->time_s);
    ftk_json_real(j, "deviation", r->deviation_s);
    ftk_json_real(j, "error", r->error_s);
    parts_json(j, "times", r->part_s);
    parts_json(j, "joules", r->part_j);
    ftk_json_open(j, "counts", '{');
    for (int i = 0; i < FTK_SIM_COUNTS; i++)
        ftk_json_real(j, count_keys[i], r->count[i]);
    ftk_json_close(j, '}');
    ftk_json_open(j, "away", '{');
    ftk_json_real(j, "mean", r->away);
    ftk_json_int(j, "most", r->away_most);
    ftk_json_real(j, "most_mean", r->away_most_mean);
    ftk_json_close(j, '}');
}

static void outcome_json(struct ftk_json *j, const struct sm_size *size, int i)
{
    const struct pl_protocol *p = &size->plan.protocol[i];
    if (p->feasible)
        ftk_json_real(j, "model", p->cost.time_s);
    else
        ftk_json_null(j, "model");
    if (size->done[i]) {
        if (p->kind <= PL_PARALLEL)
            ftk_json_real(j, "period", p->pattern.period_s);
        result_json(j, &size->result[i]);
        ftk_json_real(j, "efficiency", ftk_sm_efficiency(size, i));
    }
}

static void protocol_json(struct ftk_json *j, const struct sm_size *size, int i)
{
    const struct pl_protocol *p = &size->plan.protocol[i];
    ftk_json_open(j, NULL, '{');
    ftk_json_text(j, "name", ftk_pl_key(p));
    ftk_json_int(j, "size", p->size);
    ftk_json_bool(j, "planned", i == size->best);
    outcome_json(j, size, i);
    ftk_json_close(j, '}');
}

static void costs_json(struct ftk_json *j, const char *name, const struct pl_ask *ask)
{
    ftk_json_open(j, NULL, '{');
    if (name)
        ftk_json_text(j, "name", name);
    for (int i = 0; i < SM_COSTS; i++) {
        const struct pl_value *v = ftk_sm_cost(ask, i);
        if (v->from != PL_UNKNOWN)
            ftk_json_real(j, ftk_sm_cost_key(i), v->v);
        else
            ftk_json_null(j, ftk_sm_cost_key(i));
    }
    ftk_json_close(j, '}');
}

/* One number of nodes: the job, then with other costs, which are n further on each. */
static void size_json(
    struct ftk_json *j, const struct sm_ask *sim, const struct sm_size *size, int n)
{
    ftk_json_open(j, NULL, '{');
    ftk_json_int(j, "nodes", (int)size->plan.ask.nodes.v);
    ftk_json_real(j, "mtbf", size->plan.ask.mtbf.v);
    ftk_json_int(j, "spares", size->spares);
    ftk_json_open(j, "protocols", '[');
    for (int i = 0; i < size->plan.nprotocols; i++)
        protocol_json(j, size, i);
    ftk_json_close(j, ']');
    ftk_json_open(j, "with", '[');
    for (int w = 0; w < sim->nwith; w++) {
        ftk_json_open(j, NULL, '{');
        ftk_json_text(j, "name", sim->with[w].name);
        outcome_json(j, ftk_sm_row(size, n, w + 1), 0);
        ftk_json_close(j, '}');
    }
    ftk_json_close(j, ']');
    ftk_json_close(j, '}');
}

void ftk_sm_json(const struct sm_ask *sim, const struct sm_size *size, int nsizes, FILE *out)
{
    struct ftk_json j = { .out = out };
    ftk_json_open(&j, NULL, '{');
    ftk_json_int(&j, "runs", sim->runs);
    ftk_json_uint(&j, "seed", sim->seed);
    ftk_json_open(&j, "costs", '[');
    for (int w = 0; w <= sim->nwith; w++)
        costs_json(
            &j, w > 0 ? sim->with[w - 1].name : NULL, &ftk_sm_row(size, nsizes, w)->plan.ask);
    ftk_json_close(&j, ']');
    ftk_json_open(&j, "sizes", '[');
    for (int k = 0; k < nsizes; k++)
        size_json(&j, sim, &size[k], nsizes);
    ftk_json_close(&j, ']');
    ftk_json_close(&j, '}');
}
