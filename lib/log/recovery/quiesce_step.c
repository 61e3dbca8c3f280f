/* The decisions of quiescing (see quiesce_step.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "quiesce_step.h"

enum ftk_quiesce_step ftk_quiesce_next(enum ftk_quiesce_step step, bool is_new)
{
    const bool skips = is_new && (step == FTK_QUIESCE_WATCH || step == FTK_QUIESCE_LOOK);
    return step + (skips ? 2 : 1);
}

bool ftk_quiesce_is_ahead(const struct ftk_job_state *a, const struct ftk_job_state *b)
{
    return a->lines > b->lines || (a->lines == b->lines && a->nouts > b->nouts);
}

bool ftk_quiesce_is_sure(int source, const int *dead, int n, int *first)
{
    int ndead = 0;
    *first = n - 1;
    for (int k = n - 1; k >= 0; k--)
        if (dead[k]) {
            *first = k;
            ndead++;
        }
    return source != MPI_ANY_SOURCE || ndead == 1;
}

bool ftk_quiesce_is_at_lost_line(
    enum ftk_line_state state, bool missed, uint64_t job_outs, uint64_t outs)
{
    return state == FTK_LINE_DRAINED && !missed && job_outs == outs;
}
