/* ftkit plan: the plan as text and as JSON.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "model/period.h"
#include "plan.h"

static const char *const level_words[] = { "memory", "local", "files" };
static const char *const from_words[] = { "unknown", "assumed", "measured", "given" };
static const char *const kind_words[] = { "restart", "log", "parallel", "replicas-cloned",
    "replicas" };

/* "3 min 20 s", or "3 min" */
static void two(char buf[40], int small, const char *large_unit, const char *small_unit)
{
    int n = snprintf(buf, 40, "%d %s", small / 60, large_unit);
    if (small % 60 > 0)
        snprintf(buf + n, 40 - (size_t)n, " %d %s", small % 60, small_unit);
}

const char *ftk_pl_duration(double s, char buf[40])
{
    if (s <= 0)
        snprintf(buf, 40, "0 s");
    else if (s < 0.9995)
        snprintf(buf, 40, "%.3g ms", s * 1e3);
    else if (s < 59.95)
        snprintf(buf, 40, "%.3g s", s);
    else if (s < 3599.5)
        two(buf, (int)(s + 0.5), "min", "s");
    else if (s < 48 * 3600.0)
        two(buf, (int)((s + 30) / 60), "h", "min");
    else if (s < 2 * 365.25 * 86400)
        snprintf(buf, 40, "%.1f days", s / 86400);
    else
        snprintf(buf, 40, "%.4g years", s / 365.25 / 86400);
    return buf;
}

/* ---- inputs -------------------------------------------------------------------------- */

struct input {
    const char *name;
    const struct pl_value *value;
    bool time;
};

enum { INPUTS = 19 };

static void list_inputs(const struct pl_ask *a, struct input in[INPUTS])
{
    const struct input all[INPUTS] = {
        { "nodes", &a->nodes, false },
        { "node-mtbf", &a->node_mtbf, true },
        { "mtbf", &a->mtbf, true },
        { "work", &a->work, true },
        { "job-loss", &a->job_loss, false },
        { "node-repair", &a->node_repair, true },
        { "memory", &a->cost[PL_MEMORY], true },
        { "local", &a->cost[PL_LOCAL], true },
        { "files", &a->cost[PL_FILES], true },
        { "flush", &a->flush, true },
        { "repair", &a->repair, true },
        { "relaunch", &a->relaunch, true },
        { "acquaintances", &a->acquaintances, false },
        { "parallel", &a->parallel, false },
        { "beta", &a->beta, false },
        { "clone", &a->clone, true },
        { "risk", &a->risk, false },
        { "busy", &a->busy, false },
        { "idle", &a->idle, false },
    };
    memcpy(in, all, sizeof all);
}

static const char *law(const struct pl_ask *a)
{
    return a->multiplicity.law == FTK_MODEL_GEOMETRIC ? "geometric" : "zipf";
}

static void print_team(const struct pl_ask *a, const struct pl_team *t, FILE *out)
{
    char text[40];
    snprintf(text, sizeof text, "%d:%.4g:%.4g", t->nodes, t->slowdown, t->speed);
    fprintf(out, "  %-14s %-14s %s", "team", text, from_words[t->from]);
    if (t->speed_from == PL_MEASURED)
        fprintf(out, ", phi measured in %" PRIu64 " replay%s of %g s or more", a->speed.samples,
            FTK_S(a->speed.samples), PL_REPLAY_S);
    else if (t->speed_from != t->from)
        fprintf(out, ", phi %s", from_words[t->speed_from]);
    if (t->speed_from != PL_GIVEN && a->short_replays > 0)
        fprintf(out, " (%" PRIu64 " shorter than %g s left out)", a->short_replays, PL_REPLAY_S);
    if (a->matrix)
        fprintf(out, ", %.3g %% of the bytes between teams", 100 * t->between);
    fputc('\n', out);
}

static void print_inputs(const struct pl_ask *a, FILE *out)
{
    struct input in[INPUTS];
    list_inputs(a, in);
    fputs("Inputs\n", out);
    for (int i = 0; i < INPUTS; i++) {
        char text[40];
        const struct pl_value *v = in[i].value;
        if (v->from == PL_UNKNOWN)
            continue;
        if (in[i].time)
            ftk_pl_duration(v->v, text);
        else
            snprintf(text, sizeof text, "%.6g", v->v);
        fprintf(out, "  %-14s %-14s %s", in[i].name, text, from_words[v->from]);
        if (v->from == PL_MEASURED && v->samples > 1)
            fprintf(out, ", mean of %llu", (unsigned long long)v->samples);
        fputc('\n', out);
    }
    char text[40];
    snprintf(text, sizeof text, "%s:%g", law(a), a->multiplicity.parameter);
    fprintf(out, "  %-14s %-14s %s\n", "multiplicity", text,
        from_words[a->multiplicity_given ? PL_GIVEN : PL_ASSUMED]);
    for (int i = 0; i < a->nteams; i++)
        print_team(a, &a->team[i], out);
}

/* ---- schemes and protocols ----------------------------------------------------------- */

static void print_schemes(const struct pl_plan *plan, FILE *out)
{
    if (plan->nschemes == 0)
        return;
    fprintf(out, "\n%-32s %7s  %9s  %9s  %10s\n", "Schemes of level.memory", "memory", "survives",
        "with log", "efficiency");
    for (int i = 0; i < plan->nschemes; i++) {
        const struct pl_scheme *s = &plan->scheme[i];
        char name[48];
        if (s->placement.map == FTK_MODEL_PARITY)
            snprintf(name, sizeof name, "%s, group %d, parity %d", s->name, s->placement.group,
                s->placement.parity);
        else
            snprintf(name, sizeof name, "%s", s->name);
        fprintf(out, "%c %-30s %5.2f x  %7.3f %%  %7.3f %%  ", i == plan->best_scheme ? '*' : ' ',
            name, s->memory, 100 * s->survives, 100 * s->survives_log);
        if (s->feasible)
            fprintf(out, "%8.2f %%\n", 100 * s->efficiency);
        else
            fputs("no progress\n", out);
    }
    fputs("  (a set costs the same with every scheme here; measure the scheme of your choice)\n",
        out);
}

const char *ftk_pl_name(const struct pl_protocol *p, char buf[64])
{
    static const char *const forms[] = { "checkpoint/restart", "message log, teams of %d",
        "parallel recovery by %d", "%d replicas, cloned", "%d replicas, not cloned" };
    const char *form = forms[p->kind], *number = strstr(form, "%d");
    if (number)
        snprintf(buf, 64, "%.*s%d%s", (int)(number - form), form, p->size, number + 2);
    else
        snprintf(buf, 64, "%s", form);
    return buf;
}

static void print_protocols(const struct pl_plan *plan, FILE *out)
{
    const struct pl_protocol *first = &plan->protocol[0];
    fprintf(out, "\n%-32s %10s  %16s  %8s\n", "Protocols", "efficiency", "time", "energy");
    for (int i = 0; i < plan->nprotocols; i++) {
        const struct pl_protocol *p = &plan->protocol[i];
        char name[64], time[40];
        fprintf(out, "%c %-30s ", i == plan->best ? '*' : ' ', ftk_pl_name(p, name));
        if (!p->feasible) {
            fputs("no progress\n", out);
            continue;
        }
        fprintf(out, "%8.2f %%  %16s", 100 * p->efficiency, ftk_pl_duration(p->cost.time_s, time));
        if (p->kind <= PL_PARALLEL && first->feasible && first->cost.joules > 0)
            fprintf(out, "  %8.3f", p->cost.joules / first->cost.joules);
        fputc('\n', out);
    }
    fputs("  (efficiency: work / time, for each node; energy: of checkpoint/restart = 1;\n"
          "  ftkit has no parallel recovery, and its replicas are those with cloning)\n",
        out);
}

const char *ftk_pl_key(const struct pl_protocol *p)
{
    return kind_words[p->kind];
}

/* ---- the plan ------------------------------------------------------------------------ */

/* A level of the chosen protocol; the share with that of unused levels below it. */
struct line {
    int level, every; /* of enum pl_level; 0: not used */
    double share, period_s, young_s, daly_s;
};

static int list_levels(const struct pl_plan *plan, struct line line[FTK_MODEL_LEVELS])
{
    const struct pl_protocol *p = &plan->protocol[plan->best];
    double share = 0;
    for (int l = 0; l < p->job.nlevels; l++) {
        const struct ftk_model_level *level = &p->job.level[l];
        share += level->share;
        line[l] = (struct line){ .level = plan->level_of[l], .every = p->pattern.every[l] };
        if (line[l].every == 0)
            continue;
        double mtbf_s = p->job.mtbf_s / fmax(share, 1e-12);
        line[l].share = share;
        line[l].period_s = ftk_model_level_period_s(&p->pattern, l);
        line[l].young_s = ftk_model_young_s(level->cost_s, mtbf_s);
        line[l].daly_s = ftk_model_daly_s(level->cost_s, mtbf_s);
        share = 0;
    }
    return p->job.nlevels;
}

const struct pl_part *ftk_pl_parts(const struct ftk_model_cost *c, struct pl_part part[PL_PARTS])
{
    const struct pl_part all[PL_PARTS] = {
        { "work", "work", c->work_s },
        { "log", "slowdown by the log", c->log_s },
        { "sets", "sets", c->checkpoint_s },
        { "redo", "lost work done again", c->redo_s },
        { "restart", "restarts", c->restart_s },
    };
    const struct pl_part *most = &part[1];
    memcpy(part, all, sizeof all);
    for (int i = 2; i < PL_PARTS; i++)
        most = part[i].s > most->s ? &part[i] : most;
    return most;
}

/* A key of the configuration: whole seconds, or milliseconds. */
static void print_time(const char *key, double s, FILE *out)
{
    if (s >= 100)
        fprintf(out, "  %s = %.0fs\n", key, s);
    else
        fprintf(out, "  %s = %.0fms\n", key, fmax(s * 1000, 1));
}

static void print_configuration(const struct pl_plan *plan, FILE *out)
{
    const struct pl_protocol *p = &plan->protocol[plan->best];
    const struct ftk_model_placement *m = &plan->scheme[plan->best_scheme].placement;
    struct line line[FTK_MODEL_LEVELS];
    int n = list_levels(plan, line);
    fputs("\nConfiguration\n  [checkpoint]\n", out);
    print_time("mtbf", plan->ask.mtbf.v, out);
    print_time("period", p->pattern.period_s, out);
    for (int i = 0; i < n; i++) {
        bool memory = line[i].level == PL_MEMORY;
        fprintf(
            out, "  [level.%s]\n", line[i].level == PL_FILES ? "hdf5" : level_words[line[i].level]);
        if (line[i].every == 0)
            fputs("  scheme = none\n", out);
        else if (!memory)
            fprintf(out, "  every = %d set%s\n", line[i].every, line[i].every > 1 ? "s" : "");
        else if (m->map != FTK_MODEL_PARITY)
            fprintf(
                out, "  scheme = buddy\n  map = %s\n", m->map == FTK_MODEL_RING ? "ring" : "pair");
        else if (m->parity == 1)
            fprintf(out, "  scheme = xor\n  group = %d\n", m->group);
        else
            fprintf(out, "  scheme = rs\n  group = %d\n  parity = %d\n", m->group, m->parity);
    }
    if (p->kind != PL_LOG)
        return;
    int nodes = (int)plan->ask.nodes.v;
    fputs("  [log]\n  enabled = true\n", out);
    if (p->size == 1)
        fputs("  teams = domain\n", out);
    else if (!plan->ask.matrix)
        fprintf(out, "  ; team_size = the ranks of %d nodes\n", p->size);
    else
        fprintf(out,
            "  ; team_file = the output of: ftkit teams --teams %d --ranks-per-node %d %s\n",
            (nodes + p->size - 1) / p->size, plan->ask.ranks_per_node,
            ftk_tool_why(plan->ask.matrix));
}

static void print_plan(const struct pl_plan *plan, FILE *out)
{
    const struct pl_protocol *p = &plan->protocol[plan->best];
    struct line line[FTK_MODEL_LEVELS];
    struct pl_part part[PL_PARTS];
    char name[64], period[40], young[40], daly[40];
    int n = list_levels(plan, line);
    fprintf(out, "\nPlan: %s, least %s\n", ftk_pl_name(p, name),
        plan->ask.aim == FTK_MODEL_TIME ? "time" : "energy");
    for (int i = 0; i < n; i++) {
        if (line[i].every == 0) {
            bool alone = line[i].level == PL_MEMORY && plan->nschemes == 0;
            fprintf(out, "  %-7s not used: %s\n", level_words[line[i].level],
                alone ? "there is no other node for copies" : "the level does not pay");
            continue;
        }
        fprintf(out, "  %-7s every %s, for %.3g %% of the failures (alone: Young %s, Daly %s)\n",
            level_words[line[i].level], ftk_pl_duration(line[i].period_s, period),
            100 * line[i].share, ftk_pl_duration(line[i].young_s, young),
            ftk_pl_duration(line[i].daly_s, daly));
    }
    const struct pl_part *most = ftk_pl_parts(&p->cost, part);
    fprintf(out, "  Efficiency %.2f %%; the rest of the time:\n", 100 * p->efficiency);
    for (int i = 1; i < PL_PARTS; i++)
        if (part[i].s > 0)
            fprintf(out, "    %-21s %6.2f %%%s\n", part[i].text, 100 * part[i].s / p->cost.time_s,
                &part[i] == most ? "  <- the limit" : "");
    fprintf(out,
        "  Failures: %.3g on average\n"
        "  Spares: %d node%s, which run out with a probability of %g at most\n",
        p->cost.failures, plan->spares, plan->spares == 1 ? "" : "s", plan->ask.risk.v);
    if (plan->ask.nodes.v > 1)
        fprintf(out, "  A lost node: %s\n",
            ftk_runtime_repairs_nodes()
                ? "repaired in the running job, by this MPI"
                : "this mpirun ends the job; the memory outlives it with place = shared");
    print_configuration(plan, out);
}

void ftk_pl_print(const struct pl_plan *plan, FILE *out)
{
    char mtbf[40], work[40];
    double nodes = plan->ask.nodes.v;
    fprintf(out, "Job: %.0f node%s, %s of work, a failure every %s\n\n", nodes,
        nodes > 1 ? "s" : "", ftk_pl_duration(plan->ask.work.v, work),
        ftk_pl_duration(plan->ask.mtbf.v, mtbf));
    print_inputs(&plan->ask, out);
    print_schemes(plan, out);
    print_protocols(plan, out);
    if (plan->best >= 0)
        print_plan(plan, out);
}

int ftk_pl_no_progress(const struct pl_plan *plan)
{
    const struct ftk_model_job *job = &plan->protocol[0].job;
    double least = 0;
    char mtbf[40], lost[40], flush[40];
    for (int l = 0; l < job->nlevels; l++)
        least += job->level[l].share * (job->level[l].restart_s + job->level[l].cost_s / 2);
    if (plan->ask.flush.v > plan->ask.work.v)
        ftk_tool_say(
            "a flush takes %s, longer than the work", ftk_pl_duration(plan->ask.flush.v, flush));
    else
        ftk_tool_say("no progress is possible: a failure comes every %s, and one costs %s "
                     "on average, with lost work in addition",
            ftk_pl_duration(job->mtbf_s, mtbf), ftk_pl_duration(least, lost));
    return TOOL_FAIL;
}

/* ---- JSON ---------------------------------------------------------------------------- */

static void inputs_json(const struct pl_ask *a, struct ftk_json *j)
{
    struct input in[INPUTS];
    list_inputs(a, in);
    ftk_json_open(j, "inputs", '[');
    for (int i = 0; i < INPUTS; i++) {
        if (in[i].value->from == PL_UNKNOWN)
            continue;
        ftk_json_open(j, NULL, '{');
        ftk_json_text(j, "name", in[i].name);
        ftk_json_real(j, "value", in[i].value->v);
        ftk_json_text(j, "from", from_words[in[i].value->from]);
        if (in[i].value->from == PL_MEASURED)
            ftk_json_uint(j, "samples", in[i].value->samples);
        ftk_json_close(j, '}');
    }
    ftk_json_open(j, NULL, '{');
    ftk_json_text(j, "name", "multiplicity");
    ftk_json_text(j, "law", law(a));
    ftk_json_real(j, "value", a->multiplicity.parameter);
    ftk_json_text(j, "from", from_words[a->multiplicity_given ? PL_GIVEN : PL_ASSUMED]);
    ftk_json_close(j, '}');
    for (int i = 0; i < a->nteams; i++) {
        ftk_json_open(j, NULL, '{');
        ftk_json_text(j, "name", "team");
        ftk_json_int(j, "value", a->team[i].nodes);
        ftk_json_real(j, "slowdown", a->team[i].slowdown);
        ftk_json_real(j, "speed", a->team[i].speed);
        if (a->matrix)
            ftk_json_real(j, "between", a->team[i].between);
        ftk_json_text(j, "from", from_words[a->team[i].from]);
        ftk_json_text(j, "speed_from", from_words[a->team[i].speed_from]);
        if (a->team[i].speed_from == PL_MEASURED)
            ftk_json_uint(j, "replays", a->speed.samples);
        ftk_json_close(j, '}');
    }
    ftk_json_close(j, ']');
}

static void scheme_json(const struct pl_scheme *s, struct ftk_json *j)
{
    ftk_json_open(j, NULL, '{');
    ftk_json_text(j, "name", s->name);
    if (s->placement.map == FTK_MODEL_PARITY) {
        ftk_json_int(j, "group", s->placement.group);
        ftk_json_int(j, "parity", s->placement.parity);
    }
    ftk_json_real(j, "memory", s->memory);
    ftk_json_real(j, "survives", s->survives);
    ftk_json_real(j, "survives_log", s->survives_log);
    ftk_json_bool(j, "feasible", s->feasible);
    ftk_json_real(j, "efficiency", s->efficiency);
    ftk_json_close(j, '}');
}

static void protocol_json(const struct pl_protocol *p, struct ftk_json *j)
{
    ftk_json_open(j, NULL, '{');
    ftk_json_text(j, "name", ftk_pl_key(p));
    ftk_json_int(j, "size", p->size);
    ftk_json_bool(j, "feasible", p->feasible);
    if (p->feasible) {
        ftk_json_real(j, "efficiency", p->efficiency);
        ftk_json_real(j, "seconds", p->cost.time_s);
        if (p->kind <= PL_PARALLEL)
            ftk_json_real(j, "joules", p->cost.joules);
    }
    ftk_json_close(j, '}');
}

static void levels_json(const struct pl_plan *plan, struct ftk_json *j)
{
    struct line line[FTK_MODEL_LEVELS];
    int n = list_levels(plan, line);
    ftk_json_open(j, "levels", '[');
    for (int i = 0; i < n; i++) {
        ftk_json_open(j, NULL, '{');
        ftk_json_text(j, "level", level_words[line[i].level]);
        ftk_json_int(j, "every", line[i].every);
        if (line[i].every > 0) {
            ftk_json_real(j, "share", line[i].share);
            ftk_json_real(j, "period", line[i].period_s);
            ftk_json_real(j, "young", line[i].young_s);
            ftk_json_real(j, "daly", line[i].daly_s);
        }
        ftk_json_close(j, '}');
    }
    ftk_json_close(j, ']');
}

static void plan_json(const struct pl_plan *plan, struct ftk_json *j)
{
    ftk_json_open(j, "plan", '{');
    ftk_json_bool(j, "feasible", plan->best >= 0);
    if (plan->best >= 0) {
        const struct pl_protocol *p = &plan->protocol[plan->best];
        struct pl_part part[PL_PARTS];
        ftk_json_text(j, "protocol", ftk_pl_key(p));
        ftk_json_int(j, "size", p->size);
        if (plan->nschemes > 0)
            ftk_json_int(j, "scheme", plan->best_scheme);
        levels_json(plan, j);
        ftk_json_real(j, "efficiency", p->efficiency);
        ftk_json_text(j, "limit", ftk_pl_parts(&p->cost, part)->key);
        for (int i = 0; i < PL_PARTS; i++)
            ftk_json_real(j, part[i].key, part[i].s / p->cost.time_s);
        ftk_json_real(j, "failures", p->cost.failures);
        ftk_json_int(j, "spares", plan->spares);
        ftk_json_int(j, "spares_mean", plan->spares_mean);
        ftk_json_bool(j, "repairs_nodes", ftk_runtime_repairs_nodes());
    }
    ftk_json_close(j, '}');
}

void ftk_pl_json(const struct pl_plan *plan, FILE *out)
{
    struct ftk_json j = { .out = out };
    ftk_json_open(&j, NULL, '{');
    inputs_json(&plan->ask, &j);
    ftk_json_open(&j, "schemes", '[');
    for (int i = 0; i < plan->nschemes; i++)
        scheme_json(&plan->scheme[i], &j);
    ftk_json_close(&j, ']');
    ftk_json_open(&j, "protocols", '[');
    for (int i = 0; i < plan->nprotocols; i++)
        protocol_json(&plan->protocol[i], &j);
    ftk_json_close(&j, ']');
    plan_json(plan, &j);
    ftk_json_close(&j, '}');
}
