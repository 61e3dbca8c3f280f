/* Places of a program where a PE kills itself.  KILLS=PE STEP PLACE...: this PE ends in this step
 * at the so many-th place.  With END=exit it ends by exit().  PEs that end in the same step and at
 * the same place end at once.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef KILLS_H
#define KILLS_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <shmem.h>

static int places; /* passed in this step; the program sets it */

/* Wait until all PEs that end in this step and at this place are there. */
static inline void wait_for_others(const char *text, int step)
{
    char mark[512];
    int pe, in, at, used;
    for (int i = 0; sscanf(text, "%d %d %d%n", &pe, &in, &at, &used) == 3; i++) {
        text += used;
        snprintf(mark, sizeof mark, "killed%d", i);
        while (in == step && at == places && access(mark, F_OK) != 0)
            usleep(1000);
    }
}

/* A file says that a kill has been.  Nothing of this is in a variable, because all variables are
 * restored, in a substitute those of another process. */
static void place(int step)
{
    const char *text = getenv("KILLS");
    char mark[512];
    int pe, in, at, used;
    places++;
    for (int i = 0; text && sscanf(text, "%d %d %d%n", &pe, &in, &at, &used) == 3; i++) {
        text += used;
        if (pe != shmem_my_pe() || in != step || at != places)
            continue;
        snprintf(mark, sizeof mark, "killed%d", i);
        FILE *f = fopen(mark, "wx"); /* once */
        if (f && fclose(f) == 0 && getenv("END"))
            exit(3);
        if (f) {
            wait_for_others(getenv("KILLS"), step);
            raise(SIGKILL);
        }
    }
}

/* A checkpoint has found lost PEs: substitutes take their places.  Returns when all are back. */
static inline void restart_lost(int step)
{
    int *pes, *why;
    size_t n;
    shmem_query_fault(&pes, &why, &n);
    place(step);
    shmem_restart_pes(pes, n);
    place(step);
    shmem_barrier_all();
    for (size_t i = 0; shmem_my_pe() == 0 && i < n; i++)
        printf("lost %d %d\n", pes[i], why[i]);
    free(pes);
    free(why);
}

#endif
