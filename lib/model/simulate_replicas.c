/* Simulation of a job that runs each rank more than once (see simulate.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * There are no sets: when all replicas of a rank are lost, the job begins again.  With clones, a
 * lost replica is copied from another one of its rank, one after the other, and all wait. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ftkit.h"
#include "model/simulate_sum.h"

struct run {
    struct ftk_sim_run common;
    const struct ftk_sim_replicas *sim;
    double done, most; /* of the time without failures; most: that was ever done */
    double end;
    double relaunch_s, clone_s; /* until the job has begun again; until the first clone is there */
    unsigned char *gone;        /* lost replicas of each rank */
    int *hit;                   /* ranks with lost replicas, in the order of the losses */
    int nhit, room;
};

static void spend(struct run *r, enum ftk_sim_part part, double s, double watts)
{
    double nodes = r->sim->job.nodes * r->sim->job.degree;
    r->common.sums.part_s[part] += s * r->sim->job.degree;
    r->common.sums.part_j[part] += s * nodes * watts;
}

/* ---- failures -------------------------------------------------------------------------- */

static void all_there(struct run *r)
{
    for (int i = 0; i < r->nhit; i++)
        r->gone[r->hit[i]] = 0;
    r->nhit = 0;
}

/* The job begins again, with all replicas. */
static void begin_again(struct run *r)
{
    all_there(r);
    r->most = fmax(r->most, r->done);
    r->done = 0;
    r->clone_s = 0;
    r->relaunch_s = r->sim->job.relaunch_s;
    r->common.sums.count[FTK_SIM_RELAUNCHES]++;
}

static int note_hit(struct run *r, int rank)
{
    int *hit = ftk_sim_room(r->hit, &r->room, r->nhit + 1, sizeof *hit);
    if (!hit)
        return FTKIT_ERR_NOMEM;
    r->hit = hit;
    r->hit[r->nhit++] = rank;
    return FTKIT_OK;
}

static int fail(struct run *r)
{
    struct ftk_machine *m = &r->common.machine;
    int ranks = (int)r->sim->job.nodes, rc = ftk_machine_fail(m);
    bool all = m->job; /* replicas of a rank are lost, or the job */
    ftk_sim_come_back(&r->common.away, r->common.now_s);
    if (rc == FTKIT_OK)
        rc = ftk_sim_send_away(&r->common.away, m->back_s, m->nvictims);
    r->common.sums.count[FTK_SIM_FAILURES]++;
    r->common.sums.count[FTK_SIM_JOB_LOSSES] += m->job;
    if (r->relaunch_s > 0) { /* the new job is not there yet */
        r->relaunch_s = r->sim->job.relaunch_s;
        return rc;
    }
    for (int i = 0; rc == FTKIT_OK && i < m->nvictims; i++) {
        int rank = m->victim[i] % ranks;
        /* the node may be one that is lost already, with this probability: the replicas of a rank
         * are alike */
        double lost = (double)r->gone[rank] / r->sim->job.degree;
        if (lost > 0 && ftk_random_unit(&m->nodes) < lost)
            continue;
        rc = note_hit(r, rank);
        if (r->sim->clones && r->nhit == 1)
            r->clone_s = r->sim->job.clone_s;
        all |= ++r->gone[rank] >= r->sim->job.degree;
    }
    if (rc == FTKIT_OK && all) {
        r->common.sums.count[FTK_SIM_DATA_LOST] += !m->job;
        begin_again(r);
    }
    return rc;
}

static void end_clone(struct run *r)
{
    r->gone[r->hit[0]]--;
    memmove(r->hit, r->hit + 1, (size_t)--r->nhit * sizeof r->hit[0]);
    r->clone_s = r->nhit > 0 ? r->sim->job.clone_s : 0;
    r->common.sums.count[FTK_SIM_SPARES_USED]++;
}

/* ---- a run ----------------------------------------------------------------------------- */

static double *waits(struct run *r)
{
    if (r->relaunch_s > 0)
        return &r->relaunch_s;
    return r->sim->clones && r->nhit > 0 ? &r->clone_s : NULL;
}

/* Account for s of computing. */
static void compute(struct run *r, double s)
{
    struct ftk_sim_sums *sums = &r->common.sums;
    double work = s * r->sim->job.work_s / r->end, rest = s * r->sim->job.degree - work;
    double watts = r->sim->job.nodes * r->sim->busy_w;
    if (r->done < r->most) {
        spend(r, FTK_SIM_REDO, s, r->sim->busy_w);
        return;
    }
    /* one node of each rank works, and the others are the price */
    sums->part_s[FTK_SIM_WORK] += work;
    sums->part_s[FTK_SIM_LOG] += rest;
    sums->part_j[FTK_SIM_WORK] += work * watts;
    sums->part_j[FTK_SIM_LOG] += rest * watts;
}

/* Where the job gets to without a failure: to what it has done before, or to its end. */
static double next_position(const struct run *r)
{
    return r->done < r->most ? r->most : r->end;
}

/* Spend s in the present state, of which `left` remain. */
static void go_on(struct run *r, double s, double left)
{
    double *wait = waits(r);
    bool ends = s >= left;
    r->common.now_s += s;
    if (!wait) {
        compute(r, s);
        r->done = ends ? next_position(r) : r->done + s;
        return;
    }
    bool clone = wait == &r->clone_s;
    spend(r, FTK_SIM_RESTART, s, r->sim->idle_w);
    *wait = ends ? 0 : *wait - s;
    if (clone && ends)
        end_clone(r);
}

static int run_job(void *arg, bool *ended)
{
    struct run *r = arg;
    int rc = FTKIT_OK;
    r->done = r->most = r->relaunch_s = r->clone_s = 0;
    r->end = ftk_model_replicas_s(&r->sim->job);
    all_there(r);
    while (rc == FTKIT_OK && r->done < r->end && r->common.now_s < r->sim->limit_s) {
        const double *wait = waits(r);
        double left = wait ? *wait : next_position(r) - r->done;
        double failure = fmax(r->common.machine.next_s - r->common.now_s, 0);
        go_on(r, fmin(failure, left), left);
        if (failure < left)
            rc = fail(r);
    }
    *ended = r->done >= r->end;
    return rc;
}

int ftk_simulate_replicas(
    const struct ftk_sim_replicas *sim, uint64_t seed, int runs, struct ftk_sim_result *result)
{
    struct run r = { .sim = sim, .gone = calloc((size_t)sim->job.nodes, 1) };
    if (!r.gone)
        return FTKIT_ERR_NOMEM;
    int rc = ftk_sim_runs(&r.common, &sim->machine, seed, runs, run_job, &r, result);
    free(r.gone);
    free(r.hit);
    return rc;
}
