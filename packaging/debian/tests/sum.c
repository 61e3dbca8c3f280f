/* Relaxes towards a mean over all ranks; rank 0 prints the sum.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <ftkit.h>
#include <stdio.h>

static int failed(ftkit_ctx *ft, int rc)
{
    if (rc < 0)
        fprintf(stderr, "%s: %s\n", ftkit_strerror(rc), ftkit_detail(ft));
    return rc < 0;
}

int main(int argc, char **argv)
{
    enum { N = 1000, STEPS = 100 };
    static double x[N];
    ftkit_ctx *ft;
    MPI_Comm comm;
    int step = 0, rank, size, rc, errors = 0;
    double sum = 0;

    MPI_Init(&argc, &argv);
    if (failed(NULL, ftkit_open(MPI_COMM_WORLD, NULL, &ft)))
        return 1;
    errors += failed(ft, ftkit_bind_comm(ft, &comm));
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < N; i++)
        x[i] = rank + 1.0 / (i + 1);
    errors += failed(ft, ftkit_register_replicated(ft, "step", &step, 1, MPI_INT));
    errors += failed(ft, ftkit_register_replicated(ft, "sum", &sum, 1, MPI_DOUBLE));
    errors += failed(ft, ftkit_register(ft, "x", x, N, MPI_DOUBLE));
    while (ftkit_step(ft, &rc)) {
        errors += failed(ft, rc);
        if (rc == FTKIT_ROLLED_BACK && rank == 0)
            fprintf(stderr, "continues at step %d\n", step);
        if (step >= STEPS) {
            ftkit_end(ft);
            continue;
        }
        double mine = x[step % N];
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
        for (int i = 0; i < N; i++)
            x[i] = 0.75 * x[i] + 0.25 * sum / size;
        step++;
    }
    errors += failed(ft, rc);
    if (rank == 0)
        printf("sum %.17g\n", sum);
    errors += failed(NULL, ftkit_close(&ft));
    MPI_Finalize();
    return errors > 0;
}
