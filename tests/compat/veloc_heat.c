/* Heat on a plate, as a program for VeloC:
 * veloc_heat CONFIG [top|parts|file|both|careless|misfit|away]
 *
 *   top       the checkpoint stands at the top of the loop
 *   parts     the calls in parts: sizes from the checkpoint, and memory that moves
 *   file      the state is in a file of the program
 *   both      the plate is in a file, the rest in protected memory
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

/* The plate, and in file mode the rest, in a file.  A restart may use another name. */
static int in_file(const char *name, const char *how, int rest)
{
    char path[VELOC_MAX_NAME];
    NEED(VELOC_Route_file(name, path));
    FILE *f = fopen(path, how);
    if (!f)
        return 0;
    const int writes = *how == 'w';
    int good = CELLS == (writes ? fwrite(u, sizeof *u, CELLS, f) : fread(u, sizeof *u, CELLS, f));
    if (rest && writes)
        good &= fwrite(&step, sizeof step, 1, f) == 1 && fwrite(&change, sizeof change, 1, f) == 1;
    else if (rest)
        good &= fread(&step, sizeof step, 1, f) == 1 && fread(&change, sizeof change, 1, f) == 1;
    return fclose(f) == 0 && good;
}

static void save_file(int rest)
{
    char name[64];
    snprintf(name, sizeof name, "plates/heat_%d.dat", step);
    NEED(VELOC_Checkpoint_wait());
    NEED(VELOC_Checkpoint_begin("heat", step));
    if (!rest)
        NEED(VELOC_Checkpoint_mem());
    NEED(VELOC_Checkpoint_end(in_file(name, "w", rest)));
}

static void load_file(int version, int rest)
{
    NEED(VELOC_Restart_begin("heat", version));
    if (!rest)
        NEED(VELOC_Recover_mem());
    NEED(VELOC_Restart_end(in_file("heat.dat", "r", rest)));
}

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
    const int file = argc > 2 && strcmp(argv[2], "file") == 0;
    const int both = argc > 2 && strcmp(argv[2], "both") == 0;

    double *old = malloc(CELLS * sizeof *old);
    if (!old)
        MPI_Abort(MPI_COMM_WORLD, 1);
    u = plate_new(rank);
    if (!file) {
        NEED(VELOC_Mem_protect(0, &step, 1, sizeof step));
        NEED(VELOC_Mem_protect(1, both ? NULL : u, both ? 0 : CELLS, sizeof *u));
        NEED(VELOC_Mem_protect(2, &change, 1, sizeof change));
    }
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
        if (file || both)
            load_file(version, file);
        else
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
        if ((file || both) && step % 5 == 0)
            save_file(file);
        else if (!top && step % 5 == 0)
            save(parts);
    }
    NEED(VELOC_Finalize(1));
    plate_print(u, step, change, MPI_COMM_WORLD); /* MPI_COMM_WORLD lives until MPI_Finalize */
    free(u);
    free(old);
    MPI_Finalize();
    return 0;
}
