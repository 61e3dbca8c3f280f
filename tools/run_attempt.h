/* One attempt of `ftkit run`: a job from its start to its end, and what this end means for the run.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTKIT_TOOLS_RUN_ATTEMPT_H
#define FTKIT_TOOLS_RUN_ATTEMPT_H

#include <signal.h>

#include "ends.h"

enum ftk_try_how {
    BY_ITSELF,
    BY_HALT,
    BY_SIGNAL,
    BY_FATAL,
    BY_TIMEOUT,
    BY_LOST_RANK,
    BY_LOST_NODE, /* before a context was opened: no process can be informed */
    BY_NO_RANK,
    BY_ABORT
};

struct ftk_try {
    int number; /* from 0 */
    pid_t pid;
    enum ftk_try_how how;
    int status; /* of mpirun, as from waitpid() */
    int sig;    /* BY_SIGNAL */
    double sig_at;
    bool halting; /* the job was asked to halt */
    double halting_at;
    siginfo_t halt_wanted; /* SIGUSR2 came before a context was open; si_signo 0: it did not */
    bool set_wanted;       /* SIGUSR1 */
    struct ftk_ends ends;
    long lost; /* BY_LOST_RANK: the rank, -1: not known */
    struct ftk_state *state;
};

/* ---- run_attempt.c: start a job, watch it, end what is left of it ---------------------- */
/* set: the signals that the caller has blocked; end: when the time of the run is over.  0 or an
 * exit code after a message; a->state is for ftk_state_end() after 0. */
int ftk_try_run(const struct ftk_run *r, struct ftk_try *a, const sigset_t *set, double end);

/* ---- run_verdict.c: what the end of an attempt means ----------------------------------- */
/* Whether the job is lost.  A job that a signal, the timeout or MPI_Abort has ended is not. */
bool ftk_try_lost(const struct ftk_try *a);
/* mpirun was killed while the ranks were starting.  A rank that is still in MPI_Init may come up
 * alone; ftkit_open() refuses it. */
bool ftk_try_headless(const struct ftk_try *a);
/* The signal by which the program has crashed and the job was lost, 0: none. */
int ftk_try_crash(const struct ftk_try *a);
/* How a lost attempt has ended, in words that follow "attempt 1 ended". */
void ftk_try_describe(const struct ftk_try *a, char *text, size_t bytes);
/* Exit code of the run if this attempt is the last.  A job that ended badly never has 0, also if
 * mpirun was killed, or if a process ended badly while no context was open. */
int ftk_try_verdict(const struct ftk_try *a);
/* Report the end of a job that is not lost, if it ended badly. */
void ftk_try_report(const struct ftk_try *a);

/* ---- run_again.c: whether another attempt may make progress ---------------------------- */
struct ftk_progress;
/* Results of the attempts so far. */
struct ftk_past {
    struct ftk_progress *page; /* NULL: not mapped */
    uint64_t furthest;         /* furthest position of the earlier attempts */
    uint64_t known;            /* newest durable set of the earlier attempts */
    uint64_t crashed_at;       /* position of the crash that ended the last attempt, 0: none */
    int crash;                 /* its signal */
    bool older;                /* an older set was tried */
    bool differed;             /* in the last attempt replicas differed before the first set */
    int used;                  /* relaunches without progress */
};
/* Map the file in which the library keeps the position.  Without the file, durable sets are the
 * measure of progress. */
void ftk_past_begin(const struct ftk_run *r, struct ftk_past *past);
/* After a lost attempt: say whether another one starts.  *code: the exit code of the run if not,
 * when it differs from that of the attempt. */
bool ftk_past_again(struct ftk_run *r, const struct ftk_try *a, struct ftk_past *past, int *code);

#endif
