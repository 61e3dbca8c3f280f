/* The teams of `ftkit teams` and `ftkit plan`.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "cut.h"

#include <stdlib.h>

int ftk_cut_make(const struct ftk_matrix *m, int per_unit, int k, int *team)
{
    const struct ftk_team_cut c = { .n = m->n,
        .per_unit = per_unit,
        .k = k,
        .pairs = m->pairs,
        .npairs = m->npairs,
        .divide = ftk_cut_divider.divide,
        .attempts = ftk_cut_divider.attempts };
    if (ftk_team_cut_make(&c, team) == FTKIT_OK)
        return TOOL_OK;
    ftk_tool_say("%s", ftk_tool_why(ftk_detail_text()));
    return TOOL_FAIL;
}

static int descending(const void *x, const void *y)
{
    const int *a = x, *b = y;
    return *a > *b ? -1 : *a < *b;
}

void ftk_cut_blocks(int n, const int *team, int *block)
{
    int *size = ftk_tool_alloc((size_t)n * sizeof *size);
    for (int r = 0; r < n; r++)
        size[team[r]]++;
    qsort(size, (size_t)n, sizeof *size, descending);
    for (int r = 0, b = 0, in = 0; r < n; r++, in++) {
        if (in == size[b]) {
            b++;
            in = 0;
        }
        block[r] = b;
    }
    free(size);
}
