/* Duplications of communicators under way (comm_calls.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_IDUP_H
#define FTK_LOG_IDUP_H

#include "log/base/envelope.h"

/* The contexts that are promised to duplications under way. */
void ftk_idup_promised(struct ftk_contexts *to);

#endif
