/* What simulated runs add up: times, counts, and nodes that are away for repair.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_MODEL_SIMULATE_SUM_H
#define FTK_MODEL_SIMULATE_SUM_H

#include "model/simulate.h"

/* Times, energies and counts of one run. */
struct ftk_sim_sums {
    double part_s[FTK_SIM_PARTS], part_j[FTK_SIM_PARTS];
    double count[FTK_SIM_COUNTS];
};

/* Nodes that are away for repair.  All zero at first. */
struct ftk_sim_away {
    double *back_s; /* when they are back, the latest first */
    int n, room;
    int most;      /* of n, ever */
    double area_s; /* integral of n over the time, until last_s */
    double last_s;
};

/* Take out those that are back now; their number.  now does not go back. */
int ftk_sim_come_back(struct ftk_sim_away *away, double now);
/* n nodes go away, after ftk_sim_come_back() for this moment.  FTKIT_OK, or FTKIT_ERR_NOMEM. */
int ftk_sim_send_away(struct ftk_sim_away *away, const double *back_s, int n);

/* What every simulated run has. */
struct ftk_sim_run {
    struct ftk_machine machine;
    struct ftk_sim_away away;
    struct ftk_sim_sums sums;
    double now_s;
};

/* Simulate the runs with the seeds seed, seed + 1 ..., and set result.  go(arg) simulates one, from
 * 0 s on, and sets *ended to whether the job came to its end; it returns FTKIT_OK or
 * FTKIT_ERR_NOMEM.  FTKIT_OK, or FTKIT_ERR_NOMEM. */
int ftk_sim_runs(struct ftk_sim_run *run, const struct ftk_machine_law *law, uint64_t seed,
    int runs, int (*go)(void *arg, bool *ended), void *arg, struct ftk_sim_result *result);

/* Room for `need` items of a growing array v, which has *room.  NULL: no memory, and v is as
 * before. */
void *ftk_sim_room(void *v, int *room, int need, size_t item);

#endif
