/* A program whose ranks have their results only behind ftkit_close: rank R writes PATH.R, once.
 *
 *   behind PATH [HOW]     HOW: close (default); segv, kill, abort: all ranks end so in step 12,
 *                         in every attempt; forget: no ftkit_close; leave: nor MPI_Finalize
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ftkit.h"

static int ends_at_12(const char *how)
{
    return strcmp(how, "segv") == 0    ? SIGSEGV
           : strcmp(how, "kill") == 0  ? SIGKILL
           : strcmp(how, "abort") == 0 ? SIGABRT
                                       : 0;
}

static int compute(ftkit_ctx *ft, const int *rank, const MPI_Comm *comm, int sig, long *x)
{
    int step = 0, bad = 0;
    ftkit_register_replicated(ft, "step", &step, 1, MPI_INT);
    ftkit_register(ft, "x", x, 1, MPI_LONG);
    if (ftkit_recover(ft, NULL) < 0)
        return 1;
    for (;;) {
        long sum = 0;
        int rc = ftkit_checkpoint(ft);
        if (rc < -39)
            return 1;
        if (step >= 20) {
            rc = ftkit_finish(ft);
            if (rc == FTKIT_ROLLED_BACK)
                continue;
            return rc != FTKIT_OK;
        }
        if (step == 10 && (rc = ftkit_scrub(ft, &bad)) == FTKIT_ROLLED_BACK)
            continue;
        if (step == 15 && (rc = ftkit_wait(ft)) == FTKIT_ROLLED_BACK)
            continue;
        MPI_Allreduce(x, &sum, 1, MPI_LONG, MPI_SUM, *comm);
        if (step == 12 && sig) {
            MPI_Barrier(*comm);
            raise(sig);
        }
        *x = (*x * 3 + sum + *rank) % 1000003;
        step++;
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
    int bad = compute(ft, &rank, &comm, ends_at_12(how), &x);
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
    MPI_Finalize();
    return bad;
}
