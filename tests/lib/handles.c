/* Counts the communicators of a test program, its own and those of ftkit.  If a communicator is
 * neither freed nor disconnected before MPI_Finalize, a line is printed that fails the test.
 * Communicators with an agreement must be freed in MPI_Finalize only (lib/core/mpi_ulfm.c).
 * Leak checkers cannot find this error: Open MPI may keep parts of a communicator after a call
 * that a failure has interrupted, even if the communicator has been freed.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include "state.h"

#define KEPT 1 /* ftkit keeps one communicator with the last error handler until the end */

static atomic_int communicators;

static int made(int rc, const MPI_Comm *comm)
{
    if (rc == MPI_SUCCESS && *comm != MPI_COMM_NULL)
        communicators++;
    return rc;
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *out)
{
    return made(PMPI_Comm_dup(comm, out), out);
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *out)
{
    return made(PMPI_Comm_split(comm, color, key, out), out);
}

int MPI_Comm_spawn(const char *command, char *argv[], int n, MPI_Info info, int root, MPI_Comm comm,
    MPI_Comm *out, int *errors)
{
    return made(PMPI_Comm_spawn(command, argv, n, info, root, comm, out, errors), out);
}

int MPI_Comm_get_parent(MPI_Comm *out) /* the spawned process disconnects it */
{
    static bool seen;
    int rc = PMPI_Comm_get_parent(out);
    if (!seen)
        (void)made(rc, out);
    seen = true;
    return rc;
}

int MPI_Intercomm_create(
    MPI_Comm local, int leader, MPI_Comm peer, int remote, int tag, MPI_Comm *out)
{
    return made(PMPI_Intercomm_create(local, leader, peer, remote, tag, out), out);
}

int MPI_Intercomm_merge(MPI_Comm comm, int high, MPI_Comm *out)
{
    return made(PMPI_Intercomm_merge(comm, high, out), out);
}

enum { AGREED_MAX = 4096 };

static struct {
    MPI_Comm comm[AGREED_MAX];
    int n, freed;
    bool finalizing;
} agreed;

static bool has_agreement(MPI_Comm comm)
{
    for (int i = 0; i < agreed.n; i++)
        if (agreed.comm[i] == comm)
            return true;
    return false;
}

#ifdef OMPI_HAVE_MPI_EXT_FTMPI
static void agree_on(MPI_Comm comm)
{
    if (comm == MPI_COMM_WORLD || has_agreement(comm) || agreed.n == AGREED_MAX)
        return;
    agreed.comm[agreed.n++] = comm;
    communicators--;
    if (agreed.n == AGREED_MAX)
        fprintf(stderr, "handles: more agreements than there is room for\n");
}

int MPIX_Comm_shrink(MPI_Comm comm, MPI_Comm *out)
{
    agree_on(comm);
    return made(PMPIX_Comm_shrink(comm, out), out);
}

int MPIX_Comm_agree(MPI_Comm comm, int *flag)
{
    agree_on(comm);
    return PMPIX_Comm_agree(comm, flag);
}
#endif

int MPI_Comm_free(MPI_Comm *comm)
{
    bool has = has_agreement(*comm);
    if (has && !agreed.finalizing)
        fprintf(stderr, "handles: a communicator with an agreement was freed\n");
    agreed.freed += has && agreed.finalizing;
    communicators--;
    return PMPI_Comm_free(comm);
}

int MPI_Comm_disconnect(MPI_Comm *comm)
{
    communicators--;
    return PMPI_Comm_disconnect(comm);
}

int __real_PMPI_Finalize(void);
int __wrap_PMPI_Finalize(void); /* of ftkit: a spare ends */

int __wrap_PMPI_Finalize(void)
{
    if (communicators > KEPT)
        fprintf(stderr, "handles: %d communicators were not freed\n", communicators - KEPT);
    check_state();
    agreed.finalizing = true;
    int rc = __real_PMPI_Finalize();
    if (agreed.freed != agreed.n)
        fprintf(stderr, "handles: %d communicators with an agreement, MPI_Finalize has freed %d\n",
            agreed.n, agreed.freed);
    return rc;
}

int MPI_Finalize(void)
{
    return __wrap_PMPI_Finalize();
}
