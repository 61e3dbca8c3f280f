/* Time and energy of a job that rolls back to checkpoints of one or several levels.
 *
 * Source: Meneses, "Scalable Message-Logging Techniques for Effective Fault Tolerance in HPC
 * Applications", PhD thesis, University of Illinois (2013), chapter 4, equations 4.4 to 4.6 and
 * 4.10 to 4.12.  With one level the formulas are those of the thesis.  The thesis has one formula
 * for each protocol; the parameters of struct ftk_model_protocol make the three from one:
 *
 *   checkpoint/restart  slowdown 1, speed 1, imbalance 1, all sockets redo lost work
 *   message log         slowdown mu, speed phi, imbalance 1, the sockets of a team redo it
 *   parallel recovery   slowdown mu, speed sigma, imbalance lambda, P sockets redo it
 *
 * Several levels are nested as in Benoit et al., IEEE Trans. Computers 66 (2017): a checkpoint of a
 * level is also one of all lower levels, and cost_s is what it costs in addition.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_MODEL_ROLLBACK_H
#define FTK_MODEL_ROLLBACK_H

#include <stdbool.h>

#define FTK_MODEL_LEVELS 4

/* H and L of a node where nothing better is known (Meneses 2013, table 4.2). */
#define FTK_MODEL_BUSY_W 100.0
#define FTK_MODEL_IDLE_W 40.0

struct ftk_model_level {
    double cost_s;    /* the job waits so long for a checkpoint */
    double latency_s; /* from then on until the checkpoint can be used; the job goes on */
    double restart_s; /* from a failure until ranks begin to redo lost work */
    double share;     /* of the failures need exactly this level; the sum over all levels is 1 */
    bool whole;       /* all sockets redo lost work from this level, without a log */
};

struct ftk_model_protocol {
    double slowdown;  /* mu >= 1: of the failure-free run by the log */
    double speed;     /* phi or sigma: how much faster lost work is redone */
    double imbalance; /* lambda >= 1: slowdown of the rest of a period after parallel recovery */
    double active;    /* sockets that redo lost work; more than sockets: all */
};

struct ftk_model_job {
    double work_s; /* W: without failures, checkpoints and log */
    double mtbf_s; /* M: of the whole job */
    double sockets;
    double busy_w, idle_w; /* H, L: power of a socket */
    int nlevels;           /* 1 .. FTK_MODEL_LEVELS, the cheapest first */
    struct ftk_model_level level[FTK_MODEL_LEVELS];
    struct ftk_model_protocol protocol;
};

/* When checkpoints are written. */
struct ftk_model_pattern {
    double period_s;             /* compute time between two checkpoints of the lowest level used */
    int every[FTK_MODEL_LEVELS]; /* each so many of them are of this level; 0: level not used */
};

struct ftk_model_cost {
    double time_s;                          /* T, the sum of the next five */
    double work_s;                          /* W */
    double log_s;                           /* W (mu - 1) */
    double checkpoint_s, redo_s, restart_s; /* redo_s: also waiting for slower ranks after it */
    double failures;                        /* T / M */
    double joules;
};

/* The cost of a job with this pattern.  false: the job makes no progress (redoing lost work and
 * restarts take all of the time), or the pattern has a period that is not possible. */
bool ftk_model_rollback(const struct ftk_model_job *job, const struct ftk_model_pattern *pattern,
    struct ftk_model_cost *cost);

enum ftk_model_aim { FTK_MODEL_TIME, FTK_MODEL_ENERGY };

/* The pattern with the least time or energy, among all choices of levels; the highest level is
 * always used.  false: no pattern makes progress. */
bool ftk_model_optimum(const struct ftk_model_job *job, enum ftk_model_aim aim,
    struct ftk_model_pattern *pattern, struct ftk_model_cost *cost);

/* The compute time between two checkpoints of a level, 0: not used. */
double ftk_model_level_period_s(const struct ftk_model_pattern *pattern, int level);

#endif
