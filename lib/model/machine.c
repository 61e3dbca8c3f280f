/* A machine whose nodes fail (see machine.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "model/machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ftkit.h"

/* A renewal process with gaps of another law than the exponential one is not at rest when the
 * first gap begins.  So the job begins at a random moment within so many mean gaps. */
#define WARM_UP 64

int ftk_machine_open(struct ftk_machine *m, const struct ftk_machine_law *law)
{
    memset(m, 0, sizeof *m);
    m->law = law;
    if (law->log || law->single || law->multiplicity.law != FTK_MODEL_ZIPF)
        return FTKIT_OK;
    m->zipf = malloc((size_t)law->nodes * sizeof *m->zipf);
    if (!m->zipf)
        return FTKIT_ERR_NOMEM;
    ftk_random_zipf_table(law->multiplicity.parameter, law->nodes, m->zipf);
    return FTKIT_OK;
}

void ftk_machine_close(struct ftk_machine *m)
{
    free(m->zipf);
    free(m->victim);
    free(m->back_s);
    memset(m, 0, sizeof *m);
}

/* ---- when ---------------------------------------------------------------------------- */

static double draw_gap(struct ftk_machine *m)
{
    const struct ftk_machine_law *law = m->law;
    if (law->shape == 1)
        return ftk_random_exponential(&m->gaps, law->mtbf_s);
    return ftk_random_weibull(&m->gaps, law->shape, law->scale_s);
}

/* The nodes of the log and of the job: the smaller one has some of the nodes of the other. */
static int all_nodes(const struct ftk_machine *m)
{
    return m->law->log->nodes > m->law->nodes ? m->law->log->nodes : m->law->nodes;
}

/* Begin at a random moment of the log: the next failure is the first one from then on. */
static void start_log(struct ftk_machine *m)
{
    const struct ftk_machine_log *log = m->law->log;
    double moment = 0;
    m->at = 0;
    m->turn = 0;
    if (!m->law->from_start) {
        moment = log->length_s * ftk_random_unit(&m->gaps);
        m->turn = (int)ftk_random_below(&m->nodes, (uint64_t)all_nodes(m));
    }
    m->from_s = -moment;
    while (m->at < log->n && log->v[m->at].at_s < moment)
        m->at++;
}

static void next_of_log(struct ftk_machine *m)
{
    const struct ftk_machine_log *log = m->law->log;
    if (m->at == log->n) {
        m->at = 0;
        m->from_s += log->length_s;
    }
    m->next_s = m->from_s + log->v[m->at].at_s;
}

void ftk_machine_start(struct ftk_machine *m, uint64_t seed)
{
    ftk_random_seed(&m->gaps, seed, FTK_RANDOM_GAPS);
    ftk_random_seed(&m->sizes, seed, FTK_RANDOM_SIZES);
    ftk_random_seed(&m->nodes, seed, FTK_RANDOM_NODES);
    ftk_random_seed(&m->repairs, seed, FTK_RANDOM_REPAIRS);
    m->nvictims = 0;
    m->job = false;
    if (m->law->log) {
        start_log(m);
        next_of_log(m);
        return;
    }
    m->next_s = 0;
    if (m->law->shape != 1)
        m->next_s = -WARM_UP * m->law->mtbf_s * ftk_random_unit(&m->gaps);
    do
        m->next_s += draw_gap(m);
    while (m->next_s < 0);
}

/* ---- which --------------------------------------------------------------------------- */

static int make_room(struct ftk_machine *m, int n)
{
    if (n <= m->room)
        return FTKIT_OK;
    int room = n + 16;
    int *victim = realloc(m->victim, (size_t)room * sizeof *victim);
    if (victim)
        m->victim = victim;
    double *back = realloc(m->back_s, (size_t)room * sizeof *back);
    if (back)
        m->back_s = back;
    if (!victim || !back)
        return FTKIT_ERR_NOMEM;
    m->room = room;
    return FTKIT_OK;
}

/* Insert a node at its place in the order, unless it is there. */
static void add_victim(struct ftk_machine *m, int node)
{
    int low = 0, high = m->nvictims;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (m->victim[middle] < node)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < m->nvictims && m->victim[low] == node)
        return;
    memmove(
        &m->victim[low + 1], &m->victim[low], (size_t)(m->nvictims - low) * sizeof m->victim[0]);
    m->victim[low] = node;
    m->nvictims++;
}

static int draw_size(struct ftk_machine *m)
{
    const struct ftk_machine_law *law = m->law;
    int n = 1;
    if (m->zipf)
        n = ftk_random_zipf(&m->sizes, m->zipf, law->nodes);
    else if (!law->single)
        n = ftk_random_geometric(&m->sizes, law->multiplicity.parameter);
    return n < law->nodes ? n : law->nodes;
}

static int draw_victims(struct ftk_machine *m)
{
    int n = draw_size(m), rc = make_room(m, n);
    while (rc == FTKIT_OK && m->nvictims < n)
        add_victim(m, (int)ftk_random_below(&m->nodes, (uint64_t)m->law->nodes));
    return rc;
}

static int victims_of_log(struct ftk_machine *m, const struct ftk_machine_failure *f)
{
    const int *node = m->law->log->node + f->first;
    int all = all_nodes(m), rc = make_room(m, (int)f->n);
    for (size_t i = 0; rc == FTKIT_OK && i < f->n; i++) {
        int victim = (int)(((int64_t)node[i] + m->turn) % all);
        if (victim < m->law->nodes)
            add_victim(m, victim);
    }
    return rc;
}

/* ---- for how long -------------------------------------------------------------------- */

static double draw_repair(struct ftk_machine *m)
{
    const struct ftk_machine_law *law = m->law;
    if (law->repair_sigma > 0)
        return ftk_random_lognormal(&m->repairs, law->repair_s, law->repair_sigma);
    return law->repair_s > 0 ? law->repair_s : (double)INFINITY;
}

int ftk_machine_fail(struct ftk_machine *m)
{
    const struct ftk_machine_failure *f = m->law->log ? &m->law->log->v[m->at] : NULL;
    double now = m->next_s;
    int rc = FTKIT_OK;
    m->nvictims = 0;
    m->job = m->law->job_loss > 0 && ftk_random_unit(&m->sizes) < m->law->job_loss;
    if (!m->job)
        rc = f ? victims_of_log(m, f) : draw_victims(m);
    for (int i = 0; i < m->nvictims; i++)
        m->back_s[i] = now + (f && f->repair_s >= 0 ? f->repair_s : draw_repair(m));
    if (f) {
        m->at++;
        next_of_log(m);
    } else {
        m->next_s = now + draw_gap(m);
    }
    return rc;
}
