/* Periods that follow from cost and mean time between failures (see period.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "period.h"

#include "model/period.h"

double ftk_period_sets_s(const struct ftk_config *cfg, double cost_s)
{
    if (cfg->period.kind == FTK_PERIOD_SECONDS)
        return cfg->period.value;
    return ftk_model_daly_s(cost_s, cfg->mtbf_s / FTK_MODEL_SHARE_MEMORY);
}

double ftk_period_files_s(const struct ftk_config *cfg, double cost_s)
{
    return ftk_model_daly_s(cost_s, cfg->mtbf_s / (1 - FTK_MODEL_SHARE_MEMORY));
}
