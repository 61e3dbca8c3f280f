/* What simulated runs add up: times, counts, and nodes that are away for repair.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_MODEL_SIMULATE_SUM_H
#define FTK_MODEL_SIMULATE_SUM_H

#include "model/simulate.h"

/* Of one run. */
struct ftk_sim_sums {
    double part_s[FTK_SIM_PARTS], part_j[FTK_SIM_PARTS];
    double count[FTK_SIM_COUNTS];
};

/* Nodes that are away.  All zero at first. */
struct ftk_sim_away {
    double *back_s; /* when they are back, the latest first */
    int n, room;
    int most;      /* of n, ever */
    double area_s; /* integral of n over the time, until last_s */
    double last_s;
};

/* All nodes are there, at 0 s. */
void ftk_sim_all_back(struct ftk_sim_away *away);
/* Take out those that are back now; their number.  now does not go back. */
int ftk_sim_come_back(struct ftk_sim_away *away, double now);
/* n nodes go away, after ftk_sim_come_back() for this moment.  FTKIT_OK, or FTKIT_ERR_NOMEM. */
int ftk_sim_send_away(struct ftk_sim_away *away, const double *back_s, int n);
void ftk_sim_away_free(struct ftk_sim_away *away);

/* Add a run that took time_s.  Until ftk_sim_means() the members of result are sums. */
void ftk_sim_add(struct ftk_sim_result *result, const struct ftk_sim_sums *sums,
    struct ftk_sim_away *away, double time_s);
void ftk_sim_means(struct ftk_sim_result *result);

#endif
