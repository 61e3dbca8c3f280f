/* Facts that the library and mpirun have written during one attempt of `ftkit run` (state.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTKIT_TOOLS_STATE_H
#define FTKIT_TOOLS_STATE_H

#include "tools.h"

/* As mpirun numbers jobs: its daemons are 0, the processes of the run 1, spawned ones 2 and up. */
#define FTK_END_MAIN_JOB 1

/* ---- end.c: the end of one process ------------------------------------------------------ */
/* How a process ended; FTK_END_NONE: normally, or not known. */
enum ftk_end_how {
    FTK_END_NONE,
    FTK_END_SIGNAL,
    FTK_END_ABORT,      /* MPI_Abort */
    FTK_END_EXIT,       /* a code other than 0 */
    FTK_END_NO_FINALIZE /* any code, after MPI_Init and without MPI_Finalize */
};
struct ftk_end {
    enum ftk_end_how how;
    long job, rank; /* as mpirun numbers them */
    int sig;        /* FTK_END_SIGNAL, 0: not known */
    int code;
};
/* The exit code of the run after this end of a process; never 0. */
int ftk_end_code(const struct ftk_end *e);
/* "rank 3 of the job was killed by signal 9 (Killed)" */
void ftk_end_text(const struct ftk_end *e, char *text, size_t bytes);
/* Whether both are of one process; the end of the process of e among n, NULL: none; one more. */
bool ftk_end_same(const struct ftk_end *a, const struct ftk_end *b);
struct ftk_end *ftk_end_find(struct ftk_end *v, size_t n, const struct ftk_end *e);
void ftk_end_add(struct ftk_end **v, size_t *n, size_t *room, const struct ftk_end *e);
/* ... the process of the text "JOB RANK". */
void ftk_end_take(const char *text, struct ftk_end **v, size_t *n, size_t *room);

/* ---- state.c ----------------------------------------------------------------------------- */
/* Facts that the library and mpirun have written so far. */
struct ftk_state_facts {
    bool met;    /* the processes, to open a context */
    bool opened; /* a context */
    bool repaired;
    int code; /* exit code that a process has announced, 0: none */
    char fatal[256];
    double fatal_at;    /* time of the fatal error, 0: none */
    bool unclosed;      /* the program has ended well, and has not closed its context */
    bool mistake;       /* fatal is a mistake of the program */
    bool lacking;       /* fatal: processes are lost before a context was opened */
    char hopeless[512]; /* error that every relaunch would meet again; "": none */
    char busy[512];     /* why the sets cannot be used now; "": they can */
    bool differ;        /* replicas differ before the first set */
    bool again;         /* the same rank has died at the same call again and again */
    double halted_at;   /* time of the halt, 0: none */
    uint64_t halted;    /* durable set of the halt, 0: none */
    uint64_t set;       /* newest durable set, 0: none */
    int nsets;          /* number of sets that have become durable */
    bool ordered;       /* mpirun has sent its daemons the order to start the processes */
    long mpirun;        /* its process number, as its lines say, 0: not known */
    bool early_loss;    /* mpirun has survived the loss of a node before the processes have met */
};

struct ftk_state; /* of one attempt */
/* Make the file; NULL after a message. */
struct ftk_state *ftk_state_begin(const char *path, bool verbose);
void ftk_state_end(struct ftk_state *s);
/* Read the lines that were added since the last call. */
void ftk_state_read(struct ftk_state *s);
/* Only show the errors of mpirun among them. */
void ftk_state_show(struct ftk_state *s);
bool ftk_state_is_open(const struct ftk_state *s); /* at least one context is open */
/* Whether the ranks of a context have agreed to halt, and the next start has a set of each such
 * context to go on from (or the context has no files): if the job is lost now, there is no
 * relaunch. */
bool ftk_state_halts(const struct ftk_state *s);
/* Whether no context that halts has files. */
bool ftk_state_fileless(const struct ftk_state *s);
const struct ftk_state_facts *ftk_state_facts(const struct ftk_state *s);
/* The first process that ended badly since a context was last opened, repaired or closed;
 * NULL: none did, or mpirun does not report ends. */
const struct ftk_end *ftk_state_first(const struct ftk_state *s);
/* The same of a job that is lost: also a process that the library has reported as lost. */
const struct ftk_end *ftk_state_cause(const struct ftk_state *s);
/* The first of them that a signal has killed; NULL: none. */
const struct ftk_end *ftk_state_death(const struct ftk_state *s);
/* Whether the program has ended the job by MPI_Abort. */
bool ftk_state_aborted(const struct ftk_state *s);
/* Whether it has, and the job was repaired as after a failure. */
bool ftk_state_outlived(const struct ftk_state *s);
/* A process that has called MPI_Abort beside such a death, so perhaps because of it;
 * NULL: none has. */
const struct ftk_end *ftk_state_doubtful(const struct ftk_state *s);
/* Whether this spawned process has joined the job; job and rank as mpirun numbers them. */
bool ftk_state_has_joined(const struct ftk_state *s, long job, long rank);
/* Whether mpirun has reported the end of this process of the job; the number of such processes.
 * mpirun reports a normal end only for processes on its own node. */
bool ftk_state_has_ended(const struct ftk_state *s, int rank);
int ftk_state_ends(const struct ftk_state *s);
/* Number of processes of the job that mpirun has started, or is about to start, on its own node. */
int ftk_state_started(const struct ftk_state *s);

#endif
