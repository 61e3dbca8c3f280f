/* The command line that ftkit plan and ftkit sim share: the job, its failures, costs and choices.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/period.h"
#include "plan.h"

void ftk_pl_usage_job(FILE *out)
{
    fputs("The job and its failures:\n"
          "\n"
          "  --nodes N           nodes that work\n"
          "  --node-mtbf T       mean time between failures of a node\n"
          "  --mtbf T            the same of the whole job, instead of --node-mtbf\n"
          "  --work T            time of the job without failures and sets (1d)\n"
          "  --multiplicity LAW  nodes of a failure: geometric:P or zipf:S (geometric:0.85)\n"
          "  --job-loss X        share of the failures that end the job and leave its nodes\n"
          "                      (0.15)\n"
          "  --node-repair T     time until a failed node is back (never)\n"
          "\n"
          "Costs:\n"
          "\n"
          "  --events DIR        take what is not given from the event log of a run\n"
          "  --run ID            which run of the log (the newest)\n"
          "  --context NAME      which context of the log (that of most processes)\n"
          "  --memory T          the job waits so long for a set in level.memory\n"
          "  --local T           ... in level.local, which has copies or parity too\n"
          "  --files T           ... on the file system (a tenth of --flush)\n"
          "  --flush T           time to write a set to the file system in the background (0)\n"
          "  --repair T          from a failure until ranks begin to do lost work again, in the\n"
          "                      job (30s)\n"
          "  --relaunch T        the same after the end of the job (2min)\n"
          "\n",
        out);
}

void ftk_pl_usage_choices(FILE *out)
{
    fputs("Choices:\n"
          "\n"
          "  --group G[:M]       look at one parity group only: G nodes, of which any M may be\n"
          "                      lost (M = 1)\n"
          "  --team N:MU[:PHI]   teams of N nodes slow the job down MU times, and do lost work\n"
          "                      again PHI times as fast; may be repeated (1:1.05:1.2;\n"
          "                      PHI: that of the replays in --events)\n"
          "  --matrix FILE       teams of 1, 2, 4 ... nodes and the acquaintances, from a file\n"
          "                      that a job with log.matrix has written; slowdowns follow from\n"
          "                      that of --team by the bytes between teams\n"
          "  --acquaintances N   nodes that a node exchanges messages with (8)\n"
          "  --parallel P        nodes that do the lost work of one node (8)\n"
          "  --beta X            share of the time in messages between two ranks, for\n"
          "                      replicas (0.2)\n"
          "  --clone T           time to copy a replica to a spare (2min)\n"
          "  --risk X            probability that the spares run out (0.01)\n"
          "  --busy W            power of a node that computes (100)\n"
          "  --idle W            power of a node that waits or writes (40)\n"
          "  --energy            least energy, not least time\n",
        out);
}

enum {
    O_NODES = 256,
    O_NODE_MTBF,
    O_MTBF,
    O_WORK,
    O_MULTIPLICITY,
    O_JOB_LOSS,
    O_NODE_REPAIR,
    O_EVENTS,
    O_RUN,
    O_CONTEXT,
    O_MEMORY,
    O_LOCAL,
    O_FILES,
    O_FLUSH,
    O_REPAIR,
    O_RELAUNCH,
    O_GROUP,
    O_TEAM,
    O_MATRIX,
    O_ACQUAINTANCES,
    O_PARALLEL,
    O_BETA,
    O_CLONE,
    O_RISK,
    O_BUSY,
    O_IDLE,
    O_ENERGY,
    O_SVG,
    O_JSON
};

static const struct option options[] = {
    { "nodes", required_argument, NULL, O_NODES },
    { "node-mtbf", required_argument, NULL, O_NODE_MTBF },
    { "mtbf", required_argument, NULL, O_MTBF },
    { "work", required_argument, NULL, O_WORK },
    { "multiplicity", required_argument, NULL, O_MULTIPLICITY },
    { "job-loss", required_argument, NULL, O_JOB_LOSS },
    { "node-repair", required_argument, NULL, O_NODE_REPAIR },
    { "events", required_argument, NULL, O_EVENTS },
    { "run", required_argument, NULL, O_RUN },
    { "context", required_argument, NULL, O_CONTEXT },
    { "memory", required_argument, NULL, O_MEMORY },
    { "local", required_argument, NULL, O_LOCAL },
    { "files", required_argument, NULL, O_FILES },
    { "flush", required_argument, NULL, O_FLUSH },
    { "repair", required_argument, NULL, O_REPAIR },
    { "relaunch", required_argument, NULL, O_RELAUNCH },
    { "group", required_argument, NULL, O_GROUP },
    { "team", required_argument, NULL, O_TEAM },
    { "matrix", required_argument, NULL, O_MATRIX },
    { "acquaintances", required_argument, NULL, O_ACQUAINTANCES },
    { "parallel", required_argument, NULL, O_PARALLEL },
    { "beta", required_argument, NULL, O_BETA },
    { "clone", required_argument, NULL, O_CLONE },
    { "risk", required_argument, NULL, O_RISK },
    { "busy", required_argument, NULL, O_BUSY },
    { "idle", required_argument, NULL, O_IDLE },
    { "energy", no_argument, NULL, O_ENERGY },
    { "svg", required_argument, NULL, O_SVG },
    { "json", no_argument, NULL, O_JSON },
    { NULL, 0, NULL, 0 },
};

/* ---- values -------------------------------------------------------------------------- */

static const struct option *table; /* of the command that runs: options, and its own */

/* Parse a number within low .. high.  A time may have a unit.  *rest is the text behind. */
static bool parse_number(
    const char *text, enum pl_unit unit, double low, double high, double *out, const char **rest)
{
    static const struct {
        const char *name;
        double s;
    } units[] = { { "ms", 1e-3 }, { "min", 60 }, { "s", 1 }, { "h", 3600 }, { "d", 86400 },
        { "y", 365.25 * 86400 } };
    char *end;
    if (!(*text >= '0' && *text <= '9') && *text != '.')
        return false;
    double v = strtod(text, &end);
    for (size_t i = 0; unit == PL_TIME && i < sizeof units / sizeof units[0]; i++) {
        size_t n = strlen(units[i].name);
        if (strncmp(end, units[i].name, n) == 0) {
            v *= units[i].s;
            end += n;
            break;
        }
    }
    if (!(v >= low && v <= high) || (unit == PL_WHOLE && v != floor(v)))
        return false;
    *out = v;
    *rest = end;
    return true;
}

bool ftk_pl_value(int option, enum pl_unit unit, double low, double high, struct pl_value *out)
{
    static const char *const what[] = { "a number", "a whole number", "a time such as 90s or 10y" };
    const char *name = "", *rest = "";
    double v = 0;
    for (const struct option *o = table; o->name; o++)
        name = o->val == option ? o->name : name;
    if (parse_number(optarg, unit, low, high, &v, &rest) && *rest == '\0') {
        *out = (struct pl_value){ v, PL_GIVEN, 0 };
        return true;
    }
    if (unit == PL_TIME)
        ftk_tool_say("--%s: '%s' is not %s%s", name, ftk_tool_why(optarg), what[unit],
            low > 0 ? ", more than 0" : "");
    else
        ftk_tool_say("--%s: '%s' is not %s from %g to %g", name, ftk_tool_why(optarg), what[unit],
            low, high);
    return false;
}

bool ftk_pl_time(const char *text, double low, double *s, const char **rest)
{
    return parse_number(text, PL_TIME, low, PL_LONG, s, rest);
}

static bool parse_multiplicity(struct pl_ask *a)
{
    static const char *const laws[] = { "geometric:", "zipf:" };
    const char *rest = "";
    for (int i = 0; i < 2; i++) {
        size_t n = strlen(laws[i]);
        double v = 0, high = i == FTK_MODEL_GEOMETRIC ? 1 : 100;
        if (strncmp(optarg, laws[i], n) == 0
            && parse_number(optarg + n, PL_NUMBER, 0.01, high, &v, &rest) && *rest == '\0') {
            a->multiplicity = (struct ftk_model_multiplicity){ (enum ftk_model_law)i, v };
            return a->multiplicity_given = true;
        }
    }
    ftk_tool_say("--multiplicity: '%s' is not geometric:P with P from 0.01 to 1, nor zipf:S with S "
                 "from 0.01 to 100",
        ftk_tool_why(optarg));
    return false;
}

static bool parse_group(struct pl_ask *a)
{
    const char *rest = "";
    double g = 0, m = 1;
    bool good = parse_number(optarg, PL_WHOLE, 2, 32, &g, &rest);
    if (good && *rest == ':')
        good = parse_number(rest + 1, PL_WHOLE, 1, 31, &m, &rest);
    if (!good || *rest || m >= g) {
        ftk_tool_say("--group: '%s' is not G or G:M, with G from 2 to 32 and M less than G",
            ftk_tool_why(optarg));
        return false;
    }
    a->group = (int)g;
    a->parity = (int)m;
    return true;
}

static bool parse_team(struct pl_ask *a)
{
    const char *rest = "";
    double n = 0, mu = 0, phi = 1;
    if (a->nteams == PL_TEAMS) {
        ftk_tool_say("--team: at most %d of them", PL_TEAMS);
        return false;
    }
    bool good = parse_number(optarg, PL_WHOLE, 1, 1e6, &n, &rest) && *rest == ':'
                && parse_number(rest + 1, PL_NUMBER, 1, 100, &mu, &rest);
    enum pl_from phi_from = good && *rest == ':' ? PL_GIVEN : PL_ASSUMED;
    if (phi_from == PL_GIVEN)
        good = parse_number(rest + 1, PL_NUMBER, PL_SLOWEST, PL_FASTEST, &phi, &rest);
    if (!good || *rest) {
        ftk_tool_say("--team: '%s' is not N:MU or N:MU:PHI, such as 4:1.02:1.2, with MU 1 or more",
            ftk_tool_why(optarg));
        return false;
    }
    a->team[a->nteams++] = (struct pl_team){
        .nodes = (int)n, .slowdown = mu, .speed = phi, .from = PL_GIVEN, .speed_from = phi_from
    };
    return true;
}

/* ---- options ------------------------------------------------------------------------- */

static bool parse_cost(struct pl_ask *a, int c)
{
    switch (c) {
    case O_MEMORY:
        return ftk_pl_value(c, PL_TIME, 1e-9, PL_LONG, &a->cost[PL_MEMORY]);
    case O_LOCAL:
        return ftk_pl_value(c, PL_TIME, 1e-9, PL_LONG, &a->cost[PL_LOCAL]);
    case O_FILES:
        return ftk_pl_value(c, PL_TIME, 1e-9, PL_LONG, &a->cost[PL_FILES]);
    case O_FLUSH:
        return ftk_pl_value(c, PL_TIME, 0, PL_LONG, &a->flush);
    case O_REPAIR:
        return ftk_pl_value(c, PL_TIME, 0, PL_LONG, &a->repair);
    case O_RELAUNCH:
        return ftk_pl_value(c, PL_TIME, 0, PL_LONG, &a->relaunch);
    case O_CLONE:
        return ftk_pl_value(c, PL_TIME, 0, PL_LONG, &a->clone);
    case O_NODE_REPAIR:
        return ftk_pl_value(c, PL_TIME, 1e-9, PL_LONG, &a->node_repair);
    case O_BUSY:
        return ftk_pl_value(c, PL_NUMBER, 0, 1e9, &a->busy);
    case O_IDLE:
        return ftk_pl_value(c, PL_NUMBER, 0, 1e9, &a->idle);
    default: /* ftk_usage_getopt() has printed a message */
        return false;
    }
}

static bool parse_option(struct pl_ask *a, int c)
{
    switch (c) {
    case O_NODES:
        return ftk_pl_value(c, PL_WHOLE, 1, 1e7, &a->nodes);
    case O_NODE_MTBF:
        return ftk_pl_value(c, PL_TIME, 1e-9, PL_LONG, &a->node_mtbf);
    case O_MTBF:
        return ftk_pl_value(c, PL_TIME, 1e-9, PL_LONG, &a->mtbf);
    case O_WORK:
        return ftk_pl_value(c, PL_TIME, 1e-9, PL_LONG, &a->work);
    case O_MULTIPLICITY:
        return parse_multiplicity(a);
    case O_JOB_LOSS:
        return ftk_pl_value(c, PL_NUMBER, 0, 1, &a->job_loss);
    case O_EVENTS:
        a->events = optarg;
        return true;
    case O_RUN:
        a->run = optarg;
        return true;
    case O_CONTEXT:
        a->context = optarg;
        return true;
    case O_GROUP:
        return parse_group(a);
    case O_TEAM:
        return parse_team(a);
    case O_MATRIX:
        a->matrix = optarg;
        return true;
    case O_SVG:
        a->svg = optarg;
        return true;
    case O_ACQUAINTANCES:
        return ftk_pl_value(c, PL_WHOLE, 1, 1e6, &a->acquaintances);
    case O_PARALLEL:
        return ftk_pl_value(c, PL_WHOLE, 1, 1e6, &a->parallel);
    case O_BETA:
        return ftk_pl_value(c, PL_NUMBER, 0, 1, &a->beta);
    case O_RISK:
        return ftk_pl_value(c, PL_NUMBER, 1e-9, 1, &a->risk);
    case O_ENERGY:
        a->aim = FTK_MODEL_ENERGY;
        return true;
    case O_JSON:
        return a->json = true;
    default:
        return parse_cost(a, c);
    }
}

static void assume(struct pl_value *value, double v)
{
    if (value->from == PL_UNKNOWN)
        *value = (struct pl_value){ v, PL_ASSUMED, 0 };
}

static void assume_teams(struct pl_ask *a)
{
    if (a->nteams == 0)
        a->team[a->nteams++] = (struct pl_team){
            .nodes = 1, .slowdown = 1.05, .speed = 1.2, .from = PL_ASSUMED, .speed_from = PL_ASSUMED
        };
    for (int i = 0; i < a->nteams && a->speed.from == PL_MEASURED; i++)
        if (a->team[i].speed_from == PL_ASSUMED) {
            a->team[i].speed = a->speed.v;
            a->team[i].speed_from = PL_MEASURED;
        }
}

/* Values for what is neither given nor measured: of Meneses 2013, table 4.2 (log, power, repair),
 * of Rezaei et al. (clone, relaunch), of Moody et al., SC 2010 (job_loss). */
void ftk_pl_assume(struct pl_ask *a)
{
    bool flush = a->flush.from != PL_UNKNOWN;
    assume(&a->work, 86400);
    assume(&a->job_loss, 1 - FTK_MODEL_SHARE_MEMORY);
    assume(&a->repair, 30);
    assume(&a->relaunch, 120);
    assume(&a->acquaintances, 8);
    assume(&a->parallel, 8);
    assume(&a->beta, 0.2);
    assume(&a->clone, 120);
    assume(&a->risk, 0.01);
    assume(&a->busy, FTK_MODEL_BUSY_W);
    assume(&a->idle, FTK_MODEL_IDLE_W);
    if (flush && a->flush.v > 0)
        assume(&a->cost[PL_FILES], a->flush.v / 10);
    assume(&a->flush, 0);
    assume_teams(a);
    if (!a->multiplicity_given)
        a->multiplicity = (struct ftk_model_multiplicity){ FTK_MODEL_GEOMETRIC, 0.85 };
    if (a->node_mtbf.from != PL_UNKNOWN)
        a->mtbf = (struct pl_value){ a->node_mtbf.v / a->nodes.v, a->node_mtbf.from, 0 };
    else
        a->node_mtbf = (struct pl_value){ a->mtbf.v * a->nodes.v, a->mtbf.from, 0 };
}

/* What the options alone do not allow.  0, or TOOL_USAGE after a message. */
static int check_options(const struct pl_ask *a, ftk_usage_fn *usage)
{
    bool node = a->node_mtbf.from != PL_UNKNOWN, job = a->mtbf.from != PL_UNKNOWN;
    if (node == job)
        return ftk_usage_wrong(usage, "give %s --node-mtbf %s --mtbf",
            node ? "only one of" : "one of", node ? "and" : "or");
    if (a->matrix && a->nteams > 1)
        return ftk_usage_wrong(
            usage, "give only one --team with --matrix, which adds the other sizes");
    if (!a->events && (a->run || a->context))
        return ftk_usage_wrong(
            usage, "%s has no meaning without --events", a->run ? "--run" : "--context");
    return TOOL_OK;
}

/* What they do not allow together with the event log. */
static int check_all(const struct pl_ask *a, ftk_usage_fn *usage)
{
    if (a->nodes.from == PL_UNKNOWN)
        return ftk_usage_wrong(usage, "--nodes is missing");
    if (a->cost[PL_FILES].from == PL_UNKNOWN && !(a->flush.v > 0))
        return ftk_usage_wrong(
            usage, "--files or --flush is missing: what does a set on files cost?");
    if (a->group > a->nodes.v)
        return ftk_usage_wrong(usage, "--group: there are only %.0f nodes", a->nodes.v);
    for (int i = 0; i < a->nteams; i++)
        if (a->team[i].nodes > a->nodes.v)
            return ftk_usage_wrong(usage, "--team: there are only %.0f nodes", a->nodes.v);
    return TOOL_OK;
}

/* The options of a command, and those that it shares with ftkit plan.  The caller frees them. */
static struct option *join(const struct option *own)
{
    size_t shared = sizeof options / sizeof options[0], n = 0;
    while (own && own[n].name)
        n++;
    struct option *all = ftk_tool_alloc((shared + n) * sizeof *all);
    if (n > 0)
        memcpy(all, own, n * sizeof *all);
    memcpy(all + n, options, sizeof options);
    return all;
}

static int parse(const struct pl_command *command, int argc, char **argv, struct pl_ask *a)
{
    int c;
    while ((c = ftk_usage_getopt(command->usage, argc, argv, ":", table)) != -1)
        if (c >= O_NODES ? !parse_option(a, c) : !command->take || !command->take(c, command->arg))
            return TOOL_USAGE;
    if (optind < argc)
        return ftk_usage_wrong(
            command->usage, "'%s' is one argument too many", ftk_tool_why(argv[optind]));
    return TOOL_OK;
}

int ftk_pl_parse(const struct pl_command *command, int argc, char **argv, struct pl_ask *a)
{
    struct option *all = join(command->own);
    table = all;
    int code = parse(command, argc, argv, a);
    if (code == TOOL_OK && command->check)
        code = command->check(a, command->arg);
    if (code == TOOL_OK)
        code = check_options(a, command->usage);
    if (code == TOOL_OK && a->events)
        code = ftk_pl_measure(a);
    if (code == TOOL_OK)
        code = check_all(a, command->usage);
    if (code == TOOL_OK)
        ftk_pl_assume(a);
    if (code == TOOL_OK && a->matrix)
        code = ftk_pl_teams(a);
    free(all);
    return code;
}
