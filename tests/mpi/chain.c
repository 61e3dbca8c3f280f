/* A chain of ranks whose ends are open: a wave in one dimension, the ghost cells exchanged by
 * MPI_Sendrecv with MPI_PROC_NULL beyond the ends, first to the right, then to the left.
 *
 * The result does not depend on the number of ranks.
 *
 * A step passes app.mid once, between the two exchanges, and app.inflight after them.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

#define CELLS 240 /* of the whole */

static struct {
    int n, first, left, right;
    double *now, *before, *next; /* [1 + n + 1]; now and before are registered */
} g;

static int prepare(struct foreign *f)
{
    g.n = foreign_block(CELLS, f->nranks, f->rank, &g.first);
    size_t all = (size_t)g.n + 2;
    g.now = calloc(3 * all, sizeof *g.now);
    if (!g.now)
        return 1;
    g.before = g.now + all;
    g.next = g.before + all;
    for (int i = 1; i <= g.n; i++)
        g.now[i] = g.before[i] = 1 / (1 + 0.01 * (g.first + i - 80) * (g.first + i - 80));
    return ftkit_register(f->ft, "wave", g.now, 2 * all, MPI_DOUBLE) != FTKIT_OK;
}

static int connect_ranks(struct foreign *f)
{
    g.left = f->rank > 0 ? f->rank - 1 : MPI_PROC_NULL;
    g.right = f->rank < f->nranks - 1 ? f->rank + 1 : MPI_PROC_NULL;
    return 0;
}

static void step(struct foreign *f)
{
    if (MPI_Sendrecv(&g.now[g.n], 1, MPI_DOUBLE, g.right, 1, &g.now[0], 1, MPI_DOUBLE, g.left, 1,
            f->comm, MPI_STATUS_IGNORE)
        != MPI_SUCCESS)
        return;
    (void)FTK_FAULT("app.mid");
    if (MPI_Sendrecv(&g.now[1], 1, MPI_DOUBLE, g.left, 2, &g.now[g.n + 1], 1, MPI_DOUBLE, g.right,
            2, f->comm, MPI_STATUS_IGNORE)
        != MPI_SUCCESS)
        return;
    (void)FTK_FAULT("app.inflight");
    for (int i = 1; i <= g.n; i++)
        g.next[i] =
            2 * g.now[i] - g.before[i] + 0.25 * (g.now[i - 1] - 2 * g.now[i] + g.now[i + 1]);
    size_t all = (size_t)g.n + 2;
    memcpy(g.before, g.now, all * sizeof *g.now);
    memcpy(g.now + 1, g.next + 1, (size_t)g.n * sizeof *g.now);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    uint64_t mine = 0;
    for (int i = 1; i <= g.n; i++)
        mine += foreign_cell((size_t)(g.first + i), g.now[i]);
    *hash = foreign_total(f, mine);
    snprintf(detail, room, "%d cells", CELLS);
    return true;
}

static void release(void)
{
    free(g.now);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "chain", 50, 1, prepare, connect_ranks, NULL, step,
        verdict, release };
    return foreign_main(argc, argv, &app);
}
