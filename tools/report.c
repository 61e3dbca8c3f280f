/* ftkit report: one HTML file from the event logs of a run (docs/events.md).
 *
 * The files are read four times, line by line: for the runs, the teams of one run, its events,
 * and its communication matrix.  jansson parses the lines; a build without jansson has
 * report_none.c instead.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output.h"
#include "report.h"

#define DEFAULT_OUTPUT "ftkit-report.html"

void ftk_report_usage(FILE *out)
{
    fputs("usage: ftkit report [-o FILE] [--run ID] [--context NAME] [--json] [DIR|FILE]...\n"
          "\n"
          "Make one HTML file from the event log of a run: progress of the ranks, sets,\n"
          "failures and their repairs, memory of the message log, the communication matrix,\n"
          "energy, warnings and errors, the configuration.  The file needs no network.  DIR is a\n"
          "directory that a job with report.events has written (default: .); of this\n"
          "directory all files *.jsonl are read.  Give all directories or files when each\n"
          "node has its own.\n"
          "\n"
          "  -o FILE         the file to write (default: ftkit-report.html); - is standard\n"
          "                  output\n"
          "  --run ID        the run to show (default: the newest); all processes that one\n"
          "                  `ftkit run` has started are one run\n"
          "  --context NAME  the context to show (default: that of most processes)\n"
          "  --json          write no page; print the figures as an object: run, context,\n"
          "                  program, version, mode, began, seconds, ranks, spares, nodes,\n"
          "                  teams, attempts, good, end, lost (processes), repairs,\n"
          "                  repair_seconds, calls (of ftkit_checkpoint, of all ranks),\n"
          "                  calls_again (executed a second time), newest_set, log_held_max,\n"
          "                  traffic_bytes, traffic_bytes_between (teams), errors, warnings,\n"
          "                  levels[] (level, sets, bytes, sent, seconds_mean, seconds_max,\n"
          "                  worst_code), energy (kind: measured or model, source, nodes,\n"
          "                  node_seconds, seconds, joules, phases[] (phase, seconds,\n"
          "                  joules)), failures[] (at, attempt, seconds, detect, supply,\n"
          "                  rebuild, restore, lost, replaced[], back[], line, spares,\n"
          "                  sources[]), other_runs[], lines (read, used, other_runs,\n"
          "                  unknown_events, skipped, first_skipped)\n"
          "\n"
          "Exit code: 0; 1 when the log cannot be read, has no run, or the page cannot be\n"
          "written; 2 usage, or DIR has no event log.\n",
        out);
}

static const char *output_of(const struct ftk_opts *o)
{
    return o->output ? o->output : DEFAULT_OUTPUT;
}

static int cannot_write(const char *path)
{
    int err = errno;
    ftk_tool_say("%s cannot be written: %s", ftk_tool_why(path), strerror(err));
    return TOOL_FAIL;
}

/* Whether the page would take the place of one of the logs */
static bool is_input(const struct rp_log *log, const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return false;
    for (size_t i = 0; i < log->nfiles; i++)
        if (log->files[i].dev == st.st_dev && log->files[i].ino == st.st_ino)
            return true;
    return false;
}

static int write_page(const struct rp_log *log, const char *path)
{
    struct ftk_output out;
    if (strcmp(path, "-") == 0) {
        ftk_rp_page(log, stdout);
        return TOOL_OK;
    }
    bool good = ftk_output_begin(&out, path);
    if (good) {
        ftk_rp_page(log, out.f);
        good = ftk_output_end(&out);
    }
    return good ? TOOL_OK : cannot_write(path);
}

/* What the user must know of the input, on standard error. */
static void say_more(const struct rp_log *log)
{
    size_t others = 0;
    const struct rp_group *newest = NULL;
    for (size_t i = 0; i < log->ngroups; i++)
        if (!log->groups[i].chosen) {
            others++;
            newest = !newest || log->groups[i].last > newest->last ? &log->groups[i] : newest;
        }
    if (newest) {
        char when[32];
        ftk_time_text((int64_t)newest->first, when);
        ftk_tool_say("these logs have %zu runs; the page shows run %s of context %s", others + 1,
            ftk_tool_why(log->groups[log->main_group].run), log->groups[log->main_group].context);
        ftk_tool_say("  another: --run %s   (began %s)", ftk_tool_why(newest->run), when);
    }
    if (log->bad)
        ftk_tool_say("%llu of %llu lines are skipped; the first: %s", (unsigned long long)log->bad,
            (unsigned long long)log->lines, ftk_tool_why(log->first_bad));
    for (size_t i = 0; i < log->nfiles; i++)
        if (log->files[i].named && log->files[i].good == 0)
            ftk_tool_say("%s has no line of an event log", ftk_tool_why(log->files[i].path));
}

static int report(struct rp_log *log, const struct ftk_opts *o)
{
    int code = ftk_rp_choose(log, o->run, o->context);
    if (code == TOOL_OK)
        code = ftk_rp_read(log);
    if (code != TOOL_OK)
        return code;
    ftk_rp_sum(log);
    say_more(log);
    if (o->json) {
        ftk_rp_json(log, stdout);
        return TOOL_OK;
    }
    code = write_page(log, output_of(o));
    if (code == TOOL_OK && strcmp(output_of(o), "-") != 0)
        printf("%s\n", output_of(o));
    return code;
}

int ftk_report_main(int argc, char **argv)
{
    struct ftk_opts o;
    int code = ftk_opts_parse(
        argc, argv, OPT_JSON | OPT_CONTEXT | OPT_OUTPUT | OPT_RUN, ftk_report_usage, &o);
    if (code)
        return code - 1;
    if ((o.json && o.output) || (o.output && !*o.output)) {
        ftk_tool_say(o.json ? "--json writes no page: -o has no meaning" : "-o needs a name");
        return TOOL_USAGE;
    }
    struct rp_log *log = ftk_tool_alloc(sizeof *log);
    for (int i = 0; code == TOOL_OK && i < o.nargs; i++)
        code = ftk_rp_add_path(log, o.args[i]);
    if (code == TOOL_OK && o.nargs == 0)
        code = ftk_rp_add_path(log, ".");
    if (code == TOOL_OK && log->nfiles == 0) {
        ftk_tool_say("no regular file to read");
        code = TOOL_FAIL;
    }
    if (code == TOOL_OK && !o.json && is_input(log, output_of(&o))) {
        ftk_tool_say("-o %s is one of the logs", ftk_tool_why(output_of(&o)));
        code = TOOL_USAGE;
    }
    if (code == TOOL_OK)
        code = report(log, &o);
    ftk_rp_free(log);
    free(log);
    return ftk_tool_end(code);
}
