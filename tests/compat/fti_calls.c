/* Each call of FTI with good and bad arguments: fti_calls CONFIG
 *
 * The first run is a fresh start; the second run recovers the checkpoint of the first one.
 * Prints "OK N" with the number of checks of rank 0, or a line for each check that fails.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <fti.h>

#include "checks.h"

#define GOOD(call) IS(FTI_SCES, call)
#define BAD(call) IS(FTI_NSCS, call)

static int number = 1, other[4] = { 1, 2, 3, 4 };
static fti_id_t type;

static void before_init(const char *config)
{
    BAD(FTI_Finalize());
    BAD(FTI_InitType(&type, 4));
    BAD(FTI_Protect(0, &number, 1, FTI_INTG));
    BAD(FTI_Checkpoint(1, 1));
    BAD(FTI_Snapshot());
    IS(0, FTI_Status());
    IS(FTI_NREC, FTI_Recover());
    BAD(FTI_RecoverVar(0));
    BAD(FTI_RecoverVarInit());
    BAD(FTI_RecoverVarFinalize());
    IS(0, FTI_GetStoredSize(0));
    IS(1, FTI_Realloc(0, &number) == &number);
    BAD(FTI_Init(NULL, MPI_COMM_WORLD));
    BAD(FTI_Init("/no/such/file", MPI_COMM_WORLD));
    GOOD(FTI_Init(config, MPI_COMM_WORLD));
    BAD(FTI_Init(config, MPI_COMM_WORLD));
}

static void variables(void)
{
    BAD(FTI_InitType(NULL, 4));
    BAD(FTI_InitType(&type, 0));
    GOOD(FTI_InitType(&type, sizeof other));
    BAD(FTI_Protect(-1, &number, 1, FTI_INTG));
    BAD(FTI_Protect(0, &number, 1, type + 1));
    BAD(FTI_Protect(0, &number, 1, -1));
    BAD(FTI_Protect(0, &number, -1, FTI_INTG));
    BAD(FTI_Protect(0, &number, INT64_MAX, FTI_DBLE));
    BAD(FTI_Protect(0, NULL, 1, FTI_INTG));
    GOOD(FTI_Protect(0, other, 4, FTI_INTG));
    GOOD(FTI_Protect(0, &number, 1, FTI_INTG)); /* in place of the first */
}

static void fresh(void)
{
    IS(0, FTI_Status());
    IS(FTI_NREC, FTI_Recover());
    BAD(FTI_RecoverVar(0));
    BAD(FTI_RecoverVarInit());
    IS(0, FTI_GetStoredSize(0));
    IS(1, FTI_Realloc(0, &number) == &number);
    BAD(FTI_Checkpoint(1, 0));
    BAD(FTI_Checkpoint(1, 9));
    IS(FTI_DONE, FTI_Snapshot());                /* the first call writes a checkpoint */
    GOOD(FTI_Snapshot());                        /* none is due */
    GOOD(FTI_Protect(1 + rank, other, 1, type)); /* another id on each rank */
    GOOD(FTI_Protect(7, NULL, 0, FTI_INTG));
    IS(FTI_DONE, FTI_Checkpoint(2, 1));
    number = 42;
    IS(FTI_DONE, FTI_Checkpoint(2, 4)); /* the same id again */
    IS(0, FTI_Status());
}

static void again(void)
{
    int *grown = malloc(1);
    IS(1, FTI_Status());
    IS((long long)sizeof number, FTI_GetStoredSize(0));
    IS((long long)sizeof other, FTI_GetStoredSize(1 + rank));
    IS(0, FTI_GetStoredSize(2 - rank)); /* of another rank */
    IS(0, FTI_GetStoredSize(7));
    IS(FTI_NREC, FTI_Recover()); /* not all are protected */
    IS(1, number);
    BAD(FTI_RecoverVar(1 + rank));
    BAD(FTI_RecoverVar(8));
    GOOD(FTI_RecoverVarInit());
    GOOD(FTI_RecoverVar(0));
    IS(42, number);
    BAD(FTI_RecoverVarFinalize()); /* variables are missing */
    IS(1, FTI_Status());
    GOOD(FTI_Protect(1 + rank, grown, 1, FTI_CHAR));
    IS(1, FTI_Realloc(1 + rank, &number) == &number); /* another address */
    IS(FTI_NREC, FTI_Snapshot());                     /* the sizes differ: nothing is recovered */
    grown = FTI_Realloc(1 + rank, grown);
    GOOD(FTI_Protect(7, NULL, 0, FTI_INTG));
    number = 0;
    GOOD(FTI_Recover());
    IS(42, number);
    IS(0, memcmp(grown, other, sizeof other));
    IS(0, FTI_Status());
    IS(FTI_DONE, FTI_Checkpoint(9, 4));
    IS(0, FTI_GetStoredSize(0)); /* too late */
    IS(FTI_NREC, FTI_Recover());
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 2)
        MPI_Abort(MPI_COMM_WORLD, 1);
    before_init(argv[1]);
    variables();
    const int status = FTI_Status();
    if (status == 0)
        fresh();
    else
        again();
    GOOD(FTI_Finalize());
    BAD(FTI_Finalize());
    BAD(FTI_Protect(0, &number, 1, FTI_INTG));
    BAD(FTI_Init(argv[1], MPI_COMM_WORLD));
    MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && failed == 0)
        printf("OK %s %d\n", status == 0 ? "fresh" : "again", checks);
    MPI_Finalize();
    return failed > 0;
}
