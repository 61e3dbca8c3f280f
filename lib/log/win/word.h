/* A word in memory that processes of a node share: one process has it at a time.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FTK_LOG_WIN_WORD_H
#define FTK_LOG_WIN_WORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Wait until this process (me: its number) has the word.  0 is put into it to give it back, with
 * memory_order_release.  False: the process that has it has ended, or a rank has failed; this
 * process does not have the word. */
bool ftk_win_word_take(_Atomic uint32_t *word, uint32_t me);

#endif
