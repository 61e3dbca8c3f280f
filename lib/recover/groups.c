/* The part of the plan about parity: which segments of the line can be rebuilt.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "plan_facts.h"

/* Index of a rank in a group; -1: the rank is not a member. */
static int number_of(const struct ftk_plan_group *g, int rank)
{
    for (int i = 0; i < g->n; i++)
        if (g->rank[i] == rank)
            return i;
    return -1;
}

/* Whether s is a parity of the line whose group makes sense. */
static bool is_sound(const struct ftk_census_seg *s, const struct ftk_plan *p)
{
    if (!ftk_plan_has(p, s) || s->nranks != p->line_nranks || s->n < 2 || s->n > FTK_GROUP_MAX
        || s->m < 1 || s->m >= s->n)
        return false;
    for (int i = 0; i < s->n; i++)
        if (s->members[i] < 0 || s->members[i] >= p->line_nranks)
            return false;
    return true;
}

/* Return the group of a parity.  Its first parity makes the group.  group [line_nranks]: the index
 * of the group whose first member is that rank; -1: none. */
static struct ftk_plan_group *group_of(
    struct ftk_plan *p, int *group, const struct ftk_census_seg *s)
{
    int first = (int)s->members[0];
    if (group[first] >= 0)
        return &p->groups[group[first]];
    group[first] = p->ngroups;
    struct ftk_plan_group *g = &p->groups[p->ngroups++];
    g->n = s->n;
    g->m = s->m;
    for (int i = 0; i < FTK_GROUP_MAX; i++) {
        g->data_at[i] = g->parity_at[i] = g->data_to[i] = g->parity_to[i] = -1;
        if (i >= s->n)
            continue;
        g->rank[i] = (int)s->members[i];
        g->data_at[i] = p->source[g->rank[i]];
    }
    return g;
}

/* Collect the groups of which a parity remains.  The process of a parity is the rank's own process
 * before others. */
static void collect(const struct ftk_census *c, struct ftk_plan *p, int *group)
{
    for (int i = 0; i < c->n; i++) {
        const struct ftk_census_entry *e = &c->entries[i];
        for (int k = 0; k < e->nsegs && p->rank_of[i] >= 0; k++) {
            if (!is_sound(&e->segs[k], p))
                continue;
            struct ftk_plan_group *g = group_of(p, group, &e->segs[k]);
            int j = number_of(g, e->segs[k].rank);
            if (j >= 0 && (g->parity_at[j] < 0 || e->rank == e->segs[k].rank))
                g->parity_at[j] = i;
        }
    }
}

/* Return the process that gets the rebuilt segment of a member: the rank's own process.  After a
 * shrink: a process that has another segment of the group, until the line is redistributed. */
static int home_of(const struct ftk_plan *p, const struct ftk_plan_group *g, int member)
{
    if (p->line_nranks == p->nranks)
        return p->proc_of[g->rank[member]];
    for (int i = 0; i < g->n; i++) {
        int at = g->data_at[(member + i) % g->n];
        if (at >= 0)
            return at;
    }
    return -1;
}

/* Plan the rebuilding of a group.  False: nothing is lost.  If too much is lost to rebuild it, a
 * lost segment comes from a sibling, or the line is not whole. */
static bool plan_group(struct ftk_plan *p, struct ftk_plan_group *g)
{
    uint32_t data = 0, parity = 0;
    for (int i = 0; i < g->n; i++) {
        data |= (uint32_t)(g->data_at[i] < 0) << i;
        parity |= (uint32_t)(g->parity_at[i] < 0) << i;
    }
    if ((data | parity) == 0)
        return false;
    g->anew = !ftk_code_survives(g->n, g->m, data, parity);
    for (int i = 0; !g->anew && i < g->n; i++) {
        int home = home_of(p, g, i);
        g->data_to[i] = data >> i & 1 ? home : -1;
        g->parity_to[i] = parity >> i & 1 ? home : -1;
    }
    for (int i = 0; i < g->n; i++)
        if (g->data_to[i] >= 0)
            p->source[g->rank[i]] = g->data_to[i];
    return true;
}

int ftk_plan_groups(const struct ftk_census *c, struct ftk_plan *p)
{
    size_t n = (size_t)p->line_nranks;
    int kept = 0;
    int *group = malloc((n + 1) * sizeof *group);
    p->groups = calloc(n / 2 + 1, sizeof *p->groups);
    if (!group || !p->groups) {
        free(group);
        return ftk_fail(FTKIT_ERR_NOMEM, "plan");
    }
    memset(group, 0xff, (n + 1) * sizeof *group);
    collect(c, p, group);
    for (int i = 0; i < p->ngroups; i++)
        if (plan_group(p, &p->groups[i]))
            p->groups[kept++] = p->groups[i];
    p->ngroups = kept;
    free(group);
    return FTKIT_OK;
}
