/* ftkit failures: what a log of failures says about the machine: how often it fails, how many
 * nodes at once, and by which laws; or a log by given laws.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "failures.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

void ftk_failures_usage(FILE *out)
{
    fputs("usage: ftkit failures [--system NAME] [--same-node TIME] [--together TIME]\n"
          "                      [--nodes N] [--json] FILE\n"
          "       ftkit failures --generate LAWS [--events N] [--nodes N] [--seed N]\n"
          "\n"
          "Read a log of failures, and print how often the machine fails (MTBF) and how many\n"
          "nodes at once.  Laws are fitted to both and tested.  FILE is in one of three\n"
          "formats, which its first line shows:\n"
          "\n"
          "  time,node[,node...][,repair]  CSV; the header says whether the last field is a\n"
          "                                repair time.  Times are seconds, or dates such as\n"
          "                                2026-01-31T12:00:00, and do not go back\n"
          "  Los Alamos                    the log LA-UR-05-7318 of that laboratory\n"
          "  Slurm                         of `sacctmgr list event -P`, or of\n"
          "                                `sinfo -N -o '%H|%N|%T|%E'`: nodes that are down\n"
          "\n"
          "FILE - is standard input; a name that ends in .xz is unpacked by xz.  Records\n"
          "become failures in two steps: of a node's records within 6 h the first counts; the\n"
          "nodes of records within 1 min are one failure.\n"
          "\n"
          "  --system NAME     records of this system or cluster alone; needed if the file\n"
          "                    has several\n"
          "  --same-node TIME  instead of 6h; 0: every record counts\n"
          "  --together TIME   instead of 1min; 0: the same time\n"
          "  --nodes N         nodes of the machine, for the law of Zipf and for a generated\n"
          "                    log (1024)\n"
          "  --json            as an object; times are in seconds\n"
          "  --generate LAWS   write a log in the first format.  LAWS has commas between\n"
          "                    exponential:MEAN or weibull:SHAPE,SCALE (gaps);\n"
          "                    geometric:P or zipf:S (nodes per failure; else 1);\n"
          "                    lognormal:MEDIAN,SIGMA (repair times; else none)\n"
          "  --events N        failures in that log (1000)\n"
          "  --seed N          another seed gives another log (1)\n"
          "\n"
          "Exit code:\n"
          "  0  the result is printed\n"
          "  1  FILE cannot be read, is no such log, or has fewer than two failures\n"
          "  2  usage\n",
        out);
}

/* ---- options --------------------------------------------------------------------------------- */

struct ask {
    const char *system;
    double same_node_s, together_s;
    bool json, reads, generates; /* an option for one of the two ways was given */
    struct ftk_failure_recipe recipe;
    const char *file;
};

static bool parse_count(
    const char *option, const char *text, unsigned long long most, unsigned long long *out)
{
    uint64_t n = 0;
    if (!ftk_usage_number(text, &n) || n > most) {
        ftk_usage_wrong(ftk_failures_usage, "%s: '%s' is not a number of 0 to %llu", option,
            ftk_tool_why(text), most);
        return false;
    }
    *out = n;
    return true;
}

static bool parse_int(const char *option, const char *text, int *out)
{
    unsigned long long n = 1;
    if (!parse_count(option, text, 100000000, &n))
        return false;
    if (n == 0)
        ftk_usage_wrong(ftk_failures_usage, "%s is 1 or more", option);
    else
        *out = (int)n;
    return n > 0;
}

static bool parse_window(const char *option, const char *text, double *s)
{
    if (ftk_failure_time(text, s))
        return true;
    ftk_usage_wrong(
        ftk_failures_usage, "%s: '%s' is not a time such as 6h, nor 0", option, ftk_tool_why(text));
    return false;
}

enum { SYSTEM = 1, SAME_NODE, TOGETHER, NODES, JSON, GENERATE, EVENTS, SEED };
static const struct option options[] = {
    { "system", required_argument, NULL, SYSTEM },
    { "same-node", required_argument, NULL, SAME_NODE },
    { "together", required_argument, NULL, TOGETHER },
    { "nodes", required_argument, NULL, NODES },
    { "json", no_argument, NULL, JSON },
    { "generate", required_argument, NULL, GENERATE },
    { "events", required_argument, NULL, EVENTS },
    { "seed", required_argument, NULL, SEED },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

static bool take(int opt, struct ask *a)
{
    a->reads |= opt == SYSTEM || opt == SAME_NODE || opt == TOGETHER || opt == JSON;
    a->generates |= opt == EVENTS || opt == SEED;
    switch (opt) {
    case SYSTEM:
        a->system = optarg;
        return true;
    case SAME_NODE:
        return parse_window("--same-node", optarg, &a->same_node_s);
    case TOGETHER:
        return parse_window("--together", optarg, &a->together_s);
    case NODES:
        return parse_int("--nodes", optarg, &a->recipe.nodes);
    case JSON:
        return a->json = true;
    case GENERATE:
        a->recipe.text = optarg;
        return true;
    case EVENTS:
        return parse_int("--events", optarg, &a->recipe.events);
    case SEED:
        return parse_count("--seed", optarg, ~0ULL, &a->recipe.seed);
    default:
        return false;
    }
}

/* 0, or TOOL_USAGE after a message. */
static int check(struct ask *a, int argc, char **argv)
{
    if (a->recipe.text) {
        const char *why = ftk_failure_recipe(&a->recipe);
        if (why)
            return ftk_usage_wrong(ftk_failures_usage, "--generate: %s", why);
        if (a->reads || optind < argc)
            return ftk_usage_wrong(ftk_failures_usage, "--generate reads no FILE");
        return 0;
    }
    if (a->generates)
        return ftk_usage_wrong(ftk_failures_usage, "--events and --seed are for --generate");
    if (optind == argc)
        return ftk_usage_wrong(ftk_failures_usage, "FILE is missing");
    if (optind + 1 < argc)
        return ftk_usage_wrong(
            ftk_failures_usage, "'%s' is one argument too many", ftk_tool_why(argv[optind + 1]));
    a->file = argv[optind];
    return 0;
}

/* ---- a log ----------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void fit_sizes(struct ftk_failure_result *r, const struct ftk_coalesce_failure *f)
{
    for (size_t i = 0; i < r->failures; i++) {
        r->count[f[i].nodes < FTK_FIT_BINS ? f[i].nodes - 1 : FTK_FIT_BINS - 1]++;
        r->most = f[i].nodes > r->most ? f[i].nodes : r->most;
    }
    r->nodes = r->most > r->nodes ? r->most : r->nodes;
    ftk_fit_geometric(r->count, &r->geometric);
    ftk_fit_zipf(r->count, r->nodes, &r->zipf);
}

/* v has room for a number per failure.  0, or TOOL_FAIL after a message. */
static int fit_gaps(struct ftk_failure_result *r, const struct ftk_coalesce_failure *f, double *v)
{
    r->gaps = r->failures - 1;
    for (size_t i = 0; i < r->gaps; i++)
        v[i] = f[i + 1].at_s - f[i].at_s;
    qsort(v, r->gaps, sizeof *v, by_size);
    ftk_fit_mtbf(v, r->gaps, 0.95, &r->mtbf);
    int rc = ftk_fit_gaps(FTK_FIT_EXPONENTIAL, v, r->gaps, &r->exponential);
    if (rc == FTKIT_OK)
        rc = ftk_fit_gaps(FTK_FIT_WEIBULL, v, r->gaps, &r->weibull);
    r->fitted = rc == FTKIT_OK;
    if (rc != FTKIT_ERR_NOMEM)
        return TOOL_OK;
    ftk_tool_say("out of memory");
    return TOOL_FAIL;
}

static void fit_repairs(
    struct ftk_failure_result *r, const struct ftk_coalesce_failure *f, double *v)
{
    for (size_t i = 0; i < r->failures; i++)
        if (f[i].repair_s > 0) {
            r->repair_mean_s += f[i].repair_s;
            v[r->repairs++] = f[i].repair_s;
        }
    if (r->repairs == 0)
        return;
    r->repair_mean_s /= (double)r->repairs;
    ftk_fit_lognormal(v, r->repairs, &r->repair_median_s, &r->repair_sigma);
}

static int assess(const struct ask *a, const struct ftk_failure_log *log)
{
    struct ftk_failure_result r = { .path = a->file,
        .system = a->system,
        .log = log,
        .same_node_s = a->same_node_s,
        .together_s = a->together_s,
        .nodes = a->recipe.nodes };
    struct ftk_coalesce_failure *f = ftk_tool_alloc(log->n * sizeof *f);
    double *v = ftk_tool_alloc(log->n * sizeof *v);
    r.kept = ftk_coalesce_same_node(log->v, log->n, a->same_node_s);
    r.first_s = log->v[0].at_s;
    r.last_s = log->v[r.kept - 1].at_s;
    r.failures = ftk_coalesce_together(log->v, r.kept, a->together_s, f);
    int code = TOOL_FAIL;
    if (r.failures < 2) {
        ftk_tool_say("%s:%zu: column %s: the only failure, so there is no time between failures "
                     "(records: %zu)",
            a->file, log->first_line, log->where, log->n);
    } else {
        fit_sizes(&r, f);
        fit_repairs(&r, f, v);
        code = fit_gaps(&r, f, v);
    }
    if (code == TOOL_OK)
        (a->json ? ftk_failure_json : ftk_failure_text)(&r);
    free(f);
    free(v);
    return code;
}

static int read_log(const struct ask *a)
{
    struct ftk_failure_log log;
    int code = ftk_failures_read_one(a->file, a->system, &log);
    if (code == TOOL_OK)
        code = assess(a, &log);
    ftk_failures_free(&log);
    return ftk_tool_end(code);
}

int ftk_failures_main(int argc, char **argv)
{
    struct ask a = { .same_node_s = 6 * 3600.0,
        .together_s = 60,
        .recipe = { .events = 1000, .nodes = 1024, .seed = 1 } };
    int opt;
    ftk_tool_name("failures");
    while ((opt = ftk_usage_getopt(ftk_failures_usage, argc, argv, ":", options)) != -1) {
        if (opt == 'h') {
            ftk_failures_usage(stdout);
            return ftk_tool_end(TOOL_OK);
        }
        if (!take(opt, &a))
            return TOOL_USAGE;
    }
    int code = check(&a, argc, argv);
    if (code)
        return code;
    if (!a.recipe.text)
        return read_log(&a);
    ftk_failure_generate(&a.recipe);
    return ftk_tool_end(TOOL_OK);
}
