/* MPI_Init and MPI_Finalize of a program that was linked with --wrap (see early.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/compat.h"
#include "early.h"

#define EXPORTED __attribute__((visibility("default")))

EXPORTED int ftk_compat_mpi_init(int *argc, char ***argv) __asm__("__wrap_MPI_Init");
EXPORTED int ftk_compat_mpi_init_thread(
    int *argc, char ***argv, int required, int *provided) __asm__("__wrap_MPI_Init_thread");
EXPORTED int ftk_compat_mpi_finalize(void) __asm__("__wrap_MPI_Finalize");

int ftk_compat_mpi_init(int *argc, char ***argv)
{
    const int rc = MPI_Init(argc, argv);
    if (rc == MPI_SUCCESS)
        ftk_compat_open_early();
    return rc;
}

int ftk_compat_mpi_init_thread(int *argc, char ***argv, int required, int *provided)
{
    const int rc = MPI_Init_thread(argc, argv, required, provided);
    if (rc == MPI_SUCCESS)
        ftk_compat_open_early();
    return rc;
}

/* The program may write its results after MPI_Finalize, so only its exit code reports an error. */
static void fail_exit(int status, void *arg)
{
    (void)arg;
    if (status != 0)
        return;
    fflush(NULL);
    _exit(EXIT_FAILURE);
}

int ftk_compat_mpi_finalize(void)
{
    if (ftk_compat_close() < 0) /* a line has said what is missing */
        (void)on_exit(fail_exit, NULL);
    return MPI_Finalize();
}
