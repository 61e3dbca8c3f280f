/* Heat on a plate, as a program for FTI:
 * fti_heat CONFIG [top|bottom|sizes|careless|writes|unclear|away]
 *
 *   (none)    FTI_Snapshot in each step
 *   top       FTI_Status, FTI_Recover, and FTI_Checkpoint at the top of the loop
 *   bottom    the same at its bottom
 *   sizes     memory whose size comes from the checkpoint, variable by variable
 *   careless  as top, and without a recovery
 *   writes    as top, and a variable that does not count is written after the recovery
 *   unclear   as top, and one of two counters is written after the recovery
 *   away      as bottom, and the files of the checkpoint of step 15 cannot be written
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _POSIX_C_SOURCE 200809L /* nanosleep() */
#include <fti.h>

#include "plate.h"

#define NEED(want, call) plate_need((call) == (want), #call)

static int step, starts;
static double *u, change = 1;

static void recover(int sizes)
{
    if (sizes) {
        NEED(1, FTI_GetStoredSize(1) == (int64_t)(CELLS * sizeof *u) && FTI_GetStoredSize(9) == 0);
        NEED(FTI_SCES, FTI_RecoverVarInit());
        u = FTI_Realloc(1, u);
        for (int id = 0; id <= 2; id++)
            NEED(FTI_SCES, FTI_RecoverVar(id));
        NEED(FTI_SCES, FTI_RecoverVarFinalize());
    } else {
        NEED(FTI_SCES, FTI_Recover());
    }
    NEED(0, FTI_Status());
}

int main(int argc, char **argv)
{
    int rank, size, everyone = 1, sum;
    MPI_Init(&argc, &argv);
    if (argc < 2 || FTI_Init(argv[1], MPI_COMM_WORLD) != FTI_SCES)
        MPI_Abort(MPI_COMM_WORLD, 1);
    const char *mode = argc > 2 ? argv[2] : "snapshot";
    const int writes = strcmp(mode, "writes") == 0, unclear = strcmp(mode, "unclear") == 0;
    const int careless = strcmp(mode, "careless") == 0;
    const int top = strcmp(mode, "top") == 0 || writes || unclear || careless;
    const int sizes = strcmp(mode, "sizes") == 0;
    const int snapshot = strcmp(mode, "snapshot") == 0;
    MPI_Comm_size(FTI_COMM_WORLD, &size);
    MPI_Comm_rank(FTI_COMM_WORLD, &rank);
    const int away = strcmp(mode, "away") == 0 && rank == 0;
    MPI_Allreduce(&everyone, &sum, 1, MPI_INT, MPI_SUM, FTI_COMM_WORLD);
    double *old = malloc(CELLS * sizeof *old);
    if (!old || sum != size)
        MPI_Abort(MPI_COMM_WORLD, 1);
    u = plate_new(rank);

    fti_id_t cell;
    NEED(FTI_SCES, FTI_InitType(&cell, sizeof(double)));
    NEED(FTI_SCES, FTI_Protect(0, &step, 1, FTI_INTG));
    NEED(FTI_SCES, FTI_Protect(1, u, sizes ? 1 : CELLS, cell));
    NEED(FTI_SCES, FTI_Protect(2, &change, 1, FTI_DBLE));
    if (unclear)
        NEED(FTI_SCES, FTI_Protect(3, &starts, 1, FTI_INTG));
    if (!snapshot && !careless && FTI_Status() != 0) {
        recover(sizes);
        starts++;
        change = writes ? 1 : change;
        printf("rank %d restarts at step %d\n", rank, step);
    }
    NEED(FTI_SCES, FTI_Protect(1, u, CELLS, cell));
    int began = 0;
    while (step < STEPS) {
        if (top && step % 5 == 0)
            NEED(FTI_DONE, FTI_Checkpoint(step / 5 + 1, step % 10 == 0 ? 4 : 2));
        if (snapshot && FTI_Snapshot() < 0)
            exit(2);
        if (snapshot && !began && step > 0)
            printf("rank %d restarts at step %d\n", rank, step);
        if (away && step == 13)
            plate_files(argv[1], 1);
        began = 1;
        double mine = plate_step(u, old, FTI_COMM_WORLD);
        MPI_Allreduce(&mine, &change, 1, MPI_DOUBLE, MPI_MAX, FTI_COMM_WORLD);
        if (change < 1e-9)
            break;
        step++;
        if (away && step == 20)
            plate_files(argv[1], 0);
        if (!top && !snapshot && step % 5 == 0)
            NEED(FTI_DONE, FTI_Checkpoint(1, 4)); /* always the same id */
    }
    plate_print(u, step, change, FTI_COMM_WORLD);
    free(u);
    free(old);
    NEED(FTI_SCES, FTI_Finalize());
    MPI_Finalize();
    return 0;
}
