/* Stop letters of a line apart (determinant/stop.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_STOP_H
#define FTK_LOG_STOP_H

#include "log/mode.h"

/* The mode node, where lines are apart. */
extern const struct ftk_det_mode ftk_mode_node_apart;
/* This rank cuts: no rank has got a letter for this set. */
int ftk_stop_cut(void);

#endif
