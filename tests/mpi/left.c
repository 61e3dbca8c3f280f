/* Open MPI alone: MPI_Finalize with many communicators of spawned processes, which requests still
 * use.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <mpi.h>
#include <stdio.h>

enum { SPAWNED = 2, LEFT = 1000 };

/* Each receive keeps its communicator, which is freed. */
static int leave_receives(MPI_Comm inter)
{
    static int never;
    for (int i = 0; i < LEFT; i++) {
        MPI_Comm one;
        MPI_Request left;
        if (MPI_Comm_dup(inter, &one) != MPI_SUCCESS
            || MPI_Irecv(&never, 1, MPI_INT, 0, i, one, &left) != MPI_SUCCESS
            || MPI_Comm_free(&one) != MPI_SUCCESS)
            return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    int bad = 0;
    MPI_Comm parent, child[SPAWNED] = { MPI_COMM_NULL, MPI_COMM_NULL };
    MPI_Info anywhere;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    MPI_Info_create(&anywhere);
    MPI_Info_set(anywhere, "map_by", ":OVERSUBSCRIBE");
    for (int i = 0; parent == MPI_COMM_NULL && i < SPAWNED; i++)
        bad |= MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, anywhere, 0, MPI_COMM_SELF, &child[i],
                   MPI_ERRCODES_IGNORE)
               != MPI_SUCCESS;
    for (int i = 0; parent == MPI_COMM_NULL && i < SPAWNED; i++)
        bad |= leave_receives(child[i]);
    if (parent != MPI_COMM_NULL)
        bad |= leave_receives(parent);
    MPI_Info_free(&anywhere);
    MPI_Finalize();
    if (!bad)
        puts(parent == MPI_COMM_NULL ? "OK left" : "OK spawned");
    return bad;
}
