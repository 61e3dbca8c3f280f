/* What one attempt of `ftkit run` has told (state.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTKIT_TOOLS_STATE_H
#define FTKIT_TOOLS_STATE_H

#include "tools.h"

/* How a process ended, if not well. */
enum ftk_end_how {
    FTK_END_NONE,
    FTK_END_SIGNAL,
    FTK_END_ABORT,      /* MPI_Abort */
    FTK_END_EXIT,       /* a code other than 0 */
    FTK_END_NO_FINALIZE /* code 0 after MPI_Init and without MPI_Finalize */
};
struct ftk_end {
    enum ftk_end_how how;
    long job, rank; /* of mpirun: job 1 is that of the run */
    int sig;        /* FTK_END_SIGNAL, 0: not known */
    int code;
};
/* The exit code a run has by it, never 0. */
int ftk_end_code(const struct ftk_end *e);
/* "rank 3 of the job was killed by signal 9 (Killed)" */
void ftk_end_text(const struct ftk_end *e, char *text, size_t bytes);

/* What the library has said so far. */
struct ftk_told {
    bool opened; /* a context */
    bool repaired;
    int code; /* of a process that said so, 0: none */
    char fatal[256];
    double fatal_at;    /* 0: not seen */
    bool mistake;       /* fatal is a mistake of the program */
    char hopeless[512]; /* what a relaunch would meet again, "": nothing was told */
    uint64_t set;       /* newest durable one, 0: none */
    int nsets;          /* such sets */
};

struct ftk_state; /* of one attempt */
/* Make the file; NULL after a message. */
struct ftk_state *ftk_state_begin(const char *path, bool verbose);
void ftk_state_end(struct ftk_state *s);
/* Take in the lines that came since the last call. */
void ftk_state_read(struct ftk_state *s);
bool ftk_state_is_open(const struct ftk_state *s); /* some context is */
const struct ftk_told *ftk_state_told(const struct ftk_state *s);
/* The first process that ended badly since a context was last opened, repaired or closed;
 * NULL: none did, or mpirun does not tell. */
const struct ftk_end *ftk_state_first(const struct ftk_state *s);
/* Processes of the job whose end mpirun has told; those that ended well on its node only.
 */
int ftk_state_ends(const struct ftk_state *s);

#endif
