/* The receives under way at a line.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_RECEIVES_H
#define FTK_LOG_RECEIVES_H

#include <stdbool.h>

/* Line apart: whether the receives under way let this rank cut.  One of a replay does not, when
 * determinants prescribe its match or its cancel: they are from before the cut.  Nor does one that
 * a repair has bound, or whose cancel the program has called, until the outcome is known. */
bool ftk_receives_may_cut(void);
/* One look at each of these receives: the program may never wait for it. */
void ftk_receives_look(void);

#endif
