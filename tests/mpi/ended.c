/* A program that goes on calling after its context has ended: every call says so by the same
 * code and the same words, and close says why.  Prints "ended: same" on rank 0.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include "core/ftk.h"

static int bad(const char *call, int rc, const char *detail, const char *first)
{
    if (rc == FTKIT_ERR_ENDED && strcmp(detail, first) == 0
        && strncmp(first, "the context has ended: ", 23) == 0)
        return 0;
    printf("%s: %d, %s; at first: %s\n", call, rc, detail, first);
    return 1;
}

/* Every call that would do something, twice. */
static int call_on(ftkit_ctx *ft)
{
    char first[512];
    int wrong = 0, n = 0, x = 0;
    uint64_t set = 0;
    ftkit_info info = { .size = sizeof info };
    snprintf(first, sizeof first, "%s", ftkit_detail(ft));
    for (int i = 0; i < 2; i++) {
        wrong += bad("checkpoint", ftkit_checkpoint(ft), ftkit_detail(ft), first);
        wrong += bad("wait", ftkit_wait(ft), ftkit_detail(ft), first);
        wrong += bad("scrub", ftkit_scrub(ft, &n), ftkit_detail(ft), first);
        wrong += bad("finish", ftkit_finish(ft), ftkit_detail(ft), first);
        wrong += bad("recover", ftkit_recover(ft, &set), ftkit_detail(ft), first);
        wrong += bad("request", ftkit_request(ft, 0), ftkit_detail(ft), first);
        wrong += bad("register", ftkit_register(ft, "y", &x, 1, MPI_INT), ftkit_detail(ft), first);
        wrong += bad("on_repair", ftkit_on_repair(ft, NULL, NULL), ftkit_detail(ft), first);
        wrong += bad("track", ftkit_track_comm(ft, MPI_COMM_SELF), ftkit_detail(ft), first);
    }
    if (ftkit_query(ft, &info) != FTKIT_OK || ftkit_query(ft, NULL) != FTKIT_ERR_ARG) {
        printf("query\n");
        wrong++;
    }
    return wrong + bad("query", FTKIT_ERR_ENDED, ftkit_detail(ft), first);
}

int main(int argc, char **argv)
{
    ftkit_ctx *ft = NULL;
    int x = 0, rc;
    MPI_Init(&argc, &argv);
    rc = ftkit_open(MPI_COMM_WORLD, NULL, &ft);
    if (rc == FTKIT_OK)
        rc = ftkit_register(ft, "x", &x, 1, MPI_INT);
    if (rc == FTKIT_OK)
        rc = ftkit_recover(ft, NULL);
    for (x = 0; rc >= 0 && x < 100000; x++) {
        rc = ftkit_checkpoint(ft);
        (void)FTK_FAULT("app.step");
    }
    int wrong = rc == FTKIT_ERR_PEER ? call_on(ft) : 1;
    int rank = -1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int closed = ftkit_close(&ft);
    if (rank == 0)
        printf("ended: %d, %d, %s\n", rc, closed, wrong == 0 ? "same" : "not the same");
    fflush(stdout);
    MPI_Finalize();
    return wrong != 0;
}
