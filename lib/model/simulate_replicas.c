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
    const struct ftk_sim_replicas *sim;
    struct ftk_machine *machine;
    double now, done, most; /* of the time without failures; most: that was ever done */
    double end;
    double relaunch_s, clone_s; /* until the job has begun again; until the first clone is there */
    unsigned char *gone;        /* lost replicas of each rank */
    int *hit;                   /* ranks with lost replicas, in the order of the losses */
    int nhit, room;
    struct ftk_sim_away away;
    struct ftk_sim_sums *sums;
};

static void spend(struct run *r, enum ftk_sim_part part, double s, double watts)
{
    double nodes = r->sim->job.nodes * r->sim->job.degree;
    r->sums->part_s[part] += s * r->sim->job.degree;
    r->sums->part_j[part] += s * nodes * watts;
}

/* ---- failures -------------------------------------------------------------------------- */

/* The job begins again, with all replicas. */
static void begin_again(struct run *r)
{
    for (int i = 0; i < r->nhit; i++)
        r->gone[r->hit[i]] = 0;
    r->nhit = 0;
    r->most = fmax(r->most, r->done);
    r->done = 0;
    r->clone_s = 0;
    r->relaunch_s = r->sim->job.relaunch_s;
    r->sums->count[FTK_SIM_RELAUNCHES]++;
}

static int note_hit(struct run *r, int rank)
{
    if (r->nhit == r->room) {
        int room = 2 * r->room + 16;
        int *v = realloc(r->hit, (size_t)room * sizeof *v);
        if (!v)
            return FTKIT_ERR_NOMEM;
        r->hit = v;
        r->room = room;
    }
    r->hit[r->nhit++] = rank;
    return FTKIT_OK;
}

static int fail(struct run *r)
{
    int ranks = (int)r->sim->job.nodes, rc = ftk_machine_fail(r->machine);
    bool all = r->machine->job; /* replicas of a rank are lost, or the job */
    ftk_sim_come_back(&r->away, r->now);
    if (rc == FTKIT_OK)
        rc = ftk_sim_send_away(&r->away, r->machine->back_s, r->machine->nvictims);
    r->sums->count[FTK_SIM_FAILURES]++;
    r->sums->count[FTK_SIM_JOB_LOSSES] += r->machine->job;
    if (r->relaunch_s > 0) { /* the new job is not there yet */
        r->relaunch_s = r->sim->job.relaunch_s;
        return rc;
    }
    for (int i = 0; rc == FTKIT_OK && i < r->machine->nvictims; i++) {
        int rank = r->machine->victim[i] % ranks;
        /* the node may be one that is lost already, with this probability: the replicas of a rank
         * are alike */
        double lost = (double)r->gone[rank] / r->sim->job.degree;
        if (lost > 0 && ftk_random_unit(&r->machine->nodes) < lost)
            continue;
        rc = note_hit(r, rank);
        if (r->sim->clones && r->nhit == 1)
            r->clone_s = r->sim->job.clone_s;
        all |= ++r->gone[rank] >= r->sim->job.degree;
    }
    if (rc == FTKIT_OK && all) {
        r->sums->count[FTK_SIM_DATA_LOST] += !r->machine->job;
        begin_again(r);
    }
    return rc;
}

static void end_clone(struct run *r)
{
    r->gone[r->hit[0]]--;
    memmove(r->hit, r->hit + 1, (size_t)--r->nhit * sizeof r->hit[0]);
    r->clone_s = r->nhit > 0 ? r->sim->job.clone_s : 0;
    r->sums->count[FTK_SIM_SPARES_USED]++;
}

/* ---- a run ----------------------------------------------------------------------------- */

static double *waits(struct run *r)
{
    if (r->relaunch_s > 0)
        return &r->relaunch_s;
    return r->clone_s > 0 ? &r->clone_s : NULL;
}

/* Spend s in the present state, of which `left` remain. */
static void go_on(struct run *r, double s, double left)
{
    double *wait = waits(r);
    r->now += s;
    if (!wait) {
        double work = s * r->sim->job.work_s / r->end;
        if (r->done < r->most) {
            spend(r, FTK_SIM_REDO, s, r->sim->busy_w);
        } else { /* one node of each rank works, and the others are the price */
            r->sums->part_s[FTK_SIM_WORK] += work;
            r->sums->part_s[FTK_SIM_LOG] += s * r->sim->job.degree - work;
            double joules = r->sim->job.nodes * r->sim->busy_w;
            r->sums->part_j[FTK_SIM_WORK] += work * joules;
            r->sums->part_j[FTK_SIM_LOG] += (s * r->sim->job.degree - work) * joules;
        }
        r->done = s < left ? r->done + s : r->done < r->most ? r->most : r->end;
        return;
    }
    bool clone = wait == &r->clone_s;
    spend(r, FTK_SIM_RESTART, s, r->sim->idle_w);
    *wait = s < left ? *wait - s : 0;
    if (clone && *wait <= 0)
        end_clone(r);
}

static int run_job(struct run *r)
{
    int rc = FTKIT_OK;
    r->now = r->done = r->most = r->relaunch_s = r->clone_s = 0;
    r->end = ftk_model_replicas_s(&r->sim->job);
    for (int i = 0; i < r->nhit; i++)
        r->gone[r->hit[i]] = 0;
    r->nhit = 0;
    ftk_sim_all_back(&r->away);
    while (rc == FTKIT_OK && r->done < r->end && r->now < r->sim->limit_s) {
        const double *wait = waits(r);
        double left = wait ? *wait : (r->done < r->most ? r->most : r->end) - r->done;
        double failure = fmax(r->machine->next_s - r->now, 0);
        go_on(r, fmin(failure, left), left);
        if (failure < left)
            rc = fail(r);
    }
    return rc;
}

int ftk_simulate_replicas(
    const struct ftk_sim_replicas *sim, uint64_t seed, int runs, struct ftk_sim_result *result)
{
    struct ftk_machine machine;
    struct ftk_sim_sums sums;
    struct run r = { .sim = sim, .machine = &machine, .sums = &sums };
    memset(result, 0, sizeof *result);
    r.gone = calloc((size_t)sim->job.nodes, 1);
    int rc = ftk_machine_open(&machine, &sim->machine);
    if (!r.gone)
        rc = FTKIT_ERR_NOMEM;
    for (int i = 0; rc == FTKIT_OK && i < runs; i++) {
        memset(&sums, 0, sizeof sums);
        ftk_machine_start(&machine, seed + (uint64_t)i);
        rc = run_job(&r);
        if (rc == FTKIT_OK && r.done < r.end)
            result->stuck++;
        else if (rc == FTKIT_OK)
            ftk_sim_add(result, &sums, &r.away, r.now);
    }
    ftk_sim_means(result);
    ftk_machine_close(&machine);
    ftk_sim_away_free(&r.away);
    free(r.gone);
    free(r.hit);
    return rc;
}
