/* The table of modes (see mode.h), and the modes that only record on the node.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#include "core/det_modes.h"
#include "log/mode.h"

const struct ftk_det_mode ftk_mode_node = { .records = true };
const struct ftk_det_mode ftk_mode_refuse = { .records = true, .refuses = true };

#define DECLARE(name, word) extern const struct ftk_det_mode ftk_mode_##word;
FTK_DET_MODES(DECLARE)

#define ENTRY(name, word) [FTK_DETS_##name] = &ftk_mode_##word,
static const struct ftk_det_mode *const modes[] = { FTK_DET_MODES(ENTRY) };

const struct ftk_det_mode *ftk_mode_of(int dets)
{
    return modes[dets];
}

static const struct ftk_part *part_of_mode(void)
{
    return &ftk_log.mode->part;
}

const struct ftk_part ftk_part_mode = { .serves = part_of_mode };
