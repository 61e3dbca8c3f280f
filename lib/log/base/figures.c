/* Differences between a replay and the first execution (see figures.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "log/base/figures.h"

#include "log/base/part.h"

static uint64_t differences;

void ftk_figures_differs(void)
{
    differences++;
}

uint64_t ftk_figures_differences(void)
{
    return differences;
}

static void figures(ftkit_info *info)
{
    info->log_differs = differences;
}

static void close_differences(void)
{
    differences = 0;
}

const struct ftk_part ftk_part_differs = { .close = close_differences, .figures = figures };
