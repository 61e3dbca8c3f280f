/* ftkit plan: periods, scheme, teams and spares from costs that are given or were measured.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "plan.h"

void ftk_plan_usage(FILE *out)
{
    fputs("usage: ftkit plan --nodes N --node-mtbf T --files T [OPTION]... [--json]\n"
          "       ftkit plan --events DIR --node-mtbf T [OPTION]... [--json]\n"
          "\n"
          "Plan the fault tolerance of a job: scheme of the sets in memory, period of each\n"
          "level, teams of the message log, number of spares, and the efficiency that is to\n"
          "be expected, with what limits it.  Checkpoint/restart, message log, parallel\n"
          "recovery and replicas are compared.  The costs are given, or measured in a run\n"
          "with an event log; every value of the output says which.  Times are seconds, or\n"
          "have a unit: 500ms, 90s, 2min, 1h, 1d, 10y (365.25 days).\n"
          "\n",
        out);
    ftk_pl_usage_job(out);
    ftk_pl_usage_choices(out);
    fputs("  --svg FILE          write a picture of the protocols to FILE, too\n"
          "  --json              as an object: inputs[] (name, value, from, samples; law;\n"
          "                      slowdown, speed, speed_from, replays, between),\n"
          "                      schemes[] (name, group, parity, memory, survives,\n"
          "                      survives_log, feasible, efficiency),\n"
          "                      protocols[] (name, size, feasible, efficiency, seconds,\n"
          "                      joules), plan (feasible, protocol, size, scheme, levels[]\n"
          "                      (level, share, period, every, young, daly), efficiency,\n"
          "                      limit, shares of the time: work, log, sets, redo, restart;\n"
          "                      failures, spares, spares_mean)\n"
          "\n"
          "Exit code:\n"
          "  0  the plan is printed\n"
          "  1  no plan makes progress, or a file cannot be read or written\n"
          "  2  usage\n",
        out);
}

int ftk_plan_main(int argc, char **argv)
{
    const struct pl_command command = { .usage = ftk_plan_usage };
    struct pl_ask a = { .json = false };
    ftk_tool_name("plan");
    int code = ftk_pl_parse(&command, argc, argv, &a);
    if (code != TOOL_OK)
        return code;
    struct pl_plan *plan = ftk_tool_alloc(sizeof *plan);
    ftk_pl_make(&a, plan);
    if (a.json)
        ftk_pl_json(plan, stdout);
    else
        ftk_pl_print(plan, stdout);
    if (a.svg)
        code = ftk_pl_svg(plan, a.svg);
    if (plan->best < 0)
        code = ftk_pl_no_progress(plan);
    free(plan);
    return ftk_tool_end(code);
}
