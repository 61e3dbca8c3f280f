/* Heat on a plate, as a program for SCR: scr_heat CONFIG [top|output|clock|careless|misfit|away]
 *
 *   top       the checkpoint stands at the top of the loop
 *   output    each second checkpoint is an output, too; and step 30 has an output alone
 *   clock     a clock says when, and not the number of calls
 *   careless  without a restart
 *   misfit    the program cannot use its files
 *   away      the files of the checkpoint of step 15 cannot be written
 *
 * Each rank writes two files, one of them in a directory.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _POSIX_C_SOURCE 200809L /* nanosleep() */
#include <scr.h>

#include "plate.h"

#define NEED(call) plate_need((call) == SCR_SUCCESS, #call)

static int rank, step, restarted;
static double *u, change = 1;

struct file {
    char path[SCR_MAX_FILENAME];
};

static struct file route(const char *dataset, const char *what)
{
    char name[2 * SCR_MAX_FILENAME];
    const char *const prefix = getenv("SCR_PREFIX");
    struct file f;
    snprintf(name, sizeof name, "%s/%s/%s_%d", prefix ? prefix : ".", dataset, what, rank);
    NEED(SCR_Route_file(name, f.path));
    return f;
}

static int put(struct file file, const void *data, size_t bytes)
{
    FILE *f = fopen(file.path, "wb");
    const int good = f && fwrite(data, bytes, 1, f) == 1;
    return (f && fclose(f) == 0) && good;
}

static int get(struct file file, void *data, size_t bytes)
{
    FILE *f = fopen(file.path, "rb");
    const int good = f && fread(data, bytes, 1, f) == 1;
    return (f && fclose(f) == 0) && good;
}

static void save(int flags)
{
    char name[SCR_MAX_FILENAME];
    snprintf(name, sizeof name, "step_%d", step);
    NEED(SCR_Start_output(name, flags));
    double head[2] = { step, change };
    const int valid = put(route(name, "head"), head, sizeof head)
                      && put(route(name, "cells/u"), u, CELLS * sizeof *u);
    NEED(SCR_Complete_output(valid));
}

static int load(int misfit)
{
    char name[SCR_MAX_FILENAME];
    double head[2] = { 0 };
    int flag;
    NEED(SCR_Have_restart(&flag, name));
    if (!flag)
        return 0;
    NEED(SCR_Start_restart(name));
    int valid = get(route(name, "head"), head, sizeof head)
                && get(route(name, "cells/u"), u, CELLS * sizeof *u) && !misfit;
    NEED(SCR_Complete_restart(valid));
    NEED(SCR_Have_restart(&flag, name));
    step = (int)head[0];
    change = head[1];
    restarted = 1;
    printf("rank %d restarts at step %d\n", rank, step);
    if (flag || step != atoi(name + 5))
        exit(2);
    return 1;
}

/* Whether the loop goes on. */
static int checkpoint(const char *mode)
{
    const int output = strcmp(mode, "output") == 0, clock = strcmp(mode, "clock") == 0;
    int flag;
    NEED(SCR_Need_checkpoint(&flag)); /* SCR_CHECKPOINT_INTERVAL = 5 */
    if (!clock && !restarted && flag != (step % 5 == 0)) {
        fprintf(stderr, "step %d: SCR_Need_checkpoint says %d\n", step, flag);
        exit(2);
    }
    if (flag)
        save(SCR_FLAG_CHECKPOINT | (output && step % 10 == 0 ? SCR_FLAG_OUTPUT : 0));
    if (output && step == 30)
        save(SCR_FLAG_OUTPUT);
    NEED(SCR_Should_exit(&flag));
    return !flag;
}

int main(int argc, char **argv)
{
    int size, everyone = 1, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&everyone, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); /* set-up before Init */
    if (argc < 2 || sum != size || SCR_Init() != SCR_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);
    const char *const mode = argc > 2 ? argv[2] : "";
    const int top = strcmp(mode, "top") == 0;
    const int away = strcmp(mode, "away") == 0 && rank == 0;
    double *old = malloc(CELLS * sizeof *old);
    if (!old)
        MPI_Abort(MPI_COMM_WORLD, 1);
    u = plate_new(rank);
    if (strcmp(mode, "careless") != 0)
        (void)load(strcmp(mode, "misfit") == 0);
    int runs = 1;
    while (runs && step < STEPS) {
        if (top && step > 0)
            runs = checkpoint(mode);
        if (away && step == 13)
            plate_files(argv[1], 1);
        double mine = plate_step(u, old, MPI_COMM_WORLD);
        MPI_Allreduce(&mine, &change, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        step++;
        if (away && step == 19)
            plate_files(argv[1], 0);
        if (!top)
            runs = checkpoint(mode);
    }
    NEED(SCR_Finalize());
    if (runs)
        plate_print(u, step, change, MPI_COMM_WORLD); /* until MPI_Finalize */
    free(u);
    free(old);
    MPI_Finalize();
    return 0;
}
