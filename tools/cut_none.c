/* A build without METIS: teams that are given can be judged, new ones cannot be found.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "cut.h"

int ftk_cut_divide(const struct ftk_graph *g, int attempt, int *part)
{
    (void)g;
    (void)attempt;
    (void)part;
    ftk_tool_say("this ftkit was built without METIS, which finds the teams; "
                 "--file FILE judges teams that you have");
    return TOOL_FAIL;
}
