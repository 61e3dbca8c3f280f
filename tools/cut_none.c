/* A build without METIS: `ftkit teams` assesses given teams, but cannot find new ones.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "cut.h"

int ftk_cut_divide(const struct ftk_graph *g, int attempt, int *part)
{
    (void)g;
    (void)attempt;
    (void)part;
    ftk_tool_say("this ftkit was built without METIS, which finds the teams; "
                 "`ftkit teams --file FILE` assesses teams that you have");
    return TOOL_FAIL;
}
