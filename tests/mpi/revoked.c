/* What ftkit relies on when it revokes a communicator: calls on it return an error at once, also
 * MPI_Sendrecv at an open end of a chain, which has no source.  Two ranks at least.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <mpi.h>
#include <stdio.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#ifdef MPIX_ERR_REVOKED

#define BIG (1 << 18) /* more than what is sent at once */

static int bad;

static void expect(const char *what, int rc)
{
    int class = MPI_SUCCESS;
    MPI_Error_class(rc, &class);
    if (class == MPIX_ERR_REVOKED)
        return;
    fprintf(stderr, "revoked: %s: class %d\n", what, class);
    bad = 1;
}

int main(int argc, char **argv)
{
    MPI_Comm comm;
    int rank, n;
    static int out[BIG], in[BIG];
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &n);
    int next = (rank + 1) % n;
    MPIX_Comm_revoke(comm);
    /* Open MPI 5.0.7 lets it send, and that may end in either way: what counts is that it ends */
    int rc = MPI_Sendrecv(
        out, BIG, MPI_INT, next, 1, in, BIG, MPI_INT, MPI_PROC_NULL, 1, comm, MPI_STATUS_IGNORE);
    if (rc != MPI_SUCCESS)
        expect("MPI_Sendrecv without a source", rc);
    expect(
        "MPI_Sendrecv without a destination", MPI_Sendrecv(out, BIG, MPI_INT, MPI_PROC_NULL, 1, in,
                                                  BIG, MPI_INT, next, 1, comm, MPI_STATUS_IGNORE));
    expect("MPI_Sendrecv", MPI_Sendrecv(out, BIG, MPI_INT, next, 1, in, BIG, MPI_INT, next, 1, comm,
                               MPI_STATUS_IGNORE));
    expect("MPI_Send", MPI_Send(out, BIG, MPI_INT, next, 1, comm));
    expect("MPI_Recv", MPI_Recv(in, BIG, MPI_INT, next, 1, comm, MPI_STATUS_IGNORE));
    expect("MPI_Barrier", MPI_Barrier(comm));
    MPI_Comm_free(&comm);
    if (rank == 0 && !bad)
        printf("OK revoked\n");
    MPI_Finalize();
    return bad;
}
#else
int main(void)
{
    fputs("revoked: this MPI has no ULFM\n", stderr);
    return 1;
}
#endif
