/* Regions in memory of a device: the end of a process that has lost such memory.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_DEVICE_H
#define FTK_DEVICE_H

#include "core/context.h"

/* An access to a region has returned rc; so does this function.  If all memory of a device has been
 * lost, and device.fault = replace in a job that repairs, the process ends here: the repair
 * replaces it. */
int ftk_device_done(const struct ftkit_ctx *ctx, int rc);

/* Before regions are packed into a segment: if some are in memory of a device, the device may
 * access the segment from now on. */
struct ftk_mem_seg;
void ftk_device_pin(const struct ftkit_ctx *ctx, struct ftk_mem_seg *s);

/* Whether memory of a device has been lost since the last look.  It does not wait, and takes less
 * than a microsecond.  The watchdog of the node knows from the first look on that this process has
 * such memory. */
int ftk_device_look(const struct ftkit_ctx *ctx);

#endif
