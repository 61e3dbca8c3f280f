/* A program whose ranks have their results only behind ftkit_close: rank R writes PATH.R, once.
 * From step 10, which passes app.tail, it calls ftkit_scrub, ftkit_wait, ftkit_finish and
 * ftkit_close.  It passes app.closed with the result written, before MPI_Finalize.
 *
 *   behind PATH [HOW]     HOW: close (default); segv, kill, abort: all ranks end so in step 12,
 *                         in every attempt; halt: rank 1 asks for a halt in step 12; forget: no
 *                         ftkit_close; leave: nor MPI_Finalize; bottom: ftkit_checkpoint stands
 *                         behind the step
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/ftk.h"
#include "ftkit.h"

static int ends_at_12(const char *how)
{
    return strcmp(how, "segv") == 0    ? SIGSEGV
           : strcmp(how, "kill") == 0  ? SIGKILL
           : strcmp(how, "abort") == 0 ? SIGABRT
           : strcmp(how, "halt") == 0  ? SIGUSR2
                                       : 0;
}

static int ends(int rc)
{
    return rc == FTKIT_HALT || FTKIT_FATAL(rc);
}

/* What the calls of the tail return: 0: go on, 1: the state is an earlier one, 2: leave. */
static int tail(ftkit_ctx *ft, int step)
{
    int bad = 0, rc = FTKIT_OK;
    if (step == 10) {
        (void)FTK_FAULT("app.tail");
        rc = ftkit_scrub(ft, &bad);
    } else if (step == 15) {
        rc = ftkit_wait(ft);
    }
    return rc == FTKIT_ROLLED_BACK ? 1 : ends(rc) ? 2 : 0;
}

static void end_here(int sig, int rank, MPI_Comm comm)
{
    if (sig == SIGUSR2 && rank == 1)
        raise(sig);
    else if (sig && sig != SIGUSR2) {
        MPI_Barrier(comm);
        raise(sig);
    }
}

static int compute(
    ftkit_ctx *ft, const int *rank, const MPI_Comm *comm, int sig, int bottom, long *x)
{
    int step = 0, next;
    ftkit_register_replicated(ft, "step", &step, 1, MPI_INT);
    ftkit_register(ft, "x", x, 1, MPI_LONG);
    if (ftkit_recover(ft, NULL) < 0)
        return 1;
    for (;;) {
        long sum = 0;
        if (!bottom && ends(ftkit_checkpoint(ft)))
            return 1;
        if (step >= 20) {
            int rc = ftkit_finish(ft);
            if (rc == FTKIT_ROLLED_BACK)
                continue;
            return rc != FTKIT_OK;
        }
        if ((next = tail(ft, step)) == 1)
            continue;
        if (next == 2)
            return 1;
        MPI_Allreduce(x, &sum, 1, MPI_LONG, MPI_SUM, *comm);
        if (step == 12)
            end_here(sig, *rank, *comm);
        *x = (*x * 3 + sum + *rank) % 1000003;
        step++;
        if (bottom && ends(ftkit_checkpoint(ft)))
            return 1;
    }
}

int main(int argc, char **argv)
{
    const char *how = argc > 2 ? argv[2] : "close";
    MPI_Init(&argc, &argv);
    ftkit_ctx *ft;
    MPI_Comm comm;
    int rank = 0;
    if (argc < 2 || ftkit_open(MPI_COMM_WORLD, NULL, &ft) != FTKIT_OK)
        return 1;
    ftkit_bind_comm(ft, &comm);
    MPI_Comm_rank(comm, &rank);
    long x = rank + 1;
    int bad = compute(ft, &rank, &comm, ends_at_12(how), strcmp(how, "bottom") == 0, &x);
    if (strcmp(how, "leave") == 0)
        exit(0);
    if (strcmp(how, "forget") != 0 && ftkit_close(&ft) != FTKIT_OK)
        bad = 1;
    if (!bad) {
        char path[4096];
        snprintf(path, sizeof path, "%s.%d", argv[1], rank);
        FILE *f = fopen(path, "w");
        bad = !f || fprintf(f, "%d %ld\n", rank, x) < 0;
        bad |= f && fclose(f) != 0;
    }
    (void)FTK_FAULT("app.closed");
    MPI_Finalize();
    return bad;
}
