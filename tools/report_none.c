/* ftkit report, and --events of ftkit plan, in a build without jansson (see report.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "plan.h"
#include "report.h"

void ftk_report_usage(FILE *out)
{
    fputs("usage: ftkit report [DIR|FILE]...\n"
          "\n"
          "This build has no ftkit report: jansson was missing when ftkit was built.\n"
          "\n"
          "Exit code: 1.\n",
        out);
}

int ftk_report_main(int argc, char **argv)
{
    (void)argc;
    ftk_tool_name(argv[0]);
    ftk_tool_say("this build has no ftkit report: jansson was missing (make deps)");
    return TOOL_FAIL;
}

int ftk_pl_measure(struct pl_ask *ask)
{
    ftk_tool_say("--events %s: this build reads no event log: jansson was missing (make deps)",
        ftk_tool_why(ask->events));
    return TOOL_FAIL;
}
