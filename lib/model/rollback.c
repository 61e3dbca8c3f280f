/* Time and energy of a job that rolls back to checkpoints (see rollback.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "model/rollback.h"

#include <math.h>

#include "model/period.h"

/* The levels of a pattern, the lowest first.  A failure that needs a level that is not used needs
 * the next one. */
struct used {
    int n;
    const struct ftk_model_level *level[FTK_MODEL_LEVELS];
    double share[FTK_MODEL_LEVELS];
    int every[FTK_MODEL_LEVELS];
};

static struct used levels_of(const struct ftk_model_job *job, const int *every)
{
    struct used u = { 0 };
    double share = 0;
    for (int l = 0; l < job->nlevels; l++) {
        share += job->level[l].share;
        if (every[l] == 0)
            continue;
        u.level[u.n] = &job->level[l];
        u.every[u.n] = every[l];
        u.share[u.n] = share;
        share = 0;
        u.n++;
    }
    return u;
}

/* A failure that needs level l, on average: time and energy until the job is where it was. */
struct loss {
    double redo_s, redo_j, restart_s;
};

/* The bracket of equations 4.4 to 4.6, and Omega of 4.10 to 4.12.  The failure hits the work or
 * the checkpoint at the end of a period of this level, in proportion to their lengths.  Checkpoints
 * of lower levels inside the period are written again when work is redone. */
static struct loss loss_of(const struct ftk_model_job *job, const struct used *u, int l, double tau)
{
    const struct ftk_model_level *level = u->level[l];
    const struct ftk_model_protocol *p = &job->protocol;
    double speed = level->whole ? 1 : p->speed, imbalance = level->whole ? 1 : p->imbalance;
    double active = level->whole || p->active > job->sockets ? job->sockets : p->active;
    double front_w = active * job->busy_w + (job->sockets - active) * job->idle_w;
    double all_w = job->sockets * job->busy_w, idle_w = job->sockets * job->idle_w;
    double work = tau * u->every[l], inner = 0, last = 0;
    for (int k = 0; k <= l; k++) {
        last += u->level[k]->cost_s;
        inner += u->level[k]->cost_s * ((double)u->every[l] / u->every[k] - 1);
    }
    double a = (work + inner) / (work + inner + last), b = 1 - a;
    double late = level->latency_s / speed; /* a failure finds the new checkpoint not complete */
    double redo = work / speed;
    double rest = work / 2 * (imbalance - 1);
    struct loss x;
    x.redo_s = a * ((redo + inner) / 2 + rest) + b * (redo + inner + last / 2) + late;
    x.redo_j = a * (redo / 2 * front_w + inner / 2 * idle_w + rest * all_w)
               + b * (redo * front_w + (inner + last / 2) * idle_w) + late * front_w;
    x.restart_s = level->restart_s;
    return x;
}

/* Whether each level writes a checkpoint before the end of the work, and none before the last one
 * of this level can be used. */
static bool is_possible(const struct used *u, double tau, double work)
{
    for (int l = 0; l < u->n; l++) {
        double period = tau * u->every[l];
        if (period < u->level[l]->latency_s || period > work * (1 + 1e-9))
            return false;
    }
    return u->n > 0 && tau > 0;
}

bool ftk_model_rollback(const struct ftk_model_job *job, const struct ftk_model_pattern *pattern,
    struct ftk_model_cost *cost)
{
    struct used u = levels_of(job, pattern->every);
    double tau = pattern->period_s, work = job->work_s * job->protocol.slowdown;
    double sets = 0, redo = 0, redo_j = 0, restart = 0;
    if (!is_possible(&u, tau, work))
        return false;
    for (int l = 0; l < u.n; l++) {
        struct loss x = loss_of(job, &u, l, tau);
        double number = work / (tau * u.every[l]) - 1; /* the end needs none */
        sets += fmax(number, 0) * u.level[l]->cost_s;
        redo += u.share[l] * x.redo_s;
        redo_j += u.share[l] * x.redo_j;
        restart += u.share[l] * x.restart_s;
    }
    double left = 1 - (redo + restart) / job->mtbf_s; /* of the time, for progress */
    if (!(left > 0))
        return false;
    struct ftk_model_cost c = { .work_s = job->work_s };
    c.time_s = (work + sets) / left;
    c.failures = c.time_s / job->mtbf_s;
    c.log_s = work - job->work_s;
    c.checkpoint_s = sets;
    c.redo_s = c.failures * redo;
    c.restart_s = c.failures * restart;
    c.joules = job->sockets * (work * job->busy_w + (sets + c.restart_s) * job->idle_w)
               + c.failures * redo_j;
    if (!isfinite(c.time_s))
        return false;
    *cost = c;
    return true;
}

double ftk_model_level_period_s(const struct ftk_model_pattern *pattern, int level)
{
    return pattern->period_s * pattern->every[level];
}

/* ---- the optimum --------------------------------------------------------------------- */

/* What is looked for, INFINITY without progress. */
static double value(const struct ftk_model_job *job, enum ftk_model_aim aim,
    struct ftk_model_pattern *pattern, double log_period)
{
    struct ftk_model_cost c;
    pattern->period_s = exp(log_period);
    if (!ftk_model_rollback(job, pattern, &c))
        return INFINITY;
    return aim == FTK_MODEL_TIME ? c.time_s : c.joules;
}

/* Set the period of a pattern whose multiples are given: the best of a grid, and then the golden
 * section around it.  Returns the value there. */
static double best_period(
    const struct ftk_model_job *job, enum ftk_model_aim aim, struct ftk_model_pattern *p)
{
    enum { GRID = 96, STEPS = 48 };
    const double golden = (sqrt(5) - 1) / 2;
    double cost = 0;
    for (int l = job->nlevels - 1; l >= 0; l--) /* of the lowest level that is used */
        cost = p->every[l] ? job->level[l].cost_s : cost;
    /* the optimum is a mean of cost and MTBF; work_s ends the range where no set is written */
    double high = log(job->work_s * job->protocol.slowdown),
           low = fmin(log(fmax(cost, 1e-9 * job->mtbf_s)), high) - 5;
    double at = high, best = INFINITY, step = (high - low) / GRID;
    for (int i = 0; i <= GRID; i++) {
        double v = value(job, aim, p, low + i * step);
        if (v < best) {
            best = v;
            at = low + i * step;
        }
    }
    double a = at - step, b = fmin(at + step, high);
    for (int i = 0; i < STEPS && isfinite(best); i++) {
        double x = b - golden * (b - a), y = a + golden * (b - a);
        if (value(job, aim, p, x) <= value(job, aim, p, y))
            b = y;
        else
            a = x;
    }
    double v = value(job, aim, p, (a + b) / 2);
    if (v <= best)
        return v;
    return value(job, aim, p, at);
}

/* The number of periods of the level below in one of this level, where the overhead is least to
 * the first order: each period is sqrt(2 cost / rate) (Benoit et al., theorem 1). */
static int first_ratio(const struct ftk_model_level *below, double share_below,
    const struct ftk_model_level *level, double share)
{
    double r = sqrt(fmax(level->cost_s, 1e-9) / fmax(share, 1e-12) * fmax(share_below, 1e-12)
                    / fmax(below->cost_s, 1e-9));
    return r < 1 ? 1 : r > 1e6 ? 1000000 : (int)lround(r);
}

static void set_every(
    struct ftk_model_pattern *p, const int *level, const int *ratio, int n, int nlevels)
{
    int product = 1;
    for (int l = 0; l < nlevels; l++)
        p->every[l] = 0;
    for (int i = 0; i < n; i++) {
        product = product > 100000000 / ratio[i] ? 100000000 : product * ratio[i];
        p->every[level[i]] = product;
    }
}

/* The search for the best pattern that uses exactly some levels. */
struct search {
    const struct ftk_model_job *job;
    enum ftk_model_aim aim;
    int n, level[FTK_MODEL_LEVELS]; /* those used, the lowest first */
    int ratio[FTK_MODEL_LEVELS];    /* periods of the level below in one of this level */
    double best;
    struct ftk_model_pattern pattern;
};

/* Take another ratio for the i-th level if it is better, or as bad without progress. */
static bool try_ratio(struct search *s, int i, int ratio)
{
    struct ftk_model_pattern p = { 0 };
    int old = s->ratio[i];
    if (ratio < 1 || ratio == old)
        return false;
    s->ratio[i] = ratio;
    set_every(&p, s->level, s->ratio, s->n, s->job->nlevels);
    double v = best_period(s->job, s->aim, &p);
    if (v < s->best || (ratio < old && !isfinite(v) && !isfinite(s->best))) {
        s->best = v;
        s->pattern = p;
        return true;
    }
    s->ratio[i] = old;
    return false;
}

/* Find the best pattern that uses exactly the levels in mask: from the first-order ratios downhill,
 * by halves and then in ever smaller steps. */
static void find_pattern(struct search *s, unsigned mask)
{
    int every[FTK_MODEL_LEVELS] = { 0 };
    s->n = 0;
    for (int l = 0; l < s->job->nlevels; l++)
        if (mask & 1u << l) {
            every[l] = 1;
            s->level[s->n++] = l;
        }
    struct used u = levels_of(s->job, every);
    s->ratio[0] = 1;
    for (int i = 1; i < s->n; i++)
        s->ratio[i] = first_ratio(u.level[i - 1], u.share[i - 1], u.level[i], u.share[i]);
    set_every(&s->pattern, s->level, s->ratio, s->n, s->job->nlevels);
    s->best = best_period(s->job, s->aim, &s->pattern);
    for (int i = 1; i < s->n; i++)
        while (try_ratio(s, i, s->ratio[i] / 2))
            ;
    for (int i = 1; i < s->n; i++)
        for (int step = s->ratio[i] / 4 + 1; step > 0; step /= 2)
            for (int j = 1; j < s->n; j++)
                while (try_ratio(s, j, s->ratio[j] + step) || try_ratio(s, j, s->ratio[j] - step))
                    ;
}

bool ftk_model_optimum(const struct ftk_model_job *job, enum ftk_model_aim aim,
    struct ftk_model_pattern *pattern, struct ftk_model_cost *cost)
{
    unsigned top = 1u << (job->nlevels - 1);
    double best = INFINITY;
    for (unsigned mask = top; mask < 2 * top; mask++) {
        struct search s = { .job = job, .aim = aim };
        find_pattern(&s, mask);
        if (s.best < best) {
            best = s.best;
            *pattern = s.pattern;
        }
    }
    return isfinite(best) && ftk_model_rollback(job, pattern, cost);
}
