/* Periods that follow from cost and mean time between failures (see period.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "period.h"

#include <math.h>

/* Share of failures that the memory levels survive; the rest needs the file system
 * (Moody et al., SC 2010: about 85 %). */
#define SHARE_MEMORY 0.85

/* Return the optimal compute time between checkpoints, in seconds.  A checkpoint costs cost_s, and
 * a failure comes every mtbf_s (Daly, FGCS 22 (2006), higher order; mtbf_s if cost_s >= 2
 * mtbf_s). */
static double daly_s(double cost_s, double mtbf_s)
{
    if (cost_s >= 2 * mtbf_s)
        return mtbf_s;
    double x = cost_s / (2 * mtbf_s);
    return sqrt(2 * cost_s * mtbf_s) * (1 + sqrt(x) / 3 + x / 9) - cost_s;
}

double ftk_period_sets_s(const struct ftk_config *cfg, double cost_s)
{
    if (cfg->period.kind == FTK_PERIOD_SECONDS)
        return cfg->period.value;
    return daly_s(cost_s, cfg->mtbf_s / SHARE_MEMORY);
}

double ftk_period_files_s(const struct ftk_config *cfg, double cost_s)
{
    return daly_s(cost_s, cfg->mtbf_s / (1 - SHARE_MEMORY));
}
