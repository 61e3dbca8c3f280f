/* A loop in which ranks are lost in different ways; each rank then says who was lost, and why.
 *
 *   failed RANK HOW [RANK HOW ...]
 *
 * The first process of a rank is lost in step 5.  HOW:
 *   NUMBER    a signal; with x behind it the substitute is lost, too, before the next set; with y
 *             after that set
 *   exit      exit(3); quick: quick_exit(4); _exit: _exit(0); _exit3: _exit(3)
 *   stop      the process stands still
 *   abort     ftkit_abort() with 7, when the loss of another rank is known
 *   wait      for a signal from outside; the file pid.RANK has the process
 *
 *   LOST rank: n losses: rank/incarnation/reason/code ...
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ftkit.h"

enum { STEPS = 12, LOSS = 5, ROOM = 16 };

static void die(const char *how)
{
    if (strcmp(how, "exit") == 0)
        exit(3);
    if (strcmp(how, "quick") == 0)
        quick_exit(4);
    if (strcmp(how, "_exit") == 0)
        _exit(0);
    if (strcmp(how, "_exit3") == 0)
        _exit(3);
    if (strcmp(how, "stop") == 0)
        (void)raise(SIGSTOP);
    else
        (void)raise(atoi(how));
}

/* Write the process id of this rank for a test that kills it, and wait for that. */
static void await(int rank)
{
    char name[32];
    (void)snprintf(name, sizeof name, "pid.%d", rank);
    FILE *f = fopen(name, "w");
    if (!f || fprintf(f, "%d\n", (int)getpid()) < 0 || fclose(f) != 0)
        abort();
    for (;;)
        (void)pause();
}

/* Whether this process is to be lost in this step. */
static bool is_due(const char *how, const ftkit_info *i, int step)
{
    const char last = how[strlen(how) - 1];
    if (i->incarnation == 0)
        return step == LOSS && strcmp(how, "abort") != 0;
    return i->incarnation == 1 && ((last == 'x' && step == LOSS) || (last == 'y' && step > LOSS));
}

/* What this process has to do in this step. */
static void maybe_die(int born, const ftkit_info *i, int step, int argc, char **argv)
{
    for (int k = 1; k + 1 < argc; k += 2) {
        if (atoi(argv[k]) != born || !is_due(argv[k + 1], i, step))
            continue;
        if (strcmp(argv[k + 1], "wait") == 0)
            await(i->rank);
        die(argv[k + 1]);
    }
}

/* Nothing depends on the communicator: the job may shrink. */
static int on_repair(ftkit_ctx *ft, MPI_Comm comm, void *arg)
{
    (void)ft;
    (void)comm;
    (void)arg;
    return 0;
}

/* A rank that gives up because it does not get its data. */
static void maybe_abort(ftkit_ctx *ft, const ftkit_info *i, int argc, char **argv)
{
    for (int k = 1; k + 1 < argc; k += 2)
        if (atoi(argv[k]) == i->rank && strcmp(argv[k + 1], "abort") == 0 && i->incarnation == 0
            && ftkit_confirm(ft))
            (void)ftkit_abort(MPI_COMM_WORLD, 7);
}

static int say(const ftkit_ctx *ft, int rank)
{
    ftkit_failure list[ROOM];
    char text[512];
    int n = 0, at = 0, all = ROOM;
    if (ftkit_failures(ft, NULL, &n) != FTKIT_OK || ftkit_failures(ft, list, &all) != FTKIT_OK
        || n != all || n > ROOM)
        return 1;
    for (int i = 0; i < n; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, " %d/%d/%d/%d", list[i].rank,
            list[i].incarnation, list[i].reason, list[i].code);
    text[at] = '\0';
    printf("\nLOST %d: %d losses:%s\n", rank, n, text);
    return fflush(stdout);
}

int main(int argc, char **argv)
{
    ftkit_ctx *ft;
    MPI_Comm comm;
    ftkit_info info = { .size = sizeof info };
    int step = 0, rc, bad = 0, born = -1; /* its rank at first: a shrink changes it */
    MPI_Init(&argc, &argv);
    if (ftkit_open(MPI_COMM_WORLD, NULL, &ft) != FTKIT_OK || ftkit_bind_comm(ft, &comm) != FTKIT_OK
        || ftkit_register_replicated(ft, "step", &step, 1, MPI_INT) != FTKIT_OK
        || ftkit_on_repair(ft, on_repair, NULL) != FTKIT_OK || ftkit_recover(ft, NULL) < 0)
        return 2;
    while (step < STEPS && !bad) {
        double mine = step, sum = 0;
        bad |= ftkit_query(ft, &info);
        born = born < 0 ? info.rank : born;
        maybe_die(born, &info, step, argc, argv);
        if (MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, comm) != MPI_SUCCESS)
            maybe_abort(ft, &info, argc, argv);
        step++;
        rc = ftkit_checkpoint(ft);
        bad |= rc < 0 || (rc == FTKIT_ROLLED_BACK && say(ft, info.rank));
    }
    bad |= ftkit_finish(ft) < 0 || say(ft, info.rank);
    rc = ftkit_close(&ft);
    MPI_Finalize();
    return bad || rc != FTKIT_OK;
}
