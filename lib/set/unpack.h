/* Restoring the regions from a segment.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_UNPACK_H
#define FTK_UNPACK_H

#include "core/context.h"

/* Restore the regions from a segment with a good head.  A segment that does not fit leaves all
 * regions untouched.  If its data are not verified yet, each block is compared with its checksum
 * just before it is used: with FTKIT_ERR_CORRUPT the blocks before the bad one are restored. */
int ftk_region_restore(struct ftkit_ctx *ctx, const char *seg, bool verified);

/* Restore region i from record i of a segment of this process; the size of the region is that of
 * the record.  The data are not verified.  FTKIT_ERR_CALLBACK. */
int ftk_region_restore_one(struct ftkit_ctx *ctx, const char *seg, int i);

#endif
