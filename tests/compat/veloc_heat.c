/* Heat on a plate, as a program for VeloC: veloc_heat CONFIG [top|parts|careless|misfit|away]
 *
 *   top       the checkpoint stands at the top of the loop
 *   parts     the calls in parts: sizes from the checkpoint, and memory that moves
 *   careless  without a restart
 *   misfit    the memory of a later start does not fit, and the program begins anew then
 *   away      the files of the checkpoint of step 15 cannot be written
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _POSIX_C_SOURCE 200809L /* nanosleep() */
#include <veloc.h>

#include "plate.h"

#define NEED(call) plate_need((call) == VELOC_SUCCESS, #call)

static int step;
static double *u, change = 1;

static void save(int parts)
{
    if (!parts) {
        NEED(VELOC_Checkpoint("heat", step));
        return;
    }
    double *other = malloc(CELLS * sizeof *other); /* the memory moves */
    if (!other)
        exit(2);
    memcpy(other, u, CELLS * sizeof *other);
    free(u);
    u = other;
    NEED(VELOC_Mem_protect(1, u, CELLS, sizeof *u));
    NEED(VELOC_Checkpoint_wait());
    NEED(VELOC_Checkpoint_begin("heat", step));
    NEED(VELOC_Checkpoint_mem());
    NEED(VELOC_Checkpoint_end(1));
}

static void load(int version, int parts)
{
    if (!parts) {
        NEED(VELOC_Restart("heat", version));
        return;
    }
    NEED(VELOC_Restart_begin("heat", version));
    if (VELOC_Recover_size(1) != (int)(CELLS * sizeof *u) || VELOC_Recover_size(7) != -1)
        exit(2);
    int first[] = { 0 };
    NEED(VELOC_Recover_selective(VELOC_RECOVER_SOME, first, 1));
    NEED(VELOC_Recover_selective(VELOC_RECOVER_REST, first, 1));
    NEED(VELOC_Restart_end(1));
}

/* Wait until no file is written any more: whether the last one has failed. */
static int files_failed(void)
{
    int rc;
    while ((rc = VELOC_Checkpoint_finished()) != VELOC_SUCCESS
           && plate_said("VELOC_Checkpoint_finished: ") == 0)
        plate_doze(5);
    if (rc != VELOC_SUCCESS)
        printf("finished: %d\n", rc);
    return rc != VELOC_SUCCESS;
}

int main(int argc, char **argv)
{
    int rank, size, everyone = 1, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&everyone, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); /* set-up before Init */
    if (argc < 2 || sum != size || VELOC_Init(MPI_COMM_WORLD, argv[1]) != VELOC_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);
    const int top = argc > 2 && strcmp(argv[2], "top") == 0;
    const int parts = argc > 2 && strcmp(argv[2], "parts") == 0;

    double *old = malloc(CELLS * sizeof *old);
    if (!old)
        MPI_Abort(MPI_COMM_WORLD, 1);
    u = plate_new(rank);
    NEED(VELOC_Mem_protect(0, &step, 1, sizeof step));
    NEED(VELOC_Mem_protect(1, u, CELLS, sizeof *u));
    NEED(VELOC_Mem_protect(2, &change, 1, sizeof change));
    const int careless = argc > 2 && strcmp(argv[2], "careless") == 0;
    const int misfit = argc > 2 && strcmp(argv[2], "misfit") == 0;
    int away = argc > 2 && strcmp(argv[2], "away") == 0 && rank == 0;
    int version = careless ? VELOC_FAILURE : VELOC_Restart_test("heat", 0);
    if (misfit && version > 0) {
        NEED(VELOC_Mem_protect(1, u, CELLS - 1, sizeof *u));
        if (VELOC_Restart("heat", version) == VELOC_SUCCESS)
            exit(2);
        NEED(VELOC_Mem_protect(1, u, CELLS, sizeof *u));
    } else if (version > 0) {
        load(version, parts);
        printf("rank %d restarts at step %d\n", rank, step);
        if (step != version)
            exit(2);
    }
    while (step < STEPS) {
        if (top && step > 0 && step % 5 == 0)
            save(0);
        if (away && step == 13) {
            while (VELOC_Checkpoint_finished() != VELOC_SUCCESS)
                plate_doze(5);
            plate_files(argv[1], 1);
        }
        double mine = plate_step(u, old, MPI_COMM_WORLD);
        MPI_Allreduce(&mine, &change, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (change < 1e-9)
            break;
        step++;
        if (away && step >= 20 && step % 5 == 0 && files_failed()) {
            plate_files(argv[1], 0);
            away = 0;
        }
        if (!top && step % 5 == 0)
            save(parts);
    }
    NEED(VELOC_Finalize(1));
    plate_print(u, step, change, MPI_COMM_WORLD); /* MPI_COMM_WORLD lives until MPI_Finalize */
    free(u);
    free(old);
    MPI_Finalize();
    return 0;
}
