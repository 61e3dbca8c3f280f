/* Processes that end badly while a job runs.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTKIT_TOOLS_ENDS_H
#define FTKIT_TOOLS_ENDS_H

#include "state.h"

struct ftk_ends { /* of one attempt; zero at its begin */
    struct ftk_end seen, doubted;
    double seen_at; /* of the first bad end, 0: there is none */
    bool reported;
};

/* Look at how processes have ended, and say what the user should know.  Return whether a process
 * has called MPI_Abort, which ends the job: mpirun with fault tolerance does not end it. */
bool ftk_ends_look(struct ftk_ends *e, const struct ftk_state *s);

#endif
