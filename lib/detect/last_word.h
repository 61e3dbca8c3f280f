/* The last word of a process: why it ends, in the page of the watchdog, which outlives it.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LAST_WORD_H
#define FTK_LAST_WORD_H

#include "dog.h"

/* This process ends for a reason (enum ftkit_reason, with its code).  dog may be NULL. */
void ftk_last_word(struct ftk_watchdog *dog, int reason, int code);
/* This process ends another one of the node. */
void ftk_last_word_of(struct ftk_dog_page *page, int job, int world_rank, int reason, int code);
/* The last word of a process.  False: there is none on this node.  dog may be NULL. */
bool ftk_last_word_find(
    const struct ftk_watchdog *dog, int job, int world_rank, int *reason, int *code);

#endif
