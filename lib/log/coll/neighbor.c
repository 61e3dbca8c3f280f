/* Neighbourhood collectives.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * All messages are under way at once.  Two ranks may be neighbours more than once, and a
 * rank its own neighbour; the order of their messages distinguishes them.  On a graph the
 * n-th edge to a rank is the n-th edge from it.  On a grid what goes down in a dimension
 * comes in from above, and the other way round (MPI-4.0, 8.6): in a periodic dimension of
 * one or two ranks that are the same rank, so receives are posted the other way round. */
#include "log/coll/build.h"

/* Index of the neighbour whose receive is the i-th to be posted. */
static int turned(const struct ftk_topo *t, int i)
{
    return t->kind == FTK_TOPO_CART ? i ^ 1 : i;
}

static void receive_all(struct ftk_coll *c)
{
    const struct ftk_topo *t = &c->vc->topo;
    for (int i = 0; i < t->nin && !c->error; i++) {
        int k = turned(t, i);
        if (t->in[k] < 0) /* MPI_PROC_NULL */
            continue;
        struct ftk_block b = ftk_coll_block(c, &c->call.r, k);
        ftk_step_recv(c, b.at, b.count, b.type, t->in[k]);
    }
}

void ftk_build_neighbor_allgather(struct ftk_coll *c)
{
    const struct ftk_topo *t = &c->vc->topo;
    const struct ftk_side *s = &c->call.s;
    receive_all(c);
    for (int i = 0; i < t->nout && !c->error; i++)
        if (t->out[i] >= 0)
            ftk_step_send(c, s->buf, s->count, s->type, t->out[i]);
}

void ftk_build_neighbor_alltoall(struct ftk_coll *c)
{
    const struct ftk_topo *t = &c->vc->topo;
    receive_all(c);
    for (int i = 0; i < t->nout && !c->error; i++) {
        if (t->out[i] < 0)
            continue;
        struct ftk_block b = ftk_coll_block(c, &c->call.s, i);
        ftk_step_send(c, b.at, b.count, b.type, t->out[i]);
    }
}
