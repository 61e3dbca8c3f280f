/* What simulated runs add up (see simulate_sum.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "model/simulate_sum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ftkit.h"

/* ---- nodes that are away ----------------------------------------------------------------- */

void ftk_sim_all_back(struct ftk_sim_away *away)
{
    away->n = away->most = 0;
    away->area_s = away->last_s = 0;
}

static void pass(struct ftk_sim_away *away, double now)
{
    away->area_s += away->n * (now - away->last_s);
    away->last_s = now;
}

int ftk_sim_come_back(struct ftk_sim_away *away, double now)
{
    int n = away->n;
    while (away->n > 0 && away->back_s[away->n - 1] <= now) {
        pass(away, away->back_s[away->n - 1]);
        away->n--;
    }
    pass(away, now);
    return n - away->n;
}

int ftk_sim_send_away(struct ftk_sim_away *away, const double *back_s, int n)
{
    if (away->n + n > away->room) {
        int room = 2 * (away->n + n) + 16;
        double *v = realloc(away->back_s, (size_t)room * sizeof *v);
        if (!v)
            return FTKIT_ERR_NOMEM;
        away->back_s = v;
        away->room = room;
    }
    for (int i = 0; i < n; i++) {
        int at = away->n++;
        for (; at > 0 && away->back_s[at - 1] < back_s[i]; at--)
            away->back_s[at] = away->back_s[at - 1];
        away->back_s[at] = back_s[i];
    }
    away->most = away->n > away->most ? away->n : away->most;
    return FTKIT_OK;
}

void ftk_sim_away_free(struct ftk_sim_away *away)
{
    free(away->back_s);
    memset(away, 0, sizeof *away);
}

/* ---- means over runs --------------------------------------------------------------------- */

void ftk_sim_add(struct ftk_sim_result *result, const struct ftk_sim_sums *sums,
    struct ftk_sim_away *away, double time_s)
{
    double before = result->runs > 0 ? result->time_s / result->runs : 0;
    ftk_sim_come_back(away, time_s);
    result->runs++;
    result->time_s += time_s;
    /* the sum of the squares of deviations from the mean (Welford, Technometrics 4, 1962) */
    result->deviation_s += (time_s - before) * (time_s - result->time_s / result->runs);
    for (int i = 0; i < FTK_SIM_PARTS; i++) {
        result->part_s[i] += sums->part_s[i];
        result->part_j[i] += sums->part_j[i];
    }
    for (int i = 0; i < FTK_SIM_COUNTS; i++)
        result->count[i] += sums->count[i];
    result->away += time_s > 0 ? away->area_s / time_s : 0;
    result->away_most_mean += away->most;
    result->away_most = away->most > result->away_most ? away->most : result->away_most;
}

void ftk_sim_means(struct ftk_sim_result *result)
{
    double n = result->runs;
    if (result->runs == 0)
        return;
    result->time_s /= n;
    result->deviation_s = n > 1 ? sqrt(result->deviation_s / (n - 1)) : 0;
    result->error_s = 1.96 * result->deviation_s / sqrt(n);
    for (int i = 0; i < FTK_SIM_PARTS; i++) {
        result->part_s[i] /= n;
        result->part_j[i] /= n;
    }
    for (int i = 0; i < FTK_SIM_COUNTS; i++)
        result->count[i] /= n;
    result->away /= n;
    result->away_most_mean /= n;
}
