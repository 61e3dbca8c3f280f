/* ftkit sim: the plan of ftkit plan, simulated from failure to failure.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#include "failures.h"

void ftk_sim_usage(FILE *out)
{
    fputs("usage: ftkit sim --nodes N --node-mtbf T --files T [OPTION]...\n"
          "\n"
          "Plan a job as ftkit plan does, and simulate it: checkpoint/restart, message log,\n"
          "parallel recovery and replicas, with explicit nodes and spares.  Failures are\n"
          "drawn, or those of a log happen again.  The output compares the simulation with\n"
          "the formulas of the plan, and says where the time and the energy go.  Times are\n"
          "seconds, or have a unit: 500ms, 90s, 2min, 1h, 1d, 10y (365.25 days).\n"
          "\n"
          "Simulation:\n"
          "\n"
          "  --runs N            jobs that are simulated (200)\n"
          "  --seed N            another seed gives other failures (1)\n"
          "  --sizes LIST        numbers of nodes instead of --nodes, such as 1000,4000: the\n"
          "                      efficiency for each; the costs stay the same\n"
          "  --with SET          checkpoint/restart with other costs, too; may be repeated.  SET\n"
          "                      is NAME:KEY=T[,KEY=T]..., and KEY is memory, local, files,\n"
          "                      flush, repair or relaunch.  memory and local may be none.\n"
          "                      Costs without a KEY stay the same\n"
          "  --shape K           gaps between failures follow the Weibull law with this shape\n"
          "                      (1: exponential)\n"
          "  --failures LOG      failures of this log, from a random moment of it on, instead\n"
          "                      of random ones; formats as in ftkit failures\n"
          "  --system NAME       records of this system or cluster alone\n"
          "  --same-node T       of a node's records within T the first counts (6h)\n"
          "  --together T        the nodes of records within T are one failure (1min)\n"
          "  --from-start        the log begins with the job, and does not repeat; its nodes, in\n"
          "                      the order of their first records, are nodes of the job\n"
          "  --repair-sigma X    repair times of nodes follow the lognormal law with median\n"
          "                      --node-repair and this sigma (0: all are equal)\n"
          "  --spares N          spare nodes (as planned)\n"
          "  --short WORD        without a spare: end (the job starts again), spawn (other\n"
          "                      nodes take the ranks) or shrink (fewer ranks) (end)\n"
          "  --per-node N        ranks of a node, for --short spawn (1)\n"
          "  --period T          compute time between two sets of the lowest level, instead of\n"
          "                      the planned one\n"
          "  --every N           with --period: each N of them are also of the next level; each\n"
          "                      level is used once at least (1)\n"
          "\n",
        out);
    ftk_pl_usage_job(out);
    ftk_pl_usage_choices(out);
    fputs("  --svg FILE          write a picture to FILE, too: efficiency by number of nodes;\n"
          "                      after --with of checkpoint/restart and the message log alone\n"
          "  --json              as an object: runs, seed, costs[] (name, memory, local, files,\n"
          "                      flush, repair, relaunch; the first ones, without a name, are\n"
          "                      those of the job), sizes[] (nodes, mtbf, spares, protocols[]\n"
          "                      (name, size, planned, model, period, runs, stuck, seconds,\n"
          "                      deviation, error, efficiency, times (work, log, sets, redo,\n"
          "                      restart, degraded), joules (the same), counts (failures,\n"
          "                      spares, short, relaunches, job_losses, data_lost,\n"
          "                      determinants_lost), away (mean, most, most_mean)), with[]\n"
          "                      (name, and from model on as a protocol))\n"
          "\n"
          "Exit code:\n"
          "  0  the result is printed\n"
          "  1  no plan makes progress, or a file cannot be read or written\n"
          "  2  usage\n",
        out);
}

/* ---- options ------------------------------------------------------------------------- */

enum {
    O_RUNS = 1,
    O_SEED,
    O_SIZES,
    O_WITH,
    O_SHAPE,
    O_FAILURES,
    O_SYSTEM,
    O_SAME_NODE,
    O_TOGETHER,
    O_FROM_START,
    O_SIGMA,
    O_SPARES,
    O_SHORT,
    O_PER_NODE,
    O_PERIOD,
    O_EVERY
};

static const struct option options[] = {
    { "runs", required_argument, NULL, O_RUNS },
    { "seed", required_argument, NULL, O_SEED },
    { "sizes", required_argument, NULL, O_SIZES },
    { "with", required_argument, NULL, O_WITH },
    { "shape", required_argument, NULL, O_SHAPE },
    { "failures", required_argument, NULL, O_FAILURES },
    { "system", required_argument, NULL, O_SYSTEM },
    { "same-node", required_argument, NULL, O_SAME_NODE },
    { "together", required_argument, NULL, O_TOGETHER },
    { "from-start", no_argument, NULL, O_FROM_START },
    { "repair-sigma", required_argument, NULL, O_SIGMA },
    { "spares", required_argument, NULL, O_SPARES },
    { "short", required_argument, NULL, O_SHORT },
    { "per-node", required_argument, NULL, O_PER_NODE },
    { "period", required_argument, NULL, O_PERIOD },
    { "every", required_argument, NULL, O_EVERY },
    { NULL, 0, NULL, 0 },
};

static bool parse_int(int option, double high, int *out)
{
    struct pl_value v = { 1, PL_UNKNOWN, 0 };
    if (!ftk_pl_value(option, PL_WHOLE, 1, high, &v))
        return false;
    *out = (int)v.v;
    return true;
}

static bool parse_seed(struct sm_ask *s)
{
    if (ftk_usage_number(optarg, &s->seed))
        return true;
    ftk_tool_say("--seed: '%s' is not a number of 0 to %llu", ftk_tool_why(optarg), ~0ULL);
    return false;
}

static bool parse_sizes(struct sm_ask *s)
{
    char *p = optarg;
    for (s->nsizes = 0; s->nsizes < SM_SIZES; p++) {
        char *end = p;
        long n = *p >= '0' && *p <= '9' ? strtol(p, &end, 10) : 0;
        int before = s->nsizes > 0 ? s->nodes[s->nsizes - 1] : 0;
        if (n <= before || n > 10000000)
            break;
        s->nodes[s->nsizes++] = (int)n;
        p = end;
        if (*p == '\0')
            return true;
        if (*p != ',')
            break;
    }
    ftk_tool_say("--sizes: '%s' is not a list such as 1000,2000,4000: at most %d whole numbers in "
                 "ascending order, from 1 to 1e+07",
        ftk_tool_why(optarg), SM_SIZES);
    return false;
}

static bool parse_short(struct sm_ask *s)
{
    static const char *const words[] = { "end", "spawn", "shrink" };
    for (int i = 0; i < 3; i++)
        if (strcmp(optarg, words[i]) == 0) {
            s->when_short = (enum ftk_sim_short)i;
            return true;
        }
    ftk_tool_say("--short: '%s' is not end, spawn or shrink", ftk_tool_why(optarg));
    return false;
}

static bool parse_window(int option, double *s)
{
    struct pl_value v = { 0, PL_UNKNOWN, 0 };
    if (!ftk_pl_value(option, PL_TIME, 0, 1e12, &v))
        return false;
    *s = v.v;
    return true;
}

static bool take(int option, void *arg)
{
    struct sm_ask *s = arg;
    switch (option) {
    case O_RUNS:
        return parse_int(option, 1e6, &s->runs);
    case O_SEED:
        return parse_seed(s);
    case O_SIZES:
        return parse_sizes(s);
    case O_WITH:
        return ftk_sm_with_parse(optarg, s);
    case O_SHAPE:
        return ftk_pl_value(option, PL_NUMBER, 0.1, 100, &s->shape);
    case O_FAILURES:
        s->log = optarg;
        return true;
    case O_SYSTEM:
        s->system = optarg;
        return true;
    case O_SAME_NODE:
        return parse_window(option, &s->same_node_s);
    case O_TOGETHER:
        return parse_window(option, &s->together_s);
    case O_FROM_START:
        return s->from_start = true;
    case O_SIGMA:
        return ftk_pl_value(option, PL_NUMBER, 0, 10, &s->sigma);
    case O_SPARES:
        return ftk_pl_value(option, PL_WHOLE, 0, 1e7, &s->spares);
    case O_SHORT:
        return parse_short(s);
    case O_PER_NODE:
        return parse_int(option, 1e6, &s->per_node);
    case O_PERIOD:
        return ftk_pl_value(option, PL_TIME, 1e-9, 1e12, &s->period);
    case O_EVERY:
        return parse_int(option, 1e6, &s->every);
    default: /* ftk_usage_getopt() has printed a message */
        return false;
    }
}

struct command {
    struct sm_ask ask;
    struct sm_failures failures;
};

static int check(struct pl_ask *a, void *arg)
{
    struct command *c = arg;
    struct sm_ask *s = &c->ask;
    if (s->nsizes > 0 && (a->nodes.from == PL_GIVEN || a->matrix))
        return ftk_usage_wrong(
            ftk_sim_usage, "--sizes and %s exclude each other", a->matrix ? "--matrix" : "--nodes");
    if (s->nsizes > 0 && (a->mtbf.from == PL_GIVEN || s->from_start))
        return ftk_usage_wrong(
            ftk_sim_usage, "--sizes needs %s", s->from_start ? "no --from-start" : "--node-mtbf");
    if (!s->log && (s->system || s->from_start))
        return ftk_usage_wrong(ftk_sim_usage, "%s has no meaning without --failures",
            s->system ? "--system" : "--from-start");
    if (s->log && s->shape.from == PL_GIVEN)
        return ftk_usage_wrong(ftk_sim_usage, "--shape and --failures exclude each other");
    if (s->every > 1 && s->period.from == PL_UNKNOWN)
        return ftk_usage_wrong(ftk_sim_usage, "--every has no meaning without --period");
    if (s->sigma.v > 0 && a->node_repair.from == PL_UNKNOWN)
        return ftk_usage_wrong(ftk_sim_usage, "--repair-sigma needs --node-repair");
    if (s->nsizes > 0)
        a->nodes = (struct pl_value){ s->nodes[0], PL_GIVEN, 0 };
    if (!s->log)
        return TOOL_OK;
    int code = ftk_sm_failures(s, &c->failures);
    if (code == TOOL_OK && a->node_mtbf.from == PL_UNKNOWN && a->mtbf.from == PL_UNKNOWN)
        a->node_mtbf =
            (struct pl_value){ c->failures.mtbf_s * c->failures.log.nodes, PL_MEASURED, 1 };
    return code;
}

/* ---- the command --------------------------------------------------------------------- */

/* Simulate the job with the costs of a, for each number of nodes.  An exit code, after a
 * message. */
static int simulate(
    const struct command *c, const struct pl_ask *a, enum pl_kind last, struct sm_size *size, int n)
{
    int code = TOOL_OK;
    for (int i = 0; code == TOOL_OK && i < n; i++) {
        struct pl_ask one = *a;
        if (c->ask.nsizes > 0) {
            one.nodes.v = c->ask.nodes[i];
            one.mtbf.v = a->node_mtbf.v / one.nodes.v;
        }
        code = ftk_sm_make(&c->ask, &one, c->ask.log ? &c->failures : NULL, last, &size[i]);
    }
    return code;
}

/* Simulate the job with its own costs, then with those of each --with.  An exit code. */
static int simulate_all(
    const struct command *c, const struct pl_ask *a, struct sm_size *size, int n)
{
    struct pl_ask other[SM_WITH];
    for (int w = 0; w < c->ask.nwith; w++) {
        other[w] = *a;
        if (!ftk_sm_with_apply(&c->ask.with[w], &other[w]))
            return TOOL_USAGE;
    }
    int code = simulate(c, a, PL_UNCLONED, size, n);
    for (int w = 0; code == TOOL_OK && w < c->ask.nwith; w++)
        code = simulate(c, &other[w], PL_RESTART, &size[(size_t)(w + 1) * (size_t)n], n);
    return code;
}

/* Print what was simulated; an exit code, after a message. */
static int show(const struct sm_ask *s, const struct pl_ask *a, const struct sm_size *size, int n)
{
    int code = TOOL_OK;
    bool progress = false;
    for (int i = 0; i < n; i++)
        progress |= size[i].best >= 0;
    if (a->json)
        ftk_sm_json(s, size, n, stdout);
    else
        ftk_sm_print(s, size, n, stdout);
    if (a->svg)
        code = ftk_sm_svg(s, size, n, a->svg);
    return progress ? code : ftk_pl_no_progress(&size[0].plan);
}

int ftk_sim_main(int argc, char **argv)
{
    struct command c = { .ask = { .runs = 200,
                             .seed = 1,
                             .shape = { 1, PL_ASSUMED, 0 },
                             .every = 1,
                             .per_node = 1,
                             .same_node_s = 6 * 3600.0,
                             .together_s = 60 } };
    const struct pl_command command = { ftk_sim_usage, options, take, check, &c };
    struct pl_ask a = { .json = false };
    ftk_tool_name("sim");
    int code = ftk_pl_parse(&command, argc, argv, &a);
    int n = c.ask.nsizes > 0 ? c.ask.nsizes : 1;
    struct sm_size *size = ftk_tool_alloc((size_t)(n * (1 + c.ask.nwith)) * sizeof *size);
    if (code == TOOL_OK)
        code = simulate_all(&c, &a, size, n);
    if (code == TOOL_OK)
        code = show(&c.ask, &a, size, n);
    free(size);
    ftk_sm_failures_free(&c.failures);
    return code == TOOL_USAGE ? code : ftk_tool_end(code);
}
