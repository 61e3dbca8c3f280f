/* Heat in a rod.  Each rank writes a file of its own, and SCR protects the files.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <scr.h>

#include "heat.h"

static int save(const char *path, int step, const double *u)
{
    FILE *f = fopen(path, "wb");
    if (!f)
        return 0;
    size_t items = fwrite(&step, sizeof step, 1, f) + fwrite(u, sizeof *u, CELLS + 2, f);
    return fclose(f) == 0 && items == CELLS + 3;
}

static int load(const char *path, int *step, double *u)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return 0;
    size_t items = fread(step, sizeof *step, 1, f) + fread(u, sizeof *u, CELLS + 2, f);
    return fclose(f) == 0 && items == CELLS + 3;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (SCR_Init() != SCR_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);

    int rank, flag, valid = 0, step = 0;
    char name[SCR_MAX_FILENAME], file[2 * SCR_MAX_FILENAME], path[SCR_MAX_FILENAME];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double *u = heat_new(rank);

    SCR_Have_restart(&flag, name);
    while (flag && !valid) { /* an older checkpoint, if the newest cannot be read */
        SCR_Start_restart(name);
        snprintf(file, sizeof file, "%s/rank_%d", name, rank);
        valid = SCR_Route_file(file, path) == SCR_SUCCESS && load(path, &step, u);
        valid = SCR_Complete_restart(valid) == SCR_SUCCESS;
        SCR_Have_restart(&flag, name);
    }
    if (!valid) {
        step = 0;
        heat_init(u, rank);
    }

    while (step < STEPS) {
        SCR_Need_checkpoint(&flag);
        if (flag) {
            snprintf(name, sizeof name, "step_%d", step);
            SCR_Start_output(name, SCR_FLAG_CHECKPOINT);
            snprintf(file, sizeof file, "%s/rank_%d", name, rank);
            valid = SCR_Route_file(file, path) == SCR_SUCCESS && save(path, step, u);
            SCR_Complete_output(valid);
        }
        SCR_Should_exit(&flag);
        if (flag)
            break;
        heat_step(u, MPI_COMM_WORLD);
        step++;
    }

    heat_print(u, step, MPI_COMM_WORLD);
    free(u);
    SCR_Finalize();
    MPI_Finalize();
    return 0;
}
