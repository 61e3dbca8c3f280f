/* A machine whose nodes fail: when a failure comes, which nodes it takes, and when they are back.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The failures are drawn by laws, or a recorded log is replayed.  One sequence of failures stands
 * for the whole machine: the moment of the next one is drawn first, and its nodes are drawn then
 * (superposition), so a million nodes cost as much as ten. */
#ifndef FTK_MODEL_MACHINE_H
#define FTK_MODEL_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/random.h"
#include "model/survive.h"

/* A failure of a log, of n nodes: ftk_machine_log.node[first ... first + n - 1]. */
struct ftk_machine_failure {
    double at_s, repair_s; /* repair_s < 0: not known */
    size_t first, n;       /* n >= 1 */
};

struct ftk_machine_log {
    const struct ftk_machine_failure *v; /* in the order of their times, from 0 s on */
    size_t n;                            /* >= 1 */
    const int *node;                     /* 0 ... nodes - 1 */
    int nodes;
    double length_s; /* after it the log begins again; more than the time of the last failure */
};

struct ftk_machine_law {
    int nodes;                                  /* all that can fail, >= 1 */
    double mtbf_s;                              /* the mean gap between failures of the machine */
    double shape;                               /* of the Weibull law of the gaps; 1: exponential */
    double scale_s;                             /* of the same law, unless shape is 1 */
    bool single;                                /* each failure takes one node */
    struct ftk_model_multiplicity multiplicity; /* otherwise */
    double job_loss;               /* share of the failures that take no node, but end the job */
    double repair_s, repair_sigma; /* median and sigma of the lognormal law of the time until a node
                                      is back; sigma 0: exactly repair_s; repair_s 0: never */
    const struct ftk_machine_log *log; /* NULL: the failures are drawn.  Otherwise mtbf_s, shape,
                                          scale_s and multiplicity are not used */
    bool from_start; /* the log begins with the job, and node k of the log is node k of the job;
                        otherwise a moment and a node are drawn */
};

/* Callers read next_s, and what the last failure was: victim, back_s, nvictims, job. */
struct ftk_machine {
    const struct ftk_machine_law *law;
    struct ftk_random gaps, sizes, nodes, repairs;
    double *zipf;   /* table of the law, or NULL */
    double next_s;  /* when the next failure comes */
    size_t at;      /* the next failure of the log */
    double from_s;  /* the time of the log's beginning */
    int turn;       /* the log's node k is node (k + turn) % all */
    int *victim;    /* the nodes of the last failure, sorted, each once */
    double *back_s; /* when each of them is back; INFINITY: never */
    int nvictims, room;
    bool job; /* the last failure has ended the job, and taken no node */
};

/* FTKIT_OK, or FTKIT_ERR_NOMEM.  law has to live as long. */
int ftk_machine_open(struct ftk_machine *m, const struct ftk_machine_law *law);
void ftk_machine_close(struct ftk_machine *m);
/* Begin again at 0 s, with the failures of this seed. */
void ftk_machine_start(struct ftk_machine *m, uint64_t seed);
/* The failure at m->next_s: set victim, back_s, nvictims, job, and the next next_s.  A failure may
 * have no victim: a replayed one of nodes that the job does not use.  FTKIT_ERR_NOMEM. */
int ftk_machine_fail(struct ftk_machine *m);

#endif
