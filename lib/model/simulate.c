/* Simulation of a job that rolls back to sets of one or several levels (see simulate.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Positions are seconds of work, slowed down by the log.  The sets of the k-th period are at the
 * position k * period. */
#include "model/simulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ftkit.h"
#include "model/simulate_sum.h"

enum state { COMPUTE, SETS, RESTART };

struct run {
    struct ftk_sim_run common;
    const struct ftk_sim *sim;
    double done, front; /* front: the most that was ever done */
    double end;         /* of the work */
    enum state state;
    double left_s, spent_s;          /* of SETS and RESTART */
    long period;                     /* the last one whose end was reached */
    long written;                    /* the last one whose sets were ever complete */
    long saved[FTK_MODEL_LEVELS];    /* the newest set of a level; 0: the beginning of the job */
    long flushing[FTK_MODEL_LEVELS]; /* a set that can be used at ready_s; 0: none */
    double ready_s[FTK_MODEL_LEVELS];
    bool fast;     /* lost work is done again with the help of the log */
    bool uneven;   /* some ranks have more to do until the next set, after parallel recovery */
    double active; /* sockets that do lost work again, while fast */
    int *lost, nlost, room; /* nodes whose memory is not there again, sorted */
    int spares, alive;
};

/* ---- time ------------------------------------------------------------------------------ */

static void spend(struct run *r, enum ftk_sim_part part, double s, double watts)
{
    r->common.sums.part_s[part] += s;
    r->common.sums.part_j[part] += s * watts;
}

static double all_busy_w(const struct run *r)
{
    return r->sim->job.sockets * r->sim->job.busy_w;
}

static double all_idle_w(const struct run *r)
{
    return r->sim->job.sockets * r->sim->job.idle_w;
}

/* The speed of the job, of 1, by the nodes that it has. */
static double capacity(const struct run *r)
{
    double nodes = r->sim->machine.nodes, ranks = r->sim->per_node;
    if (r->alive >= r->sim->machine.nodes)
        return 1;
    if (r->sim->when_short == FTK_SIM_SHRINK)
        return r->alive / nodes;
    return ranks / ceil(nodes * ranks / r->alive);
}

static bool redoes(const struct run *r)
{
    return r->done < r->front;
}

/* Work that is done in a second. */
static double speed(const struct run *r)
{
    const struct ftk_model_protocol *p = &r->sim->job.protocol;
    if (r->fast)
        return capacity(r) * p->speed;
    return capacity(r) / (r->uneven ? p->imbalance : 1);
}

static double next_position(const struct run *r)
{
    double at = fmin((double)(r->period + 1) * r->sim->pattern.period_s, r->end);
    return redoes(r) ? fmin(at, r->front) : at;
}

/* Account for work from done to a position, which takes s. */
static void compute(struct run *r, double to, double s)
{
    const struct ftk_model_protocol *p = &r->sim->job.protocol;
    double work = to - r->done, even = r->uneven ? work * p->imbalance : work;
    double front_w =
        r->active * r->sim->job.busy_w + (r->sim->job.sockets - r->active) * r->sim->job.idle_w;
    if (redoes(r)) {
        spend(r, FTK_SIM_REDO, s, r->fast ? front_w : all_busy_w(r));
    } else {
        spend(r, FTK_SIM_WORK, work / p->slowdown, all_busy_w(r));
        spend(r, FTK_SIM_LOG, work - work / p->slowdown, all_busy_w(r));
        if (r->uneven)
            spend(r, FTK_SIM_REDO, even - work, all_busy_w(r));
        if (capacity(r) < 1)
            spend(r, FTK_SIM_DEGRADED, s - even, all_busy_w(r));
    }
    r->done = to;
    if (r->fast && !redoes(r)) {
        r->fast = false;
        r->uneven = p->imbalance > 1;
    }
    r->front = fmax(r->front, r->done);
}

/* ---- sets ------------------------------------------------------------------------------ */

static bool is_due(const struct run *r, int level)
{
    int every = r->sim->pattern.every[level];
    return every > 0 && r->period % every == 0;
}

/* The position of the next sets, or the end, was reached. */
static void reach(struct run *r)
{
    if (r->done >= r->end || r->done < (double)(r->period + 1) * r->sim->pattern.period_s)
        return;
    r->period++;
    r->state = SETS;
    r->left_s = r->spent_s = 0;
    for (int l = 0; l < r->sim->job.nlevels; l++)
        if (is_due(r, l))
            r->left_s += r->sim->job.level[l].cost_s;
}

/* Flushes that have ended make their sets usable. */
static void end_flushes(struct run *r)
{
    for (int l = 0; l < r->sim->job.nlevels; l++)
        if (r->flushing[l] > 0 && r->ready_s[l] <= r->common.now_s) {
            r->saved[l] = r->flushing[l];
            r->flushing[l] = 0;
        }
}

static void end_sets(struct run *r)
{
    bool first = r->period > r->written;
    spend(r, first ? FTK_SIM_SETS : FTK_SIM_REDO, r->spent_s, all_idle_w(r));
    end_flushes(r);
    for (int l = 0; l < r->sim->job.nlevels; l++) {
        if (!is_due(r, l))
            continue;
        double latency = r->sim->job.level[l].latency_s;
        if (latency > 0) {
            r->flushing[l] = r->period;
            r->ready_s[l] = r->common.now_s + latency;
        } else {
            r->saved[l] = r->period;
        }
    }
    r->written = first ? r->period : r->written;
    r->uneven = false;
    r->state = COMPUTE;
}

/* ---- failures -------------------------------------------------------------------------- */

/* Add a sorted list to r->lost. */
static int merge_lost(struct run *r, const int *v, int n)
{
    int *lost = ftk_sim_room(r->lost, &r->room, r->nlost + n, sizeof *lost);
    if (!lost)
        return FTKIT_ERR_NOMEM;
    r->lost = lost;
    int a = r->nlost - 1, b = n - 1, to = r->nlost + n;
    while (b >= 0)
        r->lost[--to] = a >= 0 && r->lost[a] > v[b] ? r->lost[a--] : v[b--];
    int kept = 0;
    for (int i = 0; i < r->nlost + n; i++)
        if (kept == 0 || r->lost[i] != r->lost[kept - 1])
            r->lost[kept++] = r->lost[i];
    r->nlost = kept;
    return FTKIT_OK;
}

/* The number of a node's group.  Groups have at most `group` members, and their sizes differ by
 * one at most; the larger ones come first. */
static int group_of(int node, int nodes, int group)
{
    int groups = (nodes + group - 1) / group, size = nodes / groups, larger = nodes % groups;
    if (node < larger * (size + 1))
        return node / (size + 1);
    return larger + (node - larger * (size + 1)) / size;
}

static bool has_data(const struct run *r)
{
    const struct ftk_model_placement *p = &r->sim->placement;
    int nodes = r->sim->machine.nodes, run = 1;
    const int *lost = r->lost;
    if (p->map == FTK_MODEL_RING && r->nlost > 1 && lost[0] == 0 && lost[r->nlost - 1] == nodes - 1)
        return false;
    for (int i = 0; i < r->nlost; i++) {
        int before = i > 0 ? lost[i - 1] : -1;
        if (p->map == FTK_MODEL_RING && before >= 0 && lost[i] == before + 1)
            return false;
        if (p->map == FTK_MODEL_PAIR && before >= 0 && lost[i] / 2 == before / 2)
            return false;
        if (p->map != FTK_MODEL_PARITY)
            continue;
        bool same =
            before >= 0 && group_of(lost[i], nodes, p->group) == group_of(before, nodes, p->group);
        run = same ? run + 1 : 1;
        if (run > p->parity)
            return false;
    }
    return true;
}

/* Whether each lost node's determinants are on a node that is not lost. */
static bool has_determinants(const struct run *r)
{
    int nodes = r->sim->machine.nodes, reach = (r->sim->acquaintances + 1) / 2;
    for (int i = 0; reach > 0 && r->nlost > 1 && i < r->nlost; i++) {
        int next = r->lost[(i + 1) % r->nlost], to = next - r->lost[i];
        if ((to + nodes) % nodes <= reach)
            return false;
    }
    return true;
}

/* Replace n lost nodes.  false: the job has to start again. */
static bool replace(struct run *r, int n)
{
    int spares = n < r->spares ? n : r->spares, missing = n - spares;
    r->spares -= spares;
    r->common.sums.count[FTK_SIM_SPARES_USED] += spares;
    r->common.sums.count[FTK_SIM_SHORT] += missing > 0;
    if (missing > 0 && (r->sim->when_short == FTK_SIM_RELAUNCH || missing >= r->alive))
        return false;
    r->alive -= missing;
    return true;
}

/* Victims that the job still has: after a shrink its nodes are 0 ... alive - 1. */
static int own_victims(const struct run *r)
{
    int n = 0;
    for (int i = 0; i < r->common.machine.nvictims; i++)
        n += r->common.machine.victim[i] < r->alive;
    return n;
}

/* The level with the newest set that outlives what was lost. */
static int choose_level(const struct run *r, enum ftk_sim_keeps need)
{
    int best = -1;
    for (int l = 0; l < r->sim->job.nlevels; l++)
        if (r->sim->pattern.every[l] > 0 && r->sim->keeps[l] >= need
            && (best < 0 || r->saved[l] > r->saved[best]))
            best = l;
    return best;
}

/* Go back to the set of a level.  alone: only the teams of the lost nodes do lost work again. */
static void roll_back(struct run *r, int level, bool alone)
{
    const struct ftk_model_job *job = &r->sim->job;
    r->front = fmax(r->front, r->done);
    r->period = r->saved[level];
    r->done = (double)r->period * r->sim->pattern.period_s;
    for (int l = 0; l < level; l++) /* the loaded set is written to them at once */
        r->saved[l] = r->period;
    r->fast = alone && !job->level[level].whole && redoes(r);
    r->active = fmin(job->sockets, job->protocol.active * fmax(r->nlost, 1));
    r->uneven = false;
    r->state = RESTART;
    r->left_s = job->level[level].restart_s;
    r->spent_s = 0;
    if (r->sim->keeps[level] == FTK_SIM_MEMORY)
        return;
    r->common.sums.count[FTK_SIM_RELAUNCHES]++;
    r->alive = r->sim->machine.nodes;
    r->spares = r->sim->spares;
    r->nlost = 0;
}

/* What was begun when the failure came is lost. */
static void break_off(struct run *r)
{
    if (r->state == SETS)
        spend(r, FTK_SIM_REDO, r->spent_s, all_idle_w(r));
    else if (r->state == RESTART)
        spend(r, FTK_SIM_RESTART, r->spent_s, all_idle_w(r));
    for (int l = 0; l < r->sim->job.nlevels; l++)
        r->flushing[l] = 0;
}

/* What the failure has left, and who replaces the lost nodes. */
static enum ftk_sim_keeps assess(struct run *r, bool *alone)
{
    enum ftk_sim_keeps need = FTK_SIM_MEMORY;
    *alone = r->sim->log;
    if (r->common.machine.job) {
        r->common.sums.count[FTK_SIM_JOB_LOSSES]++;
        return FTK_SIM_LOCAL;
    }
    if (!has_data(r)) {
        r->common.sums.count[FTK_SIM_DATA_LOST]++;
        need = FTK_SIM_FILES;
    } else if (*alone && !has_determinants(r)) {
        r->common.sums.count[FTK_SIM_DETERMINANTS_LOST]++;
        *alone = false;
    }
    return need;
}

static int fail(struct run *r)
{
    int rc = ftk_machine_fail(&r->common.machine), own = own_victims(r);
    bool alone = false;
    int back = ftk_sim_come_back(&r->common.away, r->common.now_s);
    r->spares = r->spares + back < r->sim->spares ? r->spares + back : r->sim->spares;
    if (rc == FTKIT_OK)
        rc = ftk_sim_send_away(&r->common.away, r->common.machine.back_s, own);
    if (rc != FTKIT_OK || (!r->common.machine.job && own == 0))
        return rc;
    r->common.sums.count[FTK_SIM_FAILURES]++;
    end_flushes(r);
    break_off(r);
    rc = merge_lost(r, r->common.machine.victim, own);
    if (rc != FTKIT_OK)
        return rc;
    enum ftk_sim_keeps need = assess(r, &alone);
    if (!replace(r, own) && need == FTK_SIM_MEMORY)
        need = FTK_SIM_LOCAL;
    roll_back(r, choose_level(r, need), alone);
    return FTKIT_OK;
}

/* ---- a run ----------------------------------------------------------------------------- */

static void begin(struct run *r)
{
    const struct ftk_sim *sim = r->sim;
    r->done = r->front = 0;
    r->end = sim->job.work_s * sim->job.protocol.slowdown;
    r->state = COMPUTE;
    r->period = r->written = 0;
    r->fast = r->uneven = false;
    memset(r->saved, 0, sizeof r->saved);
    memset(r->flushing, 0, sizeof r->flushing);
    r->nlost = 0;
    r->spares = sim->spares;
    r->alive = sim->machine.nodes;
}

/* The job does what it does for s, and has not reached the end of it. */
static void go_on(struct run *r, double s)
{
    r->common.now_s += s;
    if (r->state == COMPUTE) {
        compute(r, r->done + s * speed(r), s);
    } else {
        r->left_s -= s;
        r->spent_s += s;
    }
}

static void end_state(struct run *r, double s)
{
    r->common.now_s += s;
    r->spent_s += s;
    if (r->state == COMPUTE) {
        compute(r, next_position(r), s);
        reach(r);
    } else if (r->state == SETS) {
        end_sets(r);
    } else {
        spend(r, FTK_SIM_RESTART, r->spent_s, all_idle_w(r));
        r->nlost = 0;
        r->state = COMPUTE;
    }
}

static int run_job(void *arg, bool *ended)
{
    struct run *r = arg;
    int rc = FTKIT_OK;
    begin(r);
    while (rc == FTKIT_OK && !(r->state == COMPUTE && r->done >= r->end)
           && r->common.now_s < r->sim->limit_s) {
        double s = r->state == COMPUTE ? (next_position(r) - r->done) / speed(r) : r->left_s;
        double failure = r->common.machine.next_s - r->common.now_s;
        if (failure >= s) {
            end_state(r, s);
        } else {
            go_on(r, fmax(failure, 0));
            rc = fail(r);
        }
    }
    *ended = r->done >= r->end;
    return rc;
}

int ftk_simulate(const struct ftk_sim *sim, uint64_t seed, int runs, struct ftk_sim_result *result)
{
    struct run r = { .sim = sim };
    int rc = ftk_sim_runs(&r.common, &sim->machine, seed, runs, run_job, &r, result);
    free(r.lost);
    return rc;
}
