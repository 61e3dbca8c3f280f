/* A line about ranks that wait in ftkit_open() for ranks that do not come.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_OPENING_H
#define FTK_OPENING_H

#include "core/ftk.h"

struct ftk_opening;

/* This process, which has this rank in the communicator of ftkit_open(), begins to wait for the
 * other ranks.  After say_s (recover.stall_say), twice, four times ... that time a thread writes a
 * line, on the first two ranks only; after 20 times say_s the job ends.  NULL: say_s is 0, or there
 * is no thread. */
struct ftk_opening *ftk_opening_begin(int rank, double say_s);
/* The ranks have come.  NULL: no effect. */
void ftk_opening_end(struct ftk_opening *o);

#endif
