/* Two groups of MPI_COMM_WORLD and the intercommunicator between them.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef INTERGROUPS_H
#define INTERGROUPS_H

#include "conform.h"

#define MOST 16

/* side[r] is the group of rank r of the world; mine and theirs are lists of world ranks.
 */
struct groups {
    int side[MOST];
    int mine[MOST], theirs[MOST];
    int nmine, ntheirs, rank;
    MPI_Comm local, inter;
};

/* Ranks below cut are one group; odd: ranks of odd number are one. */
static inline void groups_make(struct groups *g, int cut, int odd)
{
    g->nmine = g->ntheirs = 0;
    for (int r = 0; r < n; r++)
        g->side[r] = odd ? r % 2 : r >= cut;
    for (int r = 0; r < n; r++) {
        if (r == me)
            g->rank = g->nmine;
        if (g->side[r] == g->side[me])
            g->mine[g->nmine++] = r;
        else
            g->theirs[g->ntheirs++] = r;
    }
    OK(MPI_Comm_split(MPI_COMM_WORLD, g->side[me], me, &g->local));
    /* the leaders are the last rank of the one group and the first of the other */
    int leader = g->side[me] == 0 ? g->nmine - 1 : 0;
    int other = g->theirs[g->side[me] == 0 ? 0 : g->ntheirs - 1];
    OK(MPI_Intercomm_create(g->local, leader, MPI_COMM_WORLD, other, 12, &g->inter));
}

/* Whether Open MPI itself is left out of what it gets wrong. */
static inline int over_log(void)
{
    const char *on = getenv("FTKIT_LOG_ENABLED");
    return on && strcmp(on, "true") == 0;
}

static inline void groups_free(struct groups *g)
{
    OK(MPI_Comm_free(&g->inter));
    TRUE(g->inter == MPI_COMM_NULL);
    OK(MPI_Comm_free(&g->local));
}

/* Every way to divide the world that there is a test for: 1+1, 1+3, 2+2, 3+2 in order,
 * and by turns. */
static inline void groups_each(void (*test)(struct groups *))
{
    struct groups g;
    const int cuts[] = { 1, 2, 3 };
    for (int i = 0; i < 3; i++) {
        if (cuts[i] >= n)
            continue;
        groups_make(&g, cuts[i], 0);
        test(&g);
        groups_free(&g);
    }
    groups_make(&g, 0, 1);
    test(&g);
    groups_free(&g);
}

#endif
