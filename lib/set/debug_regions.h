/* debug.check = regions: report the variables of the program that a rollback has not restored.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * At each line (a set that has been committed) the writable data of the executable are copied.
 * After a rollback to that set they are compared with the copy, and each variable that is in no
 * region and differs is reported by its name.  Only variables of static storage have names (.data
 * and .bss of the executable, not of its shared libraries); the check does not look at the heap and
 * the stacks.  The check changes nothing in the program. */
#ifndef FTK_DEBUG_REGIONS_H
#define FTK_DEBUG_REGIONS_H

#include "core/context.h"

/* The end of ftkit_recover(): note the values with which a process begins its loop. */
void ftk_debug_start(const struct ftkit_ctx *ctx);

/* A set has just been committed: a rollback should restore the present state. */
void ftk_debug_line(const struct ftkit_ctx *ctx);

/* The regions of this process have been restored to the given set. */
void ftk_debug_rolled_back(const struct ftkit_ctx *ctx, uint64_t set);

/* The context closes. */
void ftk_debug_close(const struct ftkit_ctx *ctx);

#endif
