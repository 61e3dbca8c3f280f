/* Places of a program where a PE kills itself.  KILLS=PE STEP PLACE...: this PE ends in this step
 * at the so many-th place.  With END=exit it ends by exit().
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef KILLS_H
#define KILLS_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <shmem.h>

static int places; /* passed in this step; the program sets it */

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
        if (f)
            raise(SIGKILL);
    }
}

#endif
