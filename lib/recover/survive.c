/* What a loss of processes or nodes costs (see world.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "store/map.h"
#include "store/parity.h"
#include "world.h"

/* The ranks whose data are gone, as a list and as marks. */
struct gone {
    int n;
    int *rank; /* [nranks] */
    int *mark; /* [nranks] `turn` of the loss that the rank is gone in */
};

struct ftk_scratch {
    int turn;
    struct gone processes; /* ranks that have lost their process */
    struct gone nodes;     /* ranks on nodes where nothing can be read any more */
    int *left;             /* [nnodes] processes that are alive, for nodes of this turn */
    int *seen;             /* [nnodes] turn of left */
};

static struct ftk_scratch *scratch_of(struct ftk_world *w)
{
    size_t n = (size_t)w->nranks, nodes = (size_t)w->nnodes;
    if (w->scratch)
        return w->scratch;
    struct ftk_scratch *s = calloc(1, sizeof *s + (4 * n + 2 * nodes) * sizeof(int));
    if (!s)
        return NULL;
    int *all = (int *)(s + 1);
    s->processes = (struct gone){ .rank = all, .mark = all + n };
    s->nodes = (struct gone){ .rank = all + 2 * n, .mark = all + 3 * n };
    s->left = all + 4 * n;
    s->seen = s->left + nodes;
    w->scratch = s;
    return s;
}

static void add(struct gone *g, int rank, int turn)
{
    g->mark[rank] = turn;
    g->rank[g->n++] = rank;
}

static void add_node(const struct ftk_world *w, struct gone *g, int node, int turn)
{
    for (int i = w->first[node]; i < w->first[node + 1]; i++)
        add(g, w->rank[i], turn);
}

/* ---- one level ----------------------------------------------------------------------- */

static bool has_copy(
    const struct ftk_world *w, const struct ftk_kept *k, const struct gone *g, int turn, int rank)
{
    for (int i = rank; i < k->copies * w->nranks; i += w->nranks)
        if (k->holder[i] >= 0 && g->mark[k->holder[i]] != turn)
            return true;
    return false;
}

/* Whether the group of a rank makes up for all its members that are gone. */
static bool group_makes_up(const struct ftk_kept *k, const struct gone *g, int turn, int rank)
{
    int from = k->first[k->group[rank]], n = k->first[k->group[rank] + 1] - from;
    uint32_t lost = 0;
    for (int i = 0; i < n; i++)
        lost |= (uint32_t)(g->mark[k->member[from + i]] == turn) << i;
    return ftk_code_survives(n, ftk_group_parities(n, k->parities), lost, lost);
}

/* Whether a level has the segments of all ranks without those that are gone. */
static bool holds(
    const struct ftk_world *w, const struct ftk_kept *k, const struct gone *g, int turn)
{
    if (!k->on)
        return false;
    for (int i = 0; i < g->n; i++)
        if (k->group ? !group_makes_up(k, g, turn, g->rank[i])
                     : !has_copy(w, k, g, turn, g->rank[i]))
            return false;
    return true;
}

/* ---- one loss ------------------------------------------------------------------------ */

/* How the job goes on: relaunched, with all ranks, or with fewer. */
enum way { RELAUNCH, WHOLE, FEWER };

/* The rules of supply() and ends_here() in plan.c.  A program that can go on with fewer ranks is
 * assumed to have the callback for it. */
static enum way way_of(const struct ftk_world *w, int loss, int lost, int spares)
{
    if (ftk_world_ends(w, loss) || lost == w->nranks)
        return RELAUNCH;
    if (lost <= spares)
        return WHOLE;
    for (int i = 0; i < w->cfg->nsupply; i++) {
        if (w->cfg->supply[i] == FTK_SUPPLY_SPAWN)
            return WHOLE;
        if (w->cfg->supply[i] == FTK_SUPPLY_SHRINK)
            return FEWER;
        if (w->cfg->supply[i] == FTK_SUPPLY_END)
            return RELAUNCH;
    }
    return RELAUNCH;
}

/* List the ranks that have lost their process; return the number of spares that are left. */
static int lose(struct ftk_world *w, int loss, const int *unit, int k)
{
    struct ftk_scratch *s = w->scratch;
    int spares = w->nspares;
    s->turn++;
    s->processes.n = s->nodes.n = 0;
    for (int i = 0; i < k; i++) {
        if (loss == FTK_LOSS_PROCESSES) {
            add(&s->processes, unit[i], s->turn);
            continue;
        }
        add_node(w, &s->processes, unit[i], s->turn);
        spares -= w->spares[unit[i]];
    }
    return spares;
}

/* List the ranks whose slots no process of the running job can read: those on nodes where no
 * process is left. */
static void find_dead_nodes(struct ftk_world *w, int loss)
{
    struct ftk_scratch *s = w->scratch;
    for (int i = 0; i < s->processes.n; i++) {
        int node = w->node[s->processes.rank[i]];
        if (s->seen[node] != s->turn) {
            int spares = loss == FTK_LOSS_PROCESSES ? w->spares[node] : 0;
            s->seen[node] = s->turn;
            s->left[node] = w->first[node + 1] - w->first[node] + spares;
        }
        if (--s->left[node] == 0)
            add_node(w, &s->nodes, node, s->turn);
    }
}

/* After a relaunch: slots are gone with their nodes; what was in a process is gone. */
static struct ftk_fate relaunched(struct ftk_world *w, int loss)
{
    static const struct gone nothing;
    const struct ftk_scratch *s = w->scratch;
    const struct gone *g = loss == FTK_LOSS_NODES ? &s->processes : &nothing;
    for (int l = 0; l < FTK_LEVELS; l++)
        if (w->level[l].outlives && holds(w, &w->level[l], g, s->turn))
            return (struct ftk_fate){ l == FTK_LEVEL_MEMORY ? FTK_SOURCE_MEMORY : FTK_SOURCE_LOCAL,
                false };
    return (struct ftk_fate){ w->cfg->h5_enabled ? FTK_SOURCE_FILES : FTK_SOURCE_NONE, false };
}

struct ftk_fate ftk_world_fate(struct ftk_world *w, int loss, const int *unit, int k)
{
    struct ftk_scratch *s = scratch_of(w);
    const struct ftk_kept *memory = &w->level[FTK_LEVEL_MEMORY],
                          *local = &w->level[FTK_LEVEL_LOCAL];
    if (!s)
        return (struct ftk_fate){ FTK_SOURCE_NONE, false };
    int spares = lose(w, loss, unit, k);
    enum way way = way_of(w, loss, s->processes.n, spares);
    if (way != RELAUNCH && holds(w, memory, &s->processes, s->turn))
        return (struct ftk_fate){ FTK_SOURCE_MEMORY, true };
    bool second = way == WHOLE && local->on; /* serves only as many ranks as wrote the set */
    if (way == RELAUNCH || (!w->cfg->h5_enabled && !second))
        return relaunched(w, loss); /* also by the plan that finds nothing in the job */
    /* the older set of another source: with the message log it needs a new start of the job */
    bool in_job = !w->cfg->log_enabled;
    find_dead_nodes(w, loss);
    if (way == WHOLE && memory->outlives && holds(w, memory, &s->nodes, s->turn))
        return (struct ftk_fate){ FTK_SOURCE_MEMORY, true };
    if (second && holds(w, local, local->outlives ? &s->nodes : &s->processes, s->turn))
        return (struct ftk_fate){ FTK_SOURCE_LOCAL, in_job };
    if (w->cfg->h5_enabled)
        return (struct ftk_fate){ FTK_SOURCE_FILES, in_job };
    return relaunched(w, loss); /* the job has ended with FTKIT_ERR_LOST */
}

/* ---- all losses ---------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *seed) /* splitmix64 */
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Draw k different units of n. */
static void draw(uint64_t *seed, int n, int k, int *unit)
{
    for (int i = 0; i < k;) {
        unit[i] = (int)(next_random(seed) % (uint64_t)n);
        bool again = false;
        for (int j = 0; j < i; j++)
            again = again || unit[j] == unit[i];
        i += !again;
    }
}

/* The next k of n units in lexical order; false: there is none. */
static bool next_choice(int n, int k, int *unit)
{
    int i = k - 1;
    while (i >= 0 && unit[i] == n - k + i)
        i--;
    if (i < 0)
        return false;
    unit[i]++;
    for (int j = i + 1; j < k; j++)
        unit[j] = unit[j - 1] + 1;
    return true;
}

static void note(struct ftk_world *w, struct ftk_survival *s, const int *unit, int k)
{
    struct ftk_fate f = ftk_world_fate(w, s->loss, unit, k);
    s->looked++;
    s->source[f.source]++;
    s->in_job += f.in_job;
}

/* Whether nothing in memory outlives the job, which ends: one loss is like any other. */
static bool is_always_the_same(const struct ftk_world *w, int loss)
{
    return ftk_world_ends(w, loss) && !w->level[FTK_LEVEL_MEMORY].outlives
           && !w->level[FTK_LEVEL_LOCAL].outlives;
}

void ftk_world_count(
    struct ftk_world *w, int loss, int k, uint64_t most, uint64_t seed, struct ftk_survival *s)
{
    enum { LEAST = 1000 };
    int n = ftk_world_units(w, loss), unit[FTK_LOSS_MOST] = { 0, 1, 2 };
    double ranks = (double)k * w->nranks / n; /* of one loss */
    *s = (struct ftk_survival){ .loss = loss, .k = k, .cases = 1 };
    assert(k >= 1 && k <= n && k <= FTK_LOSS_MOST);
    for (int i = 0; i < k; i++)
        s->cases *= (double)(n - i) / (i + 1);
    s->exact = k == 1 || s->cases * fmax(ranks, 1) <= (double)most;
    if (!s->exact && is_always_the_same(w, loss)) {
        s->exact = true;
        note(w, s, unit, k);
        return;
    }
    if (s->exact) {
        do
            note(w, s, unit, k);
        while (next_choice(n, k, unit));
        return;
    }
    uint64_t times = (uint64_t)fmax((double)most / fmax(ranks, 1), LEAST);
    for (uint64_t i = 0; i < times; i++) {
        draw(&seed, n, k, unit);
        note(w, s, unit, k);
    }
}

double ftk_survival_error(const struct ftk_survival *s, uint64_t hits)
{
    const double z = 3.29; /* 99.9 % of a normal distribution: a report has several shares */
    if (s->exact || s->looked == 0)
        return 0;
    double n = (double)s->looked, p = (double)hits / n;
    return z * z / (2 * n) + z * sqrt(p * (1 - p) / n + z * z / (4 * n * n));
}
