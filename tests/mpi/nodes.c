/* A communicator of each node, by MPI_Comm_split_type, made anew for five steps at a time: its
 * members have to be the same ranks when it is made again, wherever their processes are by
 * then.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "foreign.h"

static struct {
    uint64_t *state; /* [2] registered: hash of the steps, members that do not agree */
    MPI_Comm node;
} g;

static int prepare(struct foreign *f)
{
    g.node = MPI_COMM_NULL;
    g.state = calloc(2, sizeof *g.state);
    return !g.state || ftkit_register(f->ft, "state", g.state, 2, MPI_UINT64_T) != FTKIT_OK
           || ftkit_register_comm(f->ft, "node", &g.node) != FTKIT_OK;
}

static void step(struct foreign *f)
{
    int mine = f->rank, first = -1, size = 0, root[2] = { -1, 0 };
    if (f->step % 5 == 0
        && MPI_Comm_split_type(f->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &g.node)
               != MPI_SUCCESS)
        return;
    if (MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, g.node) == MPI_SUCCESS
        && MPI_Comm_size(g.node, &size) == MPI_SUCCESS) {
        root[0] = first;
        root[1] = size;
        MPI_Bcast(root, 2, MPI_INT, 0, g.node);
        g.state[1] += root[0] != first || root[1] != size;
    }
    (void)FTK_FAULT("app.mid");
    if (f->step % 5 == 4)
        MPI_Comm_free(&g.node);
    MPI_Barrier(f->comm);
    g.state[0] = foreign_mix(g.state[0], (uint64_t)f->step);
}

static bool verdict(struct foreign *f, uint64_t *hash, char *detail, size_t room)
{
    return foreign_counted(f, g.state[0], g.state[1], hash, detail, room);
}

static void release(void)
{
    if (g.node != MPI_COMM_NULL)
        MPI_Comm_free(&g.node);
    free(g.state);
}

int main(int argc, char **argv)
{
    static const struct foreign_app app = { "nodes", 30, 1, prepare, NULL, NULL, step, verdict,
        release };
    return foreign_main(argc, argv, &app);
}
