/* Periods that follow from cost and mean time between failures.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_PERIOD_H
#define FTK_PERIOD_H

#include "core/config.h"

#define FTK_FIRST_COST_S 0.5 /* assumed until a set has been measured */
#define FTK_LOCAL_SETS 5     /* level.local.every = auto */

/* Return the time between two sets in memory, which cost cost_s each: checkpoint.period if it is a
 * time, else as auto. */
double ftk_period_sets_s(const struct ftk_config *cfg, double cost_s);
/* Return the time between two sets on the file system by level.hdf5.every = auto. */
double ftk_period_files_s(const struct ftk_config *cfg, double cost_s);

#endif
