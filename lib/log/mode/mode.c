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

const struct ftk_det_mode *ftk_mode_for(const struct ftk_config *cfg)
{
    if (cfg->log_dets == FTK_DETS_NODE && cfg->replicas > 1)
        return &ftk_mode_node_led;
    if (cfg->log_dets == FTK_DETS_NODE && cfg->line == FTK_LINE_APART)
        return &ftk_mode_node_apart;
    return ftk_mode_of(cfg->log_dets);
}

static const struct ftk_part *part_of_mode(void)
{
    return &ftk_log.mode->part;
}

const struct ftk_part ftk_part_mode = { .serves = part_of_mode };
