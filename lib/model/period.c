/* The optimal compute time between two checkpoints of one level (see period.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "model/period.h"

#include <math.h>

double ftk_model_young_s(double cost_s, double mtbf_s)
{
    return sqrt(2 * cost_s * mtbf_s);
}

double ftk_model_daly_first_s(double cost_s, double mtbf_s)
{
    return ftk_model_young_s(cost_s, mtbf_s) - cost_s;
}

double ftk_model_daly_s(double cost_s, double mtbf_s)
{
    if (cost_s >= 2 * mtbf_s)
        return mtbf_s;
    double x = cost_s / (2 * mtbf_s);
    return ftk_model_young_s(cost_s, mtbf_s) * (1 + sqrt(x) / 3 + x / 9) - cost_s;
}

/* The derivative of the stretch is zero where e^(x + c) (1 - x) = 1 with x = tau / M, c = C / M.
 * The logarithm of the left side falls from c at x = 0 to minus infinity at x = 1. */
double ftk_model_exact_s(double cost_s, double mtbf_s)
{
    double c = cost_s / mtbf_s, low = 0, high = 1;
    for (int i = 0; i < 60; i++) {
        double x = (low + high) / 2;
        if (log1p(-x) + x + c > 0)
            low = x;
        else
            high = x;
    }
    return mtbf_s * (low + high) / 2;
}

double ftk_model_stretch(double period_s, double cost_s, double restart_s, double mtbf_s)
{
    return mtbf_s / period_s * exp(restart_s / mtbf_s) * expm1((period_s + cost_s) / mtbf_s);
}

double ftk_model_parallel_s(double cost_s, double restart_s, double mtbf_s, double parallel)
{
    return sqrt(2 * cost_s * parallel * (mtbf_s + restart_s) + cost_s * cost_s);
}

double ftk_model_parallel_time_s(
    double work_s, double period_s, double cost_s, double restart_s, double mtbf_s, double parallel)
{
    double periods = work_s / period_s, each_s = period_s + cost_s;
    return work_s + (periods - 1) * cost_s
           + periods * each_s / mtbf_s * (each_s / (2 * parallel) + restart_s);
}
