/* Ranks whose regions do not fit together, as it shows at the first set.
 *
 *   overlap MODE
 *
 * fits, overlap, gap: the blocks of a global array.  moved: the first set fits, then rank 1
 * registers another block.  extra: rank 1 has a region per rank of its own; name, kind, type,
 * shape: rank 1 has another region in place of one of the others.  fail: the value of a
 * replicated region differs from step 10 to step 49.
 *
 * Writes "calls N failed N sets N" of rank 0.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ftkit.h"

#define CELLS 40

static const char *mode;
static int rank, size, step, same, other;
static double x[CELLS];

static int is(const char *what)
{
    return strcmp(mode, what) == 0;
}

static int put_array(ftkit_ctx *ft, size_t shift)
{
    size_t global = is("shape") && rank == 1 ? CELLS + 1 : CELLS;
    size_t local = CELLS / (size_t)size, offset = (size_t)rank * local;
    if (is("overlap") && rank == 1)
        offset -= 3;
    if (is("gap") && rank == 1)
        local -= 3;
    offset -= rank == 1 ? shift : 0;
    MPI_Datatype type = is("type") && rank == 1 ? MPI_INT64_T : MPI_DOUBLE;
    return ftkit_register_array(ft, "x", x, type, 1, &global, &local, &offset, NULL);
}

static int put_all(ftkit_ctx *ft)
{
    const char *name = is("name") && rank == 1 ? "others" : "other";
    int rc = is("extra") && rank == 1 ? ftkit_register(ft, "mine", &other, 1, MPI_INT) : FTKIT_OK;
    if (rc == FTKIT_OK)
        rc = put_array(ft, 0);
    if (rc == FTKIT_OK && is("kind") && rank == 1)
        rc = ftkit_register(ft, "same", &same, 1, MPI_INT);
    else if (rc == FTKIT_OK)
        rc = ftkit_register_replicated(ft, "same", &same, 1, MPI_INT);
    if (rc == FTKIT_OK)
        rc = ftkit_register(ft, name, &other, 1, MPI_INT);
    if (rc == FTKIT_OK)
        rc = ftkit_register_replicated(ft, "step", &step, 1, MPI_INT);
    return rc;
}

int main(int argc, char **argv)
{
    ftkit_ctx *ft = NULL;
    int calls = 0, failed = 0;
    mode = argc > 1 ? argv[1] : "fits";
    MPI_Init(&argc, &argv);
    if (ftkit_open(MPI_COMM_WORLD, NULL, &ft) != FTKIT_OK)
        return 1;
    MPI_Comm_rank(ftkit_comm(ft), &rank);
    MPI_Comm_size(ftkit_comm(ft), &size);
    int rc = put_all(ft);
    if (rc == FTKIT_OK)
        rc = ftkit_recover(ft, NULL);
    while (rc >= 0 && step < 100) {
        if (is("fail"))
            same = step >= 10 && step < 50 ? rank : 0;
        if (is("moved") && step == 10)
            rc = put_array(ft, 3);
        rc = ftkit_checkpoint(ft);
        calls++;
        failed += rc < 0;
        if (rc < 0 && rank == 0)
            fprintf(stderr, "step %d: %s: %s\n", step, ftkit_strerror(rc), ftkit_detail(ft));
        rc = rc < -39 ? rc : 0;
        step++;
    }
    ftkit_info info = { .size = sizeof info };
    (void)ftkit_query(ft, &info);
    if (rank == 0)
        fprintf(stderr, "calls %d failed %d set %llu\n", calls, failed,
            (unsigned long long)info.committed);
    if (rc >= 0)
        rc = ftkit_finish(ft);
    int closed = ftkit_close(&ft);
    MPI_Finalize();
    return rc < 0 || closed != FTKIT_OK;
}
