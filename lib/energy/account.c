/* An account of energy: which phase has used how much (see energy.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "energy.h"
#include "sensors.h"

struct ftk_account {
    struct ftk_sensors *sensors;
    unsigned under_way;                /* bit p: phase p */
    double read_s;                     /* last reading */
    double counted_s;                  /* up to here the time is in since_s */
    double since_s[FTK_ENERGY_PHASES]; /* since the last reading */
    struct ftk_energy_sum sum[FTK_ENERGY_PHASES];
};

static enum ftk_energy_phase phase_of(const struct ftk_account *m)
{
    int p = FTK_ENERGY_PHASES - 1;
    while (!(m->under_way & 1u << p))
        p--;
    return (enum ftk_energy_phase)p;
}

struct ftk_account *ftk_account_open(const char *sysfs, double now_s)
{
    struct ftk_account *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->sensors = ftk_sensors_open(sysfs, now_s);
    if (!m->sensors) {
        free(m);
        return NULL;
    }
    m->under_way = 1u << FTK_ENERGY_RUN;
    m->read_s = m->counted_s = now_s;
    return m;
}

const char *ftk_account_source(const struct ftk_account *m)
{
    return ftk_sensors_source(m->sensors);
}

static void count_time(struct ftk_account *m, double now_s)
{
    m->since_s[phase_of(m)] += now_s - m->counted_s;
    m->counted_s = now_s;
}

void ftk_account_read(struct ftk_account *m, double now_s, double older_s)
{
    double joules, span = now_s - m->read_s;
    if (span <= 0 || span < older_s)
        return;
    count_time(m, now_s);
    if (ftk_sensors_read(m->sensors, now_s, &joules))
        for (int p = 0; p < FTK_ENERGY_PHASES; p++) {
            m->sum[p].seconds += m->since_s[p];
            m->sum[p].joules += joules * m->since_s[p] / span;
        }
    memset(m->since_s, 0, sizeof m->since_s);
    m->read_s = now_s;
}

void ftk_account_change(
    struct ftk_account *m, enum ftk_energy_phase phase, bool begins, double now_s)
{
    unsigned bit = 1u << phase;
    if (!(m->under_way & bit) == !begins)
        return;
    ftk_account_read(m, now_s, FTK_ENERGY_READ_S);
    count_time(m, now_s);
    m->under_way ^= bit;
}

const struct ftk_energy_sum *ftk_account_sums(const struct ftk_account *m)
{
    return m->sum;
}

void ftk_account_close(struct ftk_account *m)
{
    if (!m)
        return;
    ftk_sensors_close(m->sensors);
    free(m);
}
