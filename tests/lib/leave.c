/* LD_PRELOAD: a process is lost inside of the last call of a library with the calls of others, such
 * as FTI_Finalize(), which calls ftkit_finish() and ftkit_close().
 *
 *   FTKIT_TEST_LEAVE=RANK:before|between|after:FILE  the first process with this rank of
 *       MPI_COMM_WORLD kills itself before the first of them, between them, or after the second,
 *       and makes the file
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ftkit.h"

static void leave(const char *now)
{
    char when[16], file[PATH_MAX];
    int victim;
    const char *what = getenv("FTKIT_TEST_LEAVE"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (!what || !rank || sscanf(what, "%d:%15[^:]:%4000s", &victim, when, file) != 3)
        return;
    if (atoi(rank) != victim || strcmp(when, now) != 0)
        return;
    if (open(file, O_CREAT | O_EXCL | O_WRONLY, 0600) >= 0) /* not the replacement */
        kill(getpid(), SIGKILL);
}

/* The function of the library; without it a test could not go on. */
static void *next(const char *name)
{
    void *f = dlsym(RTLD_NEXT, name);
    if (!f)
        abort();
    return f;
}

FTKIT_API int ftkit_finish(ftkit_ctx *ctx)
{
    int (*finish)(ftkit_ctx *);
    *(void **)&finish = next("ftkit_finish");
    leave("before");
    int rc = finish(ctx);
    leave("between");
    return rc;
}

FTKIT_API int ftkit_close(ftkit_ctx **ctx)
{
    int (*close_it)(ftkit_ctx **);
    *(void **)&close_it = next("ftkit_close");
    int rc = close_it(ctx);
    leave("after");
    return rc;
}
