/* Distributed graph topologies of virtual communicators.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <stdlib.h>

#include "core/grow.h"
#include "log/coll/coll.h"
#include "topo.h"

#define EDGES 32 /* of a member, in one exchange */

struct go {
    int n;
    int edge[EDGES][3]; /* from, to, weight */
};

/* ---- distributed graphs -------------------------------------------------------------- */

/* MPI_UNWEIGHTED and MPI_WEIGHTS_EMPTY are addresses to compare with, not to read. */
static bool weighted_by(const int *weights)
{
    return weights != MPI_UNWEIGHTED;
}

static bool all_ranks(const struct ftk_vcomm *vc, const int *ranks, int n)
{
    for (int i = 0; i < n; i++)
        if (ranks[i] < 0 || ranks[i] >= vc->size)
            return false;
    return true;
}

static bool weights_fit(int n, const int *ranks, const int *weights)
{
    return n == 0 || (n > 0 && ranks && weights && weights != MPI_WEIGHTS_EMPTY);
}

static int check_adjacent(const struct ftk_vcomm *vc, int nin, const int *in, const int *inw,
    int nout, const int *out, const int *outw)
{
    if (vc->remote)
        return MPI_ERR_COMM;
    if (!weights_fit(nin, in, inw) || !weights_fit(nout, out, outw))
        return MPI_ERR_ARG;
    /* a side without edges may have either value */
    if (nin > 0 && nout > 0 && weighted_by(inw) != weighted_by(outw))
        return MPI_ERR_ARG;
    return all_ranks(vc, in, nin) && all_ranks(vc, out, nout) ? MPI_SUCCESS : MPI_ERR_ARG;
}

static int adjacent_make(struct ftk_topo *t, int nin, const int *in, const int *inw, int nout,
    const int *out, const int *outw)
{
    bool weighted = weighted_by(nin > 0 || nout == 0 ? inw : outw);
    memset(t, 0, sizeof *t);
    t->kind = FTK_TOPO_DIST;
    t->nin = nin;
    t->nout = nout;
    t->in = ftk_topo_ints(in, nin);
    t->out = ftk_topo_ints(out, nout);
    t->inw = weighted ? ftk_topo_ints(inw, nin) : NULL;
    t->outw = weighted ? ftk_topo_ints(outw, nout) : NULL;
    if (t->in && t->out && (!weighted || (t->inw && t->outw)))
        return MPI_SUCCESS;
    ftk_topo_free(t);
    return MPI_ERR_NO_MEM;
}

int ftk_mpi_Dist_graph_create_adjacent(MPI_Comm comm, int indegree, const int sources[],
    const int sourceweights[], int outdegree, const int destinations[], const int destweights[],
    MPI_Info info, int reorder, MPI_Comm *newcomm)
{
    struct ftk_construct m;
    struct ftk_vcomm *vc = ftk_make_parent(comm, newcomm);
    if (!vc)
        return PMPI_Dist_graph_create_adjacent(comm, indegree, sources, sourceweights, outdegree,
            destinations, destweights, info, reorder, newcomm);
    int rc = newcomm ? check_adjacent(
                 vc, indegree, sources, sourceweights, outdegree, destinations, destweights)
                     : MPI_ERR_ARG;
    if (rc != MPI_SUCCESS)
        return ftk_vcomm_error(vc, rc);
    ftk_make_begin(&m, vc, FTK_MAKE_NEW, MPI_INFO_NULL);
    if (m.error == MPI_SUCCESS)
        m.error = adjacent_make(
            &m.vc->topo, indegree, sources, sourceweights, outdegree, destinations, destweights);
    ftk_make_first(&m, vc->size);
    return ftk_make_known(&m, newcomm);
}

struct given {
    int n;
    const int *sources, *degrees; /* [n] */
    const int *destinations, *weights;
    int source, of_source, at; /* the place of the next edge */
};

/* ---- distributed graphs whose edges anybody may give ------------------------------------
 * All edges go past all members, so many of each at a time, and each keeps what begins or
 * ends at it: in the order of the members that gave them, and of each as it gave them. */

static void next_edges(struct given *g, struct go *go)
{
    memset(go, 0, sizeof *go);
    while (go->n < EDGES && g->source < g->n) {
        if (g->of_source == g->degrees[g->source]) {
            g->source++;
            g->of_source = 0;
            continue;
        }
        int *e = go->edge[go->n++];
        e[0] = g->sources[g->source];
        e[1] = g->destinations[g->at];
        e[2] = g->weights ? g->weights[g->at] : 0;
        g->at++;
        g->of_source++;
    }
}

/* Append to a list and its weights. */
static int append_neighbor(int **list, int **weights, int *n, int rank, int weight)
{
    if (!ftk_grow_by_one(list, (size_t)*n, sizeof **list)
        || !ftk_grow_by_one(weights, (size_t)*n, sizeof **weights))
        return MPI_ERR_NO_MEM;
    (*list)[*n] = rank;
    (*weights)[(*n)++] = weight;
    return MPI_SUCCESS;
}

static int keep_edges(struct ftk_topo *t, const struct go *go, int me)
{
    int rc = MPI_SUCCESS;
    for (int i = 0; i < go->n && rc == MPI_SUCCESS; i++) {
        const int *e = go->edge[i];
        if (e[1] == me)
            rc = append_neighbor(&t->in, &t->inw, &t->nin, e[0], e[2]);
        if (e[0] == me && rc == MPI_SUCCESS)
            rc = append_neighbor(&t->out, &t->outw, &t->nout, e[1], e[2]);
    }
    return rc;
}

/* What the members have sent about their edges: the largest number of edges of a member, and
 * whether edges have weights; an MPI code if the members contradict each other. */
static int judge(const struct ftk_proposal *all, int n, int *most, bool *weighted)
{
    int with = 0, without = 0;
    *most = 0;
    for (int i = 0; i < n; i++) {
        if (all[i].error != MPI_SUCCESS)
            return MPI_ERR_OTHER;
        *most = all[i].color > *most ? all[i].color : *most;
        with += all[i].color > 0 && all[i].key;
        without += all[i].color > 0 && !all[i].key;
    }
    *weighted = with > 0 || (without == 0 && all[0].key);
    return with > 0 && without > 0 ? MPI_ERR_ARG : MPI_SUCCESS;
}

/* Exchange the edges.  m->error is the same at all members, except for a lack of memory here:
 * ftk_make_agree() reports that to the other members. */
static void exchange(struct ftk_construct *m, struct given *g, const struct ftk_proposal *mine)
{
    const struct ftk_proposal *words;
    struct go go;
    int most = 0;
    bool weighted = false;
    struct ftk_proposal said = *mine;
    struct go *all = malloc((size_t)m->n * sizeof *all);
    said.error = m->error != MPI_SUCCESS || all ? m->error : MPI_ERR_NO_MEM;
    int rc = ftk_make_proposals(m->parent, &said, &words);
    if (rc == MPI_SUCCESS)
        rc = judge(words, m->n, &most, &weighted);
    for (int past = 0; rc == MPI_SUCCESS && all && past < most; past += EDGES) {
        next_edges(g, &go);
        rc = ftk_coll_allgather(m->parent, &go, all, sizeof go);
        for (int i = 0; rc == MPI_SUCCESS && i < m->n && m->error == MPI_SUCCESS; i++)
            m->error = keep_edges(&m->vc->topo, &all[i], m->parent->rank);
    }
    free(all);
    if (said.error != MPI_SUCCESS || m->error == MPI_SUCCESS)
        m->error = said.error != MPI_SUCCESS ? said.error : rc;
    if (m->error != MPI_SUCCESS || weighted)
        return;
    free(m->vc->topo.inw);
    free(m->vc->topo.outw);
    m->vc->topo.inw = m->vc->topo.outw = NULL;
}

/* Allocate lists even if they are empty, so that they differ from no lists. */
static int dist_empty(struct ftk_topo *t)
{
    memset(t, 0, sizeof *t);
    t->kind = FTK_TOPO_DIST;
    t->in = ftk_topo_ints(NULL, 0);
    t->out = ftk_topo_ints(NULL, 0);
    t->inw = ftk_topo_ints(NULL, 0);
    t->outw = ftk_topo_ints(NULL, 0);
    return t->in && t->out && t->inw && t->outw ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

/* Check the edges given here: the MPI error class, and the number of edges. */
static int check_given(const struct ftk_vcomm *vc, const struct given *g, int *count)
{
    long total = 0;
    if (g->n < 0 || (g->n > 0 && (!g->sources || !g->degrees)))
        return MPI_ERR_ARG;
    for (int i = 0; i < g->n; i++) {
        if (g->degrees[i] < 0)
            return MPI_ERR_ARG;
        total += g->degrees[i];
    }
    if (total > INT_MAX - EDGES || !weights_fit((int)total, g->destinations, g->weights))
        return MPI_ERR_ARG;
    *count = (int)total;
    return all_ranks(vc, g->sources, g->n) && all_ranks(vc, g->destinations, *count) ? MPI_SUCCESS
                                                                                     : MPI_ERR_ARG;
}

int ftk_mpi_Dist_graph_create(MPI_Comm comm, int n, const int sources[], const int degrees[],
    const int destinations[], const int weights[], MPI_Info info, int reorder, MPI_Comm *newcomm)
{
    struct ftk_construct m;
    struct ftk_proposal mine = { 0 };
    struct given g = { .n = n,
        .sources = sources,
        .degrees = degrees,
        .destinations = destinations,
        .weights = weights };
    struct ftk_vcomm *vc = ftk_make_parent(comm, newcomm);
    if (!vc)
        return PMPI_Dist_graph_create(
            comm, n, sources, degrees, destinations, weights, info, reorder, newcomm);
    if (!newcomm || vc->remote)
        return ftk_vcomm_error(vc, newcomm ? MPI_ERR_COMM : MPI_ERR_ARG);
    ftk_make_begin(&m, vc, FTK_MAKE_NEW, MPI_INFO_NULL);
    if (m.error == MPI_SUCCESS) /* the others learn of it: each gives its own edges */
        m.error = check_given(vc, &g, &mine.color);
    if (m.error == MPI_SUCCESS)
        m.error = dist_empty(&m.vc->topo);
    mine.key = weighted_by(weights);
    if (!mine.key || mine.color == 0)
        g.weights = NULL;
    exchange(&m, &g, &mine);
    ftk_make_first(&m, vc->size);
    return ftk_make_known(&m, newcomm);
}

/* ---- questions about distributed graphs ---------------------------------------------- */

int ftk_mpi_Dist_graph_neighbors_count(MPI_Comm comm, int *indegree, int *outdegree, int *weighted)
{
    const struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Dist_graph_neighbors_count(comm, indegree, outdegree, weighted);
    ftk_vcomm_no_count(indegree);
    ftk_vcomm_no_count(outdegree);
    int rc = ftk_topo_check_kind(vc, FTK_TOPO_DIST, indegree && outdegree && weighted);
    if (rc != MPI_SUCCESS)
        return rc;
    *indegree = vc->topo.nin;
    *outdegree = vc->topo.nout;
    *weighted = vc->topo.inw != NULL;
    return MPI_SUCCESS;
}

int ftk_mpi_Dist_graph_neighbors(MPI_Comm comm, int maxindegree, int sources[], int sourceweights[],
    int maxoutdegree, int destinations[], int destweights[])
{
    const struct ftk_vcomm *vc = ftk_vcomm_find(comm);
    if (!vc)
        return PMPI_Dist_graph_neighbors(
            comm, maxindegree, sources, sourceweights, maxoutdegree, destinations, destweights);
    int rc = ftk_topo_check_kind(vc, FTK_TOPO_DIST, true);
    if (rc != MPI_SUCCESS)
        return rc;
    const struct ftk_topo *t = &vc->topo;
    if (maxindegree < 0 || maxoutdegree < 0 || (maxindegree > 0 && !sources)
        || (maxoutdegree > 0 && !destinations))
        return ftk_vcomm_error(vc, MPI_ERR_ARG);
    ftk_topo_copy_upto(sources, t->in, t->nin, maxindegree);
    ftk_topo_copy_upto(destinations, t->out, t->nout, maxoutdegree);
    if (t->inw && sourceweights && weighted_by(sourceweights))
        ftk_topo_copy_upto(sourceweights, t->inw, t->nin, maxindegree);
    if (t->outw && destweights && weighted_by(destweights))
        ftk_topo_copy_upto(destweights, t->outw, t->nout, maxoutdegree);
    return MPI_SUCCESS;
}
