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
/* Daly, FGCS 22 (2006), higher order; mtbf_s if cost_s >= 2 mtbf_s. */
double ftk_model_daly_s(double cost_s, double mtbf_s);

#endif
