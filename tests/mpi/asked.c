/* Lines apart, and a rank asks for a halt or for a set.
 *
 *   asked CALL late|soon
 *
 * The set of the halt is committed inside a call of MPI, and the program calls ftkit_finish(),
 * ftkit_wait(), ftkit_scrub() or ftkit_close() next.
 * late: the last step ends with the failure of its communication, so the halt is known.  soon: it
 * ends behind a few messages; then the set may be committed in the call.  A rank that is not told
 * the halt must have the right sum.
 *
 *   asked set RANK
 *
 * The rank asks for a set, and the program goes on until the set is committed, or for too long.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ftkit.h"

enum { STEPS = 6, ASK = 4, ROUNDS = 50, MOST = 10000000, STEPS_AT_MOST = 20000 };

static struct {
    ftkit_ctx *ft;
    MPI_Comm comm;
    int rank, size, step;
    long sum;
} g;

static bool exchange(int value)
{
    const int left = (g.rank + g.size - 1) % g.size;
    int x = g.rank + value;
    if (MPI_Sendrecv_replace(
            &x, 1, MPI_INT, (g.rank + 1) % g.size, 1, left, 1, g.comm, MPI_STATUS_IGNORE)
        != MPI_SUCCESS)
        return false;
    g.sum += x - left;
    return true;
}

/* Rank 0 asks in the middle of a step, where the others have called ftkit_checkpoint() already: so
 * they cut in the next step. */
static void step(void)
{
    for (int k = 0; k < ROUNDS; k++) {
        if (g.rank == 0 && g.step == ASK && k == ROUNDS / 2) {
            ftkit_info info = { .size = sizeof info };
            for (int i = 0; i < MOST && info.line_open == 0; i++) {
                if (i == 0)
                    (void)raise(SIGUSR2);
                (void)ftkit_checkpoint(g.ft);
                (void)ftkit_query(g.ft, &info);
            }
        }
        (void)exchange(g.step);
    }
}

static int call(const char *which)
{
    if (strcmp(which, "wait") == 0)
        return ftkit_wait(g.ft);
    if (strcmp(which, "scrub") == 0)
        return ftkit_scrub(g.ft, NULL);
    return strcmp(which, "finish") == 0 ? ftkit_finish(g.ft) : ftkit_close(&g.ft);
}

static int run(const char *which, bool late)
{
    int rc = FTKIT_OK;
    for (; g.step < STEPS; g.step++) {
        rc = ftkit_checkpoint(g.ft);
        if (rc < 0 || rc == FTKIT_HALT)
            return rc;
        step();
    }
    for (int k = 0; late && k < MOST && exchange(0); k++)
        continue;
    return call(which);
}

/* The sets are counted by all ranks together, so that all leave the loop in the same step. */
static int run_to_set(int asks)
{
    int least = 0;
    for (bool asked = false; least < 2 && g.step < STEPS_AT_MOST; g.step++) {
        ftkit_info info = { .size = sizeof info };
        const int rc = ftkit_checkpoint(g.ft);
        if (rc < 0)
            return rc;
        if (g.rank == asks && g.step >= ASK && !asked) {
            asked = true;
            (void)ftkit_request(g.ft, 0);
        }
        (void)ftkit_query(g.ft, &info);
        int mine = info.committed >= 2 ? 2 : 1;
        MPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, g.comm);
    }
    printf("%s rank %d: %d steps\n", least < 2 ? "BAD" : "OK", g.rank, g.step);
    return least < 2 ? FTKIT_ERR_STATE : ftkit_finish(g.ft);
}

static int asks_for_halt(const char *which, bool late)
{
    const int rc = run(which, late);
    const long right = (long)ROUNDS * STEPS * (STEPS - 1) / 2;
    const bool bad = rc < 0 || (rc == FTKIT_OK && (late || g.sum != right));
    printf("%s rank %d: %d (%s), sum %ld of %ld\n", bad ? "BAD" : "OK", g.rank, rc,
        ftkit_strerror(rc), g.sum, right);
    return bad ? FTKIT_ERR_STATE : FTKIT_OK;
}

int main(int argc, char **argv)
{
    if (argc != 3 || MPI_Init(&argc, &argv) != MPI_SUCCESS)
        return 1;
    if (ftkit_open(MPI_COMM_WORLD, NULL, &g.ft) != FTKIT_OK) {
        printf("detail: %s\n", ftkit_detail(NULL));
        MPI_Finalize();
        return 1;
    }
    ftkit_bind_comm(g.ft, &g.comm);
    MPI_Comm_rank(g.comm, &g.rank);
    MPI_Comm_size(g.comm, &g.size);
    ftkit_register(g.ft, "step", &g.step, 1, MPI_INT);
    ftkit_register(g.ft, "sum", &g.sum, 1, MPI_LONG);
    (void)ftkit_recover(g.ft, NULL);
    const int rc = strcmp(argv[1], "set") == 0
                       ? run_to_set(atoi(argv[2]))
                       : asks_for_halt(argv[1], strcmp(argv[2], "late") == 0);
    const int closed = g.ft ? ftkit_close(&g.ft) : FTKIT_OK;
    MPI_Finalize();
    return rc < 0 || closed < 0;
}
