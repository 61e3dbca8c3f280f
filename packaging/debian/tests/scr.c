/* The calls of SCR.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _POSIX_C_SOURCE 200809L
#include <scr.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int size, flag;
    char path[SCR_MAX_FILENAME];
    if (argc < 2 || setenv("SCR_CONF_FILE", argv[1], 1) != 0)
        return 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int good = size == 2 && SCR_Init() == SCR_SUCCESS
               && SCR_Have_restart(&flag, NULL) == SCR_SUCCESS && flag == 0
               && SCR_Start_checkpoint() == SCR_SUCCESS
               && SCR_Route_file("sets/file", path) == SCR_SUCCESS;
    FILE *f = good ? fopen(path, "w") : NULL;
    good = f && fclose(f) == 0 && SCR_Complete_checkpoint(1) == SCR_SUCCESS
           && SCR_Finalize() == SCR_SUCCESS;
    MPI_Finalize();
    return !good;
}
