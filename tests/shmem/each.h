/* Mistakes of a program one after another in one job: the call that ends the job is replaced.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTKIT_TESTS_SHMEM_EACH_H
#define FTKIT_TESTS_SHMEM_EACH_H

#include <dlfcn.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <mpi.h>

static jmp_buf next_mistake;
static bool is_each;

int ftkit_abort(MPI_Comm comm, int code);

/* The library calls this function in place of its own.  Outside of ends_job() it ends the job. */
int ftkit_abort(MPI_Comm comm, int code)
{
    int (*real)(MPI_Comm, int);
    if (is_each)
        longjmp(next_mistake, 1);
    *(void **)(void *)&real = dlsym(RTLD_NEXT, "ftkit_abort");
    return real ? real(comm, code) : MPI_Abort(comm, code);
}

/* Whether the mistake wants to end the job.  Its name stands in front of its text. */
static inline bool ends_job(void (*mistake)(const char *), const char *name)
{
    fprintf(stderr, "mistake %s\n", name);
    is_each = true;
    const bool ended = setjmp(next_mistake) != 0;
    if (!ended)
        mistake(name);
    is_each = false;
    return ended;
}

#endif
