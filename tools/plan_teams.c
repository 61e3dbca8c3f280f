/* ftkit plan: sizes of teams, and the acquaintances of a node, from a communication matrix.
 *
 * The log copies the messages between teams.  So the slowdown of one size is taken to the others in
 * proportion to the bytes between teams.  The teams are those of `ftkit teams`, which keep the
 * ranks of a node together.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "cut.h"
#include "plan.h"

/* Set t->between, the share of all bytes that goes from team to team.  An exit code. */
static int share_between(const struct ftk_matrix *m, int nodes, struct pl_team *t, int *team)
{
    int code = ftk_cut_make(m, m->n / nodes, (nodes + t->nodes - 1) / t->nodes, team);
    if (code != TOOL_OK)
        return code;
    t->between = m->bytes > 0 ? (double)ftk_matrix_cut(m, team).bytes / (double)m->bytes : 0;
    return TOOL_OK;
}

/* Teams of 1, 2, 4 and so on nodes, as far as there are two teams; known comes first. */
static void list_sizes(struct pl_ask *a, struct pl_team known)
{
    int nodes = (int)a->nodes.v;
    a->nteams = 0;
    a->team[a->nteams++] = known;
    for (int n = 1; a->nteams < PL_TEAMS && n <= (nodes > 1 ? nodes / 2 : 1); n *= 2)
        if (n != known.nodes)
            a->team[a->nteams++] = (struct pl_team){
                .nodes = n, .speed = known.speed, .from = PL_ASSUMED, .speed_from = known.speed_from
            };
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The nodes that a node exchanges messages with: their mean number, rounded up. */
static double acquaintances(const struct ftk_matrix *m, int nodes)
{
    uint64_t *link = ftk_tool_alloc((2 * m->npairs + 1) * sizeof *link), n = (uint64_t)nodes;
    size_t links = 0, distinct = 0;
    int per_node = m->n / nodes;
    for (size_t i = 0; i < m->npairs; i++) {
        uint64_t a = (uint64_t)(m->pairs[i].from / per_node);
        uint64_t b = (uint64_t)(m->pairs[i].to / per_node);
        if (a == b)
            continue;
        link[links++] = a * n + b;
        link[links++] = b * n + a;
    }
    qsort(link, links, sizeof *link, by_value);
    for (size_t i = 0; i < links; i++)
        distinct += i == 0 || link[i] != link[i - 1];
    free(link);
    return ceil((double)distinct / nodes);
}

static int choose_teams(struct pl_ask *a, const struct ftk_matrix *m)
{
    struct pl_team known = a->team[0];
    int nodes = (int)a->nodes.v;
    if (m->n % nodes != 0) {
        ftk_tool_say("%s: the matrix has %d ranks, which %d nodes cannot share evenly",
            ftk_tool_why(a->matrix), m->n, nodes);
        return TOOL_FAIL;
    }
    int *team = ftk_tool_alloc((size_t)m->n * sizeof *team);
    int code = share_between(m, nodes, &known, team);
    list_sizes(a, known);
    for (int i = 1; code == TOOL_OK && i < a->nteams; i++) {
        struct pl_team *t = &a->team[i];
        code = share_between(m, nodes, t, team);
        double times = known.between > 0 ? t->between / known.between : 1;
        t->slowdown = 1 + (known.slowdown - 1) * times;
    }
    free(team);
    a->ranks_per_node = m->n / nodes;
    if (a->acquaintances.from == PL_ASSUMED)
        a->acquaintances = (struct pl_value){ acquaintances(m, nodes), PL_MEASURED, 1 };
    return code;
}

int ftk_pl_teams(struct pl_ask *ask)
{
    struct ftk_matrix m;
    int code = ftk_matrix_load(ask->matrix, &m);
    if (code != TOOL_OK)
        return code;
    code = choose_teams(ask, &m);
    ftk_matrix_free(&m);
    return code;
}
