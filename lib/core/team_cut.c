/* Teams of ranks with few bytes between different teams (see team_cut.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The search has several starts: blocks of consecutive ranks, teams that grow from a unit, and what
 * the caller's function divides.  Sizes must be exact, so units are moved from parts that are too
 * large.  Then pairs of units are exchanged as long as an exchange makes the cut smaller
 * (Kernighan and Lin 1970, without their look-ahead).  The best result is shaken some times: some
 * pairs of units change places by chance, and exchanges follow.  The best result is taken.  So the
 * result is never worse than the blocks. */
#include "team_cut.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "ftk.h"

#define PAIRS_MAX ((size_t)1 << 28)     /* the number of edges must fit into an int */
#define LINKS_MAX ((size_t)1 << 25)     /* numbers: 256 MiB */
#define PASSES 100                      /* of exchanges; each makes the cut smaller */
#define LOOKS_MAX ((uint64_t)1 << 32)   /* at pairs of units: some seconds */
#define SHAKES 32                       /* of the best result */
#define SHAKE_LOOKS ((uint64_t)1 << 26) /* the search has had so many: no more shakes */
#define UNITS_PER_SHAKE 16              /* one of so many units changes its place */
#define WEIGHT_SUM (1.0 * (1 << 30))    /* so the sum of all weights fits into an int */

struct edge {
    int a, b;
    uint64_t bytes; /* both ways */
};

struct sized {
    int part;
    int have;
};

/* A search: all memory that it needs. */
struct search {
    struct ftk_team_graph g;
    uint64_t *links; /* [n][k] bytes between a unit and a part; NULL: too much memory */
    struct edge *edges;
    struct sized *sized; /* [k] */
    int *becomes, *have; /* [k] */
    uint64_t *to;        /* [k] bytes to each part, or [n] bytes of each unit to a part: all 0
                            between calls */
    int *part, *best;    /* [n] */
    uint64_t looks;
    uint64_t random;
    const atomic_bool *stop;
};

static bool is_stopped(const struct search *s)
{
    return s->stop && atomic_load(s->stop);
}

int ftk_team_cut_units(int n, int per_unit)
{
    return n / per_unit + (n % per_unit != 0);
}

int ftk_team_cut_teams(int n, int per_unit, int size)
{
    const int units = ftk_team_cut_units(n, per_unit);
    const int each = size > per_unit ? size / per_unit : 1;
    return units / each + (units % each != 0);
}

/* ---- the graph ----------------------------------------------------------------------- */

static int by_ends(const void *x, const void *y)
{
    const struct edge *a = x, *b = y;
    if (a->a != b->a)
        return a->a < b->a ? -1 : 1;
    return a->b < b->b ? -1 : a->b > b->b;
}

/* Make one edge for each direction of each pair of units; returns the number of edges. */
static size_t make_edges(const struct ftk_team_cut *c, struct edge *e)
{
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < c->npairs; i++) {
        int a = c->pairs[i].from / c->per_unit, b = c->pairs[i].to / c->per_unit;
        if (a == b)
            continue;
        e[n++] = (struct edge){ a, b, c->pairs[i].bytes };
        e[n++] = (struct edge){ b, a, c->pairs[i].bytes };
    }
    qsort(e, n, sizeof *e, by_ends);
    for (size_t i = 0; i < n; i++)
        if (kept > 0 && by_ends(&e[kept - 1], &e[i]) == 0)
            e[kept - 1].bytes += e[i].bytes;
        else
            e[kept++] = e[i];
    return kept;
}

static void end(struct search *s)
{
    free(s->g.start);
    free(s->g.next);
    free(s->g.weight);
    free(s->g.bytes);
    free(s->g.size);
    free(s->links);
    free(s->edges);
    free(s->sized);
    free(s->becomes);
    free(s->have);
    free(s->to);
    free(s->part);
    free(s->best);
}

static bool allocate(struct search *s, size_t npairs)
{
    struct ftk_team_graph *g = &s->g;
    const size_t n = (size_t)g->n, k = (size_t)g->k, edges = 2 * npairs + 1;
    g->start = calloc(n + 1, sizeof *g->start);
    g->next = malloc(edges * sizeof *g->next);
    g->weight = malloc(edges * sizeof *g->weight);
    g->bytes = malloc(edges * sizeof *g->bytes);
    g->size = calloc(k, sizeof *g->size);
    s->edges = malloc(edges * sizeof *s->edges);
    s->sized = malloc(k * sizeof *s->sized);
    s->becomes = malloc(k * sizeof *s->becomes);
    s->have = malloc(k * sizeof *s->have);
    s->to = calloc(n + k, sizeof *s->to);
    s->part = calloc(n, sizeof *s->part);
    s->best = calloc(n, sizeof *s->best);
    if (n <= LINKS_MAX / k)
        s->links = malloc(n * k * sizeof *s->links);
    return g->start && g->next && g->weight && g->bytes && g->size && s->edges && s->sized
           && s->becomes && s->have && s->to && s->part && s->best
           && (s->links || n > LINKS_MAX / k);
}

static void build(struct search *s, const struct ftk_team_cut *c)
{
    struct ftk_team_graph *g = &s->g;
    const size_t n = make_edges(c, s->edges);
    double sum = 1;
    for (size_t i = 0; i < n; i++)
        sum += (double)s->edges[i].bytes;
    for (size_t i = 0; i < n; i++) {
        const struct edge *e = &s->edges[i];
        g->start[e->a + 1]++;
        g->next[i] = e->b;
        g->bytes[i] = e->bytes;
        g->weight[i] = 1 + (int)((double)e->bytes / sum * WEIGHT_SUM);
    }
    for (int v = 0; v < g->n; v++)
        g->start[v + 1] += g->start[v];
    for (int p = 0; p < g->k; p++)
        g->size[p] = g->n / g->k + (p < g->n % g->k);
}

static uint64_t cut_of(const struct ftk_team_graph *g, const int *part)
{
    uint64_t sum = 0;
    for (int v = 0; v < g->n; v++)
        for (int i = g->start[v]; i < g->start[v + 1]; i++)
            sum += part[v] != part[g->next[i]] ? g->bytes[i] : 0;
    return sum; /* each pair of units counts twice */
}

/* ---- sizes that are exact ------------------------------------------------------------ */

static int by_size(const void *x, const void *y)
{
    const struct sized *a = x, *b = y;
    if (a->have != b->have)
        return a->have > b->have ? -1 : 1;
    return a->part < b->part ? -1 : a->part > b->part;
}

/* Number the parts by their sizes, larger ones first, as in g->size. */
static void number_by_size(struct search *s, int *part)
{
    const struct ftk_team_graph *g = &s->g;
    for (int p = 0; p < g->k; p++)
        s->sized[p] = (struct sized){ p, 0 };
    for (int v = 0; v < g->n; v++)
        s->sized[part[v]].have++;
    qsort(s->sized, (size_t)g->k, sizeof *s->sized, by_size);
    for (int p = 0; p < g->k; p++) {
        s->becomes[s->sized[p].part] = p;
        s->have[p] = s->sized[p].have;
    }
    for (int v = 0; v < g->n; v++)
        part[v] = s->becomes[part[v]];
}

/* Among the parts that lack units, find the part with most bytes to unit v.  *gain: bytes by
 * which the move makes the cut smaller.  room: any part that lacks units. */
static int best_place(struct search *s, const int *part, int v, int room, int64_t *gain)
{
    const struct ftk_team_graph *g = &s->g;
    uint64_t *to = s->to;
    int best = room;
    for (int i = g->start[v]; i < g->start[v + 1]; i++)
        to[part[g->next[i]]] += g->bytes[i];
    for (int i = g->start[v]; i < g->start[v + 1]; i++) {
        int p = part[g->next[i]];
        bool first = p < best;
        if (s->have[p] < g->size[p] && (to[p] > to[best] || (to[p] == to[best] && first)))
            best = p;
    }
    *gain = (int64_t)(to[best] - to[part[v]]);
    for (int i = g->start[v]; i < g->start[v + 1]; i++)
        to[part[g->next[i]]] = 0;
    return best;
}

static void balance(struct search *s, int *part)
{
    const struct ftk_team_graph *g = &s->g;
    number_by_size(s, part);
    for (;;) {
        int room = 0, place = 0;
        int mover = -1;
        int64_t most = 0;
        while (room < g->k && s->have[room] >= g->size[room])
            room++;
        if (room == g->k)
            break;
        for (int v = 0; v < g->n; v++) {
            int64_t gain;
            if (s->have[part[v]] <= g->size[part[v]])
                continue;
            int p = best_place(s, part, v, room, &gain);
            if (mover < 0 || gain > most) {
                mover = v;
                place = p;
                most = gain;
            }
        }
        if (mover < 0) /* not possible: if one part is too small, another is too large */
            break;
        s->have[part[mover]]--;
        s->have[place]++;
        part[mover] = place;
    }
}

/* ---- exchanges ----------------------------------------------------------------------- */

static uint64_t between(const struct ftk_team_graph *g, int v, int u)
{
    int low = g->start[v], high = g->start[v + 1];
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (g->next[mid] == u)
            return g->bytes[mid];
        if (g->next[mid] < u)
            low = mid + 1;
        else
            high = mid;
    }
    return 0;
}

static uint64_t *link_of(const struct search *s, int v, int p)
{
    return &s->links[(size_t)v * (size_t)s->g.k + (size_t)p];
}

static void leave_and_join(struct search *s, int *part, int v, int to)
{
    const struct ftk_team_graph *g = &s->g;
    for (int i = g->start[v]; i < g->start[v + 1]; i++) {
        *link_of(s, g->next[i], part[v]) -= g->bytes[i];
        *link_of(s, g->next[i], to) += g->bytes[i];
    }
    part[v] = to;
}

/* Bytes by which the cut becomes smaller when v and u change places. */
static int64_t gain_of(const struct search *s, const int *part, int v, int u)
{
    int a = part[v], b = part[u];
    return (int64_t)(*link_of(s, v, b) - *link_of(s, v, a))
           + (int64_t)(*link_of(s, u, a) - *link_of(s, u, b)) - 2 * (int64_t)between(&s->g, v, u);
}

/* Make the best exchange of v with another unit, if one makes the cut smaller. */
static bool exchange(struct search *s, int *part, int v)
{
    int64_t most = 0;
    int with = -1;
    for (int u = 0; u < s->g.n; u++) {
        if (part[u] == part[v] || *link_of(s, v, part[u]) == 0)
            continue; /* v has no bytes to that part; exchange(u) may still find the pair */
        int64_t gain = gain_of(s, part, v, u);
        if (gain > most) {
            most = gain;
            with = u;
        }
    }
    s->looks += (uint64_t)s->g.n;
    if (with < 0)
        return false;
    int a = part[v], b = part[with];
    leave_and_join(s, part, v, b);
    leave_and_join(s, part, with, a);
    return true;
}

static void improve(struct search *s, int *part)
{
    const struct ftk_team_graph *g = &s->g;
    bool better = s->links != NULL;
    if (!better)
        return;
    memset(s->links, 0, (size_t)g->n * (size_t)g->k * sizeof *s->links);
    for (int v = 0; v < g->n; v++)
        for (int i = g->start[v]; i < g->start[v + 1]; i++)
            *link_of(s, v, part[g->next[i]]) += g->bytes[i];
    for (int pass = 0; better && pass < PASSES; pass++) {
        better = false;
        for (int v = 0; v < g->n && s->looks < LOOKS_MAX && !is_stopped(s); v++)
            better = exchange(s, part, v) || better;
    }
}

/* ---- starts -------------------------------------------------------------------------- */

static void blocks(const struct ftk_team_graph *g, int *part)
{
    int p = 0;
    for (int v = 0, in = 0; v < g->n; v++, in++) {
        if (in == g->size[p]) {
            p++;
            in = 0;
        }
        part[v] = p;
    }
}

/* The unit without a part that has most bytes in to[], of equal ones the first; -1: none. */
static int heaviest(const struct ftk_team_graph *g, const int *part, const uint64_t *to)
{
    int best = -1;
    for (int v = 0; v < g->n; v++)
        if (part[v] < 0 && (best < 0 || to[v] > to[best]))
            best = v;
    return best;
}

/* A part begins with the unit that has most bytes to units without a part, and grows by the unit
 * that has most bytes to the part. */
static void grow(struct search *s, int *part)
{
    const struct ftk_team_graph *g = &s->g;
    uint64_t *to = s->to;
    for (int v = 0; v < g->n; v++)
        part[v] = -1;
    for (int p = 0; p < g->k && !is_stopped(s); p++) {
        for (int v = 0; v < g->n; v++)
            for (int i = g->start[v]; part[v] < 0 && i < g->start[v + 1]; i++)
                to[v] += part[g->next[i]] < 0 ? g->bytes[i] : 0;
        int v = heaviest(g, part, to);
        memset(to, 0, (size_t)g->n * sizeof *to);
        for (int have = 0; v >= 0 && have < g->size[p]; have++, v = heaviest(g, part, to)) {
            part[v] = p;
            for (int i = g->start[v]; i < g->start[v + 1]; i++)
                to[g->next[i]] += g->bytes[i];
        }
        memset(to, 0, (size_t)g->n * sizeof *to);
    }
}

/* ---- all of it ----------------------------------------------------------------------- */

static void take_if_better(struct search *s, uint64_t *least)
{
    improve(s, s->part);
    const uint64_t cut = cut_of(&s->g, s->part);
    if (cut < *least) {
        *least = cut;
        memcpy(s->best, s->part, (size_t)s->g.n * sizeof *s->part);
    }
}

static int below(struct search *s, int n)
{
    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    return (int)((s->random >> 33) % (uint64_t)n);
}

/* Make part from the best result: some units go to parts of neighbours, each in exchange for a unit
 * of that part. */
static void shake(struct search *s, int *part)
{
    const struct ftk_team_graph *g = &s->g;
    memcpy(part, s->best, (size_t)g->n * sizeof *part);
    for (int i = 0; i <= g->n / UNITS_PER_SHAKE; i++) {
        const int v = below(s, g->n), edges = g->start[v + 1] - g->start[v];
        if (edges == 0)
            continue;
        const int a = part[v], b = part[g->next[g->start[v] + below(s, edges)]];
        int u = below(s, g->n);
        while (part[u] != b)
            u = (u + 1) % g->n;
        part[v] = b;
        part[u] = a;
    }
}

static int find(struct search *s, const struct ftk_team_cut *c)
{
    const struct ftk_team_graph *g = &s->g;
    blocks(g, s->best);
    improve(s, s->best);
    uint64_t least = cut_of(g, s->best);
    /* with one part, parts of one unit, or no messages all results are equally good */
    if (g->k <= 1 || g->k >= g->n || g->start[g->n] == 0)
        return FTKIT_OK;
    grow(s, s->part);
    if (is_stopped(s))
        return FTKIT_OK; /* the caller looks, too */
    take_if_better(s, &least);
    for (int attempt = 0; attempt < c->attempts; attempt++) {
        int rc = c->divide(g, attempt, s->part);
        if (rc != FTKIT_OK)
            return rc;
        balance(s, s->part);
        take_if_better(s, &least);
    }
    for (int i = 0; i < SHAKES && s->links && s->looks < SHAKE_LOOKS && !is_stopped(s); i++) {
        shake(s, s->part);
        take_if_better(s, &least);
    }
    return FTKIT_OK;
}

int ftk_team_cut_make(const struct ftk_team_cut *c, int *team)
{
    struct search s = { .g = { .n = ftk_team_cut_units(c->n, c->per_unit), .k = c->k },
        .stop = c->stop };
    if (c->npairs > PAIRS_MAX)
        return ftk_fail(FTKIT_ERR_ARG, "the communication matrix has too many pairs");
    int rc = allocate(&s, c->npairs) ? FTKIT_OK : ftk_fail(FTKIT_ERR_NOMEM, "making teams");
    if (rc == FTKIT_OK) {
        build(&s, c);
        rc = find(&s, c);
        if (rc == FTKIT_OK && is_stopped(&s))
            rc = ftk_fail(FTKIT_ERR_STATE, "making teams: stopped");
    }
    for (int r = 0; rc == FTKIT_OK && r < c->n; r++)
        team[r] = s.best[r / c->per_unit];
    end(&s);
    return rc;
}

struct ftk_cut ftk_team_cut_between(const struct ftk_pair *pairs, size_t npairs, const int *team)
{
    struct ftk_cut cut = { 0, 0 };
    for (size_t i = 0; i < npairs; i++) {
        if (team[pairs[i].from] == team[pairs[i].to])
            continue;
        cut.messages += pairs[i].messages;
        cut.bytes += pairs[i].bytes;
    }
    return cut;
}
