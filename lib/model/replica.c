/* Jobs that run each rank r times (see replica.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "model/replica.h"

#include <math.h>

double ftk_model_replicas_s(const struct ftk_model_replicas *r)
{
    return r->work_s * (r->beta * r->degree + 1 - r->beta);
}

bool ftk_model_cloned_s(const struct ftk_model_replicas *r, double *time_s)
{
    double left = 1 - r->nodes * r->degree * r->clone_s / r->mtbf_s;
    if (!(left > 0))
        return false;
    *time_s = ftk_model_replicas_s(r) / left;
    return true;
}

bool ftk_model_uncloned_s(const struct ftk_model_replicas *r, double *time_s)
{
    double t = ftk_model_replicas_s(r);
    if (t >= r->mtbf_s)
        return false;
    double losses = -r->nodes * log1p(-pow(t / r->mtbf_s, r->degree)); /* -ln R_sys */
    double total = losses > 0 ? (r->relaunch_s + t / losses) * expm1(losses) : t;
    if (!isfinite(total))
        return false;
    *time_s = total;
    return true;
}

/* ---- spares -------------------------------------------------------------------------- */

int ftk_model_spares_mean(double nodes, double time_s, double mtbf_s, double repair_s)
{
    double all = ceil(nodes * time_s / mtbf_s), intervals = 1;
    if (repair_s > 0)
        intervals = fmax(floor(time_s / repair_s), 1);
    return (int)fmin(ceil(all / intervals), 1e9);
}

int ftk_model_spares(double nodes, double time_s, double mtbf_s, double repair_s, double risk)
{
    double away_s = repair_s > 0 ? fmin(repair_s, time_s) : time_s;
    double mean = nodes * away_s / mtbf_s, below = 0, far = 50 * sqrt(mean) + 100;
    if (!(mean > 0))
        return 0;
    int most = (int)fmin(mean + far, 1e9), k = (int)fmin(fmax(mean - far, 0), most);
    while (k < most) { /* what lies below the first k is less than the rounding of 1 */
        below += exp(k * log(mean) - mean - lgamma(k + 1.0));
        if (1 - below <= risk)
            break;
        k++;
    }
    return k;
}
