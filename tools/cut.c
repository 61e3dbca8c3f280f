/* Make teams with few bytes between different teams.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * METIS (Karypis and Kumar, A fast and high quality multilevel scheme for partitioning
 * irregular graphs, SIAM J. Sci. Comput. 20, 1998) makes parts that are nearly balanced.
 * Here sizes must be exact.  So units are moved from parts that are too large.  Then pairs of
 * units are exchanged as long as an exchange makes the cut smaller (Kernighan and Lin 1970,
 * without their look-ahead).  Blocks of consecutive ranks are one more start of the search, so
 * the result is never worse than these blocks. */
#include <stdlib.h>
#include <string.h>

#include "cut.h"

#define TRIES 4                      /* seeds for each of the two methods of METIS */
#define LINKS_MAX ((size_t)1 << 25)  /* numbers: 256 MiB */
#define PASSES 100                   /* of exchanges; each makes the cut smaller */
#define WEIGHT_SUM (1.0 * (1 << 30)) /* so the sum of all weights fits into an idx_t */

struct edge {
    int a, b;
    uint64_t bytes; /* both ways */
};

int ftk_cut_units(int n, int per_unit)
{
    return (n + per_unit - 1) / per_unit;
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
static size_t make_edges(const struct ftk_matrix *m, int per_unit, struct edge *e)
{
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < m->npairs; i++) {
        int a = m->pairs[i].from / per_unit, b = m->pairs[i].to / per_unit;
        if (a == b)
            continue;
        e[n++] = (struct edge){ a, b, m->pairs[i].bytes };
        e[n++] = (struct edge){ b, a, m->pairs[i].bytes };
    }
    qsort(e, n, sizeof *e, by_ends);
    for (size_t i = 0; i < n; i++)
        if (kept > 0 && by_ends(&e[kept - 1], &e[i]) == 0)
            e[kept - 1].bytes += e[i].bytes;
        else
            e[kept++] = e[i];
    return kept;
}

static void build(struct ftk_graph *g, const struct ftk_matrix *m, int per_unit, int k)
{
    struct edge *e = ftk_tool_alloc((2 * m->npairs + 1) * sizeof *e);
    size_t n = make_edges(m, per_unit, e);
    double sum = 1;
    g->n = ftk_cut_units(m->n, per_unit);
    g->k = k;
    g->start = ftk_tool_alloc(((size_t)g->n + 1) * sizeof *g->start);
    g->next = ftk_tool_alloc((n + 1) * sizeof *g->next);
    g->weight = ftk_tool_alloc((n + 1) * sizeof *g->weight);
    g->bytes = ftk_tool_alloc((n + 1) * sizeof *g->bytes);
    g->load = ftk_tool_alloc((size_t)g->n * sizeof *g->load);
    g->size = ftk_tool_alloc((size_t)k * sizeof *g->size);
    for (size_t i = 0; i < n; i++)
        sum += (double)e[i].bytes;
    for (size_t i = 0; i < n; i++) {
        g->start[e[i].a + 1]++;
        g->next[i] = e[i].b;
        g->bytes[i] = e[i].bytes;
        g->weight[i] = 1 + (int)((double)e[i].bytes / sum * WEIGHT_SUM);
    }
    for (int v = 0; v < g->n; v++) {
        g->start[v + 1] += g->start[v];
        g->load[v] = 1;
    }
    for (int p = 0; p < k; p++)
        g->size[p] = g->n / k + (p < g->n % k);
    if ((size_t)g->n <= LINKS_MAX / (size_t)k)
        g->links = ftk_tool_alloc((size_t)g->n * (size_t)k * sizeof *g->links);
    free(e);
}

static void free_graph(struct ftk_graph *g)
{
    free(g->start);
    free(g->next);
    free(g->weight);
    free(g->bytes);
    free(g->load);
    free(g->size);
    free(g->links);
}

static uint64_t cut_of(const struct ftk_graph *g, const int *part)
{
    uint64_t sum = 0;
    for (int v = 0; v < g->n; v++)
        for (int i = g->start[v]; i < g->start[v + 1]; i++)
            sum += part[v] != part[g->next[i]] ? g->bytes[i] : 0;
    return sum; /* each pair of units counts twice */
}

/* ---- sizes that are exact ------------------------------------------------------------ */

struct sized {
    int part;
    int have;
};

static int by_size(const void *x, const void *y)
{
    const struct sized *a = x, *b = y;
    if (a->have != b->have)
        return a->have > b->have ? -1 : 1;
    return a->part < b->part ? -1 : a->part > b->part;
}

/* Number the parts by their sizes, larger ones first, as in g->size. */
static void number_by_size(const struct ftk_graph *g, int *part, int *have)
{
    struct sized *s = ftk_tool_alloc((size_t)g->k * sizeof *s);
    int *becomes = ftk_tool_alloc((size_t)g->k * sizeof *becomes);
    for (int p = 0; p < g->k; p++)
        s[p].part = p;
    for (int v = 0; v < g->n; v++)
        s[part[v]].have++;
    qsort(s, (size_t)g->k, sizeof *s, by_size);
    for (int p = 0; p < g->k; p++) {
        becomes[s[p].part] = p;
        have[p] = s[p].have;
    }
    for (int v = 0; v < g->n; v++)
        part[v] = becomes[part[v]];
    free(s);
    free(becomes);
}

/* Among the parts that lack units, find the part with most bytes to unit v.  *gain: bytes by
 * which the move makes the cut smaller.  room: any part that lacks units. */
static int best_place(const struct ftk_graph *g, const int *part, const int *have, int v, int room,
    uint64_t *to, int64_t *gain)
{
    int best = room;
    for (int i = g->start[v]; i < g->start[v + 1]; i++)
        to[part[g->next[i]]] += g->bytes[i];
    for (int i = g->start[v]; i < g->start[v + 1]; i++) {
        int p = part[g->next[i]];
        bool first = p < best;
        if (have[p] < g->size[p] && (to[p] > to[best] || (to[p] == to[best] && first)))
            best = p;
    }
    *gain = (int64_t)(to[best] - to[part[v]]);
    for (int i = g->start[v]; i < g->start[v + 1]; i++)
        to[part[g->next[i]]] = 0;
    return best;
}

static void balance(const struct ftk_graph *g, int *part)
{
    int *have = ftk_tool_alloc((size_t)g->k * sizeof *have);
    uint64_t *to = ftk_tool_alloc((size_t)g->k * sizeof *to);
    number_by_size(g, part, have);
    for (;;) {
        int room = 0, place = 0;
        int mover = -1;
        int64_t most = 0;
        while (room < g->k && have[room] >= g->size[room])
            room++;
        if (room == g->k)
            break;
        for (int v = 0; v < g->n; v++) {
            int64_t gain;
            if (have[part[v]] <= g->size[part[v]])
                continue;
            int p = best_place(g, part, have, v, room, to, &gain);
            if (mover < 0 || gain > most) {
                mover = v;
                place = p;
                most = gain;
            }
        }
        if (mover < 0) /* not possible: if one part is too small, another is too large */
            break;
        have[part[mover]]--;
        have[place]++;
        part[mover] = place;
    }
    free(have);
    free(to);
}

/* ---- exchanges ----------------------------------------------------------------------- */

static uint64_t between(const struct ftk_graph *g, int v, int u)
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

static uint64_t *link_of(const struct ftk_graph *g, int v, int p)
{
    return &g->links[(size_t)v * (size_t)g->k + (size_t)p];
}

static void leave_and_join(struct ftk_graph *g, int *part, int v, int to)
{
    for (int i = g->start[v]; i < g->start[v + 1]; i++) {
        *link_of(g, g->next[i], part[v]) -= g->bytes[i];
        *link_of(g, g->next[i], to) += g->bytes[i];
    }
    part[v] = to;
}

/* Bytes by which the cut becomes smaller when v and u change places. */
static int64_t gain_of(const struct ftk_graph *g, const int *part, int v, int u)
{
    int a = part[v], b = part[u];
    return (int64_t)(*link_of(g, v, b) - *link_of(g, v, a))
           + (int64_t)(*link_of(g, u, a) - *link_of(g, u, b)) - 2 * (int64_t)between(g, v, u);
}

/* Make the best exchange of v with another unit, if one makes the cut smaller. */
static bool exchange(struct ftk_graph *g, int *part, int v)
{
    int64_t most = 0;
    int with = -1;
    for (int u = 0; u < g->n; u++) {
        if (part[u] == part[v] || *link_of(g, v, part[u]) == 0)
            continue; /* v has no bytes to that part; exchange(u) may still find the pair */
        int64_t gain = gain_of(g, part, v, u);
        if (gain > most) {
            most = gain;
            with = u;
        }
    }
    if (with < 0)
        return false;
    int a = part[v], b = part[with];
    leave_and_join(g, part, v, b);
    leave_and_join(g, part, with, a);
    return true;
}

static void improve(struct ftk_graph *g, int *part)
{
    bool better = g->links != NULL;
    if (!better)
        return;
    memset(g->links, 0, (size_t)g->n * (size_t)g->k * sizeof *g->links);
    for (int v = 0; v < g->n; v++)
        for (int i = g->start[v]; i < g->start[v + 1]; i++)
            *link_of(g, v, part[g->next[i]]) += g->bytes[i];
    for (int pass = 0; better && pass < PASSES; pass++) {
        better = false;
        for (int v = 0; v < g->n; v++)
            better = exchange(g, part, v) || better;
    }
}

/* ---- all of it ----------------------------------------------------------------------- */

static int search(struct ftk_graph *g, int *best)
{
    int *part = ftk_tool_alloc((size_t)g->n * sizeof *part);
    int p = 0;
    for (int v = 0, in = 0; v < g->n; v++, in++) {
        if (in == g->size[p]) {
            p++;
            in = 0;
        }
        best[v] = p;
    }
    improve(g, best);
    uint64_t least = cut_of(g, best);
    /* with one part, parts of one unit, or no messages all results are equally good */
    bool choice = g->k > 1 && g->k < g->n && g->start[g->n] > 0;
    for (int attempt = 0; choice && attempt < 2 * TRIES; attempt++) {
        int code = ftk_cut_divide(g, attempt, part);
        if (code != TOOL_OK) {
            free(part);
            return code;
        }
        balance(g, part);
        improve(g, part);
        uint64_t cut = cut_of(g, part);
        if (cut < least) {
            least = cut;
            memcpy(best, part, (size_t)g->n * sizeof *part);
        }
    }
    free(part);
    return TOOL_OK;
}

int ftk_cut_make(const struct ftk_matrix *m, int per_unit, int k, int *team)
{
    struct ftk_graph g = { 0 };
    if (m->npairs > (1 << 28)) { /* the number of edges must fit into an int */
        ftk_tool_say("the matrix has too many pairs");
        return TOOL_FAIL;
    }
    build(&g, m, per_unit, k);
    int *part = ftk_tool_alloc((size_t)g.n * sizeof *part);
    int code = search(&g, part);
    for (int r = 0; r < m->n; r++)
        team[r] = part[r / per_unit];
    free(part);
    free_graph(&g);
    return code;
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
