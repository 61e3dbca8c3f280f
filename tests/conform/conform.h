/* Programs that hold ftkit to the rules of the MPI standard.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * tests/conform.t runs every tests/conform/NAME.c without ftkit, with the message log and a
 * team for each rank, and with the message log and one team.  The head comment of a program
 * has a line "ranks: 2 4" with the numbers of ranks, perhaps a line "teams: all" (the program runs
 * with log.teams = all, too), and names the rules and the sections of MPI 4.0 they come from.
 * main() is
 *
 *     int main(int argc, char **argv)
 *     {
 *         return conform(argc, argv, body);
 *     }
 *
 * before_open() may make objects that the log does not own.  body() uses MPI_COMM_WORLD, me and n,
 * and compares with EQUAL, TRUE and OK of check.h. */
#ifndef CONFORM_H
#define CONFORM_H

#include "check.h"
#include "overlog.h"

static void (*before_open)(void); /* NULL: nothing; called behind MPI_Init */

static int conform(int argc, char **argv, void (*body)(void))
{
    ftkit_ctx *ft;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &me));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &n));
    if (before_open)
        before_open();
    EQUAL(0, overlog_open(&ft) < 0);
    body();
    if (ft) {
        EQUAL(FTKIT_OK, ftkit_finish(ft));
        EQUAL(FTKIT_OK, ftkit_close(&ft));
    }
    if (me == 0)
        printf("OK %ld\n", checks);
    OK(MPI_Finalize());
    return 0;
}

#endif
