/* The optimal compute time between two checkpoints of one level.
 *
 * All functions of lib/model are pure: no MPI, no input or output, no state.  Times are seconds
 * unless a comment says that only ratios count.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_MODEL_PERIOD_H
#define FTK_MODEL_PERIOD_H

/* Share of failures that the memory levels survive; the rest needs the file system (Moody et al.,
 * SC 2010: about 85 %). */
#define FTK_MODEL_SHARE_MEMORY 0.85

/* A checkpoint costs cost_s, and a failure comes every mtbf_s. */

/* Young, CACM 17 (1974): the first order, sqrt(2 C M). */
double ftk_model_young_s(double cost_s, double mtbf_s);
/* Daly, FGCS 22 (2006), first order: sqrt(2 C M) - C. */
double ftk_model_daly_first_s(double cost_s, double mtbf_s);
/* Daly, the same, higher order; mtbf_s if cost_s >= 2 mtbf_s. */
double ftk_model_daly_s(double cost_s, double mtbf_s);
/* The minimum of ftk_model_stretch() for exponential failures. */
double ftk_model_exact_s(double cost_s, double mtbf_s);
/* Expected time for each second of work, with failures also in checkpoints and restarts (Daly, the
 * same, complete model): (M / tau) e^(R / M) (e^((tau + C) / M) - 1). */
double ftk_model_stretch(double period_s, double cost_s, double restart_s, double mtbf_s);
/* Meneses, PhD thesis, University of Illinois (2013), equation 4.3: parallel ranks redo the lost
 * work, failures are counted on useful time.  We keep the term in cost_s * cost_s. */
double ftk_model_parallel_s(double cost_s, double restart_s, double mtbf_s, double parallel);
/* The total time for work_s with this period: the same, equation 4.2, without slowdown. */
double ftk_model_parallel_time_s(double work_s, double period_s, double cost_s, double restart_s,
    double mtbf_s, double parallel);

#endif
