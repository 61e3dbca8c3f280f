/* Writers of struct ftk_log_stats: the figures that several files count.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_FIGURES_H
#define FTK_LOG_FIGURES_H

#include "log/log.h"

/* A message, a determinant or a value is not what it was in the first execution. */
static inline void ftk_figures_differs(void)
{
    ftk_log.stats.differs++;
}

/* A message of so many bytes is in the log. */
static inline void ftk_figures_logged(size_t bytes)
{
    ftk_log.stats.logged_messages++;
    ftk_log.stats.logged_bytes += bytes;
}

/* Requests in the set: so many, and so many more. */
static inline void ftk_figures_requests(uint64_t n)
{
    ftk_log.stats.requests = n;
}
static inline void ftk_figures_more_requests(uint64_t n)
{
    ftk_log.stats.requests += n;
}

#endif
