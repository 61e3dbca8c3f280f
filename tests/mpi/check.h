/* What programs that check calls compare with: the first mismatch ends the job with 1.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int me, n; /* in MPI_COMM_WORLD: the program sets them */
static long checks;

static void check_at(const char *file, int line, const char *what, long got, long wanted)
{
    checks++;
    if (got == wanted)
        return;
    fprintf(stderr, "%s:%d: rank %d of %d: %s: got %ld, wanted %ld\n", file, line, me, n, what, got,
        wanted);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}
#define EQUAL(wanted, got) check_at(__FILE__, __LINE__, #got, (long)(got), (long)(wanted))
#define TRUE(got) check_at(__FILE__, __LINE__, #got, (got) ? 1 : 0, 1)
#define OK(call) EQUAL(MPI_SUCCESS, call)

#endif
