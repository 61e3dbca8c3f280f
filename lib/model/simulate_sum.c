/* What simulated runs add up (see simulate_sum.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "model/simulate_sum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ftkit.h"

void *ftk_sim_room(void *v, int *room, int need, size_t item)
{
    if (v && need <= *room)
        return v;
    int more = 2 * need + 16;
    void *larger = realloc(v, (size_t)more * item);
    if (larger)
        *room = more;
    return larger;
}

/* ---- nodes that are away ----------------------------------------------------------------- */

static void all_back(struct ftk_sim_away *away)
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
    double *v = ftk_sim_room(away->back_s, &away->room, away->n + n, sizeof *v);
    if (!v)
        return FTKIT_ERR_NOMEM;
    away->back_s = v;
    for (int i = 0; i < n; i++) {
        int at = away->n++;
        for (; at > 0 && away->back_s[at - 1] < back_s[i]; at--)
            away->back_s[at] = away->back_s[at - 1];
        away->back_s[at] = back_s[i];
    }
    away->most = away->n > away->most ? away->n : away->most;
    return FTKIT_OK;
}

/* ---- means over runs --------------------------------------------------------------------- */

/* Add a run.  Until make_means() the members of result are sums. */
static void add(struct ftk_sim_result *result, struct ftk_sim_run *run)
{
    const struct ftk_sim_sums *sums = &run->sums;
    struct ftk_sim_away *away = &run->away;
    double time_s = run->now_s;
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

static void make_means(struct ftk_sim_result *result)
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

int ftk_sim_runs(struct ftk_sim_run *run, const struct ftk_machine_law *law, uint64_t seed,
    int runs, int (*go)(void *arg, bool *ended), void *arg, struct ftk_sim_result *result)
{
    memset(result, 0, sizeof *result);
    int rc = ftk_machine_open(&run->machine, law);
    for (int i = 0; rc == FTKIT_OK && i < runs; i++) {
        bool ended = false;
        memset(&run->sums, 0, sizeof run->sums);
        all_back(&run->away);
        run->now_s = 0;
        ftk_machine_start(&run->machine, seed + (uint64_t)i);
        rc = go(arg, &ended);
        if (rc == FTKIT_OK && ended)
            add(result, run);
        else if (rc == FTKIT_OK)
            result->stuck++;
    }
    make_means(result);
    ftk_machine_close(&run->machine);
    free(run->away.back_s);
    return rc;
}
