/* The optimal compute time between two checkpoints of one level (see period.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "model/period.h"

#include <math.h>

double ftk_model_young_s(double cost_s, double mtbf_s)
{
    return sqrt(2 * cost_s * mtbf_s);
}

double ftk_model_daly_s(double cost_s, double mtbf_s)
{
    if (cost_s >= 2 * mtbf_s)
        return mtbf_s;
    double x = cost_s / (2 * mtbf_s);
    return ftk_model_young_s(cost_s, mtbf_s) * (1 + sqrt(x) / 3 + x / 9) - cost_s;
}
