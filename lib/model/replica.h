/* Jobs that run each rank r times.
 *
 * Source: Rezaei, Mueller, Hargrove, Roman, "DINO: Divergent Node Cloning for Sustained Redundancy
 * in HPC", sections 7 and 9.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_MODEL_REPLICA_H
#define FTK_MODEL_REPLICA_H

#include <stdbool.h>

struct ftk_model_replicas {
    double work_s;     /* t: without redundancy and failures */
    double beta;       /* equation 3: the share of the time in messages between two ranks */
    int degree;        /* r */
    double nodes;      /* n: without redundancy */
    double mtbf_s;     /* theta: of a node */
    double clone_s;    /* t_clone: a lost replica is copied from another one */
    double relaunch_s; /* D: without cloning, after the loss of all replicas of a rank */
};

/* Equation 4: the time without failures. */
double ftk_model_replicas_s(const struct ftk_model_replicas *r);
/* Equation 7: the time with cloning.  false: cloning takes all of the time. */
bool ftk_model_cloned_s(const struct ftk_model_replicas *r, double *time_s);
/* Section 9: the time without cloning; the job begins anew when all replicas of a rank are lost.
 * false: no progress.  A node fails within a time T with the probability T / theta there, which
 * needs T < theta.  The exponent of R_sys is n: n r, as printed there, is wrong. */
bool ftk_model_uncloned_s(const struct ftk_model_replicas *r, double *time_s);

/* Section 9, Table 4: the spares that a job needs on average, rounded up: a spare for each failure
 * of `nodes` nodes within time_s; with repair_s > 0 the repaired nodes are spares again after each
 * whole interval of repair_s. */
int ftk_model_spares_mean(double nodes, double time_s, double mtbf_s, double repair_s);
/* The fewest spares that run out with at most this probability.  Failures are a Poisson process;
 * a node that fails is away for repair_s, or for the rest of the job with repair_s = 0. */
int ftk_model_spares(double nodes, double time_s, double mtbf_s, double repair_s, double risk);

#endif
