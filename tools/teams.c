/* ftkit teams: propose teams for the message log from the communication matrix of a job.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cut.h"
#include "core/teams.h"

void ftk_teams_usage(FILE *out)
{
    fputs("usage: ftkit teams --size T | --teams K [--ranks-per-node N] [--json] MATRIX\n"
          "       ftkit teams --file FILE [--json] MATRIX\n"
          "\n"
          "Propose teams for the message log: ranks that roll back together.  MATRIX is a\n"
          "file that a job with log.matrix has written.  Messages between teams are logged,\n"
          "so ftkit looks for teams with few bytes between them (by METIS, too, where the\n"
          "build has METIS).  The same matrix gives the same teams.  The output is a file\n"
          "for log.team_file, with comments that say\n"
          "\n"
          "  bytes in all            sent from one rank to another\n"
          "  bytes between teams     ... to a rank of another team: these bytes are logged\n"
          "  of consecutive ranks    the same for teams of these sizes of consecutive ranks\n"
          "  ranks that one failure rolls back\n"
          "                          their share, if every rank is equally likely to fail\n"
          "\n"
          "  --size T            teams of T ranks; if T does not divide the number of ranks,\n"
          "                      that number / T teams, rounded up, whose sizes differ by\n"
          "                      one at most\n"
          "  --teams K           K teams, whose sizes differ by one at most\n"
          "  --ranks-per-node N  keep the N consecutive ranks of a node together, so that\n"
          "                      the loss of a node rolls back one team; sizes of teams\n"
          "                      differ by one node at most, and N must divide T\n"
          "  --file FILE         propose no teams; assess the teams in FILE\n"
          "  --json              as an object: matrix, context, ranks, teams, messages,\n"
          "                      bytes, messages_between, bytes_between (teams),\n"
          "                      messages_consecutive, bytes_consecutive, rolled_back (a\n"
          "                      share of 1), team[] (the number of each rank's team)\n"
          "\n"
          "Exit code:\n"
          "  0  the teams are written\n"
          "  1  MATRIX or FILE cannot be read or is damaged\n"
          "  2  usage\n",
        out);
}

/* Number the teams by their first ranks; returns how many there are. */
static int number_teams(int n, int *team)
{
    int *becomes = ftk_tool_alloc((size_t)n * sizeof *becomes);
    int teams = 0;
    for (int r = 0; r < n; r++)
        becomes[r] = -1;
    for (int r = 0; r < n; r++) {
        if (becomes[team[r]] < 0)
            becomes[team[r]] = teams++;
        team[r] = becomes[team[r]];
    }
    free(becomes);
    return teams;
}

static int *count_sizes(int n, const int *team)
{
    int *size = ftk_tool_alloc((size_t)n * sizeof *size);
    for (int r = 0; r < n; r++)
        size[team[r]]++;
    return size;
}

/* ---- assessment of teams ------------------------------------------------------------- */

struct report {
    int teams, least, most; /* and their sizes */
    struct ftk_cut cut, consecutive;
    double rolled_back; /* share of the ranks */
};

static struct report assess(const struct ftk_matrix *m, const int *team, int teams)
{
    struct report r = { .teams = teams, .least = m->n };
    int *size = count_sizes(m->n, team);
    int *block = ftk_tool_alloc((size_t)m->n * sizeof *block);
    for (int t = 0; t < teams; t++) {
        double share = (double)size[t] / m->n;
        r.rolled_back += share * share; /* probability of the team * its share of the ranks */
        r.least = size[t] < r.least ? size[t] : r.least;
        r.most = size[t] > r.most ? size[t] : r.most;
    }
    ftk_cut_blocks(m->n, team, block);
    r.cut = ftk_matrix_cut(m, team);
    r.consecutive = ftk_matrix_cut(m, block);
    free(size);
    free(block);
    return r;
}

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100 * (double)part / (double)whole : 0;
}

static void print_ranks(int n, const int *team, int which)
{
    const char *comma = "";
    for (int first = 0, last; first < n; first = last + 1) {
        last = first;
        if (team[first] != which)
            continue;
        while (last + 1 < n && team[last + 1] == which)
            last++;
        if (last > first)
            printf("%s%d-%d", comma, first, last);
        else
            printf("%s%d", comma, first);
        comma = ",";
    }
    putchar('\n');
}

static void print_file(
    const char *path, const struct ftk_matrix *m, const int *team, const struct report *r)
{
    printf("# teams for log.team_file, from ftkit teams\n# matrix: %s\n", ftk_tool_why(path));
    printf("# context: %s\n# ranks: %d\n# teams: %d of %d", m->context, m->n, r->teams, r->least);
    if (r->most > r->least)
        printf(" to %d", r->most);
    printf(" ranks\n# bytes in all: %" PRIu64 "\n", m->bytes);
    printf("# bytes between teams: %" PRIu64 " (%.1f %%), which is what is logged\n", r->cut.bytes,
        percent(r->cut.bytes, m->bytes));
    printf("# bytes between teams of consecutive ranks: %" PRIu64 " (%.1f %%)\n",
        r->consecutive.bytes, percent(r->consecutive.bytes, m->bytes));
    printf("# ranks that one failure rolls back, on average: %.1f %%\n", 100 * r->rolled_back);
    for (int t = 0; t < r->teams; t++)
        print_ranks(m->n, team, t);
}

static void print_json(
    const char *path, const struct ftk_matrix *m, const int *team, const struct report *r)
{
    struct ftk_json j = { .out = stdout };
    ftk_json_open(&j, NULL, '{');
    ftk_json_text(&j, "matrix", path);
    ftk_json_text(&j, "context", m->context);
    ftk_json_int(&j, "ranks", m->n);
    ftk_json_int(&j, "teams", r->teams);
    ftk_json_uint(&j, "messages", m->messages);
    ftk_json_uint(&j, "bytes", m->bytes);
    ftk_json_uint(&j, "messages_between", r->cut.messages);
    ftk_json_uint(&j, "bytes_between", r->cut.bytes);
    ftk_json_uint(&j, "messages_consecutive", r->consecutive.messages);
    ftk_json_uint(&j, "bytes_consecutive", r->consecutive.bytes);
    ftk_json_real(&j, "rolled_back", r->rolled_back);
    ftk_json_open(&j, "team", '[');
    for (int k = 0; k < m->n; k++)
        ftk_json_int(&j, NULL, team[k]);
    ftk_json_close(&j, ']');
    ftk_json_close(&j, '}');
}

/* ---- the command --------------------------------------------------------------------- */

/* The wanted number of teams; 0 after a message. */
static int teams_asked(const struct ftk_opts *o, int n, int per_node)
{
    int units = ftk_team_cut_units(n, per_node);
    if (o->teams > units) {
        ftk_tool_say(
            "--teams %d: there are only %d %s", o->teams, units, per_node > 1 ? "nodes" : "ranks");
        return 0;
    }
    if (o->teams > 0)
        return o->teams;
    if (o->size < per_node || o->size % per_node != 0) {
        ftk_tool_say("--size %d is no multiple of --ranks-per-node %d", o->size, per_node);
        return 0;
    }
    return ftk_team_cut_teams(n, per_node, o->size);
}

/* Check that the options are consistent.  0, or TOOL_USAGE after a message. */
static int check_args(const struct ftk_opts *o)
{
    int ways = (o->size >= 0) + (o->teams >= 0) + (o->file != NULL);
    if (ways != 1)
        return ftk_usage_wrong(ftk_teams_usage, "give one of --size, --teams and --file");
    if (o->file && o->per_node >= 0)
        return ftk_usage_wrong(ftk_teams_usage, "--file has no use for --ranks-per-node");
    if (o->size == 0 || o->teams == 0 || o->per_node == 0)
        return ftk_usage_wrong(ftk_teams_usage, "%s is 1 or more",
            o->size == 0    ? "--size"
            : o->teams == 0 ? "--teams"
                            : "--ranks-per-node");
    return ftk_opts_args(o, ftk_teams_usage, 1, "MATRIX");
}

static int choose(const struct ftk_opts *o, const struct ftk_matrix *m, int *team)
{
    int per_node = o->per_node > 0 ? o->per_node : 1;
    if (o->file) {
        if (ftk_teams_of_file(o->file, m->n, team) == FTKIT_OK)
            return TOOL_OK;
        const char *why = ftk_tool_why(ftk_detail_text()); /* names the key of a job */
        const char *prefix = "log.team_file: ";
        ftk_tool_say("%s", strncmp(why, prefix, strlen(prefix)) == 0 ? why + strlen(prefix) : why);
        return TOOL_FAIL;
    }
    int k = teams_asked(o, m->n, per_node);
    return k > 0 ? ftk_cut_make(m, per_node, k, team) : TOOL_USAGE;
}

int ftk_teams_main(int argc, char **argv)
{
    struct ftk_opts o;
    struct ftk_matrix m;
    int code = ftk_opts_parse(
        argc, argv, OPT_JSON | OPT_SIZE | OPT_TEAMS | OPT_PER_NODE | OPT_FILE, ftk_teams_usage, &o);
    if (code)
        return code - 1;
    code = check_args(&o);
    if (code)
        return code;
    code = ftk_matrix_load(o.args[0], &m);
    if (code)
        return code;
    int *team = ftk_tool_alloc((size_t)m.n * sizeof *team);
    code = choose(&o, &m, team);
    if (code == TOOL_OK) {
        struct report r = assess(&m, team, number_teams(m.n, team));
        (o.json ? print_json : print_file)(o.args[0], &m, team, &r);
    }
    free(team);
    ftk_matrix_free(&m);
    return ftk_tool_end(code);
}
