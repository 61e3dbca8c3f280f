/* Topologies of communicators: copies.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "log/vcomm/comm.h"
#include "log/vcomm/topology.h"

/* A copy, which is not NULL even if it is empty; NULL: no memory. */
int *ftk_topo_ints(const int *from, int n)
{
    int *to = malloc(((size_t)n + 1) * sizeof *to);
    if (to && n > 0)
        memcpy(to, from, (size_t)n * sizeof *to);
    return to;
}

/* Copy the lists that exist; false: no memory. */
static bool copied(int **to, const int *from, int n)
{
    *to = from ? ftk_topo_ints(from, n) : NULL;
    return !from || *to;
}

void ftk_topo_free(struct ftk_topo *t)
{
    free(t->dims);
    free(t->periods);
    free(t->index);
    free(t->edges);
    free(t->in);
    free(t->out);
    free(t->inw);
    free(t->outw);
    memset(t, 0, sizeof *t);
}

int ftk_topo_copy(struct ftk_topo *to, const struct ftk_topo *from)
{
    struct ftk_topo t = { .kind = from->kind,
        .ndims = from->ndims,
        .nnodes = from->nnodes,
        .nedges = from->nedges,
        .nin = from->nin,
        .nout = from->nout };
    /* not &&: every pointer has to be set */
    bool ok = copied(&t.dims, from->dims, from->ndims);
    ok = copied(&t.periods, from->periods, from->ndims) && ok;
    ok = copied(&t.index, from->index, from->nnodes) && ok;
    ok = copied(&t.edges, from->edges, from->nedges) && ok;
    ok = copied(&t.in, from->in, from->nin) && ok;
    ok = copied(&t.out, from->out, from->nout) && ok;
    ok = copied(&t.inw, from->inw, from->nin) && ok;
    ok = copied(&t.outw, from->outw, from->nout) && ok;
    if (!ok) {
        ftk_topo_free(&t);
        return MPI_ERR_NO_MEM;
    }
    *to = t;
    return MPI_SUCCESS;
}
