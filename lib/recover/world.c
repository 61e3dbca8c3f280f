/* A job before it runs: processes, nodes, and what is kept where (see world.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "world.h"

#include <stdlib.h>
#include <string.h>

#include "plan.h"
#include "store/map.h"

static int no_memory(void)
{
    return ftk_fail(FTKIT_ERR_NOMEM, "a job of this size");
}

/* ---- who is where -------------------------------------------------------------------- */

/* Count the spares of each node, and list the ranks of each node. */
static void list_nodes(struct ftk_world *w, const struct ftk_plan *p, const int *node_of)
{
    for (int i = 0; i < p->nprocs; i++)
        w->spares[node_of[i]] += p->rank_of[i] < 0;
    for (int r = 0; r < w->nranks; r++)
        w->first[w->node[r] + 1]++;
    for (int n = 0; n < w->nnodes; n++)
        w->first[n + 1] += w->first[n];
    int *next = w->rank + w->nranks; /* [nnodes], working space */
    memcpy(next, w->first, (size_t)w->nnodes * sizeof *next);
    for (int r = 0; r < w->nranks; r++)
        w->rank[next[w->node[r]]++] = r;
}

/* Give the ranks their processes, as an opening does. */
static int place_ranks(struct ftk_world *w, const int *node_of)
{
    int n = w->nranks + w->nspares;
    struct ftk_census c = { .n = n };
    const struct ftk_plan_rules rules = {
        .nranks = w->nranks, .map = w->cfg->map, .scheme = ftk_scheme_of(FTK_SCHEME_NONE)
    };
    struct ftk_plan p;
    struct ftk_census_entry *all = calloc((size_t)n, sizeof *all);
    if (!all)
        return no_memory();
    for (int i = 0; i < n; i++)
        all[i] = (struct ftk_census_entry){
            .rank = -1, .nranks = w->nranks, .node = node_of[i], .where = FTK_IN_OPEN
        };
    c.entries = all;
    int rc = ftk_plan_make(&c, &rules, &p);
    free(all);
    if (rc != FTKIT_OK)
        return rc;
    memcpy(w->node, p.domain, (size_t)w->nranks * sizeof *w->node);
    list_nodes(w, &p, node_of);
    ftk_plan_free(&p);
    return FTKIT_OK;
}

/* ---- what is kept where -------------------------------------------------------------- */

/* List the members of each group. */
static int list_groups(const struct ftk_world *w, struct ftk_kept *k)
{
    size_t n = (size_t)w->nranks, groups = (size_t)k->ngroups;
    k->first = calloc(groups + 1, sizeof *k->first);
    k->member = malloc((n + groups) * sizeof *k->member);
    if (!k->first || !k->member)
        return no_memory();
    for (int r = 0; r < w->nranks; r++)
        k->first[k->group[r] + 1]++;
    for (int g = 0; g < k->ngroups; g++)
        k->first[g + 1] += k->first[g];
    int *next = k->member + n; /* working space */
    memcpy(next, k->first, groups * sizeof *next);
    for (int r = 0; r < w->nranks; r++)
        k->member[next[k->group[r]]++] = r;
    return FTKIT_OK;
}

static int make_level(
    const struct ftk_world *w, int scheme, int place, int group, int parity, struct ftk_kept *k)
{
    const struct ftk_scheme *s = ftk_scheme_of(scheme);
    size_t n = (size_t)w->nranks;
    k->on = ftk_scheme_keeps(scheme);
    k->place = place;
    k->outlives = k->on && ftk_place_is(place, FTK_OUTLIVES_PROCESS);
    k->copies = s->copies;
    k->parities = s->parities == FTK_PARITIES_ASKED ? parity : s->parities;
    if (k->parities == 0) {
        k->holder = malloc(((size_t)k->copies * n + 1) * sizeof *k->holder);
        if (!k->holder)
            return no_memory();
        return ftk_scheme_place(s, w->cfg->map, w->nranks, w->node, k->holder);
    }
    k->group = malloc(n * sizeof *k->group);
    if (!k->group)
        return no_memory();
    k->ngroups = ftk_map_groups(group, w->nranks, w->node, k->group);
    return k->ngroups < 0 ? k->ngroups : list_groups(w, k);
}

int ftk_world_make(const struct ftk_config *cfg, enum ftk_repairs repairs, int nranks, int nspares,
    const int *node_of, int nnodes, struct ftk_world *w)
{
    size_t n = (size_t)nranks, nodes = (size_t)nnodes;
    *w = (struct ftk_world){
        .cfg = cfg, .repairs = repairs, .nranks = nranks, .nspares = nspares, .nnodes = nnodes
    };
    w->node = calloc(n, sizeof *w->node);
    w->spares = calloc(nodes, sizeof *w->spares);
    w->first = calloc(nodes + 1, sizeof *w->first);
    w->rank = calloc(n + nodes, sizeof *w->rank);
    if (!w->node || !w->spares || !w->first || !w->rank)
        return no_memory();
    int rc = place_ranks(w, node_of);
    if (rc == FTKIT_OK)
        rc = make_level(
            w, cfg->scheme, cfg->place, cfg->group, cfg->parity, &w->level[FTK_LEVEL_MEMORY]);
    if (rc == FTKIT_OK)
        rc = make_level(w, cfg->local_scheme, cfg->local_place, cfg->local_group, cfg->local_parity,
            &w->level[FTK_LEVEL_LOCAL]);
    return rc;
}

void ftk_world_free(struct ftk_world *w)
{
    for (int i = 0; i < FTK_LEVELS; i++) {
        free(w->level[i].holder);
        free(w->level[i].group);
        free(w->level[i].first);
        free(w->level[i].member);
    }
    free(w->node);
    free(w->spares);
    free(w->first);
    free(w->rank);
    free(w->scratch);
    *w = (struct ftk_world){ .nranks = 0 };
}

/* ---- bytes --------------------------------------------------------------------------- */

/* Bytes of the parity that each member of a group of n keeps. */
static uint64_t parity_bytes(int n, int parities, uint64_t head, uint64_t data)
{
    struct ftk_group g = { .n = (uint32_t)n, .m = (uint32_t)ftk_group_parities(n, parities) };
    if (g.m == 0)
        return 0;
    for (int i = 0; i < n; i++) {
        g.len[FTK_CODED_HEAD][i] = head;
        g.len[FTK_CODED_DATA][i] = data;
    }
    return ftk_parity_seg_bytes(&g);
}

uint64_t ftk_world_bytes(const struct ftk_world *w, int level, uint64_t data, uint64_t *of)
{
    const struct ftk_kept *k = &w->level[level];
    uint64_t head = ftk_seg_head_bytes(1, (size_t)data, FTK_SEG_BLOCK);
    for (int r = 0; r < w->nranks; r++)
        of[r] = head + data;
    for (int i = 0; k->holder && i < k->copies * w->nranks; i++)
        if (k->holder[i] >= 0)
            of[k->holder[i]] += head + data;
    for (int g = 0; g < k->ngroups; g++) {
        int n = k->first[g + 1] - k->first[g];
        uint64_t parity = parity_bytes(n, k->parities, head, data);
        for (int i = k->first[g]; i < k->first[g + 1]; i++)
            of[k->member[i]] += parity;
    }
    return head + data;
}
