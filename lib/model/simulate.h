/* Simulation of a job on a machine that fails.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The formulas of rollback.h are expected values to the first order.  The simulation follows a job
 * from event to event: the end of a period, of a set, of a flush and of a restart, and failures,
 * which also hit restarts, flushes and lost work that is done again.  The states are those of
 * Meneses, PhD thesis, University of Illinois (2013), section 4.5.  The simulation adds several
 * levels, the placement of the data on nodes, and spares. */
#ifndef FTK_MODEL_SIMULATE_H
#define FTK_MODEL_SIMULATE_H

#include "model/machine.h"
#include "model/replica.h"
#include "model/rollback.h"

/* What a level outlives. */
enum ftk_sim_keeps {
    FTK_SIM_MEMORY, /* the loss of nodes that its placement allows */
    FTK_SIM_LOCAL,  /* ... and the end of the job */
    FTK_SIM_FILES   /* everything */
};

/* What happens when a node is lost and no spare is left. */
enum ftk_sim_short {
    FTK_SIM_RELAUNCH, /* the job ends and starts again on a full number of nodes */
    FTK_SIM_SPAWN,    /* the other nodes take its ranks */
    FTK_SIM_SHRINK    /* the job goes on with fewer ranks */
};

struct ftk_sim {
    struct ftk_model_job job; /* mtbf_s and the shares of the levels are not used */
    struct ftk_model_pattern pattern;
    enum ftk_sim_keeps keeps[FTK_MODEL_LEVELS]; /* of the levels of the job, in ascending order */
    struct ftk_machine_law machine;             /* its nodes are the sockets of the job */
    struct ftk_model_placement placement;       /* of the level that keeps FTK_SIM_MEMORY */
    bool log;                                   /* lost ranks alone do lost work again */
    int acquaintances; /* next nodes with a node's determinants; 0: these are never lost */
    int spares;
    enum ftk_sim_short when_short;
    int per_node;   /* ranks of a node, for FTK_SIM_SPAWN */
    double limit_s; /* a run that takes longer makes no progress */
};

/* Parts of the time of a job. */
enum ftk_sim_part {
    FTK_SIM_WORK,
    FTK_SIM_LOG,      /* slowdown of the failure-free run */
    FTK_SIM_SETS,     /* that are written for the first time */
    FTK_SIM_REDO,     /* lost work and sets, done again; waiting for slower ranks after it */
    FTK_SIM_RESTART,  /* from a failure until ranks begin to do lost work again */
    FTK_SIM_DEGRADED, /* fewer nodes */
    FTK_SIM_PARTS
};

/* What happened, and how often. */
enum ftk_sim_count {
    FTK_SIM_FAILURES,          /* that hit the job */
    FTK_SIM_SPARES_USED,       /* nodes */
    FTK_SIM_SHORT,             /* failures that found too few spares */
    FTK_SIM_RELAUNCHES,        /* all starts but the first */
    FTK_SIM_JOB_LOSSES,        /* failures that took no node, but ended the job */
    FTK_SIM_DATA_LOST,         /* failures after which memory did not have all data */
    FTK_SIM_DETERMINANTS_LOST, /* ... it had them, but the log lacked determinants: all go back */
    FTK_SIM_COUNTS
};

struct ftk_sim_result {
    int runs;                   /* that ended */
    int stuck;                  /* that were longer than limit_s, and are not in the following */
    double time_s, deviation_s; /* mean over the runs and standard deviation of a run */
    double error_s;             /* half of the 95 % interval of the mean */
    double part_s[FTK_SIM_PARTS], part_j[FTK_SIM_PARTS]; /* means; the times add up to time_s */
    double count[FTK_SIM_COUNTS];                        /* means */
    double away;           /* nodes that are under repair, mean over the time */
    int away_most;         /* the most in any run */
    double away_most_mean; /* the most in a run, mean over the runs */
};

/* Simulate the job with the seeds seed, seed + 1 ... seed + runs - 1.  Equal seeds give equal
 * failures to every job on an equal machine.  FTKIT_OK, or FTKIT_ERR_NOMEM. */
int ftk_simulate(const struct ftk_sim *sim, uint64_t seed, int runs, struct ftk_sim_result *result);

/* A job that runs each rank more than once. */
struct ftk_sim_replicas {
    struct ftk_model_replicas job; /* mtbf_s is not used */
    bool clones; /* a lost replica is copied from another one; all wait for clone_s then */
    double busy_w, idle_w;
    struct ftk_machine_law machine; /* of nodes * degree nodes; node k runs rank k % nodes */
    double limit_s;
};

/* The same for replicas.  part_s is for each node of job.nodes, so the times of all replicas of a
 * rank add up: their sum is degree times time_s. */
int ftk_simulate_replicas(
    const struct ftk_sim_replicas *sim, uint64_t seed, int runs, struct ftk_sim_result *result);

#endif
