/* Differences between a replay and the first execution, for ftkit_query().
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_FIGURES_H
#define FTK_LOG_FIGURES_H

#include <stdint.h>

/* A message, a determinant or a value is not what it was in the first execution. */
void ftk_figures_differs(void);
/* How often so far. */
uint64_t ftk_figures_differences(void);

#endif
