/* Heat in a rod, protected by ftkit: veloc_ported [CONFIG]
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <ftkit.h>

#include "check.h"
#include "heat.h"

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    ftkit_ctx *ft;
    if (check(NULL, ftkit_open(MPI_COMM_WORLD, argv[1], &ft)) != FTKIT_OK)
        MPI_Abort(MPI_COMM_WORLD, 1);

    MPI_Comm comm; /* always the working ranks */
    ftkit_bind_comm(ft, &comm);
    int rank, step = 0;
    MPI_Comm_rank(comm, &rank);
    double *u = heat_new(rank);

    ftkit_register_replicated(ft, "step", &step, 1, MPI_INT);
    ftkit_register(ft, "u", u, CELLS + 2, MPI_DOUBLE);

    int rc;
    while (ftkit_step(ft, &rc)) {
        check(ft, rc);
        if (step == STEPS) {
            ftkit_end(ft);
            continue;
        }
        heat_step(u, comm);
        step++;
    }
    if (check(ft, rc) == FTKIT_OK)
        heat_print(u, step, comm);

    free(u);
    check(NULL, ftkit_close(&ft));
    MPI_Finalize();
    return errors > 0;
}
