/* A program that has an error handler on MPI_COMM_WORLD: the handler is there again when the
 * context is closed, also in a replacement.  Each process prints "handler: kept" or "handler:
 * lost".
 *
 *   handlers own|fatal
 *
 * own: a handler of the program; fatal: the one that MPI sets.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include "core/ftk.h"

static void handle(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
}

int main(int argc, char **argv)
{
    ftkit_ctx *ft = NULL;
    MPI_Errhandler set = MPI_ERRORS_ARE_FATAL, now = MPI_ERRHANDLER_NULL;
    int x = 0;
    MPI_Init(&argc, &argv);
    if (argc > 1 && strcmp(argv[1], "own") == 0)
        MPI_Comm_create_errhandler(handle, &set);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, set);
    int rc = ftkit_open(MPI_COMM_WORLD, NULL, &ft);
    if (rc == FTKIT_OK)
        rc = ftkit_register(ft, "x", &x, 1, MPI_INT);
    if (rc == FTKIT_OK)
        rc = ftkit_recover(ft, NULL);
    for (; rc >= 0 && x < 30; x++) {
        rc = ftkit_checkpoint(ft);
        (void)FTK_FAULT("app.step");
    }
    const int closed = ftkit_close(&ft);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &now);
    printf("handler: %s\n", now == set ? "kept" : "lost");
    fflush(stdout);
    MPI_Finalize();
    return rc < 0 || closed < 0;
}
