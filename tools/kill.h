/* Fault injection by `ftkit run`: --kill, --flip, --seed.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTKIT_TOOLS_KILL_H
#define FTKIT_TOOLS_KILL_H

#include "core/progress.h"
#include "state.h"

struct ftk_kills; /* the faults of a run, and what has happened to them */

/* Take the value of --kill, --flip or --seed.  0, or an exit code after a message. */
int ftk_kill_option(struct ftk_kills **k, const char *option, const char *text);
/* All options are known: check the faults against them.  0, or an exit code after a message. */
int ftk_kill_plan(struct ftk_run *r);
/* Begin a sequence of random numbers, for nrand48() and erand48(). */
void ftk_kill_seed(uint64_t seed, unsigned short state[3]);
/* To be called in each turn of the loop that watches an attempt: inject the faults that are due.
 * *turn_ns, the length of the next wait, becomes shorter when a fault is due sooner. */
void ftk_kill_look(const struct ftk_run *r, const struct ftk_state *s, int attempt, long *turn_ns);
/* The run has ended: name the faults that were not injected. */
void ftk_kill_end(const struct ftk_run *r);

/* ---- carrier.c: which process carries a rank ----------------------------------------- */

/* The process that carries this rank now, as the watchdog's pages say; 0: none on this machine. */
pid_t ftk_carrier_find(int rank);
/* Send SIGKILL to all processes of a node, its daemon included; an emulated node does not answer
 * any more.  Returns the number of processes. */
int ftk_carrier_end_node(const struct ftk_run *r, int node);

/* ---- facts, for `ftkit test` ------------------------------------------------------------
 * Times are in seconds from the first opening of a context. */
struct ftk_facts {
    bool opened;    /* a context */
    bool repaired;  /* in the job */
    int attempts;   /* number of starts of the job */
    int killed;     /* faults that were injected */
    int before_set; /* ... of which so many before the first set */
    double open_s;  /* last time at which a context was open */
    double set_s;   /* first set, -1: none */
    uint64_t calls; /* of ftkit_checkpoint, furthest position */
    struct {
        uint64_t set, at; /* position of the set */
    } sets[FTK_PROGRESS_SETS];
};
/* In memory that `ftkit test` shares with the run; NULL: nobody asks. */
extern struct ftk_facts *ftk_run_facts;

#endif
