/* ftkit config: what is in force, where it comes from, and what a job with it survives.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"

void ftk_config_usage(FILE *out)
{
    fputs("usage: ftkit config [--json] [FILE]\n"
          "       ftkit config --ranks N [--nodes M | --ranks-per-node K] [--spares S]\n"
          "                    [--bytes SIZE] [--memory SIZE] [--json] [FILE]\n"
          "       ftkit config --document\n"
          "\n"
          "Print the configuration in force: the defaults, then FILE, then the variables\n"
          "FTKIT_<SECTION>_<KEY> of the environment.  A comment of each key says where the\n"
          "value comes from: default, FILE:LINE, environment variable, or ftkit run (inside\n"
          "a job that ftkit run has started).  The output is itself a configuration file.\n"
          "\n"
          "With --ranks: look at the job that `ftkit run -n N` would start with this\n"
          "configuration.  The output says what each rank and each node keeps, what is\n"
          "written to the file system, from where the data come after a loss of 1, 2 or 3\n"
          "processes or nodes at once, how old the data can be, and which teams of the\n"
          "message log roll back.  The placement of copies and parity is that of the\n"
          "library.  All losses are counted one by one; if there are too many, a sample is\n"
          "drawn (always the same one), and the error of the share is given (99.9 %).\n"
          "Warnings name what does not fit together.\n"
          "\n"
          "  --ranks N           working ranks\n"
          "  --nodes M           nodes, with equal numbers of processes\n"
          "  --ranks-per-node K  as many nodes as are needed for K ranks on each; without\n"
          "                      these two: as topology.ranks_per_node says, else one node\n"
          "  --spares S          spares (as ftkit run chooses them, or FTKIT_SPARES_COUNT)\n"
          "  --bytes SIZE        what a rank registers, such as 2GiB: figures in bytes\n"
          "  --memory SIZE       memory of a node: a warning when the job does not fit\n"
          "  --json              as an object: source, keys[] (key, value, from, file, line,\n"
          "                      variable, default), warnings[]; with --ranks also job\n"
          "  --document          print every key with its values, default and meaning as\n"
          "                      Markdown\n"
          "\n"
          "Exit code: 0, also with warnings; 1 when the output cannot be written; 2 usage,\n"
          "or an error in the configuration, which names file, line and the nearest key.\n",
        out);
}

/* ---- the command line ---------------------------------------------------------------- */

enum { O_RANKS = 256, O_NODES, O_PER_NODE, O_SPARES, O_BYTES, O_MEMORY, O_JSON, O_DOCUMENT };

static const struct option options[] = {
    { "ranks", required_argument, NULL, O_RANKS },
    { "nodes", required_argument, NULL, O_NODES },
    { "ranks-per-node", required_argument, NULL, O_PER_NODE },
    { "spares", required_argument, NULL, O_SPARES },
    { "bytes", required_argument, NULL, O_BYTES },
    { "memory", required_argument, NULL, O_MEMORY },
    { "json", no_argument, NULL, O_JSON },
    { "document", no_argument, NULL, O_DOCUMENT },
    { NULL, 0, NULL, 0 },
};

static bool parse_count(const char *what, const char *text, int min, int *out)
{
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0' || errno != 0 || n < min || n > 1000000) {
        ftk_tool_say("%s: '%s' is not a number from %d to 1000000", what, text, min);
        return false;
    }
    *out = (int)n;
    return true;
}

static bool parse_size(const char *what, const char *text, double *out)
{
    const char *why = ftk_config_bytes(text, out);
    if (!why && *out < 1)
        why = "is out of range";
    if (why)
        ftk_tool_say("%s: '%s' %s: a number such as 500MB or 2GiB", what, text, why);
    return !why;
}

static bool parse_option(struct ftk_ask *a, int c)
{
    switch (c) {
    case O_RANKS:
        return parse_count("--ranks", optarg, 1, &a->ranks);
    case O_NODES:
        return parse_count("--nodes", optarg, 1, &a->nodes);
    case O_PER_NODE:
        return parse_count("--ranks-per-node", optarg, 1, &a->per_node);
    case O_SPARES:
        return parse_count("--spares", optarg, 0, &a->spares);
    case O_BYTES:
        return parse_size("--bytes", optarg, &a->bytes);
    case O_MEMORY:
        return parse_size("--memory", optarg, &a->memory);
    case O_JSON:
        return a->json = true;
    case O_DOCUMENT:
        return a->document = true;
    default:
        ftk_config_usage(stderr);
        return false;
    }
}

/* Whether the options are consistent; if not, say so. */
static bool makes_sense(const struct ftk_ask *a, int argc)
{
    bool job = a->nodes >= 0 || a->per_node >= 0 || a->spares >= 0 || a->bytes > 0 || a->memory > 0;
    if (a->ranks < 0 && job) {
        ftk_tool_say("--ranks is missing: how many ranks has the job?");
        return false;
    }
    if (a->nodes >= 0 && a->per_node >= 0) {
        ftk_tool_say("--nodes and --ranks-per-node contradict each other: give one of them");
        return false;
    }
    if (a->memory > 0 && !(a->bytes > 0)) {
        ftk_tool_say("--memory needs --bytes: what does a rank register?");
        return false;
    }
    if (argc - optind <= 1 && !(a->document && (argc > optind || a->ranks >= 0 || a->json)))
        return true;
    ftk_config_usage(stderr);
    return false;
}

static bool parse(struct ftk_ask *a, int argc, char **argv)
{
    static char name[] = "ftkit config"; /* getopt() begins its messages with argv[0] */
    int c;
    *a = (struct ftk_ask){ .ranks = -1, .nodes = -1, .per_node = -1, .spares = -1 };
    argv[0] = name;
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
        if (!parse_option(a, c))
            return false;
    if (!makes_sense(a, argc))
        return false;
    a->file = optind < argc ? argv[optind] : NULL;
    return true;
}

/* ---- the output ---------------------------------------------------------------------- */

static const char *const from_words[] = { "default", "file", "environment", "ftkit run" };

struct keys_json {
    struct ftk_json *j;
    const char *file;
};

static int key_json(void *arg, const struct ftk_config_item *item)
{
    const struct keys_json *k = arg;
    char key[128];
    snprintf(key, sizeof key, "%s.%s", item->section, item->name);
    ftk_json_open(k->j, NULL, '{');
    ftk_json_text(k->j, "key", key);
    ftk_json_text(k->j, "value", item->value);
    ftk_json_text(k->j, "from", from_words[item->from]);
    if (item->from == FTK_FROM_FILE) {
        ftk_json_text(k->j, "file", k->file);
        ftk_json_int(k->j, "line", item->line);
    }
    ftk_json_text(k->j, "variable", item->variable);
    ftk_json_text(k->j, "default", item->def);
    ftk_json_close(k->j, '}');
    return FTKIT_OK;
}

static int print_json(
    const struct ftk_config *cfg, const struct ftk_config_origin *origin, const struct ftk_job *job)
{
    struct ftk_json j = { .out = stdout };
    struct keys_json keys = { &j, cfg->source };
    const struct ftk_list *odd = job ? &job->warnings : NULL;
    ftk_json_open(&j, NULL, '{');
    if (*cfg->source)
        ftk_json_text(&j, "source", cfg->source);
    else
        ftk_json_null(&j, "source");
    ftk_json_open(&j, "keys", '[');
    int rc = ftk_config_each(cfg, origin, key_json, &keys);
    ftk_json_close(&j, ']');
    if (job)
        ftk_job_json(job, &j);
    ftk_json_open(&j, "warnings", '[');
    for (const char *line = cfg->warnings; *line; line += strcspn(line, "\n") + 1) {
        char text[512];
        snprintf(text, sizeof text, "%.*s", (int)strcspn(line, "\n"), line);
        ftk_json_text(&j, NULL, text);
    }
    for (size_t i = 0; odd && i < odd->n; i++)
        ftk_json_text(&j, NULL, odd->v[i]);
    ftk_json_close(&j, ']');
    ftk_json_close(&j, '}');
    return rc;
}

static void warn(const struct ftk_config *cfg, const struct ftk_job *job)
{
    const struct ftk_list *odd = job ? &job->warnings : NULL;
    for (const char *line = cfg->warnings; *line; line += strcspn(line, "\n") + 1)
        ftk_tool_say("warning: %.*s", (int)strcspn(line, "\n"), line);
    for (size_t i = 0; odd && i < odd->n; i++)
        ftk_tool_say("warning: %s", odd->v[i]);
}

static int show(const struct ftk_ask *a, struct ftk_config *cfg, struct ftk_config_origin *origin)
{
    struct ftk_job *job = NULL;
    int code = TOOL_OK, rc = FTKIT_OK;
    if (a->ranks >= 0)
        job = ftk_job_make(a, cfg, origin, &code);
    if (code != TOOL_OK)
        return code;
    warn(cfg, job);
    if (a->json)
        rc = print_json(cfg, origin, job);
    else if (job)
        ftk_job_print(job, stdout);
    else
        rc = ftk_config_print_origin(stdout, cfg, origin);
    ftk_job_free(job);
    if (rc < 0) {
        ftk_tool_say("cannot write: %s", ftk_detail_text());
        return TOOL_FAIL;
    }
    return ftk_tool_end(TOOL_OK);
}

int ftk_config_main(int argc, char **argv)
{
    struct ftk_config cfg;
    struct ftk_config_origin origin;
    struct ftk_ask a;
    ftk_tool_name("config");
    if (!parse(&a, argc, argv))
        return TOOL_USAGE;
    if (a.document) {
        (void)ftk_config_document(stdout); /* ftk_tool_end() reports what could not be written */
        return ftk_tool_end(TOOL_OK);
    }
    int rc = ftk_config_load_origin(&cfg, a.file, &origin);
    if (rc < 0) {
        ftk_tool_say("%s", ftk_detail_text());
        return TOOL_USAGE;
    }
    return show(&a, &cfg, &origin);
}
