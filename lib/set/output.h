/* Files to which the program appends (ftkit_register_offset).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_OUTPUT_H
#define FTK_OUTPUT_H

#include "core/context.h"

/* A fresh start: shorten the files to the offsets that the program has set. */
int ftk_output_begin(struct ftkit_ctx *ctx);

#endif
