/* Dividing a graph by METIS.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * METIS (Karypis and Kumar, A fast and high quality multilevel scheme for partitioning irregular
 * graphs, SIAM J. Sci. Comput. 20, 1998) makes parts that are nearly balanced.  While METIS works
 * the process has handlers of METIS for SIGTERM and SIGABRT, so only the program ftkit uses METIS,
 * and no job. */
#include <metis.h>
#include <stdlib.h>

#include "cut.h"

/* The numbers of METIS (idx_t) have 32 or 64 bits, as METIS was built. */
static idx_t *copy(const int *from, size_t n)
{
    idx_t *to = ftk_tool_alloc((n + 1) * sizeof *to);
    for (size_t i = 0; i < n; i++)
        to[i] = from[i];
    return to;
}

#define TRIES 4 /* seeds for each of the two methods of METIS */

static int divide(const struct ftk_team_graph *g, int attempt, int *part)
{
    idx_t options[METIS_NOPTIONS];
    idx_t n = g->n, one = 1, k = g->k, edges = 0;
    size_t units = (size_t)g->n, ends = (size_t)g->start[g->n];
    idx_t *start = copy(g->start, units + 1), *next = copy(g->next, ends);
    idx_t *weight = copy(g->weight, ends), *load = ftk_tool_alloc(units * sizeof *load);
    idx_t *found = ftk_tool_alloc(units * sizeof *found);
    real_t *share = ftk_tool_alloc((size_t)g->k * sizeof *share);
    for (int p = 0; p < g->k; p++)
        share[p] = (real_t)g->size[p] / (real_t)g->n;
    for (int v = 0; v < g->n; v++)
        load[v] = 1;
    METIS_SetDefaultOptions(options);
    options[METIS_OPTION_SEED] = 1 + attempt / 2;
    options[METIS_OPTION_UFACTOR] = 1;
    int rc = attempt % 2 == 0 ? METIS_PartGraphRecursive(
                 &n, &one, start, next, load, NULL, weight, &k, share, NULL, options, &edges, found)
                              : METIS_PartGraphKway(&n, &one, start, next, load, NULL, weight, &k,
                                  share, NULL, options, &edges, found);
    bool good = rc == METIS_OK;
    for (int v = 0; good && v < g->n; v++) {
        good = found[v] >= 0 && found[v] < g->k;
        part[v] = (int)found[v];
    }
    free(start);
    free(next);
    free(weight);
    free(load);
    free(found);
    free(share);
    return good ? FTKIT_OK
                : ftk_fail(FTKIT_ERR_INTERNAL,
                    "METIS cannot divide this matrix; --file FILE assesses teams of your own");
}

const struct ftk_cut_divider ftk_cut_divider = { divide, 2 * TRIES };
